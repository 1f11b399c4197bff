//! The Network Lock Manager, version 4 (X/Open XNFS version 3W chapter 10, with the changes of RFC 1813 appendix II):
//! locks of NFSv3.
//!
//! Each procedure but those for DOS exists twice: with a reply, or as a message (`*_MSG`) that is answered by a call of its
//! own (`*_RES`) and has an empty reply. Both have the same arguments and results. GRANTED is what a server calls at its
//! client.

use crate::limits::{NETOBJ_BYTES_MAX, NLM_STRING_BYTES_MAX};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

#[cfg(test)]
mod tests;

/// The program number.
pub const PROGRAM: u32 = 100_021;
/// The version number; versions 1 to 3 belong to NFSv2.
pub const VERSION: u32 = 4;

xdr_enum! {
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
    /// | SM_NOTIFY | [`SmStatus`] | – |
    /// | SHARE, UNSHARE | [`ShareArgs`] | [`ShareRes`] |
    /// | FREE_ALL | [`Notify`] | – |
    ///
    /// The result of a `*_MSG` is the arguments of the `*_RES`; both have empty results.
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Would a lock be denied?
        Test = 1,
        /// Lock.
        Lock = 2,
        /// Do not wait for a lock any more.
        Cancel = 3,
        /// Unlock.
        Unlock = 4,
        /// A lock that was waited for is there.
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
        /// The answer to TEST_MSG.
        TestRes = 11,
        /// The answer to LOCK_MSG.
        LockRes = 12,
        /// The answer to CANCEL_MSG.
        CancelRes = 13,
        /// The answer to UNLOCK_MSG.
        UnlockRes = 14,
        /// The answer to GRANTED_MSG.
        GrantedRes = 15,
        /// The status monitor tells its own lock manager that a host restarted. Not from the network.
        SmNotify = 16,
        /// Open a file with a share reservation.
        Share = 20,
        /// Close it.
        Unshare = 21,
        /// Lock without monitoring.
        NmLock = 22,
        /// A client that is not monitored restarted.
        FreeAll = 23,
    }
}

xdr_enum! {
    /// What became of a request (XNFS section 10.2, nlm4_stats).
    pub enum Nlm4Stats {
        /// It succeeded.
        Granted = 0,
        /// A lock or share is in the way.
        Denied = 1,
        /// The server has no room.
        DeniedNolocks = 2,
        /// The client waits; GRANTED will come.
        Blocked = 3,
        /// The server restarted and lets clients reclaim first.
        DeniedGracePeriod = 4,
        /// To wait would be a deadlock.
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
}

xdr_bytes! {
    /// Opaque bytes: a cookie, a file handle, a lock owner (XNFS section 10.2, netobj).
    pub struct Netobj max NETOBJ_BYTES_MAX
}

xdr_bytes! {
    /// The name of a host (XNFS section 10.2, caller_name).
    pub struct HostName max NLM_STRING_BYTES_MAX
}

xdr_struct! {
    /// Who has a lock, and which (XNFS section 10.2, nlm4_holder).
    pub struct Nlm4Holder<'a> {
        /// Whether the lock is exclusive.
        pub exclusive: bool,
        /// The process.
        pub svid: u32,
        /// The owner.
        pub oh: Netobj<'a>,
        /// Where the lock begins, in bytes.
        pub l_offset: u64,
        /// How long it is, in bytes; 0 is to the end of all files.
        pub l_len: u64,
    }
}

xdr_struct! {
    /// A lock (XNFS section 10.2, nlm4_lock).
    pub struct Nlm4Lock<'a> {
        /// The client's name for itself; the status monitor will use it.
        pub caller_name: HostName<'a>,
        /// The file.
        pub fh: Netobj<'a>,
        /// The owner, within the client.
        pub oh: Netobj<'a>,
        /// The process. The owner together with it says whose lock it is.
        pub svid: u32,
        /// Where the lock begins, in bytes.
        pub l_offset: u64,
        /// How long it is, in bytes; 0 is to the end of all files.
        pub l_len: u64,
    }
}

xdr_struct! {
    /// The arguments of TEST and GRANTED (nlm4_testargs).
    pub struct TestArgs<'a> {
        /// Chosen by the caller; the result has it, too.
        pub cookie: Netobj<'a>,
        /// Whether the lock is exclusive.
        pub exclusive: bool,
        /// The lock.
        pub alock: Nlm4Lock<'a>,
    }
}

xdr_struct! {
    /// The arguments of LOCK and NM_LOCK (nlm4_lockargs).
    pub struct LockArgs<'a> {
        /// Chosen by the caller; the result has it, too.
        pub cookie: Netobj<'a>,
        /// Whether the client waits if the lock is denied.
        pub block: bool,
        /// Whether the lock is exclusive.
        pub exclusive: bool,
        /// The lock.
        pub alock: Nlm4Lock<'a>,
        /// Whether it was held before the server restarted.
        pub reclaim: bool,
        /// The state of the client's status monitor.
        pub state: i32,
    }
}

xdr_struct! {
    /// The arguments of CANCEL (nlm4_cancargs).
    pub struct CancelArgs<'a> {
        /// Chosen by the caller; the result has it, too.
        pub cookie: Netobj<'a>,
        /// As it was in LOCK.
        pub block: bool,
        /// As it was in LOCK.
        pub exclusive: bool,
        /// As it was in LOCK.
        pub alock: Nlm4Lock<'a>,
    }
}

xdr_struct! {
    /// The arguments of UNLOCK (nlm4_unlockargs).
    pub struct UnlockArgs<'a> {
        /// Chosen by the caller; the result has it, too.
        pub cookie: Netobj<'a>,
        /// What to unlock.
        pub alock: Nlm4Lock<'a>,
    }
}

xdr_struct! {
    /// The result of everything but TEST and shares (nlm4_res).
    pub struct Res<'a> {
        /// That of the arguments.
        pub cookie: Netobj<'a>,
        /// What became of it.
        pub stat: Nlm4Stats,
    }
}

/// What TEST found (nlm4_testrply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestReply<'a> {
    /// The lock that is in the way: [`Nlm4Stats::Denied`].
    Denied(Nlm4Holder<'a>),
    /// Anything else; never [`Nlm4Stats::Denied`], writing that panics.
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
                assert_ne!(*stat, Nlm4Stats::Denied, "a lock that is in the way is told");
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

xdr_struct! {
    /// The result of TEST (nlm4_testres).
    pub struct TestRes<'a> {
        /// That of the arguments.
        pub cookie: Netobj<'a>,
        /// What it found.
        pub stat: TestReply<'a>,
    }
}

xdr_struct! {
    /// What a status monitor tells its own lock manager (nlm_sm_status; also the `status` of SM_MON).
    pub struct SmStatus<'a> {
        /// The host that restarted.
        pub mon_name: HostName<'a>,
        /// The new state of its status monitor.
        pub state: i32,
        /// As it was in SM_MON.
        pub private: [u8; 16],
    }
}

xdr_enum! {
    /// What a share denies to others (XNFS section 10.2, fsh4_mode).
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
}

xdr_enum! {
    /// What a share is for (XNFS section 10.2, fsh4_access).
    pub enum Fsh4Access {
        /// Neither to read nor to write.
        None = 0,
        /// To read.
        Read = 1,
        /// To write.
        Write = 2,
        /// Both.
        ReadWrite = 3,
    }
}

xdr_struct! {
    /// A share reservation (XNFS section 10.2, nlm4_share).
    pub struct Nlm4Share<'a> {
        /// The client's name for itself.
        pub caller_name: HostName<'a>,
        /// The file.
        pub fh: Netobj<'a>,
        /// The owner, within the client.
        pub oh: Netobj<'a>,
        /// What it denies to others.
        pub mode: Fsh4Mode,
        /// What it is for.
        pub access: Fsh4Access,
    }
}

xdr_struct! {
    /// The arguments of SHARE and UNSHARE (nlm4_shareargs).
    pub struct ShareArgs<'a> {
        /// Chosen by the caller; the result has it, too.
        pub cookie: Netobj<'a>,
        /// The share.
        pub share: Nlm4Share<'a>,
        /// Whether it was held before the server restarted.
        pub reclaim: bool,
    }
}

xdr_struct! {
    /// The result of SHARE and UNSHARE (nlm4_shareres).
    pub struct ShareRes<'a> {
        /// That of the arguments.
        pub cookie: Netobj<'a>,
        /// What became of it.
        pub stat: Nlm4Stats,
        /// Means nothing.
        pub sequence: i32,
    }
}

xdr_struct! {
    /// The arguments of FREE_ALL (nlm4_notify).
    pub struct Notify<'a> {
        /// The client that restarted.
        pub name: HostName<'a>,
        /// Means nothing.
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
