//! How virtual clients reach a volume: through the engine's operations ([`direct`]) or as RPC calls ([`rpc`]).

mod direct;
mod rpc;

use std::sync::Arc;

use volume::Volume;
use volume::request::{Access, Durability};
use volume::state::StateChange;

use crate::call::{CallResult, Operation, Wcc};

pub use direct::DirectTransport;
pub use rpc::RpcTransport;

/// An operation whose objects are resolved to inode numbers.
#[derive(Clone, Debug)]
pub struct ResolvedCall {
    /// The operation, with its arguments that are not objects.
    pub operation: Operation,
    /// The inode number of the file or directory that the operation names first.
    pub object: u64,
    /// The inode number of the second object: the target directory of a name.
    pub other: u64,
    /// The ctime that guards a SETATTR.
    pub guard: Option<i64>,
    /// The cookie that a READDIR starts after.
    pub cookie: u64,
}

/// Whether an answer is the remembered one of an earlier transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The answer is remembered: the call was not executed again.
    Yes,
    /// The call was executed.
    No,
    /// Unknown: clients cannot see it.
    Unknown,
}

/// A reply; it may leave once `after` is durable.
#[derive(Clone, Debug)]
pub struct Reply {
    /// What the client sees: a status, and the results of a success.
    pub outcome: CallResult,
    /// The attributes that a failure shows.
    pub failure_attributes: Vec<Wcc>,
    /// The changes of protocol state that are journaled with the effect.
    pub state: Vec<StateChange>,
    /// What the reply waits for.
    pub after: Durability,
    /// Whether it is a remembered answer.
    pub replayed: Replayed,
}

/// The state of a call after one attempt.
#[derive(Clone, Debug)]
pub enum CallStatus {
    /// It was answered.
    Done(Box<Reply>),
    /// It needs media.
    WouldBlock,
    /// A limit is reached; try again later.
    Busy,
    /// The answer is invalid under any circumstances.
    Wrong(String),
}

/// A way to reach a volume.
pub trait Transport {
    /// Attempts a call.
    fn attempt(&mut self, volume: &Arc<Volume>, call: &ResolvedCall, now: i64, access: Access) -> CallStatus;

    /// Drops every reference to volumes, as a process does when it ends.
    fn disconnect(&mut self);

    /// Returns the same clients for a copy of the volume.
    fn fork(&self) -> Box<dyn Transport>;
}

/// Returns the transport of this seed: RPC if it is odd, engine calls if it is even.
#[must_use]
pub fn transport_of(seed: u64) -> Box<dyn Transport> {
    if seed % 2 == 1 { Box::new(RpcTransport::default()) } else { Box::new(DirectTransport::default()) }
}
