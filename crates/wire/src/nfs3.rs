//! NFS version 3 (RFC 1813): the arguments and results of its 22 procedures.
//!
//! Types have the names of the RFC in the casing of Rust; each group of procedures has a file. The result of a procedure is
//! a [`Res3`]: `Ok` with the resok body, or [`Failed`] with the status and the resfail body. [`ReadEncoder`] and
//! [`ReaddirEncoder`] build results of READ, READDIR and READDIRPLUS in place.
//!
//! Fields are on the wire in the order of their declaration.

mod attributes;
mod create;
mod data;
mod fs;
mod lookup;
mod readdir;
mod remove;
#[cfg(test)]
mod tests;
mod types;

pub use attributes::*;
pub use create::*;
pub use data::*;
pub use fs::*;
pub use lookup::*;
pub use readdir::*;
pub use remove::*;
pub use types::*;

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The program number.
pub const PROGRAM: u32 = 100_003;
/// The version number.
pub const VERSION: u32 = 3;

xdr! {
    /// The procedures (RFC 1813 section 3). NULL has no arguments and no results.
    pub enum Procedure {
        /// Do nothing.
        Null = 0 "NULL",
        /// Get file attributes.
        Getattr = 1 "GETATTR",
        /// Set file attributes.
        Setattr = 2 "SETATTR",
        /// Look up a name.
        Lookup = 3 "LOOKUP",
        /// Check access permission.
        Access = 4 "ACCESS",
        /// Read from a symbolic link.
        Readlink = 5 "READLINK",
        /// Read from a file.
        Read = 6 "READ",
        /// Write to a file.
        Write = 7 "WRITE",
        /// Create a file.
        Create = 8 "CREATE",
        /// Create a directory.
        Mkdir = 9 "MKDIR",
        /// Create a symbolic link.
        Symlink = 10 "SYMLINK",
        /// Create a special device.
        Mknod = 11 "MKNOD",
        /// Remove a file.
        Remove = 12 "REMOVE",
        /// Remove a directory.
        Rmdir = 13 "RMDIR",
        /// Rename a file or directory.
        Rename = 14 "RENAME",
        /// Create a link to an object.
        Link = 15 "LINK",
        /// Read from a directory.
        Readdir = 16 "READDIR",
        /// Extended read from a directory.
        Readdirplus = 17 "READDIRPLUS",
        /// Get dynamic file system information.
        Fsstat = 18 "FSSTAT",
        /// Get static file system information.
        Fsinfo = 19 "FSINFO",
        /// Retrieve POSIX information.
        Pathconf = 20 "PATHCONF",
        /// Commit cached data on a server to stable storage.
        Commit = 21 "COMMIT",
    }
}

/// The result of a procedure: its resok body, or a failure.
pub type Res3<O, F> = Result<O, Failed<F>>;

/// A failure of a procedure: its status and its resfail body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed<F> {
    /// The status; encoding [`NfsStat3::Ok`] panics.
    pub status: NfsStat3,
    /// The resfail body; `()` if the procedure has none.
    pub body: F,
}

impl<O: Encode, F: Encode> Encode for Res3<O, F> {
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Ok(body) => {
                NfsStat3::Ok.encode(out);
                body.encode(out);
            }
            Err(failed) => failed.encode(out),
        }
    }
}

impl<F: Encode> Encode for Failed<F> {
    fn encode(&self, out: &mut Encoder<'_>) {
        assert_ne!(self.status, NfsStat3::Ok, "a failure has a status that says so");
        self.status.encode(out);
        self.body.encode(out);
    }
}

impl<'a, O: Decode<'a>, F: Decode<'a>> Decode<'a> for Res3<O, F> {
    #[inline]
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match NfsStat3::decode(input)? {
            NfsStat3::Ok => O::decode(input).map(Ok),
            status => Ok(Err(Failed { status, body: F::decode(input)? })),
        }
    }
}
