//! Sockets, event loops, exports, configuration and the threads that drive volumes.
//!
//! | module | holds |
//! |---|---|
//! | [`server`] | a server from start to end |
//! | `loops`, `event_loop` | the thread that serves connections; one per core |
//! | `connection`, `acceptor`, `listener` | sockets |
//! | `calls`, `protocol` | what loops serve: a small seam, and the NFS service behind it |
//! | `parked`, `workers`, `mailbox` | replies that wait, calls that wait for the disk, and how loops hear of both |
//! | `callbacks`, `outbound` | calls that the server makes to clients |
//! | `driver` | the threads that drive a volume's background work |
//! | `commits` | whether the commit step is the driver's or the event loop's |
//! | [`config`], [`size`], [`memory`], `exports` | what an operator says |
//! | [`admin`], `status`, `counters` | what an operator sees |
//! | `rpcbind` | registration with the system's rpcbind |
//! | [`limits`] | every limit, with its reason |
//!
//! What is absent: any knowledge of the protocol beyond its records, and of what volumes store.

mod acceptor;
pub mod admin;
mod budget;
mod buffers;
mod callbacks;
mod calls;
pub mod clock;
mod commits;
pub mod config;
mod connection;
mod copies;
mod counters;
mod driver;
pub mod error;
mod event_loop;
mod exports;
pub mod limits;
mod lines;
mod listener;
mod loops;
mod mailbox;
pub mod memory;
mod outbound;
mod output;
mod parked;
mod protocol;
mod ready;
mod rpcbind;
pub mod server;
mod signal;
pub mod size;
mod status;
pub mod volumes;
mod workers;
