//! GETATTR, SETATTR, ACCESS, FSSTAT, FSINFO and PATHCONF.

use volume::limits::TRANSFER_BYTES_MAX;
use wire::nfs3::*;

use crate::support::{Server, assert_unchanged, client, place, root};

fn setattr(
    server: &Server,
    object: FileHandle3<'_>,
    new_attributes: Sattr3,
    guard: SattrGuard3,
) -> SetattrRes {
    server.call(root(), Procedure::Setattr, &SetattrArgs { object, new_attributes, guard })
}

#[test]
fn the_root_is_a_directory() {
    let server = Server::new();
    let attributes = server.getattr(server.root());
    assert_eq!(attributes.file_type, FileType3::Dir);
    assert_eq!((attributes.mode, attributes.nlink, attributes.uid, attributes.gid), (0o755, 2, 0, 0));
    assert_eq!((attributes.fsid, attributes.fileid), (1, 1));
    assert_eq!(attributes.mtime, NfsTime3 { seconds: 1_700_000_000, nanoseconds: 0 });
}

#[test]
fn setattr_sets_attributes() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let old = server.getattr(file);
    let time = NfsTime3 { seconds: 5, nanoseconds: 999_999_999 };
    let set = Sattr3 {
        mode: Some(0o4711),
        uid: Some(7),
        gid: Some(8),
        size: Some(100),
        atime: SetTime::SetToClientTime(time),
        mtime: SetTime::SetToServerTime,
    };
    let wcc = setattr(&server, file, set, None).unwrap().obj_wcc;
    assert_eq!(wcc.before, Some(WccAttr::from(old)));
    let after = wcc.after.unwrap();
    assert_eq!((after.mode, after.uid, after.gid, after.size, after.atime), (0o4711, 7, 8, 100, time));
    assert!(after.ctime != old.ctime && after.mtime != old.mtime);
    assert_eq!(server.getattr(file), after);
}

#[test]
fn setattr_guards_fail_after_a_change() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let ctime = server.getattr(file).ctime;
    let set = Sattr3 { mode: Some(0o600), ..Sattr3::default() };
    setattr(&server, file, set, Some(ctime)).unwrap();
    let refused = setattr(&server, file, set, Some(ctime)).unwrap_err();
    assert_eq!(refused.status, NfsStat3::NotSync);
    assert_eq!(assert_unchanged(refused.body), server.getattr(file));
}

/// No right is needed to set nothing, so nothing may change.
#[test]
fn setattr_of_nothing_changes_nothing() {
    let server = Server::new();
    let how = CreateHow3::Exclusive(*b"verifier");
    let create = CreateArgs { place: place(server.root(), "file"), how };
    let made: CreateRes<'_> = server.call(root(), Procedure::Create, &create);
    let file = made.unwrap().obj.unwrap();
    let old = server.getattr(file);
    let nothing = SetattrArgs { object: file, new_attributes: Sattr3::default(), guard: None };
    let set: SetattrRes = server.call(client(7, 7), Procedure::Setattr, &nothing);
    assert_eq!(assert_unchanged(set.unwrap().obj_wcc), old);
    let wrong = Some(NfsTime3 { seconds: 1, nanoseconds: 0 });
    assert_eq!(setattr(&server, file, Sattr3::default(), wrong).unwrap_err().status, NfsStat3::NotSync);
    let again: CreateRes<'_> = server.call(root(), Procedure::Create, &create);
    assert!(again.is_ok(), "the verifier is still that of its creation");
}

#[test]
fn invalid_times_are_refused() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    let bad = NfsTime3 { seconds: 5, nanoseconds: 1_000_000_000 };
    let set = Sattr3 { mtime: SetTime::SetToClientTime(bad), ..Sattr3::default() };
    let refused = setattr(&server, file, set, None).unwrap_err();
    assert_eq!(refused.status, NfsStat3::Inval);
    assert_unchanged(refused.body);
    assert_eq!(setattr(&server, file, Sattr3::default(), Some(bad)).unwrap_err().status, NfsStat3::Inval);
}

#[test]
fn access_follows_the_mode() {
    let server = Server::new();
    let file = server.create(client(7, 7), server.mkdir(root(), server.root(), "all", 0o777), "file", 0o640);
    let access = |who, access| {
        let granted: AccessRes = server.call(who, Procedure::Access, &AccessArgs { object: file, access });
        let granted = granted.unwrap();
        assert_eq!(granted.obj_attributes.unwrap().mode, 0o640);
        granted.access
    };
    let write = access::MODIFY | access::EXTEND;
    assert_eq!(access(client(7, 7), u32::MAX) & (access::READ | write), access::READ | write);
    assert_eq!(access(client(8, 7), access::ALL), access::READ);
    assert_eq!(access(client(8, 7), write), 0);
    assert_eq!(access(client(8, 8), access::ALL), 0);
}

#[test]
fn fsstat_fsinfo_and_pathconf_match_the_volume() {
    let server = Server::new();
    let fsroot = server.root();
    let info: FsinfoRes = server.call(root(), Procedure::Fsinfo, &FsinfoArgs { fsroot });
    let info = info.unwrap();
    assert_eq!((info.rtmax, info.wtmax), (TRANSFER_BYTES_MAX, TRANSFER_BYTES_MAX));
    assert_eq!(info.maxfilesize, i64::MAX as u64);
    assert_eq!(info.time_delta, NfsTime3 { seconds: 0, nanoseconds: 1 });
    assert_eq!(info.properties, 0x1b);
    assert_eq!(info.obj_attributes, Some(server.getattr(fsroot)));
    let conf: PathconfRes = server.call(root(), Procedure::Pathconf, &PathconfArgs { object: fsroot });
    let conf = conf.unwrap();
    assert_eq!((conf.name_max, conf.no_trunc, conf.chown_restricted), (255, true, true));
    assert!(!conf.case_insensitive && conf.case_preserving);
    assert_eq!(conf.linkmax, i32::MAX as u32, "of a directory, whose subdirectories are links");
    let stat = || {
        let stat: FsstatRes = server.call(root(), Procedure::Fsstat, &FsstatArgs { fsroot });
        stat.unwrap()
    };
    let before = stat();
    assert!(before.tbytes >= before.fbytes && before.fbytes >= before.abytes && before.abytes > 0);
    let file = server.create(root(), fsroot, "file", 0o644);
    server.write(file, 0, &[1; 500_000]).unwrap();
    let after = stat();
    let used = |stat: &FsstatOk| (stat.tbytes - stat.fbytes, stat.tfiles - stat.ffiles);
    assert_eq!(used(&after), (used(&before).0 + 500_000, used(&before).1 + 1));
}
