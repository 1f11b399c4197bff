//! What names name, found in one place of memory.
//!
//! The layers know it too, but a search of them goes through two ordered maps and a tree, or a table of records: a dozen places
//! that are far apart, most of which the processor has to wait for where there are many files. Here a name is a line of the
//! processor's cache; a byte of each name is kept apart, and tells which of the places where it may be are worth a look.
//!
//! What is here is what all layers together say: a name comes when a transaction that puts it was applied or somebody found it
//! in the layers, and goes when a transaction deletes it; both while its directory is locked, and only who holds that lock
//! asks. So checkpoints, which change no name, need not heed it. What is not here says nothing.

use std::hash::BuildHasher;

use parking_lot::Mutex;

use crate::api::ids::{Cookie, Epoch, Ino};
use crate::cache::blocks::Hasher;
use crate::encoding::record::{NameRecord, type_byte, type_from_byte};

/// Longest name that is kept, bytes: longer ones are rare, and would take a second line.
pub const CACHED_NAME_BYTES_MAX: usize = 32;

/// Places where a name may be.
const WAYS: usize = 8;

/// Most parts that are locked one by one.
const SHARDS_MAX: usize = 64;

/// Directory, four words of the name; inode, cookie; epoch, type and length of the name.
type Line = [u64; 8];

/// The words of a line that tell which name it is, but for its length.
const KEY_WORDS: usize = 5;

/// What eight places take, bytes.
const SET_BYTES: u64 = (WAYS * (size_of::<Line>() + 1)) as u64;

/// Names with what they name; bounded.
#[derive(Debug)]
pub struct NameCache {
    hasher: Hasher,
    shards: Vec<Mutex<Shard>>,
    sets_per_shard: usize,
}

#[derive(Debug)]
struct Shard {
    /// Of each place a byte of the hash of the name that is there, 0 if none is.
    tags: Vec<[u8; WAYS]>,
    /// Memory that was never used stays untouched: these are zeros to begin with.
    lines: Vec<[Line; WAYS]>,
    names: usize,
    /// Which place of a full set is taken next.
    hand: usize,
}

/// Where a name may be.
struct Candidate {
    shard: usize,
    set: usize,
    tag: u8,
    key: [u64; KEY_WORDS],
    length: u8,
}

impl NameCache {
    /// Takes at most about `bytes`; eight names at least.
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

    /// What a name of a locked directory names, if it is here.
    pub fn get(&self, directory: Ino, name: &[u8]) -> Option<NameRecord> {
        let candidate = self.candidate(directory, name)?;
        let shard = self.shards[candidate.shard].lock();
        let way = shard.find(&candidate)?;
        unpack(&shard.lines[candidate.set][way])
    }

    /// A name of a locked directory names this now, in the layers too.
    pub fn put(&self, directory: Ino, name: &[u8], record: &NameRecord) {
        let Some(candidate) = self.candidate(directory, name) else { return };
        let mut shard = self.shards[candidate.shard].lock();
        let way = shard.find(&candidate).unwrap_or_else(|| shard.make_room(&candidate));
        let line = &mut shard.lines[candidate.set][way];
        line[..KEY_WORDS].copy_from_slice(&candidate.key);
        line[KEY_WORDS..].copy_from_slice(&[record.ino.0, record.cookie.0, pack(record, candidate.length)]);
    }

    /// A locked directory no longer has this name.
    pub fn remove(&self, directory: Ino, name: &[u8]) {
        let Some(candidate) = self.candidate(directory, name) else { return };
        let mut shard = self.shards[candidate.shard].lock();
        if let Some(way) = shard.find(&candidate) {
            shard.tags[candidate.set][way] = 0;
            shard.names -= 1;
        }
    }

    /// How many names are here.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().names).sum()
    }

    /// `None` for a name that is too long.
    fn candidate(&self, directory: Ino, name: &[u8]) -> Option<Candidate> {
        let mut bytes = [0; CACHED_NAME_BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        let mut key = [directory.0, 0, 0, 0, 0];
        for (word, chunk) in key[1..].iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        let hash = self.hasher.hash_one(key);
        let [tag, shard, ..] = hash.to_le_bytes();
        let spread = u128::from(hash) * self.sets_per_shard as u128;
        Some(Candidate {
            shard: usize::from(shard) % self.shards.len(),
            set: usize::try_from(spread >> 64).unwrap_or(0),
            tag: tag.max(1),
            key,
            length: u8::try_from(name.len()).ok()?,
        })
    }
}

impl Shard {
    fn find(&self, candidate: &Candidate) -> Option<usize> {
        let tags = self.tags[candidate.set];
        (0..WAYS).find(|way| {
            let is_it = |line: &Line| line[..KEY_WORDS] == candidate.key && length(line) == candidate.length;
            tags[*way] == candidate.tag && is_it(&self.lines[candidate.set][*way])
        })
    }

    /// The place for a name that is not here.
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

fn pack(record: &NameRecord, length: u8) -> u64 {
    u64::from(record.epoch.0) << 32 | u64::from(type_byte(record.file_type)) << 8 | u64::from(length)
}

fn length(line: &Line) -> u8 {
    line[7].to_le_bytes()[0]
}

fn unpack(line: &Line) -> Option<NameRecord> {
    let [_, file_type, _, _, epoch @ ..] = line[7].to_le_bytes();
    Some(NameRecord {
        epoch: Epoch(u32::from_le_bytes(epoch)),
        ino: Ino(line[5]),
        cookie: Cookie(line[6]),
        file_type: type_from_byte(file_type)?,
    })
}

#[cfg(test)]
mod tests;
