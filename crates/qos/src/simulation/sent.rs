//! Connections of clients, and the calls that they have sent.

use std::sync::Arc;

use crate::call::{Call, ClientId, LoopId, Token};
use crate::cost::{Class, Cost};
use crate::limiter::{Limiter, LimiterId};
use crate::time::Time;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: usize,
    pub(super) event_loop: LoopId,
    /// Those that calls pass at each stage.
    pub(super) limiters: Vec<Vec<Arc<Limiter>>>,
    /// What a call costs that was refused.
    pub(super) stalled: Option<Vec<Cost>>,
    /// Calls of its connection that have not been read.
    pub(super) unread: usize,
}

/// The calls that wait in one line: those of a client and class that the same limiters judge.
pub(super) type Kind = (usize, Class, Vec<LimiterId>);

impl Connection {
    /// Returns with which calls one of this cost waits at a stage.
    pub(super) fn kind(&self, cost: Cost, stage: usize) -> Kind {
        (self.client, cost.class, self.limiters[stage].iter().map(|limiter| limiter.id()).collect())
    }

    /// Returns a call as the limiters of a stage see it.
    pub(super) fn call(&self, call: u64, stage: usize, cost: Cost) -> Call<'_> {
        let token = Token { event_loop: self.event_loop, call };
        Call { limiters: &self.limiters[stage], client: id(self.client), cost, token }
    }
}

/// A call that was sent and has no reply.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) connection: usize,
    /// What it costs at each stage.
    pub(super) costs: Vec<Cost>,
    /// When it passed each stage so far.
    pub(super) passed: Vec<Time>,
    pub(super) is_held: bool,
}

impl Sent {
    /// Returns the stage that it has to pass next.
    pub(super) fn stage(&self) -> usize {
        self.passed.len()
    }
}

pub(super) fn id(client: usize) -> ClientId {
    ClientId(u128::try_from(client).expect("few clients"))
}
