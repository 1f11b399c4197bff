//! What a server keeps beside its pools and must find wherever it is started next: its tokens and rate limits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files of a data directory, or settings of a namespace.
#[derive(Clone)]
pub(crate) enum Files {
    Directory(PathBuf),
    Namespace(rados::Settings),
}

impl Files {
    /// Reads a file; none if there is none.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self {
            Files::Directory(root) => match fs::read(root.join(name)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
            Files::Namespace(settings) => settings.read(name),
        }
    }

    /// Replaces a file. In a directory, up to `versions` earlier versions are kept beside it; `NAME.1` is the newest.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8], versions: u32) -> io::Result<()> {
        match self {
            Files::Directory(root) => {
                let path = root.join(name);
                keep_version(&path, versions)?;
                store::replace_file(&path, bytes)
            }
            Files::Namespace(settings) => settings.replace(name, bytes),
        }
    }

    /// Describes where a file is.
    pub(crate) fn place(&self, name: &str) -> String {
        match self {
            Files::Directory(root) => root.join(name).display().to_string(),
            Files::Namespace(settings) => format!("the setting {name:?} of {}", settings.location()),
        }
    }
}

/// Keeps the file at `path` as the newest of the earlier versions. A crash may leave a gap among them, or the newest twice.
fn keep_version(path: &Path, versions: u32) -> io::Result<()> {
    let version = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let unless_missing = |done: io::Result<()>| match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    if versions == 0 {
        return Ok(());
    }
    for number in (1..versions).rev() {
        unless_missing(fs::rename(version(number), version(number + 1)))?;
    }
    unless_missing(fs::hard_link(path, version(1)))
}
