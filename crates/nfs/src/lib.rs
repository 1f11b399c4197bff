//! Sans-I/O servers of NFS version 3 and MOUNT version 3 (RFC 1813), and a minimal portmapper (RFC 1833).
//!
//! The bytes of a call and a clock reading go in, operations run on a [`volume::volume::Volume`], the bytes of the reply
//! come out. [`service::Service::handle`] is the only entrance.
//!
//! | module | holds |
//! |---|---|
//! | [`service`] | [`service::Service`]: exports and volumes, and what becomes of a call ([`service::Outcome`]) |
//! | `dispatch` | the table from program, version and procedure to an operation |
//! | [`admission`] | what a call may need, told before it is executed |
//! | `call` | what an operation is told: arguments, caller, and the object of a handle under the rules of its export |
//! | [`exports`] | which volume is reached by whom, and with what rights |
//! | `credentials` | in whose name the engine is asked: AUTH_SYS after squashing |
//! | `attributes` | the engine's attributes and times in the words of NFSv3, and back |
//! | `status` | the engine's errors in the words of NFSv3 and MOUNT |
//! | `rpc_cache` | retransmitted calls get the first answer again |
//! | `recall` | delegations of NFSv4 clients are recalled by operations of any version |
//! | `v3` | the 22 procedures of NFSv3, one file each, named as the RFC names them |
//! | `mount` | the procedures of MOUNT |
//! | `nlm`, `nsm` | locks of NFSv3, on the state of NFSv4; who restarted |
//! | `portmap` | portmapper and rpcbind, which name this very port |
//! | [`limits`] | every limit, with its reason |
//!
//! What is deliberately absent: sockets, threads, clocks, and any state of a client but the list of mounts, which only
//! informs. Whoever drives this crate parks a reply until what it shows is durable.

#![deny(clippy::indexing_slicing)]

pub mod admission;
mod attributes;
mod call;
mod credentials;
mod dispatch;
pub mod exports;
pub mod limits;
mod mount;
mod nlm;
mod nsm;
mod portmap;
mod recall;
mod rpc_cache;
pub mod service;
mod state;
mod status;
mod v3;
mod v4;
