//! A sharded map: threads rarely meet at a lock. The server makes the keys, but a client that makes many files can keep those of
//! one shard. So no limit may depend on an even spread.

use std::hash::Hash;

use foldhash::HashMap;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::connection::ConnectionId;
use crate::state::ids::{FileId, Other, SessionId};

/// The number of shards; a power of two.
const SHARDS: usize = 64;

/// A key of a sharded map.
pub(super) trait ShardKey: Eq + Hash {
    /// Returns a byte that differs among keys, and by which they are sharded. So they are hashed only within a shard.
    fn shard(&self) -> u8;
}

impl ShardKey for SessionId {
    fn shard(&self) -> u8 {
        let [first, ..] = self.0;
        first
    }
}

impl ShardKey for Other {
    fn shard(&self) -> u8 {
        let [first, ..] = self.0;
        first
    }
}

impl ShardKey for FileId {
    fn shard(&self) -> u8 {
        let [.., last] = self.ino.0.to_be_bytes();
        last
    }
}

impl ShardKey for ConnectionId {
    fn shard(&self) -> u8 {
        let [.., last] = self.0.to_be_bytes();
        last
    }
}

/// A map in shards, each with its own lock.
#[derive(Debug)]
pub(super) struct Shards<K, V> {
    parts: [RwLock<HashMap<K, V>>; SHARDS],
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Shards { parts: std::array::from_fn(|_| RwLock::default()) }
    }
}

impl<K: ShardKey, V> Shards<K, V> {
    fn part(&self, key: &K) -> &RwLock<HashMap<K, V>> {
        self.parts.get(usize::from(key.shard()) % SHARDS).expect("a remainder of their number")
    }

    /// Locks the shard of `key` for reading.
    pub(super) fn read(&self, key: &K) -> RwLockReadGuard<'_, HashMap<K, V>> {
        self.part(key).read()
    }

    /// Locks the shard of `key` for writing.
    pub(super) fn write(&self, key: &K) -> RwLockWriteGuard<'_, HashMap<K, V>> {
        self.part(key).write()
    }

    /// Returns the values for which `is_wanted` returns true.
    pub(super) fn select(&self, is_wanted: impl Fn(&V) -> bool) -> Vec<V>
    where
        V: Clone,
    {
        let wanted = |part: &RwLock<HashMap<K, V>>| -> Vec<V> {
            part.read().values().filter(|value| is_wanted(value)).cloned().collect()
        };
        self.parts.iter().flat_map(wanted).collect()
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.read().len()).sum()
    }

    /// Returns the sum of a number over all values.
    #[cfg(test)]
    pub(super) fn sum(&self, of: impl Fn(&V) -> usize) -> usize {
        self.parts.iter().map(|part| part.read().values().map(&of).sum::<usize>()).sum()
    }
}
