//! Operations on long ranges give their turn up, and continue where they stopped.

use volume::handle::Handle;
use volume::request::{Access, Credentials, Request};
use volume::results::Stability;
use wire::nfs4::*;

use super::session::Session;
use super::support::*;
use crate::support::Server;

const ANY: Stateid4 = Stateid4::ANONYMOUS;

/// Mappings of a long file.
const MAPPINGS: u64 = 3000;

/// Where the data of a long file begins. What lies before is a hole.
const START: u64 = 4096;

/// Makes a file of very many mappings, each of one byte in a memtable. No checkpoint is due for a minute.
fn long_file(server: &Server, name: &str) -> &'static [u8] {
    let file = file(server, name);
    server.commit();
    let ino = Handle::parse(file).unwrap().ino;
    let (who, now) = (Credentials::root(), server.time());
    for offset in START..START + MAPPINGS {
        let request = Request { credentials: &who, now, access: Access::Blocking, key: None };
        server.volume.write(&request, ino, offset, &b"x"[..], Stability::FileSync).unwrap();
    }
    server.volume.step_commit(now);
    file
}

fn change_of(server: &Server, file: &[u8]) -> u64 {
    attributes_of(server, file, &[Attr4::Change]).change.unwrap()
}

/// Runs operations in a session. Returns how often they stopped, and the results.
fn run(session: &Session<'_>, operations: &[ArgOp4<'_>]) -> (usize, Results) {
    let all: Vec<_> = std::iter::once(session.sequence(false)).chain(operations.iter().cloned()).collect();
    stops_of(session.server, 2, &all)
}

#[test]
fn a_search_through_a_long_map_gives_its_turn_up() {
    let server = Server::new();
    let (file, session) = (long_file(&server, "file"), Session::new(&server));
    let args = SeekArgs { stateid: ANY, offset: START, what: DataContent4::Hole.code() };
    let seek = || ArgOp4::Seek(args);
    let (stops, found) = run(&session, &[putfh(file), seek()]);
    assert_eq!(stops, 1, "an event loop does one part, a worker thread the others");
    let end = |found: &Results| match found.last() {
        ResOp4::Seek(Ok(found)) => found.offset,
        other => panic!("{other:?}"),
    };
    assert_eq!(end(&found), START + MAPPINGS);
    let many: Vec<_> = std::iter::once(putfh(file)).chain((0..12).map(|_| seek())).collect();
    let (stops, found) = run(&session, &many);
    // Three parts each: one in the event loop, then eight at a time.
    assert_eq!(stops, 1 + (3 * 12 - 1) / 8);
    assert_eq!((found.status, end(&found)), (NfsStat4::Ok, START + MAPPINGS));
}

#[test]
fn holes_over_a_long_map_are_punched_part_by_part() {
    let server = Server::new();
    let (file, session) = (long_file(&server, "file"), Session::new(&server));
    // Only a hole before the end of the data goes in parts.
    let args = DeallocateArgs { stateid: ANY, offset: 0, length: START + MAPPINGS - 1 };
    let before = change_of(&server, file);
    let (stops, punched) = run(&session, &[putfh(file), ArgOp4::Deallocate(args)]);
    assert_eq!((stops, punched.status), (1, NfsStat4::Ok));
    assert_eq!(change_of(&server, file) - before, 3, "1024 mappings at a time, none of them twice");
    assert_eq!(attributes_of(&server, file, &[Attr4::SpaceUsed]).space_used, Some(1));
}

#[test]
fn clones_of_a_long_map_continue_with_the_next_part() {
    let server = Server::new();
    let (from, to, session) = (long_file(&server, "from"), file(&server, "to"), Session::new(&server));
    let clone = |dst_offset| {
        let args = CloneArgs { src_stateid: ANY, dst_stateid: ANY, src_offset: 0, dst_offset, count: 0 };
        ArgOp4::Clone(args)
    };
    let before = change_of(&server, to);
    let (_, cloned) = run(&session, &[putfh(from), ArgOp4::Savefh, putfh(to), clone(0)]);
    assert_eq!(cloned.status, NfsStat4::Ok);
    let parts = change_of(&server, to) - before;
    assert!(parts > 2, "{parts} parts");
    let before = change_of(&server, to);
    let clones: Vec<_> = [putfh(from), ArgOp4::Savefh, putfh(to)]
        .into_iter()
        .chain((1..=6).map(|number| clone(number << 20)))
        .collect();
    let (stops, cloned) = run(&session, &clones);
    assert_eq!(cloned.status, NfsStat4::Ok);
    assert_eq!(change_of(&server, to) - before, 6 * parts, "no part is done twice");
    assert_eq!(stops as u64, 1 + (6 * parts - 1) / 8);
    let read = ArgOp4::Read(ReadArgs { stateid: ANY, offset: (6 << 20) + START, count: 1 << 20 });
    let found = session.on(to, &[read]);
    assert!(matches!(found.last(), ResOp4::Read(Ok(found)) if found.data.iter().all(|byte| *byte == b'x')));
}

#[test]
fn copies_of_a_long_map_report_what_was_copied_before_the_reply() {
    let server = Server::new();
    let (from, to, session) = (long_file(&server, "from"), file(&server, "to"), Session::new(&server));
    let copy = ArgOp4::Copy(CopyArgs {
        src_stateid: ANY,
        dst_stateid: ANY,
        src_offset: 0,
        dst_offset: 1,
        count: 0,
        consecutive: true,
        synchronous: true,
        source_server: wire::array::Array::EMPTY,
    });
    let before = change_of(&server, to);
    let (stops, copied) = run(&session, &[putfh(from), ArgOp4::Savefh, putfh(to), copy]);
    let ResOp4::Copy(CopyRes::Ok(copied)) = copied.last() else { panic!("{copied:?}") };
    let parts = change_of(&server, to) - before;
    assert_eq!((stops, parts), (1, parts.min(9)));
    assert_eq!(attributes_of(&server, to, &[Attr4::Size]).size, Some(1 + copied.response.count));
}
