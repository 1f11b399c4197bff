//! Deterministic simulation of Holdfast: faulty media, a reference model, virtual clients, and crashes at every boundary.
//!
//! | module | holds |
//! |---|---|
//! | [`proofs`] | runs that must find nothing wrong, and planted faults that they must find |
//! | [`nfs4`] | many NFSv4 clients on a network that loses and repeats messages, and a server that crashes |
//! | [`failover`] | nodes that take over a group from each other, over one store of objects |
//! | [`run`] | engine and model in lockstep |
//! | [`transport`] | how clients reach a volume: engine calls, or NFSv3 over RPC |
//! | [`engine`] | creates, opens and reads volumes |
//! | [`workload`] | random operations |
//! | [`model`] | the reference volume: judges every reply, and what a crash may take back |
//! | [`call`] | calls and replies, apart from their encoding |
//! | [`compound`] | COMPOUNDs, and how NFSv4 clients start |
//! | [`rpc`] | RPC records and the NFS service |
//! | [`media`] | the engine's media in memory, with faults; the fault model |
//! | [`random`] | random numbers that replay from a seed |
//!
//! A seed fixes everything: the simulation has no clock, and one thread at a time. A background step that halts at a sync while
//! other events go on has a thread of its own, see [`media::Halted`].

pub mod call;
pub mod compound;
pub mod engine;
pub mod failover;
pub mod media;
pub mod model;
pub mod nfs4;
pub mod proofs;
pub mod random;
pub mod rpc;
pub mod run;
pub mod transport;
pub mod workload;
