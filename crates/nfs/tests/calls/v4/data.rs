//! Data of files: READ, WRITE, COMMIT.

use nfs::service::Outcome;
use volume::ids::Ino;
use volume::request::Access;
use wire::nfs4::*;

use super::support::*;
use crate::support::{Server, root};

fn write(offset: u64, stable: StableHow4, data: &[u8]) -> ArgOp4<'_> {
    ArgOp4::Write(WriteArgs { stateid: Stateid4::ANONYMOUS, offset, stable, data: data.into() })
}

fn read(offset: u64, count: u32) -> ArgOp4<'static> {
    ArgOp4::Read(ReadArgs { stateid: Stateid4::ANONYMOUS, offset, count })
}

#[test]
fn reads_return_written_data() {
    let server = Server::new();
    let file = file(&server, "file");
    for stable in [StableHow4::Unstable, StableHow4::DataSync, StableHow4::FileSync] {
        let results = compound(&server, &[putfh(file), write(5, stable, b"some bytes")]);
        let ResOp4::Write(Ok(written)) = results.last() else { panic!("{results:?}") };
        assert_eq!(written.count, 10);
        assert!(written.committed >= stable);
        let commit = ArgOp4::Commit(CommitArgs { offset: 0, count: 0 });
        let results = compound(&server, &[putfh(file), commit]);
        let ResOp4::Commit(Ok(committed)) = results.last() else { panic!("{results:?}") };
        assert_eq!(committed.writeverf, written.writeverf);
    }
    let results = compound(&server, &[putfh(file), read(0, 8), read(0, 100), read(100, 5), read(15, 0)]);
    let [
        _,
        ResOp4::Read(Ok(first)),
        ResOp4::Read(Ok(all)),
        ResOp4::Read(Ok(behind)),
        ResOp4::Read(Ok(empty)),
    ] = results.all.as_slice()
    else {
        panic!("{results:?}")
    };
    assert_eq!((first.data, first.eof), (&b"\0\0\0\0\0som"[..], false));
    assert_eq!((all.data, all.eof), (&b"\0\0\0\0\0some bytes"[..], true));
    assert_eq!((behind.data, behind.eof), (&b""[..], true));
    assert_eq!((empty.data, empty.eof), (&b""[..], true));
}

#[test]
fn long_reads_work_before_other_operations() {
    let server = Server::new();
    let file = file(&server, "file");
    let data: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    assert_eq!(status_of(&server, &[putfh(file), write(0, StableHow4::FileSync, &data)]), NfsStat4::Ok);
    let alone = compound(&server, &[putfh(file), read(0, 200_000)]);
    let followed = compound(&server, &[putfh(file), read(0, 200_000), getattr(&[Attr4::Size])]);
    for results in [alone, followed] {
        assert!(matches!(results.all[1], ResOp4::Read(Ok(found)) if found.data == data));
    }
}

#[test]
fn only_regular_files_have_data() {
    let server = Server::new();
    let cases = [
        ("dir", CreateType4::Dir, NfsStat4::IsDir),
        ("fifo", CreateType4::Fifo, NfsStat4::Inval),
        ("link", CreateType4::Lnk(Linktext4(b"x")), NfsStat4::Inval),
    ];
    for (name, what, expected) in cases {
        let object = handle_at(&server, &[create(name, what)]);
        let commit = ArgOp4::Commit(CommitArgs { offset: 0, count: 0 });
        for operation in [read(0, 1), write(0, StableHow4::FileSync, b"x"), commit] {
            assert_eq!(status_of(&server, &[putfh(object), operation]), expected, "{name} {operation:?}");
        }
    }
    assert_eq!(status_of(&server, &[ArgOp4::Putrootfh, read(0, 1)]), NfsStat4::IsDir);
    assert_eq!(
        status_of(&server, &[ArgOp4::Putrootfh, write(0, StableHow4::FileSync, b"x")]),
        NfsStat4::IsDir
    );
    let file = file(&server, "file");
    let far = write(u64::MAX - 1, StableHow4::FileSync, b"xyz");
    assert_eq!(status_of(&server, &[putfh(file), far]), NfsStat4::Fbig);
}

#[test]
fn replies_say_which_object_a_compound_was_about() {
    let server = Server::new();
    let file = file(&server, "file");
    let ino = volume::handle::Handle::parse(file).unwrap().ino;
    assert_eq!(status_of(&server, &[putfh(file), write(0, StableHow4::FileSync, b"data")]), NfsStat4::Ok);
    let about = |operations: &[ArgOp4<'_>]| {
        let (_, record) = record(&server, root(), 0, operations);
        let (outcome, _) = server.offer(root(), &record, Access::Blocking);
        let Outcome::Reply { summary, .. } = outcome else { panic!("{outcome:?}") };
        assert!(summary.volume.is_some());
        summary.ino
    };
    assert_eq!(about(&[putfh(file), read(0, 4)]), ino);
    let [put_root, enter] = to_root();
    assert_eq!(
        about(&[put_root, enter, lookup("file"), getattr(&[Attr4::Size])]),
        Ino(0),
        "a directory above volumes"
    );
    let in_root = server.volume.handle(Ino::ROOT).to_bytes();
    assert_eq!(about(&[putfh(&in_root), lookup("file"), getattr(&[Attr4::Size])]), Ino::ROOT);
}
