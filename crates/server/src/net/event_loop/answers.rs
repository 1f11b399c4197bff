//! The path of a call through its loop: executed at once, or deferred and run again; answered at once, or parked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs::admission::Awaited;
use nfs::link_local::{Shown, socket_address};
use nfs::service::{ConnectionId, Incoming, Outcome, Progress, ReplyBuffer, Wait};
use nfs::summary::CallSummary;
use volume::request::Access;
use volume::time::Time;

use super::input::Arrival;
use super::{EventLoop, Malformed};
use crate::admission::budget::needs_short_room;
use crate::admission::origins::Held;
use crate::admission::{Blocked, ConnectionKey};
use crate::clock::steady;
use crate::counters::add;
use crate::counters::phases::{Phase, Timing};
use crate::counters::tally::PendingCall;
use crate::limits::{
    BUSY_RETRY, CONNECTION_BYTES_MAX, HELD_FOR_WORKERS_BYTES, PORTION_BYTES, PORTION_MAX,
    SHORT_REPLY_ROOM_MAX, SMALL_RECORD_BYTES_MAX, SMALL_REPLY_ROOM_MAX,
};
use crate::net::connection::{Connection, Passed, copy_terms};
use crate::net::deferred::{DeferredCall, ExecutedCall, WithoutRoom};
use crate::net::parked::ParkedReply;

impl EventLoop {
    /// Executes a call that has arrived and whose reply has room.
    pub(super) fn call(
        &mut self,
        connection: &mut Connection,
        arrival: Arrival<'_>,
    ) -> Result<(), Malformed> {
        // A call that is only put off takes time as well, and a turn may bring very many of them.
        let begun = self.call_clock.begin_call();
        self.tally.note_time(begun.steady);
        let held = held_timing(arrival.passed.as_deref()).or_else(|| connection.unread_timing());
        if let Some(outcome) = self.expected(&arrival, connection) {
            let timing = begun_timing(held, connection.arrived, begun.steady);
            self.defer(connection, arrival, outcome, None, timing);
            return Ok(());
        }
        let output = &mut connection.output;
        self.buffers.fill(&mut output.bytes);
        let start = output.bytes.len();
        let mut reply = ReplyBuffer { bytes: std::mem::take(&mut output.bytes), tail: Vec::new() };
        let mut progress = None;
        let incoming = Incoming {
            record: &arrival.record,
            connection: connection.ends,
            now: begun,
            access: Access::Cached,
            copy_terms: copy_terms(arrival.passed.as_deref()),
        };
        let outcome = self.shared.calls.handle(&incoming, &mut progress, &mut reply);
        output.bytes = reply.bytes;
        if let Outcome::Reply { summary, .. } = &outcome {
            connection.done.note_call(summary.main.protocol());
            self.settle(arrival.passed.as_deref(), summary);
        }
        match outcome {
            Outcome::Reply { after: None, hold: Duration::ZERO, summary } => {
                connection.portion_bytes += output.bytes.len() - start;
                connection.portion_bytes += output.push_tail(&mut reply.tail);
                if held.is_none() {
                    self.tally.answered(&summary, begun.steady);
                } else {
                    let label = self.tally.count(&summary, connection.counted);
                    let client = connection.ends.peer.ip();
                    let timing = executed_timing(held, connection.arrived, begun.steady);
                    self.tally.answered_late(PendingCall { label, client, timing });
                }
            }
            Outcome::Nothing => {}
            Outcome::Reply { after, hold, summary } => {
                let reply = ReplyBuffer { bytes: output.bytes.split_off(start), tail: reply.tail };
                let call = arrival.record.id().expect("only calls are answered with results");
                let pending = PendingCall {
                    label: self.tally.count(&summary, connection.counted),
                    client: connection.ends.peer.ip(),
                    timing: executed_timing(held, connection.arrived, begun.steady),
                };
                let reply = ParkedReply { owner: connection.key, call, reply, pending, not_before: None };
                connection.portion_bytes += reply.reply.bytes.len() + reply.reply.tail_bytes();
                connection.begin_call(0, reply.held_bytes());
                self.keep_reply(connection.key, reply.held_bytes());
                self.park(reply, after, hold);
            }
            Outcome::WouldBlock | Outcome::Busy(_) | Outcome::Later => {
                let timing = executed_timing(held, connection.arrived, begun.steady);
                self.defer(connection, arrival, outcome, progress, timing);
            }
            Outcome::Close => {
                tracing::info!(client = %socket_address(connection.ends.peer), "connection closed: malformed record or limit exceeded");
                return Err(Malformed);
            }
        }
        self.count_output(connection);
        Ok(())
    }

    /// Returns what would become of a call that need not be tried: others wait for a limit before it, or it is one for workers.
    fn expected(&self, arrival: &Arrival<'_>, connection: &Connection) -> Option<Outcome> {
        let queues = &self.shared.retry_queues;
        if queues.len() > 0
            && let Some(queue) = self.shared.calls.expected_queue(&arrival.needs, &connection.ends)
            && queues.is_waiting(queue)
        {
            return Some(Outcome::Busy(None));
        }
        is_for_workers(arrival).then_some(Outcome::WouldBlock)
    }

    /// Keeps a call that was not executed. It waits for room for its reply if there is none; then it is counted with all that it
    /// will need.
    fn defer(
        &mut self,
        connection: &mut Connection,
        arrival: Arrival<'_>,
        outcome: Outcome,
        progress: Option<Progress>,
        timing: Timing,
    ) {
        let calls = &self.shared.calls;
        let mut call = DeferredCall {
            owner: connection.key,
            connection: connection.ends,
            departure: connection.departure.clone(),
            record: arrival.record.to_kept(),
            id: arrival.record.id().expect("only calls are deferred"),
            access: Access::Cached,
            is_long: false,
            number: None,
            progress,
            reply_bytes: 0,
            results_bytes: 0,
            lent: std::mem::take(&mut connection.lent),
            queue: calls.expected_queue(&arrival.needs, &connection.ends),
            ticket: None,
            obstructions: 0,
            counted: connection.counted,
            passed: arrival.passed,
            timing,
        };
        let (origin, reply_bytes) = (call.owner.origin, arrival.reply_bytes);
        let is_behind = needs_short_room(reply_bytes) && self.deferred.roomless.has(origin);
        let waits = is_behind || !self.admission.may_keep_reply(origin, reply_bytes);
        if waits {
            call.results_bytes = call.progress.as_ref().map_or(0, Progress::results_bytes);
        }
        let is_counted = call.lent > 0 || connection.has_reserved();
        if call.record.memory_bytes() <= SMALL_RECORD_BYTES_MAX && !is_counted {
            self.admission.note_kept(call.owner, Blocked::Read, call.request_bytes());
        }
        connection.begin_call(call.request_bytes(), 0);
        self.admission.budget.count_kept_call(origin, 0, call.request_bytes());
        let mut waiting = WithoutRoom { call, reply_bytes, outcome };
        if waits {
            self.number(&mut waiting.call, &waiting.outcome);
            self.deferred.roomless.push(waiting);
        } else {
            connection.add_reply_bytes(reply_bytes);
            self.go_on_with_room(waiting);
        }
    }

    /// Gives each origin a turn to have a call go on that waited for room for its reply. What takes longer than a portion goes on in
    /// the next turn of the loop, and so do origins that have had one.
    pub(super) fn readmit(&mut self) {
        let begun = Instant::now();
        let (mut turns, mut is_any) = (self.deferred.roomless.origins(), false);
        while turns > 0 && begun.elapsed() < PORTION_MAX {
            turns -= 1;
            let admission = &self.admission;
            let may_go_on = |waiting: &WithoutRoom| {
                let origin = waiting.call.owner.origin;
                admission.may_keep_reply(origin, waiting.reply_bytes) || waiting.call.is_abandoned()
            };
            if let Some(waiting) = self.deferred.roomless.next(may_go_on) {
                self.readmit_one(waiting);
                is_any = true;
            }
        }
        self.has_more |= (is_any || turns > 0) && !self.deferred.roomless.is_empty();
    }

    fn readmit_one(&mut self, mut waiting: WithoutRoom) {
        let call = &mut waiting.call;
        self.take_number(call);
        if call.is_abandoned() {
            self.abandon(call);
            // Its connection may be closed now.
            self.has_more = true;
            return;
        }
        let (owner, before) = (call.owner, call.request_bytes());
        let results_bytes = std::mem::take(&mut call.results_bytes);
        self.admission.budget.count_kept_call(owner.origin, before, call.request_bytes());
        if let Some(connection) = self.connections.get_owner(owner) {
            connection.release_call(results_bytes, 0);
            connection.add_reply_bytes(waiting.reply_bytes);
        }
        self.go_on_with_room(waiting);
    }

    /// Counts the room for the reply to a call, and has it run again.
    fn go_on_with_room(&mut self, waiting: WithoutRoom) {
        let WithoutRoom { mut call, reply_bytes, outcome } = waiting;
        call.reply_bytes = reply_bytes;
        self.keep_reply(call.owner, reply_bytes);
        self.run_again(call, &outcome);
    }

    /// Counts a reply that waits, or the room for one that will be made. If it is small, it may have overtaken a large one.
    fn keep_reply(&mut self, owner: ConnectionKey, bytes: usize) {
        if (1..=SMALL_REPLY_ROOM_MAX).contains(&bytes) {
            self.admission.note_kept(owner, Blocked::Reply, bytes);
        }
        self.admission.budget.count_kept_reply(owner.origin, 0, bytes);
    }

    /// Corrects what rate limits charged for a call by what it did.
    fn settle(&self, passed: Option<&Passed>, summary: &CallSummary) {
        if let Some(passed) = passed {
            self.shared.rates.settle(&passed.charged, summary);
        }
    }

    fn park(&mut self, mut reply: ParkedReply, after: Option<Wait>, hold: Duration) {
        add(&self.counters.waited, 1);
        let time = (!hold.is_zero()).then(|| Instant::now() + hold);
        match (after, time) {
            (Some(wait), not_before) => {
                reply.not_before = not_before;
                self.parked.park(wait, reply);
            }
            (None, Some(time)) => self.parked.hold(time, reply),
            (None, None) => self.deliver(reply),
        }
    }

    /// Sends a call that would block to a worker, also one that a worker has had for a while; and one that met a limit to its
    /// retry queue. One that met something else waits apart, and so does one that keeps no order.
    fn run_again(&mut self, mut call: DeferredCall, outcome: &Outcome) {
        if matches!(outcome, Outcome::WouldBlock) {
            add(&self.counters.blocked, 1);
            call.access = Access::Blocking;
            self.deferred.at_workers += 1;
            self.number(&mut call, outcome);
            self.shared.workers.submit(call, Arc::clone(&self.mailbox));
            return;
        }
        add(&self.counters.busy, 1);
        // The media that it needs have most likely been read.
        call.access = Access::Cached;
        if let Outcome::Busy(Some(awaited)) = outcome {
            self.change_queue(&mut call, *awaited);
        }
        match call.queue {
            Some(queue) if matches!(outcome, Outcome::Busy(_)) => self.join_queue(call, queue),
            _ => {
                call.ticket = None;
                self.number(&mut call, outcome);
                self.deferred.put_apart(call, Instant::now());
            }
        }
    }

    /// Gives a call a number if it may end before it is run again.
    fn number(&mut self, call: &mut DeferredCall, outcome: &Outcome) {
        if let Some(held) = self.held_if_ends(call, outcome) {
            call.number = Some(self.deferred.long.insert(call.owner.origin, held));
        }
    }

    /// Returns for what a call may end, if it may. One that waits for room in a pool does so for as long as the pool takes, so it ends
    /// only for its reply, and if that is longer than those of the changes that ordinary clients make.
    fn held_if_ends(&self, call: &DeferredCall, outcome: &Outcome) -> Option<Held> {
        let held = match outcome {
            Outcome::Busy(_) if call.reply_bytes <= SHORT_REPLY_ROOM_MAX => return None,
            Outcome::Busy(_) => Held { requests: 0, ..call.held() },
            _ => call.held(),
        };
        self.shared.calls.may_end(&call.record, call.progress.as_ref(), outcome).then_some(held)
    }

    /// Takes the number of a call that is no longer waiting. Returns whether it was chosen to end.
    fn take_number(&mut self, call: &mut DeferredCall) -> bool {
        call.number.take().is_some_and(|number| self.deferred.long.remove(number))
    }

    /// Has a call that met a limit wait for that one, and for no other: what it did before may have waited for another limit, or
    /// for one of another volume.
    fn change_queue(&self, call: &mut DeferredCall, awaited: Awaited) {
        let queue = self.shared.calls.queue_of(awaited);
        if queue != call.queue {
            call.ticket.take().into_iter().for_each(|ticket| self.shared.retry_queues.leave(ticket));
            call.queue = queue;
        }
    }

    fn join_queue(&mut self, mut call: DeferredCall, queue: usize) {
        let ticket = self.shared.retry_queues.join(queue, call.ticket, self.number, call.origin());
        call.ticket = Some(ticket);
        self.number(&mut call, &Outcome::Busy(None));
        self.deferred.insert(ticket, call);
    }

    /// Continues a call that a worker has run, or ends it if it was chosen for that meanwhile and did not meet its end.
    pub(super) fn came_back(&mut self, mut executed: ExecutedCall) {
        self.deferred.at_workers -= 1;
        let is_ending = self.take_number(&mut executed.call);
        if is_ending && self.held_if_ends(&executed.call, &executed.outcome).is_some() {
            self.end_long(executed.call);
        } else {
            self.executed(executed);
        }
    }

    /// Ends a call before it is run again, so that others have what it holds.
    pub(super) fn end_long(&mut self, mut call: DeferredCall) {
        self.take_number(&mut call);
        call.ticket.take().into_iter().for_each(|ticket| self.shared.retry_queues.leave(ticket));
        if call.is_abandoned() {
            self.abandon(&call);
            return;
        }
        add(&self.counters.cut_short, 1);
        tracing::debug!(client = %Shown(call.connection.peer.ip()), "long call ended to make room");
        let executed = call.end(&*self.shared.calls);
        self.executed(executed);
    }

    /// Continues a deferred call that was run again.
    pub(super) fn executed(&mut self, executed: ExecutedCall) {
        let ExecutedCall { call, outcome, reply } = executed;
        let owner = call.owner;
        match outcome {
            Outcome::Reply { after, hold, summary } => {
                self.release(&call);
                self.settle(call.passed.as_deref(), &summary);
                let pending = PendingCall {
                    label: self.tally.count(&summary, call.counted),
                    client: call.connection.peer.ip(),
                    timing: call.timing,
                };
                self.tally.count_bytes(call.counted, reply.bytes.len() + reply.tail_bytes());
                let reply = ParkedReply { owner, call: call.id, reply, pending, not_before: None };
                self.admission.budget.count_kept_reply(owner.origin, 0, reply.held_bytes());
                if let Some(connection) = self.connections.get_owner(owner) {
                    connection.done.note_call(summary.main.protocol());
                    connection.done.note_bytes(reply.reply.bytes.len() + reply.reply.tail_bytes());
                    connection.add_reply_bytes(reply.held_bytes());
                }
                if after.is_none() && hold.is_zero() {
                    self.deliver(reply);
                } else {
                    self.park(reply, after, hold);
                }
            }
            // The client of a long call is gone: its next part need not be done.
            Outcome::WouldBlock if call.is_abandoned() => self.abandon(&call),
            Outcome::WouldBlock | Outcome::Busy(_) | Outcome::Later => self.run_again(call, &outcome),
            Outcome::Nothing => {
                self.release(&call);
                self.answered(owner, 0, ReplyBuffer::default());
            }
            Outcome::Close => {
                self.release(&call);
                if let Some(connection) = self.connections.take_owner(owner) {
                    self.refuse(connection);
                }
            }
        }
    }

    /// Stops counting what a deferred call was counted with.
    fn release(&mut self, call: &DeferredCall) {
        self.admission.budget.count_kept_call(call.owner.origin, call.request_bytes(), 0);
        self.admission.budget.take_back(call.owner.origin, call.lent);
        self.admission.budget.count_kept_reply(call.owner.origin, call.reply_bytes, 0);
        if let Some(connection) = self.connections.get_owner(call.owner) {
            connection.release_call(call.request_bytes(), call.reply_bytes);
        }
    }

    /// Drops a call whose client is gone, and all that the client sent after it: it may repeat them by another connection.
    fn abandon(&mut self, call: &DeferredCall) {
        self.release(call);
        if let Some(connection) = self.connections.get_owner(call.owner) {
            connection.end_input();
        }
        self.answered(call.owner, 0, ReplyBuffer::default());
    }

    /// Retries the calls that were in no queue when their time came, until a portion has been moved, or that took long.
    pub(super) fn retry_apart(&mut self) {
        let (now, mut bytes) = (Instant::now(), 0);
        while bytes < PORTION_BYTES
            && now.elapsed() < PORTION_MAX
            && let Some(mut call) = self.deferred.take_apart(now)
        {
            self.take_number(&mut call);
            if call.is_abandoned() {
                self.abandon(&call);
                continue;
            }
            bytes += call.request_bytes() + call.reply_bytes;
            match call.queue {
                // It overtakes nobody who waits for the limit that it may need.
                Some(queue) if self.shared.retry_queues.is_waiting(queue) => self.join_queue(call, queue),
                _ => {
                    let executed = call.execute(&*self.shared.calls);
                    self.executed(executed);
                }
            }
        }
    }

    /// Retries, in order, the calls that met a limit, after progress or when a retry is due: in each queue those whose turn it
    /// is, until one meets the limit again, or a portion has been moved, or that took long. Then other work has its turn.
    pub(super) fn retry_busy(&mut self, progress: bool) {
        if !self.deferred.take_due(progress) {
            return;
        }
        let (mut queue, mut has_more) = (0, false);
        while let Some(ticket) = self.deferred.first_from(queue) {
            queue = ticket.queue;
            has_more |= self.retry_queue(queue);
            let first = self.shared.retry_queues.first_loop(queue);
            if let Some(first) = first.filter(|first| *first != self.number) {
                self.shared.mailboxes[first].announce_progress();
            }
            queue += 1;
        }
        self.deferred.retry_after(if has_more { Duration::ZERO } else { BUSY_RETRY });
    }

    /// Tries the calls of one queue. Returns whether it ended because a portion was moved, or took long.
    fn retry_queue(&mut self, queue: usize) -> bool {
        let (began, mut bytes) = (Instant::now(), 0);
        while bytes < PORTION_BYTES && began.elapsed() < PORTION_MAX {
            let Some(ticket) = self.deferred.first_from(queue) else { return false };
            if ticket.queue != queue || !self.shared.retry_queues.is_first(ticket) {
                return false;
            }
            let mut call = self.deferred.remove(ticket).expect("it was found there");
            self.take_number(&mut call);
            if call.is_abandoned() {
                self.shared.retry_queues.leave(ticket);
                self.abandon(&call);
                continue;
            }
            bytes += call.request_bytes() + call.reply_bytes;
            let executed = call.execute(&*self.shared.calls);
            let is_busy = matches!(executed.outcome, Outcome::Busy(_));
            if !is_busy {
                self.shared.retry_queues.leave(ticket);
            }
            self.executed(executed);
            // Or it now waits in another queue.
            if is_busy && self.shared.retry_queues.is_first(ticket) {
                return false;
            }
        }
        true
    }

    /// Sends the parked replies whose time has come, but not too many in one turn.
    pub(super) fn release_parked(&mut self) {
        if self.parked.len() == 0 {
            return;
        }
        let mut parked = std::mem::take(&mut self.parked);
        let calls = Arc::clone(&self.shared.calls);
        let mut released = None;
        self.has_more |= parked.release(
            |wait| calls.durable(wait),
            |mut reply, durable| {
                reply.pending.timing.end(Phase::Durability, *released.get_or_insert_with(steady));
                if durable {
                    self.deliver(reply);
                    return;
                }
                let mut failure = ReplyBuffer::default();
                calls.failure_reply(reply.call, &mut failure.bytes);
                self.tally.count_lost(&reply.pending);
                self.tally.answered_late(reply.pending);
                self.answered(reply.owner, reply.held_bytes(), failure);
            },
        );
        self.parked = parked;
    }

    /// Sends a callback by a client's connection, if that is still open and has room for it.
    pub(super) fn send_callback(&mut self, id: ConnectionId, callback: u64, record: Vec<u8>) {
        let Some(mut connection) = self.connections.take_id(id) else {
            self.shared.calls.callback_failed(callback);
            return;
        };
        if connection.unsent() + record.len() > CONNECTION_BYTES_MAX {
            self.shared.calls.callback_failed(callback);
        } else {
            connection.output.push(ReplyBuffer { bytes: record, tail: Vec::new() }, &mut self.buffers);
            self.count_output(&mut connection);
            self.touch(&mut connection);
        }
        self.connections.put(connection);
    }

    fn deliver(&mut self, reply: ParkedReply) {
        self.tally.answered_late(reply.pending);
        self.answered(reply.owner, reply.held_bytes(), reply.reply);
    }

    /// Ends a call for whose reply `held` bytes were counted; `reply` is sent at the end of the turn.
    fn answered(&mut self, owner: ConnectionKey, held: usize, reply: ReplyBuffer) {
        self.admission.budget.count_kept_reply(owner.origin, held, 0);
        let Some(mut connection) = self.connections.take_owner(owner) else { return };
        connection.end_call(held);
        connection.output.push(reply, &mut self.buffers);
        self.count_output(&mut connection);
        // Needed even without a reply: the connection may become readable, or close.
        self.touch(&mut connection);
        self.connections.put(connection);
    }
}

/// Whether a call should not take the time of its event loop, though nothing may be in its way: it moves much, and rate limits have
/// held it. So clients that are not limited wait for none of what others exceed their limits with, but its reception.
fn is_for_workers(arrival: &Arrival<'_>) -> bool {
    let bytes = arrival.record.length().max(arrival.reply_bytes);
    bytes >= HELD_FOR_WORKERS_BYTES && held_timing(arrival.passed.as_deref()).is_some()
}

/// Returns the times of a call that was held.
fn held_timing(passed: Option<&Passed>) -> Option<Timing> {
    passed.and_then(|passed| passed.timing)
}

/// Returns the times of a call that begins. `held` are those until rate limits let it go on, if they held it.
fn begun_timing(held: Option<Timing>, arrived: Time, begun: Time) -> Timing {
    let mut timing = held.unwrap_or_else(|| Timing::of_arrival(arrived));
    timing.end(Phase::Queue, begun);
    timing
}

/// Returns the times of a call that has just been executed for the first time.
fn executed_timing(held: Option<Timing>, arrived: Time, begun: Time) -> Timing {
    let mut timing = begun_timing(held, arrived, begun);
    timing.end(Phase::Engine, steady());
    timing
}
