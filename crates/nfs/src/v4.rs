//! NFS version 4 (RFC 7530, RFC 8881, RFC 7862, RFC 8276): one operation per file, named as the RFCs name it.
//!
//! There are two procedures. NULL is that of NFSv3; COMPOUND holds the operations, which `compound` evaluates in order.

use crate::dispatch::Operation;
use crate::v3::null;

pub(crate) mod callback;
pub(crate) mod compound;
mod keep;
#[allow(dead_code, reason = "its operations follow")]
pub(crate) mod state;

/// The procedures in the order of their numbers (RFC 7530 section 16).
pub(crate) static OPERATIONS: [Operation; 2] =
    [null::OPERATION, Operation { run: compound::run, failed: Some(compound::failed), changes: false }];
