//! Where a pool's journal is: with the pool, or in a directory of journals that the pool's files name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::durable::{create_file, create_private_directory, parent, replace_file, sync_directory};
use crate::error::{Error, ErrorKind};
use crate::format::Format;
use crate::log;
use crate::media::names;

/// Returns the directory of the journal of the pool `name` at `path`. `given`, if any, is the directory of journals: the
/// journal must be there, or have been moved there.
pub(super) fn find(name: &str, path: &Path, format: &Format, given: Option<&Path>) -> Result<PathBuf, Error> {
    let place = match (recorded(path)?, given) {
        (Some(recorded), None) => recorded,
        (None, None) => path.join(names::JOURNAL),
        (Some(_), Some(given)) => fs::canonicalize(given).unwrap_or_else(|_| given.to_owned()).join(name),
        (None, Some(given)) => {
            return Err(Error::new(
                ErrorKind::Journal,
                format!(
                    "the journal of pool {name:?} is in the data directory, not in {}; its location is chosen \
                     when the pool is created: omit --journal, or create another pool",
                    given.display()
                ),
            ));
        }
    };
    check_owner(name, &place, format)?;
    Ok(place)
}

/// Records that the journal of the pool at `path` is at `place`, if another place is recorded.
pub(super) fn record_move(path: &Path, place: &Path) -> Result<(), Error> {
    if recorded(path)?.is_none_or(|recorded| recorded == place) {
        return Ok(());
    }
    let file = path.join(names::JOURNAL_LOCATION);
    replace_file(&file, place.as_os_str().as_encoded_bytes())
        .map_err(|error| Error::io("write", &file, &error))
}

/// Returns the recorded location of the journal of the pool at `path`; `None` if the pool's directory holds it.
pub(super) fn recorded(path: &Path) -> Result<Option<PathBuf>, Error> {
    use std::os::unix::ffi::OsStringExt as _;
    let file = path.join(names::JOURNAL_LOCATION);
    match fs::read(&file) {
        Ok(place) => Ok(Some(PathBuf::from(std::ffi::OsString::from_vec(place)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &file, &error)),
    }
}

/// Refuses a journal directory that is missing or belongs to another pool.
fn check_owner(name: &str, place: &Path, format: &Format) -> Result<(), Error> {
    let trouble = match fs::read_to_string(place.join(log::OWNER)) {
        Ok(owner) if owner == format.journal_owner() => return Ok(()),
        Ok(_) => "belongs to another pool",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "is missing",
        Err(error) => return Err(Error::io("read the journal's owner in", place, &error)),
    };
    Err(Error::new(
        ErrorKind::Journal,
        format!(
            "the journal of pool {name:?} should be in {}, but the one there {trouble}; mount the file system that \
             holds it, or name with --journal DIR the directory whose DIR/{name} holds it now",
            place.display()
        ),
    ))
}

/// Records that the journal of the pool in `fresh` is to be in `elsewhere`, and returns its directory.
pub(super) fn place(fresh: &Path, elsewhere: &Path, name: &str) -> Result<PathBuf, Error> {
    if !elsewhere.is_dir() {
        create_private_directory(elsewhere)
            .and_then(|()| sync_directory(parent(elsewhere)))
            .map_err(|error| Error::io("create the journal directory", elsewhere, &error))?;
    }
    let place = fs::canonicalize(elsewhere)
        .map_err(|error| Error::io("find the journal directory", elsewhere, &error))?
        .join(name);
    let file = fresh.join(names::JOURNAL_LOCATION);
    create_file(&file, place.as_os_str().as_encoded_bytes())
        .and_then(|()| sync_directory(fresh))
        .and_then(|()| sync_directory(parent(fresh)))
        .map_err(|error| Error::io("write", &file, &error))?;
    Ok(place)
}
