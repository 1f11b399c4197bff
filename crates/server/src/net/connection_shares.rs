//! How many connections each origin has, over all event loops, and which origin gives one up when there are too many.
//!
//! An origin is what limits count connections by ([`ConnectionOrigin`]). While fewer than
//! [`CONNECTIONS_SPARE`] places are free, each newcomer makes the origin with the most connections give one up: itself, if
//! that is its own. So an origin keeps what it has unless it has the most, and a newcomer is always served.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

use crate::admission::origins::ConnectionOrigin;
use crate::limits::CONNECTIONS_SPARE;

/// The connections of all event loops.
#[derive(Debug)]
pub(crate) struct ConnectionShares {
    max: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_origin: HashMap<ConnectionOrigin, Count>,
    /// The same origins; the last one is the next to give a connection up.
    order: BTreeSet<Rank>,
    /// Connections accepted so far.
    accepted: u64,
}

/// An origin's place in the order: by connections, and among equals the one whose last connection is oldest comes last.
type Rank = (usize, Reverse<u64>, ConnectionOrigin);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    open: usize,
    /// Those of them that are to be given up.
    leaving: usize,
    /// The number of the last accepted one.
    last: u64,
}

impl Count {
    fn rank(self, origin: ConnectionOrigin) -> Rank {
        (self.open.saturating_sub(self.leaving), Reverse(self.last), origin)
    }
}

impl Counts {
    /// Changes the count of an origin.
    fn change(&mut self, origin: ConnectionOrigin, change: impl FnOnce(&mut Count)) {
        let count = self.by_origin.entry(origin).or_default();
        self.order.remove(&count.rank(origin));
        change(count);
        if count.open + count.leaving == 0 {
            self.by_origin.remove(&origin);
        } else {
            self.order.insert(count.rank(origin));
        }
    }
}

impl ConnectionShares {
    /// Counts at most `max` connections.
    pub(crate) fn new(max: usize) -> ConnectionShares {
        ConnectionShares { max, counts: Mutex::default() }
    }

    /// Whether one more must wait until one has closed.
    pub(crate) fn is_full(&self) -> bool {
        self.counts.lock().total >= self.max
    }

    /// Counts a new connection. Returns the origin that must give one up, which [`ConnectionShares::gave_up`] must follow.
    pub(crate) fn join(&self, origin: ConnectionOrigin) -> Option<ConnectionOrigin> {
        let mut counts = self.counts.lock();
        counts.total += 1;
        counts.accepted += 1;
        let number = counts.accepted;
        counts.change(origin, |count| {
            count.open += 1;
            count.last = number;
        });
        if counts.total + CONNECTIONS_SPARE <= self.max {
            return None;
        }
        let &(_, _, greediest) = counts.order.last()?;
        counts.change(greediest, |count| count.leaving += 1);
        Some(greediest)
    }

    /// Stops counting a connection that was closed.
    pub(crate) fn leave(&self, origin: ConnectionOrigin) {
        let mut counts = self.counts.lock();
        counts.total -= 1;
        counts.change(origin, |count| count.open -= 1);
    }

    /// Notes that an origin gave up the connection that it had to, or has none.
    pub(crate) fn gave_up(&self, origin: ConnectionOrigin) {
        self.counts.lock().change(origin, |count| count.leaving -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn origin(number: u8) -> ConnectionOrigin {
        IpAddr::from([192, 0, 2, number]).into()
    }

    #[test]
    fn the_greediest_origin_gives_way() {
        let shares = ConnectionShares::new(CONNECTIONS_SPARE + 10);
        for _ in 0..7 {
            assert_eq!(shares.join(origin(1)), None);
        }
        for _ in 0..3 {
            assert_eq!(shares.join(origin(2)), None);
        }
        // What is to be given up no longer counts.
        let asked: Vec<ConnectionOrigin> =
            (10..16).map(|number| shares.join(origin(number)).unwrap()).collect();
        assert_eq!(asked, [1, 1, 1, 1, 1, 2].map(origin));
        for _ in 0..5 {
            shares.leave(origin(1));
            shares.gave_up(origin(1));
        }
        shares.leave(origin(2));
        shares.gave_up(origin(2));
        assert_eq!(shares.join(origin(1)), Some(origin(1)), "also if it is the newcomer");
    }

    #[test]
    fn among_equals_the_one_that_connected_longest_ago_gives_way() {
        let shares = ConnectionShares::new(CONNECTIONS_SPARE + 3);
        for number in [3, 1, 2] {
            assert_eq!(shares.join(origin(number)), None);
        }
        assert_eq!([4, 5, 6].map(|number| shares.join(origin(number)).unwrap()), [3, 1, 2].map(origin));
    }

    #[test]
    fn closed_connections_are_not_counted() {
        let shares = ConnectionShares::new(CONNECTIONS_SPARE + 1);
        for _ in 0..100 {
            assert_eq!(shares.join(origin(1)), None);
            assert!(!shares.is_full());
            shares.leave(origin(1));
        }
        assert!(shares.counts.lock().order.is_empty() && shares.counts.lock().by_origin.is_empty());
        for _ in 0..CONNECTIONS_SPARE {
            shares.join(origin(1));
        }
        shares.join(origin(2));
        assert!(shares.is_full());
    }
}
