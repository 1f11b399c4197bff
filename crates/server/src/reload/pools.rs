//! Pools while they are served.

use crate::error::Error;
use crate::pools;
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
        pools::find(&self.pools, name)?.describe(&self.root)
    }
}
