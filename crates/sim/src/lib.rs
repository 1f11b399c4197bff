//! Deterministic simulation of Holdfast: media that lose and lie, a reference model, virtual clients, crashes everywhere.
//!
//! | module | holds |
//! |---|---|
//! | [`random`] | randomness that replays from a seed |
//! | [`media`] | the engine's media in memory, with faults; the fault model |
//! | [`call`] | what clients ask and are told |
//! | [`model`] | the reference volume that judges every reply, and what a crash may take back |
//! | [`workload`] | random operations |
//! | [`target`] | how a client reaches a volume: straight |
//! | [`client`] | the same by the bytes of RPC calls, through the NFS service |
//! | [`run`] | engine and model in lockstep |
//! | [`walk`] | reading everything that a volume holds |
//! | [`model_test`] | long sequences without crashes; failures shrink |
//! | [`crash`] | crashes at every boundary, reopening, judging, going on |
//! | [`faults`] | media that fail and rot |
//! | [`full`] | a device that fills up, and is emptied again |
//! | [`v4`] | many clients of NFSv4 on a network that loses and repeats, with a server that is crashed |
//! | [`planted`] | promises broken on purpose, to see that it is noticed |
//! | [`shrink`] | makes a failing list of events small |
//!
//! A seed fixes everything: the simulation has one thread and no clock.

pub mod call;
pub mod client;
pub mod crash;
pub mod faults;
pub mod full;
pub mod media;
pub mod model;
pub mod model_test;
pub mod planted;
pub mod random;
pub mod run;
pub mod shrink;
pub mod target;
pub mod v4;
pub mod walk;
pub mod workload;
