//! The data directory: creates, opens, lists, describes and deletes pools.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use volume::media::Media;

pub use room::ahead_bytes;

use crate::directory::contents::{Contents, LOST_AND_FOUND, contents};
use crate::directory::remains::{DELETED, NEW};
use crate::durable::{create_file, create_private_directory, parent, rename, sync_directory};
use crate::error::{Error, ErrorKind};
use crate::format::{Format, JOURNAL_FILES, check_name};
use crate::lease::{Lease, holder};
use crate::log::{self, LOG_FILE_BYTES};
use crate::media::{LocalMedia, names, segment_of};

/// Subdirectory that holds the pools.
const POOLS: &str = "pools";
/// Prefix of the empty file that says that a pool exists. Without it, a pool whose directory is empty or gone, for
/// instance because its file system is not mounted, would be taken for a stray.
const KNOWN: &str = ".pool-";

/// A data directory, locked by this process.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    _lease: Lease,
    /// Whether it belongs to another user, and nothing is created or changed in it.
    is_foreign: bool,
}

/// The parameters of a new pool.
#[derive(Clone, Copy, Debug)]
pub struct NewPool<'a> {
    /// Its name.
    pub name: &'a str,
    /// A random number that identifies it.
    pub id: u64,
    /// The same, or for a copy of a pool, which has the pool's id, another random number: it tells the files of both apart.
    pub instance: u64,
    /// The directory that is to hold its journal's directory; `None` keeps the journal with the pool.
    pub journal: Option<&'a Path>,
    /// The existing directory elsewhere that is to hold its directory; `None` keeps it in the data directory.
    pub path: Option<&'a Path>,
    /// Size of its journal in bytes, a multiple of [`LOG_FILE_BYTES`].
    pub journal_bytes: u64,
}

/// Facts about a pool that are known without opening it.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// The number that identifies it.
    pub id: u64,
    /// Its directory.
    pub path: PathBuf,
    /// The directory of its journal.
    pub journal: PathBuf,
    /// Size of its journal in bytes.
    pub journal_bytes: u64,
    /// Size of its index in bytes.
    pub index_bytes: u64,
    /// Number of its segments.
    pub segments: u64,
    /// Size of all its segments in bytes.
    pub segment_bytes: u64,
    /// The id of the process that has it open; 0 if the process is unknown.
    pub in_use_by: Option<u32>,
}

impl Directory {
    /// Locks the data directory at `root`, which is created if it does not exist or is empty; one that has other files is
    /// refused. Removes the remains of interrupted creations and deletions of pools.
    pub fn open_or_create(root: &Path) -> Result<Directory, Error> {
        let pools = root.join(POOLS);
        if contents(root)? != Contents::Pools {
            let create = || {
                fs::create_dir_all(parent(root))?;
                if !root.is_dir() {
                    create_private_directory(root)?;
                }
                create_private_directory(&pools)
            };
            create().map_err(|error| Error::io("create the data directory", root, &error))?;
            sync_directory(root)
                .and_then(|()| sync_directory(parent(root)))
                .map_err(|error| Error::io("sync", root, &error))?;
        }
        Directory::open(root)
    }

    /// Locks the existing data directory at `root`. Removes the remains of interrupted creations and deletions of pools.
    pub fn open(root: &Path) -> Result<Directory, Error> {
        check_root(root)?;
        let root =
            fs::canonicalize(root).map_err(|error| Error::io("find the data directory", root, &error))?;
        access::check_owner(&root)?;
        let what = format!("the data directory {}", root.display());
        let lease = Lease::take(&root.join(names::LOCK), &what)?;
        let directory = Directory { root, _lease: lease, is_foreign: false };
        directory.sweep()?;
        let names = directory.pools()?;
        for name in &names {
            directory.note_pool(name)?;
        }
        let trees: Vec<PathBuf> = names.iter().map(|name| directory.pool_path(name)).collect();
        access::make_private(&[&directory.root, &directory.root.join(POOLS)], &trees)?;
        Ok(directory)
    }

    /// Locks the existing data directory at `root` for commands that only read its pools. The superuser may do that in the
    /// directory of another user too.
    pub fn open_to_read(root: &Path) -> Result<Directory, Error> {
        check_root(root)?;
        if !access::is_foreign_to_root(root)? {
            return Directory::open(root);
        }
        let root =
            fs::canonicalize(root).map_err(|error| Error::io("find the data directory", root, &error))?;
        let what = format!("the data directory {}", root.display());
        let lease = Lease::take_to_read(&root.join(names::LOCK), &what)?;
        Ok(Directory { root, _lease: lease, is_foreign: true })
    }

    /// Returns its absolute path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the names of its pools, sorted, missing ones included.
    pub fn pools(&self) -> Result<Vec<String>, Error> {
        list(&self.root)
    }

    /// Returns the names of the entries among its pools that are not pools, sorted. Hidden entries and `lost+found` are
    /// left out.
    pub fn strays(&self) -> Result<Vec<String>, Error> {
        let pools = self.pools()?;
        let mut strays = names_in(&self.root.join(POOLS))?;
        strays.retain(|name| !(name.starts_with('.') || name == LOST_AND_FOUND || pools.contains(name)));
        strays.sort();
        Ok(strays)
    }

    fn note_pool(&self, name: &str) -> Result<(), Error> {
        let file = known_file(&self.root, name);
        if file.exists() {
            return Ok(());
        }
        create_file(&file, b"")
            .and_then(|()| sync_directory(parent(&file)))
            .map_err(|error| Error::io("create", &file, &error))
    }

    fn pool_path(&self, name: &str) -> PathBuf {
        self.root.join(POOLS).join(name)
    }

    /// Creates a pool. `initialize` writes the engine's first state; its error is a sentence. A crash before this returns
    /// leaves no pool.
    pub fn create(
        &self,
        new: &NewPool<'_>,
        initialize: impl FnOnce(&dyn Media) -> Result<(), String>,
    ) -> Result<(), Error> {
        check_new(&self.root, new)?;
        let path = self.pool_path(new.name);
        let files = new.journal_bytes / LOG_FILE_BYTES;
        let format = Format { id: new.id, instance: new.instance, journal_files: files };
        let fresh = self.pool_path(&remains::name(NEW, new.name, new.instance));
        let place = match new.path {
            Some(elsewhere) => link(&fresh, elsewhere, new.name)?,
            None => fresh.clone(),
        };
        if let Err(error) = create_private_directory(&place) {
            // A directory that is already there belongs to somebody else.
            let _ = fs::remove_file(&fresh);
            return Err(not_made(&place, &error));
        }
        let created = build(&place, new, &format, initialize)
            .and_then(|()| put(&fresh, &path).map_err(|error| Error::io("create", &path, &error)))
            .and_then(|()| self.note_pool(new.name));
        if created.is_err() {
            // The first error is the one to report. What remains here is removed at the next start.
            let _ = remains::sweep(&fresh);
        }
        created
    }

    /// Opens a pool's media. `journal`, if given, is the directory of journals: the pool's journal must be there, or
    /// have been moved there.
    pub fn open_pool(&self, name: &str, journal: Option<&Path>) -> Result<LocalMedia, Error> {
        let path = self.existing(name)?;
        let format = Format::read(&path.join(names::FORMAT))?;
        let (lock, what) = (path.join(names::LOCK), format!("the pool {name:?}"));
        let take = if self.is_foreign { Lease::take_to_read } else { Lease::take };
        let lease = take(&lock, &what)?;
        let place = journal::find(name, &path, &format, journal)?;
        if lease.permits_changes() {
            journal::record_move(&path, &place)?;
            access::make_private(&[], std::slice::from_ref(&place))?;
        }
        LocalMedia::open(&path, &place, format.journal_files, lease)
    }

    /// Deletes a pool with all its data. If its `format` cannot be read, files elsewhere stay, since nothing tells that they are
    /// its own.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        let path = self.existing(name)?;
        let id = match Format::read(&path.join(names::FORMAT)) {
            Ok(format) => format.instance,
            // What a later release keeps elsewhere is not known here.
            Err(error) if error.kind() == ErrorKind::WrongFormat => return Err(error),
            Err(_) => 0,
        };
        let _lease = Lease::take(&path.join(names::LOCK), &format!("the pool {name:?}"))?;
        // A crash before the directory is renamed leaves the pool, and the next start notes it again.
        self.unnote_pool(name)?;
        let gone = self.pool_path(&remains::name(DELETED, name, id));
        rename(&path, &gone).map_err(|error| Error::io("delete", &path, &error))?;
        remains::sweep(&gone)
    }

    /// Whether a pool is missing: it exists, but its directory has none of its files.
    pub fn is_missing(&self, name: &str) -> bool {
        check_name(name).is_ok() && is_missing(&self.root, name)
    }

    /// Deletes a pool that is missing. Only what names it here is removed: its files, wherever they are, stay.
    pub fn delete_missing(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        if !is_missing(&self.root, name) {
            let path = self.existing(name)?;
            let sentence = format!("the pool {name:?} is not missing: {} has files of it", path.display());
            return Err(Error::new(ErrorKind::Exists, sentence));
        }
        let path = self.pool_path(name);
        let elsewhere = fs::read_link(&path).ok();
        // A directory here is the mount point of a file system that is not mounted, or not the pool's.
        let place = elsewhere.clone().or_else(|| path.exists().then(|| path.clone()));
        // The pool exists until it is no longer known, so a crash before that leaves it missing.
        if elsewhere.is_some() {
            fs::remove_file(&path).map_err(|error| Error::io("remove", &path, &error))?;
        } else {
            let _ = fs::remove_dir(&path);
        }
        self.unnote_pool(name)?;
        if let Some(place) = place {
            remains::warn_of_files(&place);
        }
        Ok(())
    }

    /// Removes what says that a pool exists.
    fn unnote_pool(&self, name: &str) -> Result<(), Error> {
        let known = known_file(&self.root, name);
        fs::remove_file(&known)
            .and_then(|()| sync_directory(parent(&known)))
            .map_err(|error| Error::io("remove", &known, &error))
    }

    fn existing(&self, name: &str) -> Result<PathBuf, Error> {
        existing(&self.root, name)
    }

    /// Removes the remains of interrupted creations and deletions.
    fn sweep(&self) -> Result<(), Error> {
        for name in remains::list(&self.root)? {
            remains::sweep(&self.pool_path(&name))?;
        }
        Ok(())
    }
}

/// Returns the names of the pools in the data directory at `root`, sorted, missing ones included. Needs no lock.
pub fn list(root: &Path) -> Result<Vec<String>, Error> {
    check_root(root)?;
    let pools = root.join(POOLS);
    let entries = names_in(&pools)?;
    let known = entries.iter().filter_map(|entry| entry.strip_prefix(KNOWN));
    let found = entries.iter().map(String::as_str).filter(|name| is_pool(&pools.join(name)));
    let names: BTreeSet<&str> = known.chain(found).filter(|name| check_name(name).is_ok()).collect();
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Describes a pool in the data directory at `root`. Needs no lock.
pub fn describe(root: &Path, name: &str) -> Result<Description, Error> {
    check_root(root)?;
    let path = existing(root, name)?;
    let path = fs::canonicalize(&path).map_err(|error| Error::io("find", &path, &error))?;
    let format = Format::read(&path.join(names::FORMAT))?;
    let journal = journal::recorded(&path)?.unwrap_or_else(|| path.join(names::JOURNAL));
    let index = path.join(names::INDEX);
    let index_bytes =
        fs::metadata(&index).map_err(|error| Error::io("examine the index", &index, &error))?.len();
    let (mut segments, mut segment_bytes) = (0, 0);
    for segment in names_in(&path.join(names::SEGMENTS))? {
        if segment_of(&segment).is_some() {
            segments += 1;
            // The cleaner may have deleted the segment since the listing.
            segment_bytes +=
                fs::metadata(path.join(names::SEGMENTS).join(segment)).map_or(0, |segment| segment.len());
        }
    }
    Ok(Description {
        name: name.to_owned(),
        id: format.id,
        journal,
        journal_bytes: format.journal_files * LOG_FILE_BYTES,
        index_bytes,
        segments,
        segment_bytes,
        in_use_by: holder(&path.join(names::LOCK)),
        path,
    })
}

/// Returns the names of the pools in the data directory at `root`: none if it does not exist yet or is empty. Refuses what
/// [`Directory::open_or_create`] refuses. Changes nothing and needs no lock.
pub fn list_or_none(root: &Path) -> Result<Vec<String>, Error> {
    match contents(root)? {
        Contents::Pools => list(root),
        Contents::Missing | Contents::Nothing => Ok(Vec::new()),
    }
}

/// Checks whether the data directory at `root`, which need not exist yet, can have a new pool. Changes nothing and needs no
/// lock.
pub fn check_new(root: &Path, new: &NewPool<'_>) -> Result<(), Error> {
    check_name(new.name)?;
    if root.exists() {
        access::check_owner(root)?;
    }
    let path = root.join(POOLS).join(new.name);
    check_not_missing(root, new.name)?;
    if path.exists() {
        let sentence = if is_pool(&path) {
            format!("there is a pool {:?} already; choose another name, or delete it first", new.name)
        } else {
            format!(
                "{} exists and is not a pool; choose another name, mount the file system that belongs there, \
                 or move it",
                path.display()
            )
        };
        return Err(Error::new(ErrorKind::Exists, sentence));
    }
    if let Some(elsewhere) = new.path {
        place_below(elsewhere, new.name)?;
    }
    let files = new.journal_bytes / LOG_FILE_BYTES;
    if !JOURNAL_FILES.contains(&files) || !new.journal_bytes.is_multiple_of(LOG_FILE_BYTES) {
        let sentence = format!(
            "a journal cannot be {} bytes: it consists of files of 16 MiB; choose a multiple of that up to 1 TiB",
            new.journal_bytes
        );
        return Err(Error::new(ErrorKind::Invalid, sentence));
    }
    // Remains are deleted before a pool is created, so their space is as good as free, whatever it is.
    if contents(root)? == Contents::Pools && !remains::list(root)?.is_empty() {
        return Ok(());
    }
    room::check(root, new)
}

/// Checks what [`Directory::open_pool`] checks before it opens a pool's files. Changes nothing and needs no lock.
pub fn check_pool(root: &Path, name: &str, journal: Option<&Path>) -> Result<(), Error> {
    access::check_owner(root)?;
    let path = existing(root, name)?;
    let format = Format::read(&path.join(names::FORMAT))?;
    journal::find(name, &path, &format, journal).map(drop)
}

fn check_root(root: &Path) -> Result<(), Error> {
    let sentence = match contents(root)? {
        Contents::Pools => return Ok(()),
        Contents::Missing => format!(
            "there is no data directory {0}: check the path, or run `holdfast serve {0}` to create it",
            root.display()
        ),
        Contents::Nothing => format!(
            "{0} is empty, not a data directory: check the path, and that its file system is mounted, or run `holdfast \
             serve {0}` to make it one",
            root.display()
        ),
    };
    Err(Error::new(ErrorKind::NotFound, sentence))
}

fn known_file(root: &Path, name: &str) -> PathBuf {
    root.join(POOLS).join(format!("{KNOWN}{name}"))
}

/// Whether a pool is known but its directory has none of its files.
fn is_missing(root: &Path, name: &str) -> bool {
    !is_pool(&root.join(POOLS).join(name)) && known_file(root, name).exists()
}

fn check_not_missing(root: &Path, name: &str) -> Result<(), Error> {
    if !is_missing(root, name) {
        return Ok(());
    }
    let path = root.join(POOLS).join(name);
    let place = match fs::read_link(&path) {
        Ok(elsewhere) => format!("{}, a link to {},", path.display(), elsewhere.display()),
        Err(_) => path.display().to_string(),
    };
    let sentence = format!(
        "the pool {name:?} is missing: {place} has none of its files; mount the file system that holds it, or restore it; \
         if it is gone for good, delete it with `holdfast pool delete {} {name} --with-volumes`",
        root.display()
    );
    Err(Error::new(ErrorKind::NotFound, sentence))
}

fn existing(root: &Path, name: &str) -> Result<PathBuf, Error> {
    check_name(name)?;
    check_not_missing(root, name)?;
    let path = root.join(POOLS).join(name);
    if is_pool(&path) {
        return Ok(path);
    }
    let others = list(root)?.join(", ");
    let others = if others.is_empty() { "no pools".to_owned() } else { format!("the pools {others}") };
    let sentence = format!(
        "there is no pool {name:?} in {}, which has {others}; choose one of its pools, or create one",
        root.display()
    );
    Err(Error::new(ErrorKind::NotFound, sentence))
}

/// Whether `path` is a directory with at least one of a pool's files. An incomplete pool is a pool, so that opening
/// it says what is missing; so is a directory that this user may not search.
fn is_pool(path: &Path) -> bool {
    let is_missing = |name: &str| {
        let found = fs::symlink_metadata(path.join(name));
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    path.is_dir() && !names::ALL.iter().all(|name| is_missing(name))
}

fn names_in(directory: &Path) -> Result<Vec<String>, Error> {
    let list = || -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory)? {
            found.extend(entry?.file_name().into_string());
        }
        Ok(found)
    };
    list().map_err(|error| Error::io("list", directory, &error))
}

/// Builds a pool in the empty directory `fresh`.
fn build(
    fresh: &Path,
    new: &NewPool<'_>,
    format: &Format,
    initialize: impl FnOnce(&dyn Media) -> Result<(), String>,
) -> Result<(), Error> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Error::io("create", &path, &error)
    };
    // First of all, so that it is known whose directory this is.
    let path = fresh.join(names::FORMAT);
    create_file(&path, format.encode().as_bytes()).map_err(at(&path))?;
    let journal = match new.journal {
        None => fresh.join(names::JOURNAL),
        Some(elsewhere) => journal::place(fresh, elsewhere, new.name)?,
    };
    create_private_directory(&journal).and_then(|()| sync_directory(parent(&journal))).map_err(|error| {
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Error::io("create the journal directory", &journal, &error);
        }
        // It is not this pool's, so it is not removed with it.
        let _ = fs::remove_file(fresh.join(names::JOURNAL_LOCATION));
        let sentence = format!(
            "{} exists and may hold another pool's journal; choose another directory for the journal, or remove it",
            journal.display()
        );
        Error::new(ErrorKind::Journal, sentence)
    })?;
    log::create(&journal, format.journal_files, &format.journal_owner())?;
    let path = fresh.join(names::INDEX);
    create_file(&path, b"").map_err(at(&path))?;
    let path = fresh.join(names::SEGMENTS);
    create_private_directory(&path).map_err(at(&path))?;
    let lease = Lease::take(&fresh.join(names::LOCK), "the new pool")?;
    let media = LocalMedia::open(fresh, &journal, format.journal_files, lease)?;
    initialize(&media).map_err(|sentence| Error::new(ErrorKind::Engine, sentence))?;
    sync_directory(&path).and_then(|()| sync_directory(fresh)).map_err(at(fresh))
}

/// Returns the place of a new pool below `elsewhere`, where nothing may be.
fn place_below(elsewhere: &Path, name: &str) -> Result<PathBuf, Error> {
    let elsewhere =
        fs::canonicalize(elsewhere).map_err(|error| Error::io("find the directory", elsewhere, &error))?;
    let place = elsewhere.join(name);
    if fs::symlink_metadata(&place).is_ok() { Err(occupied(&place)) } else { Ok(place) }
}

fn occupied(place: &Path) -> Error {
    let sentence = format!("{} exists; choose another directory, or remove it", place.display());
    Error::new(ErrorKind::Exists, sentence)
}

/// Returns why the directory of a pool was not made. Another process may have made one there since it was looked at.
fn not_made(place: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => occupied(place),
        _ => Error::io("create", place, error),
    }
}

/// Makes `fresh` a link to the directory of a pool below `elsewhere`, which does not exist yet. Returns that directory.
fn link(fresh: &Path, elsewhere: &Path, name: &str) -> Result<PathBuf, Error> {
    let place = place_below(elsewhere, name)?;
    std::os::unix::fs::symlink(&place, fresh)
        .and_then(|()| sync_directory(parent(fresh)))
        .map_err(|error| Error::io("link", fresh, &error))?;
    Ok(place)
}

/// Puts a new pool at its path, where at most a link to a pool may be that is gone for good.
fn put(fresh: &Path, path: &Path) -> io::Result<()> {
    if path.is_symlink() {
        fs::remove_file(path)?;
    }
    rename(fresh, path)
}

mod access;
mod contents;
mod journal;
mod remains;
mod room;
#[cfg(test)]
mod tests;
