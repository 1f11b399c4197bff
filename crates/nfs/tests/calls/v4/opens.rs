//! OPEN of files that others have open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nfs::charge::CopyTerms;
use nfs::exports::Export;
use nfs::service::{Connection, ConnectionId, Incoming, IncomingRecord, Outcome, ReplyBuffer, Service};
use volume::request::Access;
use volume::time::Time;
use wire::nfs4::*;

use super::session::Session;
use super::support::*;
use crate::support::{Server, open_export, root};

/// OPEN of "file" for reading; truncates it if `cuts`.
pub(crate) fn open(cuts: bool, share_deny: u32) -> ArgOp4<'static> {
    let size = cuts.then(|| fattr(&Attributes4 { size: Some(0), ..Attributes4::default() }));
    ArgOp4::Open(OpenArgs {
        seqid: 0,
        share_access: share_access::READ
            | if share_deny == 0 { share_access::WANT_READ_DELEG } else { share_access::WANT_NO_DELEG },
        share_deny,
        owner: StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"owner") },
        openhow: size.map(CreateHow4::Unchecked),
        claim: OpenClaim4::Null(Component4(b"file")),
    })
}

/// OPEN of the current file, to read and to write.
pub(crate) fn open_itself() -> ArgOp4<'static> {
    ArgOp4::Open(OpenArgs {
        seqid: 0,
        share_access: share_access::BOTH | share_access::WANT_NO_DELEG,
        share_deny: share_deny::NONE,
        owner: StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"owner") },
        openhow: None,
        claim: OpenClaim4::Fh,
    })
}

pub(crate) fn opened(session: &Session<'_>, operation: ArgOp4<'_>) -> Results {
    session.compound(&[&to_root()[..], &[operation]].concat())
}

fn size(server: &Server, handle: &[u8]) -> u64 {
    attributes_of(server, handle, &[Attr4::Size]).size.unwrap()
}

fn write(server: &Server, handle: &'static [u8], data: &[u8]) {
    let handle = wire::nfs3::FileHandle3::new(handle).unwrap();
    server.write(handle, 0, data).unwrap();
}

#[test]
fn truncating_opens_need_write_permission() {
    let server = Server::new();
    let handle = file(&server, "file");
    write(&server, handle, b"data");
    let (one, two) = (Session::of(&server, b"one"), Session::of(&server, b"two"));
    let results = opened(&one, open(false, share_deny::WRITE));
    let ResOp4::Open(Ok(denying)) = results.last() else { panic!("{results:?}") };
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::ShareDenied);
    assert_eq!(size(&server, handle), 4);
    let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: denying.stateid });
    assert_eq!(one.on(handle, &[close]).status, NfsStat4::Ok);
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::Ok);
    assert_eq!(size(&server, handle), 0);
}

/// Whoever may not change a file may not keep others from it either.
#[test]
fn opens_that_deny_need_write_permission() {
    let mut server = Server::new();
    file(&server, "file");
    server.export(vec![Export { read_only: true, ..open_export() }]);
    let one = Session::of(&server, b"one");
    assert_eq!(opened(&one, open(false, share_deny::WRITE)).status, NfsStat4::Rofs);
    assert_eq!(opened(&one, open(false, share_deny::NONE)).status, NfsStat4::Ok);
}

/// NTP and administrators set the wall clock; nobody's lease depends on it.
#[test]
fn leases_outlast_a_step_of_the_wall_clock() {
    const DAY: i64 = 24 * 3600;
    for step in [DAY, -DAY] {
        let server = Server::new();
        file(&server, "file");
        let (one, two) = (Session::of(&server, b"one"), Session::of(&server, b"two"));
        assert_eq!(opened(&one, open(false, share_deny::WRITE)).status, NfsStat4::Ok);
        server.set_wall_clock(step);
        server.service.tick(server.clocks());
        assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::ShareDenied, "{step}");
        // The lease is not longer either.
        server.pass(61);
        assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::Ok, "{step}");
        file(&server, "later");
        let handle = handle_at(&server, &[lookup("later")]);
        let made = attributes_of(&server, handle, &[Attr4::TimeMetadata]).time_metadata.unwrap().seconds;
        // A time ceiling keeps times from repeating, so after a step back they stand still.
        assert_eq!(made > server.time().seconds() + DAY / 2, step > 0, "files have the wall clock's times");
    }
}

/// Rate limits may hold calls for longer than others of their client arrive.
#[test]
fn a_client_whose_only_calls_are_held_keeps_what_it_has_open() {
    let server = Server::new();
    let handle = file(&server, "file");
    let (one, two) = (Session::of(&server, b"one"), Session::of(&server, b"two"));
    let results = opened(&one, open(false, share_deny::WRITE));
    let ResOp4::Open(Ok(denying)) = results.last() else { panic!("{results:?}") };
    let read = ArgOp4::Read(ReadArgs { stateid: denying.stateid, offset: 0, count: 1 });
    for _ in 0..6 {
        server.pass(40);
        let (_, held) = record(&server, root(), 1, &[one.sequence(false), putfh(handle), read]);
        server.hold(root(), &held);
        server.service.tick(server.clocks());
        assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::ShareDenied);
    }
    server.pass(61);
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::Ok);
}

/// The record of an open waits for the volume's next change, and CLOSE waits for nothing if there was none.
#[test]
fn opening_and_closing_a_file_journals_nothing() {
    let server = Server::new();
    let handle = file(&server, "file");
    let session = Session::of(&server, b"one");
    let queued = || server.volume.gauges().into_iter().find(|(name, _)| *name == "queued_seq").unwrap().1;
    let open = open_itself();
    let before = queued();
    let opened = session.on(handle, &[open]);
    let ResOp4::Open(Ok(ok)) = opened.last() else { panic!("{opened:?}") };
    let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: ok.stateid });
    assert_eq!(session.on(handle, &[close]).status, NfsStat4::Ok);
    assert_eq!(queued(), before);
    assert_eq!(session.on(handle, &[open]).status, NfsStat4::Ok);
    assert_eq!(queued(), before);
    let _ = server.service.tick(Time::from_parts(1_700_000_060, 0).into());
    assert_eq!(queued(), before + 1, "a tick journals what waits");
}

#[test]
fn truncating_opens_recall_read_delegations() {
    let server = Server::new();
    let handle = file(&server, "file");
    write(&server, handle, b"data");
    let (one, two) = (Session::of(&server, b"one"), Session::of(&server, b"two"));
    let results = opened(&one, open(false, share_deny::NONE));
    let ResOp4::Open(Ok(found)) = results.last() else { panic!("{results:?}") };
    let OpenDelegation4::Read(delegation) = &found.delegation else { panic!("{found:?}") };
    assert_eq!(opened(&two, open(false, share_deny::NONE)).status, NfsStat4::Ok, "both read");
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::Delay);
    assert_eq!(size(&server, handle), 4);
    let back = ArgOp4::Delegreturn(DelegreturnArgs { deleg_stateid: delegation.stateid });
    assert_eq!(one.on(handle, &[back]).status, NfsStat4::Ok);
    assert_eq!(opened(&two, open(true, share_deny::NONE)).status, NfsStat4::Ok);
}

/// Executes a client's requests in order, on a thread of its own.
fn serve_all(service: &Service, records: &[(u32, Vec<u8>)]) -> Vec<Vec<u8>> {
    let connection =
        Connection { peer: root().peer, local: "192.0.2.2:2049".parse().unwrap(), id: ConnectionId(1) };
    let now = Time::from_parts(1_700_000_100, 0);
    let serve = |(_, record): &(u32, Vec<u8>)| {
        let mut progress = None;
        loop {
            let mut reply = ReplyBuffer::default();
            let record = &IncomingRecord::decode(record);
            let incoming = Incoming {
                record,
                connection,
                now: now.into(),
                access: Access::Blocking,
                copy_terms: CopyTerms::Free,
            };
            if matches!(service.handle(&incoming, &mut progress, &mut reply), Outcome::Reply { .. }) {
                return reply.into_bytes();
            }
        }
    };
    records.iter().map(serve).collect()
}

/// As editors and databases replace files: the name always names some file.
#[test]
fn files_stay_readable_while_others_take_their_name() {
    const TIMES: usize = 3_000;
    let server = Server::new();
    file(&server, "file");
    let (one, two) = (Session::of(&server, b"one"), Session::of(&server, b"two"));
    let request = |session: &Session<'_>, operations: &[ArgOp4<'_>]| {
        let all = [&[session.sequence(false)][..], &to_root(), operations].concat();
        record(&server, root(), 2, &all)
    };
    let renames: Vec<_> = (0..TIMES)
        .map(|number| {
            let name = format!("new {number}");
            file(&server, &name);
            let rename = RenameArgs { oldname: Component4(name.as_bytes()), newname: Component4(b"file") };
            request(&one, &[ArgOp4::Savefh, ArgOp4::Rename(rename)])
        })
        .collect();
    let read = ArgOp4::Read(ReadArgs { stateid: Stateid4::CURRENT, offset: 0, count: 1 });
    let close = ArgOp4::Close(CloseArgs { seqid: 0, open_stateid: Stateid4::CURRENT });
    let opens: Vec<_> =
        (0..4 * TIMES).map(|_| request(&two, &[open(false, share_deny::WRITE), read, close])).collect();
    let (done, volume) = (AtomicBool::new(false), Arc::clone(&server.volume));
    let (renamed, opened) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let now = Time::from_parts(1_700_000_100, 0);
                volume.step_commit(now);
                volume.step_checkpoint(now, false);
                volume.step_orphans(now);
            }
        });
        let opening = scope.spawn(|| serve_all(&server.service, &opens));
        let renamed = serve_all(&server.service, &renames);
        let opened = opening.join().unwrap();
        done.store(true, Ordering::Relaxed);
        (renamed, opened)
    });
    for (replies, records) in [(renamed, &renames), (opened, &opens)] {
        for (number, (reply, (xid, _))) in replies.iter().zip(records).enumerate() {
            let results = results(reply, *xid);
            assert_eq!(results.status, NfsStat4::Ok, "{number}: {results:?}");
        }
    }
}

/// One client creates the file and denies writing. The other has just found that it does not exist, and wants it with a
/// size.
#[test]
fn files_that_appear_meanwhile_are_not_truncated() {
    const TIMES: usize = 3_000;
    let server = Server::new();
    let (one, two) = (Session::of(&server, b"one"), Session::of(&server, b"two"));
    let request = |session: &Session<'_>, name: &str, size: Option<u64>| {
        let attributes = fattr(&Attributes4 { size, ..Attributes4::default() });
        let how = if size.is_some() { CreateHow4::Unchecked } else { CreateHow4::Guarded };
        let open = ArgOp4::Open(OpenArgs {
            seqid: 0,
            share_access: share_access::WRITE | share_access::WANT_NO_DELEG,
            share_deny: if size.is_some() { share_deny::NONE } else { share_deny::WRITE },
            owner: StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"owner") },
            openhow: Some(how(attributes)),
            claim: OpenClaim4::Null(Component4(name.as_bytes())),
        });
        record(&server, root(), 2, &[&[session.sequence(false)][..], &to_root(), &[open]].concat())
    };
    let names: Vec<String> = (0..TIMES).map(|number| format!("file {number}")).collect();
    let denying: Vec<_> = names.iter().map(|name| request(&one, name, None)).collect();
    let sizing: Vec<_> = names.iter().map(|name| request(&two, name, Some(4096))).collect();
    let (waiting, done, volume) = (AtomicUsize::new(0), AtomicBool::new(false), Arc::clone(&server.volume));
    let service = &server.service;
    let serve = |records: &[(u32, Vec<u8>)]| -> Vec<NfsStat4> {
        let one = |(number, request): (usize, &(u32, Vec<u8>))| {
            // Both at once.
            waiting.fetch_add(1, Ordering::SeqCst);
            while waiting.load(Ordering::SeqCst) < 2 * number + 2 {
                std::thread::yield_now();
            }
            results(&serve_all(service, std::slice::from_ref(request))[0], request.0).status
        };
        records.iter().enumerate().map(one).collect()
    };
    let (denied, sized) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                volume.step_commit(Time::from_parts(1_700_000_100, 0));
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let sizing = scope.spawn(|| serve(&sizing));
        let denied = serve(&denying);
        let sized = sizing.join().unwrap();
        done.store(true, Ordering::Relaxed);
        (denied, sized)
    });
    for ((name, denied), sized) in names.iter().zip(denied).zip(sized) {
        // The OPEN that did not find the file created it.
        let expected = if denied == NfsStat4::Exist { 4096 } else { 0 };
        let found = size(&server, handle_at(&server, &[lookup(name)]));
        assert_eq!(found, expected, "{name}: {denied:?}, {sized:?}");
    }
}
