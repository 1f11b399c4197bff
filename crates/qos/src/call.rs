//! Calls that limiters judge, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use crate::cost::Cost;
use crate::limiter::Limiter;
use crate::limits::Dimension;

/// Limiters that apply to one call: those of its target, its pool, its volume and its client.
pub const LIMITERS_MAX: usize = 4;

/// Names a client, between which limiters share their rates evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u128);

/// Names an event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoopId(pub u16);

/// Names a call that waits. No two calls that wait at the same time have the same token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    /// The loop that has the call.
    pub event_loop: LoopId,
    /// The call, as its loop names it.
    pub call: u64,
}

/// A call that limiters judge.
#[derive(Clone, Copy, Debug)]
pub struct Call<'l> {
    /// The limiters that apply: at most [`LIMITERS_MAX`], in an order that is the same for all calls of the client.
    pub limiters: &'l [Arc<Limiter>],
    /// Its client.
    pub client: ClientId,
    /// Its cost.
    pub cost: Cost,
    /// Its name, should it have to wait.
    pub token: Token,
}

/// What is to be done with a call.
#[must_use = "a call that is not admitted must not be executed"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was charged. Execute it.
    Admitted,
    /// It waits. Keep it until [`Scheduler::release`](crate::Scheduler::release) returns its token.
    Held,
    /// Too much of this client waits. Read no more from the connection, and try the call again when [`Scheduler::release`](crate::Scheduler::release)
    /// returns [`Released::Room`].
    Full,
}

/// What a loop has to do after a release. It may be another loop than the one that called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// A call was charged. Execute it.
    Call {
        /// The name of the call.
        token: Token,
        /// For how long it waited.
        waited: Duration,
    },
    /// Calls that were [`Verdict::Full`] may be tried again.
    Room {
        /// The loop that was refused.
        event_loop: LoopId,
        /// The client whose calls were refused.
        client: ClientId,
    },
}

/// Counters of a limiter, by the index of [`Dimension::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// For how long at least one call waited for the dimension, since the limiter was made.
    pub throttled: [Duration; Dimension::COUNT],
    /// Calls that wait for the dimension now.
    pub held: [u64; Dimension::COUNT],
}
