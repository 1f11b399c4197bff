//! Locks of byte ranges: LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER.

use super::{NfsStat4, Seqid4, StateOwner4, Stateid4};

xdr! {
    /// The kind of a lock (RFC 8881 section 3.2, nfs_lock_type4).
    pub enum NfsLockType4 {
        /// Shared.
        Read = 1,
        /// Exclusive.
        Write = 2,
        /// Shared; the client retries if it is denied.
        ReadW = 3,
        /// Exclusive; the client retries if it is denied.
        WriteW = 4,
    }
}

impl NfsLockType4 {
    /// Whether the lock is exclusive.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Write | Self::WriteW)
    }

    /// Whether the client retries if the lock is denied.
    #[must_use]
    pub const fn is_blocking(self) -> bool {
        matches!(self, Self::ReadW | Self::WriteW)
    }
}

xdr! {
    /// A lock owner without locks on the file (RFC 8881 section 18.10, open_to_lock_owner4).
    pub struct OpenToLockOwner4<'a> {
        /// The open owner's next seqid. Only NFSv4.0.
        pub open_seqid: Seqid4,
        /// The open that allows the lock.
        pub open_stateid: Stateid4,
        /// The lock owner's first seqid. Only NFSv4.0.
        pub lock_seqid: Seqid4,
        /// The lock owner.
        pub lock_owner: StateOwner4<'a>,
    }

    /// A lock owner with locks on the file (RFC 8881 section 18.10, exist_lock_owner4).
    pub struct ExistLockOwner4 {
        /// The locks of this owner on the file.
        pub lock_stateid: Stateid4,
        /// The lock owner's next seqid. Only NFSv4.0.
        pub lock_seqid: Seqid4,
    }

    /// The owner of a lock (RFC 8881 section 18.10, locker4).
    pub union Locker4<'a> {
        /// An owner without locks on the file.
        OpenOwner(owner: OpenToLockOwner4<'a>) = 1,
        /// An owner with locks on the file.
        LockOwner(owner: ExistLockOwner4) = 0,
    }

    /// The arguments of LOCK (RFC 8881 section 18.10).
    pub struct LockArgs<'a> {
        /// The kind.
        pub locktype: NfsLockType4,
        /// Whether the client reclaims the lock after a restart of the server.
        pub reclaim: bool,
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes; `u64::MAX` means no upper bound.
        pub length: u64,
        /// The owner.
        pub locker: Locker4<'a>,
    }

    /// The conflicting lock (RFC 8881 section 18.10, LOCK4denied).
    pub struct LockDenied<'a> {
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes.
        pub length: u64,
        /// Its kind.
        pub locktype: NfsLockType4,
        /// The owner.
        pub owner: StateOwner4<'a>,
    }

    /// LOCK succeeded.
    pub struct LockOk {
        /// The locks of this owner on the file.
        pub lock_stateid: Stateid4,
    }
}

xdr_failure! {
    /// LOCK or LOCKT failed.
    pub enum LockFail<'a> {
        /// A lock of another owner conflicts.
        Denied(LockDenied<'a>) = Denied
    }
}

xdr! {
    /// The arguments of LOCKT (RFC 8881 section 18.11), which tests whether a lock would be denied.
    pub struct LocktArgs<'a> {
        /// The kind.
        pub locktype: NfsLockType4,
        /// The offset of the lock in bytes.
        pub offset: u64,
        /// The length of the lock in bytes; `u64::MAX` means no upper bound.
        pub length: u64,
        /// The owner.
        pub owner: StateOwner4<'a>,
    }

    /// The arguments of LOCKU (RFC 8881 section 18.12).
    pub struct LockuArgs {
        /// The kind; unused.
        pub locktype: NfsLockType4,
        /// The lock owner's next seqid. Only NFSv4.0.
        pub seqid: Seqid4,
        /// The locks of this owner on the file.
        pub lock_stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes; `u64::MAX` means no upper bound.
        pub length: u64,
    }

    /// LOCKU succeeded.
    pub struct LockuOk {
        /// The locks of this owner on the file.
        pub lock_stateid: Stateid4,
    }

    /// The arguments of RELEASE_LOCKOWNER (RFC 7530 section 16.37). Only NFSv4.0.
    pub struct ReleaseLockownerArgs<'a> {
        /// The lock owner whose state is released.
        pub lock_owner: StateOwner4<'a>,
    }
}
