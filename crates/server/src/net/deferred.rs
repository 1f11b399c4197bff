//! Calls that were not answered when they arrived: they wait for a worker, or for a limit of a volume.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nfs::service::{CallId, Connection, Incoming, KeptRecord, Outcome, Progress, ReplyBuffer};
use volume::request::Access;

use crate::admission::ConnectionKey;
use crate::admission::retry_queues::Ticket;
use crate::clock::now;
use crate::limits::{BUSY_RETRY, DEFERRED_OVERHEAD_BYTES};
use crate::protocol::calls::Calls;

/// A call that must be run again.
#[derive(Debug)]
pub(crate) struct DeferredCall {
    pub(crate) owner: ConnectionKey,
    pub(crate) connection: Connection,
    pub(crate) record: KeptRecord,
    pub(crate) id: CallId,
    /// How to run it next.
    pub(crate) access: Access,
    /// How far it came.
    pub(crate) progress: Option<Progress>,
    /// Bytes reserved for a large reply and the blocks it is made from; zero for a small one.
    pub(crate) reply_bytes: usize,
    /// The retry queue for it.
    pub(crate) queue: usize,
    /// Its place in that queue, if it waits there or did.
    pub(crate) ticket: Option<Ticket>,
}

impl DeferredCall {
    /// Runs the call, or the rest of it.
    pub(crate) fn execute(mut self, calls: &dyn Calls) -> ExecutedCall {
        let incoming = Incoming {
            record: &self.record.decode(),
            connection: self.connection,
            now: now(),
            access: self.access,
        };
        let mut reply = ReplyBuffer::default();
        let outcome = calls.handle(&incoming, &mut self.progress, &mut reply);
        ExecutedCall { call: self, outcome, reply }
    }

    /// Returns the bytes that the budget counts for it among requests.
    pub(crate) fn request_bytes(&self) -> usize {
        self.record.memory_bytes() + DEFERRED_OVERHEAD_BYTES
    }
}

/// A deferred call that was run again.
pub(crate) struct ExecutedCall {
    pub(crate) call: DeferredCall,
    pub(crate) outcome: Outcome,
    /// The reply with its record mark, if there is one.
    pub(crate) reply: ReplyBuffer,
}

/// The deferred calls of one loop.
#[derive(Debug, Default)]
pub(crate) struct DeferredCalls {
    /// Calls that wait for a limit.
    busy: BTreeMap<Ticket, DeferredCall>,
    /// When to try them again.
    retry: Option<Instant>,
    /// Calls that a worker has.
    pub(crate) at_workers: usize,
}

impl DeferredCalls {
    /// Returns the number of calls that wait for a limit.
    pub(crate) fn busy(&self) -> usize {
        self.busy.len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.busy.len() + self.at_workers
    }

    /// Returns when to try again the calls that wait for a limit.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.retry
    }

    /// Keeps a call that waits for a limit.
    pub(crate) fn insert(&mut self, ticket: Ticket, call: DeferredCall) {
        self.busy.insert(ticket, call);
        self.retry.get_or_insert_with(|| Instant::now() + BUSY_RETRY);
    }

    /// Returns the first ticket of `queue` or a later queue.
    pub(crate) fn first_from(&self, queue: usize) -> Option<Ticket> {
        self.busy.range(Ticket { queue, number: 0 }..).next().map(|(ticket, _)| *ticket)
    }

    /// Takes the call with this ticket.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<DeferredCall> {
        self.busy.remove(&ticket)
    }

    /// Whether calls must be tried now: their time has come, or there was progress. If so, the time is reset.
    pub(crate) fn take_due(&mut self, progress: bool) -> bool {
        let due = self.retry.is_some_and(|time| progress || Instant::now() >= time);
        if due {
            self.retry = None;
        }
        due
    }

    /// Sets when to try the calls that remain.
    pub(crate) fn retry_after(&mut self, pause: Duration) {
        if !self.busy.is_empty() {
            self.retry = Some(Instant::now() + pause);
        }
    }
}
