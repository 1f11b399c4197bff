use volume::handle::Handle;
use volume::ids::{Ino, SnapshotId, VolumeId};
use volume::request::Access;
use volume::time::Time;
use wire::nfs3::{self, FileHandle3, GetattrArgs, GetattrRes, PostOpAttr, Procedure, RenameFail};
use wire::record::{Peek, peek};
use wire::rpc::{AuthSys, Groups, OpaqueAuth, RejectedReply, ReplyBody};
use wire::xdr::{Decode, decode_all};
use wire::{mount3, portmap};

use super::*;
use crate::incoming::CopyTerms;

const NULL: u32 = 0;

fn service() -> Service {
    Service::new(Vec::new(), Vec::new()).unwrap()
}

fn connection() -> Connection {
    Connection {
        peer: "[::ffff:192.0.2.1]:900".parse().unwrap(),
        local: "[::ffff:192.0.2.2]:2049".parse().unwrap(),
        id: ConnectionId(1),
    }
}

fn sys() -> Credential<'static> {
    let groups = Groups::new(&[1]).unwrap();
    Credential::Sys(AuthSys { stamp: 1, machine_name: b"client", uid: 0, gid: 0, groups })
}

fn record_as(
    credential: Credential<'_>,
    program: u32,
    version: u32,
    procedure: u32,
    args: &impl Encode,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes);
    CallHeader { xid: 77, program, version, procedure, credential, verifier: OpaqueAuth::NONE }
        .encode(&mut out);
    args.encode(&mut out);
    bytes
}

fn record(program: u32, version: u32, procedure: u32, args: &impl Encode) -> Vec<u8> {
    record_as(sys(), program, version, procedure, args)
}

fn nfs(procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    record(nfs3::PROGRAM, nfs3::VERSION, procedure.code(), args)
}

/// Handles a record with a buffer that has an earlier reply. Returns the outcome and what was appended.
fn handle(record: &[u8]) -> (Outcome, Vec<u8>) {
    let mut reply = ReplyBuffer { bytes: vec![0xaa; 7], tail: Vec::new() };
    let record = &IncomingRecord::decode(record);
    let incoming = Incoming {
        record,
        connection: connection(),
        now: Time::EPOCH.into(),
        access: Access::Cached,
        copy_terms: CopyTerms::Free,
    };
    let outcome = service().handle(&incoming, &mut None, &mut reply);
    let mut out = reply.into_bytes();
    assert_eq!(out.get(..7), Some(&[0xaa; 7][..]), "earlier replies stay as they are");
    (outcome, out.split_off(7))
}

/// Returns the header and the results of the reply to a call that does not wait.
fn reply(record: &[u8]) -> (ReplyBody<'static>, Vec<u8>) {
    let (outcome, out) = handle(record);
    assert!(matches!(outcome, Outcome::Reply { after: None, hold: Duration::ZERO, .. }), "{outcome:?}");
    parse(&out)
}

fn parse(out: &[u8]) -> (ReplyBody<'static>, Vec<u8>) {
    let Ok(Peek::Complete { record, used }) = peek(out, 1 << 20) else { panic!("no whole record") };
    assert_eq!(used, out.len(), "one reply and nothing else");
    let mut input = Decoder::new(record);
    let header = ReplyHeader::decode(&mut input).unwrap();
    assert_eq!(header.xid, 77);
    let body = match header.body {
        ReplyBody::Accepted { verifier, stat } => {
            assert_eq!(verifier, OpaqueAuth::NONE);
            ReplyBody::Accepted { verifier: OpaqueAuth::NONE, stat }
        }
        ReplyBody::Denied(denied) => ReplyBody::Denied(denied),
    };
    (body, input.rest().to_vec())
}

fn accepted(stat: AcceptStat) -> ReplyBody<'static> {
    ReplyHeader::accepted(0, stat).body
}

/// Returns the results of a call that RPC accepts.
fn results(record: &[u8]) -> Vec<u8> {
    let (body, results) = reply(record);
    assert_eq!(body, accepted(AcceptStat::Success));
    results
}

#[test]
fn null_of_every_program_replies_to_all_clients() {
    for (program, version) in dispatch::served(Transport::Tcp) {
        for credential in [sys(), Credential::None] {
            let record = record_as(credential, program, version, NULL, &());
            assert_eq!(reply(&record), (accepted(AcceptStat::Success), vec![]), "{program} {version}");
        }
    }
}

#[test]
fn unknown_programs_versions_and_procedures_are_reported() {
    let mismatch = |low, high| accepted(AcceptStat::ProgMismatch { low, high });
    let cases = [
        (100_227, 4, NULL, accepted(AcceptStat::ProgUnavail)),
        (nfs3::PROGRAM, 2, NULL, mismatch(3, 4)),
        (nfs3::PROGRAM, 5, NULL, mismatch(3, 4)),
        (nfs3::PROGRAM, 3, 22, accepted(AcceptStat::ProcUnavail)),
        (nfs3::PROGRAM, 3, u32::MAX, accepted(AcceptStat::ProcUnavail)),
        (mount3::PROGRAM, 1, 1, mismatch(3, 3)),
        (mount3::PROGRAM, 3, 6, accepted(AcceptStat::ProcUnavail)),
        (portmap::PROGRAM, 5, NULL, mismatch(2, 4)),
        (portmap::PROGRAM, 2, 5, accepted(AcceptStat::ProcUnavail)),
    ];
    for (program, version, procedure, expected) in cases {
        let found = reply(&record(program, version, procedure, &()));
        assert_eq!(found, (expected, vec![]), "{program} {version} {procedure}");
    }
}

#[test]
fn other_rpc_versions_are_a_mismatch() {
    let mut call = nfs(Procedure::Null, &());
    call.get_mut(8..12).unwrap().copy_from_slice(&[0, 0, 0, 3]);
    let denied = RejectedReply::RpcMismatch { low: 2, high: 2 };
    assert_eq!(reply(&call), (ReplyBody::Denied(denied), vec![]));
}

#[test]
fn unknown_credentials_are_bad() {
    let bad = (ReplyBody::Denied(RejectedReply::AuthError(AuthStat::BadCred)), vec![]);
    for flavor in [6, 390_003] {
        let other = Credential::Other(OpaqueAuth { flavor, body: b"12345678" });
        assert_eq!(reply(&record_as(other, nfs3::PROGRAM, 3, NULL, &())), bad, "flavor {flavor}");
    }
    let damaged = Credential::Other(OpaqueAuth { flavor: 1, body: b"123" });
    assert_eq!(reply(&record_as(damaged, nfs3::PROGRAM, 3, NULL, &())), bad);
}

#[test]
fn undecodable_arguments_are_garbage() {
    for procedure in Procedure::ALL.iter().skip(1) {
        let found = reply(&nfs(*procedure, &()));
        assert_eq!(found, (accepted(AcceptStat::GarbageArgs), vec![]), "{}", procedure.name());
    }
    for procedure in [mount3::Procedure::Mnt, mount3::Procedure::Umnt] {
        let found = reply(&record(mount3::PROGRAM, 3, procedure.code(), &()));
        assert_eq!(found, (accepted(AcceptStat::GarbageArgs), vec![]), "{}", procedure.name());
    }
}

#[test]
fn lengths_over_their_limit_close_the_connection() {
    let long_handle = nfs(Procedure::Getattr, &65_u32);
    let long_path = record(mount3::PROGRAM, 3, 1, &u32::MAX);
    let mut long_credential = nfs(Procedure::Null, &());
    long_credential.get_mut(28..32).unwrap().copy_from_slice(&[0, 0, 2, 0]);
    for call in [long_handle, long_path, long_credential] {
        let (outcome, out) = handle(&call);
        assert!(matches!(outcome, Outcome::Close), "{outcome:?}");
        assert!(out.is_empty());
    }
}

#[test]
fn records_that_are_not_calls_are_dropped_or_close_the_connection() {
    let mut reply = Vec::new();
    ReplyHeader::accepted(1, AcceptStat::Success).encode(&mut Encoder::new(&mut reply));
    assert!(matches!(handle(&reply), (Outcome::Nothing, out) if out.is_empty()));
    let call = nfs(Procedure::Null, &());
    for garbage in [&[][..], b"GET / HTTP/1.1\r\n\r\n..", call.get(..20).unwrap()] {
        assert!(matches!(handle(garbage), (Outcome::Close, out) if out.is_empty()), "{garbage:?}");
    }
}

#[test]
fn bytes_after_the_arguments_are_ignored() {
    let mut call = nfs(Procedure::Getattr, &0_u32);
    call.extend_from_slice(b"12345");
    assert_eq!(results(&call), NfsStat3::BadHandle.code().to_be_bytes());
}

fn getattr_of(handle: &[u8]) -> nfs3::NfsStat3 {
    let object = FileHandle3::new(handle).unwrap();
    let results = results(&nfs(Procedure::Getattr, &GetattrArgs { object }));
    decode_all::<GetattrRes>(&results).unwrap().unwrap_err().status
}

#[test]
fn foreign_handles_are_bad_and_those_of_unknown_volumes_stale() {
    assert_eq!(getattr_of(b""), NfsStat3::BadHandle);
    assert_eq!(getattr_of(&[1; 36]), NfsStat3::BadHandle);
    let elsewhere = Handle::new(VolumeId(9), Ino::ROOT, SnapshotId::LIVE, &[0; 16]);
    assert_eq!(getattr_of(&elsewhere.to_bytes()), NfsStat3::Stale);
}

#[test]
fn exports_need_their_volume() {
    let refused = Service::new(vec![Export::new("/main", VolumeId(1))], Vec::new()).err();
    assert_eq!(refused, Some(ExportsError::NoVolume("/main".into())));
}

#[test]
fn failure_replies_have_the_form_of_their_procedure() {
    let failure = |record: &[u8]| {
        let mut out = Vec::new();
        service().failure_reply(IncomingRecord::decode(record).id().unwrap(), &mut out);
        parse(&out)
    };
    let io = |body: &dyn Fn(&mut Encoder<'_>)| {
        let mut bytes = NfsStat3::Io.code().to_be_bytes().to_vec();
        body(&mut Encoder::new(&mut bytes));
        (accepted(AcceptStat::Success), bytes)
    };
    let read = failure(&nfs(Procedure::Read, &()));
    assert_eq!(read, io(&|out| PostOpAttr::None.encode(out)));
    let wcc = nfs3::WccData::NONE;
    let rename = failure(&nfs(Procedure::Rename, &()));
    assert_eq!(rename, io(&|out| RenameFail { fromdir_wcc: wcc, todir_wcc: wcc }.encode(out)));
    assert_eq!(failure(&nfs(Procedure::Getattr, &())), io(&|_| {}));
    assert_eq!(failure(&record(mount3::PROGRAM, 3, 1, &())), io(&|_| {}));
    let mut out = Vec::new();
    assert_eq!(IncomingRecord::decode(b"too short").id(), None);
    let unknown = CallId { xid: 1, program: nfs3::PROGRAM, version: nfs3::VERSION, procedure: 22 };
    service().failure_reply(unknown, &mut out);
    assert!(out.is_empty());
}

#[test]
fn every_failure_decodes_as_its_procedure() {
    for (procedure, operation) in Procedure::ALL.iter().zip(&crate::v3::OPERATIONS).skip(1) {
        let mut bytes = Vec::new();
        operation.failed.unwrap()(NfsStat3::Stale, &mut Encoder::new(&mut bytes));
        // Absent attributes are one word each; a wcc_data has two of them.
        let words = match procedure {
            Procedure::Getattr => 0,
            Procedure::Lookup | Procedure::Access | Procedure::Readlink | Procedure::Read => 1,
            Procedure::Readdir | Procedure::Readdirplus => 1,
            Procedure::Fsstat | Procedure::Fsinfo | Procedure::Pathconf => 1,
            Procedure::Link => 3,
            Procedure::Rename => 4,
            _ => 2,
        };
        let mut expected = NfsStat3::Stale.code().to_be_bytes().to_vec();
        expected.resize(4 + 4 * words, 0);
        assert_eq!(bytes, expected, "{}", procedure.name());
    }
}

#[test]
fn back_pressure_applies_to_changes() {
    let in_flight: Vec<&str> = Procedure::ALL
        .iter()
        .zip(&crate::v3::OPERATIONS)
        .filter(|(_, operation)| operation.changes)
        .map(|(procedure, _)| procedure.name())
        .collect();
    let expected =
        ["SETATTR", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK"];
    assert_eq!(in_flight, expected);
}

#[test]
fn the_portmapper_returns_this_port() {
    let ask = |program, protocol| {
        let wanted = portmap::Mapping { program, version: 3, protocol, port: 0 };
        let results = results(&record(portmap::PROGRAM, 2, portmap::Procedure::Get.code(), &wanted));
        decode_all::<u32>(&results).unwrap()
    };
    assert_eq!(ask(nfs3::PROGRAM, portmap::PROTOCOL_TCP), 2049);
    assert_eq!(ask(mount3::PROGRAM, portmap::PROTOCOL_TCP), 2049);
    assert_eq!(ask(nfs3::PROGRAM, portmap::PROTOCOL_UDP), 0);
    assert_eq!(ask(100_227, portmap::PROTOCOL_TCP), 0);
}

#[test]
fn rpcbind_returns_this_address() {
    let ask = |program, netid: &[u8]| {
        let empty = portmap::RpcbString(b"");
        let wanted = portmap::Rpcb {
            program,
            version: 3,
            netid: portmap::RpcbString(netid),
            address: empty,
            owner: empty,
        };
        let results = results(&record(portmap::PROGRAM, 4, portmap::Procedure::Get.code(), &wanted));
        decode_all::<portmap::RpcbString<'_>>(&results).unwrap().0.to_vec()
    };
    assert_eq!(ask(nfs3::PROGRAM, b"tcp"), b"192.0.2.2.8.1");
    assert_eq!(ask(nfs3::PROGRAM, b"udp"), b"");
    assert_eq!(ask(100_227, b"tcp"), b"");
}

#[test]
fn the_portmapper_lists_programs_and_registers_none() {
    let results2 = results(&record(portmap::PROGRAM, 2, portmap::Procedure::Dump.code(), &()));
    let listed: portmap::MappingList<'_> = decode_all(&results2).unwrap();
    let listed: Vec<_> =
        listed.iter().map(|mapping| (mapping.program, mapping.version, mapping.port)).collect();
    let served: Vec<_> =
        dispatch::served(Transport::Tcp).map(|(program, version)| (program, version, 2049)).collect();
    assert_eq!(listed, served);
    let results3 = results(&record(portmap::PROGRAM, 3, portmap::Procedure::Dump.code(), &()));
    let listed: portmap::RpcbList<'_> = decode_all(&results3).unwrap();
    assert!(listed.iter().all(|rpcb| rpcb.address.0 == b"192.0.2.2.8.1" && rpcb.netid.0 == b"tcp"));
    assert_eq!(listed.iter().count(), served.len());
    let mapping = portmap::Mapping { program: 1, version: 1, protocol: 6, port: 1 };
    for procedure in [portmap::Procedure::Set, portmap::Procedure::Unset] {
        assert_eq!(results(&record(portmap::PROGRAM, 2, procedure.code(), &mapping)), [0; 4]);
    }
}

#[test]
fn failed_mounts_are_not_listed() {
    let results = results(&record(mount3::PROGRAM, 3, 1, &mount3::DirPath(b"/main")));
    let mounted: mount3::MntRes<'_> = decode_all(&results).unwrap();
    assert_eq!(mounted, Err(mount3::MountStat3::NoEnt));
}
