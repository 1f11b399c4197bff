//! A sharded map: threads rarely meet at a lock. The server makes the keys, so no client can choose colliding ones.

use std::hash::{BuildHasher, Hash};

use foldhash::HashMap;
use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The number of shards; a power of two.
const SHARDS: usize = 64;

/// A map in shards, each with its own lock.
#[derive(Debug)]
pub(super) struct Shards<K, V> {
    parts: [RwLock<HashMap<K, V>>; SHARDS],
    hasher: RandomState,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Shards { parts: std::array::from_fn(|_| RwLock::default()), hasher: RandomState::default() }
    }
}

impl<K: Eq + Hash, V> Shards<K, V> {
    fn part(&self, key: &K) -> &RwLock<HashMap<K, V>> {
        let index = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        self.parts.get(index).expect("a remainder of their number")
    }

    /// Locks the shard of `key` for reading.
    pub(super) fn read(&self, key: &K) -> RwLockReadGuard<'_, HashMap<K, V>> {
        self.part(key).read()
    }

    /// Locks the shard of `key` for writing.
    pub(super) fn write(&self, key: &K) -> RwLockWriteGuard<'_, HashMap<K, V>> {
        self.part(key).write()
    }

    /// Keeps only the values for which `keep` returns true.
    pub(super) fn retain(&self, keep: impl Fn(&V) -> bool) {
        self.parts.iter().for_each(|part| part.write().retain(|_, value| keep(value)));
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.read().len()).sum()
    }
}
