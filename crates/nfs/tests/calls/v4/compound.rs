//! The rules of COMPOUND.

use nfs::admission::{Awaited, AwaitedLimit, Needs};
use nfs::service::{IncomingRecord, Outcome};
use volume::ids::VolumeId;
use volume::request::Access;
use wire::nfs3;
use wire::nfs4::*;

use super::session::Session;
use super::support::*;
use crate::support::{Server, root};

fn numbers(results: &Results) -> Vec<OpNum4> {
    results.all.iter().map(ResOp4::num).collect()
}

#[test]
fn nothing_executes_after_a_failure() {
    let server = Server::new();
    let results = at_root(&server, &[lookup("none"), ArgOp4::Getfh]);
    assert_eq!(results.status, NfsStat4::NoEnt);
    assert_eq!(numbers(&results), [OpNum4::Putrootfh, OpNum4::Lookup, OpNum4::Lookup]);
    let results = compound(&server, &[]);
    assert_eq!((results.status, results.all.len()), (NfsStat4::Ok, 0));
}

#[test]
fn unserved_minor_versions_execute_nothing() {
    let server = Server::new();
    let results = compound_as(&server, root(), 3, &[ArgOp4::Putrootfh]);
    assert_eq!((results.status, results.all.len()), (NfsStat4::MinorVersMismatch, 0));
}

#[test]
fn unknown_operations_are_illegal() {
    let server = Server::new();
    let results = compound(&server, &[ArgOp4::Putrootfh, ArgOp4::Illegal]);
    assert_eq!(results.status, NfsStat4::OpIllegal);
    assert_eq!(numbers(&results), [OpNum4::Putrootfh, OpNum4::Illegal]);
    // An operation of a later minor version is unknown too.
    let later = ArgOp4::SecinfoNoName(SecinfoStyle4::CurrentFh);
    assert_eq!(compound(&server, &[ArgOp4::Putrootfh, later]).status, NfsStat4::OpIllegal);
}

#[test]
fn later_versions_need_a_session() {
    let server = Server::new();
    for minor in [1, 2] {
        let results = compound_as(&server, root(), minor, &[ArgOp4::Putrootfh, ArgOp4::Getfh]);
        assert_eq!(results.status, NfsStat4::OpNotInSession);
        assert_eq!(numbers(&results), [OpNum4::Putrootfh]);
        let alone = ArgOp4::DestroyClientId(DestroyClientIdArgs { clientid: ClientId4(1) });
        let results = compound_as(&server, root(), minor, &[alone, ArgOp4::Putrootfh]);
        assert_eq!(results.status, NfsStat4::NotOnlyOp);
        assert_eq!(results.all.len(), 1);
    }
}

#[test]
fn too_many_operations_are_refused() {
    let server = Server::new();
    let many = vec![ArgOp4::Putrootfh; 1000];
    let results = compound(&server, &many);
    assert_eq!(results.status, NfsStat4::Resource);
    assert!(results.all.len() <= 129);
    assert_eq!(compound(&server, &many[..100]).status, NfsStat4::Ok);
}

#[test]
fn a_truncated_operation_fails_alone() {
    let server = Server::new();
    let (xid, mut record) = record(&server, root(), 0, &[ArgOp4::Putrootfh, lookup("main")]);
    record.truncate(record.len() - 4);
    let found = results(&server.serve(root(), &record), xid);
    assert_eq!(found.status, NfsStat4::BadXdr);
    assert_eq!(numbers(&found), [OpNum4::Putrootfh, OpNum4::Lookup]);
}

#[test]
fn operations_need_a_current_filehandle() {
    let server = Server::new();
    let alone = [ArgOp4::Getfh, ArgOp4::Savefh, lookup("x"), ArgOp4::Lookupp, ArgOp4::Readlink, getattr(&[])];
    for operation in alone {
        assert_eq!(status_of(&server, &[operation]), NfsStat4::NoFileHandle, "{operation:?}");
    }
    assert_eq!(status_of(&server, &[ArgOp4::Restorefh]), NfsStat4::RestoreFh);
}

#[test]
fn compounds_continue_where_they_stopped() {
    let server = Server::new();
    let dir = CreateType4::Dir;
    // A listing always reads media, so the COMPOUND stops there; the directory before it is created once.
    let list = ArgOp4::Readdir(ReaddirArgs {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 4096,
        attr_request: AttrMask::of(&[Attr4::Fileid]),
    });
    let operations = [&to_root()[..], &[create("new", dir), ArgOp4::Getfh, list, ArgOp4::Lookupp]].concat();
    let (stops, results) = stops_and_goes_on(&server, &operations);
    assert_eq!((stops, results.status), (1, NfsStat4::Ok), "{results:?}");
    assert_eq!(results.all.len(), operations.len());
    let handle = handle_at(&server, &[lookup("new")]);
    assert!(matches!(results.all[3], ResOp4::Getfh(Ok(found)) if found.object.as_bytes() == handle));
}

#[test]
fn retransmissions_change_nothing() {
    let server = Server::new();
    let operations = [&to_root()[..], &[create("new", CreateType4::Dir), ArgOp4::Getfh]].concat();
    let (xid, record) = record(&server, root(), 0, &operations);
    let first = server.serve(root(), &record);
    let second = server.serve(root(), &record);
    assert_eq!(first, second);
    assert_eq!(results(&second, xid).status, NfsStat4::Ok);
    // Another process continues, after the first was killed.
    let server = server.restarted();
    assert_eq!(first, server.serve(root(), &record));
    // The same arguments with another xid are another call.
    assert_eq!(compound(&server, &operations).status, NfsStat4::Exist);
}

#[test]
fn failures_are_repeated() {
    let server = Server::new();
    let remove = ArgOp4::Remove(RemoveArgs { target: Component4(b"name") });
    let operations = [&to_root()[..], &[remove]].concat();
    let (_, record) = record(&server, root(), 0, &operations);
    let first = server.serve(root(), &record);
    at_root(&server, &[create("name", CreateType4::Dir)]);
    assert_eq!(first, server.serve(root(), &record));
    assert_eq!(at_root(&server, &[lookup("name")]).status, NfsStat4::Ok);
}

#[test]
fn the_same_operation_in_another_directory_is_another_call() {
    let server = Server::new();
    let directories = ["one", "two"].map(|name| handle_at(&server, &[create(name, CreateType4::Dir)]));
    let remove = ArgOp4::Remove(RemoveArgs { target: Component4(b"x") });
    for directory in directories {
        assert_eq!(
            compound(&server, &[putfh(directory), create("x", CreateType4::Dir)]).status,
            NfsStat4::Ok
        );
    }
    for directory in directories {
        let (_, mut record) = record(&server, root(), 0, &[putfh(directory), remove]);
        record[..4].copy_from_slice(&77_u32.to_be_bytes());
        assert_eq!(results(&server.serve(root(), &record), 77).status, NfsStat4::Ok);
        assert_eq!(compound(&server, &[putfh(directory), lookup("x")]).status, NfsStat4::NoEnt);
    }
}

/// The connection is lost while a COMPOUND waits for media, repeatedly in each slot.
#[test]
fn slots_cache_no_more_of_an_interrupted_compound_than_allowed() {
    let server = Server::new();
    let (handle, session) = (file(&server, "file"), Session::new(&server));
    let data = [7; 64 << 10];
    server.write(wire::nfs3::FileHandle3::new(handle).unwrap(), 0, &data).unwrap();
    let read = ArgOp4::Read(ReadArgs { stateid: Stateid4::ANONYMOUS, offset: 0, count: 64 << 10 });
    let list = ArgOp4::Readdir(ReaddirArgs {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 4096,
        attr_request: AttrMask::of(&[Attr4::Fileid]),
    });
    let operations = [&[session.sequence(false), putfh(handle), read][..], &to_root()[..], &[list]].concat();
    let (xid, record) = record(&server, root(), 2, &operations);
    let mut progress = None;
    let (outcome, _) = server.offer_again(root(), &record, Access::Cached, &mut progress);
    assert!(matches!(outcome, Outcome::WouldBlock), "{outcome:?}");
    drop(progress);
    let again = results(&server.serve(root(), &record), xid);
    assert_eq!(again.status, NfsStat4::RetryUncachedRep, "{again:?}");
}

/// Returns the handle of a new directory in the root, whose names need not be read from media.
fn new_directory(server: &Server) -> &'static [u8] {
    handle_at(server, &[create("directory", CreateType4::Dir)])
}

/// Returns operations that create directories in the saved directory, each followed by a return there.
fn creations(names: &[String]) -> Vec<ArgOp4<'_>> {
    names.iter().flat_map(|name| [create(name, CreateType4::Dir), ArgOp4::Restorefh]).collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("name {number}")).collect()
}

#[test]
fn long_compounds_give_their_turn_up() {
    let server = Server::new();
    let names = names(40);
    let operations = [&to_root()[..], &[ArgOp4::Savefh], &creations(&names)].concat();
    let (stops, results) = stops_and_goes_on(&server, &operations);
    assert_eq!(
        (results.status, results.all.len()),
        (NfsStat4::Ok, operations.len()),
        "nothing is done twice"
    );
    assert!((4..=10).contains(&stops), "{stops} stops");
    // However many operations only move filehandles or read attributes, there are fewer stops, or none.
    let (stops, results) = stops_and_goes_on(&server, &[ArgOp4::Putrootfh; 120]);
    assert_eq!((stops, results.all.len()), (0, 120));
    let reads = [&to_root()[..], &vec![getattr(&[Attr4::Size]); 100]].concat();
    let (stops, results) = stops_and_goes_on(&server, &reads);
    assert_eq!(results.all.len(), reads.len());
    assert!((1..=4).contains(&stops), "{stops} stops");
}

/// Makes COMPOUNDs with an unstable WRITE until one meets a limit. Returns the one that was expected, and the one that it met.
fn awaited(server: &Server, before: &[ArgOp4<'_>]) -> (Option<Awaited>, Option<Awaited>) {
    let data = vec![7; 64 << 10];
    for number in 0..1000 {
        let offset = number * (64 << 10);
        let stable = StableHow4::Unstable;
        let write = WriteArgs { stateid: Stateid4::ANONYMOUS, offset, stable, data: (&data).into() };
        let operations = [before, &[ArgOp4::Write(write)]].concat();
        let (_, record) = record(server, root(), 0, &operations);
        let expected = Needs::of(&IncomingRecord::decode(&record)).awaited();
        if let (Outcome::Busy(met), _) = server.offer(root(), &record, Access::Blocking) {
            return (expected, met);
        }
    }
    panic!("there is no limit");
}

#[test]
fn a_compound_waits_for_the_limit_that_it_met() {
    let server = Server::of_two();
    let far = compound(&server, &[ArgOp4::Putrootfh, lookup("other"), ArgOp4::Getfh]);
    let ResOp4::Getfh(Ok(far)) = far.last() else { panic!("{far:?}") };
    let far = nfs3::FileHandle3::new(far.object.as_bytes()).unwrap();
    let (near, far) = (file(&server, "file"), server.create(root(), far, "file", 0o644));
    let (near, far) = (putfh(near), putfh(far.as_bytes()));
    let limit = |volume, limit| Some((VolumeId(volume), limit));
    let mode = Attributes4 { mode: Some(0o600), ..Attributes4::default() };
    let set = SetattrArgs { stateid: Stateid4::ANONYMOUS, obj_attributes: fattr(&mode) };
    let restored = [far, ArgOp4::Savefh, near, ArgOp4::Restorefh];
    assert_eq!(
        awaited(&server, &restored),
        (limit(1, AwaitedLimit::Data), limit(2, AwaitedLimit::Data)),
        "not that of the last PUTFH"
    );
    assert_eq!(
        awaited(&server, &[near, ArgOp4::Setattr(set)]),
        (limit(1, AwaitedLimit::Journal), limit(1, AwaitedLimit::Data)),
        "not that of the first change"
    );
}

#[test]
fn compounds_as_long_as_those_of_linux_are_done_in_one_turn() {
    let server = Server::new();
    let (handle, names) = (new_directory(&server), names(7));
    let creations = names.iter().map(|name| create(name, CreateType4::Dir));
    let operations: Vec<_> = std::iter::once(putfh(handle)).chain(creations).collect();
    let (stops, results) = stops_and_goes_on(&server, &operations);
    assert_eq!((stops, results.status, results.all.len()), (0, NfsStat4::Ok, 8), "each in the one before");
}

#[test]
fn filehandles_stateids_and_slots_outlast_a_turn() {
    let server = Server::new();
    let (root_handle, file) = (handle_at(&server, &[]), file(&server, "file"));
    let session = Session::of(&server, b"writer");
    let open = ArgOp4::Open(OpenArgs {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner: StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"owner") },
        openhow: None,
        claim: OpenClaim4::Fh,
    });
    let mut operations = vec![session.sequence(true), putfh(root_handle), ArgOp4::Savefh, putfh(file), open];
    let write = |number: usize| {
        let (stable, data) = (StableHow4::FileSync, b"x".into());
        ArgOp4::Write(WriteArgs { stateid: Stateid4::CURRENT, offset: number as u64, stable, data })
    };
    operations.extend((0..8).map(write));
    operations.extend([ArgOp4::Restorefh, lookup("file"), getattr(&[Attr4::Size])]);
    let (xid, record) = record(&server, root(), 2, &operations);
    let mut progress = None;
    let cached = Access::Cached;
    let (outcome, _) = server.offer_again(root(), &record, cached, &mut progress);
    assert!(matches!(outcome, Outcome::WouldBlock), "{outcome:?}");
    assert!(progress.as_ref().is_some_and(|progress| progress.results_bytes() > 0), "it keeps its results");
    let (_, repeated) = server.offer(root(), &record, cached);
    assert_eq!(results(&repeated, xid).status, NfsStat4::Delay, "the slot is in use");
    let mut out = Vec::new();
    while out.is_empty() {
        (_, out) = server.offer_again(root(), &record, Access::Blocking, &mut progress);
    }
    let found = results(&out, xid);
    assert_eq!((found.status, found.all.len()), (NfsStat4::Ok, operations.len()), "{found:?}");
    let ResOp4::Getattr(Ok(written)) = found.last() else { panic!("{found:?}") };
    assert_eq!(written.obj_attributes.decode_values().unwrap().size, Some(8));
    assert_eq!(server.serve(root(), &record), out, "the slot has the whole reply");
}

#[test]
fn a_compound_that_lost_its_connection_between_turns_is_not_done_twice() {
    let server = Server::new();
    let (handle, names) = (new_directory(&server), names(9));
    let session = Session::new(&server);
    let creations = names.iter().map(|name| create(name, CreateType4::Dir));
    let operations: Vec<_> = [session.sequence(true), putfh(handle)].into_iter().chain(creations).collect();
    let (xid, record) = record(&server, root(), 2, &operations);
    let mut progress = None;
    let (outcome, _) = server.offer_again(root(), &record, Access::Cached, &mut progress);
    assert!(matches!(outcome, Outcome::WouldBlock), "{outcome:?}");
    drop(progress);
    let found = results(&server.serve(root(), &record), xid);
    assert_eq!((found.status, found.all.len()), (NfsStat4::Delay, operations.len()), "{found:?}");
    assert!(matches!(found.last(), ResOp4::Create(Err(NfsStat4::Delay))), "{found:?}");
}
