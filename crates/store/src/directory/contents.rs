//! Tells data directories from directories that hold other files, which are never touched.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::remains::{DELETED, NEW};
use super::{KNOWN, POOLS, is_pool};
use crate::error::{Error, ErrorKind};
use crate::media::names;

/// Directory that some file systems have in their root. It is ignored, so that a data directory can be the root of a file
/// system.
pub(super) const LOST_AND_FOUND: &str = "lost+found";

/// Directory that held the volumes of earlier releases.
const FORMER: &str = "volumes";

/// What is at the path of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// The directory does not exist.
    Missing,
    /// It is empty, except perhaps for `lost+found`.
    Nothing,
    /// It is a data directory.
    Pools,
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
        entries if has_pools(root, entries) => Ok(Contents::Pools),
        entries if entries.iter().any(|name| name == names::LOCK) && root.join(FORMER).is_dir() => {
            Err(Error::new(
                ErrorKind::WrongFormat,
                format!(
                    "{} was made by an earlier release, whose format this one cannot read: copy the files with the release \
                 that wrote them",
                    root.display()
                ),
            ))
        }
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

/// Whether a directory with these `entries` is a data directory. A directory `pools` alone proves
/// nothing, because other software has such directories too: there must be the lock file beside it, or traces of a pool
/// in it. A data directory whose creation a crash interrupted has neither, but its only entry is an empty `pools`.
fn has_pools(root: &Path, entries: &[OsString]) -> bool {
    let pools = root.join(POOLS);
    if !pools.is_dir() {
        return false;
    }
    if entries.iter().any(|name| name == names::LOCK) {
        return true;
    }
    // If this user may not read it, it is taken for ours, so that opening it reports the reason.
    let Ok(inside) = self::entries(&pools) else { return true };
    let is_ours = |name: &OsString| {
        let prefix =
            name.to_str().is_some_and(|name| [KNOWN, NEW, DELETED].iter().any(|ours| name.starts_with(ours)));
        prefix || is_pool(&pools.join(name))
    };
    inside.iter().any(is_ours) || (inside.is_empty() && entries.len() == 1)
}
