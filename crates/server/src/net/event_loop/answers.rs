//! The way of a call through its loop: executed at once, or held and tried again; answered at once, or parked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs::service::{ConnectionId, Progress};
use volume::request::Access;

use super::{EventLoop, Refused};
use crate::admission::lines::Place;
use crate::counters::add;
use crate::limits::{BUSY_RETRY, CONNECTION_BYTES_MAX, PORTION_BYTES};
use crate::net::connection::Connection;
use crate::net::output::Body;
use crate::net::parked::Reply;
use crate::net::workers::{Finished, HeldCall, Owner};
use crate::protocol::calls::{Handled, Head, Wait};

impl EventLoop {
    /// Executes a call that has arrived, for whose reply there is room.
    pub(super) fn call(
        &mut self,
        index: usize,
        connection: &mut Connection,
        record: &[u8],
        reply_bytes: usize,
    ) -> Result<(), Refused> {
        let head = Head::of(record);
        self.counters.count(head);
        let owner = Owner { index, generation: connection.generation };
        if self.shared.lines.len() > 0
            && let Some(line) = self.shared.calls.line_of(record)
            && self.shared.lines.is_waiting(line)
        {
            self.keep(owner, connection, record, reply_bytes, Handled::Busy, None);
            return Ok(());
        }
        let output = &mut connection.output;
        self.buffers.fill(&mut output.bytes);
        let (start, mut tail, mut progress) = (output.bytes.len(), Vec::new(), None);
        let handled = self.shared.calls.handle(
            record,
            connection.ends,
            Access::Cached,
            &mut progress,
            &mut output.bytes,
            &mut tail,
        );
        match handled {
            Handled::Reply { after: None, hold: Duration::ZERO } | Handled::Nothing => {
                connection.portion_bytes += output.bytes.len() - start;
                connection.portion_bytes += output.push_tail(&mut tail);
            }
            Handled::Reply { after, hold } => {
                let body = Body { bytes: output.bytes.split_off(start), tail };
                let reply = Reply { owner, head, body, not_before: None };
                connection.calls += 1;
                connection.reply_bytes += reply.held_bytes();
                self.budget.count_replies(0, reply.held_bytes());
                self.park(reply, after, hold);
            }
            Handled::WouldBlock | Handled::Busy => {
                self.keep(owner, connection, record, reply_bytes, handled, progress);
            }
            Handled::Close => {
                tracing::debug!(peer = %connection.ends.peer, "connection refused: no call, or over a limit");
                return Err(Refused);
            }
        }
        self.count_output(connection);
        Ok(())
    }

    /// Keeps a call that was not executed, with all that it will need counted.
    fn keep(
        &mut self,
        owner: Owner,
        connection: &mut Connection,
        record: &[u8],
        reply_bytes: usize,
        handled: Handled,
        progress: Option<Progress>,
    ) {
        let held = HeldCall {
            owner,
            connection: connection.ends,
            call: record.to_vec(),
            access: Access::Cached,
            progress,
            reply_bytes,
            place: None,
        };
        connection.calls += 1;
        connection.call_bytes += held.request_bytes();
        connection.reply_bytes += reply_bytes;
        self.budget.count_requests(0, held.request_bytes());
        self.budget.count_replies(0, reply_bytes);
        self.hold(held, handled);
    }

    fn park(&mut self, mut reply: Reply, after: Option<Wait>, hold: Duration) {
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

    /// Sends a call that could not be executed to a worker, or to the line of what it needs.
    fn hold(&mut self, mut held: HeldCall, handled: Handled) {
        if handled == Handled::WouldBlock && held.access == Access::Cached {
            add(&self.counters.blocked, 1);
            held.access = Access::Blocking;
            self.at_workers += 1;
            self.shared.workers.submit(held, Arc::clone(&self.mailbox));
            return;
        }
        add(&self.counters.busy, 1);
        // What it needed of media has most likely been read by now.
        held.access = Access::Cached;
        let line = match held.place {
            Some(place) => place.line,
            // Those that need not keep order have the last line.
            None => self.shared.calls.line_of(&held.call).unwrap_or_else(|| self.shared.calls.lines()),
        };
        let place = self.shared.lines.join(line, held.place, self.number);
        held.place = Some(place);
        self.busy.insert(place, held);
        self.retry.get_or_insert_with(|| Instant::now() + BUSY_RETRY);
    }

    /// Goes on with a call that was held and has been tried.
    pub(super) fn finished(&mut self, finished: Finished) {
        let Finished { held, handled, reply } = finished;
        let owner = held.owner;
        match handled {
            Handled::Reply { after, hold } => {
                self.forget(&held);
                let reply = Reply { owner, head: Head::of(&held.call), body: reply, not_before: None };
                self.budget.count_replies(0, reply.held_bytes());
                if let Some(connection) = self.connection_of(owner) {
                    connection.reply_bytes += reply.held_bytes();
                }
                if after.is_none() && hold.is_zero() {
                    self.deliver(reply);
                } else {
                    self.park(reply, after, hold);
                }
            }
            Handled::WouldBlock | Handled::Busy => self.hold(held, handled),
            Handled::Nothing => {
                self.forget(&held);
                self.answered(owner, 0, Body::default());
            }
            Handled::Close => {
                self.forget(&held);
                if self.connection_of(owner).is_some()
                    && let Some(connection) = self.connections[owner.index].take()
                {
                    add(&self.counters.refused, 1);
                    self.close(owner.index, connection);
                }
            }
        }
    }

    /// Takes out of all counts what a held call was counted with.
    fn forget(&mut self, held: &HeldCall) {
        self.budget.count_requests(held.request_bytes(), 0);
        self.budget.count_replies(held.reply_bytes, 0);
        if let Some(connection) = self.connection_of(held.owner) {
            connection.call_bytes -= held.request_bytes();
            connection.reply_bytes -= held.reply_bytes;
        }
    }

    /// Tries again, in order, the calls that the engine found no room for, if there was progress or it is time: in each line
    /// those whose turn it is, until one finds no room again or so many bytes were tried that others have their turn.
    pub(super) fn retry_busy(&mut self, progress: bool) {
        if !self.retry.is_some_and(|time| progress || Instant::now() >= time) {
            return;
        }
        self.retry = None;
        let (mut line, mut go_on) = (0, false);
        while let Some((place, _)) = self.busy.range(Place { line, number: 0 }..).next() {
            line = place.line;
            go_on |= self.retry_line(line);
            self.shared.lines.call_first(line, self.number);
            line += 1;
        }
        if !self.busy.is_empty() {
            let pause = if go_on { Duration::ZERO } else { BUSY_RETRY };
            self.retry = Some(Instant::now() + pause);
        }
    }

    /// Answers whether it ended because enough was done.
    fn retry_line(&mut self, line: usize) -> bool {
        let mut bytes = 0;
        while bytes < PORTION_BYTES {
            let from = Place { line, number: 0 };
            let Some((place, _)) = self.busy.range(from..).next() else { return false };
            let place = *place;
            if place.line != line || !self.shared.lines.is_first(place) {
                return false;
            }
            let mut held = self.busy.remove(&place).expect("it was found there");
            if self.connection_of(held.owner).is_none() {
                // Nobody waits for the answer, and nothing was done.
                self.shared.lines.leave(place);
                self.forget(&held);
                continue;
            }
            bytes += held.request_bytes() + held.reply_bytes;
            let mut reply = Body::default();
            let handled = held.try_again(&*self.shared.calls, &mut reply);
            if handled != Handled::Busy {
                self.shared.lines.leave(place);
            }
            self.finished(Finished { held, handled, reply });
            if handled == Handled::Busy {
                return false;
            }
        }
        true
    }

    /// Lets go the parked replies whose time has come.
    pub(super) fn release_parked(&mut self) {
        if self.parked.len() == 0 {
            return;
        }
        let mut parked = std::mem::take(&mut self.parked);
        let calls = Arc::clone(&self.shared.calls);
        parked.release(&*calls, |reply, durable| {
            if durable {
                self.deliver(reply);
                return;
            }
            let mut failure = Body::default();
            calls.failure_reply(reply.head, &mut failure.bytes);
            self.answered(reply.owner, reply.held_bytes(), failure);
        });
        self.parked = parked;
    }

    /// Sends a call of our own by a client's connection, if that is still there and takes what it is sent.
    pub(super) fn send_callback(&mut self, id: ConnectionId, callback: u64, record: Vec<u8>) {
        let place = self.by_id.get(&id).copied();
        let Some((index, mut connection)) =
            place.and_then(|index| Some((index, self.connections[index].take()?)))
        else {
            self.shared.calls.callback_failed(callback);
            return;
        };
        if connection.unsent() + record.len() > CONNECTION_BYTES_MAX {
            self.shared.calls.callback_failed(callback);
        } else {
            connection.output.push(Body { bytes: record, tail: Vec::new() }, &mut self.buffers);
            self.count_output(&mut connection);
            self.touch(index, &mut connection);
        }
        self.connections[index] = Some(connection);
    }

    fn deliver(&mut self, reply: Reply) {
        self.answered(reply.owner, reply.held_bytes(), reply.body);
    }

    /// A call is over for whose reply `held` bytes were counted; `reply` leaves at the end of the turn.
    fn answered(&mut self, owner: Owner, held: usize, reply: Body) {
        self.budget.count_replies(held, 0);
        if self.connection_of(owner).is_none() {
            return;
        }
        let Some(mut connection) = self.connections[owner.index].take() else { return };
        connection.calls -= 1;
        connection.reply_bytes -= held;
        connection.output.push(reply, &mut self.buffers);
        self.count_output(&mut connection);
        // Even without a reply: the connection may be read again, or be over.
        self.touch(owner.index, &mut connection);
        self.connections[owner.index] = Some(connection);
    }
}
