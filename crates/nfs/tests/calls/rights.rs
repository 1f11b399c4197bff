//! Callers without a right cost others nothing by trying: neither delegations, nor the state of silent clients.

use nfs::exports::Export;
use wire::nfs3::{self, FileHandle3, NfsStat3, Procedure, Sattr3};
use wire::nfs4::*;

use crate::support::{Client, Server, client, open_export, place, root};
use crate::v4::opens::{open, open_itself, opened};
use crate::v4::session::Session;
use crate::v4::support::{compound_as, fattr, file, putfh};

/// Makes a file that another client has delegated.
fn delegated_file(server: &Server) -> &'static [u8] {
    let handle = file(server, "file");
    let results = opened(&Session::of(server, b"holder"), open(false, share_deny::NONE));
    let ResOp4::Open(Ok(found)) = results.last() else { panic!("{results:?}") };
    assert!(matches!(found.delegation, OpenDelegation4::Read(_)), "{found:?}");
    assert_eq!(server.service.take_callbacks(), []);
    handle
}

/// Returns the operations of NFSv4 that change a file or its name, each after those that lead to it.
fn changes<'a>(server: &Server, file: &'a [u8]) -> Vec<Vec<ArgOp4<'a>>> {
    let (stateid, root) = (Stateid4::ANONYMOUS, putfh(server.root().as_bytes().to_vec().leak()));
    let set = |attributes: &Attributes4<'_>| {
        ArgOp4::Setattr(SetattrArgs { stateid, obj_attributes: fattr(attributes) })
    };
    let none = Attributes4::default();
    let data = (&b"data"[..]).into();
    let write = ArgOp4::Write(WriteArgs { stateid, offset: 0, stable: StableHow4::FileSync, data });
    let (old, new) = (Component4(b"file"), Component4(b"new"));
    vec![
        vec![putfh(file), write],
        vec![putfh(file), set(&Attributes4 { size: Some(0), ..none })],
        vec![putfh(file), set(&Attributes4 { mode: Some(0o777), ..none })],
        vec![root, ArgOp4::Remove(RemoveArgs { target: old })],
        vec![root, ArgOp4::Savefh, ArgOp4::Rename(RenameArgs { oldname: old, newname: new })],
        vec![putfh(file), ArgOp4::Savefh, root, ArgOp4::Link(LinkArgs { newname: new })],
    ]
}

/// Does the same by NFSv3. Returns the statuses.
fn change_by_nfs3(server: &Server, who: Client, file: &[u8]) -> Vec<NfsStat3> {
    let (object, dir) = (FileHandle3::new(file).unwrap(), server.root());
    let set = |new_attributes| nfs3::SetattrArgs { object, new_attributes, guard: None };
    let (old, new) = (place(dir, "file"), place(dir, "new"));
    let data = (&b"data"[..]).into();
    let write =
        nfs3::WriteArgs { file: object, offset: 0, count: 4, stable: nfs3::StableHow::FileSync, data };
    let size = set(Sattr3 { size: Some(0), ..Sattr3::default() });
    let mode = set(Sattr3 { mode: Some(0o777), ..Sattr3::default() });
    let written: nfs3::WriteRes = server.call(who, Procedure::Write, &write);
    let resized: nfs3::SetattrRes = server.call(who, Procedure::Setattr, &size);
    let changed: nfs3::SetattrRes = server.call(who, Procedure::Setattr, &mode);
    let removed: nfs3::RemoveRes = server.call(who, Procedure::Remove, &nfs3::RemoveArgs { object: old });
    let moved: nfs3::RenameRes =
        server.call(who, Procedure::Rename, &nfs3::RenameArgs { from: old, to: new });
    let linked: nfs3::LinkRes =
        server.call(who, Procedure::Link, &nfs3::LinkArgs { file: object, link: new });
    vec![
        written.unwrap_err().status,
        resized.unwrap_err().status,
        changed.unwrap_err().status,
        removed.unwrap_err().status,
        moved.unwrap_err().status,
        linked.unwrap_err().status,
    ]
}

#[test]
fn users_without_rights_recall_no_delegations() {
    let server = Server::new();
    let (file, user) = (delegated_file(&server), client(1000, 1000));
    for operations in changes(&server, file) {
        let status = compound_as(&server, user, 0, &operations).status;
        assert!(matches!(status, NfsStat4::Access | NfsStat4::Perm), "{operations:?}: {status:?}");
    }
    // Only an owner may set the mode.
    let (acces, perm) = (NfsStat3::Acces, NfsStat3::Perm);
    assert_eq!(change_by_nfs3(&server, user, file), [acces, acces, perm, acces, acces, acces]);
    assert_eq!(server.service.take_callbacks(), []);
    // Callers with the right do.
    for operations in changes(&server, file) {
        assert_eq!(compound_as(&server, root(), 0, &operations).status, NfsStat4::Delay, "{operations:?}");
    }
    assert_eq!(server.service.take_callbacks().len(), 1);
}

/// In a sticky directory, only owners remove names.
#[test]
fn neighbours_in_a_sticky_directory_recall_no_delegations() {
    let server = Server::new();
    delegated_file(&server);
    let sticky = nfs3::SetattrArgs {
        object: server.root(),
        new_attributes: Sattr3 { mode: Some(0o1777), ..Sattr3::default() },
        guard: None,
    };
    let changed: nfs3::SetattrRes = server.call(root(), Procedure::Setattr, &sticky);
    assert!(changed.is_ok());
    let remove = nfs3::RemoveArgs { object: place(server.root(), "file") };
    let removed: nfs3::RemoveRes = server.call(client(1000, 1000), Procedure::Remove, &remove);
    assert_eq!(removed.unwrap_err().status, NfsStat3::Perm);
    assert_eq!(server.service.take_callbacks(), []);
}

#[test]
fn changes_through_a_read_only_export_recall_no_delegations() {
    let mut server = Server::new();
    let file = delegated_file(&server);
    server.export(vec![Export { read_only: true, ..open_export() }]);
    assert_eq!(change_by_nfs3(&server, root(), file), [NfsStat3::Rofs; 6]);
    for operations in changes(&server, file) {
        assert_eq!(compound_as(&server, root(), 0, &operations).status, NfsStat4::Rofs, "{operations:?}");
    }
    assert_eq!(server.service.take_callbacks(), []);
}

/// LOCKT expires a silent client's lock, but not for users who may not open the file.
#[test]
fn users_without_rights_test_no_locks() {
    let server = Server::new();
    let secret = server.create(root(), server.root(), "file", 0o600).as_bytes();
    let holder = Session::of(&server, b"holder");
    let results = holder.on(secret, &[open_itself()]);
    let ResOp4::Open(Ok(ok)) = results.last() else { panic!("{results:?}") };
    let (locktype, reclaim) = (NfsLockType4::Write, false);
    let owner = StateOwner4 { clientid: ClientId4(0), owner: OwnerId4(b"process") };
    let locker =
        OpenToLockOwner4 { open_seqid: 0, open_stateid: ok.stateid, lock_seqid: 0, lock_owner: owner };
    let locker = Locker4::OpenOwner(locker);
    let lock = ArgOp4::Lock(LockArgs { locktype, reclaim, offset: 0, length: 9, locker });
    assert_eq!(holder.on(secret, &[lock]).status, NfsStat4::Ok);
    server.pass(100);
    let other = Session::of(&server, b"other");
    let lockt = ArgOp4::Lockt(LocktArgs { locktype, offset: 0, length: 9, owner });
    let test = |who| compound_as(&server, who, 2, &[other.sequence(false), putfh(secret), lockt]).status;
    assert_eq!(test(client(1000, 1000)), NfsStat4::Access);
    assert_eq!(holder.compound(&[]).status, NfsStat4::Ok, "it is not expired");
    assert_eq!(test(root()), NfsStat4::Denied);
}
