//! A map in parts, each with a lock of its own, so that threads rarely meet. Its keys are made by the server, so that no
//! client can choose them to collide.

use std::hash::{BuildHasher, Hash};

use foldhash::HashMap;
use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How many parts; a power of two.
const SHARDS: usize = 64;

/// A map in parts.
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

    /// The part that `key` belongs to, to be read.
    pub(super) fn read(&self, key: &K) -> RwLockReadGuard<'_, HashMap<K, V>> {
        self.part(key).read()
    }

    /// The part that `key` belongs to, to be changed.
    pub(super) fn write(&self, key: &K) -> RwLockWriteGuard<'_, HashMap<K, V>> {
        self.part(key).write()
    }

    /// Drops all but those that `keep` wants.
    pub(super) fn retain(&self, keep: impl Fn(&V) -> bool) {
        self.parts.iter().for_each(|part| part.write().retain(|_, value| keep(value)));
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.read().len()).sum()
    }
}
