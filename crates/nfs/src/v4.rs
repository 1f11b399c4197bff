//! NFS version 4 (RFC 7530, RFC 8881, RFC 7862, RFC 8276): one operation per file, named as the RFCs name it.
//!
//! There are two procedures. NULL is that of NFSv3; COMPOUND holds the operations, which `compound` evaluates in order.

use crate::dispatch::Operation;
use crate::v3::null;

mod access;
mod attributes;
pub(crate) mod callback;
mod commit;
pub(crate) mod compound;
mod context;
mod create;
mod getattr;
mod getfh;
mod held;
mod keep;
mod link;
mod lookup;
mod lookupp;
mod names;
mod nverify;
mod once;
mod operations;
pub(crate) mod pseudo;
mod putfh;
mod putrootfh;
mod read;
mod readdir;
mod readlink;
mod regular;
mod remove;
mod rename;
mod restorefh;
mod savefh;
mod secinfo;
mod secinfo_no_name;
mod setattr;
#[allow(dead_code, reason = "its operations follow")]
pub(crate) mod state;
mod verify;
mod write;

/// The procedures in the order of their numbers (RFC 7530 section 16).
pub(crate) static OPERATIONS: [Operation; 2] =
    [null::OPERATION, Operation { run: compound::run, failed: Some(compound::failed), changes: false }];
