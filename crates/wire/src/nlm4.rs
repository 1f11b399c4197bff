//! The Network Lock Manager, version 4 (X/Open XNFS version 3W chapter 10, with the changes of RFC 1813 appendix II): the
//! locks of NFSv3.
//!
//! Most procedures exist in two forms: with a result, or as a message (`*_MSG`), which has an empty reply and is answered by
//! a call in the other direction (`*_RES`). Both have the same arguments and results. Servers call GRANTED at clients.

use crate::limits::{NETOBJ_BYTES_MAX, NLM_STRING_BYTES_MAX};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

#[cfg(test)]
mod tests;

/// The program number.
pub const PROGRAM: u32 = 100_021;
/// The version number; versions 1 to 3 belong to NFSv2.
pub const VERSION: u32 = 4;

xdr! {
    /// The procedures (XNFS section 10.3).
    ///
    /// | procedure | arguments | result |
    /// |---|---|---|
    /// | NULL | – | – |
    /// | TEST, TEST_MSG | [`TestArgs`] | [`TestRes`] |
    /// | LOCK, NM_LOCK, LOCK_MSG | [`LockArgs`] | [`Res`] |
    /// | CANCEL, CANCEL_MSG | [`CancelArgs`] | [`Res`] |
    /// | UNLOCK, UNLOCK_MSG | [`UnlockArgs`] | [`Res`] |
    /// | GRANTED, GRANTED_MSG | [`TestArgs`] | [`Res`] |
    /// | SHARE, UNSHARE | [`ShareArgs`] | [`ShareRes`] |
    /// | FREE_ALL | [`Notify`] | – |
    ///
    /// The result of a `*_MSG` is sent as the arguments of the `*_RES`; both have empty results.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Test whether a lock would be denied.
        Test = 1,
        /// Lock.
        Lock = 2,
        /// Stop waiting for a lock.
        Cancel = 3,
        /// Unlock.
        Unlock = 4,
        /// A lock that the client waited for is granted.
        Granted = 5,
        /// TEST as a message.
        TestMsg = 6,
        /// LOCK as a message.
        LockMsg = 7,
        /// CANCEL as a message.
        CancelMsg = 8,
        /// UNLOCK as a message.
        UnlockMsg = 9,
        /// GRANTED as a message.
        GrantedMsg = 10,
        /// The result of TEST_MSG.
        TestRes = 11,
        /// The result of LOCK_MSG.
        LockRes = 12,
        /// The result of CANCEL_MSG.
        CancelRes = 13,
        /// The result of UNLOCK_MSG.
        UnlockRes = 14,
        /// The result of GRANTED_MSG.
        GrantedRes = 15,
        /// The local status monitor reports the restart of a host. Not for callers from the network.
        SmNotify = 16,
        /// Open a file with a share reservation.
        Share = 20,
        /// Close a file that was opened with SHARE.
        Unshare = 21,
        /// Lock without monitoring.
        NmLock = 22,
        /// A client that is not monitored has restarted.
        FreeAll = 23,
    }

    /// The status of a request (XNFS section 10.2, nlm4_stats).
    pub enum Nlm4Stats {
        /// It succeeded.
        Granted = 0,
        /// A lock or share conflicts.
        Denied = 1,
        /// The server lacks resources.
        DeniedNolocks = 2,
        /// The lock is not available yet; GRANTED will follow.
        Blocked = 3,
        /// The server is in its grace period after a restart.
        DeniedGracePeriod = 4,
        /// Waiting would be a deadlock.
        Deadlck = 5,
        /// The file system is read-only.
        Rofs = 6,
        /// The file handle is stale.
        StaleFh = 7,
        /// The range is beyond what the server supports.
        Fbig = 8,
        /// Any other failure.
        Failed = 9,
    }

    /// Opaque bytes: a cookie, a file handle, a lock owner (XNFS section 10.2, netobj).
    pub opaque Netobj max NETOBJ_BYTES_MAX;

    /// The name of a host (XNFS section 10.2, caller_name).
    pub opaque HostName max NLM_STRING_BYTES_MAX;

    /// A lock and its holder (XNFS section 10.2, nlm4_holder).
    pub struct Nlm4Holder<'a> {
        /// Whether the lock is exclusive.
        pub exclusive: bool,
        /// The process.
        pub svid: u32,
        /// The owner.
        pub oh: Netobj<'a>,
        /// The offset of the lock in bytes.
        pub l_offset: u64,
        /// The length in bytes; 0 means no upper bound.
        pub l_len: u64,
    }

    /// A lock (XNFS section 10.2, nlm4_lock).
    pub struct Nlm4Lock<'a> {
        /// The client's name for itself, by which it is monitored.
        pub caller_name: HostName<'a>,
        /// The file.
        pub fh: Netobj<'a>,
        /// The owner, within the client.
        pub oh: Netobj<'a>,
        /// The process. Together with the owner it identifies the holder.
        pub svid: u32,
        /// The offset of the lock in bytes.
        pub l_offset: u64,
        /// The length in bytes; 0 means no upper bound.
        pub l_len: u64,
    }

    /// The arguments of TEST and GRANTED (nlm4_testargs).
    pub struct TestArgs<'a> {
        /// Chosen by the caller and repeated in the result.
        pub cookie: Netobj<'a>,
        /// Whether the lock is exclusive.
        pub exclusive: bool,
        /// The lock.
        pub alock: Nlm4Lock<'a>,
    }

    /// The arguments of LOCK and NM_LOCK (nlm4_lockargs).
    pub struct LockArgs<'a> {
        /// Chosen by the caller and repeated in the result.
        pub cookie: Netobj<'a>,
        /// Whether the client waits for the lock if it is denied.
        pub block: bool,
        /// Whether the lock is exclusive.
        pub exclusive: bool,
        /// The lock.
        pub alock: Nlm4Lock<'a>,
        /// Whether the client reclaims it after a restart of the server.
        pub reclaim: bool,
        /// The state of the client's status monitor.
        pub state: i32,
    }

    /// The arguments of CANCEL (nlm4_cancargs).
    pub struct CancelArgs<'a> {
        /// Chosen by the caller and repeated in the result.
        pub cookie: Netobj<'a>,
        /// As in LOCK.
        pub block: bool,
        /// As in LOCK.
        pub exclusive: bool,
        /// As in LOCK.
        pub alock: Nlm4Lock<'a>,
    }

    /// The arguments of UNLOCK (nlm4_unlockargs).
    pub struct UnlockArgs<'a> {
        /// Chosen by the caller and repeated in the result.
        pub cookie: Netobj<'a>,
        /// The lock to release.
        pub alock: Nlm4Lock<'a>,
    }

    /// The result of the procedures other than TEST, SHARE and UNSHARE (nlm4_res).
    pub struct Res<'a> {
        /// As in the arguments.
        pub cookie: Netobj<'a>,
        /// The status.
        pub stat: Nlm4Stats,
    }
}

/// The outcome of TEST (nlm4_testrply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestReply<'a> {
    /// The conflicting lock: [`Nlm4Stats::Denied`].
    Denied(Nlm4Holder<'a>),
    /// Any other status; encoding [`Nlm4Stats::Denied`] panics.
    Stat(Nlm4Stats),
}

impl Encode for TestReply<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Self::Denied(holder) => {
                Nlm4Stats::Denied.encode(out);
                holder.encode(out);
            }
            Self::Stat(stat) => {
                assert_ne!(*stat, Nlm4Stats::Denied, "a denial names its holder");
                stat.encode(out);
            }
        }
    }
}

impl<'a> Decode<'a> for TestReply<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match Nlm4Stats::decode(input)? {
            Nlm4Stats::Denied => Nlm4Holder::decode(input).map(Self::Denied),
            stat => Ok(Self::Stat(stat)),
        }
    }
}

xdr! {
    /// The result of TEST (nlm4_testres).
    pub struct TestRes<'a> {
        /// As in the arguments.
        pub cookie: Netobj<'a>,
        /// The outcome.
        pub stat: TestReply<'a>,
    }

    /// The access that a share denies to others (XNFS section 10.2, fsh4_mode).
    pub enum Fsh4Mode {
        /// Nothing.
        DenyNone = 0,
        /// To read.
        DenyRead = 1,
        /// To write.
        DenyWrite = 2,
        /// Both.
        DenyReadWrite = 3,
    }

    /// The access of a share (XNFS section 10.2, fsh4_access).
    pub enum Fsh4Access {
        /// None.
        None = 0,
        /// To read.
        Read = 1,
        /// To write.
        Write = 2,
        /// Both.
        ReadWrite = 3,
    }

    /// A share reservation (XNFS section 10.2, nlm4_share).
    pub struct Nlm4Share<'a> {
        /// The client's name for itself.
        pub caller_name: HostName<'a>,
        /// The file.
        pub fh: Netobj<'a>,
        /// The owner, within the client.
        pub oh: Netobj<'a>,
        /// The access that it denies to others.
        pub mode: Fsh4Mode,
        /// Its access.
        pub access: Fsh4Access,
    }

    /// The arguments of SHARE and UNSHARE (nlm4_shareargs).
    pub struct ShareArgs<'a> {
        /// Chosen by the caller and repeated in the result.
        pub cookie: Netobj<'a>,
        /// The share.
        pub share: Nlm4Share<'a>,
        /// Whether the client reclaims it after a restart of the server.
        pub reclaim: bool,
    }

    /// The result of SHARE and UNSHARE (nlm4_shareres).
    pub struct ShareRes<'a> {
        /// As in the arguments.
        pub cookie: Netobj<'a>,
        /// The status.
        pub stat: Nlm4Stats,
        /// Unused.
        pub sequence: i32,
    }

    /// The arguments of FREE_ALL (nlm4_notify).
    pub struct Notify<'a> {
        /// The restarted client.
        pub name: HostName<'a>,
        /// Unused.
        pub state: i32,
    }
}

#[cfg(test)]
impl crate::sample::Sample for TestReply<'_> {
    fn sample(rng: &mut crate::sample::Rng) -> Self {
        match Nlm4Stats::sample(rng) {
            Nlm4Stats::Denied => Self::Denied(crate::sample::Sample::sample(rng)),
            stat => Self::Stat(stat),
        }
    }
}
