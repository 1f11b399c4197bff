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

pub use attributes::{
    Fattr3, GetattrArgs, GetattrOk, GetattrRes, PostOpAttr, PreOpAttr, Sattr3, SattrGuard3, SetTime,
    SetattrArgs, SetattrFail, SetattrOk, SetattrRes, WccAttr, WccData,
};
pub use create::{
    CreateArgs, CreateFail, CreateHow3, CreateOk, CreateRes, CreateVerf3, DeviceData3, MkdirArgs, MkdirRes,
    MknodArgs, MknodData3, MknodRes, SymlinkArgs, SymlinkData3, SymlinkRes,
};
pub use data::{
    CommitArgs, CommitFail, CommitOk, CommitRes, ReadArgs, ReadEncoder, ReadFail, ReadOk, ReadRes, StableHow,
    WriteArgs, WriteFail, WriteOk, WriteRes, WriteVerf3,
};
pub use fs::{
    FsinfoArgs, FsinfoFail, FsinfoOk, FsinfoRes, FsstatArgs, FsstatFail, FsstatOk, FsstatRes, PathconfArgs,
    PathconfFail, PathconfOk, PathconfRes, properties,
};
pub use lookup::{
    AccessArgs, AccessFail, AccessOk, AccessRes, LookupArgs, LookupFail, LookupOk, LookupRes, ReadlinkArgs,
    ReadlinkFail, ReadlinkOk, ReadlinkRes, access,
};
pub use readdir::{
    CookieVerf3, Entry3, EntryPlus3, ReaddirArgs, ReaddirEncoder, ReaddirFail, ReaddirOk, ReaddirRes,
    ReaddirplusArgs, ReaddirplusOk, ReaddirplusRes,
};
pub use remove::{
    LinkArgs, LinkFail, LinkOk, LinkRes, RemoveArgs, RemoveFail, RemoveOk, RemoveRes, RenameArgs, RenameFail,
    RenameOk, RenameRes, RmdirArgs, RmdirRes,
};
pub use types::{
    DirOpArgs3, FileHandle3, FileType3, Filename3, NfsPath3, NfsStat3, NfsTime3, PostOpFh3, SpecData3,
};

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The program number.
pub const PROGRAM: u32 = 100_003;
/// The version number.
pub const VERSION: u32 = 3;

xdr! {
    /// The procedures (RFC 1813 section 3). NULL has no arguments and no results.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Get file attributes.
        Getattr = 1,
        /// Set file attributes.
        Setattr = 2,
        /// Look up a name.
        Lookup = 3,
        /// Check access permission.
        Access = 4,
        /// Read from a symbolic link.
        Readlink = 5,
        /// Read from a file.
        Read = 6,
        /// Write to a file.
        Write = 7,
        /// Create a file.
        Create = 8,
        /// Create a directory.
        Mkdir = 9,
        /// Create a symbolic link.
        Symlink = 10,
        /// Create a special device.
        Mknod = 11,
        /// Remove a file.
        Remove = 12,
        /// Remove a directory.
        Rmdir = 13,
        /// Rename a file or directory.
        Rename = 14,
        /// Create a link to an object.
        Link = 15,
        /// Read from a directory.
        Readdir = 16,
        /// Extended read from a directory.
        Readdirplus = 17,
        /// Get dynamic file system information.
        Fsstat = 18,
        /// Get static file system information.
        Fsinfo = 19,
        /// Retrieve POSIX information.
        Pathconf = 20,
        /// Commit cached data on a server to stable storage.
        Commit = 21,
    }
}

impl Procedure {
    /// Returns the name in the RFC.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Getattr => "GETATTR",
            Self::Setattr => "SETATTR",
            Self::Lookup => "LOOKUP",
            Self::Access => "ACCESS",
            Self::Readlink => "READLINK",
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::Create => "CREATE",
            Self::Mkdir => "MKDIR",
            Self::Symlink => "SYMLINK",
            Self::Mknod => "MKNOD",
            Self::Remove => "REMOVE",
            Self::Rmdir => "RMDIR",
            Self::Rename => "RENAME",
            Self::Link => "LINK",
            Self::Readdir => "READDIR",
            Self::Readdirplus => "READDIRPLUS",
            Self::Fsstat => "FSSTAT",
            Self::Fsinfo => "FSINFO",
            Self::Pathconf => "PATHCONF",
            Self::Commit => "COMMIT",
        }
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
