//! The types that only attributes have.

use crate::array::Array;
use crate::limits::{ACES_MAX, LOCATIONS_MAX};
use crate::nfs4::{Bitmap4, Body4, Nfstime4, Pathname4, Utf8Str4};

xdr_struct! {
    /// A file system (RFC 8881 section 3.3.5, fsid4).
    #[derive(Hash)]
    pub struct Fsid4 {
        /// The first half.
        pub major: u64,
        /// The second half.
        pub minor: u64,
    }
}

/// How long a handle is good (RFC 8881 section 5.8.1.2).
pub mod fh_expire {
    /// As long as the object.
    pub const PERSISTENT: u32 = 0;
    /// It does not expire while the file is open.
    pub const NOEXPIRE_WITH_OPEN: u32 = 1;
    /// It may expire at any time.
    pub const VOLATILE_ANY: u32 = 2;
    /// It expires when the file system moves.
    pub const VOL_MIGRATION: u32 = 4;
    /// It expires when the object is renamed.
    pub const VOL_RENAME: u32 = 8;
}

/// The kinds of entries in ACLs that a server supports (RFC 8881 section 6.2.1.2).
pub mod acl_support {
    /// Entries that allow.
    pub const ALLOW: u32 = 1;
    /// Entries that deny.
    pub const DENY: u32 = 2;
    /// Entries that make records.
    pub const AUDIT: u32 = 4;
    /// Entries that give alarm.
    pub const ALARM: u32 = 8;
}

/// How names are encoded (RFC 8881 section 14.4).
pub mod fs_charset_cap {
    /// There are names that are not UTF-8.
    pub const CONTAINS_NON_UTF8: u32 = 1;
    /// Only UTF-8 is allowed.
    pub const ALLOWS_ONLY_UTF8: u32 = 2;
}

xdr_enum! {
    /// What an entry of an ACL does (RFC 8881 section 6.2.1.1, acetype4).
    pub enum Ace4 {
        /// It allows.
        AccessAllowed = 0,
        /// It denies.
        AccessDenied = 1,
        /// It makes records.
        SystemAudit = 2,
        /// It gives alarm.
        SystemAlarm = 3,
    }
}

/// The flags of an entry of an ACL (RFC 8881 section 6.2.1.4, aceflag4).
pub mod ace_flag {
    /// New files inherit it.
    pub const FILE_INHERIT: u32 = 0x01;
    /// New directories inherit it.
    pub const DIRECTORY_INHERIT: u32 = 0x02;
    /// Those who inherit it do not pass it on.
    pub const NO_PROPAGATE_INHERIT: u32 = 0x04;
    /// It is only there to be inherited.
    pub const INHERIT_ONLY: u32 = 0x08;
    /// Records or alarm when access is allowed.
    pub const SUCCESSFUL_ACCESS: u32 = 0x10;
    /// Records or alarm when access is denied.
    pub const FAILED_ACCESS: u32 = 0x20;
    /// `who` is a group.
    pub const IDENTIFIER_GROUP: u32 = 0x40;
    /// It was inherited.
    pub const INHERITED: u32 = 0x80;
}

/// What an entry of an ACL is about (RFC 8881 section 6.2.1.3, acemask4).
pub mod ace_mask {
    /// Reading the data of a file.
    pub const READ_DATA: u32 = 0x0001;
    /// Listing a directory.
    pub const LIST_DIRECTORY: u32 = 0x0001;
    /// Changing the data of a file.
    pub const WRITE_DATA: u32 = 0x0002;
    /// Adding a file to a directory.
    pub const ADD_FILE: u32 = 0x0002;
    /// Appending to a file.
    pub const APPEND_DATA: u32 = 0x0004;
    /// Adding a directory to a directory.
    pub const ADD_SUBDIRECTORY: u32 = 0x0004;
    /// Reading named attributes.
    pub const READ_NAMED_ATTRS: u32 = 0x0008;
    /// Changing named attributes.
    pub const WRITE_NAMED_ATTRS: u32 = 0x0010;
    /// Executing a file, or looking up in a directory.
    pub const EXECUTE: u32 = 0x0020;
    /// Deleting from a directory.
    pub const DELETE_CHILD: u32 = 0x0040;
    /// Reading attributes that are not ACLs.
    pub const READ_ATTRIBUTES: u32 = 0x0080;
    /// Changing times.
    pub const WRITE_ATTRIBUTES: u32 = 0x0100;
    /// Changing retention.
    pub const WRITE_RETENTION: u32 = 0x0200;
    /// Changing administrative holds.
    pub const WRITE_RETENTION_HOLD: u32 = 0x0400;
    /// Deleting the object.
    pub const DELETE: u32 = 0x0001_0000;
    /// Reading the ACL.
    pub const READ_ACL: u32 = 0x0002_0000;
    /// Changing the ACL and the mode.
    pub const WRITE_ACL: u32 = 0x0004_0000;
    /// Changing owner and group.
    pub const WRITE_OWNER: u32 = 0x0008_0000;
    /// Using the object for synchronization.
    pub const SYNCHRONIZE: u32 = 0x0010_0000;
}

xdr_struct! {
    /// An entry of an ACL (RFC 8881 section 6.2.1, nfsace4).
    pub struct Nfsace4<'a> {
        /// What it does: a number of [`Ace4`]; others are for the server to refuse.
        pub ace_type: u32,
        /// Bits of [`ace_flag`].
        pub flag: u32,
        /// Bits of [`ace_mask`].
        pub access_mask: u32,
        /// Whom it is about.
        pub who: Utf8Str4<'a>,
    }
}

xdr_struct! {
    /// An ACL with flags (RFC 8881 section 6.4.3.2, nfsacl41).
    pub struct Nfsacl41<'a> {
        /// Automatic inheritance.
        pub flag: u32,
        /// The entries.
        pub aces: Array<'a, Nfsace4<'a>, ACES_MAX>,
    }
}

xdr_struct! {
    /// Bits of a mode to be changed (RFC 8881 section 6.2.5, mode_masked4).
    pub struct ModeMasked4 {
        /// What they are to be.
        pub value_to_set: u32,
        /// Which bits.
        pub mask_bits: u32,
    }
}

xdr_struct! {
    /// A mode for a new object, and the umask for it that a default ACL overrides (RFC 8275 section 4, mode_umask4).
    pub struct ModeUmask4 {
        /// The mode.
        pub mode: u32,
        /// The umask.
        pub umask: u32,
    }
}

xdr_struct! {
    /// Two numbers that change with the properties of a file system (RFC 8881 section 3.3.6, change_policy4).
    pub struct ChangePolicy4 {
        /// The first one.
        pub major: u64,
        /// The second one.
        pub minor: u64,
    }
}

xdr_struct! {
    /// A place where a file system is (RFC 8881 section 11.16, fs_location4).
    pub struct FsLocation4<'a> {
        /// The servers.
        pub server: Array<'a, Utf8Str4<'a>, LOCATIONS_MAX>,
        /// Where it is in their name spaces.
        pub rootpath: Pathname4<'a>,
    }
}

xdr_struct! {
    /// The places where a file system is (RFC 8881 section 11.16, fs_locations4).
    pub struct FsLocations4<'a> {
        /// Where it is in this server's name space.
        pub fs_root: Pathname4<'a>,
        /// All places.
        pub locations: Array<'a, FsLocation4<'a>, LOCATIONS_MAX>,
    }
}

xdr_enum! {
    /// What the change attribute is (RFC 7862 section 12.2.3, change_attr_type4).
    pub enum ChangeAttrType4 {
        /// It grows with each change.
        MonotonicIncr = 0,
        /// It grows by one with each change.
        VersionCounter = 1,
        /// The same, unless data is changed through pNFS.
        VersionCounterNopnfs = 2,
        /// It is the time of the last change of attributes.
        TimeMetadata = 3,
        /// Nothing is known of it.
        Undefined = 4,
    }
}

xdr_struct! {
    /// A wish for the layouts of a new file (RFC 8881 section 3.3.17, layouthint4).
    pub struct Layouthint4<'a> {
        /// The layout type.
        pub layout_type: u32,
        /// The wish.
        pub body: Body4<'a>,
    }
}

xdr_struct! {
    /// What OPEN supports (RFC 9754 section 3, open_arguments4): sets of the numbers in its arguments.
    pub struct OpenArguments4 {
        /// Kinds of access.
        pub share_access: Bitmap4,
        /// Kinds of denial.
        pub share_deny: Bitmap4,
        /// Wishes for delegations.
        pub share_access_want: Bitmap4,
        /// Claims.
        pub open_claim: Bitmap4,
        /// Ways to create.
        pub create_mode: Bitmap4,
    }
}

xdr_union! {
    /// How to set a time (RFC 8881 section 3.3.2, settime4).
    pub enum Settime4 {
        /// Set it to the server's time.
        SetToServerTime = 0,
        /// Set it to this time.
        SetToClientTime(time: Nfstime4) = 1,
    }
}
