//! CreateHow virtual clients reach a volume: by the engine's operations in [`direct`], by bytes of RPC calls in [`rpc`].

mod direct;
mod rpc;

use std::sync::Arc;

use volume::Volume;
use volume::request::{Access, Durability};
use volume::state::StateChange;

use crate::call::{CallResult, Operation, Wcc};

pub use direct::DirectTransport;
pub use rpc::RpcTransport;

/// An operation with the numbers that its names stand for.
#[derive(Clone, Debug)]
pub struct ResolvedCall {
    /// The operation.
    pub operation: Operation,
    /// Its first object.
    pub object: u64,
    /// Its second object: where a name goes to.
    pub other: u64,
    /// The ctime that guards a SETATTR.
    pub guard: Option<i64>,
    /// Where a READDIR begins.
    pub cookie: u64,
}

/// Whether an answer is one that was given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// It is.
    Yes,
    /// The call was executed.
    No,
    /// Nobody tells: a client cannot see it.
    Unknown,
}

/// An answer; it leaves when `after` is durable.
#[derive(Clone, Debug)]
pub struct Reply {
    /// What it tells.
    pub outcome: CallResult,
    /// Attributes that a failure shows besides.
    pub failure_attributes: Vec<Wcc>,
    /// Changes of protocol state that are journaled with its effect.
    pub state: Vec<StateChange>,
    /// What it waits for.
    pub after: Durability,
    /// Whether it was given before.
    pub replayed: Replayed,
}

/// What became of a call.
#[derive(Clone, Debug)]
pub enum CallStatus {
    /// It was answered.
    Done(Box<Reply>),
    /// Media must be read.
    WouldBlock,
    /// A limit is reached.
    Busy,
    /// No server may answer so.
    Wrong(String),
}

/// A way to reach a volume.
pub trait Transport {
    /// Makes a call.
    fn attempt(&mut self, volume: &Arc<Volume>, call: &ResolvedCall, now: i64, access: Access) -> CallStatus;

    /// Gives up what it holds of volumes, as when their process ends.
    fn disconnect(&mut self);

    /// The same clients for another copy of the volume.
    fn fork(&self) -> Box<dyn Transport>;
}

/// CreateHow the clients of this seed reach their volume: by bytes if it is odd, op if it is even.
#[must_use]
pub fn transport_of(seed: u64) -> Box<dyn Transport> {
    if seed % 2 == 1 { Box::new(RpcTransport::default()) } else { Box::new(DirectTransport::default()) }
}
