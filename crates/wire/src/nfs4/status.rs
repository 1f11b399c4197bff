//! The status of operations.

use std::fmt;

xdr! {
    /// The status of an operation or a COMPOUND (RFC 7530 section 13, RFC 8881 section 15, RFC 7862 section 11,
    /// RFC 8276 section 8.5; nfsstat4).
    pub enum NfsStat4 {
        /// It succeeded.
        Ok = 0,
        /// Not the owner.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// A hard I/O error.
        Io = 5,
        /// No such device or address.
        Nxio = 6,
        /// The caller lacks the permission.
        Access = 13,
        /// The file exists.
        Exist = 17,
        /// The objects are in different file systems.
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
        /// The quota is exceeded.
        Dquot = 69,
        /// The file of the handle no longer exists.
        Stale = 70,
        /// The server did not create the handle.
        BadHandle = 10_001,
        /// The READDIR cookie is stale.
        BadCookie = 10_003,
        /// The operation is not supported.
        NotSupp = 10_004,
        /// The result does not fit the client's limit.
        TooSmall = 10_005,
        /// An error of the server that no other value describes.
        ServerFault = 10_006,
        /// The server cannot create objects of this type.
        BadType = 10_007,
        /// The client must retry later.
        Delay = 10_008,
        /// NVERIFY: the attributes are the same.
        Same = 10_009,
        /// Another owner has a lock that conflicts.
        Denied = 10_010,
        /// The lease expired, and its state was released.
        Expired = 10_011,
        /// A lock of another owner forbids the I/O.
        Locked = 10_012,
        /// The server is in its grace period after a restart.
        Grace = 10_013,
        /// The file handle expired.
        FhExpired = 10_014,
        /// A share reservation of another open forbids this one.
        ShareDenied = 10_015,
        /// The security flavor is wrong.
        WrongSec = 10_016,
        /// Another principal uses this client id string.
        ClidInUse = 10_017,
        /// The server lacks resources. Only NFSv4.0.
        Resource = 10_018,
        /// The file system has moved.
        Moved = 10_019,
        /// There is no current file handle.
        NoFileHandle = 10_020,
        /// The minor version is not supported.
        MinorVersMismatch = 10_021,
        /// The client id is not from this instance of the server.
        StaleClientId = 10_022,
        /// The stateid is from an earlier instance of the server.
        StaleStateId = 10_023,
        /// The seqid of the stateid is old.
        OldStateId = 10_024,
        /// The stateid is invalid or of the wrong kind.
        BadStateId = 10_025,
        /// The owner's seqid is out of order. Only NFSv4.0.
        BadSeqId = 10_026,
        /// VERIFY: the attributes differ.
        NotSame = 10_027,
        /// The range overlaps locks in an unsupported way.
        LockRange = 10_028,
        /// The object is a symbolic link, which the operation does not allow.
        Symlink = 10_029,
        /// There is no saved file handle.
        RestoreFh = 10_030,
        /// The lease has moved to another server.
        LeaseMoved = 10_031,
        /// An attribute to set or compare is not supported.
        AttrNotSupp = 10_032,
        /// A reclaim outside the grace period.
        NoGrace = 10_033,
        /// The client did not hold the reclaimed state.
        ReclaimBad = 10_034,
        /// The reclaimed state conflicts with state of another client.
        ReclaimConflict = 10_035,
        /// The arguments cannot be decoded.
        BadXdr = 10_036,
        /// Held locks forbid CLOSE or FREE_STATEID.
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
        /// Waiting for the lock would be a deadlock.
        Deadlock = 10_045,
        /// The file is open, which forbids the operation.
        FileOpen = 10_046,
        /// An administrator revoked the state.
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
        /// The client has sent RECLAIM_COMPLETE already.
        CompleteAlready = 10_054,
        /// The connection is not associated with the session.
        ConnNotBoundToSession = 10_055,
        /// The client has requested the delegation already.
        DelegAlreadyWanted = 10_056,
        /// Callbacks are outstanding.
        BackChanBusy = 10_057,
        /// No layout is available now.
        LayoutTryLater = 10_058,
        /// Layouts of this file are unavailable.
        LayoutUnavailable = 10_059,
        /// No layout matches.
        NoMatchingLayout = 10_060,
        /// A recall conflicts with the request.
        RecallConflict = 10_061,
        /// The layout type is unknown.
        UnknownLayoutType = 10_062,
        /// The sequence id is neither the slot's next nor its last.
        SeqMisordered = 10_063,
        /// SEQUENCE is not the first operation.
        SequencePos = 10_064,
        /// The request is larger than the session allows.
        ReqTooBig = 10_065,
        /// The reply is larger than the session allows.
        RepTooBig = 10_066,
        /// The reply is larger than the session allows to cache.
        RepTooBigToCache = 10_067,
        /// A retransmitted request whose reply was not cached.
        RetryUncachedRep = 10_068,
        /// The server cannot make the request replayable.
        UnsafeCompound = 10_069,
        /// More operations than the session allows.
        TooManyOps = 10_070,
        /// The operation requires a preceding SEQUENCE.
        OpNotInSession = 10_071,
        /// None of the hash algorithms is supported.
        HashAlgUnsupp = 10_072,
        /// The client still has state.
        ClientIdBusy = 10_074,
        /// I/O to a hole of a sparse pNFS layout.
        PnfsIoHole = 10_075,
        /// A slot's last sequence id was reused for another request.
        SeqFalseRetry = 10_076,
        /// The highest slot id is out of range.
        BadHighSlot = 10_077,
        /// The session is being torn down.
        DeadSession = 10_078,
        /// None of the encryption algorithms is supported.
        EncrAlgUnsupp = 10_079,
        /// I/O without the required layout.
        PnfsNoLayout = 10_080,
        /// The operation must be the only one of its COMPOUND.
        NotOnlyOp = 10_081,
        /// Another principal created the state.
        WrongCred = 10_082,
        /// The object is of the wrong type.
        WrongType = 10_083,
        /// No delegation of this directory is available.
        DirDelegUnavail = 10_084,
        /// The client rejects the delegation.
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
        /// The requirements of the copy cannot be met.
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
