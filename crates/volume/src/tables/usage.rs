//! Exact usage counters (rule 12 of `docs/design.md`): of the volume, of quota trees, users and groups.

use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;

use crate::encoding::entry::UsageDelta;
use crate::encoding::key;
use crate::encoding::key::Key;
use crate::encoding::record::{InodeRecord, UsageKind, UsageRecord};

type Counter = (UsageKind, u64);

/// All counters, and which of them changed since the last freeze.
#[derive(Debug, Default)]
pub struct Usage {
    state: Mutex<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    counters: HashMap<Counter, UsageRecord>,
    changed: HashSet<Counter>,
}

impl Usage {
    /// Sets a counter, when a volume is opened.
    pub fn load(&self, kind: UsageKind, id: u64, record: UsageRecord) {
        self.state.lock().counters.insert((kind, id), record);
    }

    /// Sets all counters to zero, so that they can be counted anew. All of them count as changed.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        let Counters { counters, changed } = &mut *state;
        changed.extend(counters.drain().map(|(counter, _)| counter));
    }

    /// Adds the deltas of an entry. A counter that was too low because of damage stops at zero.
    pub fn apply(&self, deltas: &[UsageDelta]) {
        let mut state = self.state.lock();
        for delta in deltas {
            let counter = (delta.kind, delta.id);
            let record = state.counters.entry(counter).or_default();
            // A counter that was counted anew after its index was damaged may be too low.
            record.bytes = record.bytes.saturating_add_signed(delta.bytes);
            record.inodes = record.inodes.saturating_add_signed(delta.inodes);
            state.changed.insert(counter);
        }
    }

    /// Makes the next checkpoint write all counters, as those in the index are lost or wrong.
    pub fn write_all_again(&self) {
        let mut state = self.state.lock();
        let Counters { counters, changed } = &mut *state;
        changed.extend(counters.keys());
    }

    /// Returns a counter.
    pub fn get(&self, kind: UsageKind, id: u64) -> UsageRecord {
        self.state.lock().counters.get(&(kind, id)).copied().unwrap_or_default()
    }

    /// Returns the records of counters that changed since the last call; a counter at zero is deleted.
    pub fn take_changed(&self) -> Vec<(Key, Option<UsageRecord>)> {
        let mut state = self.state.lock();
        let mut changed: Vec<Counter> = state.changed.drain().collect();
        changed.sort_unstable();
        let records = changed
            .into_iter()
            .map(|counter| {
                let record = state.counters.get(&counter).copied().unwrap_or_default();
                (
                    key::usage(counter.0.byte(), counter.1),
                    Some(record).filter(|record| *record != UsageRecord::default()),
                )
            })
            .collect();
        state.counters.retain(|_, record| *record != UsageRecord::default());
        records
    }
}

/// Returns the changes to the counters of an inode's volume, owner, group and tree.
pub fn deltas(inode: &InodeRecord, bytes: i64, inodes: i64) -> Vec<UsageDelta> {
    let mut deltas = vec![
        UsageDelta { kind: UsageKind::Volume, id: 0, bytes, inodes },
        UsageDelta { kind: UsageKind::User, id: u64::from(inode.uid), bytes, inodes },
        UsageDelta { kind: UsageKind::Group, id: u64::from(inode.gid), bytes, inodes },
    ];
    if inode.tree != 0 {
        deltas.push(UsageDelta { kind: UsageKind::Tree, id: inode.tree, bytes, inodes });
    }
    deltas
}

#[cfg(test)]
mod tests;
