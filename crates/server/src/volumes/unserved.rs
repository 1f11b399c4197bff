//! The pools of a data directory that no server has open, open for a command.

use std::path::Path;
use std::slice;

use crate::clock::now;
use crate::data::Data;
use crate::error::Error;
use crate::pools::{self, MediaUse, OpenPool};

use super::{VolumeInfo, list};

/// Memory of a pool that is open for a command, bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// A data directory that this process has locked, with its pools.
pub struct Unserved {
    data: Data,
    pools: Vec<OpenPool>,
}

impl Unserved {
    /// Opens all pools of `data`.
    ///
    /// # Errors
    /// A pool cannot be opened.
    pub fn open(data: Data) -> Result<Unserved, Error> {
        let pools = data.pools()?.iter().map(|name| open(&data, name)).collect::<Result<_, _>>()?;
        Ok(Unserved { data, pools })
    }

    /// Opens the pools of the data directory at `root`.
    ///
    /// # Errors
    /// Another process uses it, or a pool cannot be opened.
    pub fn at(root: &Path) -> Result<Unserved, Error> {
        Unserved::open(Data::open(root)?)
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
    pub fn close(self) -> Result<Data, Error> {
        self.pools.iter().try_for_each(close)?;
        Ok(self.data)
    }
}

/// Describes the volumes of one pool of `data`, whatever the state of the others.
///
/// # Errors
/// The pool cannot be opened, read or closed.
pub fn in_pool(data: &Data, name: &str) -> Result<Vec<VolumeInfo>, Error> {
    let open = open(data, name)?;
    let volumes = list(slice::from_ref(&open));
    let closed = close(&open);
    volumes.and_then(|volumes| closed.map(|()| volumes))
}

fn open(data: &Data, name: &str) -> Result<OpenPool, Error> {
    pools::open(data, name, None, MEMORY_BYTES, &MediaUse::default())
}

fn close(open: &OpenPool) -> Result<(), Error> {
    let closed = open.pool.close(now());
    closed.map_err(|error| Error::failed(format!("the pool {:?} was not closed cleanly: {error}", open.name)))
}
