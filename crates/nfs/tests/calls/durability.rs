//! Replies wait until what they show is durable, and fail when media do.

use nfs::service::Outcome;
use volume::request::{Access, Durable};
use volume::time::Time;
use wire::nfs3::*;

use crate::support::{Call, Server, encoded, parse, place, results, root};

fn call(procedure: Procedure, args: &[u8]) -> Call<'_> {
    Call { xid: 1, program: PROGRAM, version: 3, procedure: procedure.code(), args }
}

/// Runs a call until there is a reply, without waiting for durability.
fn offer(server: &Server, procedure: Procedure, args: &[u8]) -> (Outcome, Vec<u8>) {
    let record = call(procedure, args).record(root());
    match server.offer(root(), &record, Access::Cached) {
        (Outcome::WouldBlock, out) => {
            assert!(out.is_empty(), "a call that would block appends nothing");
            server.offer(root(), &record, Access::Blocking)
        }
        answered => answered,
    }
}

fn waits(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Reply { after: Some(wait), .. } => wait.pool.durability(wait.durability) == Durable::NotYet,
        Outcome::Reply { after: None, .. } => false,
        other => panic!("no reply: {other:?}"),
    }
}

#[test]
fn replies_that_reveal_a_change_wait_for_the_journal() {
    let server = Server::new();
    let dir = server.root();
    let old = server.create(root(), dir, "old", 0o644);
    let create =
        encoded(&CreateArgs { place: place(dir, "new"), how: CreateHow3::Guarded(Sattr3::default()) });
    let remove = encoded(&RemoveArgs { object: place(dir, "old") });
    let lookup = |name| encoded(&LookupArgs { what: place(dir, name) });
    let readdir = encoded(&ReaddirArgs { dir, cookie: 0, cookieverf: [0; 8], count: 4096 });
    let setattr = SetattrArgs { object: old, new_attributes: Sattr3::default(), guard: None };
    let calls = [
        (Procedure::Create, create.clone()),
        (Procedure::Remove, remove),
        // The retransmission of a change that is not durable.
        (Procedure::Create, create),
        (Procedure::Lookup, lookup("new")),
        // Failures reveal changes as well.
        (Procedure::Lookup, lookup("old")),
        (Procedure::Getattr, encoded(&GetattrArgs { object: old })),
        // Failures for removed objects have no attributes that could wait instead.
        (Procedure::Read, encoded(&ReadArgs { file: old, offset: 0, count: 1 })),
        (Procedure::Setattr, encoded(&setattr)),
        (Procedure::Getattr, encoded(&GetattrArgs { object: dir })),
        (Procedure::Readdir, readdir),
        (Procedure::Fsstat, encoded(&FsstatArgs { fsroot: dir })),
    ];
    for (procedure, args) in &calls {
        let (outcome, _) = offer(&server, *procedure, args);
        assert!(waits(&outcome), "{} waits", procedure.name());
    }
    server.volume.step_commit(Time::EPOCH);
    for (procedure, args) in &calls {
        let (outcome, _) = offer(&server, *procedure, args);
        assert!(!waits(&outcome), "{} no longer waits", procedure.name());
    }
}

#[test]
fn failures_wait_for_the_changes_they_reveal() {
    let server = Server::new();
    let dir = server.mkdir(root(), server.root(), "dir", 0o755);
    let create =
        encoded(&CreateArgs { place: place(dir, "new"), how: CreateHow3::Guarded(Sattr3::default()) });
    assert!(waits(&offer(&server, Procedure::Create, &create).0));
    // NOTEMPTY reveals the new file; the directory in the reply did not change.
    let rmdir = encoded(&RmdirArgs { object: place(server.root(), "dir") });
    assert!(waits(&offer(&server, Procedure::Rmdir, &rmdir).0));
    // INVAL reveals nothing, but the reply shows the changed directory.
    let write = WriteArgs { file: dir, offset: 0, count: 9, stable: StableHow::FileSync, data: b"x".into() };
    assert!(waits(&offer(&server, Procedure::Write, &encoded(&write)).0));
}

#[test]
fn replies_without_recent_changes_do_not_wait() {
    let server = Server::new();
    let dir = server.root();
    let (one, two) = (server.mkdir(root(), dir, "one", 0o755), server.mkdir(root(), dir, "two", 0o755));
    let create =
        encoded(&CreateArgs { place: place(one, "new"), how: CreateHow3::Guarded(Sattr3::default()) });
    assert!(waits(&offer(&server, Procedure::Create, &create).0));
    let getattr = |object| encoded(&GetattrArgs { object });
    assert!(waits(&offer(&server, Procedure::Getattr, &getattr(one)).0));
    assert!(!waits(&offer(&server, Procedure::Getattr, &getattr(two)).0));
}

#[test]
fn changes_fail_with_io_when_media_fail() {
    let server = Server::new();
    let dir = server.root();
    let file = server.create(root(), dir, "file", 0o644);
    server.media.fail();
    let created: CreateRes<'_> = server.call(
        root(),
        Procedure::Create,
        &CreateArgs { place: place(dir, "new"), how: CreateHow3::Guarded(Sattr3::default()) },
    );
    let failed = created.unwrap_err();
    assert_eq!((failed.status, failed.body), (NfsStat3::Io, WccData::NONE));
    let refused = server.write(file, 0, b"x").unwrap_err();
    assert!(matches!(refused.status, NfsStat3::Rofs | NfsStat3::Io), "{}", refused.status);
    assert_eq!(server.read(file, 0, 10).unwrap().data, b"", "durable contents are still served");
}

#[test]
fn retransmissions_of_lost_changes_fail_at_once() {
    let server = Server::new();
    let dir = server.root();
    server.media.fail();
    let create =
        encoded(&CreateArgs { place: place(dir, "new"), how: CreateHow3::Guarded(Sattr3::default()) });
    for _ in 0..2 {
        let created: CreateRes<'_> = results(server.rpc(root(), call(Procedure::Create, &create)));
        assert_eq!(created.unwrap_err().status, NfsStat3::Io);
    }
    let (outcome, out) = offer(&server, Procedure::Create, &create);
    assert!(matches!(outcome, Outcome::Reply { after: None, .. }), "{outcome:?}");
    let created: CreateRes<'_> = results(parse(&out, 1));
    assert_eq!(created.unwrap_err().status, NfsStat3::Io);
}
