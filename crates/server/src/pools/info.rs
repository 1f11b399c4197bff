//! Pools, as administrators see them. Their directories are read without a lock; while a process has a pool open, only that
//! process knows its volumes.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OpenPool;
use crate::data::{self, Data};
use crate::error::Error;

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolInfo {
    /// Its name.
    pub name: String,
    /// Its identity: 16 hexadecimal digits.
    pub id: String,
    /// Its directory.
    pub path: String,
    /// The directory of its journal.
    pub journal: String,
    /// The size of its journal.
    pub journal_bytes: u64,
    /// The size of its index.
    pub index_bytes: u64,
    /// The number of its segments.
    pub segments: u64,
    /// The size of all its segments.
    pub segment_bytes: u64,
    /// The process that has it open; 0 if that is unknown, none if no process has.
    pub in_use_by: Option<u32>,
    /// The names of its volumes, sorted; none if they cannot be read.
    #[serde(default)]
    pub volumes: Option<Vec<String>>,
}

/// Returns the pools of the data directory at `root`, sorted by name, with the names of their volumes as [`read`] finds them; or
/// why one cannot be examined.
///
/// # Errors
/// It is not a data directory.
pub fn list(root: &Path) -> Result<Vec<Result<PoolInfo, Error>>, Error> {
    Ok(data::list(root)?.iter().map(|name| read(root, name)).collect())
}

/// Returns the pool with this name of the data directory at `root`, which no server has open, with the names of its volumes. That
/// takes time in proportion to its journal. If the names cannot be read, that is logged, and there are none.
///
/// # Errors
/// There is none, or it cannot be examined.
pub fn read(root: &Path, name: &str) -> Result<PoolInfo, Error> {
    let info = describe(root, name)?;
    let names = Data::open_to_read(root)
        .and_then(|data| volume_names(&data, name))
        .inspect_err(|error| tracing::warn!(%error, "cannot list the volumes of the pool {name:?}"));
    Ok(PoolInfo { volumes: names.ok(), ..info })
}

/// Reads the names of the volumes of a pool that no process has open, sorted.
///
/// # Errors
/// They cannot be read.
pub(crate) fn volume_names(data: &Data, pool: &str) -> Result<Vec<String>, Error> {
    let media = data.open_pool(pool, None)?.media;
    let mut names = volume::files::volume_names(&*media)
        .map_err(|error| Error::failed(format!("cannot read the pool {pool:?}: {error}")))?;
    names.sort();
    Ok(names)
}

/// Returns the pool with this name of the data directory at `root`, without its volumes.
///
/// # Errors
/// There is none, or it cannot be examined.
pub fn describe(root: &Path, name: &str) -> Result<PoolInfo, Error> {
    let found = data::describe(root, name)?;
    Ok(PoolInfo {
        name: name.to_owned(),
        id: format!("{:016x}", found.id),
        path: found.path,
        journal: found.journal,
        journal_bytes: found.journal_bytes,
        index_bytes: found.index_bytes,
        segments: found.segments,
        segment_bytes: found.segment_bytes,
        in_use_by: found.in_use_by,
        volumes: None,
    })
}

impl OpenPool {
    /// Describes the pool of the data directory at `root`, with its volumes.
    pub(crate) fn describe(&self, root: &Path) -> Result<PoolInfo, Error> {
        let mut names: Vec<String> =
            self.pool.volumes().iter().map(|volume| volume.name().to_string()).collect();
        names.sort();
        Ok(PoolInfo { volumes: Some(names), ..describe(root, &self.name)? })
    }
}
