//! The state machine of a virtual thread: it chooses the next call and interprets replies.

use crate::client::cause::Cause;
use crate::client::outbox::Outbox;
use crate::client::reply::Reply;

/// A virtual thread. It has one lane per operation in flight; a stage begins on all lanes.
pub(crate) trait Actor: Send {
    /// Enters a stage. No operation is in flight.
    fn enter(&mut self, stage: usize);

    /// Begins the next operation on a free lane: sends its first calls.
    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun;

    /// Sends the call that a part of the lane's operation waits for: again, or because it could not be sent before.
    fn send(&mut self, lane: usize, part: u32, out: &mut Outbox<'_>);

    /// Handles a reply to a call of the lane's operation. May send more calls; the operation ends when none is in
    /// flight. Returns the bytes of file data that the call moved.
    fn reply(&mut self, lane: usize, part: u32, reply: Reply<'_>, out: &mut Outbox<'_>)
    -> Result<u64, Cause>;

    /// Ends the operation. Returns how it counts if it succeeded.
    fn ended(&mut self, lane: usize, succeeded: bool) -> OperationCount;
}

/// The outcome of [`Actor::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// An operation began.
    Started,
    /// Another operation of this thread has to end first.
    Wait,
    /// The stage has no more operations.
    Exhausted,
}

/// How an operation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationCount {
    /// The number of operations; 0 for auxiliary work such as a COMMIT after a pass.
    pub(crate) operations: u64,
    /// The phase that the operation belongs to.
    pub(crate) phase: Option<u8>,
}

impl OperationCount {
    /// One operation of a workload without phases.
    pub(crate) const ONE: Self = Self { operations: 1, phase: None };
}
