//! A retransmitted call gets the first reply again, also after a restart.

use wire::nfs3::*;

use crate::support::{Client, Server, client, place, root};

fn create_args<'a>(dir: FileHandle3<'a>, name: &'a str) -> CreateArgs<'a> {
    CreateArgs { place: place(dir, name), how: CreateHow3::Guarded(Sattr3::default()) }
}

#[test]
fn retransmitted_changes_are_made_once() {
    let server = Server::new();
    let dir = server.root();
    let create =
        |xid| -> CreateRes<'_> { server.call_as(xid, root(), Procedure::Create, &create_args(dir, "file")) };
    let first = create(1).unwrap();
    assert_eq!(create(1).unwrap(), first);
    assert_eq!(create(2).unwrap_err().status, NfsStat3::Exist);
    let remove = |xid| -> RemoveRes {
        server.call_as(xid, root(), Procedure::Remove, &RemoveArgs { object: place(dir, "file") })
    };
    let first = remove(3).unwrap();
    assert_eq!(remove(3).unwrap(), first);
    assert_eq!(remove(4).unwrap_err().status, NfsStat3::NoEnt);
}

#[test]
fn the_reply_to_every_kind_of_change_is_remembered() {
    let server = Server::new();
    let dir = server.root();
    let file = server.create(root(), dir, "file", 0o644);
    let set = Sattr3 { mode: Some(0o600), ..Sattr3::default() };
    let guard = Some(server.getattr(file).ctime);
    let args = SetattrArgs { object: file, new_attributes: set, guard };
    let twice =
        |xid| -> [SetattrRes; 2] { [(); 2].map(|()| server.call_as(xid, root(), Procedure::Setattr, &args)) };
    let [first, second] = twice(1);
    assert_eq!(first.unwrap(), second.unwrap());
    let args = MkdirArgs { place: place(dir, "dir"), attributes: set };
    let [first, second] =
        [(); 2].map(|()| -> MkdirRes<'_> { server.call_as(2, root(), Procedure::Mkdir, &args) });
    assert_eq!(first.unwrap(), second.unwrap());
    let symlink = SymlinkData3 { symlink_attributes: set, symlink_data: NfsPath3(b"target") };
    let args = SymlinkArgs { place: place(dir, "symlink"), symlink };
    let [first, second] =
        [(); 2].map(|()| -> SymlinkRes<'_> { server.call_as(3, root(), Procedure::Symlink, &args) });
    assert_eq!(first.unwrap(), second.unwrap());
    let args = MknodArgs { place: place(dir, "fifo"), what: MknodData3::Fifo(set) };
    let [first, second] =
        [(); 2].map(|()| -> MknodRes<'_> { server.call_as(4, root(), Procedure::Mknod, &args) });
    assert_eq!(first.unwrap(), second.unwrap());
    let args = LinkArgs { file, link: place(dir, "link") };
    let [first, second] = [(); 2].map(|()| -> LinkRes { server.call_as(5, root(), Procedure::Link, &args) });
    assert_eq!(first.unwrap(), second.unwrap());
    let args = RenameArgs { from: place(dir, "link"), to: place(dir, "renamed") };
    let [first, second] =
        [(); 2].map(|()| -> RenameRes { server.call_as(6, root(), Procedure::Rename, &args) });
    assert_eq!(first.unwrap(), second.unwrap());
    let args = RmdirArgs { object: place(dir, "dir") };
    let [first, second] =
        [(); 2].map(|()| -> RmdirRes { server.call_as(7, root(), Procedure::Rmdir, &args) });
    assert_eq!(first.unwrap(), second.unwrap());
}

#[test]
fn remembered_replies_survive_a_restart() {
    let server = Server::new();
    let dir = server.root();
    server.create(root(), dir, "old", 0o644);
    let (create, remove) = (create_args(dir, "new"), RemoveArgs { object: place(dir, "old") });
    let created: CreateRes<'_> = server.call_as(1, root(), Procedure::Create, &create);
    let removed: RemoveRes = server.call_as(2, root(), Procedure::Remove, &remove);
    let server = server.restarted();
    let again: CreateRes<'_> = server.call_as(1, root(), Procedure::Create, &create);
    assert_eq!(again.unwrap(), created.unwrap());
    let again: RemoveRes = server.call_as(2, root(), Procedure::Remove, &remove);
    assert_eq!(again.unwrap(), removed.unwrap());
    let other: CreateRes<'_> = server.call_as(3, root(), Procedure::Create, &create);
    assert_eq!(other.unwrap_err().status, NfsStat3::Exist);
}

#[test]
fn failures_are_remembered() {
    let server = Server::new();
    let dir = server.root();
    let remove = || -> RemoveRes {
        server.call_as(1, root(), Procedure::Remove, &RemoveArgs { object: place(dir, "file") })
    };
    let failed = remove().unwrap_err();
    assert_eq!(failed.status, NfsStat3::NoEnt);
    server.create(root(), dir, "file", 0o644);
    assert_eq!(remove().unwrap_err(), failed);
    server.lookup(root(), dir, "file").unwrap();
}

#[test]
fn other_clients_or_arguments_make_other_calls() {
    let server = Server::new();
    let dir = server.root();
    let create = |who, name: &'static str| -> CreateRes<'_> {
        server.call_as(1, who, Procedure::Create, &create_args(dir, name))
    };
    let first = create(root(), "a").unwrap();
    assert_ne!(create(root(), "b").unwrap().obj, first.obj);
    let other = Client { peer: "192.0.2.9:900".parse().unwrap(), ..root() };
    assert_eq!(create(other, "a").unwrap_err().status, NfsStat3::Exist);
    let reconnected = Client { peer: "[::ffff:192.0.2.1]:777".parse().unwrap(), ..root() };
    assert_eq!(create(reconnected, "a").unwrap(), first);
}

#[test]
fn other_users_make_other_calls() {
    let server = Server::new();
    let dir = server.mkdir(root(), server.root(), "private", 0o700);
    let create =
        |who| -> CreateRes<'_> { server.call_as(1, who, Procedure::Create, &create_args(dir, "file")) };
    let first = create(root()).unwrap();
    assert_eq!(create(client(1000, 1000)).unwrap_err().status, NfsStat3::Acces, "no handle leaks");
    assert_eq!(create(root()).unwrap(), first);
    let remove = |who| -> RemoveRes {
        server.call_as(2, who, Procedure::Remove, &RemoveArgs { object: place(dir, "file") })
    };
    assert_eq!(remove(client(1000, 1000)).unwrap_err().status, NfsStat3::Acces);
    remove(root()).unwrap();
}
