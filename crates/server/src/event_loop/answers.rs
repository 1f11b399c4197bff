//! The way of a call through its loop: executed at once, or held and tried again; answered at once, or parked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use volume::request::Access;

use super::{EventLoop, Refused};
use crate::calls::{Handled, Head, Wait};
use crate::connection::Connection;
use crate::counters::add;
use crate::limits::{BUSY_RETRIES_IN_VAIN_MAX, BUSY_RETRY};
use crate::parked::Reply;
use crate::workers::{Finished, HeldCall, Owner};

impl EventLoop {
    /// Executes a call that has arrived.
    pub(super) fn call(
        &mut self,
        index: usize,
        connection: &mut Connection,
        record: &[u8],
    ) -> Result<(), Refused> {
        let head = Head::of(record);
        self.counters.count(head);
        self.buffers.fill(&mut connection.output);
        let start = connection.output.len();
        let handled =
            self.shared.calls.handle(record, connection.ends, Access::Cached, &mut connection.output);
        let owner = Owner { index, generation: connection.generation };
        match handled {
            Handled::Reply { after: None, hold: Duration::ZERO } | Handled::Nothing => {}
            Handled::Reply { after, hold } => {
                let bytes = connection.output.split_off(start);
                connection.calls += 1;
                connection.call_bytes += bytes.len();
                self.held += bytes.len();
                self.park(Reply { owner, head, bytes, not_before: None }, after, hold);
            }
            Handled::WouldBlock | Handled::Busy => {
                connection.calls += 1;
                connection.call_bytes += record.len();
                self.held += record.len();
                let held = HeldCall {
                    owner,
                    connection: connection.ends,
                    call: record.to_vec(),
                    access: Access::Cached,
                };
                self.hold(held, handled);
            }
            Handled::Close => {
                tracing::debug!(peer = %connection.ends.peer, "connection refused: no call, or over a limit");
                return Err(Refused);
            }
        }
        Ok(())
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

    /// Keeps a call that could not be executed, for a worker or for a later time.
    fn hold(&mut self, mut held: HeldCall, handled: Handled) {
        if handled == Handled::WouldBlock && held.access == Access::Cached {
            add(&self.counters.blocked, 1);
            held.access = Access::Blocking;
            self.at_workers += 1;
            self.shared.workers.submit(held, Arc::clone(&self.mailbox));
        } else {
            add(&self.counters.busy, 1);
            self.busy.push_back(held);
            self.retry.get_or_insert_with(|| Instant::now() + BUSY_RETRY);
        }
    }

    /// Goes on with a call that was held and has been tried.
    pub(super) fn finished(&mut self, finished: Finished) {
        let Finished { held, handled, reply } = finished;
        let owner = held.owner;
        match handled {
            Handled::Reply { after, hold } => {
                self.held = self.held - held.call.len() + reply.len();
                if let Some(connection) = self.connection_of(owner) {
                    connection.call_bytes = connection.call_bytes - held.call.len() + reply.len();
                }
                let reply = Reply { owner, head: Head::of(&held.call), bytes: reply, not_before: None };
                if after.is_none() && hold.is_zero() {
                    self.deliver(reply);
                } else {
                    self.park(reply, after, hold);
                }
            }
            Handled::WouldBlock | Handled::Busy => self.hold(held, handled),
            Handled::Nothing => self.answered(owner, held.call.len(), &[]),
            Handled::Close => {
                self.answered(owner, held.call.len(), &[]);
                if self.connection_of(owner).is_some()
                    && let Some(connection) = self.connections[owner.index].take()
                {
                    add(&self.counters.refused, 1);
                    self.close(owner.index, connection);
                }
            }
        }
    }

    /// Tries again, in order, the calls that the engine found no room for, if there was progress or it is time; gives up
    /// for this turn when that remains in vain.
    pub(super) fn retry_busy(&mut self, progress: bool) {
        if !self.retry.is_some_and(|time| progress || Instant::now() >= time) {
            return;
        }
        self.retry = None;
        let mut in_vain = 0;
        for _ in 0..self.busy.len() {
            let Some(held) = self.busy.pop_front() else { break };
            if self.connection_of(held.owner).is_none() {
                // Nobody waits for the answer, and nothing was done.
                self.held -= held.call.len();
            } else if held.access == Access::Blocking {
                self.at_workers += 1;
                self.shared.workers.submit(held, Arc::clone(&self.mailbox));
            } else {
                let mut reply = Vec::new();
                let handled = self.shared.calls.handle(&held.call, held.connection, held.access, &mut reply);
                in_vain += usize::from(handled == Handled::Busy);
                self.finished(Finished { held, handled, reply });
            }
            if in_vain >= BUSY_RETRIES_IN_VAIN_MAX {
                break;
            }
        }
        if !self.busy.is_empty() {
            self.retry = Some(Instant::now() + BUSY_RETRY);
        }
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
            let mut failure = Vec::new();
            calls.failure_reply(reply.head, &mut failure);
            self.answered(reply.owner, reply.bytes.len(), &failure);
        });
        self.parked = parked;
    }

    fn deliver(&mut self, reply: Reply) {
        self.answered(reply.owner, reply.bytes.len(), &reply.bytes);
    }

    /// A call is over for which `held` bytes were counted; `reply` leaves at the end of the turn.
    fn answered(&mut self, owner: Owner, held: usize, reply: &[u8]) {
        self.held -= held;
        if self.connection_of(owner).is_none() {
            return;
        }
        let Some(mut connection) = self.connections[owner.index].take() else { return };
        connection.calls -= 1;
        connection.call_bytes -= held;
        self.buffers.fill(&mut connection.output);
        connection.output.extend_from_slice(reply);
        // Even without a reply: the connection may be read again, or be over.
        self.touch(owner.index, &mut connection);
        self.connections[owner.index] = Some(connection);
    }
}
