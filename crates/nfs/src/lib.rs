//! Sans-I/O servers of NFS versions 3 (RFC 1813), 4.0, 4.1 and 4.2 (RFC 7530, 8881, 7862), of their companions MOUNT, NLM
//! NSM and RQUOTA, and a minimal portmapper (RFC 1833).
//!
//! The bytes of a call and a clock reading go in, operations run on a [`volume::volume::Volume`], the bytes of the reply
//! come out. [`service::Service::handle`] is the only entrance.
//!
//! | module | holds |
//! |---|---|
//! | [`service`] | [`service::Service`], the entrance: executes a call and says what its reply waits for ([`service::Outcome`]) |
//! | [`datagrams`] | calls that come as datagrams: what may be asked and answered so |
//! | `dispatch` | the table from program, version and procedure to an operation |
//! | `v3` | the 22 procedures of NFSv3, one file each, named as the RFC names them |
//! | `v4` | COMPOUND and its operations, one file each |
//! | `mount`, `portmap` | MOUNT; portmapper and rpcbind, which name this very port |
//! | `rquota` | quotas, as the quota tools of clients ask for them |
//! | `nlm`, `nsm` | locks and status monitor for NFSv3, on the state of NFSv4 |
//! | `rpc_cache` | executes non-idempotent calls once |
//! | `recall` | recalls delegations before operations of any version |
//! | `call` | a call: arguments, caller, and the object of a handle under the rules of its export |
//! | `context` | what calls borrow: exports, volumes, state |
//! | `state` | what clients hold: sessions, opens, locks, delegations |
//! | [`admission`] | what a call needs, known before it is executed |
//! | [`charge`] | what a call counts towards rate limits |
//! | [`incoming`] | records that arrive, their headers decoded once |
//! | [`exports`] | which clients reach which volume, with what rights; the pseudo file system |
//! | `credentials` | AUTH_SYS credentials after squashing |
//! | `attributes`, `status` | the engine's attributes and errors as those of NFSv3, and back |
//! | [`summary`] | what a call did, for metrics |
//! | [`link_local`] | link-local addresses: a peer that has one is named by address and link |
//! | [`limits`] | limits that documents or several modules use, with their reasons |
//!
//! What is deliberately absent: sockets, threads and clocks. State of clients is in `state`; a client of NFSv3 has none
//! but its locks and the list of mounts, which only informs. The caller of this crate parks a reply until what it shows
//! is durable.

#![deny(clippy::indexing_slicing)]

pub mod admission;
mod attributes;
mod call;
pub mod charge;
mod clocks;
mod connection;
mod context;
mod credentials;
pub mod datagrams;
mod dispatch;
pub mod exports;
pub mod incoming;
pub mod limits;
pub mod link_local;
mod mount;
mod nlm;
mod nsm;
mod portmap;
mod progress;
mod recall;
mod rpc_cache;
mod rquota;
pub mod service;
mod state;
mod status;
pub mod summary;
mod v3;
mod v4;
