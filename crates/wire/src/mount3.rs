//! MOUNT version 3 (RFC 1813 appendix I): finds the root handle of an export by its path.
//!
//! Calls of versions 1 and 2, whose handles are those of NFSv2, get [`crate::rpc::AcceptStat::ProgMismatch`] with 3 as the
//! lowest and highest version.

use crate::limits::{MOUNT_NAME_BYTES_MAX, MOUNT_PATH_BYTES_MAX};
use crate::list::List;
use crate::nfs3::FileHandle3;
use crate::rpc::AuthFlavors;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

#[cfg(test)]
mod tests;

/// The program number.
pub const PROGRAM: u32 = 100_005;
/// The version number.
pub const VERSION: u32 = 3;

xdr! {
    /// The procedures (RFC 1813 section 5.2).
    ///
    /// | procedure | arguments | results |
    /// |---|---|---|
    /// | NULL | – | – |
    /// | MNT | [`DirPath`] | [`MntRes`] |
    /// | DUMP | – | [`MountList`] |
    /// | UMNT | [`DirPath`] | – |
    /// | UMNTALL | – | – |
    /// | EXPORT | – | [`Exports`] |
    pub enum Procedure {
        /// Do nothing.
        Null = 0 "NULL",
        /// Add a mount entry and get a handle.
        Mnt = 1 "MNT",
        /// List the mount entries.
        Dump = 2 "DUMP",
        /// Remove a mount entry.
        Umnt = 3 "UMNT",
        /// Remove all mount entries of the caller.
        Umntall = 4 "UMNTALL",
        /// List the exports.
        Export = 5 "EXPORT",
    }

    /// The status of MNT (RFC 1813 section 5.1.5, mountstat3).
    pub enum MountStat3 {
        /// It succeeded.
        Ok = 0 "MNT3_OK",
        /// Not the owner.
        Perm = 1 "MNT3ERR_PERM",
        /// No such file or directory.
        NoEnt = 2 "MNT3ERR_NOENT",
        /// A hard I/O error.
        Io = 5 "MNT3ERR_IO",
        /// Permission denied.
        Acces = 13 "MNT3ERR_ACCES",
        /// Not a directory.
        NotDir = 20 "MNT3ERR_NOTDIR",
        /// An invalid argument.
        Inval = 22 "MNT3ERR_INVAL",
        /// The path is too long.
        NameTooLong = 63 "MNT3ERR_NAMETOOLONG",
        /// The operation is not supported.
        NotSupp = 10_004 "MNT3ERR_NOTSUPP",
        /// The server failed.
        ServerFault = 10_006 "MNT3ERR_SERVERFAULT",
    }

    /// The path of an export (dirpath).
    pub opaque DirPath max MOUNT_PATH_BYTES_MAX;

    /// The name of a host or of a group of hosts (name).
    pub opaque Name max MOUNT_NAME_BYTES_MAX;

    /// MNT succeeded (RFC 1813 section 5.2.1, mountres3_ok).
    pub struct MntOk<'a> {
        /// The handle of the directory.
        pub fhandle: FileHandle3<'a>,
        /// The accepted flavors of credentials, preferred ones first.
        pub auth_flavors: AuthFlavors,
    }
}

/// The result of MNT (RFC 1813 section 5.2.1, mountres3). The error is never [`MountStat3::Ok`]; encoding that panics.
pub type MntRes<'a> = Result<MntOk<'a>, MountStat3>;

impl Encode for MntRes<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Ok(body) => {
                MountStat3::Ok.encode(out);
                body.encode(out);
            }
            Err(status) => {
                assert_ne!(*status, MountStat3::Ok, "a failure has a status that says so");
                status.encode(out);
            }
        }
    }
}

impl<'a> Decode<'a> for MntRes<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match MountStat3::decode(input)? {
            MountStat3::Ok => MntOk::decode(input).map(Ok),
            status => Ok(Err(status)),
        }
    }
}

xdr! {
    /// A mount entry (RFC 1813 section 5.2.2, mountbody).
    pub struct MountBody<'a> {
        /// The client.
        pub hostname: Name<'a>,
        /// The mounted path.
        pub directory: DirPath<'a>,
    }

    /// The result of DUMP (RFC 1813 section 5.2.2, mountlist).
    pub type MountList<'a> = List<'a, MountBody<'a>>;

    /// An export (RFC 1813 section 5.2.5, exportnode).
    pub struct ExportNode<'a> {
        /// The path.
        pub dir: DirPath<'a>,
        /// The hosts and groups that may mount it; empty for all.
        pub groups: List<'a, Name<'a>>,
    }
}

/// The result of EXPORT (RFC 1813 section 5.2.5, exports).
pub type Exports<'a> = List<'a, ExportNode<'a>>;
