//! Where pools are: in a directory of this machine, or in a namespace of a Ceph cluster. Both are named by a path, which begins with
//! `rados:` if it is a namespace.
//!
//! A server has things that are not in pools. Those that hold wherever it is started next, tokens and rate limits, are in [`Files`]. Its
//! socket for administrators is in a directory of this machine ([`local`]), also if its pools are in a cluster.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rados::{Candidacy, LOCAL_VARIABLE, Location, Namespace, STATE_DIRECTORY};
use rustix::process::geteuid;
use store::{Claim, Directory, NewPool};
use volume::media::Media;

use crate::error::Error;

pub(crate) use files::Files;

mod files;

/// The journal of a new pool in a cluster, bytes, if no size is chosen: each byte is written as often as there are copies.
const RADOS_JOURNAL_BYTES: u64 = 256 << 20;

/// Pools of a directory or a namespace, which this process has alone.
pub struct Data {
    root: PathBuf,
    place: Place,
}

enum Place {
    Directory(Directory),
    Namespace(Box<Namespace>),
}

/// A pool, opened.
pub struct Opened {
    /// Its media.
    pub media: Arc<dyn Media>,
    /// Where its journal is.
    pub journal: String,
}

/// Facts about a pool that are known without opening it.
pub(crate) struct Description {
    pub(crate) id: u64,
    pub(crate) path: String,
    pub(crate) journal: String,
    pub(crate) journal_bytes: u64,
    pub(crate) index_bytes: u64,
    pub(crate) segments: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) in_use_by: Option<u32>,
}

/// What other machines could take over: until when answers may leave.
#[derive(Clone, Debug)]
pub(crate) enum Hold {
    Claim(Arc<Claim>),
    Namespace(rados::Hold),
}

impl Hold {
    /// Returns when answers may leave: never, if another machine has taken over.
    pub(crate) fn wait(&self) {
        match self {
            Hold::Claim(claim) => claim.wait(),
            Hold::Namespace(hold) => hold.wait(),
        }
    }

    /// Lets another machine take over at once. This one answers nothing any more.
    pub(crate) fn release(&self) {
        match self {
            Hold::Claim(claim) => {
                if let Err(error) = claim.release() {
                    tracing::warn!(%error, "cannot release the claim on the data directory; a takeover takes a little longer");
                }
            }
            Hold::Namespace(hold) => hold.give_up(),
        }
    }
}

impl Data {
    /// Takes the pools at `root`, which is created if there is nothing.
    ///
    /// # Errors
    /// It is in use, or cannot be used.
    pub fn open_or_create(root: &Path) -> Result<Data, Error> {
        Data::take(root, Directory::open_or_create, Namespace::open_or_create)
    }

    /// Takes the namespace at `root` when other machines let it; it is created if there is nothing.
    ///
    /// # Errors
    /// It cannot be used, or is none.
    pub(crate) fn stand(root: &Path, candidacy: &Candidacy) -> Result<Data, Error> {
        let directory = |_: &Path| Directory::open(root);
        Data::take(root, directory, |location, local| Namespace::stand(location, local, candidacy.clone()))
    }

    /// Takes the existing pools at `root`.
    ///
    /// # Errors
    /// There are none, they are in use, or cannot be used.
    pub fn open(root: &Path) -> Result<Data, Error> {
        Data::take(root, Directory::open, Namespace::open)
    }

    /// Takes the existing pools at `root` for commands that only read them. The superuser may do that in the directory of another
    /// user too.
    ///
    /// # Errors
    /// There are none, they are in use, or cannot be used.
    pub fn open_to_read(root: &Path) -> Result<Data, Error> {
        Data::take(root, Directory::open_to_read, Namespace::open)
    }

    fn take(
        root: &Path,
        directory: impl FnOnce(&Path) -> Result<Directory, store::Error>,
        namespace: impl FnOnce(&Location, &Path) -> Result<Namespace, rados::Error>,
    ) -> Result<Data, Error> {
        match Location::parse(root)? {
            Some(location) => {
                let namespace = namespace(&location, &local_of(&location))?;
                Ok(Data { root: root.to_owned(), place: Place::Namespace(Box::new(namespace)) })
            }
            None => {
                let directory = directory(root)?;
                Ok(Data { root: directory.root().to_owned(), place: Place::Directory(directory) })
            }
        }
    }

    /// Returns the absolute path of the directory, or the name of the namespace.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the names of its pools, sorted.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn pools(&self) -> Result<Vec<String>, Error> {
        match &self.place {
            Place::Directory(directory) => Ok(directory.pools()?),
            Place::Namespace(namespace) => Ok(namespace.pools()?),
        }
    }

    /// Returns the names of the entries among its pools that are not pools, sorted.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn strays(&self) -> Result<Vec<String>, Error> {
        match &self.place {
            Place::Directory(directory) => Ok(directory.strays()?),
            Place::Namespace(_) => Ok(Vec::new()),
        }
    }

    /// Creates a pool. `initialize` writes the engine's first state; its error is a sentence.
    pub(crate) fn create(
        &self,
        new: &NewPool<'_>,
        initialize: impl FnOnce(&dyn Media) -> Result<(), String>,
    ) -> Result<(), Error> {
        match &self.place {
            Place::Directory(directory) => Ok(directory.create(new, initialize)?),
            Place::Namespace(namespace) => Ok(namespace.create(&in_cluster(new)?, initialize)?),
        }
    }

    /// Opens a pool. `journal`, if given, is the directory of journals.
    ///
    /// # Errors
    /// There is no such pool, or it cannot be used.
    pub fn open_pool(&self, name: &str, journal: Option<&Path>) -> Result<Opened, Error> {
        match &self.place {
            Place::Directory(directory) => {
                let media = directory.open_pool(name, journal)?;
                let journal = media.journal().display().to_string();
                Ok(Opened { media: Arc::new(media), journal })
            }
            Place::Namespace(namespace) => {
                refuse_directories(None, journal)?;
                let media = Arc::new(namespace.open_pool(name)?);
                Ok(Opened { media, journal: self.root.display().to_string() })
            }
        }
    }

    /// Deletes a pool with all its data.
    ///
    /// # Errors
    /// There is no such pool, or it cannot be deleted.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        match &self.place {
            Place::Directory(directory) => Ok(directory.delete(name)?),
            Place::Namespace(namespace) => Ok(namespace.delete(name)?),
        }
    }

    /// Whether a pool is missing: it exists, but none of its files can be found.
    #[must_use]
    pub fn is_missing(&self, name: &str) -> bool {
        match &self.place {
            Place::Directory(directory) => directory.is_missing(name),
            Place::Namespace(_) => false,
        }
    }

    /// Deletes a pool that is missing: its files, wherever they are, stay.
    ///
    /// # Errors
    /// It is not missing, or what names it cannot be removed.
    pub fn delete_missing(&self, name: &str) -> Result<(), Error> {
        match &self.place {
            Place::Directory(directory) => Ok(directory.delete_missing(name)?),
            Place::Namespace(_) => self.delete(name),
        }
    }

    /// Returns what the server keeps beside the pools.
    pub(crate) fn files(&self) -> Files {
        match &self.place {
            Place::Directory(directory) => Files::Directory(directory.root().to_owned()),
            Place::Namespace(namespace) => Files::Namespace(namespace.settings()),
        }
    }

    /// Returns the most memory, in bytes, that the connection to `pools` pools takes beside the pools themselves.
    pub(crate) fn memory_bytes(&self, pools: usize) -> u64 {
        match &self.place {
            Place::Directory(_) => 0,
            Place::Namespace(_) => rados::memory_bytes(u64::try_from(pools).unwrap_or(u64::MAX)),
        }
    }

    /// Returns what is under way to a cluster.
    pub(crate) fn traffic(&self) -> Option<Arc<rados::Traffic>> {
        match &self.place {
            Place::Directory(_) => None,
            Place::Namespace(namespace) => Some(namespace.traffic()),
        }
    }

    /// Returns until when answers may leave, if another machine could take the pools over without this one's doing.
    pub(crate) fn hold(&self) -> Option<Hold> {
        match &self.place {
            Place::Directory(_) => None,
            Place::Namespace(namespace) => Some(Hold::Namespace(namespace.hold())),
        }
    }
}

fn in_cluster<'n>(new: &NewPool<'n>) -> Result<rados::NewPool<'n>, Error> {
    store::check_name(new.name)?;
    refuse_directories(new.path, new.journal)?;
    Ok(rados::NewPool { name: new.name, id: new.id, journal_bytes: new.journal_bytes })
}

/// Refuses to put a part of a pool of a cluster elsewhere.
fn refuse_directories(path: Option<&Path>, journal: Option<&Path>) -> Result<(), Error> {
    if path.or(journal).is_some() {
        return Err(Error::usage(
            "a pool in a Ceph cluster keeps its journal there: omit --journal and --path, and `journal` of the configuration",
        ));
    }
    Ok(())
}

/// Returns the directory of this machine that belongs to the pools at `root`.
///
/// # Errors
/// The name is wrong.
pub fn local(root: &Path) -> Result<PathBuf, Error> {
    Ok(Location::parse(root)?.map_or_else(|| root.to_owned(), |location| local_of(&location)))
}

fn local_of(location: &Location) -> PathBuf {
    let is_ours = || std::fs::metadata(STATE_DIRECTORY).is_ok_and(|found| found.uid() == geteuid().as_raw());
    let above = match (env::var_os(LOCAL_VARIABLE), env::var_os("HOME")) {
        (Some(chosen), _) => PathBuf::from(chosen),
        (None, Some(home)) if !geteuid().is_root() && !is_ours() => {
            let state = env::var_os("XDG_STATE_HOME").filter(|path| path != OsStr::new(""));
            state.map_or_else(|| Path::new(&home).join(".local/state"), PathBuf::from).join("holdfast/rados")
        }
        _ => Path::new(STATE_DIRECTORY).join("rados"),
    };
    above.join(location.file_name())
}

/// Returns whether both names are those of the same directory or namespace.
pub(crate) fn are_same(one: &Path, other: &Path) -> Result<bool, Error> {
    Ok(match (Location::parse(one)?, Location::parse(other)?) {
        // Users and pools of new data may differ.
        (Some(one), Some(other)) => (one.pool, one.namespace) == (other.pool, other.namespace),
        (None, None) => {
            // What does not exist yet is not where something is.
            let (one, other) = (one.canonicalize(), other.canonicalize());
            one.is_ok_and(|one| other.is_ok_and(|other| one == other))
        }
        _ => false,
    })
}

/// Returns the size of the journal of a new pool at `root`, unless another is chosen; `default` in a directory.
#[must_use]
pub fn journal_bytes(root: &Path, default: u64) -> u64 {
    if Location::is_one(root) { RADOS_JOURNAL_BYTES } else { default }
}

/// Returns the names of the pools at `root`, sorted. Needs no lock.
pub(crate) fn list(root: &Path) -> Result<Vec<String>, Error> {
    match Location::parse(root)? {
        Some(location) => Ok(rados::list(&location)?),
        None => Ok(store::list(root)?),
    }
}

/// Returns the names of the pools at `root`: none if there is nothing yet. Changes nothing and needs no lock.
///
/// # Errors
/// They cannot be read, or pools cannot be there.
pub fn list_or_none(root: &Path) -> Result<Vec<String>, Error> {
    match Location::parse(root)? {
        Some(location) => Ok(rados::list_or_none(&location)?),
        None => Ok(store::list_or_none(root)?),
    }
}

/// Returns what a server keeps beside the pools at `root`, if it can be read without owning them: not in a namespace.
///
/// # Errors
/// The name is wrong.
pub(crate) fn files_without_owner(root: &Path) -> Result<Option<Files>, Error> {
    Ok(Location::parse(root)?.is_none().then(|| Files::Directory(root.to_owned())))
}

/// Refuses a `root` that cannot have pools. Does not ask a cluster.
pub(crate) fn check_root(root: &Path) -> Result<(), Error> {
    match Location::parse(root)? {
        Some(_) => Ok(()),
        None => Ok(store::list_or_none(root).map(drop)?),
    }
}

/// Describes a pool at `root`. Needs no lock.
pub(crate) fn describe(root: &Path, name: &str) -> Result<Description, Error> {
    let Some(location) = Location::parse(root)? else {
        let found = store::describe(root, name).map_err(|error| {
            let is_missing = error.kind() == store::ErrorKind::NotFound;
            Error::from(error).not_found_if(is_missing)
        })?;
        return Ok(Description {
            id: found.id,
            path: found.path.display().to_string(),
            journal: found.journal.display().to_string(),
            journal_bytes: found.journal_bytes,
            index_bytes: found.index_bytes,
            segments: found.segments,
            segment_bytes: found.segment_bytes,
            in_use_by: found.in_use_by,
        });
    };
    let found = rados::describe(&location, name)?;
    Ok(Description {
        id: found.id,
        path: if found.data_pool == location.pool {
            location.to_string()
        } else {
            format!("{location} ({})", found.data_pool)
        },
        journal: location.to_string(),
        journal_bytes: found.journal_bytes,
        index_bytes: found.index_bytes,
        segments: found.segments,
        segment_bytes: found.segment_bytes,
        in_use_by: None,
    })
}

/// Checks whether there can be a new pool at `root`, where there need be nothing yet. Changes nothing and needs no lock.
pub(crate) fn check_new(root: &Path, new: &NewPool<'_>) -> Result<(), Error> {
    match Location::parse(root)? {
        Some(location) => Ok(rados::check_new(&location, &in_cluster(new)?)?),
        None => Ok(store::check_new(root, new)?),
    }
}

/// Checks what [`Data::open_pool`] checks before it opens a pool's files. Changes nothing and needs no lock.
pub(crate) fn check_pool(root: &Path, name: &str, journal: Option<&Path>) -> Result<(), Error> {
    match Location::parse(root)? {
        Some(_) => refuse_directories(None, journal),
        None => Ok(store::check_pool(root, name, journal)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_of_a_cluster_have_names_as_those_of_a_directory() {
        let new =
            |name| NewPool { name, id: 1, instance: 1, journal: None, path: None, journal_bytes: 16 << 20 };
        for name in ["/tokens", "", "a b", "-x", ".."] {
            assert!(in_cluster(&new(name)).is_err(), "{name:?}");
        }
        assert!(in_cluster(&new("fast")).is_ok());
        let elsewhere = NewPool { path: Some(Path::new("/mnt")), ..new("fast") };
        assert!(in_cluster(&elsewhere).is_err());
    }
}
