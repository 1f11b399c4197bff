//! A cache of names and what they refer to.
//!
//! The read view knows names too, but a lookup there searches two ordered maps and a tree or a table of records: a
//! dozen distant places in memory, most of them cache misses in a large volume. Here a name takes one cache line, and
//! one tag byte per name, kept apart, tells which of the possible places are worth reading.
//!
//! The cache agrees with the read view. A name enters when a transaction that puts it was applied or when a lookup
//! found it in the view; it leaves when a transaction deletes it. Both happen while its directory is locked, and only
//! the holder of that lock looks it up. Checkpoints change no name, so they need not consult the cache. A miss means
//! nothing.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use parking_lot::Mutex;

use crate::api::ids::{Cookie, Ino, ObjectId, VolumeNumber};
use crate::cache::blocks::Hasher;
use crate::encoding::record::{NameRecord, type_byte, type_from_byte};

/// Longest cached name, bytes: longer ones are rare, and would take a second cache line.
pub const CACHED_NAME_BYTES_MAX: usize = 32;

/// Associativity: the possible places of a name.
const WAYS: usize = 8;

/// Most shards, each with a lock of its own.
const SHARDS_MAX: usize = 64;

/// Sets that are looked through while others wait for their shard: a few microseconds' work.
const SETS_AT_ONCE: usize = 64;

/// Directory, four words of the name; inode, cookie; volume, type and length of the name.
type Line = [u64; 8];

/// Words of a line that identify the name, apart from its length.
const KEY_WORDS: usize = 5;

/// Memory of one set, bytes.
const SET_BYTES: u64 = (WAYS * (size_of::<Line>() + 1)) as u64;

/// A bounded cache of names and what they refer to.
#[derive(Debug)]
pub struct NameCache {
    hasher: Hasher,
    shards: Vec<Mutex<Shard>>,
    sets_per_shard: usize,
}

#[derive(Debug)]
struct Shard {
    /// For each place, one byte of the hash of the name in it; 0 if it is empty.
    tags: Vec<[u8; WAYS]>,
    /// Zeros at first, so memory that is never used stays untouched.
    lines: Vec<[Line; WAYS]>,
    names: usize,
    /// The next place to replace in a full set.
    hand: usize,
}

/// Where a name may be.
struct Candidate {
    shard: usize,
    set: usize,
    tag: u8,
    key: [u64; KEY_WORDS],
    volume: VolumeNumber,
    length: u8,
}

impl NameCache {
    /// Returns a cache of about `bytes`, and at least eight names.
    pub fn new(bytes: u64, hasher: Hasher) -> NameCache {
        let sets = usize::try_from(bytes / SET_BYTES).unwrap_or(usize::MAX).max(1);
        let shards = sets.min(SHARDS_MAX);
        let sets_per_shard = sets / shards;
        let shard = || Shard {
            tags: vec![[0; WAYS]; sets_per_shard],
            lines: vec![[[0; 8]; WAYS]; sets_per_shard],
            names: 0,
            hand: 0,
        };
        let shards = (0..shards).map(|_| Mutex::new(shard())).collect();
        NameCache { hasher, shards, sets_per_shard }
    }

    /// Returns what a name of a locked directory refers to, if cached.
    pub fn get(&self, directory: ObjectId, name: &[u8]) -> Option<NameRecord> {
        let candidate = self.candidate(directory, name)?;
        let shard = self.shards[candidate.shard].lock();
        let way = shard.find(&candidate)?;
        unpack(&shard.lines[candidate.set][way])
    }

    /// Caches what a name of a locked directory refers to; the read view must agree.
    pub fn put(&self, directory: ObjectId, name: &[u8], record: &NameRecord) {
        let Some(candidate) = self.candidate(directory, name) else { return };
        let mut shard = self.shards[candidate.shard].lock();
        let way = shard.find(&candidate).unwrap_or_else(|| shard.make_room(&candidate));
        let line = &mut shard.lines[candidate.set][way];
        line[..KEY_WORDS].copy_from_slice(&candidate.key);
        line[KEY_WORDS..].copy_from_slice(&[record.ino.0, record.cookie.0, pack(record, &candidate)]);
    }

    /// Removes a name that its locked directory no longer has.
    pub fn remove(&self, directory: ObjectId, name: &[u8]) {
        let Some(candidate) = self.candidate(directory, name) else { return };
        let mut shard = self.shards[candidate.shard].lock();
        if let Some(way) = shard.find(&candidate) {
            shard.tags[candidate.set][way] = 0;
            shard.names -= 1;
        }
    }

    /// Visits the cached names of these objects, with the object and the directory. What changes meanwhile may be visited as it
    /// was before. Looks at each place in the cache, but never keeps others waiting longer than a lookup may.
    pub fn names_of(
        &self,
        volume: VolumeNumber,
        wanted: &BTreeSet<Ino>,
        visit: &mut dyn FnMut(Ino, Ino, &[u8]),
    ) {
        for shard in &self.shards {
            for first in (0..self.sets_per_shard).step_by(SETS_AT_ONCE) {
                let shard = shard.lock();
                let sets = first..self.sets_per_shard.min(first + SETS_AT_ONCE);
                for (tags, lines) in shard.tags[sets.clone()].iter().zip(&shard.lines[sets]) {
                    let used = tags.iter().zip(lines).filter(|(tag, _)| **tag != 0).map(|(_, line)| line);
                    for line in used.filter(|line| line[7] >> 32 == u64::from(volume.0)) {
                        if wanted.contains(&Ino(line[KEY_WORDS])) {
                            visit(Ino(line[KEY_WORDS]), Ino(line[0]), name_of(line).as_slice());
                        }
                    }
                }
            }
        }
    }

    /// Returns the number of cached names.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().names).sum()
    }

    /// Returns where a name may be; `None` if it is too long.
    fn candidate(&self, directory: ObjectId, name: &[u8]) -> Option<Candidate> {
        let mut bytes = [0; CACHED_NAME_BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        let mut key = [directory.ino.0, 0, 0, 0, 0];
        for (word, chunk) in key[1..].iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        let hash = self.hasher.hash_one((key, directory.volume.0));
        let [tag, shard, ..] = hash.to_le_bytes();
        let spread = u128::from(hash) * self.sets_per_shard as u128;
        Some(Candidate {
            shard: usize::from(shard) % self.shards.len(),
            set: usize::try_from(spread >> 64).unwrap_or(0),
            tag: tag.max(1),
            key,
            volume: directory.volume,
            length: u8::try_from(name.len()).ok()?,
        })
    }
}

impl Shard {
    fn find(&self, candidate: &Candidate) -> Option<usize> {
        let tags = self.tags[candidate.set];
        (0..WAYS).find(|way| {
            let is_it = |line: &Line| line[..KEY_WORDS] == candidate.key && is_of(line, candidate);
            tags[*way] == candidate.tag && is_it(&self.lines[candidate.set][*way])
        })
    }

    /// Returns the place for a new name.
    fn make_room(&mut self, candidate: &Candidate) -> usize {
        let tags = &mut self.tags[candidate.set];
        let free = tags.iter().position(|tag| *tag == 0);
        let way = free.unwrap_or(self.hand);
        tags[way] = candidate.tag;
        match free {
            Some(_) => self.names += 1,
            None => self.hand = (self.hand + 1) % WAYS,
        }
        way
    }
}

fn pack(record: &NameRecord, of: &Candidate) -> u64 {
    u64::from(of.volume.0) << 32 | u64::from(type_byte(record.file_type)) << 8 | u64::from(of.length)
}

/// Whether volume and length of the name are those of a line.
fn is_of(line: &Line, candidate: &Candidate) -> bool {
    const TYPE: u64 = 0xff << 8;
    line[7] & !TYPE == u64::from(candidate.volume.0) << 32 | u64::from(candidate.length)
}

/// Returns the name in a line.
fn name_of(line: &Line) -> Vec<u8> {
    let [length, ..] = line[7].to_le_bytes();
    let mut name: Vec<u8> = line[1..KEY_WORDS].iter().flat_map(|word| word.to_le_bytes()).collect();
    name.truncate(length.into());
    name
}

fn unpack(line: &Line) -> Option<NameRecord> {
    let [_, file_type, ..] = line[7].to_le_bytes();
    Some(NameRecord { ino: Ino(line[5]), cookie: Cookie(line[6]), file_type: type_from_byte(file_type)? })
}

#[cfg(test)]
mod tests;
