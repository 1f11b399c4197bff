//! Delegations: what OPEN grants, DELEGPURGE, DELEGRETURN, WANT_DELEGATION, GET_DIR_DELEGATION.

use super::{Bitmap4, ClientId4, Nfsace4, Nfstime4, Res4, Stateid4};

xdr_enum! {
    /// A kind of delegation (RFC 8881 section 18.16, open_delegation_type4; RFC 9754).
    pub enum OpenDelegationType4 {
        /// None.
        None = 0,
        /// To read.
        Read = 1,
        /// To write.
        Write = 2,
        /// None, with the reason. Not in NFSv4.0.
        NoneExt = 3,
        /// To read, with the time of the last read.
        ReadAttrsDeleg = 4,
        /// To write, with the times.
        WriteAttrsDeleg = 5,
    }
}

xdr_struct! {
    /// A delegation to read (RFC 8881 section 18.16, open_read_delegation4).
    pub struct OpenReadDelegation4<'a> {
        /// The delegation.
        pub stateid: Stateid4,
        /// Whether it is recalled at once, as a reclaimed one may be.
        pub recall: bool,
        /// Who may read without asking with ACCESS.
        pub permissions: Nfsace4<'a>,
    }
}

xdr_union! {
    /// When a client that holds a delegation must write back (RFC 8881 section 18.16, nfs_space_limit4).
    pub enum NfsSpaceLimit4 {
        /// When the file would be larger than this, in bytes.
        Filesize(bytes: u64) = 1,
        /// When more than so many blocks are changed.
        ModBlocks {
            /// How many blocks.
            num_blocks: u32,
            /// The size of a block.
            bytes_per_block: u32,
        } = 2,
    }
}

xdr_struct! {
    /// A delegation to write (RFC 8881 section 18.16, open_write_delegation4).
    pub struct OpenWriteDelegation4<'a> {
        /// The delegation.
        pub stateid: Stateid4,
        /// Whether it is recalled at once, as a reclaimed one may be.
        pub recall: bool,
        /// When the client must write back.
        pub space_limit: NfsSpaceLimit4,
        /// Who may open without asking with ACCESS.
        pub permissions: Nfsace4<'a>,
    }
}

xdr_union! {
    /// Why there is no delegation (RFC 8881 section 18.16, open_none_delegation4).
    pub enum OpenNoneDelegation4 {
        /// It was not wanted.
        NotWanted = 0,
        /// Others use the file.
        Contention {
            /// Whether the server will give it later.
            server_will_push_deleg: bool,
        } = 1,
        /// The server has no room.
        Resource {
            /// Whether the server will tell when it has.
            server_will_signal_avail: bool,
        } = 2,
        /// Not for this type of file.
        NotSuppFtype = 3,
        /// Not to write, for this type of file.
        WriteDelegNotSuppFtype = 4,
        /// Delegations cannot be upgraded.
        NotSuppUpgrade = 5,
        /// Delegations cannot be downgraded.
        NotSuppDowngrade = 6,
        /// The wish was taken back.
        Cancelled = 7,
        /// It is a directory.
        IsDir = 8,
    }
}

xdr_union! {
    /// A delegation, or why there is none (RFC 8881 section 18.16, open_delegation4).
    pub enum OpenDelegation4<'a> {
        /// None.
        None = 0,
        /// To read.
        Read(delegation: OpenReadDelegation4<'a>) = 1,
        /// To write.
        Write(delegation: OpenWriteDelegation4<'a>) = 2,
        /// None, and why. Not in NFSv4.0.
        NoneExt(why: OpenNoneDelegation4) = 3,
        /// To read, with the time of the last read (RFC 9754).
        ReadAttrs(delegation: OpenReadDelegation4<'a>) = 4,
        /// To write, with the times (RFC 9754).
        WriteAttrs(delegation: OpenWriteDelegation4<'a>) = 5,
    }
}

impl OpenDelegation4<'_> {
    /// The kind.
    #[must_use]
    pub const fn delegation_type(&self) -> OpenDelegationType4 {
        match self {
            Self::None => OpenDelegationType4::None,
            Self::Read(_) => OpenDelegationType4::Read,
            Self::Write(_) => OpenDelegationType4::Write,
            Self::NoneExt(_) => OpenDelegationType4::NoneExt,
            Self::ReadAttrs(_) => OpenDelegationType4::ReadAttrsDeleg,
            Self::WriteAttrs(_) => OpenDelegationType4::WriteAttrsDeleg,
        }
    }
}

xdr_struct! {
    /// The arguments of DELEGPURGE (RFC 8881 section 18.5).
    pub struct DelegpurgeArgs {
        /// Whose delegations of before its restart are to be forgotten.
        pub clientid: ClientId4,
    }
}

/// The result of DELEGPURGE.
pub type DelegpurgeRes = Res4<()>;

xdr_struct! {
    /// The arguments of DELEGRETURN (RFC 8881 section 18.6).
    pub struct DelegreturnArgs {
        /// The delegation.
        pub deleg_stateid: Stateid4,
    }
}

/// The result of DELEGRETURN.
pub type DelegreturnRes = Res4<()>;

xdr_union! {
    /// By which right WANT_DELEGATION asks (RFC 8881 section 18.49, deleg_claim4).
    pub enum DelegClaim4 {
        /// The current file, which was delegated so before the server restarted.
        Previous(delegate_type: OpenDelegationType4) = 1,
        /// The current file.
        Fh = 4,
        /// The current file, which was delegated before the client restarted.
        DelegPrevFh = 6,
    }
}

xdr_struct! {
    /// The arguments of WANT_DELEGATION (RFC 8881 section 18.49).
    pub struct WantDelegationArgs {
        /// Wishes of [`share_access`](super::share_access).
        pub want: u32,
        /// The claim.
        pub claim: DelegClaim4,
    }
}

xdr_struct! {
    /// The arguments of GET_DIR_DELEGATION (RFC 8881 section 18.39).
    pub struct GetDirDelegationArgs {
        /// Whether the client wants to be told when a delegation could be had.
        pub signal_deleg_avail: bool,
        /// Of what the client wants to be notified.
        pub notification_types: Bitmap4,
        /// By how much notifications about entries may be late.
        pub child_attr_delay: Nfstime4,
        /// By how much notifications about the directory may be late.
        pub dir_attr_delay: Nfstime4,
        /// The attributes of entries that are notified.
        pub child_attributes: Bitmap4,
        /// The attributes of the directory that are notified.
        pub dir_attributes: Bitmap4,
    }
}
