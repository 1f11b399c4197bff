//! The basic data types (RFC 1813 sections 2.5 and 2.6).

use std::fmt;

use crate::limits::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};

xdr! {
    /// The status of a call (RFC 1813 section 2.6, nfsstat3).
    pub enum NfsStat3 {
        /// It succeeded.
        Ok = 0,
        /// Not the owner.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// A hard I/O error.
        Io = 5,
        /// No such device or address.
        Nxio = 6,
        /// The caller lacks the permission.
        Acces = 13,
        /// The file exists.
        Exist = 17,
        /// A hard link across devices.
        Xdev = 18,
        /// No such device.
        NoDev = 19,
        /// Not a directory.
        NotDir = 20,
        /// Is a directory.
        IsDir = 21,
        /// An argument that is invalid or not supported.
        Inval = 22,
        /// The file would be too large.
        Fbig = 27,
        /// No space left on the device.
        NoSpc = 28,
        /// The file system is read-only.
        Rofs = 30,
        /// Too many hard links.
        Mlink = 31,
        /// The name is too long.
        NameTooLong = 63,
        /// The directory is not empty.
        NotEmpty = 66,
        /// The quota is exceeded.
        Dquot = 69,
        /// The file of the handle no longer exists.
        Stale = 70,
        /// Too many levels of remote in the path.
        Remote = 71,
        /// The server did not create the handle.
        BadHandle = 10_001,
        /// The guard of SETATTR did not match.
        NotSync = 10_002,
        /// The READDIR cookie is stale.
        BadCookie = 10_003,
        /// The operation is not supported.
        NotSupp = 10_004,
        /// The buffer or request is too small.
        TooSmall = 10_005,
        /// An error of the server that no other value describes.
        ServerFault = 10_006,
        /// The server cannot create objects of this type.
        BadType = 10_007,
        /// The request is not complete. The client must retry later with a new xid.
        Jukebox = 10_008,
    }
}

impl fmt::Display for NfsStat3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

xdr! {
    /// The type of a file (RFC 1813 section 2.5, ftype3).
    pub enum FileType3 {
        /// A regular file.
        Reg = 1,
        /// A directory.
        Dir = 2,
        /// A block device.
        Blk = 3,
        /// A character device.
        Chr = 4,
        /// A symbolic link.
        Lnk = 5,
        /// A socket.
        Sock = 6,
        /// A named pipe.
        Fifo = 7,
    }

    /// A file handle (RFC 1813 section 2.5, nfs_fh3): opaque, at most [`HANDLE_BYTES_MAX`] bytes.
    pub handle FileHandle3 max HANDLE_BYTES_MAX;

    /// A handle that a server may omit (RFC 1813 section 2.5, post_op_fh3).
    pub type PostOpFh3<'a> = Option<FileHandle3<'a>>;

    /// The name of a file in its directory (RFC 1813 section 2.4, filename3). The server sets the real limit.
    pub opaque Filename3 max NAME_BYTES_MAX;

    /// The text of a symbolic link (RFC 1813 section 2.4, nfspath3). The server sets the real limit.
    pub opaque NfsPath3 max PATH_BYTES_MAX;

    /// A time since 1970 (RFC 1813 section 2.5, nfstime3).
    pub struct NfsTime3 {
        /// Seconds; unsigned, so the range ends in 2106.
        pub seconds: u32,
        /// Nanoseconds; not checked to be below 10^9.
        pub nanoseconds: u32,
    }

    /// The numbers of a device (RFC 1813 section 2.5, specdata3).
    pub struct SpecData3 {
        /// The major number.
        pub major: u32,
        /// The minor number.
        pub minor: u32,
    }

    /// A name in a directory (RFC 1813 section 2.5, diropargs3).
    pub struct DirOpArgs3<'a> {
        /// The directory.
        pub dir: FileHandle3<'a>,
        /// The name in it.
        pub name: Filename3<'a>,
    }
}
