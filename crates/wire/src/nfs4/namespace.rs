//! CREATE, LINK, REMOVE and RENAME.

use super::{AttrMask, ChangeInfo4, Component4, Fattr4, Linktext4, SpecData4};

xdr! {
    /// The object that CREATE creates (RFC 8881 section 18.4, createtype4). The discriminants are those of
    /// [`NfsFtype4`](super::NfsFtype4).
    pub union CreateType4<'a> {
        /// A symbolic link.
        Lnk(linkdata: Linktext4<'a>) = 5,
        /// A block device.
        Blk(devdata: SpecData4) = 3,
        /// A character device.
        Chr(devdata: SpecData4) = 4,
        /// A socket.
        Sock = 6,
        /// A named pipe.
        Fifo = 7,
        /// A directory.
        Dir = 2;
        /// A type that CREATE cannot create, or an unknown one: NFS4ERR_BADTYPE.
        default BadType(u32)
    }

    /// The arguments of CREATE (RFC 8881 section 18.4), for all types but regular files.
    pub struct CreateArgs<'a> {
        /// The type of the object.
        pub objtype: CreateType4<'a>,
        /// Its name in the current directory.
        pub objname: Component4<'a>,
        /// Its attributes.
        pub createattrs: Fattr4<'a>,
    }

    /// CREATE succeeded. The new object is the current one.
    pub struct CreateOk {
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
        /// The attributes that were set.
        pub attrset: AttrMask,
    }

    /// The arguments of LINK (RFC 8881 section 18.9), which names the saved object in the current directory.
    pub struct LinkArgs<'a> {
        /// The name.
        pub newname: Component4<'a>,
    }

    /// LINK succeeded.
    pub struct LinkOk {
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
    }

    /// The arguments of REMOVE (RFC 8881 section 18.25), for files and directories.
    pub struct RemoveArgs<'a> {
        /// The name in the current directory.
        pub target: Component4<'a>,
    }

    /// REMOVE succeeded.
    pub struct RemoveOk {
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
    }

    /// The arguments of RENAME (RFC 8881 section 18.26), from the saved directory to the current one.
    pub struct RenameArgs<'a> {
        /// The name in the saved directory.
        pub oldname: Component4<'a>,
        /// The name in the current directory.
        pub newname: Component4<'a>,
    }

    /// RENAME succeeded.
    pub struct RenameOk {
        /// The source directory before and after the operation.
        pub source_cinfo: ChangeInfo4,
        /// The target directory before and after the operation.
        pub target_cinfo: ChangeInfo4,
    }
}
