//! Calls that were not answered when they arrived: they wait for a worker, for a limit of a pool, or *apart* for something
//! that blocks only them.
//!
//! What is in the way of a call that waits apart says nothing about others, so it has no place in any order, and each call is
//! tried again by itself: soon at first, then more rarely, and the more rarely the more calls of its origin wait apart.
//!
//! A call first waits until there is room for its reply, in line with others of its origin.
//!
//! While others wait for what such a call holds, it may have to end: [`crate::admission::long_calls`].

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use nfs::service::{CallId, Connection, Incoming, KeptRecord, Outcome, Progress, ReplyBuffer};
use volume::request::Access;

use crate::admission::ConnectionKey;
use crate::admission::long_calls::LongCalls;
use crate::admission::origins::{Held, OriginKey};
use crate::admission::retry_queues::Ticket;
use crate::clock;
use crate::connection_origin::ConnectionOrigin;
use crate::counters::operations::Counted;
use crate::counters::phases::{Phase, Timing};
use crate::limits::{BUSY_RETRY, DEFERRED_OVERHEAD_BYTES, RETRY_DOUBLINGS_MAX, RETRY_SPACING};
use crate::net::connection::{Passed, copy_terms};
use crate::net::departure::Departure;
use crate::protocol::calls::Calls;

/// A call that must be run again.
#[derive(Debug)]
pub(crate) struct DeferredCall {
    pub(crate) owner: ConnectionKey,
    pub(crate) connection: Connection,
    /// When its peer is gone.
    pub(crate) departure: Departure,
    pub(crate) record: KeptRecord,
    pub(crate) id: CallId,
    /// How to run it next.
    pub(crate) access: Access,
    /// A worker has had it, and did not meet its end.
    pub(crate) is_long: bool,
    /// Its number among those that may end, while it waits, or a worker has it.
    pub(crate) number: Option<u64>,
    /// How far it came.
    pub(crate) progress: Option<Progress>,
    /// Bytes reserved for the reply and the blocks it is made from; zero for one that needs none, and while the call waits for
    /// room for it.
    pub(crate) reply_bytes: usize,
    /// Bytes of its results so far while it waits for room for its reply; zero later, as the room is for these too.
    pub(crate) results_bytes: usize,
    /// Bytes that were lent for its record.
    pub(crate) lent: usize,
    /// The retry queue for it; none if it keeps no order.
    pub(crate) queue: Option<usize>,
    /// Its place in that queue, if it waits there or did.
    pub(crate) ticket: Option<Ticket>,
    /// How often something was in the way of it alone.
    pub(crate) obstructions: u32,
    /// Where it is counted.
    pub(crate) counted: Counted,
    /// What rate limits charged for it.
    pub(crate) passed: Option<Box<Passed>>,
    /// What its time was spent on.
    pub(crate) timing: Timing,
}

impl DeferredCall {
    /// Runs the call, or the rest of it.
    pub(crate) fn execute(self, calls: &dyn Calls) -> ExecutedCall {
        self.run(|incoming, progress, reply| calls.handle(incoming, progress, reply))
    }

    /// Ends a long call where it stands.
    pub(crate) fn end(self, calls: &dyn Calls) -> ExecutedCall {
        self.run(|incoming, progress, reply| calls.end(incoming, progress, reply))
    }

    fn run(
        mut self,
        handle: impl FnOnce(&Incoming<'_>, &mut Option<Progress>, &mut ReplyBuffer) -> Outcome,
    ) -> ExecutedCall {
        let begun = clock::read();
        self.timing.end(Phase::Line, begun.steady);
        let incoming = Incoming {
            record: &self.record.decode(),
            connection: self.connection,
            now: begun,
            access: self.access,
            copy_terms: copy_terms(self.passed.as_deref()),
        };
        let mut reply = ReplyBuffer::default();
        let outcome = handle(&incoming, &mut self.progress, &mut reply);
        self.timing.end(Phase::Engine, clock::steady());
        ExecutedCall { call: self, outcome, reply }
    }

    /// Whether nobody awaits its reply any longer. What it has done so far stays.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.departure.is_over(clock::steady())
    }

    /// Ends the turn of a call that nobody awaits.
    pub(crate) fn skip(self) -> ExecutedCall {
        ExecutedCall { call: self, outcome: Outcome::WouldBlock, reply: ReplyBuffer::default() }
    }

    /// Returns what limits count its client by.
    pub(crate) fn origin(&self) -> ConnectionOrigin {
        ConnectionOrigin::of(self.connection.peer)
    }

    /// Returns what the budget counts for it.
    pub(crate) fn held(&self) -> Held {
        Held { requests: self.request_bytes(), replies: self.reply_bytes, ..Held::default() }
    }

    /// Returns the bytes that the budget counts for it among requests.
    pub(crate) fn request_bytes(&self) -> usize {
        self.record.memory_bytes() + DEFERRED_OVERHEAD_BYTES + self.results_bytes
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
    apart: Apart,
    pub(crate) roomless: Roomless,
    /// Calls that a worker has.
    pub(crate) at_workers: usize,
    /// Those of all of them that may end before they are run again.
    pub(crate) long: LongCalls,
}

impl DeferredCalls {
    /// Returns the number of calls that wait for a limit, apart, or for room for their replies.
    pub(crate) fn busy(&self) -> usize {
        self.busy.len() + self.apart.calls.len() + self.roomless.length
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.busy() + self.at_workers
    }

    /// Returns when to try a call again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        let apart = self.apart.calls.keys().next().map(|(due, _)| *due);
        self.retry.into_iter().chain(apart).min()
    }

    /// Keeps a call apart.
    pub(crate) fn put_apart(&mut self, call: DeferredCall, now: Instant) {
        self.apart.put(call, now);
    }

    /// Takes a call that waits apart and is to be tried now.
    pub(crate) fn take_apart(&mut self, now: Instant) -> Option<DeferredCall> {
        self.apart.take(now)
    }

    /// Takes those with these numbers that wait for a limit, apart, or for room for their replies.
    pub(crate) fn take_numbered(&mut self, numbers: &BTreeSet<u64>) -> Vec<DeferredCall> {
        let is_wanted = |call: &DeferredCall| call.number.is_some_and(|number| numbers.contains(&number));
        let apart = self.apart.calls.iter().filter(|(_, call)| is_wanted(call));
        let apart: Vec<_> = apart.map(|(key, _)| *key).collect();
        let busy = self.busy.iter().filter(|(_, call)| is_wanted(call));
        let busy: Vec<_> = busy.map(|(ticket, _)| *ticket).collect();
        let apart = apart.into_iter().filter_map(|key| self.apart.remove(key));
        let busy = busy.into_iter().filter_map(|ticket| self.busy.remove(&ticket));
        apart.chain(busy).chain(self.roomless.take_all(is_wanted)).collect()
    }

    /// Keeps a call that waits for a limit.
    pub(crate) fn insert(&mut self, ticket: Ticket, call: DeferredCall) {
        self.busy.insert(ticket, call);
        self.retry.get_or_insert_with(|| Instant::now() + BUSY_RETRY);
    }

    /// Returns the first ticket of `queue` or a later queue.
    pub(crate) fn first_from(&self, queue: usize) -> Option<Ticket> {
        self.busy.range(Ticket::first(queue)..).next().map(|(ticket, _)| *ticket)
    }

    /// Takes the call with this ticket.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<DeferredCall> {
        self.busy.remove(&ticket)
    }

    /// Whether calls that wait for a limit must be tried now: their time has come, or there was progress. If so, the time is
    /// reset.
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

/// A call that waits for room for its reply.
#[derive(Debug)]
pub(crate) struct WithoutRoom {
    pub(crate) call: DeferredCall,
    /// The room that it needs, bytes.
    pub(crate) reply_bytes: usize,
    /// What it met when it was tried.
    pub(crate) outcome: Outcome,
}

/// Calls that wait for room for their replies. Their connections go on meanwhile, since other calls may need none.
#[derive(Debug, Default)]
pub(crate) struct Roomless {
    by_origin: BTreeMap<OriginKey, VecDeque<WithoutRoom>>,
    /// The origins in turn.
    order: VecDeque<OriginKey>,
    length: usize,
}

impl Roomless {
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether a call of this origin waits.
    pub(crate) fn has(&self, origin: OriginKey) -> bool {
        self.by_origin.contains_key(&origin)
    }

    pub(crate) fn push(&mut self, waiting: WithoutRoom) {
        let origin = waiting.call.owner.origin;
        if !self.has(origin) {
            self.order.push_back(origin);
        }
        self.by_origin.entry(origin).or_default().push_back(waiting);
        self.length += 1;
    }

    /// Takes all calls that are wanted.
    fn take_all(&mut self, is_wanted: impl Fn(&DeferredCall) -> bool) -> Vec<DeferredCall> {
        let mut taken = Vec::new();
        for calls in self.by_origin.values_mut() {
            let (wanted, rest) =
                std::mem::take(calls).into_iter().partition(|waiting| is_wanted(&waiting.call));
            *calls = rest;
            taken.extend(VecDeque::into_iter(wanted).map(|waiting| waiting.call));
        }
        self.by_origin.retain(|_, calls| !calls.is_empty());
        self.order.retain(|origin| self.by_origin.contains_key(origin));
        self.length -= taken.len();
        taken
    }

    /// Returns the number of origins with calls.
    pub(crate) fn origins(&self) -> usize {
        self.order.len()
    }

    /// Ends the turn of the next origin. Takes its first call if that may go on.
    pub(crate) fn next(&mut self, may_go_on: impl Fn(&WithoutRoom) -> bool) -> Option<WithoutRoom> {
        let origin = self.order.pop_front()?;
        let calls = self.by_origin.get_mut(&origin).expect("it has calls");
        let goes_on = calls.front().is_some_and(may_go_on);
        let taken = if goes_on { calls.pop_front() } else { None };
        self.length -= usize::from(taken.is_some());
        if calls.is_empty() {
            self.by_origin.remove(&origin);
        } else {
            self.order.push_back(origin);
        }
        taken
    }
}

/// Calls that wait for something that is in the way of them alone.
#[derive(Debug, Default)]
struct Apart {
    /// By the time at which they are tried again, then in the order in which they came.
    calls: BTreeMap<(Instant, u64), DeferredCall>,
    next: u64,
    /// The calls of each origin.
    counts: HashMap<ConnectionOrigin, u32>,
}

impl Apart {
    fn put(&mut self, mut call: DeferredCall, now: Instant) {
        let count = self.counts.entry(call.origin()).or_insert(0);
        *count += 1;
        let pause = BUSY_RETRY * (1 << call.obstructions.min(RETRY_DOUBLINGS_MAX));
        let due = now + pause.max(RETRY_SPACING * *count);
        call.obstructions += 1;
        self.calls.insert((due, self.next), call);
        self.next += 1;
    }

    fn take(&mut self, now: Instant) -> Option<DeferredCall> {
        let (key, _) = self.calls.first_key_value().filter(|((due, _), _)| *due <= now)?;
        self.remove(*key)
    }

    fn remove(&mut self, key: (Instant, u64)) -> Option<DeferredCall> {
        let call = self.calls.remove(&key)?;
        if let Entry::Occupied(mut entry) = self.counts.entry(call.origin()) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
        Some(call)
    }
}
