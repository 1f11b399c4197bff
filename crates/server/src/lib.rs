//! Sockets, event loops, exports, configuration and the threads that drive volumes.
//!
//! | module | holds |
//! |---|---|
//! | [`server`] | starts and stops a server |
//! | [`admin`], [`metrics`], [`events`], `counters` | what an operator sees |
//! | [`http`] | HTTP for administrators |
//! | `net` | sockets, event loops, workers, calls to clients |
//! | `admission` | who is served next, and how much memory connections may hold |
//! | `background` | threads that run the background work of volumes |
//! | [`reload`] | changes exports and volumes while they are served |
//! | `protocol` | the NFS service, its clock and its commits |
//! | [`volumes`], [`pools`], `exports` | makes, opens, changes and deletes pools and volumes; resolves exports |
//! | [`data`] | where pools are: a directory, or a namespace of a Ceph cluster |
//! | [`group`] | what a server is given that serves volumes for the agent of a machine |
//! | [`rates`] | rate limits: what is set, and which calls may pass |
//! | [`config`] | the configuration file and the shares of memory |
//! | [`names`] | names in sentences, few of however many there are |
//! | [`limits`] | limits that documents or several modules use, with their reasons |
//!
//! It leaves the protocols to `nfs`, except for its own calls to rpcbind, and knows nothing of what volumes store.

pub mod admin;
mod admission;
mod background;
pub mod clock;
pub mod config;
mod connection_origin;
mod counters;
pub mod data;
pub mod error;
pub mod events;
mod exports;
pub mod group;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod names;
mod net;
pub mod pools;
mod priority;
mod protocol;
pub mod rates;
pub mod reload;
pub mod server;
mod signal;
pub mod volumes;
