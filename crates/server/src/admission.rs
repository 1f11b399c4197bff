//! The order in which connections and calls are served, and the memory they may hold.
//!
//! [`Admission`] belongs to one event loop. Before a call with a large reply runs, the size of the reply is reserved;
//! until it fits, the call waits in its connection, which is *reply-blocked*. While requests exceed their part of the
//! budget, connections are *read-blocked*: no socket is read, except for that of one connection at most, which is
//! *exempt*. Without the exemption, connections that have each received half a record would wait for each other. Blocked
//! connections go on in the order in which they came; of read-blocked ones those that have begun a record come first,
//! since completing one gives memory back sooner than beginning another.

use std::collections::VecDeque;

use crate::limits::READ_BYTES;

use budget::Budget;
use ready::{Ready, Turn};

pub(crate) mod budget;
pub(crate) mod ready;
pub(crate) mod retry_queues;

/// Names a connection of a loop: its place in the table, and which of the connections that used the place over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionKey {
    pub(crate) index: usize,
    pub(crate) generation: u64,
}

/// The properties that decide when a blocked connection goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) key: ConnectionKey,
    /// It moved much data when it was last served.
    pub(crate) is_heavy: bool,
    /// No part of a record has arrived.
    pub(crate) is_between_records: bool,
    /// Bytes that the reply to its waiting call needs.
    pub(crate) reply_bytes: usize,
}

/// Which connections of a loop may be served now, and which are blocked until there is memory.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) budget: Budget,
    ready: Ready,
    read_blocked: VecDeque<usize>,
    reply_blocked: VecDeque<usize>,
    read_exempt: Option<ConnectionKey>,
}

impl Admission {
    /// Admits what fits into `limit` bytes.
    pub(crate) fn new(limit: usize) -> Admission {
        Admission {
            budget: Budget::new(limit),
            ready: Ready::default(),
            read_blocked: VecDeque::new(),
            reply_blocked: VecDeque::new(),
            read_exempt: None,
        }
    }

    /// Begins a turn: serves connections that are ready now, see [`Ready::turn`].
    pub(crate) fn turn(&self) -> Turn {
        self.ready.turn()
    }

    /// Returns the next connection of a turn.
    pub(crate) fn next(&mut self, turn: &mut Turn) -> Option<usize> {
        self.ready.next(turn)
    }

    /// Whether a connection waits to be served.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a connection waits for memory.
    pub(crate) fn is_short(&self) -> bool {
        !self.read_blocked.is_empty() || !self.reply_blocked.is_empty()
    }

    /// Whether connections are read-blocked.
    pub(crate) fn is_reading_blocked(&self) -> bool {
        !self.read_blocked.is_empty()
    }

    /// Whether a reply of up to `bytes` may be begun without overtaking another.
    pub(crate) fn may_reply(&self, bytes: usize) -> bool {
        self.reply_blocked.is_empty() && bytes <= self.budget.room_to_reply()
    }

    /// Whether there is memory to read from this connection.
    pub(crate) fn may_read(&self, key: ConnectionKey) -> bool {
        self.budget.room_to_read() > 0 || self.read_exempt == Some(key)
    }

    /// Queues a connection whose call waits for room for its reply.
    pub(crate) fn queue_reply(&mut self, waiting: Candidate) {
        if self.may_reply(waiting.reply_bytes) {
            self.ready.push(waiting.key.index, waiting.is_heavy);
        } else {
            self.reply_blocked.push_back(waiting.key.index);
        }
    }

    /// Queues a connection that has input.
    pub(crate) fn queue_read(&mut self, waiting: Candidate) {
        let Candidate { key, is_heavy, is_between_records, .. } = waiting;
        let is_next = !is_between_records || self.read_blocked.is_empty() || self.read_exempt == Some(key);
        if self.may_read(key) && is_next {
            self.ready.push(key.index, is_heavy);
        } else if is_between_records {
            self.read_blocked.push_back(key.index);
        } else {
            self.read_blocked.push_front(key.index);
        }
    }

    /// Unblocks as many connections, in order, as there is memory for; if there is none to read, exempts one, unless
    /// calls `in_flight` will give memory back. `candidate` looks up a connection.
    pub(crate) fn unblock(&mut self, in_flight: usize, candidate: impl Fn(usize) -> Option<Candidate>) {
        let is_heavy = |index| candidate(index).is_some_and(|candidate| candidate.is_heavy);
        let mut room = self.budget.room_to_reply();
        while let Some(index) = self.reply_blocked.front().copied() {
            let wanted = candidate(index).map_or(0, |candidate| candidate.reply_bytes);
            if wanted > room {
                break;
            }
            room -= wanted;
            self.reply_blocked.pop_front();
            self.ready.push(index, is_heavy(index));
        }
        let mut room = self.budget.room_to_read();
        if room > 0 {
            self.read_exempt = None;
        }
        while room > 0
            && let Some(index) = self.read_blocked.pop_front()
        {
            room = room.saturating_sub(READ_BYTES);
            self.ready.push(index, is_heavy(index));
        }
        if !self.read_blocked.is_empty() && in_flight == 0 {
            self.exempt(candidate);
        }
    }

    /// Exempts the first read-blocked connection, unless another one is receiving a record under its exemption.
    fn exempt(&mut self, candidate: impl Fn(usize) -> Option<Candidate>) {
        let exempt = self.read_exempt.and_then(|key| candidate(key.index).filter(|found| found.key == key));
        if exempt.is_some_and(|exempt| !exempt.is_between_records) {
            return;
        }
        self.read_exempt = None;
        while let Some(index) = self.read_blocked.pop_front() {
            let Some(found) = candidate(index) else { continue };
            if self.budget.is_full_of_replies() && found.is_between_records {
                // Another call would add replies, and no later connection in the queue has begun a record.
                self.read_blocked.push_front(index);
                return;
            }
            self.read_exempt = Some(found.key);
            self.ready.push(index, found.is_heavy);
            return;
        }
    }
}
