//! Tells data directories from directories that hold other files, which are never touched.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::{DELETED, KNOWN, NEW, VOLUMES, is_volume};
use crate::error::{Error, ErrorKind};
use crate::media::names;

/// Directory that some file systems have in their root. It does not count as a file of somebody else, so that a data
/// directory can be the root of a file system of its own.
pub(super) const LOST_AND_FOUND: &str = "lost+found";

/// What a data directory may be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// The directory does not exist.
    Missing,
    /// It is empty but for `lost+found`.
    Nothing,
    /// It is a data directory.
    Volumes,
}

/// Examines the directory at `root`. Anything but a data directory or an empty one is an error.
pub(super) fn contents(root: &Path) -> Result<Contents, Error> {
    let entries = match entries(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::Missing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let sentence =
                format!("{} is not a directory; choose an empty directory, or a new one", root.display());
            return Err(Error::new(ErrorKind::NotFound, sentence));
        }
        Err(error) => return Err(Error::io("read the data directory", root, &error)),
    };
    match &entries[..] {
        [] => Ok(Contents::Nothing),
        entries if has_volumes(root, entries) => Ok(Contents::Volumes),
        _ => Err(Error::new(
            ErrorKind::Foreign,
            format!(
                "{} has other files. Holdfast does not share existing files; it keeps volumes of its own. Choose an empty \
                 directory.",
                root.display()
            ),
        )),
    }
}

fn entries(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        found.push(entry?.file_name());
    }
    found.retain(|name| name != LOST_AND_FOUND);
    Ok(found)
}

/// Whether a directory with these `entries` is a data directory. A folder `volumes` alone is not enough, because other
/// software has such folders too: beside it is the lock file, or in it are traces of a volume. A new data directory that a
/// crash interrupted has neither, but its `volumes` is empty and its only entry.
fn has_volumes(root: &Path, entries: &[OsString]) -> bool {
    let volumes = root.join(VOLUMES);
    if !volumes.is_dir() {
        return false;
    }
    if entries.iter().any(|name| name == names::LOCK) {
        return true;
    }
    // A folder that this user may not search is taken for one with volumes, so that using it says why it fails.
    let Ok(inside) = self::entries(&volumes) else { return true };
    let is_ours = |name: &OsString| {
        let prefix =
            name.to_str().is_some_and(|name| [KNOWN, NEW, DELETED].iter().any(|ours| name.starts_with(ours)));
        prefix || is_volume(&volumes.join(name))
    };
    inside.iter().any(is_ours) || (inside.is_empty() && entries.len() == 1)
}
