//! Operations on long ranges give their turn up, and continue where they stopped.

use nfs::service::{Outcome, Progress};
use volume::handle::Handle;
use volume::ids::VolumeId;
use volume::request::{Access, Credentials, Request};
use volume::results::Stability;
use wire::nfs4::*;

use super::identity::minor0;
use super::opens::open_itself;
use super::session::{Session, introduce};
use super::support::*;
use crate::support::{Server, client, root};

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
fn reads_of_many_pieces_end_the_turn_of_a_short_compound() {
    let server = Server::new();
    let (file, session) = (long_file(&server, "file"), Session::new(&server));
    let read = || ArgOp4::Read(ReadArgs { stateid: ANY, offset: START, count: 1 << 20 });
    let read_plus = || ArgOp4::ReadPlus(ReadPlusArgs { stateid: ANY, offset: START, count: 1 << 20 });
    let size = || getattr(&[Attr4::Size]);
    let stops = |operations: &[ArgOp4<'_>]| {
        let (stops, results) = run(&session, operations);
        assert_eq!(results.status, NfsStat4::Ok);
        stops
    };
    stops(&[putfh(file), read()]);
    assert_eq!(stops(&[putfh(file), read(), size()]), 0, "nothing long follows");
    assert_eq!(stops(&[putfh(file), read(), read_plus(), size(), read_plus(), size()]), 2);
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

/// Its caller need not have asked for that.
#[test]
fn the_results_of_a_call_that_was_cut_off_are_only_for_its_user() {
    let server = Server::new();
    let (file, session) = (long_file(&server, "file"), Session::new(&server));
    let read = ArgOp4::Read(ReadArgs { stateid: ANY, offset: START, count: 16 });
    let seek = SeekArgs { stateid: ANY, offset: START, what: DataContent4::Hole.code() };
    let all = [session.sequence(false), putfh(file), read, ArgOp4::Seek(seek)];
    let (_, first) = record(&server, root(), 2, &all);
    let mut progress = None;
    let (outcome, _) = server.offer_again(root(), &first, Access::Cached, &mut progress);
    assert!(matches!(outcome, Outcome::WouldBlock), "{outcome:?}");
    drop(progress);
    for (who, status) in [(client(2, 2), NfsStat4::SeqFalseRetry), (root(), NfsStat4::Delay)] {
        let (xid, again) = record(&server, who, 2, &all);
        assert_eq!(results(&server.serve(who, &again), xid).status, status);
    }
}

#[test]
fn the_repeated_reply_of_a_call_that_was_cut_off_waits_for_all_its_volumes() {
    let server = Server::of_two();
    let session = Session::new(&server);
    let [root_of_all, main] = to_root();
    let all = [
        session.sequence(true),
        root_of_all,
        main,
        create("one", CreateType4::Dir),
        root_of_all,
        lookup("other"),
        create("two", CreateType4::Dir),
    ];
    let (_, record) = record(&server, root(), 2, &all);
    let mut progress = None;
    let (outcome, _) = server.offer_again(root(), &record, Access::Blocking, &mut progress);
    assert!(matches!(outcome, Outcome::Later), "{outcome:?}");
    drop(progress);
    let again = || server.offer(root(), &record, Access::Blocking).0;
    assert!(matches!(again(), Outcome::Later));
    server.commit();
    let Outcome::Reply { after: Some(wait), .. } = again() else { panic!("not durable yet") };
    assert!(wait.pool.volumes().iter().any(|volume| volume.id() == VolumeId(2)));
    server.wait_for(&wait);
    assert!(matches!(again(), Outcome::Reply { after: None, .. }));
}

/// With the reply, an owner remembers what it waits for.
#[test]
fn a_request_of_an_owner_waits_until_earlier_changes_are_durable_in_all_volumes_but_one() {
    let server = Server::of_two();
    let clientid = introduce(&server, b"one", b"192.0.2.1.8.1");
    let [root_of_all, main] = to_root();
    let open = ArgOp4::Open(OpenArgs {
        seqid: 1,
        share_access: share_access::BOTH,
        share_deny: share_deny::NONE,
        owner: StateOwner4 { clientid, owner: OwnerId4(b"owner") },
        openhow: Some(CreateHow4::Unchecked(Fattr4::EMPTY)),
        claim: OpenClaim4::Null(Component4(b"new")),
    });
    let all = [
        root_of_all,
        lookup("other"),
        create("one", CreateType4::Dir),
        root_of_all,
        main,
        create("two", CreateType4::Dir),
        root_of_all,
        main,
        open,
    ];
    let (_, record) = record(&server, root(), 0, &all);
    let mut progress = None;
    let mut offer = || server.offer_again(root(), &record, Access::Blocking, &mut progress).0;
    assert!(matches!(offer(), Outcome::Later));
    let is_there = || at_root(&server, &[lookup("new")]).status == NfsStat4::Ok;
    assert!(!is_there());
    server.commit();
    assert!(matches!(offer(), Outcome::Reply { .. } | Outcome::Later));
    assert!(is_there());
}

fn locking<'a>(locker: Locker4<'a>, offset: u64) -> ArgOp4<'a> {
    let (locktype, reclaim) = (NfsLockType4::Write, false);
    ArgOp4::Lock(LockArgs { locktype, reclaim, offset, length: 1, locker })
}

#[test]
fn many_ranges_are_unlocked_and_freed_with_their_open_in_several_turns() {
    const RANGES: u64 = 1500;
    let server = Server::new();
    let (file, session) = (file(&server, "file"), Session::of(&server, b"a client"));
    let opened = session.on(file, &[open_itself()]);
    let ResOp4::Open(Ok(ok)) = opened.last() else { panic!("{opened:?}") };
    let open_stateid = ok.stateid;
    let lock_owner = StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"process") };
    let lock_all = || {
        let first = OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
        let mut stateid = open_stateid;
        for number in 0..RANGES {
            let locker = Locker4::OpenOwner(first);
            let locked = session.on(file, &[locking(locker, 2 * number)]);
            let ResOp4::Lock(LockRes::Ok(ok)) = locked.last() else { panic!("{locked:?}") };
            stateid = ok.lock_stateid;
        }
        stateid
    };
    let (locktype, lock_stateid) = (NfsLockType4::Write, lock_all());
    let unlock = LockuArgs { locktype, seqid: 0, lock_stateid, offset: 0, length: u64::MAX };
    let (stops, unlocked) = run(&session, &[putfh(file), ArgOp4::Locku(unlock)]);
    assert!(stops >= 5, "{stops}");
    let ResOp4::Locku(LockuRes::Ok(ok)) = unlocked.last() else { panic!("{unlocked:?}") };
    assert_eq!(ok.lock_stateid.seqid, lock_stateid.seqid + 1);
    lock_all();
    let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid });
    let (stops, closed) = run(&session, &[putfh(file), close]);
    assert!(stops >= 5 && closed.status == NfsStat4::Ok, "{stops}: {closed:?}");
}

/// It gives way to others.
#[test]
fn a_long_call_may_end_between_two_parts_and_be_repeated() {
    let server = Server::new();
    let (from, to, session) = (long_file(&server, "from"), file(&server, "to"), Session::new(&server));
    let clone = |number: u64| {
        let (src_offset, dst_offset) = (0, number << 20);
        ArgOp4::Clone(CloneArgs { src_stateid: ANY, dst_stateid: ANY, src_offset, dst_offset, count: 0 })
    };
    let clones: Vec<_> =
        [putfh(from), ArgOp4::Savefh, putfh(to)].into_iter().chain((0..8).map(clone)).collect();
    let all = [&[session.sequence(true)][..], &clones].concat();
    let (xid, first) = record(&server, root(), 2, &all);
    let mut progress = None;
    for access in [Access::Cached, Access::Blocking] {
        let (outcome, _) = server.offer_again(root(), &first, access, &mut progress);
        assert!(matches!(outcome, Outcome::WouldBlock), "{outcome:?}");
    }
    let stopped = progress.as_mut().unwrap();
    assert!(stopped.gave_turn_up());
    stopped.end();
    let before = change_of(&server, to);
    let (outcome, ended) = server.offer_again(root(), &first, Access::Blocking, &mut progress);
    let Outcome::Reply { after, .. } = outcome else { panic!("{outcome:?}") };
    assert!(progress.is_none());
    assert_eq!(change_of(&server, to), before, "no part more was done");
    after.iter().for_each(|wait| server.wait_for(wait));
    let reply = results(&ended, xid);
    let number = reply.all.last().map(ResOp4::num);
    assert_eq!((reply.status, number), (NfsStat4::Delay, Some(OpNum4::Clone)), "{reply:?}");
    assert!((6..all.len()).contains(&reply.all.len()), "{reply:?}");
    assert_eq!(server.serve(root(), &first), ended, "the slot has this reply");
    let (_, again) = run(&session, &clones);
    assert_eq!(again.status, NfsStat4::Ok);
    let read = ArgOp4::Read(ReadArgs { stateid: ANY, offset: START, count: 1 << 20 });
    let found = session.on(to, &[read]);
    assert!(matches!(found.last(), ResOp4::Read(Ok(found)) if found.data.iter().all(|byte| *byte == b'x')));
}

/// As one that waits behind others for room in a pool. It uses nothing up, so that the same call may be made again.
#[test]
fn a_call_may_end_before_it_has_begun() {
    let server = Server::new();
    let (file, session) = (file(&server, "file"), Session::new(&server));
    let write =
        ArgOp4::Write(WriteArgs { stateid: ANY, offset: 0, stable: StableHow4::Unstable, data: b"x".into() });
    for minor in [0, 2] {
        let sequence = (minor > 0).then(|| session.sequence(true));
        let all: Vec<_> = sequence.into_iter().chain([putfh(file), write]).collect();
        let before = change_of(&server, file);
        let (xid, call) = record(&server, root(), minor, &all);
        let mut progress = Some(Progress::default());
        progress.as_mut().unwrap().end();
        let (outcome, ended) = server.offer_again(root(), &call, Access::Cached, &mut progress);
        assert!(matches!(outcome, Outcome::Reply { after: None, .. }), "{outcome:?}");
        let reply = results(&ended, xid);
        assert_eq!((reply.status, reply.all.len()), (NfsStat4::Delay, 1), "{reply:?}");
        assert_eq!(reply.all[0].num(), all[0].num());
        assert_eq!(change_of(&server, file), before);
        let again = results(&server.serve(root(), &call), xid);
        assert_eq!((again.status, again.all.len()), (NfsStat4::Ok, all.len()), "{again:?}");
    }
}

/// An owner of NFSv4.0 counts the answer, and so must the server.
#[test]
fn a_call_that_ends_at_a_request_of_an_owner_uses_its_seqid() {
    const RANGES: u32 = 1500;
    let server = Server::new();
    let held = minor0(&server, root());
    let mut lock_stateid = held.lock;
    for lock_seqid in 1..=RANGES {
        let locker = Locker4::LockOwner(ExistLockOwner4 { lock_stateid, lock_seqid });
        let offset = 200 + 2 * u64::from(lock_seqid);
        let locked = compound_as(&server, root(), 0, &[putfh(held.handle), locking(locker, offset)]);
        let ResOp4::Lock(LockRes::Ok(ok)) = locked.last() else { panic!("{locked:?}") };
        lock_stateid = ok.lock_stateid;
    }
    let unlock = |seqid| {
        let args =
            LockuArgs { locktype: NfsLockType4::Write, seqid, lock_stateid, offset: 0, length: u64::MAX };
        [putfh(held.handle), ArgOp4::Locku(args)]
    };
    let (xid, first) = record(&server, root(), 0, &unlock(RANGES + 1));
    let mut progress = None;
    let (outcome, _) = server.offer_again(root(), &first, Access::Cached, &mut progress);
    assert!(matches!(outcome, Outcome::WouldBlock), "{outcome:?}");
    progress.as_mut().unwrap().end();
    let (outcome, ended) = server.offer_again(root(), &first, Access::Blocking, &mut progress);
    assert!(matches!(outcome, Outcome::Reply { .. }), "{outcome:?}");
    let reply = results(&ended, xid);
    assert_eq!((reply.status, reply.all.len()), (NfsStat4::Delay, 2), "{reply:?}");
    let again = compound_as(&server, root(), 0, &unlock(RANGES + 1));
    assert_eq!(again.status, NfsStat4::Delay, "a repetition is answered alike");
    let (_, unlocked) = stops_of(&server, 0, &unlock(RANGES + 2));
    assert_eq!(unlocked.status, NfsStat4::Ok);
}

/// It is a matter of the device when those go on.
#[test]
fn a_call_that_waits_for_media_has_not_given_its_turn_up() {
    let server = Server::new();
    let session = Session::new(&server);
    let operations =
        [&[session.sequence(false)][..], &to_root(), &[create("one", CreateType4::Dir)]].concat();
    let (_, record) = record(&server, root(), 2, &operations);
    let mut progress = None;
    let (outcome, _) = server.offer_again(root(), &record, Access::Cached, &mut progress);
    assert!(matches!(outcome, Outcome::WouldBlock), "{outcome:?}");
    assert!(!progress.unwrap().gave_turn_up());
}
