//! Connections that wait for memory: for each origin in the order in which they came.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::origins::{OriginKey, Rank};
use super::{ConnectionKey, Want};

/// A connection that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) key: ConnectionKey,
    pub(crate) want: Want,
    pub(crate) since: Instant,
}

/// The waiting connections.
#[derive(Debug, Default)]
pub(crate) struct Line {
    by_origin: BTreeMap<OriginKey, VecDeque<Waiter>>,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_origin.is_empty()
    }

    /// Appends a connection to the queue of its origin.
    pub(crate) fn push(&mut self, key: ConnectionKey, want: Want) {
        let waiter = Waiter { key, want, since: Instant::now() };
        self.by_origin.entry(key.origin).or_default().push_back(waiter);
    }

    /// Whether a connection of this origin waits.
    pub(crate) fn has(&self, origin: OriginKey) -> bool {
        self.by_origin.contains_key(&origin)
    }

    /// Returns the first connection of each origin, in any order.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = &Waiter> {
        self.by_origin.values().filter_map(VecDeque::front)
    }

    /// Returns the first connection of each origin: that of the origin with the least rank comes first, of equals the one
    /// that waits longest.
    pub(crate) fn first(&self, rank: impl Fn(OriginKey) -> Rank) -> Vec<Waiter> {
        let mut first: Vec<Waiter> = self.fronts().copied().collect();
        first.sort_by_key(|waiter| (rank(waiter.key.origin), waiter.since));
        first
    }

    /// Removes the first connection of an origin.
    pub(crate) fn pop(&mut self, origin: OriginKey) {
        if let Some(queue) = self.by_origin.get_mut(&origin) {
            queue.pop_front();
            if queue.is_empty() {
                self.by_origin.remove(&origin);
            }
        }
    }

    /// Removes a connection that is closed.
    pub(crate) fn remove(&mut self, key: ConnectionKey) {
        if let Some(queue) = self.by_origin.get_mut(&key.origin) {
            queue.retain(|waiter| waiter.key != key);
            if queue.is_empty() {
                self.by_origin.remove(&key.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::origins::{Origins, Standing};
    use super::*;

    #[test]
    fn the_origin_that_holds_least_comes_first() {
        let mut origins = Origins::default();
        let keys =
            ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|address| origins.join(address.parse().unwrap()));
        let mut line = Line::default();
        for (index, origin) in [0, 0, 1, 2].into_iter().enumerate() {
            line.push(ConnectionKey { index, generation: 0, origin: keys[origin] }, Want::Answer);
        }
        let order = |line: &Line, origins: &Origins| -> Vec<usize> {
            line.first(|key| origins.rank(key)).iter().map(|waiter| waiter.key.index).collect()
        };
        assert_eq!(order(&line, &origins), [0, 2, 3], "they hold nothing");
        origins.count(keys[0], |held| held.requests += 2);
        origins.count(keys[1], |held| held.replies += 1);
        assert_eq!(order(&line, &origins), [3, 2, 0]);
        line.pop(keys[0]);
        assert_eq!(order(&line, &origins), [3, 2, 1]);
        origins.note(keys[2], Standing::Slow, Instant::now());
        assert_eq!(order(&line, &origins), [2, 1, 3]);
        keys.into_iter().for_each(|key| line.pop(key));
        assert_eq!((order(&line, &origins).as_slice(), line.is_empty()), (&[][..], true));
    }
}
