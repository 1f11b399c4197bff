//! The home: a volume without files that keeps what clients hold of all volumes (`nfs/src/context/state_store.rs`), so that each
//! volume of users can be deleted. No user sees it.

use std::sync::Arc;

use volume::ids::VolumeId;
use volume::request::Durable;
use volume::{Progress, Volume, VolumeOptions};

use super::{error_of, failed, with_room};
use crate::clock::now;
use crate::error::Error;
use crate::pools::{FIRST_POOL, OpenPool, random};

/// Its name. Users cannot give such a name, and the engine does not list it.
const NAME: &str = ".clients";

/// Mode of its root directory, which nobody reaches.
const ROOT_MODE: u16 = 0o700;

/// Returns the home; creates it if there is none. No other thread may commit yet.
///
/// # Errors
/// There is none, and its pool takes no changes, so it cannot be created.
pub(crate) fn open(pools: &[OpenPool]) -> Result<Arc<Volume>, Error> {
    let homes = pools.iter().filter_map(|open| open.pool.volume(NAME));
    // There are several only if the directories of pools were moved.
    if let Some(home) = homes.min_by_key(|volume| volume.id()) {
        return Ok(Arc::new(home));
    }
    let first = pools.iter().find(|open| *open.name == *FIRST_POOL).or(pools.first());
    let Some(OpenPool { pool, name }) = first else {
        return Err(Error::failed("the data directory has no pool"));
    };
    let options = options()?;
    let made = with_room(|| pool.create_volume(&options, now()).map_err(error_of));
    let made = made.map_err(|error| failed("make", NAME, pool, error))?;
    while pool.step_commit(now()) == Progress::Worked {}
    if pool.durability(made.after) != Durable::Yes {
        let reason = pool.refuses_changes().unwrap_or_else(|| "its journal is full".to_owned());
        return Err(Error::failed(format!("the pool {name:?} cannot keep the state of clients: {reason}")));
    }
    tracing::info!(pool = %name, volume_id = %made.value.id(), "the state of clients has a volume of its own");
    Ok(Arc::new(made.value))
}

/// Its id is lower than any that [`super::options`] makes, and than nearly all that earlier builds made.
fn options() -> Result<VolumeOptions, Error> {
    Ok(VolumeOptions {
        id: VolumeId((u64::from_le_bytes(random()?) >> 8).max(1)),
        name: NAME.to_owned(),
        size: None,
        handle_secret: random()?,
        root_mode: ROOT_MODE,
        root_owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    })
}
