//! Usage counters (rule 12 of `docs/design.md`): of volumes, of quota trees, users and groups.
//!
//! Every object may have an owner of its own, so the counters are in the index, and a memtable holds only what changed
//! since: a counter is what the index has, changed as the frozen memtable says, and then the active one. A checkpoint adds
//! the changes to the index. What counters must be known at once, as those of whole volumes for FSSTAT, is also kept
//! whole in memory.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::api::ids::VolumeNumber;
use crate::api::quotas::QuotaKind;
use crate::encoding::entry::UsageDelta;
use crate::encoding::key;
use crate::encoding::key::Key;
use crate::encoding::record::{InodeRecord, UsageRecord};

/// Memory of a changed counter, bytes.
const CHANGE_BYTES: u64 = 80;

/// Whose usage: that of which kind, and which one.
pub type Counter = (VolumeNumber, QuotaKind, u64);

/// Returns the key of a counter's record.
pub fn key_of(counter: Counter) -> Key {
    key::usage(counter.0, counter.1.byte(), counter.2)
}

/// How a counter changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageChange {
    /// By bytes and inodes.
    By(i64, i64),
    /// It was counted anew: older layers do not matter.
    To(UsageRecord),
}

impl UsageChange {
    /// Returns a record that was changed so. One that was too low because of damage stops at zero.
    pub fn of(self, record: UsageRecord) -> UsageRecord {
        match self {
            UsageChange::By(bytes, inodes) => record.changed(bytes, inodes),
            UsageChange::To(record) => record,
        }
    }

    /// Returns both changes in one.
    fn and(self, delta: &UsageDelta) -> UsageChange {
        match self {
            UsageChange::By(bytes, inodes) => {
                UsageChange::By(bytes.saturating_add(delta.bytes), inodes.saturating_add(delta.inodes))
            }
            UsageChange::To(record) => UsageChange::To(record.changed(delta.bytes, delta.inodes)),
        }
    }
}

/// The changes of counters in one memtable.
///
/// Those that add up to nothing are forgotten. So there are no more than a few for each object that the memtable holds
/// records of, however often objects come and go or change hands.
#[derive(Debug, Default)]
pub struct UsageChanges(Mutex<HashMap<Counter, UsageChange>>);

impl UsageChanges {
    /// Adds the deltas of an entry, and what memory they take to `memory_bytes`.
    pub fn apply(&self, volume: VolumeNumber, deltas: &[UsageDelta], memory_bytes: &AtomicU64) {
        /// A change without effect.
        const NOTHING: UsageChange = UsageChange::By(0, 0);
        if deltas.is_empty() {
            return;
        }
        let mut changes = self.0.lock();
        let before = changes.len() as u64;
        for delta in deltas {
            match changes.entry((volume, delta.kind, delta.id)) {
                Entry::Occupied(mut known) => {
                    let change = known.get().and(delta);
                    if change == NOTHING {
                        known.remove();
                    } else {
                        *known.get_mut() = change;
                    }
                }
                Entry::Vacant(place) => {
                    let change = NOTHING.and(delta);
                    if change != NOTHING {
                        place.insert(change);
                    }
                }
            }
        }
        // Under the lock, as the sum must not fall below zero.
        let after = changes.len() as u64;
        memory_bytes.fetch_add(after.saturating_sub(before) * CHANGE_BYTES, Ordering::Relaxed);
        memory_bytes.fetch_sub(before.saturating_sub(after) * CHANGE_BYTES, Ordering::Relaxed);
    }

    /// Sets a counter that was counted anew.
    pub fn set(&self, counter: Counter, record: UsageRecord) {
        self.0.lock().insert(counter, UsageChange::To(record));
    }

    /// Returns how a counter changed, if it did.
    pub fn of(&self, counter: Counter) -> Option<UsageChange> {
        self.0.lock().get(&counter).copied()
    }

    /// Returns all of them in the order of their keys.
    pub fn sorted(&self) -> Vec<(Counter, UsageChange)> {
        let mut changes: Vec<_> = self.0.lock().iter().map(|(counter, change)| (*counter, *change)).collect();
        changes.sort_unstable_by_key(|(counter, _)| *counter);
        changes
    }
}

/// The counters of whole volumes.
#[derive(Debug, Default)]
pub struct VolumeUsage(Mutex<Counters>);

#[derive(Debug, Default)]
struct Counters {
    by_volume: HashMap<VolumeNumber, UsageRecord>,
    /// Their sums; in 128 bits, damaged counters cannot overflow them.
    bytes: u128,
    objects: u128,
}

impl Counters {
    fn get(&self, volume: VolumeNumber) -> UsageRecord {
        self.by_volume.get(&volume).copied().unwrap_or_default()
    }

    fn set(&mut self, volume: VolumeNumber, record: UsageRecord) {
        let before = self.by_volume.insert(volume, record).unwrap_or_default();
        self.bytes = self.bytes + u128::from(record.bytes) - u128::from(before.bytes);
        self.objects = self.objects + u128::from(record.inodes) - u128::from(before.inodes);
    }
}

impl VolumeUsage {
    /// Sets a counter, when its volume is opened.
    pub fn load(&self, volume: VolumeNumber, record: UsageRecord) {
        self.0.lock().set(volume, record);
    }

    /// Adds the deltas of an entry.
    pub fn apply(&self, volume: VolumeNumber, deltas: &[UsageDelta]) {
        let mut of_volume = deltas.iter().filter(|delta| delta.kind == QuotaKind::Volume).peekable();
        if of_volume.peek().is_some() {
            let mut counters = self.0.lock();
            let before = counters.get(volume);
            let record = of_volume.fold(before, |record, delta| record.changed(delta.bytes, delta.inodes));
            counters.set(volume, record);
        }
    }

    /// Forgets a volume that is deleted.
    pub fn clear(&self, volume: VolumeNumber) {
        let mut counters = self.0.lock();
        counters.set(volume, UsageRecord::default());
        counters.by_volume.remove(&volume);
    }

    /// Returns what a volume uses.
    pub fn of(&self, volume: VolumeNumber) -> UsageRecord {
        self.0.lock().get(volume)
    }

    /// Returns the bytes that the files of all volumes use.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.0.lock().bytes).unwrap_or(u64::MAX)
    }

    /// Returns the number of objects of all volumes.
    pub fn objects(&self) -> u64 {
        u64::try_from(self.0.lock().objects).unwrap_or(u64::MAX)
    }

    /// Has the next checkpoint write them all, as those in the index may be wrong. No transaction may be in progress.
    pub fn write_all_again(&self, changes: &UsageChanges) {
        for (volume, record) in &self.0.lock().by_volume {
            changes.set((*volume, QuotaKind::Volume, 0), *record);
        }
    }
}

/// Returns the changes to the counters of an inode's volume, owner, group and tree.
pub fn deltas(inode: &InodeRecord, bytes: i64, inodes: i64) -> impl Iterator<Item = UsageDelta> {
    let of = move |kind, id| UsageDelta { kind, id, bytes, inodes };
    let always = [
        of(QuotaKind::Volume, 0),
        of(QuotaKind::User, u64::from(inode.uid)),
        of(QuotaKind::Group, u64::from(inode.gid)),
    ];
    let tree = (inode.tree != 0).then(|| of(QuotaKind::Tree, inode.tree));
    always.into_iter().chain(tree)
}

/// Returns all that an inode adds to the counters.
pub fn whole(inode: &InodeRecord) -> impl Iterator<Item = UsageDelta> {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let further = further_names(signed(inode.usage_objects()) - 1);
    deltas(inode, signed(inode.usage_bytes()), 1).chain([further])
}

/// Returns the change to the counter of a volume when an object that has a name gets or loses so many. Only volumes count these: in
/// another user's or group's directories, anybody may give their files more names.
pub fn further_names(count: i64) -> UsageDelta {
    UsageDelta { kind: QuotaKind::Volume, id: 0, bytes: 0, inodes: count }
}

/// Returns the changes to the counters of trees if an inode that uses so much leaves one for another.
pub fn moved(from: u64, to: u64, bytes: i64) -> impl Iterator<Item = UsageDelta> {
    let of = |id, bytes, inodes| UsageDelta { kind: QuotaKind::Tree, id, bytes, inodes };
    let deltas = [of(from, -bytes, -1), of(to, bytes, 1)];
    deltas.into_iter().filter(|delta| delta.id != 0)
}

#[cfg(test)]
mod tests;
