//! NLM and NSM: locks of NFSv3 hosts, through calls and callbacks.

use nfs::exports::{Export, Squash};
use nfs::service::{Callback, Destination};
use volume::request::Access;
use wire::nfs3::{self, FileHandle3, NfsStat3};
use wire::nlm4::{self, *};
use wire::nsm::{self, SmName, SmRes, SmStatRes, StatChge};
use wire::record::{Peek, peek};
use wire::rpc::{AcceptStat, AuthStat, RejectedReply, ReplyBody, ReplyHeader, decode_call};
use wire::xdr::{Decode, Encode, decode_all};

use crate::support::{Call, Client, Server, client, encoded, open_export, results, root};

mod mixed;

/// A process of a host: address, host name and process number.
#[derive(Clone, Copy)]
struct Process {
    who: Client,
    host: &'static [u8],
    svid: u32,
    /// The state of the host's status monitor.
    state: i32,
}

fn process(number: u8, svid: u32) -> Process {
    let names: [&[u8]; 3] = [b"none", b"one", b"two"];
    let who = Client { peer: format!("192.0.2.{number}:900").parse().unwrap(), ..root() };
    Process { who, host: names[usize::from(number)], svid, state: 3 }
}

/// A range to lock, and whether exclusively.
type Wish = (u64, u64, bool);

const WHOLE: Wish = (0, 0, true);

fn alock<'a>(of: &'a Process, file: FileHandle3<'a>, (l_offset, l_len, _): Wish) -> Nlm4Lock<'a> {
    let (caller_name, fh, oh) = (HostName(of.host), Netobj(file.as_bytes()), Netobj(b"owner"));
    Nlm4Lock { caller_name, fh, oh, svid: of.svid, l_offset, l_len }
}

fn call<T: Decode<'static>>(server: &Server, who: Client, procedure: Procedure, args: &impl Encode) -> T {
    let args = encoded(args);
    let procedure = procedure.code();
    let call = Call { xid: server.next_xid(), program: nlm4::PROGRAM, version: 4, procedure, args: &args };
    results(server.rpc(who, call))
}

fn lock_args<'a>(of: &'a Process, file: FileHandle3<'a>, wish: Wish, block: bool) -> LockArgs<'a> {
    let alock = alock(of, file, wish);
    LockArgs { cookie: Netobj(b"lock"), block, exclusive: wish.2, alock, reclaim: false, state: of.state }
}

fn lock_with(server: &Server, of: Process, args: &LockArgs<'_>) -> Nlm4Stats {
    let res: Res<'_> = call(server, of.who, Procedure::Lock, args);
    assert_eq!(res.cookie, args.cookie);
    res.stat
}

fn lock(server: &Server, of: Process, file: FileHandle3<'_>, wish: Wish) -> Nlm4Stats {
    lock_with(server, of, &lock_args(&of, file, wish, false))
}

fn wait(server: &Server, of: Process, file: FileHandle3<'_>, wish: Wish) -> Nlm4Stats {
    lock_with(server, of, &lock_args(&of, file, wish, true))
}

fn reclaim(server: &Server, of: Process, file: FileHandle3<'_>, wish: Wish) -> Nlm4Stats {
    lock_with(server, of, &LockArgs { reclaim: true, ..lock_args(&of, file, wish, true) })
}

fn unlock(server: &Server, of: Process, file: FileHandle3<'_>, wish: Wish) -> Nlm4Stats {
    let args = UnlockArgs { cookie: Netobj(b"unlock"), alock: alock(&of, file, wish) };
    let res: Res<'_> = call(server, of.who, Procedure::Unlock, &args);
    assert_eq!(res.cookie, args.cookie);
    res.stat
}

fn cancel(server: &Server, of: Process, file: FileHandle3<'_>, wish: Wish) -> Nlm4Stats {
    let alock = alock(&of, file, wish);
    let args = CancelArgs { cookie: Netobj(b"cancel"), block: true, exclusive: wish.2, alock };
    call::<Res<'_>>(server, of.who, Procedure::Cancel, &args).stat
}

fn test(server: &Server, of: Process, file: FileHandle3<'_>, wish: Wish) -> TestReply<'static> {
    let args = TestArgs { cookie: Netobj(b"test"), exclusive: wish.2, alock: alock(&of, file, wish) };
    let res: TestRes<'_> = call(server, of.who, Procedure::Test, &args);
    assert_eq!(res.cookie, args.cookie);
    res.stat
}

fn share(
    server: &Server,
    of: Process,
    file: FileHandle3<'_>,
    procedure: Procedure,
    mode: Fsh4Mode,
) -> Nlm4Stats {
    let (caller_name, fh, oh) = (HostName(of.host), Netobj(file.as_bytes()), Netobj(b"owner"));
    let share = Nlm4Share { caller_name, fh, oh, mode, access: Fsh4Access::Read };
    let args = ShareArgs { cookie: Netobj(b"share"), share, reclaim: false };
    let res: ShareRes<'_> = call(server, of.who, procedure, &args);
    assert_eq!(res.cookie, args.cookie);
    res.stat
}

/// A status monitor reports that its host restarted.
fn notify(server: &Server, of: Process, state: i32) {
    let args = encoded(&StatChge { mon_name: nsm::HostName(of.host), state });
    let procedure = nsm::Procedure::Notify.code();
    let call = Call { xid: server.next_xid(), program: nsm::PROGRAM, version: 1, procedure, args: &args };
    results::<()>(server.rpc(of.who, call));
}

/// A call of the server to a program of a host.
struct Called {
    id: u64,
    xid: u32,
    to: Destination,
    procedure: u32,
    args: &'static [u8],
}

/// Takes the calls to send.
fn called(server: &Server) -> Vec<Called> {
    server.service.tick(server.clocks());
    let take = |callback: Callback| {
        let record: &'static [u8] = callback.record.leak();
        let Ok(Peek::Complete { record, .. }) = peek(record, 4096) else { panic!("no whole record") };
        let (header, args) = decode_call(record).unwrap();
        let Destination::Program { program, version, .. } = callback.to else { panic!("{:?}", callback.to) };
        assert_eq!((header.program, header.version), (program, version));
        let (xid, procedure) = (header.xid, header.procedure);
        Called { id: callback.id, xid, to: callback.to, procedure, args: args.rest() }
    };
    server.service.take_callbacks().into_iter().map(take).collect()
}

/// Takes the only call, NLM_GRANTED, at a host for a lock.
fn granted(server: &Server, host: &str) -> (Called, TestArgs<'static>) {
    let mut all = called(server);
    assert_eq!(all.len(), 1, "one call");
    let called = all.remove(0);
    let to = Destination::Program { host: host.parse().unwrap(), program: nlm4::PROGRAM, version: 4 };
    assert_eq!((called.to, called.procedure), (to, Procedure::Granted.code()));
    let args = decode_all(called.args).unwrap();
    (called, args)
}

fn answer(server: &Server, called: &Called, stat: Nlm4Stats) {
    answer_with(server, called, (called.xid, cookie(called)), stat);
}

fn cookie(called: &Called) -> Netobj<'static> {
    decode_all::<TestArgs<'_>>(called.args).unwrap().cookie
}

/// The host that was called sends a reply with this xid and cookie.
fn answer_with(server: &Server, called: &Called, (xid, cookie): (u32, Netobj<'_>), stat: Nlm4Stats) {
    let mut record = encoded(&ReplyHeader::accepted(xid, AcceptStat::Success));
    record.extend(encoded(&Res { cookie, stat }));
    server.service.callback_answered(called.id, &record, server.clocks());
}

fn file_of(server: &Server) -> FileHandle3<'static> {
    server.create(root(), server.root(), "file", 0o644)
}

use Nlm4Stats::{Blocked, Denied, DeniedNolocks, Fbig, Granted, Rofs, StaleFh};

#[test]
fn locks_exclude_processes_and_hosts() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, same_host, other) = (process(1, 7), process(1, 8), process(2, 7));
    assert_eq!(lock(&server, one, file, (10, 10, true)), Granted);
    assert_eq!(lock(&server, one, file, (10, 10, true)), Granted, "the owner has the lock");
    assert_eq!(lock(&server, same_host, file, (19, 1, false)), Denied);
    assert_eq!(lock(&server, other, file, (0, 11, true)), Denied);
    assert_eq!(lock(&server, other, file, (20, 0, true)), Granted, "to the end");
    let TestReply::Denied(holder) = test(&server, one, file, (25, 1, false)) else { panic!("free") };
    let expected = Nlm4Holder { exclusive: true, svid: 7, oh: Netobj(b"owner"), l_offset: 20, l_len: 0 };
    assert_eq!(holder, expected);
    assert_eq!(test(&server, other, file, (20, 0, true)), TestReply::Stat(Granted));
    assert_eq!(unlock(&server, one, file, (12, 2, true)), Granted);
    assert_eq!(lock(&server, other, file, (12, 2, true)), Granted, "from the middle");
    assert_eq!(lock(&server, other, file, (14, 1, true)), Denied);
    for of in [one, other, other] {
        assert_eq!(unlock(&server, of, file, WHOLE), Granted, "even if nothing is locked");
    }
    assert_eq!(lock(&server, same_host, file, WHOLE), Granted);
}

#[test]
fn shared_locks_coexist() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 7));
    assert_eq!(lock(&server, one, file, (0, 0, false)), Granted);
    assert_eq!(lock(&server, two, file, (0, 0, false)), Granted);
    assert_eq!(lock(&server, two, file, (5, 1, true)), Denied, "an upgrade");
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    assert_eq!(lock(&server, two, file, (5, 1, true)), Granted);
}

#[test]
fn waiters_are_called_when_they_get_the_lock() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    assert_eq!(wait(&server, two, file, (4, 4, true)), Blocked);
    assert_eq!(wait(&server, two, file, (4, 4, true)), Blocked, "repeated");
    assert!(called(&server).is_empty());
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    let (called_two, args) = granted(&server, "192.0.2.2");
    assert_eq!(args.alock, alock(&two, file, (4, 4, true)));
    assert!(args.exclusive);
    assert_eq!(lock(&server, one, file, (4, 1, false)), Denied, "two has the lock");
    answer(&server, &called_two, Granted);
    assert_eq!(lock(&server, one, file, (4, 1, false)), Denied);
    assert!(called(&server).is_empty());
    assert_eq!(unlock(&server, two, file, WHOLE), Granted);
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
}

/// Its lock would be freed, while it believes that it has it.
#[test]
fn a_host_cannot_refuse_what_another_one_was_granted() {
    let server = Server::new();
    let file = file_of(&server);
    let (holder, one, two) = (process(1, 6), process(1, 7), process(2, 8));
    assert_eq!(lock(&server, holder, file, WHOLE), Granted);
    assert_eq!(wait(&server, one, file, (0, 1, true)), Blocked);
    assert_eq!(wait(&server, two, file, (1, 1, true)), Blocked);
    assert_eq!(unlock(&server, holder, file, WHOLE), Granted);
    let calls = called(&server);
    let [to_one, mut to_two] = calls.try_into().unwrap_or_else(|_| panic!("two calls"));
    for forged in
        [(to_one.xid, cookie(&to_one)), (to_one.xid, cookie(&to_two)), (to_two.xid, cookie(&to_one))]
    {
        answer_with(&server, &to_two, forged, Denied);
        assert_eq!(lock(&server, holder, file, (0, 1, true)), Denied, "one has it");
        assert_eq!(lock(&server, holder, file, (1, 1, true)), Denied, "no answer of two arrived");
        // The call has failed, so it is repeated.
        server.pass(6);
        to_two = called(&server).remove(0);
    }
    answer(&server, &to_one, Denied);
    assert_eq!(lock(&server, holder, file, (0, 1, true)), Granted);
    answer(&server, &to_two, Denied);
    assert_eq!(lock(&server, holder, file, (1, 1, true)), Granted);
}

#[test]
fn grants_are_called_even_if_another_host_is_unresponsive() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    assert_eq!(wait(&server, two, file, WHOLE), Blocked);
    // As many large ones as fit, then small ones, so that nothing else has room.
    for cookie in [&[1; 1024][..], &[]] {
        let args = TestArgs { cookie: Netobj(cookie), exclusive: true, alock: alock(&one, file, WHOLE) };
        (0..4000).for_each(|_| call(&server, one.who, Procedure::TestMsg, &args));
    }
    let unanswered = called(&server).len();
    assert!((1000..4000).contains(&unanswered), "{unanswered} results");
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    let (called_two, _) = granted(&server, "192.0.2.2");
    answer(&server, &called_two, Granted);
}

#[test]
fn waiters_get_locks_in_order() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    let waiters: Vec<Process> = (10..20).map(|svid| process(2, svid)).collect();
    for waiter in &waiters {
        assert_eq!(wait(&server, *waiter, file, WHOLE), Blocked);
    }
    assert_eq!(cancel(&server, waiters[3], file, WHOLE), Granted);
    assert_eq!(cancel(&server, two, file, WHOLE), Denied, "it did not wait");
    let mut holder = one;
    for waiter in waiters.iter().filter(|waiter| waiter.svid != 13) {
        assert_eq!(unlock(&server, holder, file, WHOLE), Granted);
        let (called, args) = granted(&server, "192.0.2.2");
        assert_eq!(args.alock.svid, waiter.svid);
        answer(&server, &called, Granted);
        holder = *waiter;
    }
    // Readers share it.
    let readers = [process(1, 30), process(2, 31)];
    readers.iter().for_each(|reader| assert_eq!(wait(&server, *reader, file, (0, 0, false)), Blocked));
    assert_eq!(unlock(&server, holder, file, WHOLE), Granted);
    assert_eq!(called(&server).len(), 2);
}

#[test]
fn refused_grants_are_freed() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    // It acknowledges the grant.
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    assert_eq!(wait(&server, two, file, WHOLE), Blocked);
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    answer(&server, &granted(&server, "192.0.2.2").0, Denied);
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    // It cancels while it is being called.
    assert_eq!(wait(&server, two, file, WHOLE), Blocked);
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    assert_eq!(cancel(&server, two, file, WHOLE), Granted);
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    answer(&server, &granted(&server, "192.0.2.2").0, Granted);
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    assert_eq!(lock(&server, two, file, WHOLE), Granted);
}

/// One owner waits twice, as two threads do. When it is granted one range, both places are gone, and with them what kept
/// others waiting.
#[test]
fn a_grant_ends_all_waits_of_its_owner_there_and_wakes_whoever_waited_behind() {
    let server = Server::new();
    let file = file_of(&server);
    let (far, near) = (process(1, 1), process(1, 2));
    for (holder, range) in [(far, (20, 10, true)), (far, (40, 10, true)), (near, (0, 20, true))] {
        assert_eq!(lock(&server, holder, file, range), Granted);
    }
    let twice = process(2, 3);
    for (waiter, range) in [
        (twice, (0, 30, true)),
        (twice, (20, 6, true)),
        (process(2, 4), (40, 6, true)),
        (process(2, 5), (10, 10, true)),
    ] {
        assert_eq!(wait(&server, waiter, file, range), Blocked);
    }
    assert_eq!(unlock(&server, near, file, (10, 10, true)), Granted);
    let is_held = |range| matches!(test(&server, process(1, 9), file, range), TestReply::Denied(_));
    assert!(!is_held((10, 10, true)), "it is reserved for whoever waits longest");
    assert_eq!(unlock(&server, far, file, WHOLE), Granted);
    for range in [(20, 6, true), (40, 6, true), (10, 10, true)] {
        assert!(is_held(range), "{range:?} is granted");
    }
}

#[test]
fn uncallable_waiters_lose_their_grant_after_a_lease() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    assert_eq!(wait(&server, two, file, WHOLE), Blocked);
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    let mut tries = 0;
    for _ in 0..100 {
        for called in called(&server) {
            tries += 1;
            server.service.callback_failed(called.id, server.clocks());
        }
        if lock(&server, one, file, WHOLE) == Granted {
            assert!(tries > 5, "{tries}");
            return;
        }
        server.pass(2);
    }
    panic!("after {tries} tries");
}

#[test]
fn repeated_locks_acknowledge_grants() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    assert_eq!(wait(&server, two, file, WHOLE), Blocked);
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    let (called_two, _) = granted(&server, "192.0.2.2");
    assert_eq!(wait(&server, two, file, WHOLE), Granted);
    // A late answer finds no waiter.
    answer(&server, &called_two, Denied);
    assert_eq!(lock(&server, one, file, WHOLE), Denied);
}

#[test]
fn messages_are_answered_by_calls() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    results::<()>(message(&server, one, Procedure::LockMsg, &lock_args(&one, file, WHOLE, false)));
    let answered = |procedure: Procedure| {
        let mut all = called(&server);
        assert_eq!(all.len(), 1);
        let called = all.remove(0);
        assert_eq!(called.procedure, procedure.code());
        called.args
    };
    let res: Res<'_> = decode_all(answered(Procedure::LockRes)).unwrap();
    assert_eq!(res, Res { cookie: Netobj(b"lock"), stat: Granted });
    let args = TestArgs { cookie: Netobj(b"test"), exclusive: true, alock: alock(&two, file, WHOLE) };
    results::<()>(message(&server, two, Procedure::TestMsg, &args));
    let res: TestRes<'_> = decode_all(answered(Procedure::TestRes)).unwrap();
    assert!(matches!(res.stat, TestReply::Denied(holder) if holder.svid == 7));
    let alock_two = alock(&two, file, WHOLE);
    let args = CancelArgs { cookie: Netobj(b"cancel"), block: true, exclusive: true, alock: alock_two };
    results::<()>(message(&server, two, Procedure::CancelMsg, &args));
    let res: Res<'_> = decode_all(answered(Procedure::CancelRes)).unwrap();
    assert_eq!(res.stat, Denied);
    let args = UnlockArgs { cookie: Netobj(b"unlock"), alock: alock(&one, file, WHOLE) };
    results::<()>(message(&server, one, Procedure::UnlockMsg, &args));
    let res: Res<'_> = decode_all(answered(Procedure::UnlockRes)).unwrap();
    assert_eq!(res.stat, Granted);
    assert_eq!(lock(&server, two, file, WHOLE), Granted);
}

fn message(
    server: &Server,
    of: Process,
    procedure: Procedure,
    args: &impl Encode,
) -> (ReplyBody<'static>, Vec<u8>) {
    let args = encoded(args);
    let procedure = procedure.code();
    server.rpc(
        of.who,
        Call { xid: server.next_xid(), program: nlm4::PROGRAM, version: 4, procedure, args: &args },
    )
}

#[test]
fn restarts_keep_locks_and_notify_hosts() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, (0, 10, true)), Granted);
    assert_eq!(lock(&server, one, file, (5, 2, false)), Granted);
    assert_eq!(wait(&server, two, file, WHOLE), Blocked);
    assert_eq!(share(&server, two, file, Procedure::Share, Fsh4Mode::DenyRead), Granted);
    let before = monitor_state(&server);
    let server = server.restarted();
    let state = monitor_state(&server);
    assert!(state > before && state % 2 == 1, "{before} {state}");
    let notices = called(&server);
    assert_eq!(notices.len(), 2);
    for (notice, host) in notices.iter().zip(["192.0.2.1", "192.0.2.2"]) {
        let to = Destination::Program { host: host.parse().unwrap(), program: nsm::PROGRAM, version: 1 };
        assert_eq!((notice.to, notice.procedure), (to, nsm::Procedure::Notify.code()));
        let args: StatChge<'_> = decode_all(notice.args).unwrap();
        assert_eq!(args, StatChge { mon_name: nsm::HostName(b"192.0.2.2"), state });
    }
    // One answers; the other is notified again.
    let done = encoded(&ReplyHeader::accepted(notices[0].xid, AcceptStat::Success));
    server.service.callback_answered(notices[0].id, &done, server.clocks());
    server.service.callback_failed(notices[1].id, server.clocks());
    assert!(called(&server).is_empty());
    server.pass(6);
    assert_eq!(called(&server).len(), 1);
    // Locks survive.
    assert_eq!(lock(&server, two, file, (0, 1, false)), Denied);
    assert_eq!(lock(&server, two, file, (5, 2, false)), Granted, "shared");
    assert_eq!(unlock(&server, two, file, WHOLE), Granted);
    assert_eq!(reclaim(&server, one, file, (0, 5, true)), Granted);
    assert_eq!(reclaim(&server, two, file, (20, 5, true)), Denied, "it was not held");
    assert_eq!(share(&server, one, file, Procedure::Share, Fsh4Mode::DenyNone), Denied);
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    assert_eq!(lock(&server, two, file, WHOLE), Granted);
    // Unlocked ranges stay unlocked.
    let server = server.restarted();
    assert_eq!(lock(&server, one, file, WHOLE), Denied);
    assert_eq!(unlock(&server, two, file, WHOLE), Granted);
    let server = server.restarted();
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
}

fn monitor_state(server: &Server) -> i32 {
    let args = encoded(&SmName { mon_name: nsm::HostName(b"one") });
    let procedure = nsm::Procedure::Stat.code();
    let call = Call { xid: server.next_xid(), program: nsm::PROGRAM, version: 1, procedure, args: &args };
    let res: SmStatRes = results(server.rpc(root(), call));
    assert_eq!(res.res_stat, SmRes::Succ);
    res.state
}

#[test]
fn restarted_hosts_lose_their_locks() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    assert_eq!(wait(&server, two, file, WHOLE), Blocked);
    notify(&server, two, 5);
    assert_eq!(lock(&server, two, file, (0, 1, false)), Denied, "that was another host");
    notify(&server, one, 3);
    assert_eq!(lock(&server, two, file, (0, 1, false)), Denied, "one came after that restart");
    notify(&server, one, 5);
    assert_eq!(lock(&server, process(1, 9), file, (0, 1, true)), Granted);
    let restarted = Process { state: 5, ..one };
    assert_eq!(unlock(&server, process(1, 9), file, WHOLE), Granted);
    assert_eq!(lock(&server, restarted, file, WHOLE), Granted);
    notify(&server, restarted, 5);
    assert_eq!(lock(&server, two, file, WHOLE), Denied, "the notice was repeated");
    let server = server.restarted();
    assert_eq!(lock(&server, two, file, WHOLE), Denied);
    // The notice was lost, but its state is noticed.
    let again = Process { state: 7, svid: 1, ..one };
    assert_eq!(lock(&server, again, file, (3, 1, true)), Granted);
    assert_eq!(lock(&server, two, file, (4, 1, true)), Granted);
}

#[test]
fn free_all_frees_the_locks_of_one_name() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    let free = |of: Process, name: &'static [u8]| {
        call::<()>(&server, of.who, Procedure::FreeAll, &Notify { name: HostName(name), state: 0 });
    };
    free(two, b"one");
    free(one, b"two");
    assert_eq!(lock(&server, two, file, WHOLE), Denied);
    free(one, b"one");
    assert_eq!(lock(&server, two, file, WHOLE), Granted);
}

/// A program of an unprivileged user, which pretends to be its host's lock manager.
fn unprivileged(of: Process) -> Process {
    let peer = std::net::SocketAddr::new(of.who.peer.ip(), 40_000);
    Process { who: Client { peer, ..of.who }, ..of }
}

/// Sends a call that is refused, or whose result is empty.
fn is_refused(
    server: &Server,
    who: Client,
    program: u32,
    version: u32,
    (procedure, args): (u32, &[u8]),
) -> bool {
    let call = Call { xid: server.next_xid(), program, version, procedure, args };
    let (body, _) = server.rpc(who, call);
    body == ReplyBody::Denied(RejectedReply::AuthError(AuthStat::TooWeak))
}

fn notice_is_refused(server: &Server, of: Process, state: i32) -> bool {
    let args = encoded(&StatChge { mon_name: nsm::HostName(of.host), state });
    is_refused(server, of.who, nsm::PROGRAM, 1, (nsm::Procedure::Notify.code(), &args))
}

fn free_all_is_refused(server: &Server, of: Process) -> bool {
    let args = encoded(&Notify { name: HostName(of.host), state: 0 });
    is_refused(server, of.who, nlm4::PROGRAM, 4, (Procedure::FreeAll.code(), &args))
}

#[test]
fn unprivileged_users_cannot_free_the_locks_of_their_host() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    let user = unprivileged(one);
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    assert_eq!(share(&server, one, file, Procedure::Share, Fsh4Mode::DenyNone), Granted);
    assert_eq!(unlock(&server, user, file, WHOLE), Granted, "of what it has not locked");
    assert_eq!(share(&server, user, file, Procedure::Unshare, Fsh4Mode::DenyNone), Granted);
    assert!(!free_all_is_refused(&server, user), "it frees its own");
    assert!(notice_is_refused(&server, user, 99));
    assert_eq!(lock(&server, Process { state: 99, ..user }, file, WHOLE), Denied, "its state is its own");
    assert_eq!(wait(&server, two, file, WHOLE), Blocked);
    assert_eq!(cancel(&server, unprivileged(two), file, WHOLE), Denied);
    assert_eq!(lock(&server, two, file, WHOLE), Denied);
    let server = server.restarted();
    assert_eq!(unlock(&server, user, file, WHOLE), Granted);
    assert_eq!(lock(&server, two, file, WHOLE), Denied);
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    assert_eq!(
        lock(&server, user, file, WHOLE),
        Granted,
        "hosts may call from unprivileged ports throughout"
    );
    assert_eq!(unlock(&server, user, file, WHOLE), Granted);
    assert_eq!(lock(&server, two, file, WHOLE), Granted);
}

#[test]
fn hosts_that_no_export_admits_free_nothing_and_are_not_called() {
    let mut server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    let message = |server: &Server, of: Process| {
        let args = encoded(&lock_args(&of, file, WHOLE, false));
        is_refused(server, of.who, nlm4::PROGRAM, 4, (Procedure::LockMsg.code(), &args))
    };
    server.export(vec![Export { privileged_port_required: true, ..open_export() }]);
    let user = unprivileged(one);
    assert_eq!(unlock(&server, user, file, WHOLE), DeniedNolocks);
    assert!(free_all_is_refused(&server, user) && notice_is_refused(&server, user, 99));
    assert!(message(&server, user), "the server would call its host");
    server.export(vec![Export { clients: vec!["192.0.2.2/32".parse().unwrap()], ..open_export() }]);
    assert!(free_all_is_refused(&server, one) && notice_is_refused(&server, one, 99));
    assert!(message(&server, one));
    assert!(called(&server).is_empty());
    assert!(!message(&server, two));
    assert_eq!(called(&server).len(), 1);
    assert_eq!(lock(&server, two, file, WHOLE), Denied, "the lock is still there");
    let mut server = server.restarted();
    server.export(vec![Export { clients: vec!["192.0.2.2/32".parse().unwrap()], ..open_export() }]);
    assert!(called(&server).is_empty(), "nor is it told of a restart");
}

#[test]
fn shares_deny_until_unshared() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    assert_eq!(share(&server, one, file, Procedure::Share, Fsh4Mode::DenyWrite), Granted);
    assert_eq!(share(&server, two, file, Procedure::Share, Fsh4Mode::DenyNone), Granted, "to read");
    assert_eq!(share(&server, two, file, Procedure::Share, Fsh4Mode::DenyRead), Denied);
    assert_eq!(share(&server, one, file, Procedure::Unshare, Fsh4Mode::DenyWrite), Granted);
    assert_eq!(share(&server, one, file, Procedure::Unshare, Fsh4Mode::DenyWrite), Granted, "again");
    assert_eq!(share(&server, two, file, Procedure::Share, Fsh4Mode::DenyRead), Granted);
    assert_eq!(share(&server, one, file, Procedure::Share, Fsh4Mode::DenyNone), Denied);
}

#[test]
fn shares_bind_callers_without_opens() {
    let server = Server::new();
    let file = file_of(&server);
    let (one, two) = (process(1, 7), process(2, 8));
    let write = |of: Process| {
        let args = nfs3::WriteArgs {
            file,
            offset: 0,
            count: 1,
            stable: nfs3::StableHow::FileSync,
            data: b"1".into(),
        };
        let written: nfs3::WriteRes = server.call(of.who, nfs3::Procedure::Write, &args);
        written.map_or_else(|failed| failed.status, |_| NfsStat3::Ok)
    };
    let read = |of: Process| {
        let args = nfs3::ReadArgs { file, offset: 0, count: 1 };
        let found: nfs3::ReadRes<'_> = server.call(of.who, nfs3::Procedure::Read, &args);
        found.map_or_else(|failed| failed.status, |_| NfsStat3::Ok)
    };
    let cut = |of: Process| {
        let new_attributes = nfs3::Sattr3 { size: Some(0), ..nfs3::Sattr3::default() };
        let args = nfs3::SetattrArgs { object: file, new_attributes, guard: None };
        let set: nfs3::SetattrRes = server.call(of.who, nfs3::Procedure::Setattr, &args);
        set.map_or_else(|failed| failed.status, |_| NfsStat3::Ok)
    };
    assert_eq!((write(two), cut(two), read(two)), (NfsStat3::Ok, NfsStat3::Ok, NfsStat3::Ok));
    assert_eq!(share(&server, one, file, Procedure::Share, Fsh4Mode::DenyWrite), Granted);
    let jukebox = NfsStat3::Jukebox;
    assert_eq!((write(two), cut(two), read(two)), (jukebox, jukebox, NfsStat3::Ok));
    assert_eq!((write(one), cut(one)), (NfsStat3::Ok, NfsStat3::Ok), "its own");
    assert_eq!(share(&server, one, file, Procedure::Unshare, Fsh4Mode::DenyWrite), Granted);
    assert_eq!((write(two), cut(two)), (NfsStat3::Ok, NfsStat3::Ok));
}

#[test]
fn unlockable_objects_are_refused() {
    let mut server = Server::new();
    let file = file_of(&server);
    let one = process(1, 7);
    assert_eq!(lock(&server, one, FileHandle3::new(b"no handle").unwrap(), WHOLE), StaleFh);
    assert_eq!(lock(&server, one, file, (3, u64::MAX - 1, true)), Fbig);
    assert_eq!(lock(&server, one, server.root(), WHOLE), DeniedNolocks, "a directory");
    let secret = server.create(root(), server.root(), "secret", 0o600);
    let user = Process { who: Client { peer: one.who.peer, ..client(1000, 1000) }, ..one };
    assert_eq!(lock(&server, user, secret, WHOLE), DeniedNolocks);
    assert_eq!(lock(&server, user, file, WHOLE), DeniedNolocks, "whoever only reads excludes nobody");
    assert_eq!(lock(&server, user, file, (0, 0, false)), Granted);
    server.export(vec![nfs::exports::Export { read_only: true, ..open_export() }]);
    assert_eq!(lock(&server, one, secret, WHOLE), Rofs);
    assert_eq!(lock(&server, one, secret, (0, 0, false)), Granted);
    let elsewhere = vec!["198.51.100.0/24".parse().unwrap()];
    server.export(vec![nfs::exports::Export { clients: elsewhere, ..open_export() }]);
    assert_eq!(lock(&server, one, file, WHOLE), DeniedNolocks);
    assert_eq!(test(&server, one, file, WHOLE), TestReply::Stat(DeniedNolocks));
    assert_eq!(unlock(&server, one, file, WHOLE), DeniedNolocks);
}

/// What counts is who a caller is by the rules of the export, not who it claims to be.
#[test]
fn a_squashed_owner_cannot_lock_what_it_cannot_read() {
    let mut server = Server::new();
    let secret = server.create(root(), server.root(), "secret", 0o600);
    let one = process(1, 7);
    assert_eq!(lock(&server, one, secret, WHOLE), Granted);
    assert_eq!(unlock(&server, one, secret, WHOLE), Granted);
    for squash in [Squash::Root, Squash::All] {
        server.export(vec![Export { squash, ..open_export() }]);
        assert_eq!(lock(&server, one, secret, (0, 0, false)), DeniedNolocks);
        assert_eq!(test(&server, one, secret, WHOLE), TestReply::Stat(DeniedNolocks));
        assert_eq!(share(&server, one, secret, Procedure::Share, Fsh4Mode::DenyNone), DeniedNolocks);
    }
}

#[test]
fn only_who_may_write_a_file_denies_it_to_others() {
    let mut server = Server::new();
    let file = file_of(&server);
    let one = process(1, 7);
    let reader = Process { who: Client { peer: one.who.peer, ..client(1000, 1000) }, ..one };
    for mode in [Fsh4Mode::DenyRead, Fsh4Mode::DenyWrite, Fsh4Mode::DenyReadWrite] {
        assert_eq!(share(&server, reader, file, Procedure::Share, mode), DeniedNolocks);
    }
    assert_eq!(share(&server, reader, file, Procedure::Share, Fsh4Mode::DenyNone), Granted);
    server.export(vec![Export { read_only: true, ..open_export() }]);
    assert_eq!(share(&server, one, file, Procedure::Share, Fsh4Mode::DenyWrite), Rofs);
}

#[test]
fn locked_files_stay_until_unlocked() {
    let server = Server::new();
    let file = file_of(&server);
    let one = process(1, 7);
    assert_eq!(lock(&server, one, file, WHOLE), Granted);
    let args = wire::nfs3::RemoveArgs { object: crate::support::place(server.root(), "file") };
    let removed: wire::nfs3::RemoveRes = server.call(root(), wire::nfs3::Procedure::Remove, &args);
    removed.unwrap();
    assert_eq!(lock(&server, process(2, 1), file, WHOLE), Denied);
    let server = server.restarted();
    assert_eq!(lock(&server, process(2, 1), file, WHOLE), Denied);
    assert_eq!(unlock(&server, one, file, WHOLE), Granted);
    server.volume.step_orphans(server.time());
    assert_eq!(lock(&server, one, file, WHOLE), StaleFh);
}

#[test]
fn all_volumes_hold_locks() {
    let server = Server::of_two();
    let file = server.create(root(), server.root_of("/other"), "file", 0o644);
    assert_eq!(lock(&server, process(1, 7), file, WHOLE), Granted);
    assert_eq!(lock(&server, process(2, 7), file, WHOLE), Denied);
}

#[test]
fn local_procedures_are_unavailable() {
    let server = Server::new();
    let unavailable = |program: u32, version: u32, procedure: u32| {
        let call = Call { xid: server.next_xid(), program, version, procedure, args: &[] };
        let (body, _) = server.rpc(root(), call);
        assert_eq!(body, ReplyHeader::accepted(0, AcceptStat::ProcUnavail).body, "{program} {procedure}");
    };
    [16, 17, 18, 19, 24].into_iter().for_each(|procedure| unavailable(nlm4::PROGRAM, 4, procedure));
    [2, 3, 4, 5, 7].into_iter().for_each(|procedure| unavailable(nsm::PROGRAM, 1, procedure));
}

#[test]
fn truncated_arguments_are_garbage() {
    let server = Server::new();
    let file = file_of(&server);
    let one = process(1, 7);
    let whole = encoded(&lock_args(&one, file, WHOLE, true));
    for procedure in (1..=10).chain(20..=23) {
        for length in 0..whole.len() {
            let args = &whole[..length];
            let call = Call { xid: server.next_xid(), program: nlm4::PROGRAM, version: 4, procedure, args };
            // It may fail, but not panic.
            server.offer(one.who, &call.record(one.who), Access::Blocking);
        }
    }
}
