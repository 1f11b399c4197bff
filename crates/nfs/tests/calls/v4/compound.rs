//! The rules of COMPOUND.

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
    let (outcome, _) = server.offer_again(root(), &record, volume::request::Access::Cached, &mut progress);
    assert!(matches!(outcome, nfs::service::Outcome::WouldBlock), "{outcome:?}");
    drop(progress);
    let again = results(&server.serve(root(), &record), xid);
    assert_eq!(again.status, NfsStat4::RetryUncachedRep, "{again:?}");
}
