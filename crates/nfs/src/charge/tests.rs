use volume::handle::HANDLE_BYTES;
use volume::ids::{Ino, SnapshotId};
use wire::nfs3::StableHow;
use wire::nfs4::compound::CompoundArgsEncoder;
use wire::nfs4::{
    AttrMask, Component4, FileHandle4, GetattrArgs, LookupArgs, PutfhArgs, SequenceArgs, SessionId4,
    Stateid4, Utf8Str4,
};
use wire::rpc::{CallHeader, Credential, OpaqueAuth};
use wire::xdr::{Encode, Encoder};

use super::*;

const VOLUME: VolumeId = VolumeId(7);

fn call(program: u32, version: u32, procedure: u32, arguments: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut record = Vec::new();
    let mut out = Encoder::new(&mut record);
    let header = CallHeader {
        xid: 1,
        program,
        version,
        procedure,
        credential: Credential::None,
        verifier: OpaqueAuth::NONE,
    };
    header.encode(&mut out);
    arguments(&mut out);
    record
}

fn charge(record: &[u8]) -> Option<Charge> {
    Charge::of(&IncomingRecord::decode(record))
}

fn handle(volume: VolumeId) -> [u8; HANDLE_BYTES] {
    Handle::new(volume, Ino(1), SnapshotId::LIVE, &[0; 16]).to_bytes()
}

fn compound(operations: &[ArgOp4<'_>]) -> Charge {
    let record = call(nfs4::PROGRAM, nfs4::VERSION, 1, |out| {
        let mut compound = CompoundArgsEncoder::begin(out, Utf8Str4(b""), 2);
        operations.iter().for_each(|operation| compound.push(operation));
        compound.finish();
    });
    charge(&record).unwrap()
}

fn sequence() -> ArgOp4<'static> {
    ArgOp4::Sequence(SequenceArgs {
        sessionid: SessionId4([0; 16]),
        sequenceid: 1,
        slotid: 0,
        highest_slotid: 0,
        cachethis: false,
    })
}

fn putfh(bytes: &[u8]) -> ArgOp4<'_> {
    ArgOp4::Putfh(PutfhArgs { object: FileHandle4::new(bytes).unwrap() })
}

fn read(count: u32) -> ArgOp4<'static> {
    ArgOp4::Read(nfs4::ReadArgs { stateid: Stateid4::ANONYMOUS, offset: 0, count })
}

#[test]
fn procedures_of_nfs3_count_their_bytes() {
    let bytes = handle(VOLUME);
    let file = FileHandle3::new(&bytes).unwrap();
    let of = |procedure: Procedure, arguments: &dyn Fn(&mut Encoder<'_>)| {
        charge(&call(nfs3::PROGRAM, nfs3::VERSION, procedure as u32, arguments))
    };
    let here = Charge { volume: Some(VOLUME), ..Charge::METADATA };
    let read = of(Procedure::Read, &|out| ReadArgs { file, offset: 0, count: u32::MAX }.encode(out));
    assert_eq!(read, Some(Charge { direction: Some(Direction::Read), bytes: 1 << 20, ..here }));
    let write = of(Procedure::Write, &|out| {
        let data = vec![0; 300];
        WriteArgs { file, offset: 0, count: 300, stable: StableHow::Unstable, data: (&data).into() }
            .encode(out);
    });
    assert_eq!(write, Some(Charge { direction: Some(Direction::Write), bytes: 300, ..here }));
    assert_eq!(of(Procedure::Getattr, &|out| file.encode(out)), Some(here));
    assert_eq!(of(Procedure::Commit, &|out| file.encode(out)), Some(Charge { is_urgent: true, ..here }));
    assert_eq!(of(Procedure::Null, &|_| ()), None);
    assert_eq!(charge(&[0; 3]), None, "a record that is no call");
    assert_eq!(of(Procedure::Read, &|_| ()), Some(Charge::METADATA), "it will be refused");
}

#[test]
fn compounds_count_what_they_move_where_they_move_it() {
    let (here, there) = (handle(VOLUME), handle(VolumeId(8)));
    let moved = compound(&[sequence(), putfh(&here), read(4096), read(100), putfh(&there)]);
    let expected =
        Charge { volume: Some(VOLUME), direction: Some(Direction::Read), bytes: 4196, ..Charge::METADATA };
    assert_eq!(moved, expected);
    let saved = compound(&[putfh(&here), ArgOp4::Savefh, putfh(&there), ArgOp4::Restorefh, read(1)]);
    assert_eq!((saved.volume, saved.may_leave), (Some(VOLUME), false));
    let name = ArgOp4::Lookup(LookupArgs { objname: Component4(b"name") });
    let left = compound(&[putfh(&here), name, read(1)]);
    assert_eq!((left.volume, left.may_leave), (Some(VOLUME), true));
    let rooted = compound(&[ArgOp4::Putrootfh, name, read(1)]);
    assert_eq!((rooted.volume, rooted.may_leave), (None, true));
}

#[test]
fn only_what_releases_or_renews_is_urgent() {
    let bytes = handle(VOLUME);
    let getattr = || ArgOp4::Getattr(GetattrArgs { attr_request: AttrMask::EMPTY });
    let commit = || ArgOp4::Commit(nfs4::CommitArgs { offset: 0, count: 0 });
    assert!(compound(&[sequence()]).is_urgent, "it renews the lease");
    let stateid = Stateid4::ANONYMOUS;
    let (locktype, offset, length) = (nfs4::NfsLockType4::Write, 0, 1);
    let urgent = [
        commit(),
        ArgOp4::Close(nfs4::CloseArgs { seqid: 0, open_stateid: stateid }),
        ArgOp4::Locku(nfs4::LockuArgs { locktype, seqid: 0, lock_stateid: stateid, offset, length }),
        ArgOp4::Delegreturn(nfs4::DelegreturnArgs { deleg_stateid: stateid }),
    ];
    for operation in urgent {
        assert!(compound(&[sequence(), putfh(&bytes), operation]).is_urgent, "{operation:?}");
        assert!(compound(&[putfh(&bytes), operation, getattr()]).is_urgent, "{operation:?}");
    }
    assert!(compound(&[ArgOp4::Renew(nfs4::RenewArgs { clientid: nfs4::ClientId4(1) })]).is_urgent);
    assert!(!compound(&[sequence(), putfh(&bytes), getattr()]).is_urgent);
    assert!(
        !compound(&[sequence(), putfh(&bytes), read(1), commit()]).is_urgent,
        "nothing takes a READ along"
    );
    assert!(!compound(&[sequence(), putfh(&bytes), ArgOp4::Readlink, commit()]).is_urgent);
}
