//! The operations: their numbers, and the unions of their arguments and of their results.

use super::*;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

operations! {
    /// The operations (RFC 8881 section 18, RFC 7862 section 15, RFC 8276 section 8.4; nfs_opnum4).
    enum OpNum4;
    /// An operation with its arguments (RFC 8881 section 16.2.1, nfs_argop4).
    enum ArgOp4<'a>;
    /// An operation with its result (RFC 8881 section 16.2.2, nfs_resop4).
    enum ResOp4<'a>;

    3 "ACCESS" 0 Access(args: AccessArgs) -> AccessRes = Res4<AccessOk>;
    4 "CLOSE" 0 Close(args: CloseArgs) -> CloseRes = Res4<CloseOk>;
    5 "COMMIT" 0 Commit(args: CommitArgs) -> CommitRes = Res4<CommitOk>;
    6 "CREATE" 0 Create(args: CreateArgs<'a>) -> CreateRes = Res4<CreateOk>;
    7 "DELEGPURGE" 0 Delegpurge(args: DelegpurgeArgs) -> DelegpurgeRes = Res4<()>;
    8 "DELEGRETURN" 0 Delegreturn(args: DelegreturnArgs) -> DelegreturnRes = Res4<()>;
    9 "GETATTR" 0 Getattr(args: GetattrArgs) -> GetattrRes<'a> = Res4<GetattrOk<'a>>;
    10 "GETFH" 0 Getfh -> GetfhRes<'a> = Res4<GetfhOk<'a>>;
    11 "LINK" 0 Link(args: LinkArgs<'a>) -> LinkRes = Res4<LinkOk>;
    12 "LOCK" 0 Lock(args: LockArgs<'a>) -> LockRes<'a> = Res4<LockOk, LockFail<'a>>;
    13 "LOCKT" 0 Lockt(args: LocktArgs<'a>) -> LocktRes<'a> = Res4<(), LockFail<'a>>;
    14 "LOCKU" 0 Locku(args: LockuArgs) -> LockuRes = Res4<LockuOk>;
    15 "LOOKUP" 0 Lookup(args: LookupArgs<'a>) -> LookupRes = Res4<()>;
    16 "LOOKUPP" 0 Lookupp -> LookuppRes = Res4<()>; // RFC 8881 section 18.14
    17 "NVERIFY" 0 Nverify(args: VerifyArgs<'a>) -> NverifyRes = Res4<()>;
    18 "OPEN" 0 Open(args: OpenArgs<'a>) -> OpenRes<'a> = Res4<OpenOk<'a>>;
    19 "OPENATTR" 0 Openattr(args: OpenattrArgs) -> OpenattrRes = Res4<()>;
    20 "OPEN_CONFIRM" 0 OpenConfirm(args: OpenConfirmArgs) -> OpenConfirmRes = Res4<OpenConfirmOk>;
    21 "OPEN_DOWNGRADE" 0 OpenDowngrade(args: OpenDowngradeArgs) -> OpenDowngradeRes = Res4<OpenDowngradeOk>;
    22 "PUTFH" 0 Putfh(args: PutfhArgs<'a>) -> PutfhRes = Res4<()>;
    23 "PUTPUBFH" 0 Putpubfh -> PutpubfhRes = Res4<()>; // RFC 8881 section 18.20
    24 "PUTROOTFH" 0 Putrootfh -> PutrootfhRes = Res4<()>; // RFC 8881 section 18.21
    25 "READ" 0 Read(args: ReadArgs) -> ReadRes<'a> = Res4<ReadOk<'a>>;
    26 "READDIR" 0 Readdir(args: ReaddirArgs) -> ReaddirRes<'a> = Res4<ReaddirOk<'a>>;
    27 "READLINK" 0 Readlink -> ReadlinkRes<'a> = Res4<ReadlinkOk<'a>>;
    28 "REMOVE" 0 Remove(args: RemoveArgs<'a>) -> RemoveRes = Res4<RemoveOk>;
    29 "RENAME" 0 Rename(args: RenameArgs<'a>) -> RenameRes = Res4<RenameOk>;
    30 "RENEW" 0 Renew(args: RenewArgs) -> RenewRes = Res4<()>;
    31 "RESTOREFH" 0 Restorefh -> RestorefhRes = Res4<()>; // RFC 8881 section 18.27
    32 "SAVEFH" 0 Savefh -> SavefhRes = Res4<()>; // RFC 8881 section 18.28
    33 "SECINFO" 0 Secinfo(args: SecinfoArgs<'a>) -> SecinfoRes<'a> = Res4<SecinfoOk<'a>>;
    34 "SETATTR" 0 Setattr(args: SetattrArgs<'a>) -> SetattrRes;
    35 "SETCLIENTID" 0 SetClientId(args: SetClientIdArgs<'a>)
        -> SetClientIdRes<'a> = Res4<SetClientIdOk, SetClientIdFail<'a>>;
    36 "SETCLIENTID_CONFIRM" 0 SetClientIdConfirm(args: SetClientIdConfirmArgs) -> SetClientIdConfirmRes = Res4<()>;
    37 "VERIFY" 0 Verify(args: VerifyArgs<'a>) -> VerifyRes = Res4<()>;
    38 "WRITE" 0 Write(args: WriteArgs<'a>) -> WriteRes = Res4<WriteOk>;
    39 "RELEASE_LOCKOWNER" 0 ReleaseLockowner(args: ReleaseLockownerArgs<'a>) -> ReleaseLockownerRes = Res4<()>;
    40 "BACKCHANNEL_CTL" 1 BackchannelCtl(args: BackchannelCtlArgs<'a>) -> BackchannelCtlRes = Res4<()>;
    41 "BIND_CONN_TO_SESSION" 1 BindConnToSession(args: BindConnToSessionArgs)
        -> BindConnToSessionRes = Res4<BindConnToSessionOk>;
    42 "EXCHANGE_ID" 1 ExchangeId(args: ExchangeIdArgs<'a>) -> ExchangeIdRes<'a> = Res4<ExchangeIdOk<'a>>;
    43 "CREATE_SESSION" 1 CreateSession(args: CreateSessionArgs<'a>) -> CreateSessionRes = Res4<CreateSessionOk>;
    44 "DESTROY_SESSION" 1 DestroySession(args: DestroySessionArgs) -> DestroySessionRes = Res4<()>;
    45 "FREE_STATEID" 1 FreeStateid(args: FreeStateidArgs) -> FreeStateidRes = Res4<()>;
    46 "GET_DIR_DELEGATION" 1 GetDirDelegation(args: GetDirDelegationArgs) -> UnsupportedRes;
    47 "GETDEVICEINFO" 1 Getdeviceinfo(args: GetdeviceinfoArgs) -> UnsupportedRes;
    48 "GETDEVICELIST" 1 Getdevicelist(args: GetdevicelistArgs) -> UnsupportedRes;
    49 "LAYOUTCOMMIT" 1 Layoutcommit(args: LayoutcommitArgs<'a>) -> UnsupportedRes;
    50 "LAYOUTGET" 1 Layoutget(args: LayoutgetArgs) -> UnsupportedRes;
    51 "LAYOUTRETURN" 1 Layoutreturn(args: LayoutreturnArgs<'a>) -> UnsupportedRes;
    52 "SECINFO_NO_NAME" 1 SecinfoNoName(args: SecinfoStyle4) -> SecinfoNoNameRes<'a> = SecinfoRes<'a>;
    53 "SEQUENCE" 1 Sequence(args: SequenceArgs) -> SequenceRes = Res4<SequenceOk>;
    54 "SET_SSV" 1 SetSsv(args: SetSsvArgs<'a>) -> UnsupportedRes;
    55 "TEST_STATEID" 1 TestStateid(args: TestStateidArgs<'a>) -> TestStateidRes<'a> = Res4<TestStateidOk<'a>>;
    56 "WANT_DELEGATION" 1 WantDelegation(args: WantDelegationArgs) -> UnsupportedRes;
    57 "DESTROY_CLIENTID" 1 DestroyClientId(args: DestroyClientIdArgs) -> DestroyClientIdRes = Res4<()>;
    58 "RECLAIM_COMPLETE" 1 ReclaimComplete(args: ReclaimCompleteArgs) -> ReclaimCompleteRes = Res4<()>;
    59 "ALLOCATE" 2 Allocate(args: AllocateArgs) -> AllocateRes = Res4<()>;
    60 "COPY" 2 Copy(args: CopyArgs<'a>) -> CopyRes = Res4<CopyOk, CopyFail>;
    61 "COPY_NOTIFY" 2 CopyNotify(args: CopyNotifyArgs<'a>) -> CopyNotifyRes<'a> = Res4<CopyNotifyOk<'a>>;
    62 "DEALLOCATE" 2 Deallocate(args: DeallocateArgs) -> DeallocateRes = Res4<()>;
    63 "IO_ADVISE" 2 IoAdvise(args: IoAdviseArgs) -> IoAdviseRes = Res4<IoAdviseOk>;
    64 "LAYOUTERROR" 2 Layouterror(args: LayouterrorArgs<'a>) -> UnsupportedRes;
    65 "LAYOUTSTATS" 2 Layoutstats(args: LayoutstatsArgs<'a>) -> UnsupportedRes;
    66 "OFFLOAD_CANCEL" 2 OffloadCancel(args: OffloadCancelArgs) -> OffloadCancelRes = Res4<()>;
    67 "OFFLOAD_STATUS" 2 OffloadStatus(args: OffloadStatusArgs) -> OffloadStatusRes = Res4<OffloadStatusOk>;
    68 "READ_PLUS" 2 ReadPlus(args: ReadPlusArgs) -> ReadPlusRes<'a> = Res4<ReadPlusOk<'a>>;
    69 "SEEK" 2 Seek(args: SeekArgs) -> SeekRes = Res4<SeekOk>;
    70 "WRITE_SAME" 2 WriteSame(args: WriteSameArgs<'a>) -> UnsupportedRes;
    71 "CLONE" 2 Clone(args: CloneArgs) -> CloneRes = Res4<()>;
    72 "GETXATTR" 2 Getxattr(args: GetxattrArgs<'a>) -> GetxattrRes<'a> = Res4<Xattrvalue4<'a>>;
    73 "SETXATTR" 2 Setxattr(args: SetxattrArgs<'a>) -> SetxattrRes = Res4<ChangeInfo4>; // of the object
    74 "LISTXATTRS" 2 Listxattrs(args: ListxattrsArgs) -> ListxattrsRes<'a> = Res4<ListxattrsOk<'a>>;
    75 "REMOVEXATTR" 2 Removexattr(args: RemovexattrArgs<'a>) -> RemovexattrRes = Res4<ChangeInfo4>; // of the object
    10044 "ILLEGAL" 0 Illegal -> IllegalRes = Res4<()>; // always NFS4ERR_OP_ILLEGAL (RFC 8881 section 18.52)
}

/// The result of an operation that Holdfast does not support. Its arguments are decoded, so that malformed ones are
/// NFS4ERR_BADXDR; its results after NFS4_OK have no codec.
pub type UnsupportedRes = Res4<()>;

/// The operations by their numbers, with the minor versions that introduced them.
static BY_NUMBER: [Option<(OpNum4, u32)>; OpNum4::NUMBERS] = by_number();

#[expect(clippy::indexing_slicing, reason = "the compiler executes it")]
const fn by_number() -> [Option<(OpNum4, u32)>; OpNum4::NUMBERS] {
    let mut all = [None; OpNum4::NUMBERS];
    let mut rest = OpNum4::ALL;
    while let [num, more @ ..] = rest {
        if !matches!(num, OpNum4::Illegal) {
            all[num.code() as usize] = Some((*num, num.since_minor()));
        }
        rest = more;
    }
    all
}

impl OpNum4 {
    /// One more than the highest number of an operation besides [`Self::Illegal`], for tables.
    pub const NUMBERS: usize = 76;

    /// Returns the operation of this number, if the minor version defines it. Those that NFSv4.1 makes obsolete
    /// ([`Self::is_obsolete`]) are defined there.
    #[must_use]
    #[inline]
    pub fn in_minor(code: u32, minorversion: u32) -> Option<Self> {
        match BY_NUMBER.get(code as usize) {
            Some(&Some((num, since))) if since <= minorversion => Some(num),
            _ => None,
        }
    }

    /// Whether NFSv4.1 and later answer it with NFS4ERR_NOTSUPP (RFC 8881 section 17).
    #[must_use]
    #[inline]
    pub const fn is_obsolete(self) -> bool {
        matches!(
            self,
            Self::OpenConfirm
                | Self::Renew
                | Self::SetClientId
                | Self::SetClientIdConfirm
                | Self::ReleaseLockowner
        )
    }
}
