//! Messages and their bytes, encoded by hand from the XDR of the RFCs.

use super::super::callback::*;
use super::*;
use crate::rpc::{AUTH_SYS, AuthSys, CallHeader, Credential, Groups, OpaqueAuth, decode_call};
use crate::xdr::Encode;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[track_caller]
fn is_op(op: ArgOp4<'_>, bytes: &str) {
    assert_eq!(encode(&op), hex(bytes));
    assert_eq!(decode_all::<ArgOp4<'_>>(&hex(bytes)), Ok(op));
}

#[track_caller]
fn is_res(res: ResOp4<'_>, bytes: &str) {
    assert_eq!(encode(&res), hex(bytes));
    assert_eq!(decode_all::<ResOp4<'_>>(&hex(bytes)), Ok(res));
}

const STATEID: Stateid4 = Stateid4 { seqid: 2, other: *b"abcdefghijkl" };
const STATEID_HEX: &str = "00000002 6162636465666768696a6b6c";

#[test]
fn the_arguments_of_a_compound_in_a_session() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let mut args = CompoundArgsEncoder::begin(&mut encoder, Utf8Str4(b"ls"), 1);
    args.push(&ArgOp4::Sequence(SequenceArgs {
        sessionid: SessionId4([0x11; 16]),
        sequenceid: 5,
        slotid: 1,
        highest_slotid: 3,
        cachethis: false,
    }));
    args.push(&ArgOp4::Putfh(PutfhArgs { object: FileHandle4::new(b"handle").unwrap() }));
    args.push(&ArgOp4::Getattr(GetattrArgs { attr_request: AttrMask::of(&[Attr4::Size, Attr4::Mode]) }));
    args.finish();
    let expected = "00000002 6c730000 00000001 00000003
        00000035 11111111111111111111111111111111 00000005 00000001 00000003 00000000
        00000016 00000006 68616e646c650000
        00000009 00000002 00000010 00000002";
    assert_eq!(out, hex(expected));
}

#[test]
fn the_result_of_a_compound_in_a_session() {
    let attributes = Attributes4 { size: Some(7), mode: Some(0o644), ..Attributes4::default() };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let mut results = CompoundEncoder::begin(&mut encoder, Utf8Str4(b""));
    results.push(OpNum4::Putfh, &PutfhRes::Ok(()));
    results.push(OpNum4::Getattr, &Res4::<_, NfsStat4>::Ok(attributes));
    results.push(OpNum4::Lookup, &LookupRes::Err(NfsStat4::NoEnt));
    results.finish();
    let expected = "00000002 00000000 00000003
        00000016 00000000
        00000009 00000000 00000002 00000010 00000002 0000000c 0000000000000007 000001a4
        0000000f 00000002";
    assert_eq!(out, hex(expected));
    let mut reader = CompoundResReader::new(Decoder::new(&out)).unwrap();
    assert_eq!((reader.status(), reader.left()), (NfsStat4::NoEnt, 3));
    assert_eq!(reader.next(), Some(Ok(ResOp4::Putfh(Ok(())))));
    let Some(Ok(ResOp4::Getattr(Ok(read)))) = reader.next() else { panic!("attributes") };
    assert_eq!(read.obj_attributes.decode_values(), Ok(attributes));
    assert_eq!(reader.next(), Some(Ok(ResOp4::Lookup(Err(NfsStat4::NoEnt)))));
    assert_eq!(reader.next(), None);
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn an_open_and_its_delegation() {
    let owner = StateOwner4 { clientid: ClientId4(9), owner: OwnerId4(b"me") };
    let attributes = encode(&Attributes4 { mode: Some(0o600), ..Attributes4::default() });
    let open = OpenArgs {
        seqid: 1,
        share_access: share_access::BOTH,
        share_deny: share_deny::NONE,
        owner,
        openhow: Some(CreateHow4::Guarded(decode_all(&attributes).unwrap())),
        claim: OpenClaim4::Null(Component4(b"file")),
    };
    is_op(
        ArgOp4::Open(open),
        "00000012 00000001 00000003 00000000 0000000000000009 00000002 6d650000
         00000001 00000001 00000002 00000000 00000002 00000004 00000180
         00000000 00000004 66696c65",
    );
    let nobody = Nfsace4 { ace_type: 0, flag: 0, access_mask: 0, who: Utf8Str4(b"") };
    let read = OpenReadDelegation4 { stateid: STATEID, recall: false, permissions: nobody };
    let opened = OpenOk {
        stateid: Stateid4::CURRENT,
        cinfo: ChangeInfo4 { atomic: true, before: 3, after: 4 },
        rflags: open_result::LOCKTYPE_POSIX,
        attrset: AttrMask::of(&[Attr4::Mode]),
        delegation: OpenDelegation4::Read(read),
    };
    let expected = format!(
        "00000012 00000000 00000001 000000000000000000000000
         00000001 0000000000000003 0000000000000004 00000004 00000002 00000000 00000002
         00000001 {STATEID_HEX} 00000000 00000000 00000000 00000000 00000000"
    );
    is_res(ResOp4::Open(Ok(opened)), &expected);
}

#[test]
fn clients_and_sessions() {
    let callback = CbClient4 {
        cb_program: 0x4000_0000,
        cb_location: Netaddr4 { netid: Utf8Str4(b"tcp"), addr: Utf8Str4(b"1.2.3.4.5.6") },
    };
    let client = NfsClientId4 { verifier: [7; 8], id: OwnerId4(b"c") };
    is_op(
        ArgOp4::SetClientId(SetClientIdArgs { client, callback, callback_ident: 1 }),
        "00000023 0707070707070707 00000001 63000000
         40000000 00000003 74637000 0000000b 312e322e332e342e352e3600 00000001",
    );
    let exchange = ExchangeIdArgs {
        clientowner: ClientOwner4 { verifier: [7; 8], ownerid: OwnerId4(b"c") },
        flags: exchange_id_flag::SUPP_MOVED_REFER | exchange_id_flag::USE_NON_PNFS,
        state_protect: StateProtect4A::None,
        client_impl_id: None,
    };
    is_op(
        ArgOp4::ExchangeId(exchange),
        "0000002a 0707070707070707 00000001 63000000 00010001 00000000 00000000",
    );
    let channel = ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: 0x10_0000,
        maxresponsesize: 0x10_0000,
        maxresponsesize_cached: 0x1000,
        maxoperations: 8,
        maxrequests: 64,
        rdma_ird: None,
    };
    let credential = AuthSys { stamp: 1, machine_name: b"m", uid: 0, gid: 0, groups: Groups::default() };
    let parms = [CallbackSecParms4::None, CallbackSecParms4::Sys(credential)];
    let create = CreateSessionArgs {
        clientid: ClientId4(9),
        sequence: 1,
        flags: create_session_flag::PERSIST | create_session_flag::CONN_BACK_CHAN,
        fore_chan_attrs: channel,
        back_chan_attrs: channel,
        cb_program: 0x4000_0000,
        sec_parms: SecParms4::new(&parms).unwrap(),
    };
    let channel_hex = "00000000 00100000 00100000 00001000 00000008 00000040 00000000";
    let expected = format!(
        "0000002b 0000000000000009 00000001 00000003 {channel_hex} {channel_hex} 40000000
         00000002 00000000 00000001 00000001 00000001 6d000000 00000000 00000000 00000000"
    );
    is_op(ArgOp4::CreateSession(create), &expected);
}

#[test]
fn denied_locks() {
    let owner = StateOwner4 { clientid: ClientId4(9), owner: OwnerId4(b"p1") };
    let denied = LockDenied { offset: 1, length: u64::MAX, locktype: NfsLockType4::WriteW, owner };
    is_res(
        ResOp4::Lock(Err(LockFail::Denied(denied))),
        "0000000c 0000271a 0000000000000001 ffffffffffffffff 00000004 0000000000000009 00000002 70310000",
    );
    let lock = LockArgs {
        locktype: NfsLockType4::Read,
        reclaim: false,
        offset: 0,
        length: 10,
        locker: Locker4::LockOwner(ExistLockOwner4 { lock_stateid: STATEID, lock_seqid: 3 }),
    };
    let expected = format!(
        "0000000c 00000001 00000000 0000000000000000 000000000000000a 00000000 {STATEID_HEX} 00000003"
    );
    is_op(ArgOp4::Lock(lock), &expected);
}

#[test]
fn copies_holes_and_extended_attributes() {
    let response = WriteResponse4 {
        callback_id: Some(STATEID),
        count: 5,
        committed: StableHow4::FileSync,
        writeverf: [1; 8],
    };
    let requirements = CopyRequirements4 { consecutive: true, synchronous: false };
    let expected = format!(
        "0000003c 00000000 00000001 {STATEID_HEX} 0000000000000005 00000002 0101010101010101 00000001 00000000"
    );
    is_res(ResOp4::Copy(Ok(CopyOk { response, requirements })), &expected);
    let expected = format!("00000045 {STATEID_HEX} 0000000000000003 00000001");
    is_op(ArgOp4::Seek(SeekArgs { stateid: STATEID, offset: 3, what: 1 }), &expected);
    let contents =
        [ReadPlusContent::Data { offset: 0, data: b"ab" }, ReadPlusContent::Hole { offset: 2, length: 4 }];
    let ok = ReadPlusOk { eof: true, contents: crate::array::Array::new(&contents).unwrap() };
    is_res(
        ResOp4::ReadPlus(Ok(ok)),
        "00000044 00000000 00000001 00000002 00000000 0000000000000000 00000002 61620000
         00000001 0000000000000002 0000000000000004",
    );
    is_op(
        ArgOp4::Setxattr(SetxattrArgs {
            option: SetxattrOption4::Create,
            key: Component4(b"k"),
            value: Xattrvalue4(b"v"),
        }),
        "00000049 00000001 00000001 6b000000 00000001 76000000",
    );
}

#[test]
fn the_arguments_of_a_recall() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let credential =
        Credential::Sys(AuthSys { stamp: 0, machine_name: b"", uid: 0, gid: 0, groups: Groups::default() });
    let header = CallHeader {
        xid: 1,
        program: 0x4000_0000,
        version: CALLBACK_VERSION,
        procedure: CbProcedure::Compound.code(),
        credential,
        verifier: OpaqueAuth::NONE,
    };
    header.encode(&mut encoder);
    let mut args = CbCompoundArgsEncoder::begin(&mut encoder, Utf8Str4(b""), 0, 77);
    let recall = CbArgOp4::Recall(CbRecallArgs {
        stateid: STATEID,
        truncate: false,
        fh: FileHandle4::new(b"fh").unwrap(),
    });
    args.push(&recall);
    args.finish();
    let expected = format!(
        "00000001 00000000 00000002 40000000 00000001 00000001
         00000001 00000014 00000000 00000000 00000000 00000000 00000000 00000000 00000000
         00000000 00000000 0000004d 00000001 00000004 {STATEID_HEX} 00000000 00000002 66680000"
    );
    assert_eq!(out, hex(&expected));
    let (header, input) = decode_call(&out).unwrap();
    assert_eq!((header.program, header.credential.flavor()), (0x4000_0000, AUTH_SYS));
    let mut reader = CbCompoundReader::new(input).unwrap();
    assert_eq!((reader.minorversion(), reader.callback_ident()), (0, 77));
    assert_eq!(reader.next(), Some(Ok(recall)));
    assert_eq!((reader.next(), reader.finish()), (None, Ok(())));
}

#[test]
fn the_result_of_a_callback() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let mut results = CbCompoundEncoder::begin(&mut encoder, Utf8Str4(b""));
    results.push(&CbResOp4::Recall(Err(NfsStat4::BadStateId)));
    results.finish();
    assert_eq!(out, hex("00002729 00000000 00000001 00000004 00002729"));
    let mut reader = CbCompoundResReader::new(Decoder::new(&out)).unwrap();
    assert_eq!(reader.status(), NfsStat4::BadStateId);
    assert_eq!(reader.next(), Some(Ok(CbResOp4::Recall(Err(NfsStat4::BadStateId)))));
}
