//! The operations that protocols call. A file is named after its operation in RFC 1813, RFC 7862 or RFC 8276; operations
//! that share most of their code share a file: `create` also makes directories, symbolic links and nodes, `remove`
//! removes directories, `deallocate` has ALLOCATE, and `xattr` all of extended attributes.
//!
//! Each finds what it needs, decides, journals and answers, under the locks of the inodes that it touches.
//! [`crate::transaction::attempt`] explains what happens when something is not in memory.

mod access;
mod clone;
mod commit;
mod create;
mod deallocate;
mod fsstat;
mod getattr;
mod link;
mod lookup;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod seek;
mod setattr;
pub mod state;
mod write;
mod xattr;

use crate::api::attributes::{FileType, SetTime};
use crate::api::request::Error;
use crate::api::time::Time;
use crate::encoding::record::InodeRecord;

/// Returns the time to set.
fn chosen(set: SetTime, current: Time, stamp: Time) -> Time {
    match set {
        SetTime::Keep => current,
        SetTime::Now => stamp,
        SetTime::To(time) => time,
    }
}

/// Checks that an object is a directory.
fn check_directory(record: &InodeRecord) -> Result<(), Error> {
    if record.file_type == FileType::Directory { Ok(()) } else { Err(Error::NotDirectory) }
}

/// Checks that an object is a regular file.
fn check_regular(record: &InodeRecord) -> Result<(), Error> {
    match record.file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}

/// Whether a name is `.` or `..`, which no operation may create, remove or move.
fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}
