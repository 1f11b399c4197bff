//! Names: LOOKUP, CREATE, MKDIR, SYMLINK, READLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK.

use wire::nfs3::*;

use crate::support::{Server, assert_unchanged, client, place, root};

fn rename(server: &Server, from: DirOpArgs3<'_>, to: DirOpArgs3<'_>) -> RenameRes {
    server.call(root(), Procedure::Rename, &RenameArgs { from, to })
}

fn link(server: &Server, file: FileHandle3<'_>, to: DirOpArgs3<'_>) -> LinkRes {
    server.call(root(), Procedure::Link, &LinkArgs { file, link: to })
}

fn mknod(server: &Server, to: DirOpArgs3<'_>, what: MknodData3) -> MknodRes<'static> {
    server.call(root(), Procedure::Mknod, &MknodArgs { place: to, what })
}

#[test]
fn created_files_are_found_with_their_attributes() {
    let server = Server::new();
    let dir = server.root();
    let before = server.getattr(dir);
    let set = Sattr3 { mode: Some(0o640), ..Sattr3::default() };
    let args = CreateArgs { place: place(dir, "file"), how: CreateHow3::Guarded(set) };
    let created: CreateRes<'_> = server.call(root(), Procedure::Create, &args);
    let created = created.unwrap();
    let attributes = created.obj_attributes.unwrap();
    assert_eq!((attributes.file_type, attributes.mode, attributes.nlink), (FileType3::Reg, 0o640, 1));
    assert_eq!(created.dir_wcc.before, Some(WccAttr::from(before)));
    assert_ne!(created.dir_wcc.after.unwrap().mtime, before.mtime);
    let found: LookupRes<'_> =
        server.call(root(), Procedure::Lookup, &LookupArgs { what: place(dir, "file") });
    let found = found.unwrap();
    assert_eq!(Some(found.object), created.obj);
    assert_eq!(found.obj_attributes, Some(attributes));
    assert_eq!(found.dir_attributes, created.dir_wcc.after);
}

#[test]
fn failures_return_the_attributes_of_the_directory() {
    let server = Server::new();
    let dir = server.root();
    server.create(root(), dir, "file", 0o644);
    let now = server.getattr(dir);
    let args = CreateArgs { place: place(dir, "file"), how: CreateHow3::Guarded(Sattr3::default()) };
    let created: CreateRes<'_> = server.call(root(), Procedure::Create, &args);
    let created = created.unwrap_err();
    assert_eq!(created.status, NfsStat3::Exist);
    assert_eq!(assert_unchanged(created.body), now);
    let removed: RemoveRes =
        server.call(root(), Procedure::Remove, &RemoveArgs { object: place(dir, "none") });
    let removed = removed.unwrap_err();
    assert_eq!(removed.status, NfsStat3::NoEnt);
    assert_eq!(assert_unchanged(removed.body), now);
    let removed: RmdirRes = server.call(root(), Procedure::Rmdir, &RmdirArgs { object: place(dir, "file") });
    let removed = removed.unwrap_err();
    assert_eq!(removed.status, NfsStat3::NotDir);
    assert_eq!(assert_unchanged(removed.body), now);
    let found: LookupRes<'_> =
        server.call(root(), Procedure::Lookup, &LookupArgs { what: place(dir, "none") });
    let found = found.unwrap_err();
    assert_eq!((found.status, found.body), (NfsStat3::NoEnt, Some(now)));
    let renamed = rename(&server, place(dir, "none"), place(dir, "other")).unwrap_err();
    assert_eq!(renamed.status, NfsStat3::NoEnt);
    assert_eq!(assert_unchanged(renamed.body.fromdir_wcc), now);
    assert_eq!(assert_unchanged(renamed.body.todir_wcc), now);
}

#[test]
fn names_that_are_too_long_are_refused() {
    let server = Server::new();
    let dir = server.root();
    let (longest, longer) = ("n".repeat(255), "n".repeat(256));
    server.create(root(), dir, &longest, 0o644);
    let args = CreateArgs { place: place(dir, &longer), how: CreateHow3::Unchecked(Sattr3::default()) };
    let created: CreateRes<'_> = server.call(root(), Procedure::Create, &args);
    assert_eq!(created.unwrap_err().status, NfsStat3::NameTooLong);
    assert_eq!(server.lookup(root(), dir, &longer), Err(NfsStat3::NameTooLong));
}

#[test]
fn exclusive_creates_are_recognized_by_their_verifier() {
    let server = Server::new();
    let dir = server.root();
    let create = |verifier| -> CreateRes<'_> {
        let args = CreateArgs { place: place(dir, "file"), how: CreateHow3::Exclusive(verifier) };
        server.call(root(), Procedure::Create, &args)
    };
    let first = create([1; 8]).unwrap();
    assert_eq!(create([1; 8]).unwrap().obj, first.obj);
    assert_eq!(create([2; 8]).unwrap_err().status, NfsStat3::Exist);
}

#[test]
fn symlinks_keep_their_target() {
    let server = Server::new();
    let dir = server.root();
    let target = NfsPath3(b"../some where/else");
    let symlink = SymlinkData3 { symlink_attributes: Sattr3::default(), symlink_data: target };
    let args = SymlinkArgs { place: place(dir, "link"), symlink };
    let made: SymlinkRes<'_> = server.call(root(), Procedure::Symlink, &args);
    let made = made.unwrap();
    let attributes = made.obj_attributes.unwrap();
    assert_eq!((attributes.file_type, attributes.size), (FileType3::Lnk, 18));
    let readlink =
        |symlink| -> ReadlinkRes<'_> { server.call(root(), Procedure::Readlink, &ReadlinkArgs { symlink }) };
    let read = readlink(made.obj.unwrap()).unwrap();
    assert_eq!((read.data, read.symlink_attributes), (target, Some(attributes)));
    let refused = readlink(dir).unwrap_err();
    assert_eq!((refused.status, refused.body), (NfsStat3::Inval, Some(server.getattr(dir))));
}

#[test]
fn mknod_makes_each_type() {
    let server = Server::new();
    let dir = server.root();
    let set = Sattr3 { mode: Some(0o600), ..Sattr3::default() };
    let device = DeviceData3 { dev_attributes: set, spec: SpecData3 { major: 8, minor: 17 } };
    let none = SpecData3 { major: 0, minor: 0 };
    let kinds = [
        ("chr", MknodData3::Chr(device), FileType3::Chr, device.spec),
        ("blk", MknodData3::Blk(device), FileType3::Blk, device.spec),
        ("sock", MknodData3::Sock(set), FileType3::Sock, none),
        ("fifo", MknodData3::Fifo(set), FileType3::Fifo, none),
    ];
    for (name, what, file_type, spec) in kinds {
        let made = mknod(&server, place(dir, name), what).unwrap().obj_attributes.unwrap();
        assert_eq!((made.file_type, made.rdev, made.mode), (file_type, spec, 0o600));
    }
    for code in [0, 1, 2, 5, 8, u32::MAX] {
        let refused = mknod(&server, place(dir, "bad"), MknodData3::BadType(code)).unwrap_err();
        assert_eq!(refused.status, NfsStat3::BadType);
        assert_unchanged(refused.body);
    }
}

#[test]
fn rename_moves_a_name_and_returns_both_directories() {
    let server = Server::new();
    let dir = server.root();
    let (one, two) = (server.mkdir(root(), dir, "one", 0o755), server.mkdir(root(), dir, "two", 0o755));
    let file = server.create(root(), one, "file", 0o644);
    let (before_one, before_two) = (server.getattr(one), server.getattr(two));
    let renamed = rename(&server, place(one, "file"), place(two, "moved")).unwrap();
    assert_eq!(renamed.fromdir_wcc.before, Some(WccAttr::from(before_one)));
    assert_eq!(renamed.todir_wcc.before, Some(WccAttr::from(before_two)));
    assert_eq!(renamed.fromdir_wcc.after, Some(server.getattr(one)));
    assert_eq!(renamed.todir_wcc.after, Some(server.getattr(two)));
    assert_eq!(server.lookup(root(), two, "moved"), Ok(file));
    assert_eq!(server.lookup(root(), one, "file"), Err(NfsStat3::NoEnt));
    let refused = rename(&server, place(dir, "two"), place(two, "itself")).unwrap_err();
    assert_eq!(refused.status, NfsStat3::Inval);
    assert_eq!(assert_unchanged(refused.body.todir_wcc), server.getattr(two));
}

#[test]
fn links_are_counted() {
    let server = Server::new();
    let dir = server.root();
    let file = server.create(root(), dir, "file", 0o644);
    let linked = link(&server, file, place(dir, "second")).unwrap();
    assert_eq!(linked.file_attributes.unwrap().nlink, 2);
    assert_eq!(linked.linkdir_wcc.after, Some(server.getattr(dir)));
    let refused = link(&server, file, place(dir, "second")).unwrap_err();
    assert_eq!(refused.status, NfsStat3::Exist);
    assert_eq!(refused.body.file_attributes.unwrap().nlink, 2);
    assert_unchanged(refused.body.linkdir_wcc);
    let removed: RemoveRes =
        server.call(root(), Procedure::Remove, &RemoveArgs { object: place(dir, "file") });
    removed.unwrap();
    assert_eq!(server.lookup(root(), dir, "second"), Ok(file));
    assert_eq!(server.getattr(file).nlink, 1);
}

#[test]
fn names_do_not_cross_volumes() {
    let server = Server::of_two();
    let (main, other) = (server.root(), server.root_of("/other"));
    let file = server.create(root(), main, "file", 0o644);
    assert_eq!(
        rename(&server, place(main, "file"), place(other, "file")).unwrap_err().status,
        NfsStat3::Xdev
    );
    assert_eq!(link(&server, file, place(other, "file")).unwrap_err().status, NfsStat3::Xdev);
    assert_ne!(server.getattr(main).fsid, server.getattr(other).fsid);
}

#[test]
fn only_empty_directories_are_removed() {
    let server = Server::new();
    let dir = server.mkdir(root(), server.root(), "dir", 0o755);
    server.create(root(), dir, "file", 0o644);
    let rmdir = || -> RmdirRes {
        server.call(root(), Procedure::Rmdir, &RmdirArgs { object: place(server.root(), "dir") })
    };
    assert_eq!(rmdir().unwrap_err().status, NfsStat3::NotEmpty);
    let removed: RemoveRes =
        server.call(root(), Procedure::Remove, &RemoveArgs { object: place(dir, "file") });
    removed.unwrap();
    assert_eq!(rmdir().unwrap().dir_wcc.after.unwrap().nlink, 2);
}

#[test]
fn modes_guard_names() {
    let server = Server::new();
    let dir = server.mkdir(root(), server.root(), "dir", 0o700);
    server.create(root(), dir, "file", 0o644);
    assert_eq!(server.lookup(client(7, 7), dir, "file"), Err(NfsStat3::Acces));
    let args = RemoveArgs { object: place(server.root(), "dir") };
    let removed: RemoveRes = server.call(client(7, 7), Procedure::Remove, &args);
    let removed = removed.unwrap_err();
    assert_eq!(removed.status, NfsStat3::Acces);
    assert_unchanged(removed.body);
}
