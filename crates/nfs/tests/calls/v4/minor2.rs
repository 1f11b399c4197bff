//! Operations of NFSv4.1 and NFSv4.2 on files, and the rules of sessions that COMPOUND enforces.

use nfs::service::Outcome;
use nfs::summary::Transferred;
use volume::request::Access;
use wire::array::Array;
use wire::nfs4::*;

use super::session::Session;
use super::support::*;
use crate::support::{Server, root};

const ANY: Stateid4 = Stateid4::ANONYMOUS;

fn write(offset: u64, data: &[u8]) -> ArgOp4<'_> {
    ArgOp4::Write(WriteArgs { stateid: ANY, offset, stable: StableHow4::FileSync, data: data.into() })
}

fn seek(offset: u64, what: DataContent4) -> ArgOp4<'static> {
    ArgOp4::Seek(SeekArgs { stateid: ANY, offset, what: what.code() })
}

fn sought(results: &Results) -> (u64, bool) {
    match results.last() {
        ResOp4::Seek(Ok(found)) => (found.offset, found.eof),
        other => panic!("{other:?}"),
    }
}

#[test]
fn holes_are_punched_and_found() {
    let server = Server::new();
    let (file, session) = (file(&server, "file"), Session::new(&server));
    assert_eq!(session.on(file, &[write(0, &[7; 64 << 10])]).status, NfsStat4::Ok);
    let (offset, length) = (16 << 10, 16 << 10);
    let punch = ArgOp4::Deallocate(DeallocateArgs { stateid: ANY, offset, length });
    assert_eq!(session.on(file, &[punch]).status, NfsStat4::Ok);
    assert_eq!(sought(&session.on(file, &[seek(0, DataContent4::Hole)])), (16 << 10, false));
    assert_eq!(sought(&session.on(file, &[seek(16 << 10, DataContent4::Data)])), (32 << 10, false));
    assert_eq!(sought(&session.on(file, &[seek(32 << 10, DataContent4::Hole)])), (64 << 10, true));
    assert_eq!(session.on(file, &[seek(64 << 10, DataContent4::Data)]).status, NfsStat4::Nxio);
    let strange = ArgOp4::Seek(SeekArgs { stateid: ANY, offset: 0, what: 9 });
    assert_eq!(session.on(file, &[strange]).status, NfsStat4::UnionNotSupp);
    let read = ArgOp4::ReadPlus(ReadPlusArgs { stateid: ANY, offset: 8 << 10, count: 1 << 20 });
    let results = session.on(file, &[read]);
    let ResOp4::ReadPlus(Ok(found)) = results.last() else { panic!("{results:?}") };
    let parts: Vec<_> = found.contents.iter().collect();
    assert!(found.eof);
    assert_eq!(parts.len(), 3, "{parts:?}");
    assert_eq!(parts[0], ReadPlusContent::Data { offset: 8 << 10, data: &[7; 8 << 10] });
    assert_eq!(parts[1], ReadPlusContent::Hole { offset: 16 << 10, length: 16 << 10 });
    let allocate = |offset, length| ArgOp4::Allocate(AllocateArgs { stateid: ANY, offset, length });
    assert_eq!(session.on(file, &[allocate(0, 100 << 10)]).status, NfsStat4::Ok);
    assert_eq!(attributes_of(&server, file, &[Attr4::Size]).size, Some(100 << 10));
    assert_eq!(session.on(file, &[allocate(0, 0)]).status, NfsStat4::Inval);
    assert_eq!(session.on(file, &[allocate(u64::MAX, 2)]).status, NfsStat4::Inval);
    let dir = handle_at(&server, &[create("dir", CreateType4::Dir)]);
    assert_eq!(session.on(dir, &[allocate(0, 1)]).status, NfsStat4::IsDir);
}

#[test]
fn clones_share_data() {
    let server = Server::new();
    let (from, to) = (file(&server, "from"), file(&server, "to"));
    let session = Session::new(&server);
    let data: Vec<u8> = (0..70_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    assert_eq!(session.on(from, &[write(0, &data)]).status, NfsStat4::Ok);
    let clone = |src_offset, dst_offset, count| {
        let args = CloneArgs { src_stateid: ANY, dst_stateid: ANY, src_offset, dst_offset, count };
        session.on(from, &[ArgOp4::Savefh, putfh(to), ArgOp4::Clone(args)]).status
    };
    assert_eq!(clone(0, 0, 0), NfsStat4::Ok);
    let size = u32::try_from(data.len()).unwrap();
    let read = |count| ArgOp4::Read(ReadArgs { stateid: ANY, offset: 0, count });
    let results = session.on(to, &[read(size)]);
    assert!(matches!(results.last(), ResOp4::Read(Ok(found)) if found.data == data && found.eof));
    assert_eq!(clone(1, 0, 4096), NfsStat4::Inval);
    assert_eq!(clone(4096, 0, 1 << 20), NfsStat4::Inval);
    let copy = |source_server, count| {
        let args = CopyArgs {
            src_stateid: ANY,
            dst_stateid: ANY,
            src_offset: 1,
            dst_offset: 3,
            count,
            consecutive: true,
            synchronous: false,
            source_server,
        };
        session.on(from, &[ArgOp4::Savefh, putfh(to), ArgOp4::Copy(args)])
    };
    let results = copy(Array::EMPTY, 1000);
    let ResOp4::Copy(Ok(copied)) = results.last() else { panic!("{results:?}") };
    assert_eq!((copied.response.count, copied.response.committed), (1000, StableHow4::FileSync));
    assert!(copied.requirements.synchronous && copied.response.callback_id.is_none());
    let results = session.on(to, &[read(2000)]);
    let mut expected = data[..2000].to_vec();
    expected[3..1003].copy_from_slice(&data[1..1001]);
    assert!(matches!(results.last(), ResOp4::Read(Ok(found)) if found.data == expected));
    assert_eq!(copy(Array::EMPTY, 1 << 20).status, NfsStat4::Inval);
    let elsewhere = [Netloc4::Name(Utf8Str4(b"other"))];
    assert_eq!(copy(Array::new(&elsewhere).unwrap(), 1).status, NfsStat4::NotSupp);
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    let server = Server::new();
    let (file, session) = (file(&server, "file"), Session::new(&server));
    let key = Component4(b"color");
    let set = |option, value| {
        let args = SetxattrArgs { option, key, value: Xattrvalue4(value) };
        session.on(file, &[ArgOp4::Setxattr(args)])
    };
    let get = || session.on(file, &[ArgOp4::Getxattr(GetxattrArgs { name: key })]);
    assert_eq!(get().status, NfsStat4::NoXattr);
    assert_eq!(set(SetxattrOption4::Replace, b"red").status, NfsStat4::NoXattr);
    let results = set(SetxattrOption4::Create, b"red");
    let ResOp4::Setxattr(Ok(changed)) = results.last() else { panic!("{results:?}") };
    assert!(changed.after > changed.before);
    assert_eq!(set(SetxattrOption4::Create, b"blue").status, NfsStat4::Exist);
    assert_eq!(set(SetxattrOption4::Either, b"green").status, NfsStat4::Ok);
    assert!(matches!(get().last(), ResOp4::Getxattr(Ok(found)) if found.0 == b"green"));
    let list =
        |cookie, maxcount| session.on(file, &[ArgOp4::Listxattrs(ListxattrsArgs { cookie, maxcount })]);
    let results = list(0, 1000);
    let ResOp4::Listxattrs(Ok(listed)) = results.last() else { panic!("{results:?}") };
    assert_eq!((listed.names.iter().collect::<Vec<_>>(), listed.eof), (vec![key], true));
    assert_eq!(list(0, 20).status, NfsStat4::TooSmall);
    let remove = ArgOp4::Removexattr(RemovexattrArgs { name: key });
    assert_eq!(session.on(file, &[remove]).status, NfsStat4::Ok);
    assert_eq!(session.on(file, &[remove]).status, NfsStat4::NoXattr);
    let rights = access::READ | access::XAREAD | access::XAWRITE | access::XALIST;
    let results = session.on(file, &[ArgOp4::Access(AccessArgs { access: rights })]);
    assert!(
        matches!(results.last(), ResOp4::Access(Ok(found)) if found.supported == rights && found.access == rights)
    );
}

#[test]
fn every_attribute_that_can_be_read_is_shown() {
    let server = Server::new();
    let (file, session) = (file(&server, "file"), Session::new(&server));
    let shown = |request: &[Attr4]| {
        let results = session.on(file, &[getattr(request)]);
        let ResOp4::Getattr(Ok(found)) = results.last() else { panic!("{results:?}") };
        found.obj_attributes.decode_values().unwrap()
    };
    let supported = shown(&[Attr4::SupportedAttrs]).supported_attrs.unwrap();
    let set_only = AttrMask::of(&[Attr4::TimeAccessSet, Attr4::TimeModifySet, Attr4::ModeUmask]);
    let readable = supported - set_only;
    let all: Vec<Attr4> = readable.iter().collect();
    assert_eq!(shown(&all).mask(), readable, "together");
    for attribute in all {
        assert_eq!(shown(&[attribute]).mask(), AttrMask::of(&[attribute]), "{attribute:?} alone");
    }
    assert_eq!(shown(&[Attr4::ModeUmask]).mask(), AttrMask::EMPTY);
}

#[test]
fn operations_without_support_get_their_status() {
    let server = Server::new();
    let (file, session) = (file(&server, "file"), Session::new(&server));
    let advise = IoAdviseArgs { stateid: ANY, offset: 0, count: 0, hints: Bitmap4::EMPTY.with(1) };
    let results = session.on(file, &[ArgOp4::IoAdvise(advise)]);
    assert!(matches!(results.last(), ResOp4::IoAdvise(Ok(found)) if found.hints.is_empty()));
    let status = ArgOp4::OffloadStatus(OffloadStatusArgs { stateid: ANY });
    assert_eq!(session.on(file, &[status]).status, NfsStat4::BadStateId);
    let openattr = ArgOp4::Openattr(OpenattrArgs { createdir: false });
    assert_eq!(session.on(file, &[openattr]).status, NfsStat4::NotSupp);
    let renew = ArgOp4::Renew(RenewArgs { clientid: ClientId4(1) });
    assert_eq!(session.on(file, &[renew]).status, NfsStat4::NotSupp);
}

#[test]
fn sessions_order_their_requests() {
    let server = Server::new();
    let session = Session::new(&server);
    let first = session.sequence(false);
    assert_eq!(compound_as(&server, root(), 2, &[first, first]).status, NfsStat4::SequencePos);
    let many = vec![ArgOp4::Putrootfh; 16];
    assert_eq!(session.compound(&many).status, NfsStat4::TooManyOps);
    // After SECINFO there is no current filehandle.
    let session = Session::new(&server);
    let secinfo = ArgOp4::SecinfoNoName(SecinfoStyle4::CurrentFh);
    assert_eq!(session.compound(&[ArgOp4::Putrootfh, secinfo, ArgOp4::Getfh]).status, NfsStat4::NoFileHandle);
    let restored = session.compound(&[ArgOp4::Putrootfh, ArgOp4::Restorefh]);
    assert_eq!(restored.status, NfsStat4::NoFileHandle);
}

#[test]
fn slots_repeat_their_reply() {
    let server = Server::new();
    let session = Session::new(&server);
    let operations = [&[session.sequence(true)][..], &to_root(), &[create("new", CreateType4::Dir)]].concat();
    let first = compound_as(&server, root(), 2, &operations);
    assert_eq!(first.status, NfsStat4::Ok);
    let second = compound_as(&server, root(), 2, &operations);
    assert_eq!((second.status, second.all), (NfsStat4::Ok, first.all));
}

#[test]
fn replies_respect_the_limits_of_the_session() {
    let server = Server::new();
    let file = file(&server, "file");
    let session = Session::with_replies(&server, 600);
    assert_eq!(session.reply_bytes(), 600);
    assert_eq!(session.on(file, &[write(0, &[7; 4096])]).status, NfsStat4::Ok);
    // A READ returns less; other results are too big.
    let read = ArgOp4::Read(ReadArgs { stateid: ANY, offset: 0, count: 4096 });
    let results = session.on(file, &[read]);
    assert!(
        matches!(results.last(), ResOp4::Read(Ok(found)) if found.data.len() < 600 && !found.data.is_empty())
    );
    let handles = vec![ArgOp4::Getfh; 14];
    assert_eq!(session.on(file, &handles).status, NfsStat4::RepTooBig);
    let session = Session::new(&server);
    let cached = [&[session.sequence(true), putfh(file)][..], &[read]].concat();
    assert_eq!(compound_as(&server, root(), 2, &cached).status, NfsStat4::RepTooBigToCache);
}

#[test]
fn rate_limits_count_values_of_attributes_and_copies_but_no_clones() {
    let server = Server::new();
    let (from, to) = (file(&server, "from"), file(&server, "to"));
    let session = Session::new(&server);
    assert_eq!(session.on(from, &[write(0, &[7; 8192])]).status, NfsStat4::Ok);
    let moved = |operations: &[ArgOp4<'_>]| {
        let all = [&[session.sequence(false), putfh(from)][..], operations].concat();
        let (_, record) = record(&server, root(), 2, &all);
        let (outcome, _) = server.offer(root(), &record, Access::Blocking);
        let Outcome::Reply { summary, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(summary.transferred, Transferred::default(), "metrics count READs and WRITEs only");
        let moved = summary.moved().map(|one| one.bytes);
        moved.fold((0, 0), |(read, written), one| (read + one.read, written + one.written))
    };
    let (key, option) = (Component4(b"color"), SetxattrOption4::Either);
    let set = SetxattrArgs { option, key, value: Xattrvalue4(&[1; 700]) };
    assert_eq!(moved(&[ArgOp4::Setxattr(set)]), (0, 700));
    let get = ArgOp4::Getxattr(GetxattrArgs { name: key });
    assert_eq!(moved(&[get]), (700, 0));
    assert_eq!(moved(&[ArgOp4::Listxattrs(ListxattrsArgs { cookie: 0, maxcount: 1000 })]), (0, 0));
    let clone = CloneArgs { src_stateid: ANY, dst_stateid: ANY, src_offset: 0, dst_offset: 0, count: 8192 };
    assert_eq!(moved(&[ArgOp4::Savefh, putfh(to), ArgOp4::Clone(clone)]), (0, 0));
    let copy = CopyArgs {
        src_stateid: ANY,
        dst_stateid: ANY,
        src_offset: 0,
        dst_offset: 0,
        count: 8192,
        consecutive: true,
        synchronous: true,
        source_server: Array::EMPTY,
    };
    assert_eq!(moved(&[ArgOp4::Savefh, putfh(to), ArgOp4::Copy(copy)]), (0, 8192));
}
