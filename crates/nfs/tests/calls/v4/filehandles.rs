//! Filehandles and the pseudo file system: PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH, LOOKUP, LOOKUPP, SECINFO.

use std::sync::{Arc, Mutex};

use nfs::exports::{Export, Squash};
use tracing::field::{Field, Visit};
use tracing::span;
use volume::ids::VolumeId;
use wire::nfs4::*;

use super::support::*;
use crate::support::{Client, Server, client, open_export, root};

fn fileids(server: &Server, operations: &[ArgOp4<'_>]) -> Attributes4<'static> {
    let wanted = getattr(&[Attr4::Fsid, Attr4::Fileid, Attr4::MountedOnFileid, Attr4::Type, Attr4::Mode]);
    let results = compound(server, &[operations, &[wanted]].concat());
    match results.last() {
        ResOp4::Getattr(Ok(found)) => found.obj_attributes.decode_values().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_root_leads_to_all_exports() {
    let server = Server::of_two();
    let top = fileids(&server, &[ArgOp4::Putrootfh]);
    let main = fileids(&server, &[ArgOp4::Putrootfh, lookup("main")]);
    let other = fileids(&server, &[ArgOp4::Putpubfh, lookup("other")]);
    assert_eq!((main.fileid, other.fileid), (Some(1), Some(1)));
    assert_eq!(main.fsid, Some(Fsid4 { major: 1, minor: 0 }));
    assert_eq!(other.fsid, Some(Fsid4 { major: 2, minor: 0 }));
    assert_eq!(top.fsid, Some(Fsid4 { major: 0, minor: 0 }));
    assert_ne!(main.mounted_on_fileid, main.fileid);
    assert_ne!(main.mounted_on_fileid, other.mounted_on_fileid);
    assert_eq!(top.mounted_on_fileid, top.fileid);
    assert_eq!((top.file_type, top.mode), (Some(NfsFtype4::Dir), Some(0o555)));
    assert_eq!(status_of(&server, &[ArgOp4::Putrootfh, lookup("none")]), NfsStat4::NoEnt);
}

#[test]
fn lookupp_leads_to_the_root() {
    let server = Server::with(vec![Export { squash: Squash::None, ..Export::new("/a/b", VolumeId(1)) }]);
    let up = |operations: &[ArgOp4<'_>]| fileids(&server, operations).fileid;
    let root = up(&[ArgOp4::Putrootfh]);
    let a = up(&[ArgOp4::Putrootfh, lookup("a")]);
    assert_eq!(up(&[ArgOp4::Putrootfh, lookup("a"), lookup("b"), ArgOp4::Lookupp]), a);
    assert_eq!(up(&[ArgOp4::Putrootfh, lookup("a"), lookup("b"), ArgOp4::Lookupp, ArgOp4::Lookupp]), root);
    assert_eq!(status_of(&server, &[ArgOp4::Putrootfh, ArgOp4::Lookupp]), NfsStat4::NoEnt);
    let dir = create("dir", CreateType4::Dir);
    let back = [ArgOp4::Putrootfh, lookup("a"), lookup("b"), dir, ArgOp4::Lookupp];
    assert_eq!(up(&back), Some(1));
}

#[test]
fn the_root_lists_only_visible_exports() {
    let hidden =
        Export { clients: vec!["198.51.100.0/24".parse().unwrap()], ..Export::new("/z", VolumeId(1)) };
    let server = Server::with(vec![hidden, open_export(), Export::new("/b/c", VolumeId(1))]);
    let list = |cookie, maxcount| {
        let args = ReaddirArgs {
            cookie,
            cookieverf: [0; 8],
            dircount: 0,
            maxcount,
            attr_request: AttrMask::of(&[Attr4::Fileid, Attr4::MountedOnFileid, Attr4::Fsid]),
        };
        let results = compound(&server, &[ArgOp4::Putrootfh, ArgOp4::Readdir(args)]);
        match results.last() {
            ResOp4::Readdir(Ok(listed)) => {
                let entries: Vec<_> =
                    listed.entries.iter().map(|entry| (entry.cookie, entry.name.0.to_vec())).collect();
                (entries, listed.eof)
            }
            other => panic!("{other:?}"),
        }
    };
    let (all, eof) = list(0, 4096);
    assert_eq!(all.iter().map(|(_, name)| name.as_slice()).collect::<Vec<_>>(), [&b"b"[..], b"main"]);
    assert!(eof);
    let (first, eof) = list(0, 100);
    assert_eq!((first.len(), eof), (1, false));
    let (second, eof) = list(first[0].0, 100);
    assert_eq!((&second[0].1[..], eof), (&b"main"[..], true));
}

#[test]
fn handles_survive_a_restart_and_another_configuration() {
    let mut server = Server::new();
    let handle = handle_at(&server, &[create("dir", CreateType4::Dir)]);
    let top = compound(&server, &[ArgOp4::Putrootfh, ArgOp4::Getfh]);
    let ResOp4::Getfh(Ok(top)) = top.last() else { panic!("{top:?}") };
    server.export(vec![open_export(), Export::new("/another", VolumeId(1))]);
    assert_eq!(status_of(&server, &[putfh(handle), ArgOp4::Getfh]), NfsStat4::Ok);
    let server = server.restarted();
    assert_eq!(handle_at(&server, &[lookup("dir")]), handle);
    assert_eq!(status_of(&server, &[putfh(top.object.as_bytes()), lookup("main")]), NfsStat4::Ok);
}

#[test]
fn foreign_handles_are_bad() {
    let server = Server::new();
    for bad in [&b""[..], b"x", &[1; 36], &[0; 128]] {
        assert_eq!(status_of(&server, &[putfh(bad)]), NfsStat4::BadHandle, "{bad:?}");
    }
    // A directory that the pseudo file system no longer has.
    assert_eq!(status_of(&server, &[putfh(&[0, 0, 0, 2, 9, 9, 9, 9, 9, 9, 9, 9])]), NfsStat4::Stale);
}

#[test]
fn clients_that_are_not_admitted_are_refused_even_with_valid_handles() {
    let mut server = Server::new();
    let handle = handle_at(&server, &[]);
    let near = Export { clients: vec!["198.51.100.0/24".parse().unwrap()], ..open_export() };
    server.export(vec![near]);
    assert_eq!(status_of(&server, &[putfh(handle)]), NfsStat4::Access);
    assert_eq!(status_of(&server, &[ArgOp4::Putrootfh, lookup("main")]), NfsStat4::NoEnt);
}

/// Volumes are made, renamed and deleted, and exports reloaded, by services that replace each other.
#[test]
fn the_pseudo_root_follows_volumes_and_exports() {
    let mut server = Server::of_two();
    let [main, other] = ["main", "other"].map(|name| {
        let results = compound(&server, &[ArgOp4::Putrootfh, lookup(name), ArgOp4::Getfh]);
        let ResOp4::Getfh(Ok(found)) = results.last() else { panic!("{results:?}") };
        found.object.as_bytes().to_vec()
    });
    let finds = |server: &Server, name| status_of(server, &[ArgOp4::Putrootfh, lookup(name)]);
    let change = |server: &Server| {
        let results = compound(server, &[ArgOp4::Putrootfh, getattr(&[Attr4::Change])]);
        format!("{:?}", results.last())
    };
    let before = change(&server);
    server.export(vec![open_export()]);
    assert_eq!((finds(&server, "main"), finds(&server, "other")), (NfsStat4::Ok, NfsStat4::NoEnt));
    assert_eq!(status_of(&server, &[putfh(&other)]), NfsStat4::Stale, "it was deleted");
    assert_ne!(change(&server), before, "clients look again");
    let renamed = Export { path: "/new".to_owned(), ..open_export() };
    server.export(vec![renamed]);
    assert_eq!((finds(&server, "main"), finds(&server, "new")), (NfsStat4::NoEnt, NfsStat4::Ok));
    assert_eq!(status_of(&server, &[putfh(&main)]), NfsStat4::Ok, "handles stay valid");
    server.export(Vec::new());
    assert_eq!(finds(&server, "new"), NfsStat4::NoEnt);
    assert_eq!(status_of(&server, &[ArgOp4::Putrootfh]), NfsStat4::Ok);
    server.export(vec![open_export()]);
    assert_eq!(status_of(&server, &[putfh(&main)]), NfsStat4::Ok);
}

#[test]
fn restorefh_restores_the_saved_filehandle() {
    let server = Server::new();
    let dir = handle_at(&server, &[create("dir", CreateType4::Dir)]);
    let moves = [lookup("dir"), ArgOp4::Savefh, ArgOp4::Lookupp, ArgOp4::Restorefh, ArgOp4::Getfh];
    let results = at_root(&server, &moves);
    assert!(matches!(results.last(), ResOp4::Getfh(Ok(found)) if found.object.as_bytes() == dir));
}

#[test]
fn wrongsec_and_secinfo_tell_callers_how_to_authenticate() {
    let server = Server::with(vec![Export { auth_sys_required: true, ..open_export() }]);
    let nobody = Client { credential: wire::rpc::Credential::None, ..root() };
    let ask = |operations: &[ArgOp4<'_>]| compound_as(&server, nobody, 0, operations);
    assert_eq!(ask(&[ArgOp4::Putrootfh, lookup("main")]).status, NfsStat4::WrongSec);
    let secinfo = ArgOp4::Secinfo(SecinfoArgs { name: Component4(b"main") });
    let told = ask(&[ArgOp4::Putrootfh, secinfo]);
    let ResOp4::Secinfo(Ok(flavors)) = told.last() else { panic!("{told:?}") };
    assert_eq!(flavors.iter().collect::<Vec<_>>(), [Secinfo4::Flavor(1)]);
    let told = compound_as(&server, client(7, 7), 0, &[ArgOp4::Putrootfh, lookup("main"), ArgOp4::Getfh]);
    assert_eq!(told.status, NfsStat4::Ok);
    // A filehandle that may be current for operations that only name it cannot be used afterwards.
    let (root, size) = (handle_at(&server, &[]), getattr(&[Attr4::Size]));
    for reached in [&[putfh(root)][..], &[ArgOp4::Putrootfh, lookup("main")]] {
        assert_eq!(ask(&[reached, &[ArgOp4::Savefh, size]].concat()).status, NfsStat4::WrongSec);
    }
    let secinfo = ArgOp4::Secinfo(SecinfoArgs { name: Component4(b"file") });
    let inside = [putfh(root), secinfo, size];
    file(&server, "file");
    assert_eq!(ask(&inside).status, NfsStat4::WrongSec);
}

/// The paths that events of mounts name.
#[derive(Clone, Default)]
struct Mounts(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Mounts {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.is_mount {
            self.0.lock().unwrap().push(fields.path);
        }
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Fields {
    is_mount: bool,
    path: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "event" => self.is_mount = format!("{value:?}") == "\"mount\"",
            "path" => self.path = format!("{value:?}"),
            _ => {}
        }
    }
}

#[test]
fn entering_an_export_from_above_is_a_mount_unless_it_is_refused() {
    let mounts = |server: &Server, client, operations: &[ArgOp4<'_>]| {
        let mounts = Mounts::default();
        let call = || compound_as(server, client, 0, operations).status;
        let status = tracing::subscriber::with_default(mounts.clone(), call);
        let paths = mounts.0.lock().unwrap().clone();
        (status, paths)
    };
    let size = getattr(&[Attr4::Size]);
    let server = Server::with_second_at("/main/other");
    let down = [ArgOp4::Putrootfh, lookup("main"), lookup("other"), size];
    let both = vec!["/main".to_owned(), "/main/other".to_owned()];
    assert_eq!(mounts(&server, root(), &down), (NfsStat4::Ok, both));
    let server = Server::with(vec![Export { auth_sys_required: true, ..open_export() }]);
    let nobody = Client { credential: wire::rpc::Credential::None, ..root() };
    let down = [ArgOp4::Putrootfh, lookup("main"), size];
    assert_eq!(mounts(&server, nobody, &down), (NfsStat4::WrongSec, Vec::new()));
}
