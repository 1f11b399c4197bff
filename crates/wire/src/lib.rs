//! The codec of the protocols that Holdfast speaks: both directions, without I/O, clock or threads.
//!
//! | module | holds | specification |
//! |---|---|---|
//! | [`xdr`] | [`xdr::Decoder`], [`xdr::Encoder`] and the traits that every message implements | RFC 4506 |
//! | [`list`] | [`list::List`]: linked lists, iterated without allocation | RFC 4506 section 4.19 |
//! | [`array`] | [`array::Array`]: variable-length arrays, iterated without allocation | RFC 4506 section 4.13 |
//! | [`record`] | record marking on streams | RFC 5531 section 11 |
//! | [`rpc`] | call and reply headers, AUTH_NONE, AUTH_SYS | RFC 5531 |
//! | [`nfs3`] | the 22 procedures of NFS version 3 | RFC 1813 |
//! | [`nfs4`] | NFS versions 4.0, 4.1 and 4.2 and their callbacks | RFC 7531, RFC 5662, RFC 7863, RFC 8276 |
//! | [`nlm4`] | the Network Lock Manager, version 4 | XNFS version 3W chapter 10, RFC 1813 appendix II |
//! | [`nsm`] | the Network Status Monitor | XNFS version 3W chapter 11 |
//! | [`mount3`] | MOUNT version 3 | RFC 1813 appendix I |
//! | [`rquota`] | RQUOTA, versions 1 and 2 | `rquota.x` of Sun's RPC sources, and of Linux's quota tools |
//! | [`portmap`] | portmapper version 2, rpcbind versions 3 and 4 | RFC 1833 |
//! | [`limits`] | limits that documents or several modules use, with their reasons | |
//!
//! Decoding borrows: a payload or a name is a slice of its record, and decoding never allocates. Every length is compared
//! with its limit and with the remaining bytes before it is used. Encoding appends to the caller's buffer.
//!
//! This crate does not judge what it decodes. A name of 300 bytes or the handle of a missing file is valid here; the server
//! answers NAMETOOLONG or STALE.

#![deny(clippy::indexing_slicing)]

#[macro_use]
mod message;

pub mod array;
mod entries;
pub mod limits;
pub mod list;
pub mod mount3;
pub mod nfs3;
pub mod nfs4;
pub mod nlm4;
pub mod nsm;
mod payload;
pub mod portmap;
pub mod record;
pub mod rpc;
pub mod rquota;
#[cfg(test)]
mod sample;
pub mod xdr;
