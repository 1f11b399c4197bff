//! Repairs a pool while no server has it open.

use volume::repair::Repaired;

use crate::clock::now;
use crate::data::Data;
use crate::error::Error;
use crate::pools;

/// Memory of a pool that is opened to be repaired, bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// Repairs a pool, and lists at most `changes_max` changes.
///
/// # Errors
/// The pool is in use, or cannot be repaired.
pub fn repair(data: &Data, name: &str, changes_max: usize) -> Result<Repaired, Error> {
    let media = data.open_pool(name, None)?.media;
    let options = pools::options(media.as_ref(), name, MEMORY_BYTES)?;
    volume::repair::repair(&media, &options, changes_max, now())
        .map_err(|error| Error::failed(format!("cannot repair the pool {name:?}: {error}")))
}
