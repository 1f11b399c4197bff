//! A filter that proves names absent without reading the index.
//!
//! Creating a file, and every failed lookup along a search path, first asks for a name that does not exist. Only the
//! index knows that: at worst a read of media for one bit of information. So the filter keeps the hashes of all names
//! of active directories. A missing hash proves the name absent; a present one proves nothing.
//!
//! The hashes of a directory are always a superset of its names in the read view: a name enters after it was applied
//! to the memtable, while its directory is locked, and a lookup consults the memtables first. Hashes are counted,
//! so that removing one of two colliding names leaves the other's hash in place; counting a name twice is harmless, as it
//! then only seems present.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;

use crate::api::ids::ObjectId;
use crate::cache::blocks::Hasher;

/// Number of shards, each with a lock of its own; a power of two.
const SHARDS: usize = 16;

/// Memory of one hash, bytes: a slot of a table that is at worst half full.
const HASH_BYTES: u64 = 20;

/// Overhead of a directory, in names.
const DIRECTORY_NAMES: usize = 8;

/// A directory's names are read after one failed lookup for every this many names.
const NAMES_PER_MISS: u64 = 512;

/// Hashes of the names of directories, bounded in memory.
#[derive(Debug)]
pub struct NegativeLookupFilter {
    hasher: Hasher,
    shards: [Mutex<Shard>; SHARDS],
    /// Most names in a shard.
    max: usize,
}

#[derive(Debug, Default)]
struct Shard {
    directories: BTreeMap<ObjectId, Directory>,
    /// Where eviction continues: with the first directory from here on.
    hand: ObjectId,
    /// Names of all directories, and [`DIRECTORY_NAMES`] for each.
    names: usize,
    /// Numbers the readings: one that outlived the eviction of its directory is not mistaken for a later one.
    readings: u64,
}

#[derive(Debug, Default)]
struct Directory {
    /// Whether the hashes are complete. Otherwise they are still being read, or only misses were counted.
    complete: bool,
    /// The number of the reading in progress; 0 if none.
    learning: u64,
    /// Failed lookups so far.
    misses: u64,
    hashes: HashSet<u64>,
    /// Counts of further names with a hash in `hashes`.
    more: HashMap<u64, u32>,
}

/// What a transaction does to names.
#[derive(Debug)]
pub enum NameChange {
    /// The directory gained this name.
    Added(ObjectId, u64),
    /// The directory lost this name.
    Removed(ObjectId, u64),
    /// The directory was removed.
    Gone(ObjectId),
}

impl NegativeLookupFilter {
    /// Returns a filter of about `bytes`.
    pub fn new(bytes: u64, hasher: Hasher) -> NegativeLookupFilter {
        let max = usize::try_from(bytes / HASH_BYTES / SHARDS as u64).unwrap_or(usize::MAX);
        NegativeLookupFilter { hasher, shards: Default::default(), max: max.max(64) }
    }

    /// Returns the hash of a name.
    pub fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Whether the directory certainly lacks the name, unless a memtable says otherwise.
    pub fn is_absent(&self, directory: ObjectId, name: &[u8]) -> bool {
        let hash = self.hash(name);
        let shard = self.shard(directory).lock();
        shard.directories.get(&directory).is_some_and(|known| known.complete && !known.hashes.contains(&hash))
    }

    /// Adds a new, empty directory. Names must not be added to it before this call.
    pub fn directory_created(&self, directory: ObjectId) {
        let mut shard = self.shard(directory).lock();
        shard.names += DIRECTORY_NAMES;
        shard.directories.insert(directory, Directory { complete: true, ..Directory::default() });
        shard.evict(self.max, directory);
    }

    /// Follows transactions after they were applied, while their directories are locked.
    pub fn note(&self, changes: &[NameChange]) {
        for change in changes {
            let (NameChange::Added(ino, _) | NameChange::Removed(ino, _) | NameChange::Gone(ino)) = *change;
            let mut shard = self.shard(ino).lock();
            match *change {
                NameChange::Added(_, hash) => {
                    shard.add(ino, &[hash]);
                    shard.evict(self.max, ino);
                }
                NameChange::Removed(_, hash) => shard.remove(ino, hash),
                NameChange::Gone(_) => shard.forget(ino),
            }
        }
    }

    /// Counts a failed lookup in a directory of `entries` names. If its names should be read now, returns the number
    /// of that reading, for [`NegativeLookupFilter::fill`] to end it.
    pub fn note_miss(&self, directory: ObjectId, entries: u64) -> Option<u64> {
        let fits = usize::try_from(entries).is_ok_and(|entries| entries < self.max / 4);
        let mut shard = self.shard(directory).lock();
        if !shard.directories.contains_key(&directory) {
            shard.names += DIRECTORY_NAMES;
            shard.directories.insert(directory, Directory::default());
            shard.evict(self.max, directory);
        }
        shard.readings += 1;
        let reading = shard.readings;
        let known = shard.directories.get_mut(&directory)?;
        known.misses += 1;
        let worth = fits && known.misses > entries / NAMES_PER_MISS;
        if !worth || known.complete || known.learning != 0 {
            return None;
        }
        known.learning = reading;
        Some(reading)
    }

    /// Ends a reading with all hashes of the directory's names, or `None` if it failed.
    pub fn fill(&self, directory: ObjectId, reading: u64, hashes: Option<&[u64]>) {
        let mut shard = self.shard(directory).lock();
        // If the directory was evicted meanwhile, so were its changes since.
        if shard.directories.get(&directory).is_none_or(|known| known.learning != reading) {
            return;
        }
        shard.add(directory, hashes.unwrap_or_default());
        if let Some(known) = shard.directories.get_mut(&directory) {
            known.learning = 0;
            known.complete = hashes.is_some();
        }
        shard.evict(self.max, directory);
    }

    /// Returns the number of names kept.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().names).sum()
    }

    fn shard(&self, directory: ObjectId) -> &Mutex<Shard> {
        let number = usize::try_from(directory.ino.0.wrapping_add(directory.volume.0.into()) % SHARDS as u64)
            .unwrap_or(0);
        &self.shards[number]
    }
}

impl Shard {
    fn add(&mut self, directory: ObjectId, hashes: &[u64]) {
        let Some(known) = self.directories.get_mut(&directory) else { return };
        if !known.complete && known.learning == 0 {
            return;
        }
        for hash in hashes {
            if !known.hashes.insert(*hash) {
                *known.more.entry(*hash).or_default() += 1;
            }
        }
        self.names += hashes.len();
    }

    fn remove(&mut self, directory: ObjectId, hash: u64) {
        let Some(known) = self.directories.get_mut(&directory) else { return };
        if let Some(count) = known.more.get_mut(&hash) {
            *count -= 1;
            if *count == 0 {
                known.more.remove(&hash);
            }
        } else if !known.hashes.remove(&hash) {
            return;
        }
        self.names -= 1;
    }

    fn forget(&mut self, directory: ObjectId) {
        if let Some(known) = self.directories.remove(&directory) {
            let more: usize = known.more.values().map(|count| *count as usize).sum();
            self.names -= known.hashes.len() + more + DIRECTORY_NAMES;
        }
    }

    /// Evicts directories in the order of their numbers until the rest fits; `but` goes last.
    fn evict(&mut self, max: usize, but: ObjectId) {
        while self.names > max {
            let others = |(ino, _): &(&ObjectId, &Directory)| **ino != but;
            let next = self.directories.range(self.hand..).find(others);
            let victim = next.or_else(|| self.directories.iter().find(others)).map_or(but, |(ino, _)| *ino);
            self.hand = victim.next();
            self.forget(victim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ids::Ino;
    use crate::cache::blocks;
    use crate::encoding::key;

    const DIRECTORY: ObjectId = key::FIRST.object(Ino(7));

    fn added(names: &NegativeLookupFilter, name: &[u8]) {
        names.note(&[NameChange::Added(DIRECTORY, names.hash(name))]);
    }

    fn removed(names: &NegativeLookupFilter, name: &[u8]) {
        names.note(&[NameChange::Removed(DIRECTORY, names.hash(name))]);
    }

    #[test]
    fn a_new_directory_is_known_from_the_start() {
        let names = NegativeLookupFilter::new(1 << 20, blocks::hasher(None));
        assert!(!names.is_absent(DIRECTORY, b"a"), "nothing is known of it");
        names.directory_created(DIRECTORY);
        assert!(names.is_absent(DIRECTORY, b"a"));
        added(&names, b"a");
        assert!(!names.is_absent(DIRECTORY, b"a") && names.is_absent(DIRECTORY, b"b"));
        removed(&names, b"a");
        assert!(names.is_absent(DIRECTORY, b"a"));
        names.note(&[NameChange::Gone(DIRECTORY)]);
        assert!(!names.is_absent(DIRECTORY, b"a"));
        assert_eq!(names.len(), 0);
    }

    #[test]
    fn changes_during_a_reading_are_kept() {
        let names = NegativeLookupFilter::new(1 << 20, blocks::hasher(None));
        added(&names, b"before");
        let reading = names.note_miss(DIRECTORY, 2).unwrap();
        assert_eq!(names.note_miss(DIRECTORY, 2), None, "one reads, others do not");
        added(&names, b"meanwhile");
        assert!(!names.is_absent(DIRECTORY, b"other"), "not yet known");
        names.fill(DIRECTORY, reading, Some(&[names.hash(b"before")]));
        assert!(names.is_absent(DIRECTORY, b"other"));
        assert!(!names.is_absent(DIRECTORY, b"before") && !names.is_absent(DIRECTORY, b"meanwhile"));
    }

    #[test]
    fn a_failed_or_evicted_reading_proves_nothing() {
        let names = NegativeLookupFilter::new(1 << 20, blocks::hasher(None));
        let first = names.note_miss(DIRECTORY, 2).unwrap();
        names.fill(DIRECTORY, first, None);
        assert!(!names.is_absent(DIRECTORY, b"a"));
        let second = names.note_miss(DIRECTORY, 2).unwrap();
        names.note(&[NameChange::Gone(DIRECTORY)]);
        added(&names, b"missed by the second");
        let third = names.note_miss(DIRECTORY, 2).unwrap();
        names.fill(DIRECTORY, second, Some(&[]));
        assert!(!names.is_absent(DIRECTORY, b"missed by the second"));
        names.fill(DIRECTORY, third, Some(&[names.hash(b"missed by the second")]));
        assert!(!names.is_absent(DIRECTORY, b"missed by the second") && names.is_absent(DIRECTORY, b"b"));
    }

    #[test]
    fn names_with_equal_hashes_are_counted() {
        let names = NegativeLookupFilter::new(1 << 20, blocks::hasher(None));
        names.directory_created(DIRECTORY);
        added(&names, b"a");
        added(&names, b"a");
        removed(&names, b"a");
        assert!(!names.is_absent(DIRECTORY, b"a"));
        removed(&names, b"a");
        assert!(names.is_absent(DIRECTORY, b"a"));
    }

    #[test]
    fn memory_is_bounded() {
        let names = NegativeLookupFilter::new(0, blocks::hasher(None));
        for ino in 0..1000 {
            names.directory_created(key::FIRST.object(Ino(ino)));
            for name in 0..100_u32 {
                names
                    .note(&[NameChange::Added(key::FIRST.object(Ino(ino)), names.hash(&name.to_be_bytes()))]);
            }
        }
        assert!(names.len() <= 64 * SHARDS);
        let tries = |names: &NegativeLookupFilter| {
            (0..10).position(|_| names.note_miss(DIRECTORY, NAMES_PER_MISS * 5).is_some())
        };
        assert_eq!(tries(&names), None, "more than fit are never read");
        assert_eq!(
            tries(&NegativeLookupFilter::new(1 << 30, blocks::hasher(None))),
            Some(5),
            "many are read when it is worth it"
        );
    }
}
