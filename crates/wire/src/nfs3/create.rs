//! CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813 sections 3.3.8 to 3.3.11).
//!
//! Their results have the same bodies, [`CreateOk`] and [`WccData`].

use super::{DirOpArgs3, NfsPath3, PostOpAttr, PostOpFh3, Res3, Sattr3, SpecData3, WccData};
use crate::limits::VERIFIER_BYTES;

/// The verifier by which a retransmitted exclusive CREATE is recognized (RFC 1813 section 2.5, createverf3).
pub type CreateVerf3 = [u8; VERIFIER_BYTES];

xdr! {
    /// What CREATE does if the name exists (RFC 1813 section 3.3.8, createhow3).
    pub union CreateHow3 {
        /// It uses the existing file, and sets its size if one is given.
        Unchecked(attributes: Sattr3) = 0,
        /// It fails.
        Guarded(attributes: Sattr3) = 1,
        /// It fails, unless the file was created with the same verifier.
        Exclusive(verifier: CreateVerf3) = 2,
    }

    /// The arguments of CREATE (RFC 1813 section 3.3.8).
    pub struct CreateArgs<'a> {
        /// The name to create.
        pub place: DirOpArgs3<'a>,
        /// How to create it.
        pub how: CreateHow3,
    }

    /// CREATE, MKDIR, SYMLINK or MKNOD succeeded.
    pub struct CreateOk<'a> {
        /// The new object.
        pub obj: PostOpFh3<'a>,
        /// Its attributes.
        pub obj_attributes: PostOpAttr,
        /// The directory before and after.
        pub dir_wcc: WccData,
    }

    /// The result of CREATE. A failure has the directory before and after.
    pub type CreateRes<'a> = Res3<CreateOk<'a>, WccData>;

    /// The arguments of MKDIR (RFC 1813 section 3.3.9).
    pub struct MkdirArgs<'a> {
        /// The name to create.
        pub place: DirOpArgs3<'a>,
        /// The attributes of the directory.
        pub attributes: Sattr3,
    }

    /// The result of MKDIR.
    pub type MkdirRes<'a> = CreateRes<'a>;

    /// A symbolic link to create (RFC 1813 section 3.3.10, symlinkdata3).
    pub struct SymlinkData3<'a> {
        /// Its attributes.
        pub symlink_attributes: Sattr3,
        /// The text of the link.
        pub symlink_data: NfsPath3<'a>,
    }

    /// The arguments of SYMLINK (RFC 1813 section 3.3.10).
    pub struct SymlinkArgs<'a> {
        /// The name to create.
        pub place: DirOpArgs3<'a>,
        /// The new object.
        pub symlink: SymlinkData3<'a>,
    }

    /// The result of SYMLINK.
    pub type SymlinkRes<'a> = CreateRes<'a>;

    /// A device to create (RFC 1813 section 3.3.11, devicedata3).
    pub struct DeviceData3 {
        /// Its attributes.
        pub dev_attributes: Sattr3,
        /// Its numbers.
        pub spec: SpecData3,
    }

    /// The object that MKNOD creates (RFC 1813 section 3.3.11, mknoddata3). The discriminants are those of
    /// [`FileType3`](super::FileType3).
    pub union MknodData3 {
        /// A character device.
        Chr(device: DeviceData3) = 4,
        /// A block device.
        Blk(device: DeviceData3) = 3,
        /// A socket.
        Sock(attributes: Sattr3) = 6,
        /// A named pipe.
        Fifo(attributes: Sattr3) = 7;
        /// A type that MKNOD cannot create, or an unknown one: NFS3ERR_BADTYPE.
        default BadType(u32)
    }

    /// The arguments of MKNOD (RFC 1813 section 3.3.11).
    pub struct MknodArgs<'a> {
        /// The name to create.
        pub place: DirOpArgs3<'a>,
        /// The new object.
        pub what: MknodData3,
    }
}

/// The result of MKNOD.
pub type MknodRes<'a> = CreateRes<'a>;
