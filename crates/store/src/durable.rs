//! Changes of directories that survive a power loss: whatever is created, renamed or removed, its directory is synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes the entries of `directory` durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Creates a directory that only this user can search. It will hold the files of clients, whatever their modes.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Returns options that create a file which only this user can open, whatever the umask.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates `path` with `content`, durable once its directory is synced. An existing file is an error.
pub(crate) fn create_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = private_file().write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Replaces the file `path` atomically: after a crash it has the old contents or `content`.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    create_file(&fresh, content)?;
    fs::rename(&fresh, path)?;
    sync_directory(parent(path))
}

/// Renames a file and makes the change durable in both directories.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_directory(parent(to))?;
    if parent(from) == parent(to) { Ok(()) } else { sync_directory(parent(from)) }
}

/// Removes a file. A missing file is no error.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes a directory with its contents. A missing directory is no error.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_directory(parent(path)),
    }
}

/// Returns the directory that holds `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
