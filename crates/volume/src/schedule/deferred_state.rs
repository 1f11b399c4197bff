//! Protocol state records to journal before anything else is.
//!
//! A record that nobody waits for, and that is mostly deleted soon, such as that of a file that is opened to be read,
//! costs nothing if it is deleted before the volume changes otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::api::ids::VolumeNumber;
use crate::api::state::{DeferredValue, StateChange, StateKey};
use crate::limits::STATE_BYTES_PER_ENTRY_MAX;

/// A record with its volume and key.
pub type DeferredRecord = (VolumeNumber, StateKey, Arc<dyn DeferredValue>);

/// The records of each volume that ever had one.
#[derive(Debug, Default)]
struct Records {
    of_volumes: BTreeMap<VolumeNumber, HashMap<StateKey, Arc<dyn DeferredValue>>>,
    /// Most bytes of all keys and values.
    bytes: usize,
}

impl Records {
    fn are_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Adds a record; returns it if there is no room.
    fn add(&mut self, (volume, key, value): DeferredRecord) -> Result<(), DeferredRecord> {
        let bytes = key.len() + value.bytes_max();
        if self.bytes + bytes > STATE_BYTES_PER_ENTRY_MAX {
            return Err((volume, key, value));
        }
        self.bytes += bytes;
        let key_bytes = key.len();
        if let Some(earlier) = self.of_volumes.entry(volume).or_default().insert(key, value) {
            self.bytes -= key_bytes + earlier.bytes_max();
        }
        Ok(())
    }

    /// Removes the records that `changes` delete, if they delete all of them and do nothing else.
    fn remove_all(&mut self, volume: VolumeNumber, changes: &[StateChange]) -> bool {
        let Some(of_volume) = self.of_volumes.get_mut(&volume) else { return false };
        let is_here = |change: &StateChange| change.value.is_none() && of_volume.contains_key(&change.key);
        // One is looked up as it is removed.
        let all = match changes {
            [change] => change.value.is_none(),
            changes => changes.iter().all(is_here),
        };
        all && changes.iter().all(|change| {
            let removed = of_volume.remove(&change.key);
            self.bytes -= removed.as_ref().map_or(0, |value| change.key.len() + value.bytes_max());
            removed.is_some()
        })
    }

    /// Takes all, in an order that a simulation can repeat.
    fn take_sorted(&mut self) -> Vec<DeferredRecord> {
        self.bytes = 0;
        let of_volumes = self.of_volumes.iter_mut();
        let all = of_volumes
            .flat_map(|(volume, of_volume)| of_volume.drain().map(|(key, value)| (*volume, key, value)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by(|(volume, key, _), (other, of_other, _)| (volume, key).cmp(&(other, of_other)));
        all
    }
}

/// Records that wait for the next journal entry. They fit one entry.
///
/// Its lock comes after `view`, and before the committer's queue.
#[derive(Debug, Default)]
pub struct DeferredState {
    records: Mutex<Records>,
    /// Whether there may be any, or some are being journaled.
    any: AtomicBool,
}

impl DeferredState {
    /// Adds a record whose key no layer holds. Returns it if there is no room.
    pub fn add(&self, record: DeferredRecord) -> Result<(), DeferredRecord> {
        let mut records = self.records.lock();
        records.add(record)?;
        self.any.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns whether all of `changes` delete records that still wait here, which then are gone.
    pub fn cancel(&self, volume: VolumeNumber, changes: &[StateChange]) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut records = self.records.lock();
        let all = records.remove_all(volume, changes);
        if all {
            self.any.store(!records.are_empty(), Ordering::Release);
        }
        all
    }

    /// Lets `journal` journal all records, if there are any. No other thread changes them meanwhile.
    pub fn take(&self, journal: impl FnOnce(Vec<DeferredRecord>)) {
        if self.any.load(Ordering::Acquire) {
            let mut records = self.records.lock();
            if !records.are_empty() {
                journal(records.take_sorted());
            }
            // Not before: who finds none may rely on their being journaled.
            self.any.store(false, Ordering::Release);
        }
    }
}
