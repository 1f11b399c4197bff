//! The non-idempotent calls that are being executed, so that a duplicate does not run beside its original.

use parking_lot::Mutex;
use volume::request::RequestKey;

use crate::limits::{IN_PROGRESS_PER_SHARD_MAX, IN_PROGRESS_SHARDS};

/// The non-idempotent calls that threads are executing.
#[derive(Debug, Default)]
pub(crate) struct InProgress {
    shards: [Mutex<Vec<RequestKey>>; IN_PROGRESS_SHARDS],
}

impl InProgress {
    /// Enters a call; returns none if it is being executed already, or if the shard is full.
    pub(crate) fn enter(&self, key: &RequestKey) -> Option<Entered<'_>> {
        // The last byte of the key belongs to a checksum, so it is evenly distributed.
        let shard = usize::from(key.bytes().last().copied().unwrap_or(0)) % IN_PROGRESS_SHARDS;
        let shard = self.shards.get(shard)?;
        let mut keys = shard.lock();
        if keys.len() >= IN_PROGRESS_PER_SHARD_MAX || keys.contains(key) {
            return None;
        }
        keys.push(key.clone());
        drop(keys);
        Some(Entered { shard, key: key.clone() })
    }
}

/// A call that is in progress until this is dropped.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    shard: &'a Mutex<Vec<RequestKey>>,
    key: RequestKey,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.shard.lock().retain(|key| *key != self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of one shard.
    fn key(xid: u32) -> RequestKey {
        RequestKey::new([&xid.to_be_bytes()[..], &[7]].concat())
    }

    #[test]
    fn a_call_is_in_progress_once() {
        let set = InProgress::default();
        let one = key(5);
        let entered = set.enter(&one).unwrap();
        assert!(set.enter(&one).is_none());
        assert!(set.enter(&key(6)).is_some());
        drop(entered);
        assert!(set.enter(&one).is_some());
    }

    #[test]
    fn calls_in_progress_are_bounded() {
        let set = InProgress::default();
        let same_shard = (0..).map(key);
        let entered: Vec<_> =
            same_shard.clone().take(IN_PROGRESS_PER_SHARD_MAX).map(|key| set.enter(&key).is_some()).collect();
        assert!(entered.iter().all(|entered| *entered), "each left at once");
        let keys: Vec<_> = same_shard.take(IN_PROGRESS_PER_SHARD_MAX + 1).collect();
        let (last, others) = keys.split_last().unwrap();
        let mut entered: Vec<_> = others.iter().map(|key| set.enter(key).unwrap()).collect();
        assert!(set.enter(last).is_none());
        entered.pop();
        assert!(set.enter(last).is_some());
    }
}
