//! What became of an operation.

use std::fmt;

xdr_enum! {
    /// What became of an operation or a COMPOUND (RFC 7530 section 13, RFC 8881 section 15, RFC 7862 section 11,
    /// RFC 8276 section 8.5; nfsstat4).
    pub enum NfsStat4 {
        /// It succeeded.
        Ok = 0,
        /// Not the owner.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// A hard error of the media.
        Io = 5,
        /// No such device or address.
        Nxio = 6,
        /// The caller lacks the permission.
        Access = 13,
        /// The file exists.
        Exist = 17,
        /// Two file systems where one is needed.
        Xdev = 18,
        /// Not a directory.
        NotDir = 20,
        /// Is a directory.
        IsDir = 21,
        /// An invalid argument.
        Inval = 22,
        /// The file would be too large.
        Fbig = 27,
        /// No space left on the device.
        NoSpc = 28,
        /// The file system is read-only.
        Rofs = 30,
        /// Too many hard links.
        Mlink = 31,
        /// The name is too long.
        NameTooLong = 63,
        /// The directory is not empty.
        NotEmpty = 66,
        /// The quota is used up.
        Dquot = 69,
        /// The handle refers to a file that is gone.
        Stale = 70,
        /// The handle is not one of this server.
        BadHandle = 10_001,
        /// The READDIR cookie is stale.
        BadCookie = 10_003,
        /// The operation is not supported.
        NotSupp = 10_004,
        /// The answer does not fit what the client allows for it.
        TooSmall = 10_005,
        /// An error of the server that no other value describes.
        ServerFault = 10_006,
        /// The server cannot create objects of this type.
        BadType = 10_007,
        /// Not now; the client is to try again later.
        Delay = 10_008,
        /// NVERIFY found the attributes to be the same.
        Same = 10_009,
        /// Another owner has a lock that conflicts.
        Denied = 10_010,
        /// The lease expired, and the state with it.
        Expired = 10_011,
        /// A lock of another owner forbids the I/O.
        Locked = 10_012,
        /// The server restarted and lets clients reclaim first.
        Grace = 10_013,
        /// The file handle expired.
        FhExpired = 10_014,
        /// A share reservation of another open forbids this one.
        ShareDenied = 10_015,
        /// The security flavor is not the right one.
        WrongSec = 10_016,
        /// Another principal uses this client id string.
        ClidInUse = 10_017,
        /// The server has not enough resources. Only NFSv4.0.
        Resource = 10_018,
        /// The file system is somewhere else.
        Moved = 10_019,
        /// There is no current file handle.
        NoFileHandle = 10_020,
        /// The minor version is not supported.
        MinorVersMismatch = 10_021,
        /// The client id is none of this server instance.
        StaleClientId = 10_022,
        /// The stateid is of an earlier server instance.
        StaleStateId = 10_023,
        /// The stateid's seqid is behind.
        OldStateId = 10_024,
        /// The stateid names nothing, or not what it should.
        BadStateId = 10_025,
        /// The owner's seqid is out of order. Only NFSv4.0.
        BadSeqId = 10_026,
        /// VERIFY found the attributes to differ.
        NotSame = 10_027,
        /// The range overlaps locks in a way that is not supported.
        LockRange = 10_028,
        /// A symbolic link where it may not be.
        Symlink = 10_029,
        /// There is no saved file handle.
        RestoreFh = 10_030,
        /// A lease moved to another server.
        LeaseMoved = 10_031,
        /// An attribute to set or compare is not supported.
        AttrNotSupp = 10_032,
        /// A reclaim outside of the grace period.
        NoGrace = 10_033,
        /// What is reclaimed was not held.
        ReclaimBad = 10_034,
        /// What is reclaimed conflicts with what another client has.
        ReclaimConflict = 10_035,
        /// The arguments cannot be decoded.
        BadXdr = 10_036,
        /// Locks are held that forbid a CLOSE or a FREE_STATEID.
        LocksHeld = 10_037,
        /// The open does not allow this I/O.
        OpenMode = 10_038,
        /// An owner or group cannot be translated.
        BadOwner = 10_039,
        /// A character that the server does not support.
        BadChar = 10_040,
        /// A name that the server does not support.
        BadName = 10_041,
        /// A range that the server does not support.
        BadRange = 10_042,
        /// A lock cannot be upgraded or downgraded atomically.
        LockNotSupp = 10_043,
        /// No such operation.
        OpIllegal = 10_044,
        /// A lock would make a deadlock.
        Deadlock = 10_045,
        /// The file is open, which forbids the operation.
        FileOpen = 10_046,
        /// An administrator took the state away.
        AdminRevoked = 10_047,
        /// The server cannot call the client back.
        CbPathDown = 10_048,
        /// A layout's iomode is wrong.
        BadIomode = 10_049,
        /// A layout is invalid.
        BadLayout = 10_050,
        /// The digest of SET_SSV is wrong.
        BadSessionDigest = 10_051,
        /// No such session.
        BadSession = 10_052,
        /// No such slot.
        BadSlot = 10_053,
        /// RECLAIM_COMPLETE was sent before.
        CompleteAlready = 10_054,
        /// The connection is not associated with the session.
        ConnNotBoundToSession = 10_055,
        /// The delegation was asked for before.
        DelegAlreadyWanted = 10_056,
        /// Callbacks are still to be answered.
        BackChanBusy = 10_057,
        /// No layout now; try later.
        LayoutTryLater = 10_058,
        /// No layouts for this file.
        LayoutUnavailable = 10_059,
        /// No layout is as it was named.
        NoMatchingLayout = 10_060,
        /// A recall conflicts with the request.
        RecallConflict = 10_061,
        /// The layout type is not known.
        UnknownLayoutType = 10_062,
        /// The sequence id of a slot is neither the next nor the last.
        SeqMisordered = 10_063,
        /// SEQUENCE stands somewhere else than first.
        SequencePos = 10_064,
        /// The request is larger than the session allows.
        ReqTooBig = 10_065,
        /// The reply would be larger than the session allows.
        RepTooBig = 10_066,
        /// The reply would be larger than the session allows to be cached.
        RepTooBigToCache = 10_067,
        /// A repeated request whose reply was not to be cached.
        RetryUncachedRep = 10_068,
        /// The request is too hard to repeat or to recover.
        UnsafeCompound = 10_069,
        /// More operations than the session allows.
        TooManyOps = 10_070,
        /// The operation needs a SEQUENCE before it.
        OpNotInSession = 10_071,
        /// None of the hash algorithms is supported.
        HashAlgUnsupp = 10_072,
        /// The client still has state.
        ClientIdBusy = 10_074,
        /// I/O to a hole of a sparse pNFS layout.
        PnfsIoHole = 10_075,
        /// A slot's last sequence id came again with another request.
        SeqFalseRetry = 10_076,
        /// The highest slot id is out of range.
        BadHighSlot = 10_077,
        /// The session is being torn down.
        DeadSession = 10_078,
        /// None of the encryption algorithms is supported.
        EncrAlgUnsupp = 10_079,
        /// I/O that needs a layout, without one.
        PnfsNoLayout = 10_080,
        /// The operation must be the only one.
        NotOnlyOp = 10_081,
        /// Another principal did what this one continues.
        WrongCred = 10_082,
        /// The object is of the wrong type.
        WrongType = 10_083,
        /// No delegation of this directory.
        DirDelegUnavail = 10_084,
        /// The client does not want the delegation that it is given.
        RejectDeleg = 10_085,
        /// A layout must be returned first.
        ReturnConflict = 10_086,
        /// The delegation or layout was revoked.
        DelegRevoked = 10_087,
        /// The other server does not copy between servers.
        PartnerNotSupp = 10_088,
        /// The other server does not allow the copy.
        PartnerNoAuth = 10_089,
        /// An arm of a union is not supported.
        UnionNotSupp = 10_090,
        /// The destination does not allow the copy.
        OffloadDenied = 10_091,
        /// The label format is not supported.
        WrongLfs = 10_092,
        /// The label is wrong.
        BadLabel = 10_093,
        /// The copy cannot be as it is required to be.
        OffloadNoReqs = 10_094,
        /// No such extended attribute.
        NoXattr = 10_095,
        /// The extended attribute is too large.
        Xattr2Big = 10_096,
    }
}

impl fmt::Display for NfsStat4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
