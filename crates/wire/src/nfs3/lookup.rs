//! LOOKUP, ACCESS and READLINK (RFC 1813 sections 3.3.3 to 3.3.5).

use super::{DirOpArgs3, FileHandle3, NfsPath3, PostOpAttr, Res3};

xdr! {
    /// The arguments of LOOKUP (RFC 1813 section 3.3.3).
    pub struct LookupArgs<'a> {
        /// The name to look up.
        pub what: DirOpArgs3<'a>,
    }

    /// LOOKUP succeeded.
    pub struct LookupOk<'a> {
        /// The object.
        pub object: FileHandle3<'a>,
        /// Its attributes.
        pub obj_attributes: PostOpAttr,
        /// The attributes of the directory.
        pub dir_attributes: PostOpAttr,
    }
}

/// The result of LOOKUP. A failure has the attributes of the directory.
pub type LookupRes<'a> = Res3<LookupOk<'a>, PostOpAttr>;

/// The bits of ACCESS (RFC 1813 section 3.3.4).
pub mod access {
    /// Read a file, or list a directory.
    pub const READ: u32 = 0x01;
    /// Look up a name in a directory; unused for other types.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite data of a file, or change entries of a directory.
    pub const MODIFY: u32 = 0x04;
    /// Append to a file, or add entries to a directory.
    pub const EXTEND: u32 = 0x08;
    /// Remove an entry of a directory.
    pub const DELETE: u32 = 0x10;
    /// Execute a file; unused for directories.
    pub const EXECUTE: u32 = 0x20;
    /// All bits.
    pub const ALL: u32 = 0x3f;
}

xdr! {
    /// The arguments of ACCESS (RFC 1813 section 3.3.4).
    pub struct AccessArgs<'a> {
        /// The object.
        pub object: FileHandle3<'a>,
        /// The bits of [`access`] to check.
        pub access: u32,
    }

    /// ACCESS succeeded.
    pub struct AccessOk {
        /// The attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// The bits that are granted.
        pub access: u32,
    }

    /// The result of ACCESS. A failure has the attributes of the object.
    pub type AccessRes = Res3<AccessOk, PostOpAttr>;

    /// The arguments of READLINK (RFC 1813 section 3.3.5).
    pub struct ReadlinkArgs<'a> {
        /// The symbolic link.
        pub symlink: FileHandle3<'a>,
    }

    /// READLINK succeeded.
    pub struct ReadlinkOk<'a> {
        /// The attributes of the link.
        pub symlink_attributes: PostOpAttr,
        /// The text of the link.
        pub data: NfsPath3<'a>,
    }
}

/// The result of READLINK. A failure has the attributes of the object.
pub type ReadlinkRes<'a> = Res3<ReadlinkOk<'a>, PostOpAttr>;
