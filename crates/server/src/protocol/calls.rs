//! What event loops and workers serve.
//!
//! The trait has two implementations: [`super::Protocol`], and a script for the tests of event loops, which say how often a
//! call is busy, what its reply waits for and how large it is. A volume brings these about by timing only.

use std::net::IpAddr;

use nfs::admission::{Awaited, Needs};
use nfs::charge::Charge;
use nfs::service::{
    ArrivingPayload, CallId, Connection, ConnectionId, Incoming, IncomingRecord, KeptRecord, Outcome,
    Progress, ReplyBuffer, Wait,
};
use volume::request::Durable;

pub(crate) trait Calls: Send + Sync {
    /// Executes a call and appends its reply, with its record mark; without a reply, appends nothing. `progress` is kept for
    /// a call that must be run again.
    fn handle(
        &self,
        incoming: &Incoming<'_>,
        progress: &mut Option<Progress>,
        reply: &mut ReplyBuffer,
    ) -> Outcome;
    /// Whether a call with this outcome may end where it stopped, by [`Calls::end`]: not while it waits for media. One that waits
    /// for room in a pool may not have been tried yet. It must be a COMPOUND: calls of other versions that wait for a pool have short
    /// replies.
    fn may_end(&self, _: &KeptRecord, progress: Option<&Progress>, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::WouldBlock => progress.is_some_and(Progress::gave_turn_up),
            Outcome::Later => progress.is_some(),
            outcome => matches!(outcome, Outcome::Busy(_)),
        }
    }
    /// Ends such a call. As [`Calls::handle`], but does none of what is left to do: the reply tells the client to repeat that.
    fn end(
        &self,
        incoming: &Incoming<'_>,
        progress: &mut Option<Progress>,
        reply: &mut ReplyBuffer,
    ) -> Outcome {
        progress.get_or_insert_default().end();
        self.handle(incoming, progress, reply)
    }
    /// Returns where to receive the payload of a record of which only the start has arrived; see
    /// [`nfs::service::Service::arriving`].
    fn arriving(&self, start: &[u8], length: usize) -> Option<ArrivingPayload>;
    /// Returns what a call needs before it is executed.
    fn needs<'r>(&self, record: &IncomingRecord<'r>) -> Needs<'r>;
    /// Returns the number of retry queues; see [`crate::admission::retry_queues`].
    fn queues(&self) -> usize;
    /// Returns the queue of a limit; none if its volume is not served.
    fn queue_of(&self, awaited: Awaited) -> Option<usize>;
    /// Returns the queue in which a call probably waits if a limit is reached; none if it keeps no order, or no export of the volume
    /// admits the client, so that it will be refused.
    fn expected_queue(&self, needs: &Needs<'_>, client: &Connection) -> Option<usize>;
    /// Returns what a call counts towards rate limits; none if it counts nothing.
    fn charge(&self, record: &IncomingRecord<'_>, connection: &Connection) -> Option<Charge>;
    /// Notes that a call has arrived, and is held: its client is alive.
    fn note_held(&self, record: &IncomingRecord<'_>, connection: Connection);
    /// Whether connections from this address are served.
    fn admits(&self, client: IpAddr) -> bool;
    /// Notes that a connection is closed.
    fn connection_closed(&self, connection: ConnectionId);
    /// Notes that the callback of this number could not be sent.
    fn callback_failed(&self, callback: u64);
    /// Has what executed calls changed become durable soon. A loop that is `idle`, with nothing else to do, may commit
    /// itself. Returns whether it did.
    fn commit(&self, idle: bool) -> bool;
    /// Whether a reply may be sent.
    fn durable(&self, wait: &Wait) -> Durable;
    /// Returns when replies may leave: not while another machine may have taken over ([`store::Claim`]).
    fn await_tenure(&self);
    /// Appends the reply, with its record mark, to a call whose effect was lost.
    fn failure_reply(&self, call: CallId, out: &mut Vec<u8>);
}
