//! Names: LOOKUP, CREATE, REMOVE, RENAME, LINK, READLINK, READDIR.

use wire::nfs4::*;

use super::support::*;
use crate::support::{Server, client, root};

fn remove(name: &str) -> ArgOp4<'_> {
    ArgOp4::Remove(RemoveArgs { target: Component4(name.as_bytes()) })
}

fn rename<'a>(oldname: &'a str, newname: &'a str) -> ArgOp4<'a> {
    let (oldname, newname) = (Component4(oldname.as_bytes()), Component4(newname.as_bytes()));
    ArgOp4::Rename(RenameArgs { oldname, newname })
}

fn link(name: &str) -> ArgOp4<'_> {
    ArgOp4::Link(LinkArgs { newname: Component4(name.as_bytes()) })
}

#[test]
fn create_makes_every_type_except_files() {
    let server = Server::new();
    let numbers = SpecData4 { major: 4, minor: 64 };
    let cases = [
        (CreateType4::Dir, NfsFtype4::Dir),
        (CreateType4::Lnk(Linktext4(b"over/there")), NfsFtype4::Lnk),
        (CreateType4::Blk(numbers), NfsFtype4::Blk),
        (CreateType4::Chr(numbers), NfsFtype4::Chr),
        (CreateType4::Sock, NfsFtype4::Sock),
        (CreateType4::Fifo, NfsFtype4::Fifo),
    ];
    for (what, expected) in cases {
        let name = format!("{expected:?}");
        let set = fattr(&Attributes4 { mode: Some(0o700), ..Attributes4::default() });
        let args = CreateArgs { objtype: what, objname: Component4(name.as_bytes()), createattrs: set };
        let before = attributes_of(&server, handle_at(&server, &[]), &[Attr4::Change]).change.unwrap();
        let wanted = getattr(&[Attr4::Type, Attr4::Rawdev, Attr4::Mode]);
        let results = at_root(&server, &[ArgOp4::Create(args), wanted]);
        let [.., ResOp4::Create(Ok(created)), ResOp4::Getattr(Ok(shown))] = results.all.as_slice() else {
            panic!("{results:?}")
        };
        assert_eq!((created.cinfo.atomic, created.cinfo.before), (true, before));
        assert!(created.cinfo.after > before);
        assert_eq!(created.attrset, AttrMask::of(&[Attr4::Mode]));
        let shown = shown.obj_attributes.decode_values().unwrap();
        assert_eq!(shown.file_type, Some(expected));
        if matches!(what, CreateType4::Blk(_) | CreateType4::Chr(_)) {
            assert_eq!(shown.rawdev, Some(numbers));
        }
    }
    let text = at_root(&server, &[lookup("Lnk"), ArgOp4::Readlink]);
    assert!(matches!(text.last(), ResOp4::Readlink(Ok(found)) if found.link.0 == b"over/there"));
    assert_eq!(at_root(&server, &[lookup("Dir"), ArgOp4::Readlink]).status, NfsStat4::Inval);
    assert_eq!(at_root(&server, &[create("x", CreateType4::BadType(1))]).status, NfsStat4::BadType);
}

#[test]
fn names_are_checked() {
    let server = Server::new();
    file(&server, "file");
    let dir = create("dir", CreateType4::Dir);
    assert_eq!(at_root(&server, &[dir]).status, NfsStat4::Ok);
    let long = "n".repeat(256);
    let cases = [
        ("", NfsStat4::Inval),
        (".", NfsStat4::BadName),
        ("..", NfsStat4::BadName),
        ("a/b", NfsStat4::BadName),
    ];
    for (name, expected) in cases.into_iter().chain([(long.as_str(), NfsStat4::NameTooLong)]) {
        let (save, dir) = (ArgOp4::Savefh, CreateType4::Dir);
        assert_eq!(at_root(&server, &[lookup(name)]).status, expected, "{name}");
        assert_eq!(at_root(&server, &[create(name, dir)]).status, expected, "{name}");
        assert_eq!(at_root(&server, &[remove(name)]).status, expected, "{name}");
        assert_eq!(at_root(&server, &[save, rename("dir", name)]).status, expected, "{name}");
        assert_eq!(at_root(&server, &[save, rename(name, "dir")]).status, expected, "{name}");
        assert_eq!(
            at_root(&server, &[lookup("file"), save, ArgOp4::Lookupp, link(name)]).status,
            NfsStat4::NotDir
        );
        let linked = compound(
            &server,
            &[
                putfh(handle_at(&server, &[lookup("file")])),
                save,
                ArgOp4::Putrootfh,
                lookup("main"),
                link(name),
            ],
        );
        assert_eq!(linked.status, expected, "{name}");
    }
    assert_eq!(at_root(&server, &[lookup("none")]).status, NfsStat4::NoEnt);
}

#[test]
fn operations_on_names_need_a_directory() {
    let server = Server::new();
    file(&server, "file");
    at_root(&server, &[create("link", CreateType4::Lnk(Linktext4(b"file")))]);
    assert_eq!(at_root(&server, &[lookup("file"), lookup("x")]).status, NfsStat4::NotDir);
    assert_eq!(at_root(&server, &[lookup("link"), lookup("x")]).status, NfsStat4::Symlink);
    assert_eq!(at_root(&server, &[lookup("file"), create("x", CreateType4::Dir)]).status, NfsStat4::NotDir);
    assert_eq!(at_root(&server, &[lookup("file"), remove("x")]).status, NfsStat4::NotDir);
    assert_eq!(at_root(&server, &[lookup("file"), ArgOp4::Lookupp]).status, NfsStat4::NotDir);
}

#[test]
fn files_and_directories_are_removed_alike() {
    let server = Server::new();
    file(&server, "file");
    at_root(&server, &[create("dir", CreateType4::Dir), create("sub", CreateType4::Dir)]);
    assert_eq!(at_root(&server, &[remove("dir")]).status, NfsStat4::NotEmpty);
    assert_eq!(at_root(&server, &[lookup("dir"), remove("sub")]).status, NfsStat4::Ok);
    let results = at_root(&server, &[remove("dir"), remove("file"), remove("none")]);
    assert_eq!((results.status, results.all.len()), (NfsStat4::NoEnt, 5));
    let closed = compound_as(&server, client(7, 7), 0, &[&to_root()[..], &[remove("none")]].concat());
    assert_eq!(closed.status, NfsStat4::NoEnt);
}

#[test]
fn rename_and_link_work() {
    let server = Server::new();
    let file = file(&server, "file");
    let dir = handle_at(&server, &[create("dir", CreateType4::Dir)]);
    let save = ArgOp4::Savefh;
    let results = at_root(&server, &[save, putfh(dir), rename("file", "moved")]);
    let ResOp4::Rename(Ok(renamed)) = results.last() else { panic!("{results:?}") };
    assert!(renamed.source_cinfo.after > renamed.source_cinfo.before);
    assert!(renamed.target_cinfo.after > renamed.target_cinfo.before);
    assert_eq!(handle_at(&server, &[lookup("dir"), lookup("moved")]), file);
    let results = compound(&server, &[putfh(file), save, putfh(dir), link("second")]);
    assert_eq!(results.status, NfsStat4::Ok);
    assert_eq!(attributes_of(&server, file, &[Attr4::Numlinks]).numlinks, Some(2));
    let again = compound(&server, &[putfh(file), save, putfh(dir), link("second")]);
    assert_eq!(again.status, NfsStat4::Exist);
    assert_eq!(compound(&server, &[putfh(dir), save, putfh(dir), link("x")]).status, NfsStat4::IsDir);
    assert_eq!(compound(&server, &[putfh(dir), rename("a", "b")]).status, NfsStat4::NoFileHandle);
}

#[test]
fn renames_between_file_systems_fail() {
    let server = Server::of_two();
    let file = file(&server, "file");
    let other = [ArgOp4::Putrootfh, lookup("other")];
    let linked = compound(&server, &[&[putfh(file), ArgOp4::Savefh][..], &other, &[link("x")]].concat());
    assert_eq!(linked.status, NfsStat4::Xdev);
    let moved =
        compound(&server, &[&to_root()[..], &[ArgOp4::Savefh], &other, &[rename("file", "x")]].concat());
    assert_eq!(moved.status, NfsStat4::Xdev);
    let made = compound(&server, &[ArgOp4::Putrootfh, create("x", CreateType4::Dir)]);
    assert_eq!(made.status, NfsStat4::Rofs);
}

#[test]
fn listings_continue_where_the_last_reply_ended() {
    let server = Server::new();
    for number in 0..40 {
        file(&server, &format!("file{number:02}"));
    }
    let root = handle_at(&server, &[]);
    let list = |cookie, maxcount| {
        let args = ReaddirArgs {
            cookie,
            cookieverf: [0; 8],
            dircount: 8192,
            maxcount,
            attr_request: AttrMask::of(&[Attr4::Type, Attr4::Fileid, Attr4::Filehandle, Attr4::RdattrError]),
        };
        compound(&server, &[putfh(root), ArgOp4::Readdir(args)])
    };
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let results = list(cookie, 1000);
        let ResOp4::Readdir(Ok(listed)) = results.last() else { panic!("{results:?}") };
        for entry in listed.entries.iter() {
            assert!(entry.cookie > 2);
            cookie = entry.cookie;
            names.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
            let shown = entry.attrs.decode_values().unwrap();
            assert_eq!((shown.file_type, shown.rdattr_error), (Some(NfsFtype4::Reg), Some(NfsStat4::Ok)));
        }
        if listed.eof {
            break;
        }
    }
    assert_eq!(names, (0..40).map(|number| format!("file{number:02}")).collect::<Vec<_>>());
    assert_eq!(list(0, 8).status, NfsStat4::TooSmall);
    assert_eq!(list(0, 40).status, NfsStat4::TooSmall);
    assert_eq!(list(1, 1000).status, NfsStat4::BadCookie);
    assert_eq!(list(1 << 40, 1000).status, NfsStat4::BadCookie);
    let wrong = ReaddirArgs {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 999,
        attr_request: AttrMask::of(&[Attr4::TimeModifySet]),
    };
    assert_eq!(status_of(&server, &[putfh(root), ArgOp4::Readdir(wrong)]), NfsStat4::Inval);
}

/// libnfs 4.0.0 sends zeros, Linux the verifier that it received.
#[test]
fn listings_continue_with_any_cookie_verifier() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        file(&server, name);
    }
    let root = handle_at(&server, &[]);
    let list = |cookie, cookieverf| {
        let attr_request = AttrMask::of(&[Attr4::Fileid]);
        let args = ReaddirArgs { cookie, cookieverf, dircount: 8192, maxcount: 8192, attr_request };
        let results = compound(&server, &[putfh(root), ArgOp4::Readdir(args)]);
        let ResOp4::Readdir(Ok(listed)) = results.last() else { panic!("{results:?}") };
        assert_eq!(listed.cookieverf, [0; 8]);
        listed.entries.iter().map(|entry| entry.cookie).collect::<Vec<_>>()
    };
    let all = list(0, [0; 8]);
    assert_eq!(all.len(), 3);
    for verifier in [[0; 8], *b"forever\0", [0xff; 8]] {
        assert_eq!(list(all[0], verifier), all[1..]);
    }
}

#[test]
fn a_read_only_export_changes_nothing() {
    let mut server = Server::new();
    let file = file(&server, "file");
    server.export(vec![nfs::exports::Export { read_only: true, ..crate::support::open_export() }]);
    let changes = [create("x", CreateType4::Dir), remove("file")];
    for change in changes {
        assert_eq!(at_root(&server, &[change]).status, NfsStat4::Rofs);
    }
    let set = SetattrArgs {
        stateid: Stateid4::ANONYMOUS,
        obj_attributes: fattr(&Attributes4 { mode: Some(0), ..Attributes4::default() }),
    };
    assert_eq!(compound_as(&server, root(), 0, &[putfh(file), ArgOp4::Setattr(set)]).status, NfsStat4::Rofs);
}
