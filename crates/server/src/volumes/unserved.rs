//! The pools of a data directory that no server has open, open for a command.

use std::path::Path;
use std::slice;

use store::Directory;

use crate::clock::now;
use crate::error::Error;
use crate::pools::{self, MediaUse, OpenPool};

use super::{VolumeInfo, list};

/// Memory of a pool that is open for a command, bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// A data directory that this process has locked, with its pools.
pub struct Unserved {
    directory: Directory,
    pools: Vec<OpenPool>,
}

impl Unserved {
    /// Opens all pools of `directory`.
    ///
    /// # Errors
    /// A pool cannot be opened.
    pub fn open(directory: Directory) -> Result<Unserved, Error> {
        let pools = directory.pools()?.iter().map(|name| open(&directory, name)).collect::<Result<_, _>>()?;
        Ok(Unserved { directory, pools })
    }

    /// Opens the pools of the data directory at `data`.
    ///
    /// # Errors
    /// Another process uses it, or a pool cannot be opened.
    pub fn at(data: &Path) -> Result<Unserved, Error> {
        Unserved::open(Directory::open(data)?)
    }

    /// Returns the pools.
    #[must_use]
    pub fn pools(&self) -> &[OpenPool] {
        &self.pools
    }

    /// Makes what was changed durable, and closes the pools. Returns the directory, still locked.
    ///
    /// # Errors
    /// A pool could not be closed cleanly.
    pub fn close(self) -> Result<Directory, Error> {
        self.pools.iter().try_for_each(close)?;
        Ok(self.directory)
    }
}

/// Describes the volumes of one pool of `directory`, whatever the state of the others.
///
/// # Errors
/// The pool cannot be opened, read or closed.
pub fn in_pool(directory: &Directory, name: &str) -> Result<Vec<VolumeInfo>, Error> {
    let open = open(directory, name)?;
    let volumes = list(slice::from_ref(&open));
    let closed = close(&open);
    volumes.and_then(|volumes| closed.map(|()| volumes))
}

fn open(directory: &Directory, name: &str) -> Result<OpenPool, Error> {
    pools::open(directory, name, None, MEMORY_BYTES, &MediaUse::default())
}

fn close(open: &OpenPool) -> Result<(), Error> {
    let closed = open.pool.close(now());
    closed.map_err(|error| Error::failed(format!("the pool {:?} was not closed cleanly: {error}", open.name)))
}
