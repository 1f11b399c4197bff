//! How many connections each origin has, over all event loops, and which origin gives one up when there are too many.
//!
//! An origin is what limits count connections by ([`ConnectionOrigin`]). While fewer than
//! [`CONNECTIONS_SPARE`] places are free, each newcomer makes the origin with the most connections give one up: itself, if
//! that is its own. So an origin keeps what it has unless it has the most, and a newcomer is always served.
//!
//! Each connection has a share of the kernel's memory too ([`crate::net::socket_buffers`]). When it is closed, the kernel goes on sending
//! what its peer has not taken: that counts for the origin until the kernel gives it up, and an origin that has its share already has its
//! connections reset instead.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use parking_lot::Mutex;

use crate::connection_origin::ConnectionOrigin;
use crate::limits::CONNECTIONS_SPARE;
use crate::net::listener::UNREAD_MAX;
use crate::net::socket_buffers::{BufferBudget, SocketBuffers};

/// What the kernel may keep of a closed connection without counting: a few small replies.
const UNREAD_SMALL: usize = 4 << 10;

/// The connections of all event loops.
#[derive(Debug)]
pub(crate) struct ConnectionShares {
    max: usize,
    buffers: BufferBudget,
    counts: Mutex<Counts>,
}

/// What a connection has of what all share, until it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) origin: ConnectionOrigin,
    pub(crate) buffers: SocketBuffers,
}

/// A connection that was counted.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) place: Place,
    /// The origin that must give one up, which [`ConnectionShares::gave_up`] must follow.
    pub(crate) gives_up: Option<ConnectionOrigin>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    /// Bytes of the buffers of all.
    buffer_bytes: usize,
    by_origin: HashMap<ConnectionOrigin, Count>,
    /// The same origins; the last one is the next to give a connection up.
    order: BTreeSet<Rank>,
    /// Connections accepted so far.
    accepted: u64,
    /// What the kernel may keep of closed connections: until when, for which origin, and how many bytes.
    unread: VecDeque<(Instant, ConnectionOrigin, usize)>,
}

/// An origin's place in the order: by connections, and among equals the one whose last connection is oldest comes last.
type Rank = (usize, Reverse<u64>, ConnectionOrigin);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    open: usize,
    /// Those of them that are to be given up.
    leaving: usize,
    /// Bytes of their buffers.
    buffer_bytes: usize,
    /// The number of the last accepted one.
    last: u64,
}

impl Count {
    fn rank(self, origin: ConnectionOrigin) -> Rank {
        (self.open.saturating_sub(self.leaving), Reverse(self.last), origin)
    }
}

impl Counts {
    /// Changes the count of an origin, and the bytes of all with it.
    fn change(&mut self, origin: ConnectionOrigin, change: impl FnOnce(&mut Count)) {
        let count = self.by_origin.entry(origin).or_default();
        self.order.remove(&count.rank(origin));
        self.buffer_bytes -= count.buffer_bytes;
        change(count);
        self.buffer_bytes += count.buffer_bytes;
        if count.open + count.leaving > 0 {
            self.order.insert(count.rank(origin));
        } else if count.buffer_bytes == 0 {
            self.by_origin.remove(&origin);
        }
    }

    /// Counts that the kernel may keep these bytes of a closed connection.
    fn keep_unread(&mut self, origin: ConnectionOrigin, bytes: usize, now: Instant) {
        self.change(origin, |count| count.buffer_bytes += bytes);
        self.unread.push_back((now + UNREAD_MAX, origin, bytes));
    }

    /// Stops counting what the kernel has given up by now.
    fn forget_unread(&mut self, now: Instant) {
        while let Some(&(until, origin, bytes)) = self.unread.front()
            && until <= now
        {
            self.unread.pop_front();
            self.change(origin, |count| count.buffer_bytes -= bytes);
        }
    }

    /// Has the origin that has the most give one up, if there are nearly `max`.
    fn next_to_give_up(&mut self, max: usize) -> Option<ConnectionOrigin> {
        if self.total + CONNECTIONS_SPARE <= max {
            return None;
        }
        let &(_, _, greediest) = self.order.last()?;
        self.change(greediest, |count| count.leaving += 1);
        Some(greediest)
    }
}

impl ConnectionShares {
    /// Counts at most `max` connections, for whose buffers the kernel should use no more than about `buffer_bytes`.
    pub(crate) fn new(max: usize, buffer_bytes: usize) -> ConnectionShares {
        ConnectionShares { max, buffers: BufferBudget::new(buffer_bytes, max), counts: Mutex::default() }
    }

    /// Whether one more must wait until one has closed.
    pub(crate) fn is_full(&self) -> bool {
        self.counts.lock().total >= self.max
    }

    /// Counts a new connection.
    pub(crate) fn join(&self, origin: ConnectionOrigin) -> Joined {
        let mut counts = self.counts.lock();
        counts.forget_unread(Instant::now());
        counts.total += 1;
        counts.accepted += 1;
        let place = Place { origin, buffers: self.share(&counts, origin) };
        let number = counts.accepted;
        counts.change(origin, |count| {
            count.open += 1;
            count.last = number;
            count.buffer_bytes += place.buffers.counted();
        });
        Joined { place, gives_up: counts.next_to_give_up(self.max) }
    }

    /// Stops counting a connection that is about to be closed, with up to `unread` bytes that its peer has not taken. Returns whether the
    /// kernel may keep those; otherwise the connection must be reset.
    pub(crate) fn leave(&self, place: Place, unread: usize) -> bool {
        let (mut counts, now) = (self.counts.lock(), Instant::now());
        counts.forget_unread(now);
        counts.total -= 1;
        counts.change(place.origin, |count| {
            count.open -= 1;
            count.buffer_bytes -= place.buffers.counted();
        });
        let unread = unread.min(place.buffers.bytes_sent_max());
        if unread <= UNREAD_SMALL {
            return true;
        }
        let has_room = !matches!(self.share(&counts, place.origin), SocketBuffers::Least(_));
        if has_room {
            counts.keep_unread(place.origin, unread, now);
        }
        has_room
    }

    /// Returns what one more connection of an origin would get.
    fn share(&self, counts: &Counts, origin: ConnectionOrigin) -> SocketBuffers {
        let own = counts.by_origin.get(&origin).map_or(0, |count| count.buffer_bytes);
        self.buffers.share(counts.buffer_bytes, own)
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

    fn shares(max: usize) -> ConnectionShares {
        ConnectionShares::new(max, 0)
    }

    /// Removes a connection.
    fn leave(shares: &ConnectionShares, number: u8) {
        let buffers = shares.buffers.share(usize::MAX, 0);
        assert!(shares.leave(Place { origin: origin(number), buffers }, 0));
    }

    /// Adds a connection. Returns the origin that must give one up.
    fn join(shares: &ConnectionShares, number: u8) -> Option<ConnectionOrigin> {
        shares.join(origin(number)).gives_up
    }

    fn origin(number: u8) -> ConnectionOrigin {
        IpAddr::from([192, 0, 2, number]).into()
    }

    #[test]
    fn the_greediest_origin_gives_way() {
        let shares = shares(CONNECTIONS_SPARE + 10);
        for _ in 0..7 {
            assert_eq!(join(&shares, 1), None);
        }
        for _ in 0..3 {
            assert_eq!(join(&shares, 2), None);
        }
        // What is to be given up no longer counts.
        let asked: Vec<ConnectionOrigin> = (10..16).map(|number| join(&shares, number).unwrap()).collect();
        assert_eq!(asked, [1, 1, 1, 1, 1, 2].map(origin));
        for _ in 0..5 {
            leave(&shares, 1);
            shares.gave_up(origin(1));
        }
        leave(&shares, 2);
        shares.gave_up(origin(2));
        assert_eq!(join(&shares, 1), Some(origin(1)), "also if it is the newcomer");
    }

    #[test]
    fn among_equals_the_one_that_connected_longest_ago_gives_way() {
        let shares = shares(CONNECTIONS_SPARE + 3);
        for number in [3, 1, 2] {
            assert_eq!(join(&shares, number), None);
        }
        assert_eq!([4, 5, 6].map(|number| join(&shares, number).unwrap()), [3, 1, 2].map(origin));
    }

    #[test]
    fn closed_connections_are_not_counted() {
        let shares = shares(CONNECTIONS_SPARE + 1);
        for _ in 0..100 {
            let joined = shares.join(origin(1));
            assert!(joined.gives_up.is_none() && !shares.is_full());
            assert_eq!(shares.counts.lock().buffer_bytes, joined.place.buffers.counted());
            assert!(shares.leave(joined.place, UNREAD_SMALL));
        }
        let counts = std::mem::take(&mut *shares.counts.lock());
        assert!(counts.order.is_empty() && counts.by_origin.is_empty() && counts.buffer_bytes == 0);
        for _ in 0..CONNECTIONS_SPARE {
            join(&shares, 1);
        }
        join(&shares, 2);
        assert!(shares.is_full());
    }

    #[test]
    fn what_the_kernel_keeps_of_closed_connections_counts_for_their_origin() {
        const ALL: usize = 64 << 20;
        let shares = ConnectionShares::new(1000, ALL);
        // Each is closed at once, and its peer has taken nothing.
        while shares.leave(shares.join(origin(1)).place, 100_000) {}
        let kept = shares.counts.lock().buffer_bytes;
        assert!(kept > ALL / 3 && kept <= ALL / 2, "{kept}");
        let newcomer = shares.join(origin(2)).place;
        assert!(newcomer.buffers.counted() > 0 && shares.leave(newcomer, 100_000));
        let mut counts = shares.counts.lock();
        counts.forget_unread(Instant::now() + UNREAD_MAX);
        assert!(counts.by_origin.is_empty() && counts.buffer_bytes == 0 && counts.unread.is_empty());
    }
}
