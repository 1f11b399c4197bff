//! Opening files: OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE.

use super::{AttrMask, ChangeInfo4, Component4, Fattr4, OpenDelegation4, OpenDelegationType4};
use super::{Seqid4, StateOwner4, Stateid4, Verifier4};

/// The access of an open, and requests for a delegation (RFC 8881 section 18.16, share_access; RFC 9754).
pub mod share_access {
    /// To read.
    pub const READ: u32 = 1;
    /// To write.
    pub const WRITE: u32 = 2;
    /// Both.
    pub const BOTH: u32 = 3;
    /// The bits that request a delegation.
    pub const WANT_DELEG_MASK: u32 = 0xff00;
    /// No preference.
    pub const WANT_NO_PREFERENCE: u32 = 0;
    /// A read delegation.
    pub const WANT_READ_DELEG: u32 = 0x0100;
    /// A write delegation.
    pub const WANT_WRITE_DELEG: u32 = 0x0200;
    /// Any delegation.
    pub const WANT_ANY_DELEG: u32 = 0x0300;
    /// No delegation.
    pub const WANT_NO_DELEG: u32 = 0x0400;
    /// No delegation, and earlier requests are cancelled.
    pub const WANT_CANCEL: u32 = 0x0500;
    /// A signal when a delegation becomes available.
    pub const WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL: u32 = 0x0001_0000;
    /// A delegation when the file is no longer contended.
    pub const WANT_PUSH_DELEG_WHEN_UNCONTENDED: u32 = 0x0002_0000;
    /// Delegation of timestamps.
    pub const WANT_DELEG_TIMESTAMPS: u32 = 0x0010_0000;
    /// Either an open or a delegation.
    pub const WANT_OPEN_XOR_DELEGATION: u32 = 0x0020_0000;
}

/// The access that an open denies to others (RFC 8881 section 18.16, share_deny).
pub mod share_deny {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// To read.
    pub const READ: u32 = 1;
    /// To write.
    pub const WRITE: u32 = 2;
    /// Both.
    pub const BOTH: u32 = 3;
}

/// Flags in the result of OPEN (RFC 8881 section 18.16, rflags).
pub mod open_result {
    /// The open must be confirmed with OPEN_CONFIRM. Only NFSv4.0.
    pub const CONFIRM: u32 = 0x02;
    /// Locks have POSIX semantics.
    pub const LOCKTYPE_POSIX: u32 = 0x04;
    /// An open file is preserved when it is removed.
    pub const PRESERVE_UNLINKED: u32 = 0x08;
    /// CB_NOTIFY_LOCK may be sent.
    pub const MAY_NOTIFY_LOCK: u32 = 0x20;
}

xdr! {
    /// An exclusive create with attributes (RFC 8881 section 18.16, creatverfattr).
    pub struct CreateVerfAttr<'a> {
        /// Identifies the create in retransmissions.
        pub verf: Verifier4,
        /// The attributes.
        pub attrs: Fattr4<'a>,
    }

    /// How OPEN creates a file (RFC 8881 section 18.16, createhow4).
    pub union CreateHow4<'a> {
        /// Opens the file if it exists.
        Unchecked(attributes: Fattr4<'a>) = 0,
        /// Fails if the file exists.
        Guarded(attributes: Fattr4<'a>) = 1,
        /// Fails if the file exists and was not created with this verifier.
        Exclusive(verifier: Verifier4) = 2,
        /// The same with attributes. Not in NFSv4.0.
        Exclusive41(both: CreateVerfAttr<'a>) = 3,
    }

    /// A claim by a delegation (RFC 8881 section 18.16, open_claim_delegate_cur4).
    pub struct OpenClaimDelegateCur4<'a> {
        /// The delegation.
        pub delegate_stateid: Stateid4,
        /// The name in the current directory.
        pub file: Component4<'a>,
    }

    /// The file to open and the claim to it (RFC 8881 section 18.16, open_claim4).
    pub union OpenClaim4<'a> {
        /// A name in the current directory.
        Null(file: Component4<'a>) = 0,
        /// The current file, reclaimed after a restart of the server with this delegation.
        Previous(delegate_type: OpenDelegationType4) = 1,
        /// A name in the current directory, by a delegation.
        DelegateCur(info: OpenClaimDelegateCur4<'a>) = 2,
        /// A name in the current directory, by a delegation from before a restart of the client.
        DelegatePrev(file: Component4<'a>) = 3,
        /// The current file. Not in NFSv4.0.
        Fh = 4,
        /// The current file, by a delegation. Not in NFSv4.0.
        DelegCurFh(stateid: Stateid4) = 5,
        /// The current file, by a delegation from before a restart of the client. Not in NFSv4.0.
        DelegPrevFh = 6,
    }
}

impl OpenClaim4<'_> {
    /// Whether this reclaims state after a restart of the server.
    #[must_use]
    pub const fn is_reclaim(&self) -> bool {
        matches!(self, Self::Previous(_))
    }
}

xdr! {
    /// The arguments of OPEN (RFC 8881 section 18.16).
    pub struct OpenArgs<'a> {
        /// The owner's next seqid. Only NFSv4.0.
        pub seqid: Seqid4,
        /// Bits of [`share_access`].
        pub share_access: u32,
        /// Bits of [`share_deny`].
        pub share_deny: u32,
        /// The open owner.
        pub owner: StateOwner4<'a>,
        /// How to create the file (openflag4); `None` opens an existing one.
        pub openhow: Option<CreateHow4<'a>>,
        /// The file to open, and the claim to it.
        pub claim: OpenClaim4<'a>,
    }

    /// OPEN succeeded. The file is the current one.
    pub struct OpenOk<'a> {
        /// The open.
        pub stateid: Stateid4,
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
        /// Bits of [`open_result`].
        pub rflags: u32,
        /// The attributes that were set.
        pub attrset: AttrMask,
        /// The delegation.
        pub delegation: OpenDelegation4<'a>,
    }

    /// The arguments of OPEN_CONFIRM (RFC 7530 section 16.18). Only NFSv4.0.
    pub struct OpenConfirmArgs {
        /// The open.
        pub open_stateid: Stateid4,
        /// The next sequence id of the owner.
        pub seqid: Seqid4,
    }

    /// OPEN_CONFIRM succeeded.
    pub struct OpenConfirmOk {
        /// The open.
        pub open_stateid: Stateid4,
    }

    /// The arguments of OPEN_DOWNGRADE (RFC 8881 section 18.18).
    pub struct OpenDowngradeArgs {
        /// The open.
        pub open_stateid: Stateid4,
        /// The owner's next seqid. Only NFSv4.0.
        pub seqid: Seqid4,
        /// Bits of [`share_access`] to keep.
        pub share_access: u32,
        /// Bits of [`share_deny`] to keep.
        pub share_deny: u32,
    }

    /// OPEN_DOWNGRADE succeeded.
    pub struct OpenDowngradeOk {
        /// The open.
        pub open_stateid: Stateid4,
    }

    /// The arguments of CLOSE (RFC 8881 section 18.2).
    pub struct CloseArgs {
        /// The owner's next seqid. Only NFSv4.0.
        pub seqid: Seqid4,
        /// The open.
        pub open_stateid: Stateid4,
    }

    /// CLOSE succeeded.
    pub struct CloseOk {
        /// The closed open; [`Stateid4::INVALID`] since NFSv4.1.
        pub open_stateid: Stateid4,
    }
}
