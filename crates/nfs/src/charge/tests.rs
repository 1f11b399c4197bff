use volume::handle::HANDLE_BYTES;
use volume::ids::{Ino, SnapshotId};
use wire::array::Array;
use wire::nfs3::StableHow;
use wire::nfs4::compound::CompoundArgsEncoder;
use wire::nfs4::{
    AttrMask, Component4, FileHandle4, GetattrArgs, LookupArgs, PutfhArgs, SequenceArgs, SessionId4,
    Stateid4, Utf8Str4,
};
use wire::rpc::{CallHeader, Credential, OpaqueAuth};
use wire::xdr::{Encode, Encoder};

use super::*;
use crate::exports::pseudo::Pseudo;
use crate::exports::{Export, Exports};

const VOLUME: VolumeId = VolumeId(7);
const OTHER: VolumeId = VolumeId(8);
const CLOSED: VolumeId = VolumeId(9);

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

/// Volumes whose exports admit the caller: one at `/data/here`, and one beneath it, at `/data/here/there`.
fn charge(record: &[u8]) -> Option<Charge> {
    let near = "10.0.0.0/8".parse().unwrap();
    let exports = Exports::new(vec![
        Export::new("/data/here", VOLUME),
        Export::new("/data/here/there", OTHER),
        Export { clients: vec![near], ..Export::new("/data/closed", CLOSED) },
    ]);
    let exports = exports.unwrap();
    let map =
        Map { exports: &exports, pseudo: &Pseudo::new(&exports), peer: "192.0.2.1:900".parse().unwrap() };
    Charge::of(&IncomingRecord::decode(record), &map)
}

/// Returns the places with their work.
fn places(charge: &Charge) -> Vec<(VolumeId, Work)> {
    charge.places().map(|place| (place.volume, place.work)).collect()
}

/// Returns the handle of an object that is not the root.
fn handle(volume: VolumeId) -> [u8; HANDLE_BYTES] {
    Handle::new(volume, Ino(5), SnapshotId::LIVE, &[0; 16]).to_bytes()
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

fn lookup(name: &[u8]) -> ArgOp4<'_> {
    ArgOp4::Lookup(LookupArgs { objname: Component4(name) })
}

fn write(data: &[u8]) -> ArgOp4<'_> {
    let (stateid, stable) = (Stateid4::ANONYMOUS, nfs4::StableHow4::Unstable);
    ArgOp4::Write(nfs4::WriteArgs { stateid, offset: 0, stable, data: data.into() })
}

fn getattr() -> ArgOp4<'static> {
    ArgOp4::Getattr(GetattrArgs { attr_request: AttrMask::EMPTY })
}

#[test]
fn procedures_of_nfs3_count_their_bytes() {
    let bytes = handle(VOLUME);
    let file = FileHandle3::new(&bytes).unwrap();
    let of = |procedure: Procedure, arguments: &dyn Fn(&mut Encoder<'_>)| {
        charge(&call(nfs3::PROGRAM, nfs3::VERSION, procedure as u32, arguments))
    };
    let here = |work| Some(Charge::of_one(Some(VOLUME), work));
    let read = of(Procedure::Read, &|out| ReadArgs { file, offset: 0, count: u32::MAX }.encode(out));
    assert_eq!(read, here(Work::read(1 << 20)));
    let write = of(Procedure::Write, &|out| {
        let data = vec![0; 300];
        WriteArgs { file, offset: 0, count: 300, stable: StableHow::Unstable, data: (&data).into() }
            .encode(out);
    });
    assert_eq!(write, here(Work::write(300)));
    assert_eq!(of(Procedure::Getattr, &|out| file.encode(out)), here(Work::METADATA));
    let commit = of(Procedure::Commit, &|out| file.encode(out));
    assert_eq!(commit, here(Work::METADATA).map(Charge::urgent));
    assert_eq!(of(Procedure::Null, &|_| ()), None);
    assert_eq!(charge(&[0; 3]), None, "a record that is no call");
    assert_eq!(of(Procedure::Read, &|_| ()), Some(Charge::unknown()), "it will be refused");
    let closed = handle(CLOSED);
    let closed = FileHandle3::new(&closed).unwrap();
    assert_eq!(
        of(Procedure::Getattr, &|out| closed.encode(out)),
        Some(Charge::unknown()),
        "not the caller's"
    );
}

#[test]
fn a_compound_counts_in_each_volume_for_what_it_moves_there() {
    let (here, there) = (handle(VOLUME), handle(OTHER));
    let moved = compound(&[sequence(), putfh(&here), read(4096), read(100), putfh(&there), getattr()]);
    assert_eq!(places(&moved), [(VOLUME, Work::read(4196)), (OTHER, Work::METADATA)]);
    assert_eq!(moved.work, Work::read(4196));
    let data = vec![0; 5000];
    let second = compound(&[putfh(&there), write(b"x"), putfh(&here), write(&data), read(9), putfh(&there)]);
    let both = Work { read: Some(9), written: Some(5000) };
    assert_eq!(places(&second), [(VOLUME, both), (OTHER, Work::write(1))], "most first");
    assert_eq!(second.work, Work { read: Some(9), written: Some(5001) });
    let saved = compound(&[putfh(&here), ArgOp4::Savefh, putfh(&there), ArgOp4::Restorefh, read(1)]);
    assert_eq!(places(&saved), [(VOLUME, Work::read(1))]);
    assert_eq!(places(&compound(&[sequence(), putfh(&here)])), [(VOLUME, Work::METADATA)]);
    assert!(places(&compound(&[putfh(&handle(CLOSED)), read(1)])).is_empty(), "it does not reach that one");
}

#[test]
fn names_lead_to_the_volumes_of_exports() {
    let (root, file) =
        (Handle::new(VOLUME, Ino::ROOT, SnapshotId::LIVE, &[0; 16]).to_bytes(), handle(VOLUME));
    let below = handle(OTHER);
    let volumes = |operations: &[ArgOp4<'_>]| -> Vec<u64> {
        let operations = [operations, &[read(1)]].concat();
        let places = places(&compound(&operations));
        places.into_iter().filter(|(_, work)| *work == Work::read(1)).map(|(volume, _)| volume.0).collect()
    };
    let data = || [ArgOp4::Putrootfh, lookup(b"data")];
    assert_eq!(volumes(&data()), [0; 0], "a directory of no volume");
    assert_eq!(volumes(&[&data()[..], &[lookup(b"here"), lookup(b"file")]].concat()), [7]);
    assert_eq!(volumes(&[&data()[..], &[lookup(b"here"), lookup(b"there")]].concat()), [8]);
    assert_eq!(volumes(&[&data()[..], &[lookup(b"closed")]].concat()), [0; 0]);
    assert_eq!(volumes(&[putfh(&root), lookup(b"there")]), [8]);
    assert_eq!(volumes(&[putfh(&file), lookup(b"there")]), [7]);
    // It may have come to the root, and from there to the directory above.
    assert_eq!(volumes(&[putfh(&file), ArgOp4::Lookupp, lookup(b"there")]), [7, 8]);
    assert_eq!(volumes(&[putfh(&below), ArgOp4::Lookupp, ArgOp4::Lookupp]), [8, 7]);
    assert_eq!(volumes(&[putfh(&root), ArgOp4::Lookupp, lookup(b"here")]), [7]);
}

#[test]
fn values_of_attributes_and_copies_count_like_data() {
    let file = handle(VOLUME);
    let get = ArgOp4::Getxattr(nfs4::GetxattrArgs { name: Component4(b"key") });
    let asked = Work::read(XATTR_BYTES_ASKED);
    assert_eq!(compound(&[putfh(&file), get]), Charge::of_one(Some(VOLUME), asked));
    let names = ArgOp4::Listxattrs(nfs4::ListxattrsArgs { cookie: 0, maxcount: 1000 });
    assert_eq!(compound(&[putfh(&file), names]), Charge::of_one(Some(VOLUME), Work::METADATA));
    let clone = ArgOp4::Clone(nfs4::CloneArgs {
        src_stateid: Stateid4::ANONYMOUS,
        dst_stateid: Stateid4::ANONYMOUS,
        src_offset: 0,
        dst_offset: 0,
        count: 1 << 30,
    });
    assert_eq!(compound(&[putfh(&file), clone]), Charge::of_one(Some(VOLUME), Work::METADATA));
    let set = ArgOp4::Setxattr(nfs4::SetxattrArgs {
        option: nfs4::SetxattrOption4::Either,
        key: Component4(b"key"),
        value: nfs4::Xattrvalue4(&[0; 700]),
    });
    assert_eq!(compound(&[putfh(&file), set]), Charge::of_one(Some(VOLUME), Work::write(700)));
    let copy = |count| {
        ArgOp4::Copy(nfs4::CopyArgs {
            src_stateid: Stateid4::ANONYMOUS,
            dst_stateid: Stateid4::ANONYMOUS,
            src_offset: 0,
            dst_offset: 0,
            count,
            consecutive: true,
            synchronous: false,
            source_server: Array::EMPTY,
        })
    };
    for (count, bytes) in [(5, 5), (0, TRANSFER_BYTES_MAX), (1 << 40, TRANSFER_BYTES_MAX)] {
        let copied = compound(&[putfh(&file), ArgOp4::Savefh, putfh(&file), copy(count)]);
        assert_eq!(copied, Charge::of_one(Some(VOLUME), Work::write(bytes)));
    }
    let several = [putfh(&file), ArgOp4::Savefh, putfh(&file), copy(5), copy(1 << 20), copy(0)];
    assert_eq!(compound(&several), Charge::of_one(Some(VOLUME), Work::write(TRANSFER_BYTES_MAX)));
}

#[test]
fn only_what_releases_or_renews_is_urgent() {
    let bytes = handle(VOLUME);
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
    let stateids = [Stateid4::ANONYMOUS];
    let test = nfs4::TestStateidArgs { stateids: Array::new(&stateids).unwrap() };
    assert!(!compound(&[sequence(), ArgOp4::TestStateid(test)]).is_urgent, "it gives nothing back");
    let many = [putfh(&bytes), getattr(), getattr(), commit()];
    assert!(!compound(&many).is_urgent, "a COMMIT takes one GETATTR along");
}
