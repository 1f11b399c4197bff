//! The rules of exports apply to every call.

use nfs::exports::{Export, Squash};
use nfs::service::IncomingRecord;
use volume::handle::Handle;
use wire::mount3::{self, DirPath, MntRes, MountStat3};
use wire::nfs3::*;
use wire::rpc::{AuthStat, Credential, RejectedReply, ReplyBody};

use crate::support::{
    Call, Client, PATH, Server, assert_unchanged, client, encoded, open_export, place, root,
};

fn at(address: &str) -> Client {
    Client { peer: address.parse().unwrap(), ..root() }
}

fn status_of(server: &Server, who: Client, object: FileHandle3<'_>) -> NfsStat3 {
    let res: GetattrRes = server.call(who, Procedure::Getattr, &GetattrArgs { object });
    res.map_or_else(|failed| failed.status, |_| NfsStat3::Ok)
}

#[test]
fn read_only_exports_refuse_changes() {
    let mut server = Server::new();
    let dir = server.root();
    let file = server.create(root(), dir, "file", 0o666);
    server.export(vec![Export { read_only: true, ..open_export() }]);
    let (dir_now, file_now) = (server.getattr(dir), server.getattr(file));
    let set = Sattr3 { mode: Some(0o600), ..Sattr3::default() };
    let refused = |status, wcc| {
        assert_eq!(status, NfsStat3::Rofs);
        assert_eq!(assert_unchanged(wcc), dir_now);
    };
    let res: SetattrRes = server.call(
        root(),
        Procedure::Setattr,
        &SetattrArgs { object: dir, new_attributes: set, guard: None },
    );
    let failed = res.unwrap_err();
    refused(failed.status, failed.body);
    let to = place(dir, "new");
    let res: CreateRes<'_> =
        server.call(root(), Procedure::Create, &CreateArgs { place: to, how: CreateHow3::Guarded(set) });
    let failed = res.unwrap_err();
    refused(failed.status, failed.body);
    let res: MkdirRes<'_> = server.call(root(), Procedure::Mkdir, &MkdirArgs { place: to, attributes: set });
    let failed = res.unwrap_err();
    refused(failed.status, failed.body);
    let res: RemoveRes = server.call(root(), Procedure::Remove, &RemoveArgs { object: place(dir, "file") });
    let failed = res.unwrap_err();
    refused(failed.status, failed.body);
    let args = RenameArgs { from: place(dir, "file"), to };
    let res: RenameRes = server.call(root(), Procedure::Rename, &args);
    let failed = res.unwrap_err();
    refused(failed.status, failed.body.fromdir_wcc);
    let res: LinkRes = server.call(root(), Procedure::Link, &LinkArgs { file, link: to });
    let failed = res.unwrap_err();
    refused(failed.status, failed.body.linkdir_wcc);
    assert_eq!(failed.body.file_attributes, Some(file_now));
    let failed = server.write(file, 0, b"x").unwrap_err();
    assert_eq!(failed.status, NfsStat3::Rofs);
    assert_eq!(assert_unchanged(failed.body), file_now);
    let access = access::ALL;
    let res: AccessRes = server.call(root(), Procedure::Access, &AccessArgs { object: dir, access });
    assert_eq!(res.unwrap().access, access::READ | access::LOOKUP);
    assert_eq!(server.getattr(dir), dir_now);
}

#[test]
fn handles_are_useless_to_clients_that_are_not_admitted() {
    let mut server = Server::new();
    let dir = server.root();
    server.export(vec![Export { clients: vec!["10.0.0.0/8".parse().unwrap()], ..open_export() }]);
    assert_eq!(status_of(&server, at("10.1.2.3:900"), dir), NfsStat3::Ok);
    assert_eq!(status_of(&server, at("[::ffff:10.1.2.3]:900"), dir), NfsStat3::Ok);
    assert_eq!(status_of(&server, at("192.0.2.1:900"), dir), NfsStat3::Acces);
    let mounted: MntRes<'_> = server.mount(root(), mount3::Procedure::Mnt, &DirPath(PATH.as_bytes()));
    assert_eq!(mounted, Err(MountStat3::Acces));
    let args = RemoveArgs { object: place(dir, "file") };
    let removed: RemoveRes = server.call(root(), Procedure::Remove, &args);
    let removed = removed.unwrap_err();
    assert_eq!((removed.status, removed.body), (NfsStat3::Acces, WccData::NONE));
}

/// Otherwise it would take from those that are admitted, by a handle that it knows or forges.
#[test]
fn calls_count_for_no_volume_that_does_not_admit_their_client() {
    let mut server = Server::new();
    let args = encoded(&GetattrArgs { object: server.root() });
    let call =
        Call { xid: 1, program: PROGRAM, version: 3, procedure: Procedure::Getattr.code(), args: &args };
    server.export(vec![Export { clients: vec!["10.0.0.0/8".parse().unwrap()], ..open_export() }]);
    let charged = |who: Client| server.charged(who, &call.record(who));
    assert!(charged(at("10.1.2.3:900")).is_some());
    assert_eq!(charged(at("192.0.2.1:900")), None);
}

/// Otherwise the users of a host would use up its limits, with calls that are refused, and have it wait for pools.
#[test]
fn calls_that_are_refused_for_their_port_do_not_count_for_their_host() {
    let mut server = Server::new();
    let root = server.root();
    let args = encoded(&GetattrArgs { object: root });
    let call =
        Call { xid: 1, program: PROGRAM, version: 3, procedure: Procedure::Getattr.code(), args: &args };
    server.export(vec![Export { privileged_port_required: true, ..open_export() }]);
    let volume = Handle::parse(root.as_bytes()).unwrap().volume;
    let counts = |who: Client| {
        let connection = who.connection();
        let record = call.record(who);
        let charge = server.service.charge(&IncomingRecord::decode(&record), &connection);
        (charge.unwrap().is_of_client, server.service.admits_to(volume, &connection))
    };
    assert_eq!(counts(at("10.1.2.3:1023")), (true, true));
    assert_eq!(counts(at("10.1.2.3:1024")), (false, false));
}

#[test]
fn a_privileged_port_can_be_required() {
    let mut server = Server::new();
    let dir = server.root();
    server.export(vec![Export { privileged_port_required: true, ..open_export() }]);
    assert_eq!(status_of(&server, at("10.1.2.3:1023"), dir), NfsStat3::Ok);
    assert_eq!(status_of(&server, at("10.1.2.3:1024"), dir), NfsStat3::Acces);
}

#[test]
fn squashed_users_create_files_as_anonymous() {
    let mut server = Server::new();
    let dir = server.mkdir(root(), server.root(), "dir", 0o777);
    let owner = |server: &Server, who, name| {
        let attributes = server.getattr(server.create(who, dir, name, 0o644));
        (attributes.uid, attributes.gid)
    };
    let nobody = (65534, 65534);
    let anybody = Client { credential: Credential::None, ..root() };
    assert_eq!(owner(&server, root(), "a"), (0, 0));
    assert_eq!(owner(&server, anybody, "b"), nobody);
    server.export(vec![Export { squash: Squash::Root, ..open_export() }]);
    assert_eq!(owner(&server, root(), "c"), nobody);
    assert_eq!(owner(&server, client(7, 8), "d"), (7, 8));
    server.export(vec![Export { squash: Squash::All, anonymous_uid: 5, anonymous_gid: 6, ..open_export() }]);
    assert_eq!(owner(&server, client(7, 8), "e"), (5, 6));
}

#[test]
fn auth_sys_can_be_required() {
    let mut server = Server::new();
    let object = server.root();
    server.export(vec![Export { auth_sys_required: true, ..open_export() }]);
    let args = encoded(&GetattrArgs { object });
    let call =
        Call { xid: 1, program: PROGRAM, version: 3, procedure: Procedure::Getattr.code(), args: &args };
    let anybody = Client { credential: Credential::None, ..root() };
    let (body, results) = server.rpc(anybody, call);
    assert_eq!(body, ReplyBody::Denied(RejectedReply::AuthError(AuthStat::TooWeak)));
    assert!(results.is_empty());
    assert_eq!(status_of(&server, root(), object), NfsStat3::Ok);
}

#[test]
fn forged_handles_are_refused() {
    let server = Server::new();
    let bytes = server.root().as_bytes().to_vec();
    for bit in 0..bytes.len() * 8 {
        let mut forged = bytes.clone();
        *forged.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
        let status = status_of(&server, root(), FileHandle3::new(&forged).unwrap());
        assert!(matches!(status, NfsStat3::BadHandle | NfsStat3::Stale), "bit {bit}: {status}");
    }
}
