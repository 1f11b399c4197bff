//! NFS version 4 (RFC 7530, RFC 8881, RFC 7862, RFC 8276): one operation per file, named as the RFCs name it.
//!
//! There are two procedures. NULL is that of NFSv3; COMPOUND holds the operations, which `compound` evaluates in order.

use crate::dispatch::Operation;
use crate::v3::null;

mod access;
mod allocate;
mod attributes;
mod backchannel_ctl;
mod bind_conn_to_session;
pub(crate) mod callback;
mod clone;
mod close;
mod commit;
pub(crate) mod compound;
mod context;
mod copy;
mod create;
mod create_session;
mod deallocate;
mod delegpurge;
mod delegreturn;
mod destroy_clientid;
mod destroy_session;
mod exchange_id;
mod free_stateid;
mod getattr;
mod getfh;
mod getxattr;
pub(crate) mod held;
mod io_advise;
mod keep;
mod link;
mod listxattrs;
mod lock;
mod lockt;
mod locku;
mod lookup;
mod lookupp;
mod names;
mod nverify;
mod offload;
mod offload_cancel;
mod offload_status;
mod once;
mod open;
mod open_confirm;
mod open_downgrade;
mod operations;
pub(crate) mod pseudo;
mod putfh;
mod putrootfh;
mod read;
mod read_plus;
mod readdir;
mod readlink;
mod reclaim_complete;
mod regular;
mod release_lockowner;
mod remove;
mod removexattr;
mod rename;
mod renew;
mod restorefh;
mod savefh;
mod secinfo;
mod secinfo_no_name;
mod seek;
mod sequence;
mod setattr;
mod setclientid;
mod setclientid_confirm;
mod setxattr;
pub(crate) mod state;
mod test_stateid;
mod verify;
mod write;

/// The procedures in the order of their numbers (RFC 7530 section 16).
pub(crate) static OPERATIONS: [Operation; 2] =
    [null::OPERATION, Operation { run: compound::run, failed: Some(compound::failed), changes: false }];
