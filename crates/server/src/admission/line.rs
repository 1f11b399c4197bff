//! Connections that wait for memory: for each origin in the order in which they came, and the origins in turn.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::origins::OriginKey;
use super::{ConnectionKey, Want};

/// A connection that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) key: ConnectionKey,
    pub(crate) want: Want,
    pub(crate) since: Instant,
}

/// The connections of an origin that wait.
#[derive(Debug)]
struct OfOrigin {
    /// By the numbers in whose order they came.
    queue: BTreeMap<u64, Waiter>,
    /// When it was last served, or came.
    turn: Instant,
}

impl OfOrigin {
    fn front(&self) -> Option<&Waiter> {
        self.queue.first_key_value().map(|(_, waiter)| waiter)
    }
}

/// The waiting connections.
#[derive(Debug, Default)]
pub(crate) struct Line {
    by_origin: BTreeMap<OriginKey, OfOrigin>,
    /// The number of each connection that waits, by its place in the table.
    numbers: HashMap<usize, u64>,
    next: u64,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_origin.is_empty()
    }

    /// Appends a connection to the queue of its origin.
    pub(crate) fn push(&mut self, waiter: Waiter) {
        let new = || OfOrigin { queue: BTreeMap::new(), turn: waiter.since };
        self.by_origin.entry(waiter.key.origin).or_insert_with(new).queue.insert(self.next, waiter);
        self.numbers.insert(waiter.key.index, self.next);
        self.next += 1;
    }

    /// Whether a connection of this origin waits.
    pub(crate) fn has(&self, origin: OriginKey) -> bool {
        self.by_origin.contains_key(&origin)
    }

    /// Returns the first connection of each origin, in any order.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = &Waiter> {
        self.by_origin.values().filter_map(OfOrigin::front)
    }

    /// Returns the first connection of each origin, with the time since when it has been the origin's turn. That is never before the
    /// connection began to wait: otherwise an origin whose connections are closed and replaced all the time would soon come before all
    /// others.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (Instant, Waiter)> {
        self.by_origin.values().filter_map(|origin| {
            let front = *origin.front()?;
            Some((origin.turn.max(front.since), front))
        })
    }

    /// Removes the first connection of an origin, which goes on; it is the turn of the others before the next one of this
    /// origin.
    pub(crate) fn pop(&mut self, origin: OriginKey, now: Instant) {
        if let Some(found) = self.by_origin.get_mut(&origin) {
            if let Some((_, waiter)) = found.queue.pop_first() {
                self.numbers.remove(&waiter.key.index);
            }
            found.turn = now;
            self.forget_if_empty(origin);
        }
    }

    /// Removes a connection; it need not be looked for among those of its origin. Returns whether it waited.
    pub(crate) fn remove(&mut self, key: ConnectionKey) -> bool {
        let Some(number) = self.numbers.get(&key.index) else { return false };
        let Some(found) = self.by_origin.get_mut(&key.origin) else { return false };
        let waited = found.queue.get(number).is_some_and(|waiter| waiter.key == key);
        if waited {
            found.queue.remove(number);
            self.numbers.remove(&key.index);
            self.forget_if_empty(key.origin);
        }
        waited
    }

    fn forget_if_empty(&mut self, origin: OriginKey) {
        if self.by_origin.get(&origin).is_some_and(|found| found.queue.is_empty()) {
            self.by_origin.remove(&origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::origins::Origins;
    use super::*;

    #[test]
    fn origins_are_served_in_turn_however_many_connections_each_has() {
        let mut origins = Origins::default();
        let keys =
            ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|address| origins.join(address.parse().unwrap()));
        let start = Instant::now();
        let mut line = Line::default();
        for (index, origin) in [0, 0, 0, 1, 1, 2].into_iter().enumerate() {
            let key = ConnectionKey { index, generation: 0, origin: keys[origin] };
            let since = start + Duration::from_millis(u64::try_from(index).unwrap());
            line.push(Waiter { key, want: Want::Answer, since });
        }
        let mut served = Vec::new();
        for round in 10.. {
            let Some((_, first)) = line.turns().min_by_key(|(turn, _)| *turn) else { break };
            served.push(first.key.index);
            line.pop(first.key.origin, start + Duration::from_millis(round));
        }
        assert_eq!((served.as_slice(), line.is_empty()), (&[0, 3, 5, 1, 4, 2][..], true));
    }

    #[test]
    fn an_origin_whose_connections_are_closed_and_replaced_does_not_come_first() {
        let mut origins = Origins::default();
        let [greedy, modest] =
            ["192.0.2.1", "192.0.2.2"].map(|address| origins.join(address.parse().unwrap()));
        let (start, mut line) = (Instant::now(), Line::default());
        let push = |line: &mut Line, index, origin, since| {
            let key = ConnectionKey { index, generation: 0, origin };
            line.push(Waiter { key, want: Want::Answer, since: start + Duration::from_millis(since) });
            key
        };
        let mut before = push(&mut line, 0, greedy, 0);
        push(&mut line, 1, modest, 10);
        for number in 1..4 {
            let next = push(&mut line, 1 + number, greedy, 20 * u64::try_from(number).unwrap());
            line.remove(before);
            before = next;
        }
        let first = line.turns().min_by_key(|(turn, _)| *turn).unwrap().1;
        assert_eq!(first.key.origin, modest);
    }

    #[test]
    fn a_closed_connection_does_not_wait() {
        let mut line = Line::default();
        let keys = [1, 2].map(|index| ConnectionKey { index, generation: 0, origin: OriginKey::default() });
        for key in keys {
            line.push(Waiter { key, want: Want::Answer, since: Instant::now() });
        }
        assert!(line.remove(keys[0]) && !line.remove(keys[0]));
        assert_eq!(line.fronts().map(|waiter| waiter.key).collect::<Vec<_>>(), [keys[1]]);
        assert!(!line.remove(ConnectionKey { generation: 1, ..keys[1] }), "another one used the same place");
        assert!(line.remove(keys[1]));
        assert!(line.is_empty() && !line.has(OriginKey::default()) && line.numbers.is_empty());
    }
}
