//! FSSTAT, FSINFO and PATHCONF (RFC 1813 sections 3.3.18 to 3.3.20).

use super::{FileHandle3, NfsTime3, PostOpAttr, Res3};

xdr! {
    /// The arguments of FSSTAT (RFC 1813 section 3.3.18).
    pub struct FsstatArgs<'a> {
        /// Any object; usually the root.
        pub fsroot: FileHandle3<'a>,
    }

    /// FSSTAT succeeded.
    pub struct FsstatOk {
        /// The attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// The total space in bytes.
        pub tbytes: u64,
        /// The free space in bytes.
        pub fbytes: u64,
        /// The free space available to the caller in bytes.
        pub abytes: u64,
        /// The total number of files that can exist.
        pub tfiles: u64,
        /// The number of files that can be created.
        pub ffiles: u64,
        /// The number of files that the caller can create.
        pub afiles: u64,
        /// The seconds for which these values are expected not to change; 0 for no promise.
        pub invarsec: u32,
    }
}

/// The result of FSSTAT. A failure has the attributes of the object.
pub type FsstatRes = Res3<FsstatOk, PostOpAttr>;

/// The properties in FSINFO (RFC 1813 section 3.3.19).
pub mod properties {
    /// Hard links are supported.
    pub const LINK: u32 = 0x01;
    /// Symbolic links are supported.
    pub const SYMLINK: u32 = 0x02;
    /// PATHCONF is the same for every object.
    pub const HOMOGENEOUS: u32 = 0x08;
    /// SETATTR can set times.
    pub const CANSETTIME: u32 = 0x10;
}

xdr! {
    /// The arguments of FSINFO (RFC 1813 section 3.3.19).
    pub struct FsinfoArgs<'a> {
        /// Any object; usually the root.
        pub fsroot: FileHandle3<'a>,
    }

    /// FSINFO succeeded.
    pub struct FsinfoOk {
        /// The attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// The largest READ in bytes.
        pub rtmax: u32,
        /// The preferred size of a READ in bytes.
        pub rtpref: u32,
        /// The size of which a READ should be a multiple, in bytes.
        pub rtmult: u32,
        /// The largest WRITE in bytes.
        pub wtmax: u32,
        /// The preferred size of a WRITE in bytes.
        pub wtpref: u32,
        /// The size of which a WRITE should be a multiple, in bytes.
        pub wtmult: u32,
        /// The preferred size of a READDIR in bytes.
        pub dtpref: u32,
        /// The largest file in bytes.
        pub maxfilesize: u64,
        /// The granularity of times.
        pub time_delta: NfsTime3,
        /// Bits of [`properties`].
        pub properties: u32,
    }

    /// The result of FSINFO. A failure has the attributes of the object.
    pub type FsinfoRes = Res3<FsinfoOk, PostOpAttr>;

    /// The arguments of PATHCONF (RFC 1813 section 3.3.20).
    pub struct PathconfArgs<'a> {
        /// The object.
        pub object: FileHandle3<'a>,
    }

    /// PATHCONF succeeded.
    pub struct PathconfOk {
        /// The attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// The most hard links to a file.
        pub linkmax: u32,
        /// The longest name in bytes.
        pub name_max: u32,
        /// Whether longer names are refused rather than truncated.
        pub no_trunc: bool,
        /// Whether only the superuser may change the owner of a file.
        pub chown_restricted: bool,
        /// Whether names that differ only in case are the same.
        pub case_insensitive: bool,
        /// Names keep their case.
        pub case_preserving: bool,
    }
}

/// The result of PATHCONF. A failure has the attributes of the object.
pub type PathconfRes = Res3<PathconfOk, PostOpAttr>;
