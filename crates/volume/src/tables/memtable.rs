//! What the journal says since a checkpoint, ordered, in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockWriteGuard};

use crate::api::ids::{Layer, Member};
use crate::bytes::Value;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::Key;

/// Parts that are locked one by one; a power of two.
const SHARDS: usize = 16;

/// What a record costs in memory beyond its key and value, bytes: tree node, pointers, reference counts.
const RECORD_OVERHEAD_BYTES: u64 = 96;

fn record_bytes(key: &Key, slot: &Slot) -> u64 {
    (key.len() + slot.as_ref().map_or(0, Value::memory_bytes)) as u64 + RECORD_OVERHEAD_BYTES
}

/// What a layer says of a key.
#[derive(Debug)]
struct Stored {
    slot: Slot,
    /// It was put where no older layer holds anything, so there is nothing to hide when it is deleted.
    fresh: bool,
}

/// Records of the inodes that share a lock.
type Shard = BTreeMap<Key, Stored>;

/// Takes one change over; returns the bytes that came, and those that went.
fn apply_one(shard: &mut Shard, key: Key, slot: Slot, marked: bool) -> (u64, u64) {
    let size = record_bytes(&key, &slot);
    match shard.entry(key) {
        Entry::Vacant(place) => {
            let fresh = marked && slot.is_some();
            place.insert(Stored { slot, fresh });
            (size, 0)
        }
        Entry::Occupied(mut place) => {
            let old = record_bytes(place.key(), &place.get().slot);
            if slot.is_none() && marked && place.get().fresh {
                place.remove();
                (0, old)
            } else {
                place.get_mut().slot = slot;
                (size, old)
            }
        }
    }
}

fn is_cookie(key: &[u8]) -> bool {
    matches!(key::parse(key), Some((_, key::Table::Cookie, _)))
}

/// One layer of recent changes.
///
/// Records of one inode lie in one shard, so scans within an inode are ordered. Locks are held for a lookup or an
/// insertion, never across I/O.
#[derive(Debug)]
pub struct Memtable {
    /// Its place in the sequence of layers.
    pub layer: Layer,
    shards: [RwLock<Shard>; SHARDS],
    bytes: AtomicU64,
    inline_bytes: AtomicU64,
    hole_bytes: AtomicU64,
}

impl Memtable {
    /// An empty layer.
    pub fn new(layer: Layer) -> Memtable {
        Memtable {
            layer,
            shards: Default::default(),
            bytes: AtomicU64::new(0),
            inline_bytes: AtomicU64::new(0),
            hole_bytes: AtomicU64::new(0),
        }
    }

    /// Memory that it takes, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// File data in it for which segment space is reserved, bytes.
    pub fn inline_bytes(&self) -> u64 {
        self.inline_bytes.load(Ordering::Relaxed)
    }

    /// Notes segment space reserved for file data that was put here.
    pub fn add_inline(&self, bytes: u64) {
        self.inline_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of data that holes in it hide; not those of holes that were replayed.
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes.load(Ordering::Relaxed)
    }

    /// Notes a hole that was put here.
    pub fn add_hole(&self, bytes: u64) {
        self.hole_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What it says of a key: nothing, deleted (`Some(None)`), or a value.
    pub fn get(&self, key: &Key) -> Option<Slot> {
        self.shards[key::shard(key, SHARDS)].read().get(key).map(|stored| stored.slot.clone())
    }

    /// Takes changes over. `fresh` are the places of those that are put where no older layer holds anything, or deleted
    /// so that nothing need be left of them: what comes and goes within one layer then leaves no trace.
    ///
    /// Changes of one inode that follow each other are seen all or none: else a listing, which takes no lock of its
    /// directory, would miss a name that a rename replaces, between the end of its old cookie and its new one.
    pub fn apply(&self, records: impl IntoIterator<Item = (Key, Slot)>, fresh: &[usize]) {
        let (mut grown, mut shrunk) = (0, 0);
        let mut locked: Option<(usize, RwLockWriteGuard<'_, Shard>)> = None;
        for (place, (key, slot)) in records.into_iter().enumerate() {
            let number = key::shard(&key, SHARDS);
            // Never two at a time.
            let mut shard = match locked.take() {
                Some((other, shard)) if other == number => shard,
                other => {
                    drop(other);
                    self.shards[number].write()
                }
            };
            // A cookie is given to one name once, so one that is put here is in no older layer, and a listing need not
            // pass over it when it is gone (rule 8 of `docs/design.md`).
            let marked = is_cookie(&key) || fresh.contains(&place);
            let (more, less) = apply_one(&mut shard, key, slot, marked);
            grown += more;
            shrunk += less;
            locked = Some((number, shard));
        }
        drop(locked);
        self.bytes.fetch_add(grown, Ordering::Relaxed);
        self.bytes.fetch_sub(shrunk, Ordering::Relaxed);
    }

    /// Visits records with `from <= key < to`, both within one inode of one table, in order.
    pub fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(&Key, &Slot) -> ControlFlow<()>) {
        let shard = self.shards[key::shard(from, SHARDS)].read();
        // The map would search for both ends at once, where mostly a record or two are between them.
        let range = shard.range::<Key, _>((Bound::Included(from), Bound::Unbounded));
        for (key, stored) in range.take_while(|(key, _)| *key < to) {
            if visit(key, &stored.slot).is_break() {
                return;
            }
        }
    }

    /// Visits the records of a table, whichever inodes they belong to, in no order.
    pub fn each_of(&self, member: Member, table: key::Table, visit: &mut dyn FnMut(&Key, &Slot)) {
        let (from, to) = key::table_range(member, table);
        for shard in &self.shards {
            let shard = shard.read();
            let range = shard.range::<Key, _>((Bound::Included(&from), Bound::Excluded(&to)));
            range.for_each(|(key, stored)| visit(key, &stored.slot));
        }
    }

    /// Whether nothing was put or deleted.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.read().is_empty())
    }

    /// All records in key order; values are shared, not copied.
    pub fn sorted(&self) -> Vec<(Key, Slot)> {
        let mut all: Vec<(Key, Slot)> = Vec::new();
        for shard in &self.shards {
            all.extend(shard.read().iter().map(|(key, stored)| (key.clone(), stored.slot.clone())));
        }
        // The stable sort merges runs that are in order already, which is what each shard gave for each table.
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

#[cfg(test)]
mod tests;
