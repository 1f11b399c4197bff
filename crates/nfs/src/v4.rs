//! NFS version 4 (RFC 7530, RFC 8881, RFC 7862, RFC 8276): COMPOUND and its operations.
//!
//! There are two procedures: NULL, which is that of NFSv3, and COMPOUND, whose operations `compound` evaluates in
//! order.

use crate::call::Operation;
use crate::v3::null;

mod attributes;
pub(crate) mod compound;
mod context;
mod copies;
mod names;
mod once;
mod operations;
mod ops;
mod parts;
mod regular;
pub(crate) mod state;
mod status;
mod turns;
mod waits;

/// The procedures by number (RFC 7530 section 16).
pub(crate) static OPERATIONS: [Operation; 2] =
    [null::OPERATION, Operation { run: compound::run, failed: Some(compound::failed), changes: false }];
