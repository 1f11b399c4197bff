//! Changes since a checkpoint: ordered, in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockWriteGuard};

use crate::api::ids::{Layer, VolumeNumber};
use crate::bytes::Value;
use crate::encoding::entry::{Slot, UsageDelta};
use crate::encoding::key;
use crate::encoding::key::Key;
use crate::tables::usage::UsageChanges;

/// Number of shards, each with a lock of its own; a power of two.
const SHARDS: usize = 16;

/// Records that are visited while others wait for the lock: a fraction of a millisecond's work.
const PART_RECORDS: usize = 1024;

/// Memory of a record beyond key and value, bytes: tree node, pointers, reference counts.
const RECORD_OVERHEAD_BYTES: u64 = 96;

fn record_bytes(key: &Key, slot: &Slot) -> u64 {
    (key.len() + slot.as_ref().map_or(0, Value::memory_bytes)) as u64 + RECORD_OVERHEAD_BYTES
}

/// What a memtable holds for a key.
#[derive(Debug)]
struct Stored {
    slot: Slot,
    /// Whether no older layer holds the key, so that deleting it needs no tombstone.
    fresh: bool,
}

/// Records of the inodes that share a lock.
type Shard = BTreeMap<Key, Stored>;

/// What deleting a record leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trace {
    /// A tombstone, which hides records of older layers.
    Tombstone,
    /// None over a record that no older layer holds.
    NoneIfFresh,
    /// None.
    None,
}

/// Applies one change; returns the bytes added and the bytes removed.
fn apply_one(shard: &mut Shard, key: Key, slot: Slot, trace: Trace) -> (u64, u64) {
    let size = record_bytes(&key, &slot);
    let marked = trace == Trace::NoneIfFresh;
    match shard.entry(key) {
        Entry::Vacant(_) if slot.is_none() && trace == Trace::None => (0, 0),
        Entry::Vacant(place) => {
            let fresh = marked && slot.is_some();
            place.insert(Stored { slot, fresh });
            (size, 0)
        }
        Entry::Occupied(mut place) => {
            let old = record_bytes(place.key(), &place.get().slot);
            if slot.is_none() && (trace == Trace::None || marked && place.get().fresh) {
                place.remove();
                (0, old)
            } else {
                place.get_mut().slot = slot;
                (size, old)
            }
        }
    }
}

/// Returns what deleting a record leaves. `fresh` is what the transaction says.
fn trace_of(key: &[u8], fresh: bool) -> Trace {
    match key::parse(key) {
        // Whatever replaces a mapping covers its range, so layers hide each other's mappings by range and not by key.
        // Tombstones would say nothing, and searches for a mapping would have to pass over them.
        Some((_, key::Table::Map, _)) => Trace::None,
        // A cookie is given to one name only, so no older layer holds one that is put here, and a listing need not skip
        // its tombstone (rule 8 of `docs/design.md`).
        Some((_, key::Table::Cookie, _)) => Trace::NoneIfFresh,
        _ if fresh => Trace::NoneIfFresh,
        _ => Trace::Tombstone,
    }
}

/// One layer of recent changes.
///
/// Records of one inode lie in one shard, so scans within an inode are ordered. Locks are held for a lookup or an
/// insertion, never across I/O.
#[derive(Debug)]
pub struct Memtable {
    /// Its number among the layers.
    pub layer: Layer,
    shards: [RwLock<Shard>; SHARDS],
    bytes: AtomicU64,
    inline_bytes: AtomicU64,
    hole_bytes: AtomicU64,
    long_value_bytes: AtomicU64,
    /// How usage counters changed.
    pub usage: UsageChanges,
}

impl Memtable {
    /// Returns an empty memtable.
    pub fn new(layer: Layer) -> Memtable {
        Memtable {
            layer,
            shards: Default::default(),
            bytes: AtomicU64::new(0),
            inline_bytes: AtomicU64::new(0),
            hole_bytes: AtomicU64::new(0),
            long_value_bytes: AtomicU64::new(0),
            usage: UsageChanges::default(),
        }
    }

    /// Returns its memory, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the segment space reserved for file data in it, bytes.
    pub fn inline_bytes(&self) -> u64 {
        self.inline_bytes.load(Ordering::Relaxed)
    }

    /// Adds segment space reserved for file data in it.
    pub fn add_inline(&self, bytes: u64) {
        self.inline_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of data that its holes hide, except holes that were replayed.
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes.load(Ordering::Relaxed)
    }

    /// Adds a hole.
    pub fn add_hole(&self, bytes: u64) {
        self.hole_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of extended attribute values and link targets put here, without those replayed from the journal.
    pub fn long_value_bytes(&self) -> u64 {
        self.long_value_bytes.load(Ordering::Relaxed)
    }

    /// Counts such a value, of this many bytes.
    pub fn add_long_value(&self, bytes: u64) {
        self.long_value_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns what it holds for a key: nothing, a tombstone (`Some(None)`), or a value.
    pub fn get(&self, key: &Key) -> Option<Slot> {
        self.shards[key::shard(key, SHARDS)].read().get(key).map(|stored| stored.slot.clone())
    }

    /// Applies changes. `fresh` are the indices of records put where no older layer holds the key, or deleted without
    /// need of a tombstone: what comes and goes within one layer leaves no trace. Nor do mappings that are replaced.
    ///
    /// Consecutive changes of one inode become visible together. Otherwise a listing, which does not lock its
    /// directory, could miss a name that a rename replaces, between the removal of its old cookie and its new one.
    pub fn apply(&self, records: impl IntoIterator<Item = (Key, Slot)>, fresh: &[usize]) {
        let (mut grown, mut shrunk) = (0, 0);
        let mut locked: Option<(usize, RwLockWriteGuard<'_, Shard>)> = None;
        for (place, (key, slot)) in records.into_iter().enumerate() {
            let number = key::shard(&key, SHARDS);
            // Never lock two shards at a time.
            let mut shard = match locked.take() {
                Some((other, shard)) if other == number => shard,
                other => {
                    drop(other);
                    self.shards[number].write()
                }
            };
            let trace = trace_of(&key, fresh.contains(&place));
            let (more, less) = apply_one(&mut shard, key, slot, trace);
            grown += more;
            shrunk += less;
            locked = Some((number, shard));
        }
        drop(locked);
        self.bytes.fetch_add(grown, Ordering::Relaxed);
        self.bytes.fetch_sub(shrunk, Ordering::Relaxed);
    }

    /// Adds changes of usage counters.
    pub fn add_usage(&self, volume: VolumeNumber, deltas: &[UsageDelta]) {
        self.usage.apply(volume, deltas, &self.bytes);
    }

    /// Visits records with `from <= key < to`, both within one inode of one table, in order.
    pub fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(&Key, &Slot) -> ControlFlow<()>) {
        let shard = self.shards[key::shard(from, SHARDS)].read();
        // The map would search for both bounds, though mostly only a record or two lie between them.
        let range = shard.range::<Key, _>((Bound::Included(from), Bound::Unbounded));
        for (key, stored) in range.take_while(|(key, _)| *key < to) {
            if visit(key, &stored.slot).is_break() {
                return;
            }
        }
    }

    /// Like [`Memtable::scan`] for very many records: lets others change records every now and then.
    pub fn scan_in_parts(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(&Key, &Slot) -> ControlFlow<()>) {
        let mut next = Some(from.clone());
        while let Some(from) = next.take() {
            let mut left = PART_RECORDS;
            self.scan(&from, to, &mut |key, slot| {
                visit(key, slot)?;
                left -= 1;
                if left > 0 {
                    return ControlFlow::Continue(());
                }
                next = Some(key.successor());
                ControlFlow::Break(())
            });
        }
    }

    /// Visits the records of a table, of all inodes, in no order.
    pub fn each_of(&self, volume: VolumeNumber, table: key::Table, visit: &mut dyn FnMut(&Key, &Slot)) {
        let (from, to) = key::table_range(volume, table);
        for shard in &self.shards {
            let shard = shard.read();
            let range = shard.range::<Key, _>((Bound::Included(&from), Bound::Excluded(&to)));
            range.for_each(|(key, stored)| visit(key, &stored.slot));
        }
    }

    /// The same for very many records: lets others change records every now and then.
    pub fn each_of_in_parts(
        &self,
        volume: VolumeNumber,
        table: key::Table,
        visit: &mut dyn FnMut(&Key, &Slot),
    ) {
        let (first, to) = key::table_range(volume, table);
        for shard in &self.shards {
            let mut next = Some(first.clone());
            while let Some(from) = next.take() {
                let shard = shard.read();
                let range = shard.range::<Key, _>((Bound::Included(&from), Bound::Excluded(&to)));
                for (number, (key, stored)) in range.enumerate() {
                    if number == PART_RECORDS {
                        next = Some(key.clone());
                        break;
                    }
                    visit(key, &stored.slot);
                }
            }
        }
    }

    /// Whether it holds nothing, not even tombstones.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.read().is_empty())
    }

    /// Returns all records in key order; values are shared, not copied.
    pub fn sorted(&self) -> Vec<(Key, Slot)> {
        let mut all: Vec<(Key, Slot)> = Vec::new();
        for shard in &self.shards {
            all.extend(shard.read().iter().map(|(key, stored)| (key.clone(), stored.slot.clone())));
        }
        // The stable sort merges runs that are already sorted, as each shard yields for each table.
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

#[cfg(test)]
mod tests;
