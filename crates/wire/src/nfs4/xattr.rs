//! Extended attributes (RFC 8276): GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR.

use super::{ChangeInfo4, Component4, Res4};
use crate::array::Array;
use crate::limits::{XATTR_NAMES_MAX, XATTR_VALUE_BYTES_MAX};

xdr_bytes! {
    /// The value of an extended attribute (RFC 8276 section 8.2, xattrvalue4).
    pub struct Xattrvalue4 max XATTR_VALUE_BYTES_MAX
}

/// The name of an extended attribute, without `user.` (RFC 8276 section 8.2, xattrkey4).
pub type Xattrkey4<'a> = Component4<'a>;

xdr_struct! {
    /// The arguments of GETXATTR (RFC 8276 section 8.4.1).
    pub struct GetxattrArgs<'a> {
        /// The name.
        pub name: Xattrkey4<'a>,
    }
}

/// The result of GETXATTR: the value.
pub type GetxattrRes<'a> = Res4<Xattrvalue4<'a>>;

xdr_enum! {
    /// What SETXATTR may do (RFC 8276 section 8.4.2, setxattr_option4).
    pub enum SetxattrOption4 {
        /// Create or replace.
        Either = 0,
        /// Create.
        Create = 1,
        /// Replace.
        Replace = 2,
    }
}

xdr_struct! {
    /// The arguments of SETXATTR (RFC 8276 section 8.4.2).
    pub struct SetxattrArgs<'a> {
        /// What it may do.
        pub option: SetxattrOption4,
        /// The name.
        pub key: Xattrkey4<'a>,
        /// The value.
        pub value: Xattrvalue4<'a>,
    }
}

/// The result of SETXATTR: the object before and after.
pub type SetxattrRes = Res4<ChangeInfo4>;

xdr_struct! {
    /// The arguments of LISTXATTRS (RFC 8276 section 8.4.3).
    pub struct ListxattrsArgs {
        /// Where to go on; 0 to begin.
        pub cookie: u64,
        /// The most bytes of the resok body.
        pub maxcount: u32,
    }
}

xdr_struct! {
    /// LISTXATTRS succeeded.
    pub struct ListxattrsOk<'a> {
        /// Where to go on.
        pub cookie: u64,
        /// The names.
        pub names: Array<'a, Xattrkey4<'a>, XATTR_NAMES_MAX>,
        /// Whether the last name is among them, or before them.
        pub eof: bool,
    }
}

/// The result of LISTXATTRS.
pub type ListxattrsRes<'a> = Res4<ListxattrsOk<'a>>;

xdr_struct! {
    /// The arguments of REMOVEXATTR (RFC 8276 section 8.4.4).
    pub struct RemovexattrArgs<'a> {
        /// The name.
        pub name: Xattrkey4<'a>,
    }
}

/// The result of REMOVEXATTR: the object before and after.
pub type RemovexattrRes = Res4<ChangeInfo4>;
