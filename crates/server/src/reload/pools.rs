//! Pools while they are served.

use crate::error::{Error, ErrorKind};
use crate::names;
use crate::pools::PoolInfo;
use crate::reload::Reloader;

impl Reloader {
    /// Returns the pools, sorted by name.
    ///
    /// # Errors
    /// One cannot be examined.
    pub(crate) fn pools(&self) -> Result<Vec<PoolInfo>, Error> {
        self.pools.iter().map(|open| open.describe(&self.root)).collect()
    }

    /// Returns a pool.
    ///
    /// # Errors
    /// There is none with this name, or it cannot be examined.
    pub(crate) fn pool(&self, name: &str) -> Result<PoolInfo, Error> {
        let Some(open) = self.pools.iter().find(|open| *open.name == *name) else {
            let names: Vec<&str> = self.pools.iter().map(|open| &*open.name).collect();
            let sentence = format!("there is no pool {name:?}{}", names::others(&names, name));
            return Err(Error { kind: ErrorKind::NotFound, sentence });
        };
        open.describe(&self.root)
    }
}
