//! Keeps the files of a data directory from everybody but the user that serves it, and root. They hold the data of
//! clients and the secret of their file handles.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::error::{Error, ErrorKind};

/// The permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Whether this process is the superuser's, and the directory another user's.
pub(super) fn is_foreign_to_root(directory: &Path) -> Result<bool, Error> {
    Ok(geteuid().is_root() && owner_of(directory)? != geteuid().as_raw())
}

fn owner_of(directory: &Path) -> Result<u32, Error> {
    let found = fs::metadata(directory);
    Ok(found.map_err(|error| Error::io("examine the data directory", directory, &error))?.uid())
}

/// Refuses a directory of another user, who could not open the files that this process would create in it.
pub(super) fn check_owner(directory: &Path) -> Result<(), Error> {
    let (owner, us) = (owner_of(directory)?, geteuid().as_raw());
    if owner == us {
        return Ok(());
    }
    let sentence = format!(
        "{0} belongs to user {owner}, and this is user {us}: run the command as its owner (sudo -u '#{owner}' holdfast \
         ...), or give the directory with all its files to user {us} (chown -R {us} {0})",
        directory.display()
    );
    Err(Error::new(ErrorKind::Owner, sentence))
}

/// Removes the rights of everybody but the owner to `directories`, and to `trees` with all that is in them. A missing path
/// is not an error.
pub(super) fn make_private(directories: &[&Path], trees: &[PathBuf]) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Error::io("restrict access to", &path, &error)
    };
    let mut mended = 0;
    for path in directories {
        mended += usize::from(tighten(path).map_err(failed(path))?);
    }
    for path in trees {
        mended += tighten_tree(path).map_err(failed(path))?;
    }
    if mended > 0 {
        let first = directories.first().copied().or(trees.first().map(PathBuf::as_path));
        tracing::warn!(
            path = %first.unwrap_or(Path::new("")).display(),
            files = mended,
            "other users of this machine could reach stored data: their rights were removed"
        );
    }
    Ok(())
}

/// Removes the rights of others to a path. Returns whether they had any.
fn tighten(path: &Path) -> io::Result<bool> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let mode = found.mode() & 0o7777;
    if found.is_symlink() || mode & OTHERS == 0 {
        return Ok(false);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS))?;
    Ok(true)
}

/// Removes the rights of others to a tree. Returns the number of files and directories to which they had any.
fn tighten_tree(path: &Path) -> io::Result<usize> {
    let mut mended = usize::from(tighten(path)?);
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        for entry in fs::read_dir(path)? {
            mended += tighten_tree(&entry?.path())?;
        }
    }
    Ok(mended)
}
