//! What interrupted creations and deletions of pools left, and how it is removed.
//!
//! A pool elsewhere is a link here, and other data directories may keep pools beside it, copies of the same pool among them. So only
//! a directory that has the instance in the name of the link is removed, and what tells that, its `format`, is made first and removed
//! last.

use std::fs;
use std::io;
use std::path::Path;

use super::{POOLS, journal, names_in};
use crate::durable::{parent, remove_tree, sync_directory};
use crate::error::Error;
use crate::format::Format;
use crate::log;
use crate::media::names;

/// Prefix of the directory of a pool under creation.
pub(super) const NEW: &str = ".new-";
/// Prefix of the directory of a pool under deletion.
pub(super) const DELETED: &str = ".deleted-";

/// Returns the name of a pool that is being created or deleted.
pub(super) fn name(prefix: &str, pool: &str, instance: u64) -> String {
    format!("{prefix}{pool}.{instance:016x}")
}

/// Returns the names of the remains in the data directory at `root`.
pub(super) fn list(root: &Path) -> Result<Vec<String>, Error> {
    let mut names = names_in(&root.join(POOLS))?;
    names.retain(|name| name.starts_with(NEW) || name.starts_with(DELETED));
    Ok(names)
}

/// Removes an unfinished or deleted pool, which may be elsewhere.
pub(super) fn sweep(path: &Path) -> Result<(), Error> {
    let Ok(place) = fs::read_link(path) else { return remove_pool(path) };
    match Format::read(&place.join(names::FORMAT)) {
        Ok(format) if instance_of(path) == Some(format.instance) => remove_pool(&place)?,
        // Another pool's.
        Ok(_) => {}
        Err(_) => remove_empty(&place),
    }
    fs::remove_file(path)
        .and_then(|()| sync_directory(parent(path)))
        .map_err(|error| Error::io("remove", path, &error))
}

/// Returns the instance in the name of a pool that is being created or deleted.
fn instance_of(path: &Path) -> Option<u64> {
    let (_, instance) = path.file_name()?.to_str()?.rsplit_once('.')?;
    u64::from_str_radix(instance, 16).ok()
}

/// Removes an empty directory elsewhere, as an interrupted creation or deletion leaves it. Nothing tells whose files are in any
/// other one.
fn remove_empty(place: &Path) {
    if fs::remove_dir(place).is_err() {
        warn_of_files(place);
    }
}

/// Says that a directory may hold files of a pool that is gone.
pub(super) fn warn_of_files(place: &Path) {
    tracing::warn!(
        place = %place.display(),
        "files of a deleted or unfinished pool may be left: they cannot be reached, or told from others; remove them by hand"
    );
}

/// Removes the directory of a pool. A journal that is elsewhere goes first, since the pool's files name its place.
fn remove_pool(path: &Path) -> Result<(), Error> {
    if let Ok(Some(journal)) = journal::recorded(path) {
        match Format::read(&path.join(names::FORMAT)) {
            Ok(format) => remove_journal(&journal, &format)?,
            Err(_) => warn_of_files(&journal),
        }
    }
    remove_all_but_format(path)
        .and_then(|()| remove_tree(path))
        .map_err(|error| Error::io("delete", path, &error))
}

/// Removes the journal of a pool, if it is in this directory elsewhere.
fn remove_journal(journal: &Path, format: &Format) -> Result<(), Error> {
    match fs::read_to_string(journal.join(log::OWNER)) {
        Ok(owner) if owner == format.journal_owner() => {
            remove_tree(journal).map_err(|error| Error::io("delete the journal in", journal, &error))
        }
        // Another pool's.
        Ok(_) => Ok(()),
        Err(_) => {
            remove_empty(journal);
            Ok(())
        }
    }
}

fn remove_all_but_format(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == names::FORMAT {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    sync_directory(path)
}
