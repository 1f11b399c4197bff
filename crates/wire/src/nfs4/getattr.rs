//! GETATTR, SETATTR, VERIFY and NVERIFY.

use super::{AttrMask, Fattr4, NfsStat4, Outcome, Stateid4};

xdr! {
    /// The arguments of GETATTR (RFC 8881 section 18.7).
    pub struct GetattrArgs {
        /// The attributes.
        pub attr_request: AttrMask,
    }

    /// GETATTR succeeded.
    pub struct GetattrOk<'a> {
        /// The supported ones of the requested attributes. A server encodes [`Attributes4`](super::Attributes4) instead.
        pub obj_attributes: Fattr4<'a>,
    }

    /// The arguments of SETATTR (RFC 8881 section 18.30).
    pub struct SetattrArgs<'a> {
        /// The stateid to change the size with.
        pub stateid: Stateid4,
        /// The new attributes.
        pub obj_attributes: Fattr4<'a>,
    }

    /// The result of SETATTR, which has attributes in failures, too.
    pub struct SetattrRes {
        /// The status.
        pub status: NfsStat4,
        /// The attributes that were set.
        pub attrsset: AttrMask,
    }
}

impl Outcome for SetattrRes {
    fn status(&self) -> NfsStat4 {
        self.status
    }
}

impl From<NfsStat4> for SetattrRes {
    fn from(status: NfsStat4) -> Self {
        Self { status, attrsset: AttrMask::EMPTY }
    }
}

xdr! {
    /// The arguments of VERIFY (RFC 8881 section 18.31) and NVERIFY (section 18.15).
    pub struct VerifyArgs<'a> {
        /// The attributes to compare with.
        pub obj_attributes: Fattr4<'a>,
    }
}
