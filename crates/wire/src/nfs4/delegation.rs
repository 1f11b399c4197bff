//! Delegations: what OPEN grants, DELEGPURGE, DELEGRETURN, WANT_DELEGATION, GET_DIR_DELEGATION.

use super::{Bitmap4, ClientId4, NfsTime4, Nfsace4, Stateid4};

xdr! {
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
        /// To read, with the time of the last access.
        ReadAttrsDeleg = 4,
        /// To write, with the times.
        WriteAttrsDeleg = 5,
    }

    /// A delegation to read (RFC 8881 section 18.16, open_read_delegation4).
    pub struct OpenReadDelegation4<'a> {
        /// The delegation.
        pub stateid: Stateid4,
        /// Whether it is recalled immediately, as can happen to a reclaimed one.
        pub recall: bool,
        /// The users that may read without an ACCESS.
        pub permissions: Nfsace4<'a>,
    }

    /// The limit up to which the holder of a delegation may delay writes (RFC 8881 section 18.16, nfs_space_limit4).
    pub union NfsSpaceLimit4 {
        /// The size of the file in bytes.
        Filesize(bytes: u64) = 1,
        /// The number of modified blocks.
        ModBlocks {
            /// The number of blocks.
            num_blocks: u32,
            /// The size of a block in bytes.
            bytes_per_block: u32,
        } = 2,
    }

    /// A delegation to write (RFC 8881 section 18.16, open_write_delegation4).
    pub struct OpenWriteDelegation4<'a> {
        /// The delegation.
        pub stateid: Stateid4,
        /// Whether it is recalled immediately, as can happen to a reclaimed one.
        pub recall: bool,
        /// The limit for delayed writes.
        pub space_limit: NfsSpaceLimit4,
        /// The users that may open without an ACCESS.
        pub permissions: Nfsace4<'a>,
    }

    /// Why no delegation was granted (RFC 8881 section 18.16, open_none_delegation4).
    pub union OpenNoneDelegation4 {
        /// The client did not request one.
        NotWanted = 0,
        /// Other clients use the file.
        Contention {
            /// Whether the server will offer it later.
            server_will_push_deleg: bool,
        } = 1,
        /// The server lacks resources.
        Resource {
            /// Whether the server will signal when it is available.
            server_will_signal_avail: bool,
        } = 2,
        /// The type of the file does not support delegations.
        NotSuppFtype = 3,
        /// The type of the file does not support write delegations.
        WriteDelegNotSuppFtype = 4,
        /// Delegations cannot be upgraded.
        NotSuppUpgrade = 5,
        /// Delegations cannot be downgraded.
        NotSuppDowngrade = 6,
        /// The client cancelled its request.
        Cancelled = 7,
        /// The object is a directory.
        IsDir = 8,
    }

    /// A delegation, or the reason for none (RFC 8881 section 18.16, open_delegation4).
    pub union OpenDelegation4<'a> {
        /// None.
        None = 0,
        /// To read.
        Read(delegation: OpenReadDelegation4<'a>) = 1,
        /// To write.
        Write(delegation: OpenWriteDelegation4<'a>) = 2,
        /// None, with the reason. Not in NFSv4.0.
        NoneExt(why: OpenNoneDelegation4) = 3,
        /// To read, with the time of the last access (RFC 9754).
        ReadAttrs(delegation: OpenReadDelegation4<'a>) = 4,
        /// To write, with the times (RFC 9754).
        WriteAttrs(delegation: OpenWriteDelegation4<'a>) = 5,
    }

    /// The arguments of DELEGPURGE (RFC 8881 section 18.5).
    pub struct DelegpurgeArgs {
        /// The client whose delegations from before its restart are released.
        pub clientid: ClientId4,
    }

    /// The arguments of DELEGRETURN (RFC 8881 section 18.6).
    pub struct DelegreturnArgs {
        /// The delegation.
        pub deleg_stateid: Stateid4,
    }

    /// The claim of WANT_DELEGATION (RFC 8881 section 18.49, deleg_claim4).
    pub union DelegClaim4 {
        /// The current file, whose delegation is reclaimed after a restart of the server.
        Previous(delegate_type: OpenDelegationType4) = 1,
        /// The current file.
        Fh = 4,
        /// The current file, delegated before a restart of the client.
        DelegPrevFh = 6,
    }

    /// The arguments of WANT_DELEGATION (RFC 8881 section 18.49).
    pub struct WantDelegationArgs {
        /// Delegation requests of [`share_access`](super::share_access).
        pub want: u32,
        /// The claim.
        pub claim: DelegClaim4,
    }

    /// The arguments of GET_DIR_DELEGATION (RFC 8881 section 18.39).
    pub struct GetDirDelegationArgs {
        /// Whether the client requests a signal when a delegation becomes available.
        pub signal_deleg_avail: bool,
        /// The notifications that the client requests.
        pub notification_types: Bitmap4,
        /// The maximum delay of notifications about entries.
        pub child_attr_delay: NfsTime4,
        /// The maximum delay of notifications about the directory.
        pub dir_attr_delay: NfsTime4,
        /// The attributes of entries in notifications.
        pub child_attributes: Bitmap4,
        /// The attributes of the directory in notifications.
        pub dir_attributes: Bitmap4,
    }
}
