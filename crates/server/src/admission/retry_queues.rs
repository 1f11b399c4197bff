//! Calls that wait for a limit of a volume, in the order in which they came, over all event loops.
//!
//! A call that finds a limit reached joins the queue of that limit, for example that of a volume's journal. Only the
//! first call in a queue is tried again; a new call that awaits the same limit joins without a try, so it never
//! overtakes. The loops hold the calls; the queues hold tickets. While no call waits, all this costs reading one counter.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// A place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) queue: usize,
    /// Grows with time.
    pub(crate) number: u64,
}

/// One queue.
#[derive(Default)]
struct RetryQueue {
    /// The loop of each waiting call, by number.
    waiting: Mutex<BTreeMap<u64, usize>>,
    length: AtomicUsize,
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
    pub(crate) fn join(&self, queue: usize, ticket: Option<Ticket>, loop_number: usize) -> Ticket {
        let mut waiting = self.queues[queue].waiting.lock();
        // The number is drawn under the lock, so that a later number of a queue is always inserted later.
        let ticket =
            ticket.unwrap_or_else(|| Ticket { queue, number: self.next.fetch_add(1, Ordering::Relaxed) });
        if waiting.insert(ticket.number, loop_number).is_none() {
            self.queues[queue].length.fetch_add(1, Ordering::Release);
            self.length.fetch_add(1, Ordering::Relaxed);
        }
        ticket
    }

    /// Whether the call with this ticket may be tried.
    pub(crate) fn is_first(&self, ticket: Ticket) -> bool {
        self.queues[ticket.queue].waiting.lock().keys().next() == Some(&ticket.number)
    }

    /// Removes a call from its queue.
    pub(crate) fn leave(&self, ticket: Ticket) {
        let queue = &self.queues[ticket.queue];
        if queue.waiting.lock().remove(&ticket.number).is_some() {
            queue.length.fetch_sub(1, Ordering::Release);
            self.length.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the loop that holds the first call of a queue.
    pub(crate) fn first_loop(&self, queue: usize) -> Option<usize> {
        self.queues[queue].waiting.lock().values().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_in_a_queue_is_tried_first() {
        let queues = RetryQueues::new(2);
        let tickets: Vec<Ticket> = (0..3).map(|_| queues.join(1, None, 0)).collect();
        assert!(queues.is_waiting(1) && !queues.is_waiting(0));
        assert_eq!(
            tickets.iter().map(|ticket| queues.is_first(*ticket)).collect::<Vec<_>>(),
            [true, false, false]
        );
        queues.leave(tickets[0]);
        assert!(queues.is_first(tickets[1]));
        assert_eq!(queues.join(1, Some(tickets[0]), 0), tickets[0], "a call that failed keeps its place");
        assert!(queues.is_first(tickets[0]));
        for ticket in tickets {
            queues.leave(ticket);
            queues.leave(ticket);
        }
        assert_eq!((queues.len(), queues.is_waiting(1)), (0, false));
    }
}
