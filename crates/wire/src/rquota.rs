//! RQUOTA, versions 1 and 2: asks a server for the quota of a user or group. No RFC describes it: version 1 is `rquota.x` of
//! Sun's RPC sources, which C libraries install; version 2, and the procedures that set quotas, are extensions of Linux's quota
//! tools.

use crate::limits::MOUNT_PATH_BYTES_MAX;

#[cfg(test)]
mod tests;

/// The program number.
pub const PROGRAM: u32 = 100_011;
/// The version that knows users only.
pub const VERSION_USERS: u32 = 1;
/// The version whose arguments say what kind of owner is meant.
pub const VERSION_KINDS: u32 = 2;

/// A user, in [`GetQuotaArgs2::kind`].
pub const KIND_USER: u32 = 0;
/// A group.
pub const KIND_GROUP: u32 = 1;

/// The status that a [`QuotaRes`] begins with: Q_OK,
pub const STATUS_OK: u32 = 1;
/// Q_NOQUOTA,
pub const STATUS_NO_QUOTA: u32 = 2;
/// or Q_EPERM.
pub const STATUS_PERM: u32 = 3;

xdr! {
    /// The procedures, which differ between versions only in their arguments.
    ///
    /// | procedure | arguments in version 1 | in version 2 | results |
    /// |---|---|---|---|
    /// | NULL | – | – | – |
    /// | GETQUOTA, GETACTIVEQUOTA | [`GetQuotaArgs1`] | [`GetQuotaArgs2`] | [`QuotaRes`] |
    /// | SETQUOTA, SETACTIVEQUOTA | [`SetQuotaArgs1`] | [`SetQuotaArgs2`] | [`QuotaRes`] |
    pub enum Procedure {
        /// Do nothing.
        Null = 0 "NULL",
        /// Get a quota.
        GetQuota = 1 "GETQUOTA",
        /// Get a quota if its limits are enforced.
        GetActiveQuota = 2 "GETACTIVEQUOTA",
        /// Set a quota.
        SetQuota = 3 "SETQUOTA",
        /// Set a quota if its limits are enforced.
        SetActiveQuota = 4 "SETACTIVEQUOTA",
    }

    /// The path of a file system as the client mounted it. Of one that is mounted with NFSv4, the quota tools omit the first
    /// slash, unless they are told otherwise.
    pub opaque Path max MOUNT_PATH_BYTES_MAX;

    /// The arguments of GETQUOTA and GETACTIVEQUOTA in version 1 (getquota_args).
    pub struct GetQuotaArgs1<'a> {
        /// The file system.
        pub path: Path<'a>,
        /// The user.
        pub uid: u32,
    }

    /// The arguments of GETQUOTA and GETACTIVEQUOTA in version 2 (ext_getquota_args).
    pub struct GetQuotaArgs2<'a> {
        /// The file system.
        pub path: Path<'a>,
        /// [`KIND_USER`] or [`KIND_GROUP`]; other numbers, such as that of projects, are no error of the codec.
        pub kind: u32,
        /// The user or group.
        pub id: u32,
    }

    /// What SETQUOTA is to set, in blocks of 1 KiB (sq_dqblk).
    pub struct NewQuota {
        /// The hard limit on blocks; 0 for none.
        pub block_hard_limit: u32,
        /// The soft limit on blocks; 0 for none.
        pub block_soft_limit: u32,
        /// Blocks in use.
        pub blocks: u32,
        /// The hard limit on files; 0 for none.
        pub file_hard_limit: u32,
        /// The soft limit on files; 0 for none.
        pub file_soft_limit: u32,
        /// Files in use.
        pub files: u32,
        /// Seconds left until the soft limit on blocks holds.
        pub block_time_left: u32,
        /// Seconds left until the soft limit on files holds.
        pub file_time_left: u32,
    }

    /// The arguments of SETQUOTA and SETACTIVEQUOTA in version 1 (setquota_args).
    pub struct SetQuotaArgs1<'a> {
        /// A command of quotactl(2).
        pub command: u32,
        /// The file system.
        pub path: Path<'a>,
        /// The user.
        pub id: u32,
        /// What to set.
        pub new: NewQuota,
    }

    /// The arguments of SETQUOTA and SETACTIVEQUOTA in version 2 (ext_setquota_args).
    pub struct SetQuotaArgs2<'a> {
        /// A command of quotactl(2).
        pub command: u32,
        /// The file system.
        pub path: Path<'a>,
        /// The user or group.
        pub id: u32,
        /// What the id is of.
        pub kind: u32,
        /// What to set.
        pub new: NewQuota,
    }

    /// A quota (rquota).
    pub struct Quota {
        /// Bytes of a block: a power of two.
        pub block_bytes: u32,
        /// Whether the limits are enforced.
        pub is_active: bool,
        /// The hard limit on blocks; 0 for none.
        pub block_hard_limit: u32,
        /// The soft limit on blocks; 0 for none.
        pub block_soft_limit: u32,
        /// Blocks in use.
        pub blocks: u32,
        /// The hard limit on files; 0 for none.
        pub file_hard_limit: u32,
        /// The soft limit on files; 0 for none.
        pub file_soft_limit: u32,
        /// Files in use.
        pub files: u32,
        /// Seconds left until the soft limit on blocks, which is exceeded, holds; negative since it does, as the quota tools
        /// understand it, and 0 if it is not exceeded.
        pub block_time_left: i32,
        /// The same of the soft limit on files.
        pub file_time_left: i32,
    }

    /// The result of all procedures but NULL (getquota_rslt, setquota_rslt).
    pub union QuotaRes {
        /// The quota (Q_OK).
        Quota(quota: Quota) = STATUS_OK,
        /// There is no such file system, or no quota (Q_NOQUOTA).
        NoQuota = STATUS_NO_QUOTA,
        /// The caller may not do this (Q_EPERM).
        Perm = STATUS_PERM,
    }
}
