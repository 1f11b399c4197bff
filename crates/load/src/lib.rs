//! A load generator for any server of NFSv3, NFSv4.1 or NFSv4.2, and the reports of its results.
//!
//! It speaks the protocol itself, so it needs no mount and no root, and has no client cache to defeat. A few threads
//! of the operating system run up to thousands of *virtual threads*, each of which behaves like one thread of a
//! benchmark program: it has a number of operations in flight, and begins the next one when one is answered.
//!
//! | module | holds |
//! |---|---|
//! | [`workload`] | what virtual threads do |
//! | [`client`] | the client of NFSv3 with MOUNT, and of NFSv4 |
//! | [`run`] | event loops, stages, warm-up, common start and end |
//! | [`steady`] | when a rate counts as steady |
//! | `verify` | self-describing blocks |
//! | [`server_cost`] | the processor time of local servers |
//! | [`limits`] | the most that the machine can do: NULL calls, TCP, a directory |
//! | [`result`] | results as data and as JSON |
//! | [`report`] | results as a table and as a page |
//! | [`published`] | figures that others published |
//! | [`leftovers`] | files of measurements that were killed |
//! | [`hosts`], [`compare`], [`suite`] | several client hosts; two servers in turn; the published tests |
//!
//! Nothing here connects to an address that the user did not give.

pub mod client;
pub mod compare;
pub mod error;
mod host;
pub mod hosts;
pub mod leftovers;
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
mod text;
mod verify;
pub mod workload;

pub use host::{has_address, memory_bytes};
pub use random::fresh_seed;
