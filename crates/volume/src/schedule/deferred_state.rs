//! Protocol state records to journal before anything else is.
//!
//! A record that nobody waits for, and that is mostly deleted soon, such as that of a file that is opened to be read,
//! costs nothing if it is deleted before the volume changes otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::api::state::{StateChange, StateKey};
use crate::limits::STATE_BYTES_PER_ENTRY_MAX;

/// The records, in an order that a simulation can repeat.
type Records = BTreeMap<StateKey, Arc<[u8]>>;

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
    /// Adds a record whose key no layer holds. Returns false if there is no room.
    pub fn add(&self, key: &[u8], value: &Arc<[u8]>) -> bool {
        let mut records = self.records.lock();
        let held: usize = records.iter().map(|(key, value)| key.len() + value.len()).sum();
        if held + key.len() + value.len() > STATE_BYTES_PER_ENTRY_MAX {
            return false;
        }
        records.insert(key.into(), Arc::clone(value));
        self.any.store(true, Ordering::Release);
        true
    }

    /// Returns whether all of `changes` delete records that still wait here, which then are gone.
    pub fn cancel(&self, changes: &[StateChange]) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut records = self.records.lock();
        let all = changes.iter().all(|change| change.value.is_none() && records.contains_key(&change.key));
        if all {
            changes.iter().for_each(|change| drop(records.remove(&change.key)));
            self.any.store(!records.is_empty(), Ordering::Release);
        }
        all
    }

    /// Lets `journal` journal all records, if there are any. No other thread changes them meanwhile.
    pub fn take(&self, journal: impl FnOnce(Records)) {
        if self.any.load(Ordering::Acquire) {
            let mut records = self.records.lock();
            if !records.is_empty() {
                journal(std::mem::take(&mut records));
            }
            // Not before: who finds none may rely on their being journaled.
            self.any.store(false, Ordering::Release);
        }
    }
}
