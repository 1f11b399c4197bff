//! Sockets, event loops, exports, configuration and the threads that drive volumes.
//!
//! | module | holds |
//! |---|---|
//! | [`server`] | starts and stops a server |
//! | [`admin`], `counters` | what an operator sees |
//! | `net` | sockets, event loops, workers, calls to clients |
//! | `admission` | who is served next, and how much memory connections may hold |
//! | `background` | threads that run the background work of volumes |
//! | `protocol` | the NFS service, its clock and its commits |
//! | [`volumes`], `exports` | opens volumes, resolves exports |
//! | [`config`] | the configuration file and the shares of memory |
//! | [`limits`] | limits that documents or several modules use, with their reasons |
//!
//! It knows nothing of the protocols beyond their records, and nothing of what volumes store.

pub mod admin;
mod admission;
mod background;
pub mod clock;
pub mod config;
mod counters;
pub mod error;
mod exports;
pub mod limits;
mod net;
mod protocol;
pub mod server;
mod signal;
pub mod volumes;
