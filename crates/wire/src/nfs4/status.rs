//! The status of operations.

xdr! {
    /// The status of an operation or a COMPOUND (RFC 7530 section 13, RFC 8881 section 15, RFC 7862 section 11,
    /// RFC 8276 section 8.5; nfsstat4).
    pub enum NfsStat4 {
        /// It succeeded.
        Ok = 0 "NFS4_OK",
        /// Not the owner.
        Perm = 1 "NFS4ERR_PERM",
        /// No such file or directory.
        NoEnt = 2 "NFS4ERR_NOENT",
        /// A hard I/O error.
        Io = 5 "NFS4ERR_IO",
        /// No such device or address.
        Nxio = 6 "NFS4ERR_NXIO",
        /// The caller lacks the permission.
        Access = 13 "NFS4ERR_ACCESS",
        /// The file exists.
        Exist = 17 "NFS4ERR_EXIST",
        /// The objects are in different file systems.
        Xdev = 18 "NFS4ERR_XDEV",
        /// Not a directory.
        NotDir = 20 "NFS4ERR_NOTDIR",
        /// Is a directory.
        IsDir = 21 "NFS4ERR_ISDIR",
        /// An invalid argument.
        Inval = 22 "NFS4ERR_INVAL",
        /// The file would be too large.
        Fbig = 27 "NFS4ERR_FBIG",
        /// No space left on the device.
        NoSpc = 28 "NFS4ERR_NOSPC",
        /// The file system is read-only.
        Rofs = 30 "NFS4ERR_ROFS",
        /// Too many hard links.
        Mlink = 31 "NFS4ERR_MLINK",
        /// The name is too long.
        NameTooLong = 63 "NFS4ERR_NAMETOOLONG",
        /// The directory is not empty.
        NotEmpty = 66 "NFS4ERR_NOTEMPTY",
        /// The quota is exceeded.
        Dquot = 69 "NFS4ERR_DQUOT",
        /// The file of the handle no longer exists.
        Stale = 70 "NFS4ERR_STALE",
        /// The server did not create the handle.
        BadHandle = 10_001 "NFS4ERR_BADHANDLE",
        /// The READDIR cookie is stale.
        BadCookie = 10_003 "NFS4ERR_BAD_COOKIE",
        /// The operation is not supported.
        NotSupp = 10_004 "NFS4ERR_NOTSUPP",
        /// The result does not fit the client's limit.
        TooSmall = 10_005 "NFS4ERR_TOOSMALL",
        /// An error of the server that no other value describes.
        ServerFault = 10_006 "NFS4ERR_SERVERFAULT",
        /// The server cannot create objects of this type.
        BadType = 10_007 "NFS4ERR_BADTYPE",
        /// The client must retry later.
        Delay = 10_008 "NFS4ERR_DELAY",
        /// NVERIFY: the attributes are the same.
        Same = 10_009 "NFS4ERR_SAME",
        /// Another owner has a lock that conflicts.
        Denied = 10_010 "NFS4ERR_DENIED",
        /// The lease expired, and its state was released.
        Expired = 10_011 "NFS4ERR_EXPIRED",
        /// A lock of another owner forbids the I/O.
        Locked = 10_012 "NFS4ERR_LOCKED",
        /// The server is in its grace period after a restart.
        Grace = 10_013 "NFS4ERR_GRACE",
        /// The file handle expired.
        FhExpired = 10_014 "NFS4ERR_FHEXPIRED",
        /// A share reservation of another open forbids this one.
        ShareDenied = 10_015 "NFS4ERR_SHARE_DENIED",
        /// The security flavor is wrong.
        WrongSec = 10_016 "NFS4ERR_WRONGSEC",
        /// Another principal uses this client id string.
        ClidInUse = 10_017 "NFS4ERR_CLID_INUSE",
        /// The server lacks resources. Only NFSv4.0.
        Resource = 10_018 "NFS4ERR_RESOURCE",
        /// The file system has moved.
        Moved = 10_019 "NFS4ERR_MOVED",
        /// There is no current file handle.
        NoFileHandle = 10_020 "NFS4ERR_NOFILEHANDLE",
        /// The minor version is not supported.
        MinorVersMismatch = 10_021 "NFS4ERR_MINOR_VERS_MISMATCH",
        /// The client id is not from this instance of the server.
        StaleClientId = 10_022 "NFS4ERR_STALE_CLIENTID",
        /// The stateid is from an earlier instance of the server.
        StaleStateId = 10_023 "NFS4ERR_STALE_STATEID",
        /// The seqid of the stateid is old.
        OldStateId = 10_024 "NFS4ERR_OLD_STATEID",
        /// The stateid is invalid or of the wrong kind.
        BadStateId = 10_025 "NFS4ERR_BAD_STATEID",
        /// The owner's seqid is out of order. Only NFSv4.0.
        BadSeqId = 10_026 "NFS4ERR_BAD_SEQID",
        /// VERIFY: the attributes differ.
        NotSame = 10_027 "NFS4ERR_NOT_SAME",
        /// The range overlaps locks in an unsupported way.
        LockRange = 10_028 "NFS4ERR_LOCK_RANGE",
        /// The object is a symbolic link, which the operation does not allow.
        Symlink = 10_029 "NFS4ERR_SYMLINK",
        /// There is no saved file handle.
        RestoreFh = 10_030 "NFS4ERR_RESTOREFH",
        /// The lease has moved to another server.
        LeaseMoved = 10_031 "NFS4ERR_LEASE_MOVED",
        /// An attribute to set or compare is not supported.
        AttrNotSupp = 10_032 "NFS4ERR_ATTRNOTSUPP",
        /// A reclaim outside the grace period.
        NoGrace = 10_033 "NFS4ERR_NO_GRACE",
        /// The client did not hold the reclaimed state.
        ReclaimBad = 10_034 "NFS4ERR_RECLAIM_BAD",
        /// The reclaimed state conflicts with state of another client.
        ReclaimConflict = 10_035 "NFS4ERR_RECLAIM_CONFLICT",
        /// The arguments cannot be decoded.
        BadXdr = 10_036 "NFS4ERR_BADXDR",
        /// Held locks forbid CLOSE or FREE_STATEID.
        LocksHeld = 10_037 "NFS4ERR_LOCKS_HELD",
        /// The open does not allow this I/O.
        OpenMode = 10_038 "NFS4ERR_OPENMODE",
        /// An owner or group cannot be translated.
        BadOwner = 10_039 "NFS4ERR_BADOWNER",
        /// A character that the server does not support.
        BadChar = 10_040 "NFS4ERR_BADCHAR",
        /// A name that the server does not support.
        BadName = 10_041 "NFS4ERR_BADNAME",
        /// A range that the server does not support.
        BadRange = 10_042 "NFS4ERR_BADRANGE",
        /// A lock cannot be upgraded or downgraded atomically.
        LockNotSupp = 10_043 "NFS4ERR_LOCK_NOTSUPP",
        /// No such operation.
        OpIllegal = 10_044 "NFS4ERR_OP_ILLEGAL",
        /// Waiting for the lock would be a deadlock.
        Deadlock = 10_045 "NFS4ERR_DEADLOCK",
        /// The file is open, which forbids the operation.
        FileOpen = 10_046 "NFS4ERR_FILE_OPEN",
        /// An administrator revoked the state.
        AdminRevoked = 10_047 "NFS4ERR_ADMIN_REVOKED",
        /// The server cannot call the client back.
        CbPathDown = 10_048 "NFS4ERR_CB_PATH_DOWN",
        /// A layout's iomode is wrong.
        BadIomode = 10_049 "NFS4ERR_BADIOMODE",
        /// A layout is invalid.
        BadLayout = 10_050 "NFS4ERR_BADLAYOUT",
        /// The digest of SET_SSV is wrong.
        BadSessionDigest = 10_051 "NFS4ERR_BAD_SESSION_DIGEST",
        /// No such session.
        BadSession = 10_052 "NFS4ERR_BADSESSION",
        /// No such slot.
        BadSlot = 10_053 "NFS4ERR_BADSLOT",
        /// The client has sent RECLAIM_COMPLETE already.
        CompleteAlready = 10_054 "NFS4ERR_COMPLETE_ALREADY",
        /// The connection is not associated with the session.
        ConnNotBoundToSession = 10_055 "NFS4ERR_CONN_NOT_BOUND_TO_SESSION",
        /// The client has requested the delegation already.
        DelegAlreadyWanted = 10_056 "NFS4ERR_DELEG_ALREADY_WANTED",
        /// Callbacks are outstanding.
        BackChanBusy = 10_057 "NFS4ERR_BACK_CHAN_BUSY",
        /// No layout is available now.
        LayoutTryLater = 10_058 "NFS4ERR_LAYOUTTRYLATER",
        /// Layouts of this file are unavailable.
        LayoutUnavailable = 10_059 "NFS4ERR_LAYOUTUNAVAILABLE",
        /// No layout matches.
        NoMatchingLayout = 10_060 "NFS4ERR_NOMATCHINGLAYOUT",
        /// A recall conflicts with the request.
        RecallConflict = 10_061 "NFS4ERR_RECALLCONFLICT",
        /// The layout type is unknown.
        UnknownLayoutType = 10_062 "NFS4ERR_UNKNOWNLAYOUTTYPE",
        /// The sequence id is neither the slot's next nor its last.
        SeqMisordered = 10_063 "NFS4ERR_SEQ_MISORDERED",
        /// SEQUENCE is not the first operation.
        SequencePos = 10_064 "NFS4ERR_SEQUENCE_POS",
        /// The request is larger than the session allows.
        ReqTooBig = 10_065 "NFS4ERR_REQ_TOO_BIG",
        /// The reply is larger than the session allows.
        RepTooBig = 10_066 "NFS4ERR_REP_TOO_BIG",
        /// The reply is larger than the session allows to cache.
        RepTooBigToCache = 10_067 "NFS4ERR_REP_TOO_BIG_TO_CACHE",
        /// A retransmitted request whose reply was not cached.
        RetryUncachedRep = 10_068 "NFS4ERR_RETRY_UNCACHED_REP",
        /// The server cannot make the request replayable.
        UnsafeCompound = 10_069 "NFS4ERR_UNSAFE_COMPOUND",
        /// More operations than the session allows.
        TooManyOps = 10_070 "NFS4ERR_TOO_MANY_OPS",
        /// The operation requires a preceding SEQUENCE.
        OpNotInSession = 10_071 "NFS4ERR_OP_NOT_IN_SESSION",
        /// None of the hash algorithms is supported.
        HashAlgUnsupp = 10_072 "NFS4ERR_HASH_ALG_UNSUPP",
        /// The client still has state.
        ClientIdBusy = 10_074 "NFS4ERR_CLIENTID_BUSY",
        /// I/O to a hole of a sparse pNFS layout.
        PnfsIoHole = 10_075 "NFS4ERR_PNFS_IO_HOLE",
        /// A slot's last sequence id was reused for another request.
        SeqFalseRetry = 10_076 "NFS4ERR_SEQ_FALSE_RETRY",
        /// The highest slot id is out of range.
        BadHighSlot = 10_077 "NFS4ERR_BAD_HIGH_SLOT",
        /// The session is being torn down.
        DeadSession = 10_078 "NFS4ERR_DEADSESSION",
        /// None of the encryption algorithms is supported.
        EncrAlgUnsupp = 10_079 "NFS4ERR_ENCR_ALG_UNSUPP",
        /// I/O without the required layout.
        PnfsNoLayout = 10_080 "NFS4ERR_PNFS_NO_LAYOUT",
        /// The operation must be the only one of its COMPOUND.
        NotOnlyOp = 10_081 "NFS4ERR_NOT_ONLY_OP",
        /// Another principal created the state.
        WrongCred = 10_082 "NFS4ERR_WRONG_CRED",
        /// The object is of the wrong type.
        WrongType = 10_083 "NFS4ERR_WRONG_TYPE",
        /// No delegation of this directory is available.
        DirDelegUnavail = 10_084 "NFS4ERR_DIRDELEG_UNAVAIL",
        /// The client rejects the delegation.
        RejectDeleg = 10_085 "NFS4ERR_REJECT_DELEG",
        /// A layout must be returned first.
        ReturnConflict = 10_086 "NFS4ERR_RETURNCONFLICT",
        /// The delegation or layout was revoked.
        DelegRevoked = 10_087 "NFS4ERR_DELEG_REVOKED",
        /// The other server does not copy between servers.
        PartnerNotSupp = 10_088 "NFS4ERR_PARTNER_NOTSUPP",
        /// The other server does not allow the copy.
        PartnerNoAuth = 10_089 "NFS4ERR_PARTNER_NO_AUTH",
        /// An arm of a union is not supported.
        UnionNotSupp = 10_090 "NFS4ERR_UNION_NOTSUPP",
        /// The destination does not allow the copy.
        OffloadDenied = 10_091 "NFS4ERR_OFFLOAD_DENIED",
        /// The label format is not supported.
        WrongLfs = 10_092 "NFS4ERR_WRONG_LFS",
        /// The label is wrong.
        BadLabel = 10_093 "NFS4ERR_BADLABEL",
        /// The requirements of the copy cannot be met.
        OffloadNoReqs = 10_094 "NFS4ERR_OFFLOAD_NO_REQS",
        /// No such extended attribute.
        NoXattr = 10_095 "NFS4ERR_NOXATTR",
        /// The extended attribute is too large.
        Xattr2Big = 10_096 "NFS4ERR_XATTR2BIG",
    }
}
