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
use crate::api::state::{StateChange, StateKey};
use crate::limits::STATE_BYTES_PER_ENTRY_MAX;

/// A record with its volume and key.
pub type DeferredRecord = (VolumeNumber, StateKey, Arc<[u8]>);

/// The records of each volume that ever had one.
#[derive(Debug, Default)]
struct Records {
    of_volumes: BTreeMap<VolumeNumber, HashMap<StateKey, Arc<[u8]>>>,
    /// Bytes of all keys and values.
    bytes: usize,
}

impl Records {
    fn are_empty(&self) -> bool {
        self.bytes == 0
    }

    fn remove(&mut self, volume: VolumeNumber, key: &[u8]) {
        let of_volume = self.of_volumes.get_mut(&volume);
        if let Some(value) = of_volume.and_then(|of_volume| of_volume.remove(key)) {
            self.bytes -= key.len() + value.len();
        }
    }

    /// Returns whether all of `changes` delete some of them.
    fn have_all(&self, volume: VolumeNumber, changes: &[StateChange]) -> bool {
        self.of_volumes.get(&volume).is_some_and(|of_volume| {
            changes.iter().all(|change| change.value.is_none() && of_volume.contains_key(&change.key))
        })
    }

    /// Takes all, in an order that a simulation can repeat.
    fn take_sorted(&mut self) -> Vec<DeferredRecord> {
        self.bytes = 0;
        let of_volumes = self.of_volumes.iter_mut();
        let all = of_volumes
            .flat_map(|(volume, of_volume)| of_volume.drain().map(|(key, value)| (*volume, key, value)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
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
    pub fn add(&self, (volume, key, value): DeferredRecord) -> Result<(), DeferredRecord> {
        let mut records = self.records.lock();
        records.remove(volume, &key);
        let bytes = records.bytes + key.len() + value.len();
        if bytes > STATE_BYTES_PER_ENTRY_MAX {
            return Err((volume, key, value));
        }
        records.bytes = bytes;
        records.of_volumes.entry(volume).or_default().insert(key, value);
        self.any.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns whether all of `changes` delete records that still wait here, which then are gone.
    pub fn cancel(&self, volume: VolumeNumber, changes: &[StateChange]) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut records = self.records.lock();
        let all = records.have_all(volume, changes);
        if all {
            changes.iter().for_each(|change| records.remove(volume, &change.key));
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
