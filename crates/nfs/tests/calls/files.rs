//! Data: WRITE, READ, COMMIT, and truncation.

use wire::nfs3::*;

use crate::support::{Server, assert_unchanged, client, place, root};

fn write_args(
    file: FileHandle3<'static>,
    offset: u64,
    data: &'static [u8],
    stable: StableHow,
) -> WriteArgs<'static> {
    WriteArgs { file, offset, count: u32::try_from(data.len()).unwrap(), stable, data: data.into() }
}

#[test]
fn reads_return_written_data() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let written = server.write(file, 0, b"hello").unwrap();
    assert_eq!((written.count, written.committed), (5, StableHow::FileSync));
    assert_eq!(written.file_wcc.before.unwrap().size, 0);
    assert_eq!(written.file_wcc.after.unwrap().size, 5);
    let read = server.read(file, 0, 100).unwrap();
    assert_eq!((read.data, read.count, read.eof), (&b"hello"[..], 5, true));
    assert_eq!(read.file_attributes.unwrap().size, 5);
    let read = server.read(file, 1, 3).unwrap();
    assert_eq!((read.data, read.count, read.eof), (&b"ell"[..], 3, false));
}

#[test]
fn holes_read_as_zeros_and_take_no_space() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    server.write(file, 300_001, b"end").unwrap();
    let read = server.read(file, 299_990, 1000).unwrap();
    assert_eq!(read.data, b"\0\0\0\0\0\0\0\0\0\0\0end");
    assert!(read.eof);
    let attributes = server.getattr(file);
    assert_eq!(attributes.size, 300_004);
    assert!(attributes.used < 100_000, "{}", attributes.used);
}

#[test]
fn reading_past_the_end_is_empty() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    server.write(file, 0, b"hello").unwrap();
    for offset in [5, 6, 1 << 40, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
        let read = server.read(file, offset, 10).unwrap();
        assert_eq!((read.data, read.eof), (&b""[..], true), "{offset}");
    }
    assert_eq!(server.read(file, 0, 0).unwrap().data, b"");
}

#[test]
fn reads_are_limited_to_rtmax() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let data: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    for piece in 0..2 {
        server.write(file, piece << 20, &data).unwrap();
    }
    let read = server.read(file, 10, u32::MAX).unwrap();
    assert_eq!(read.data.len(), 1 << 20);
    assert!(!read.eof);
    assert_eq!(read.data.first(), Some(&10));
}

#[test]
fn unstable_data_is_made_stable_by_commit_under_the_same_verifier() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let args = write_args(file, 0, &[7; 200_000], StableHow::Unstable);
    let written: WriteRes = server.call(root(), Procedure::Write, &args);
    let written = written.unwrap();
    assert_eq!(written.committed, StableHow::Unstable);
    let args = CommitArgs { file, offset: 0, count: 0 };
    let committed: CommitRes = server.call(root(), Procedure::Commit, &args);
    let committed = committed.unwrap();
    assert_eq!(committed.verf, written.verf);
    assert_unchanged(committed.file_wcc);
    let server = server.restarted();
    assert_eq!(server.read(file, 0, 1 << 20).unwrap().data, [7; 200_000]);
    let committed: CommitRes = server.call(root(), Procedure::Commit, &args);
    assert_ne!(committed.unwrap().verf, written.verf, "data may have been lost");
}

#[test]
fn writes_whose_count_differs_from_the_data_are_invalid() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    for count in [0, 4, 6, u32::MAX] {
        let args = WriteArgs { count, ..write_args(file, 0, b"hello", StableHow::FileSync) };
        let refused: WriteRes = server.call(root(), Procedure::Write, &args);
        let refused = refused.unwrap_err();
        assert_eq!(refused.status, NfsStat3::Inval);
        assert_eq!(assert_unchanged(refused.body).size, 0);
    }
}

#[test]
fn files_have_a_maximum_size() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let largest = i64::MAX as u64;
    for offset in [largest, largest - 4, u64::MAX, u64::MAX - 4] {
        let refused = server.write(file, offset, b"hello").unwrap_err();
        assert_eq!(refused.status, NfsStat3::Fbig, "{offset}");
        assert_unchanged(refused.body);
    }
    assert_eq!(server.write(file, largest - 5, b"hello").unwrap().file_wcc.after.unwrap().size, largest);
}

#[test]
fn reads_and_writes_need_a_regular_file() {
    let server = Server::new();
    let dir = server.mkdir(root(), server.root(), "dir", 0o755);
    let read = server.read(dir, 0, 10).unwrap_err();
    assert!(matches!(read.status, NfsStat3::IsDir | NfsStat3::Inval));
    assert_eq!(read.body.unwrap().file_type, FileType3::Dir);
    let written = server.write(dir, 0, b"hello").unwrap_err();
    assert!(matches!(written.status, NfsStat3::IsDir | NfsStat3::Inval));
    assert_unchanged(written.body);
    let args = CommitArgs { file: dir, offset: 0, count: 0 };
    let committed: CommitRes = server.call(root(), Procedure::Commit, &args);
    assert_unchanged(committed.unwrap_err().body);
}

#[test]
fn modes_guard_data() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o600);
    let args = ReadArgs { file, offset: 0, count: 1 };
    let read: ReadRes<'_> = server.call(client(7, 7), Procedure::Read, &args);
    let read = read.unwrap_err();
    assert_eq!(read.status, NfsStat3::Acces);
    assert_eq!(read.body.unwrap().mode, 0o600);
    let args = write_args(file, 0, b"hello", StableHow::FileSync);
    let written: WriteRes = server.call(client(7, 7), Procedure::Write, &args);
    assert_eq!(written.unwrap_err().status, NfsStat3::Acces);
}

#[test]
fn removed_files_are_stale() {
    let server = Server::new();
    let dir = server.root();
    let file = server.create(root(), dir, "file", 0o644);
    let removed: RemoveRes =
        server.call(root(), Procedure::Remove, &RemoveArgs { object: place(dir, "file") });
    removed.unwrap();
    let read = server.read(file, 0, 1).unwrap_err();
    assert_eq!((read.status, read.body), (NfsStat3::Stale, None));
    let written = server.write(file, 0, b"x").unwrap_err();
    assert_eq!((written.status, written.body), (NfsStat3::Stale, WccData::NONE));
}
