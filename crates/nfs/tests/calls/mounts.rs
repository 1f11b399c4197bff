//! MOUNT: handles of paths, and the list of mounts.

use nfs::exports::{Export, Squash};
use volume::ids::VolumeId;
use wire::mount3::{DirPath, Exports, MntRes, MountList, MountStat3, Procedure};
use wire::nfs3::FileType3;
use wire::rpc::{AUTH_NONE, AUTH_SYS};

use crate::support::{Server, open_export, root};

fn mnt(server: &Server, path: &str) -> MntRes<'static> {
    server.mount(root(), Procedure::Mnt, &DirPath(path.as_bytes()))
}

fn dump(server: &Server) -> Vec<(String, String)> {
    let list: MountList<'_> = server.mount(root(), Procedure::Dump, &());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    list.iter().map(|mount| (text(mount.hostname.0), text(mount.directory.0))).collect()
}

#[test]
fn mnt_returns_the_flavors_of_the_export() {
    let mut server = Server::new();
    let mounted = mnt(&server, "/main").unwrap();
    assert_eq!(mounted.auth_flavors.as_slice(), [AUTH_SYS, AUTH_NONE]);
    assert_eq!(server.getattr(mounted.fhandle).file_type, FileType3::Dir);
    assert_eq!(mnt(&server, "/main/").unwrap().fhandle, mounted.fhandle);
    server.export(vec![Export { auth_sys_required: true, ..open_export() }]);
    assert_eq!(mnt(&server, "/main").unwrap().auth_flavors.as_slice(), [AUTH_SYS]);
}

#[test]
fn directories_beneath_an_export_can_be_mounted() {
    let server = Server::new();
    let a = server.mkdir(root(), server.root(), "a", 0o700);
    let b = server.mkdir(root(), a, "b", 0o700);
    server.create(root(), a, "file", 0o644);
    assert_eq!(mnt(&server, "/main/a/b").unwrap().fhandle, b);
    assert_eq!(mnt(&server, "/main//a/./b/").unwrap().fhandle, b);
    assert_eq!(mnt(&server, "/main/a/c"), Err(MountStat3::NoEnt));
    assert_eq!(mnt(&server, "/main/a/file"), Err(MountStat3::NotDir));
    assert_eq!(mnt(&server, "/main/a/.."), Err(MountStat3::Inval));
    assert_eq!(mnt(&server, &format!("/main/{}", "n".repeat(256))), Err(MountStat3::NameTooLong));
    for nowhere in ["", "/", "main", "/other", "/mainx"] {
        assert_eq!(mnt(&server, nowhere), Err(MountStat3::NoEnt), "{nowhere}");
    }
}

/// MNT is no way around the modes of the directories above, which LOOKUP respects.
#[test]
fn a_squashed_superuser_mounts_what_it_could_look_up() {
    let mut server = Server::new();
    let private = server.mkdir(root(), server.root(), "private", 0o700);
    server.mkdir(root(), private, "shown", 0o755);
    server.mkdir(root(), server.root(), "secret", 0o700);
    mnt(&server, "/main/private/shown").unwrap();
    for squash in [Squash::Root, Squash::All] {
        server.export(vec![Export { squash, ..open_export() }]);
        assert_eq!(mnt(&server, "/main/private/shown"), Err(MountStat3::Acces));
        mnt(&server, "/main/secret").unwrap();
        // Of several exports the first counts, as for handles.
        let second = Export { path: "/again".to_owned(), ..open_export() };
        server.export(vec![Export { squash, auth_sys_required: true, ..open_export() }, second]);
        assert_eq!(mnt(&server, "/again/private/shown"), Err(MountStat3::Acces));
        assert_eq!(mnt(&server, "/again").unwrap().auth_flavors.as_slice(), [AUTH_SYS]);
    }
}

#[test]
fn dump_lists_mounts_until_umnt() {
    let server = Server::new();
    server.mkdir(root(), server.root(), "a", 0o755);
    mnt(&server, "/main/a").unwrap();
    let client = "192.0.2.1".to_owned();
    assert_eq!(dump(&server), [(client.clone(), "/main".into()), (client.clone(), "/main/a".into())]);
    let () = server.mount(root(), Procedure::Umnt, &DirPath(b"/main"));
    assert_eq!(dump(&server), [(client, "/main/a".into())]);
    let () = server.mount(root(), Procedure::Umntall, &());
    assert_eq!(dump(&server), []);
}

#[test]
fn export_lists_networks() {
    let mut server = Server::new();
    let clients = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    server.export(vec![open_export(), Export { clients, ..Export::new("/again", VolumeId(1)) }]);
    let list: Exports<'_> = server.mount(root(), Procedure::Export, &());
    let list: Vec<(&[u8], Vec<&[u8]>)> =
        list.iter().map(|node| (node.dir.0, node.groups.iter().map(|name| name.0).collect())).collect();
    let networks: Vec<&[u8]> = vec![b"10.0.0.0/8", b"2001:db8::/32"];
    assert_eq!(list, [(&b"/main"[..], vec![]), (&b"/again"[..], networks)]);
}
