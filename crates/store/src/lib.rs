//! The engine's media on a local directory.
//!
//! ```text
//! DATA/lock                          held by a server, or by a command that changes pools
//! DATA/claim                         which machine has the directory, if it belongs to a group
//! DATA/pools/NAME/format             format version, identity and shape of the pool; written once
//!                  /lock             the lease: an flock, and the process that holds it
//!                  /journal/NNNN     the log: a ring of files, written in full when the pool is created
//!                  /journal/owner    which pool this journal belongs to
//!                  /journal.location instead of journal/: the directory elsewhere that holds it
//!                  /index            the index file
//!                  /segments/ID      one file per segment, its number in 16 hexadecimal digits
//!                  /segments/free-N  the file of a deleted segment, kept for reuse while the process runs
//! DATA/pools/.new-NAME.ID            a pool under creation; an unfinished one is removed at the next start
//! DATA/pools/.deleted-NAME.ID        a pool under deletion; likewise
//! ```
//!
//! [`Directory`] is the data directory, [`LocalMedia`] one pool in it. This crate does not interpret the bytes it stores.

mod aligned;
mod around;
mod blob;
mod claim;
mod direct;
mod directory;
mod durable;
mod error;
mod format;
mod index;
mod lease;
mod log;
mod media;
#[cfg(test)]
mod scratch;
mod segment_file_pool;
mod slow;

pub use claim::{Claim, TERM as CLAIM_TERM, boot_time};
pub use directory::{
    Description, Directory, NewPool, ahead_bytes, check_new, check_pool, describe, list, list_or_none,
};
pub use durable::replace_file;
pub use error::{Error, ErrorKind};
pub use format::{FORMAT_VERSION, JOURNAL_BYTES_MAX, NAME_BYTES_MAX, check_name};
pub use log::LOG_FILE_BYTES;
pub use media::LocalMedia;
pub use slow::with_slow_syncs;
