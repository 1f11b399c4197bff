//! Calls that wait for a limit of a pool, over all event loops: origins take turns, and the calls of an origin are in the
//! order in which they came.
//!
//! A call that finds a limit reached joins the queue of that limit, for example that of a volume's journal. Only the
//! first call in a queue is tried again; a new call that awaits the same limit joins without a try, so it overtakes none of
//! its origin, and of each other origin at most those that wait behind that one's first call. The loops hold the calls; the
//! queues hold tickets. While no call waits, all this costs reading one counter.
//!
//! A call that meets something else than the limit leaves the queue; see [`crate::net::deferred`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::connection_origin::ConnectionOrigin;

/// Origins without a call that are remembered, for each queue.
const IDLE_MAX: usize = 4096;

/// A place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) queue: usize,
    place: Place,
}

impl Ticket {
    /// The first place in a queue.
    pub(crate) fn first(queue: usize) -> Ticket {
        Ticket { queue, place: Place::default() }
    }
}

/// In each round every origin has one call at most. Within a round, calls are in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    round: u64,
    /// Grows with time.
    number: u64,
}

/// One queue.
#[derive(Default)]
struct RetryQueue {
    waiting: Mutex<Waiting>,
    length: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    /// The loop and the origin of each waiting call.
    calls: BTreeMap<Place, (usize, ConnectionOrigin)>,
    /// The origins of these calls, and those that have had their turn in this round.
    origins: HashMap<ConnectionOrigin, OfOrigin>,
    /// The origins without a call, by the round in which the last one left.
    idle: BTreeSet<(u64, ConnectionOrigin)>,
    /// The latest round that the first call has been in.
    round: u64,
}

#[derive(Default)]
struct OfOrigin {
    /// The rounds of its calls.
    rounds: BTreeSet<u64>,
    /// The last round in which a call of it left.
    left: Option<u64>,
}

impl OfOrigin {
    /// Returns the latest round that it has used, or has a call in.
    fn last(&self) -> Option<u64> {
        self.rounds.last().copied().max(self.left)
    }
}

impl Waiting {
    /// Adds a call at its place, or behind the others of its origin. Returns the place, unless it waits there already.
    fn add(
        &mut self,
        place: Option<Place>,
        loop_number: usize,
        origin: ConnectionOrigin,
        next: &AtomicU64,
    ) -> (Place, bool) {
        let last = self.origins.get(&origin).and_then(OfOrigin::last);
        let place = place.unwrap_or_else(|| Place {
            round: last.map_or(self.round_of_newcomers(), |round| self.round.max(round + 1)),
            number: next.fetch_add(1, Ordering::Relaxed),
        });
        let is_new = self.calls.insert(place, (loop_number, origin)).is_none();
        if is_new {
            let of_origin = self.origins.entry(origin).or_default();
            of_origin.rounds.insert(place.round);
            if let Some(left) = of_origin.left {
                self.idle.remove(&(left, origin));
            }
        }
        (place, is_new)
    }

    /// Removes a call. Returns whether it waited.
    fn remove(&mut self, place: Place) -> bool {
        let Some((_, origin)) = self.calls.remove(&place) else { return false };
        let first = self.calls.keys().next().map_or(place.round, |first| first.round);
        self.round = self.round.max(first);
        if let Some(of_origin) = self.origins.get_mut(&origin) {
            of_origin.rounds.remove(&place.round);
            // A call that leaves before its turn uses up the current round at most, not the later one that it was placed in.
            let left = place.round.min(self.round);
            of_origin.left = of_origin.left.max(Some(left));
            if of_origin.rounds.is_empty() {
                self.idle.extend(of_origin.left.map(|left| (left, origin)));
            }
        }
        self.forget();
        true
    }

    /// Returns the round that a new origin joins: the next one if very many origins have had their turn in this one, so that it ends.
    fn round_of_newcomers(&self) -> u64 {
        self.round + u64::from(self.idle.len() >= IDLE_MAX)
    }

    /// Forgets origins without a call that had none in this round. Until then they are remembered: otherwise those that have one call
    /// at a time, again and again, would keep the further calls of others waiting for ever.
    fn forget(&mut self) {
        while let Some((left, origin)) = self.idle.first().copied()
            && (left < self.round || self.calls.is_empty() || self.idle.len() > IDLE_MAX)
        {
            self.idle.remove(&(left, origin));
            self.origins.remove(&origin);
        }
    }
}

/// All queues.
pub(crate) struct RetryQueues {
    queues: Vec<RetryQueue>,
    next: AtomicU64,
    /// Calls in all queues.
    length: AtomicUsize,
}

impl RetryQueues {
    /// Makes `count` empty queues.
    pub(crate) fn new(count: usize) -> RetryQueues {
        let queues = std::iter::repeat_with(RetryQueue::default).take(count).collect();
        RetryQueues { queues, next: AtomicU64::new(0), length: AtomicUsize::new(0) }
    }

    /// Returns the number of waiting calls.
    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Whether a call waits in this queue.
    pub(crate) fn is_waiting(&self, queue: usize) -> bool {
        self.queues[queue].length.load(Ordering::Acquire) > 0
    }

    /// Appends a call of a loop. A call that had a ticket gets its place back.
    pub(crate) fn join(
        &self,
        queue: usize,
        ticket: Option<Ticket>,
        loop_number: usize,
        origin: ConnectionOrigin,
    ) -> Ticket {
        let place = ticket.map(|ticket| ticket.place);
        // The number is drawn under the lock, so that a later number of a queue is always inserted later.
        let (place, is_new) = self.queues[queue].waiting.lock().add(place, loop_number, origin, &self.next);
        if is_new {
            self.queues[queue].length.fetch_add(1, Ordering::Release);
            self.length.fetch_add(1, Ordering::Relaxed);
        }
        Ticket { queue, place }
    }

    /// Whether the call with this ticket may be tried.
    pub(crate) fn is_first(&self, ticket: Ticket) -> bool {
        self.queues[ticket.queue].waiting.lock().calls.keys().next() == Some(&ticket.place)
    }

    /// Removes a call from its queue.
    pub(crate) fn leave(&self, ticket: Ticket) {
        let queue = &self.queues[ticket.queue];
        if queue.waiting.lock().remove(ticket.place) {
            queue.length.fetch_sub(1, Ordering::Release);
            self.length.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the loop that holds the first call of a queue.
    pub(crate) fn first_loop(&self, queue: usize) -> Option<usize> {
        self.queues[queue].waiting.lock().calls.values().next().map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;

    fn origin(number: u8) -> ConnectionOrigin {
        IpAddr::from([192, 0, 2, number]).into()
    }

    #[test]
    fn the_first_call_in_a_queue_is_tried_first() {
        let queues = RetryQueues::new(2);
        let tickets: Vec<Ticket> = (0..3).map(|_| queues.join(1, None, 0, origin(1))).collect();
        assert!(queues.is_waiting(1) && !queues.is_waiting(0));
        assert_eq!(
            tickets.iter().map(|ticket| queues.is_first(*ticket)).collect::<Vec<_>>(),
            [true, false, false]
        );
        queues.leave(tickets[0]);
        assert!(queues.is_first(tickets[1]));
        let again = queues.join(1, Some(tickets[0]), 0, origin(1));
        assert_eq!(again, tickets[0], "a call that failed keeps its place");
        assert!(queues.is_first(tickets[0]));
        for ticket in tickets {
            queues.leave(ticket);
            queues.leave(ticket);
        }
        assert_eq!((queues.len(), queues.is_waiting(1)), (0, false));
        assert!(queues.queues[1].waiting.lock().origins.is_empty());
    }

    #[test]
    fn origins_take_turns() {
        let queues = RetryQueues::new(1);
        let mut waiting = Vec::new();
        let mut join = |count: usize, number| {
            for _ in 0..count {
                waiting.push((queues.join(0, None, 0, origin(number)), number));
            }
        };
        join(5, 1);
        join(2, 2);
        join(1, 3);
        let serve = |waiting: &mut Vec<(Ticket, u8)>| {
            let at = waiting.iter().position(|(ticket, _)| queues.is_first(*ticket)).unwrap();
            let (ticket, number) = waiting.remove(at);
            queues.leave(ticket);
            number
        };
        let first: Vec<u8> = (0..4).map(|_| serve(&mut waiting)).collect();
        assert_eq!(first, [1, 2, 3, 1]);
        // A newcomer waits for one call of each other origin at most.
        waiting.push((queues.join(0, None, 0, origin(4)), 4));
        let rest: Vec<u8> = (0..5).map(|_| serve(&mut waiting)).collect();
        assert_eq!(rest, [2, 4, 1, 1, 1]);
        assert!(queues.queues[0].waiting.lock().origins.is_empty());
    }

    #[test]
    fn users_of_a_host_delay_a_call_of_its_kernel_by_one() {
        let queues = RetryQueues::new(1);
        let [user, kernel] =
            [40_000, 900].map(|port| ConnectionOrigin::of(SocketAddr::from(([192, 0, 2, 1], port))));
        let users: Vec<Ticket> = (0..100).map(|_| queues.join(0, None, 0, user)).collect();
        let kernels = queues.join(0, None, 0, kernel);
        assert!(users[0] < kernels && kernels < users[1]);
    }

    #[test]
    fn calls_of_an_origin_have_their_turns_however_often_others_make_one() {
        let queues = RetryQueues::new(1);
        let mut waiting: Vec<(Ticket, u8)> = [1; 4]
            .into_iter()
            .chain(2..12)
            .map(|number| (queues.join(0, None, 0, origin(number)), number))
            .collect();
        let mut served = Vec::new();
        for _ in 0..44 {
            let at = waiting.iter().position(|(ticket, _)| queues.is_first(*ticket)).unwrap();
            let (ticket, number) = waiting.remove(at);
            queues.leave(ticket);
            served.push(number);
            if number > 1 {
                waiting.push((queues.join(0, None, 0, origin(number)), number));
            }
        }
        let turns: Vec<usize> = (0..44).filter(|at| served[*at] == 1).collect();
        assert_eq!(turns.len(), 4, "{served:?}");
        assert!(turns.windows(2).all(|two| two[1] - two[0] <= 11), "{turns:?}");
    }

    /// As when a connection is closed.
    #[test]
    fn calls_that_leave_before_their_turn_put_nobody_back() {
        let queues = RetryQueues::new(1);
        let deep: Vec<Ticket> = (0..100).map(|_| queues.join(0, None, 0, origin(1))).collect();
        let other: Vec<Ticket> = (0..100).map(|_| queues.join(0, None, 0, origin(2))).collect();
        for ticket in deep.iter().rev() {
            queues.leave(*ticket);
        }
        let newcomer = queues.join(0, None, 0, origin(3));
        let again = queues.join(0, None, 0, origin(1));
        assert!(other[0] < newcomer && newcomer < other[1]);
        assert!(other[1] < again && again < other[2], "it may have had its turn in this round");
    }
}
