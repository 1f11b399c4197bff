//! Extended attributes (RFC 8276): GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR.

use super::{Component4, NfsStat4};
use crate::array::Array;
use crate::limits::{XATTR_NAMES_MAX, XATTR_VALUE_BYTES_MAX};
use crate::xdr::{Encode, Encoder, length_u32};

xdr! {
    /// The value of an extended attribute (RFC 8276 section 8.2, xattrvalue4).
    pub opaque Xattrvalue4 max XATTR_VALUE_BYTES_MAX;

    /// The name of an extended attribute, without `user.` (RFC 8276 section 8.2, xattrkey4).
    pub type Xattrkey4<'a> = Component4<'a>;

    /// The arguments of GETXATTR (RFC 8276 section 8.4.1).
    pub struct GetxattrArgs<'a> {
        /// The name.
        pub name: Xattrkey4<'a>,
    }

    /// Whether SETXATTR creates or replaces (RFC 8276 section 8.4.2, setxattr_option4).
    pub enum SetxattrOption4 {
        /// Create or replace.
        Either = 0,
        /// Create.
        Create = 1,
        /// Replace.
        Replace = 2,
    }

    /// The arguments of SETXATTR (RFC 8276 section 8.4.2).
    pub struct SetxattrArgs<'a> {
        /// Whether to create or to replace.
        pub option: SetxattrOption4,
        /// The name.
        pub key: Xattrkey4<'a>,
        /// The value.
        pub value: Xattrvalue4<'a>,
    }

    /// The arguments of LISTXATTRS (RFC 8276 section 8.4.3).
    pub struct ListxattrsArgs {
        /// The cookie to continue from; 0 to start.
        pub cookie: u64,
        /// The largest resok body in bytes.
        pub maxcount: u32,
    }

    /// LISTXATTRS succeeded.
    pub struct ListxattrsOk<'a> {
        /// The cookie to continue from.
        pub cookie: u64,
        /// The names.
        pub names: Array<'a, Xattrkey4<'a>, XATTR_NAMES_MAX>,
        /// Whether no names follow.
        pub eof: bool,
    }
}

/// Builds a successful result of LISTXATTRS in place. The client limits the resok body to `maxcount` bytes; if not even one
/// name fits, the result is NFS4ERR_TOOSMALL.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ListxattrsEncoder<'b> {
    out: Encoder<'b>,
    start: usize,
    /// The end of the last name at most, so that eof still fits.
    names_end: usize,
    names: usize,
}

impl<'b> ListxattrsEncoder<'b> {
    const STATUS_BYTES: usize = 4;
    /// The cookie and the number of names.
    const HEADER_BYTES: usize = 8 + 4;
    /// Eof.
    const TRAILER_BYTES: usize = 4;
    /// The size of a resok body without names.
    pub const EMPTY_BYTES: usize = Self::HEADER_BYTES + Self::TRAILER_BYTES;

    /// Begins a result whose resok body is limited to `maxcount` bytes.
    pub fn begin(out: &'b mut Encoder<'_>, maxcount: usize) -> Self {
        let mut out = out.reborrow();
        let start = out.position();
        out.raw(&[0; Self::STATUS_BYTES + Self::HEADER_BYTES]);
        let names_end = start + Self::STATUS_BYTES + maxcount.saturating_sub(Self::TRAILER_BYTES);
        Self { out, start, names_end, names: 0 }
    }

    /// Appends a name. Returns `false` and changes nothing if it does not fit.
    pub fn push(&mut self, name: Xattrkey4<'_>) -> bool {
        let before = self.out.position();
        name.encode(&mut self.out);
        if self.out.position() > self.names_end || self.names == XATTR_NAMES_MAX {
            self.out.rewind(before);
            return false;
        }
        self.names += 1;
        true
    }

    /// Returns the number of names appended.
    #[must_use]
    pub fn names(&self) -> usize {
        self.names
    }

    /// Completes the result; `cookie` is the one to continue from.
    pub fn finish(mut self, cookie: u64, eof: bool) {
        self.out.bool(eof);
        self.out.patch(self.start, &NfsStat4::Ok.code().to_be_bytes());
        self.out.patch(self.start + 4, &cookie.to_be_bytes());
        self.out.patch(self.start + 12, &length_u32(self.names).to_be_bytes());
    }

    /// Removes the result again. The caller writes a failure instead.
    pub fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}

xdr! {
    /// The arguments of REMOVEXATTR (RFC 8276 section 8.4.4).
    pub struct RemovexattrArgs<'a> {
        /// The name.
        pub name: Xattrkey4<'a>,
    }
}
