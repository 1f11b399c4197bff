//! Volumes that were deleted, of which records remain until checkpoints have removed them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::api::ids::VolumeNumber;
use crate::encoding::key::POOL;
use crate::encoding::record::VolumeRecord;
use crate::file::inodes::SharedInode;
use crate::pool::Pool;

/// Deleted volumes.
#[derive(Debug)]
pub(crate) struct Deletions {
    /// Those whose records remain.
    volumes: Mutex<BTreeMap<VolumeNumber, VolumeRecord>>,
    /// Whether any volume was deleted, also of those whose records are gone.
    any: AtomicBool,
}

impl Deletions {
    pub(crate) fn new(volumes: BTreeMap<VolumeNumber, VolumeRecord>) -> Deletions {
        Deletions { any: AtomicBool::new(!volumes.is_empty()), volumes: Mutex::new(volumes) }
    }

    /// Returns those whose records remain.
    pub(crate) fn list(&self) -> Vec<VolumeNumber> {
        self.volumes.lock().keys().copied().collect()
    }

    /// Notes that a volume was deleted.
    pub(crate) fn add(&self, volume: VolumeNumber, record: VolumeRecord) {
        self.volumes.lock().insert(volume, record);
        self.any.store(true, Ordering::Release);
    }

    /// Returns the records of those whose other records remain.
    pub(crate) fn records(&self) -> BTreeMap<VolumeNumber, VolumeRecord> {
        self.volumes.lock().clone()
    }

    /// Returns the number of those whose records remain.
    pub(crate) fn len(&self) -> usize {
        self.volumes.lock().len()
    }

    /// Notes that no record of a volume remains.
    pub(crate) fn remove(&self, volume: VolumeNumber) {
        self.volumes.lock().remove(&volume);
    }
}

impl Pool {
    /// Whether a volume was deleted. Costs nothing while none was.
    pub(crate) fn is_deleted(&self, volume: VolumeNumber) -> bool {
        // A volume that is being made has the next number.
        self.deletions.any.load(Ordering::Acquire)
            && volume != POOL
            && volume.0 < self.next_volume.load(Ordering::Relaxed)
            && !self.volumes.read().contains_key(&volume)
    }

    /// Drops the unstable data of a file of a deleted volume.
    pub(crate) fn drop_unstable(&self, cell: &SharedInode) {
        let mut state = cell.lock();
        if !state.dirty.is_empty() {
            state.dirty.remove(0, u64::MAX);
            self.account_dirty(&mut state);
        }
        state.unsaved = false;
    }
}
