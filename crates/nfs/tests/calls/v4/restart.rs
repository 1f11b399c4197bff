//! A server that is killed and started again: its clients continue as if nothing had happened.

use volume::ids::VolumeId;
use wire::nfs4::*;

use super::session::Session;
use super::support::{Results, attributes_of, fattr, file, lookup, putfh, to_root};
use crate::support::{Server, open_export};

fn open(owner: &'static [u8], deny: u32, how: Option<CreateHow4<'static>>) -> ArgOp4<'static> {
    ArgOp4::Open(OpenArgs {
        seqid: 0,
        share_access: share_access::BOTH | share_access::WANT_NO_DELEG,
        share_deny: deny,
        owner: StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(owner) },
        openhow: how,
        claim: OpenClaim4::Null(Component4(b"file")),
    })
}

fn lock(open_stateid: Stateid4) -> ArgOp4<'static> {
    let lock_owner = StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"locker") };
    let locker = OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
    ArgOp4::Lock(LockArgs {
        locktype: NfsLockType4::Write,
        reclaim: false,
        offset: 0,
        length: 100,
        locker: Locker4::OpenOwner(locker),
    })
}

fn lockt() -> ArgOp4<'static> {
    let owner = StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"another") };
    ArgOp4::Lockt(LocktArgs { locktype: NfsLockType4::Write, offset: 0, length: 1, owner })
}

#[test]
fn clients_keep_their_state_across_a_restart() {
    let server = Server::new();
    let session = Session::new(&server);
    session.compound(&[ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
    let create = Some(CreateHow4::Guarded(Fattr4::EMPTY));
    let opening = [&to_root()[..], &[open(b"owner", share_deny::WRITE, create), ArgOp4::Getfh]].concat();
    let opened = session.compound(&opening);
    let [.., ResOp4::Open(Ok(open_ok)), ResOp4::Getfh(Ok(handle))] = &opened.all[..] else {
        panic!("{opened:?}")
    };
    let (stateid, handle) = (open_ok.stateid, handle.object.as_bytes());
    let (id, sequence) = session.known();

    // The reply was lost. The repeated request gets the same reply, although the file exists now.
    let server = server.restarted();
    let session = Session::resumed(&server, (id, sequence - 1));
    let again = session.compound(&opening);
    let [.., ResOp4::Open(Ok(open_again)), _] = &again.all[..] else { panic!("{again:?}") };
    assert_eq!(open_again.stateid, stateid);

    let locked = session.on(handle, &[lock(stateid)]);
    let ResOp4::Lock(Ok(locked)) = locked.last() else { panic!("{locked:?}") };
    let known = session.known();
    let server = server.restarted();
    let session = Session::resumed(&server, known);
    assert_eq!(session.on(handle, &[lockt()]).status, NfsStat4::Denied);
    let other = [&to_root()[..], &[open(b"other", share_deny::NONE, None)]].concat();
    assert_eq!(session.compound(&other).status, NfsStat4::ShareDenied);
    let unlock = ArgOp4::Locku(LockuArgs {
        locktype: NfsLockType4::Write,
        seqid: 0,
        lock_stateid: locked.lock_stateid,
        offset: 0,
        length: 100,
    });
    assert_eq!(session.compound(&[putfh(handle), unlock]).status, NfsStat4::Ok);
    assert_eq!(session.on(handle, &[lockt()]).status, NfsStat4::Ok);
    let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: stateid });
    assert_eq!(session.on(handle, &[close]).status, NfsStat4::Ok);
    assert_eq!(session.compound(&other).status, NfsStat4::Ok);
    assert_eq!(session.compound(&[&to_root()[..], &[lookup("file")]].concat()).status, NfsStat4::Ok);
}

/// Executes operations on a file as if a crash had lost their reply: once before it, once after. Returns both results,
/// and the restarted server.
fn twice(
    server: Server,
    known: &mut (SessionId4, u32),
    operations: &[ArgOp4<'_>],
    between: impl FnOnce(&Server),
) -> (Server, Results, Results) {
    let session = Session::resumed(&server, *known);
    let first = session.compound(operations);
    let server = server.restarted();
    between(&server);
    let session = Session::resumed(&server, *known);
    let second = session.compound(operations);
    *known = session.known();
    (server, first, second)
}

fn known(server: &Server) -> (SessionId4, u32) {
    Session::of(server, b"a client").known()
}

fn create() -> ArgOp4<'static> {
    open(b"owner", share_deny::NONE, Some(CreateHow4::Guarded(Fattr4::EMPTY)))
}

#[test]
fn operations_after_a_replayed_open_use_its_stateid() {
    let server = Server::new();
    let mut known = known(&server);
    let write = WriteArgs {
        stateid: Stateid4::CURRENT,
        offset: 0,
        stable: StableHow4::FileSync,
        data: b"data".into(),
    };
    let operations = [&to_root()[..], &[create(), ArgOp4::Write(write)]].concat();
    let (_, first, second) = twice(server, &mut known, &operations, |_| {});
    assert_eq!((first.status, second.status), (NfsStat4::Ok, NfsStat4::Ok), "{second:?}");
}

#[test]
fn a_retried_open_truncates_once() {
    let server = Server::new();
    let handle = file(&server, "file");
    let mut known = known(&server);
    let cut = fattr(&Attributes4 { size: Some(0), ..Attributes4::default() });
    let cutting = open(b"owner", share_deny::NONE, Some(CreateHow4::Unchecked(cut)));
    let operations = [&to_root()[..], &[cutting]].concat();
    let (server, first, second) = twice(server, &mut known, &operations, |server| {
        let handle = wire::nfs3::FileHandle3::new(handle).unwrap();
        server.write(handle, 0, b"of another").unwrap();
    });
    assert_eq!((first.status, second.status), (NfsStat4::Ok, NfsStat4::Ok), "{second:?}");
    assert_eq!(attributes_of(&server, handle, &[Attr4::Size]).size, Some(10));
}

#[test]
fn changes_of_opens_and_locks_are_replayed_after_a_restart() {
    let server = Server::new();
    let mut known = known(&server);
    let opening = [&to_root()[..], &[create(), ArgOp4::Getfh]].concat();
    let (server, _, opened) = twice(server, &mut known, &opening, |_| {});
    let [.., ResOp4::Open(Ok(found)), ResOp4::Getfh(Ok(handle))] = &opened.all[..] else {
        panic!("{opened:?}")
    };
    let (stateid, handle) = (found.stateid, handle.object.as_bytes());

    let (server, first, second) = twice(server, &mut known, &[putfh(handle), lock(stateid)], |_| {});
    assert_eq!(second.last(), first.last());
    let ResOp4::Lock(Ok(locked)) = second.last() else { panic!("{second:?}") };

    let locker = Locker4::LockOwner(ExistLockOwner4 { lock_stateid: locked.lock_stateid, lock_seqid: 0 });
    let (locktype, reclaim) = (NfsLockType4::Write, false);
    let more = ArgOp4::Lock(LockArgs { locktype, reclaim, offset: 200, length: 9, locker });
    let (server, first, second) = twice(server, &mut known, &[putfh(handle), more], |_| {});
    assert_eq!(second.last(), first.last());
    let ResOp4::Lock(Ok(locked)) = second.last() else { panic!("{second:?}") };

    let unlock = LockuArgs { locktype, seqid: 0, lock_stateid: locked.lock_stateid, offset: 200, length: 9 };
    let operations = [putfh(handle), ArgOp4::Locku(unlock)];
    let (server, first, second) = twice(server, &mut known, &operations, |_| {});
    assert_eq!(second.last(), first.last());
    assert!(matches!(second.last(), ResOp4::Locku(Ok(_))));

    let reading = OpenArgs {
        seqid: 0,
        share_access: share_access::READ | share_access::WANT_NO_DELEG,
        share_deny: share_deny::NONE,
        owner: StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"owner") },
        openhow: None,
        claim: OpenClaim4::Fh,
    };
    let (server, _, second) = twice(server, &mut known, &[putfh(handle), ArgOp4::Open(reading)], |_| {});
    let ResOp4::Open(Ok(again)) = second.last() else { panic!("{second:?}") };
    let down = ArgOp4::OpenDowngrade(OpenDowngradeArgs {
        open_stateid: again.stateid,
        seqid: 0,
        share_access: share_access::READ,
        share_deny: share_deny::NONE,
    });
    let (server, first, second) = twice(server, &mut known, &[putfh(handle), down], |_| {});
    assert_eq!(second.last(), first.last());
    let ResOp4::OpenDowngrade(Ok(down)) = second.last() else { panic!("{second:?}") };

    let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: down.open_stateid });
    let (server, first, second) = twice(server, &mut known, &[putfh(handle), close], |_| {});
    assert_eq!(second.last(), first.last());
    // It is not executed twice.
    let session = Session::resumed(&server, known);
    assert_eq!(session.on(handle, &[close]).status, NfsStat4::BadStateId);
}

/// The remembered result of an OPEN names a stateid, which may be gone.
#[test]
fn a_repeated_open_returns_an_existing_stateid() {
    let server = Server::new();
    let session = Session::new(&server);
    session.compound(&[ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
    let create = Some(CreateHow4::Exclusive41(CreateVerfAttr { verf: [7; 8], attrs: Fattr4::EMPTY }));
    let opening = [&to_root()[..], &[open(b"owner", share_deny::NONE, create), ArgOp4::Getfh]].concat();
    let open = |session: &Session<'_>| {
        let opened = session.compound(&opening);
        let [.., ResOp4::Open(Ok(open_ok)), ResOp4::Getfh(Ok(handle))] = &opened.all[..] else {
            panic!("{opened:?}")
        };
        (open_ok.stateid, handle.object.as_bytes())
    };
    let (open_stateid, handle) = open(&session);
    let (id, sequence) = session.known();
    let close = |stateid| ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: stateid });
    assert_eq!(session.on(handle, &[close(open_stateid)]).status, NfsStat4::Ok);
    let server = server.restarted();
    let session = Session::resumed(&server, (id, sequence - 1));
    let (again, same) = open(&session);
    assert_eq!(same, handle);
    assert_ne!(again, open_stateid);
    assert_eq!(session.on(handle, &[close(again)]).status, NfsStat4::Ok);
}

/// A volume is deleted with the records of what clients hold in it.
#[test]
fn what_clients_hold_of_a_deleted_volume_is_freed() {
    let mut server = Server::of_two();
    let session = Session::new(&server);
    session.compound(&[ArgOp4::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
    let create = Some(CreateHow4::Guarded(Fattr4::EMPTY));
    let place = [ArgOp4::Putrootfh, lookup("other")];
    let opened =
        session.compound(&[&place[..], &[open(b"owner", share_deny::WRITE, create), ArgOp4::Getfh]].concat());
    let [.., ResOp4::Open(Ok(opened)), ResOp4::Getfh(Ok(handle))] = &opened.all[..] else {
        panic!("{opened:?}")
    };
    let handle = handle.object.as_bytes();
    assert_eq!(session.on(handle, &[lock(opened.stateid)]).status, NfsStat4::Ok);
    let held = |server: &Server| -> Vec<u64> {
        let gauges = server.service.state_gauges().into_iter();
        let kinds = ["nfs4_opens", "nfs4_lock_states", "nfs4_locked_ranges"];
        gauges.filter(|(name, _)| kinds.contains(name)).map(|(_, count)| count).collect()
    };
    assert_eq!(held(&server), [1, 1, 1]);
    let known = session.known();

    server.export(vec![open_export()]);
    server.service.free_state_of(VolumeId(2), server.clocks());
    assert_eq!(held(&server), [0, 0, 0]);
    let session = Session::resumed(&server, known);
    assert_eq!(session.on(handle, &[ArgOp4::Getfh]).status, NfsStat4::Stale);
    assert_eq!(session.compound(&to_root()).status, NfsStat4::Ok, "the session goes on");
}
