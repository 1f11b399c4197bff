//! Types that only attributes use.

use crate::array::Array;
use crate::limits::{ACES_MAX, LOCATIONS_MAX};
use crate::nfs4::{Bitmap4, NfsTime4, Opaque4, Pathname4, Utf8Str4};

xdr! {
    /// A file system (RFC 8881 section 3.3.5, fsid4).
    #[derive(Hash)]
    pub struct Fsid4 {
        /// The first half.
        pub major: u64,
        /// The second half.
        pub minor: u64,
    }
}

/// The expiration of handles (RFC 8881 section 5.8.1.2).
pub mod fh_expire {
    /// It is valid as long as the object exists.
    pub const PERSISTENT: u32 = 0;
}

/// The kinds of entries in ACLs that a server supports (RFC 8881 section 6.2.1.2).
pub mod acl_support {
    /// Entries that allow.
    pub const ALLOW: u32 = 1;
    /// Entries that deny.
    pub const DENY: u32 = 2;
}

xdr! {
    /// What an entry of an ACL does (RFC 8881 section 6.2.1.1, acetype4).
    pub enum Ace4 {
        /// It allows access.
        AccessAllowed = 0,
        /// It denies access.
        AccessDenied = 1,
        /// It audits.
        SystemAudit = 2,
        /// It raises an alarm.
        SystemAlarm = 3,
    }
}

/// The flags of an entry of an ACL (RFC 8881 section 6.2.1.4, aceflag4).
pub mod ace_flag {
    /// New files inherit it.
    pub const FILE_INHERIT: u32 = 0x01;
    /// `who` is a group.
    pub const IDENTIFIER_GROUP: u32 = 0x40;
}

/// The permissions of an entry of an ACL (RFC 8881 section 6.2.1.3, acemask4).
pub mod ace_mask {
    /// Reading the data of a file.
    pub const READ_DATA: u32 = 0x0001;
    /// Changing the data of a file.
    pub const WRITE_DATA: u32 = 0x0002;
    /// Appending to a file.
    pub const APPEND_DATA: u32 = 0x0004;
    /// Executing a file, or looking up in a directory.
    pub const EXECUTE: u32 = 0x0020;
    /// Deleting from a directory.
    pub const DELETE_CHILD: u32 = 0x0040;
    /// Reading attributes that are not ACLs.
    pub const READ_ATTRIBUTES: u32 = 0x0080;
    /// Changing times.
    pub const WRITE_ATTRIBUTES: u32 = 0x0100;
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

xdr! {
    /// An entry of an ACL (RFC 8881 section 6.2.1, nfsace4).
    pub struct Nfsace4<'a> {
        /// A number of [`Ace4`]; the server refuses others.
        pub ace_type: u32,
        /// Bits of [`ace_flag`].
        pub flag: u32,
        /// Bits of [`ace_mask`].
        pub access_mask: u32,
        /// The user or group to which it applies.
        pub who: Utf8Str4<'a>,
    }

    /// An ACL with flags (RFC 8881 section 6.4.3.2, nfsacl41).
    pub struct Nfsacl41<'a> {
        /// Flags for automatic inheritance.
        pub flag: u32,
        /// The entries.
        pub aces: Array<'a, Nfsace4<'a>, ACES_MAX>,
    }

    /// A change of some bits of a mode (RFC 8881 section 6.2.5, mode_masked4).
    pub struct ModeMasked4 {
        /// Their values.
        pub value_to_set: u32,
        /// The bits to change.
        pub mask_bits: u32,
    }

    /// The mode of a new object and its umask, which a default ACL overrides (RFC 8275 section 4, mode_umask4).
    pub struct ModeUmask4 {
        /// The mode.
        pub mode: u32,
        /// The umask.
        pub umask: u32,
    }

    /// Numbers that change with the properties of a file system (RFC 8881 section 3.3.6, change_policy4).
    pub struct ChangePolicy4 {
        /// The first number.
        pub major: u64,
        /// The second number.
        pub minor: u64,
    }

    /// A location of a file system (RFC 8881 section 11.16, fs_location4).
    pub struct FsLocation4<'a> {
        /// The servers.
        pub server: Array<'a, Utf8Str4<'a>, LOCATIONS_MAX>,
        /// The path on these servers.
        pub rootpath: Pathname4<'a>,
    }

    /// The locations of a file system (RFC 8881 section 11.16, fs_locations4).
    pub struct FsLocations4<'a> {
        /// The path on this server.
        pub fs_root: Pathname4<'a>,
        /// All locations.
        pub locations: Array<'a, FsLocation4<'a>, LOCATIONS_MAX>,
    }

    /// The semantics of the change attribute (RFC 7862 section 12.2.3, change_attr_type4).
    pub enum ChangeAttrType4 {
        /// It increases with each change.
        MonotonicIncr = 0,
        /// It increases by one with each change.
        VersionCounter = 1,
        /// The same, except for changes of data through pNFS.
        VersionCounterNopnfs = 2,
        /// It is the time of the last change of the attributes.
        TimeMetadata = 3,
        /// Undefined.
        Undefined = 4,
    }

    /// A hint for the layouts of a new file (RFC 8881 section 3.3.17, layouthint4).
    pub struct LayoutHint4<'a> {
        /// The layout type.
        pub layout_type: u32,
        /// The hint.
        pub body: Opaque4<'a>,
    }

    /// The arguments that OPEN supports (RFC 9754 section 3, open_arguments4), as sets of their numbers.
    pub struct OpenArguments4 {
        /// Values of `share_access`.
        pub share_access: Bitmap4,
        /// Values of `share_deny`.
        pub share_deny: Bitmap4,
        /// Delegation requests in `share_access`.
        pub share_access_want: Bitmap4,
        /// Claims.
        pub open_claim: Bitmap4,
        /// Create modes.
        pub create_mode: Bitmap4,
    }

    /// How to set a time (RFC 8881 section 3.3.2, settime4).
    pub union SetTime4 {
        /// Set it to the server's time.
        SetToServerTime = 0,
        /// Set it to this time.
        SetToClientTime(time: NfsTime4) = 1,
    }
}
