//! The basic data types (RFC 1813 sections 2.5 and 2.6).

use crate::limits::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};

xdr! {
    /// The status of a call (RFC 1813 section 2.6, nfsstat3).
    pub enum NfsStat3 {
        /// It succeeded.
        Ok = 0 "NFS3_OK",
        /// Not the owner.
        Perm = 1 "NFS3ERR_PERM",
        /// No such file or directory.
        NoEnt = 2 "NFS3ERR_NOENT",
        /// A hard I/O error.
        Io = 5 "NFS3ERR_IO",
        /// No such device or address.
        Nxio = 6 "NFS3ERR_NXIO",
        /// The caller lacks the permission.
        Acces = 13 "NFS3ERR_ACCES",
        /// The file exists.
        Exist = 17 "NFS3ERR_EXIST",
        /// A hard link across devices.
        Xdev = 18 "NFS3ERR_XDEV",
        /// No such device.
        NoDev = 19 "NFS3ERR_NODEV",
        /// Not a directory.
        NotDir = 20 "NFS3ERR_NOTDIR",
        /// Is a directory.
        IsDir = 21 "NFS3ERR_ISDIR",
        /// An argument that is invalid or not supported.
        Inval = 22 "NFS3ERR_INVAL",
        /// The file would be too large.
        Fbig = 27 "NFS3ERR_FBIG",
        /// No space left on the device.
        NoSpc = 28 "NFS3ERR_NOSPC",
        /// The file system is read-only.
        Rofs = 30 "NFS3ERR_ROFS",
        /// Too many hard links.
        Mlink = 31 "NFS3ERR_MLINK",
        /// The name is too long.
        NameTooLong = 63 "NFS3ERR_NAMETOOLONG",
        /// The directory is not empty.
        NotEmpty = 66 "NFS3ERR_NOTEMPTY",
        /// The quota is exceeded.
        Dquot = 69 "NFS3ERR_DQUOT",
        /// The file of the handle no longer exists.
        Stale = 70 "NFS3ERR_STALE",
        /// Too many levels of remote in the path.
        Remote = 71 "NFS3ERR_REMOTE",
        /// The server did not create the handle.
        BadHandle = 10_001 "NFS3ERR_BADHANDLE",
        /// The guard of SETATTR did not match.
        NotSync = 10_002 "NFS3ERR_NOT_SYNC",
        /// The READDIR cookie is stale.
        BadCookie = 10_003 "NFS3ERR_BAD_COOKIE",
        /// The operation is not supported.
        NotSupp = 10_004 "NFS3ERR_NOTSUPP",
        /// The buffer or request is too small.
        TooSmall = 10_005 "NFS3ERR_TOOSMALL",
        /// An error of the server that no other value describes.
        ServerFault = 10_006 "NFS3ERR_SERVERFAULT",
        /// The server cannot create objects of this type.
        BadType = 10_007 "NFS3ERR_BADTYPE",
        /// The request is not complete. The client must retry later with a new xid.
        Jukebox = 10_008 "NFS3ERR_JUKEBOX",
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
