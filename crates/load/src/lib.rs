//! A load generator that anyone can point at any NFSv3 server, and the reports of what it measured.
//!
//! It speaks the protocol itself, so it needs no mount and no root and has no client cache to defeat. A few
//! operating-system threads run up to thousands of *virtual threads*, each of which behaves as one thread of a
//! benchmark program does: it has a number of operations in flight, and begins the next one when one is answered.
//!
//! | module | holds |
//! |---|---|
//! | [`workload`] | what a virtual thread does |
//! | [`client`] | the NFSv3 and MOUNT client |
//! | [`run`] | threads, stages, warm-up, common start and end |
//! | [`steady`] | when a rate counts as steady |
//! | `verify` | blocks that tell where they belong |
//! | [`server_cost`] | the processor time of local servers |
//! | [`limits`] | what the machine could do at best: NULL calls, TCP, a directory |
//! | [`result`] | what was measured, as data and as JSON |
//! | [`report`] | the same as a table and as a page |
//! | [`published`] | what others published about their systems |
//! | [`hosts`], [`compare`], [`suite`] | several client hosts; two servers in turn; the published tests |
//!
//! What is deliberately absent: an address that nobody gave. Nothing here connects to anything but the server (and
//! the hosts) it was told.

pub mod client;
pub mod compare;
pub mod error;
mod host;
pub mod hosts;
pub mod limits;
pub mod published;
mod random;
pub mod report;
pub mod result;
pub mod run;
pub mod server_cost;
pub mod steady;
pub mod suite;
mod tcp_rate;
mod verify;
pub mod workload;

pub use host::has_address;
pub use random::fresh_seed;
