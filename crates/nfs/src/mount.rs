//! MOUNT version 3 (RFC 1813 appendix I): one procedure per file.
//!
//! Clients need only MNT, which turns a path into a handle. The list of mounts informs administrators; nothing depends on
//! it.

use crate::call::Operation;
use crate::v3::null;

mod dump;
mod export;
mod mnt;
mod umnt;
mod umntall;

/// The procedures in the order of their numbers ([`wire::mount3::Procedure`]).
pub(crate) static OPERATIONS: [Operation; 6] = [
    null::OPERATION,
    Operation { run: mnt::run, failed: Some(mnt::failed), changes: false },
    Operation { run: dump::run, failed: None, changes: false },
    Operation { run: umnt::run, failed: None, changes: false },
    Operation { run: umntall::run, failed: None, changes: false },
    Operation { run: export::run, failed: None, changes: false },
];
