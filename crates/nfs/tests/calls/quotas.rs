//! RQUOTA: what users of clients see of their quotas.

use nfs::exports::{Export, Squash};
use volume::ids::VolumeId;
use volume::quota::{Limit, Limits, Owner, QuotaKind};
use wire::nfs3::*;
use wire::rpc::{AcceptStat, AuthSys, Credential, Groups, ReplyBody};
use wire::rquota::{
    GetQuotaArgs1, GetQuotaArgs2, KIND_GROUP, KIND_USER, NewQuota, PROGRAM, Path, Procedure, Quota, QuotaRes,
    SetQuotaArgs1, SetQuotaArgs2,
};
use wire::xdr::{Encode, decode_all};

use crate::support::{Call, Client, Server, client, encoded, open_export, root};

const KIB: u64 = 1024;

/// Calls a procedure of RQUOTA.
fn call(server: &Server, who: Client, version: u32, procedure: Procedure, args: &impl Encode) -> QuotaRes {
    let args = encoded(args);
    let call =
        Call { xid: server.next_xid(), program: PROGRAM, version, procedure: procedure.code(), args: &args };
    let (body, results) = server.rpc(who, call);
    assert_eq!(
        body,
        ReplyBody::Accepted { verifier: wire::rpc::OpaqueAuth::NONE, stat: AcceptStat::Success }
    );
    decode_all(&results).unwrap()
}

fn get(server: &Server, who: Client, path: &str, kind: u32, id: u32) -> QuotaRes {
    let args = GetQuotaArgs2 { path: Path(path.as_bytes()), kind, id };
    call(server, who, 2, Procedure::GetQuota, &args)
}

fn user(server: &Server, who: Client, path: &str, id: u32) -> QuotaRes {
    get(server, who, path, KIND_USER, id)
}

fn limit(server: &Server, kind: QuotaKind, id: u64, soft: u64, hard: u64) {
    let limits = Limits {
        bytes: Limit { soft: Some(soft), hard: Some(hard) },
        inodes: Limit { soft: None, hard: Some(9) },
    };
    server.volume.set_quota(Owner::new(kind, id), Some(limits), server.time()).unwrap();
    server.commit();
}

/// A server on which user 7 of group 8 has a file of 3 KiB, of 2 that he should use and 10 that he may.
fn limited() -> Server {
    let server = Server::new();
    limit(&server, QuotaKind::User, 7, 2 * KIB, 10 * KIB);
    limit(&server, QuotaKind::Group, 8, 20 * KIB, 30 * KIB);
    let file = server.create(root(), server.root(), "file", 0o644);
    let new = Sattr3 { uid: Some(7), gid: Some(8), ..Sattr3::default() };
    let args = SetattrArgs { object: file, new_attributes: new, guard: None };
    let set: SetattrRes = server.call(root(), wire::nfs3::Procedure::Setattr, &args);
    set.unwrap();
    server.write(file, 0, &[1; 3 * 1024]).unwrap();
    server
}

/// The quota of that user.
fn expected() -> Quota {
    Quota {
        block_bytes: 1024,
        is_active: true,
        block_hard_limit: 10,
        block_soft_limit: 2,
        blocks: 3,
        file_hard_limit: 9,
        file_soft_limit: 0,
        files: 1,
        block_time_left: 7 * 24 * 60 * 60,
        file_time_left: 0,
    }
}

/// A user with these groups.
fn in_groups(uid: u32, gid: u32, groups: &'static [u32]) -> Client {
    let groups = Groups::new(groups).unwrap();
    let credential = Credential::Sys(AuthSys { stamp: 1, machine_name: b"client", uid, gid, groups });
    Client { credential, ..root() }
}

#[test]
fn users_see_their_quotas_in_both_versions() {
    let server = limited();
    let path = Path(b"/main");
    for procedure in [Procedure::GetQuota, Procedure::GetActiveQuota] {
        let shown = call(&server, client(7, 8), 1, procedure, &GetQuotaArgs1 { path, uid: 7 });
        assert_eq!(shown, QuotaRes::Quota(expected()));
        let args = GetQuotaArgs2 { path, kind: KIND_USER, id: 7 };
        assert_eq!(call(&server, client(7, 8), 2, procedure, &args), shown);
    }
    server.pass(60);
    let QuotaRes::Quota(later) = user(&server, client(7, 8), "/main", 7) else { panic!("no quota") };
    assert!(later.block_time_left <= expected().block_time_left - 60, "{later:?}");
    server.pass(8 * 24 * 60 * 60);
    let QuotaRes::Quota(late) = user(&server, client(7, 8), "/main", 7) else { panic!("no quota") };
    assert!(late.block_time_left < 0, "{late:?}");
}

#[test]
fn callers_see_themselves_and_their_groups() {
    let server = limited();
    let group = |who, id| get(&server, who, "/main", KIND_GROUP, id);
    let QuotaRes::Quota(shown) = group(client(7, 8), 8) else { panic!("no quota") };
    assert_eq!((shown.block_soft_limit, shown.block_hard_limit, shown.blocks, shown.files), (20, 30, 3, 1));
    assert_eq!(group(in_groups(1, 2, &[3, 8]), 8), QuotaRes::Quota(shown));
    assert_eq!(group(in_groups(1, 2, &[3, 4]), 8), QuotaRes::Perm);
    assert_eq!(group(client(8, 1), 8), QuotaRes::Perm, "that is the user's number");
    assert_eq!(user(&server, client(8, 7), "/main", 7), QuotaRes::Perm);
    assert_eq!(user(&server, root(), "/main", 7), QuotaRes::Quota(expected()));
    assert_eq!(group(root(), 8), QuotaRes::Quota(shown));
    let anonymous = Client { credential: Credential::None, ..root() };
    assert_eq!(user(&server, anonymous, "/main", 7), QuotaRes::Perm);
}

#[test]
fn squashed_callers_see_whom_they_are_taken_for() {
    let mut server = limited();
    server.export(vec![Export { squash: Squash::Root, ..open_export() }]);
    assert_eq!(user(&server, root(), "/main", 7), QuotaRes::Perm);
    assert_eq!(user(&server, root(), "/main", 0), QuotaRes::Perm);
    assert_eq!(user(&server, client(7, 8), "/main", 7), QuotaRes::Quota(expected()));
    server.export(vec![Export { squash: Squash::All, anonymous_uid: 7, anonymous_gid: 8, ..open_export() }]);
    assert_eq!(user(&server, client(1, 1), "/main", 7), QuotaRes::Quota(expected()));
    assert_eq!(user(&server, client(1, 1), "/main", 1), QuotaRes::Perm);
    server.export(vec![Export { auth_sys_required: true, ..open_export() }]);
    let anonymous = Client { credential: Credential::None, ..root() };
    assert_eq!(user(&server, anonymous, "/main", 65534), QuotaRes::Perm);
}

#[test]
fn paths_lead_to_volumes_as_clients_mount_them() {
    let server = limited();
    let shown = QuotaRes::Quota(expected());
    // That without a slash is how the quota tools ask for a mount of NFSv4.
    for path in ["/main", "/main/", "/main/a/b", "main", "main/a"] {
        assert_eq!(user(&server, client(7, 8), path, 7), shown, "{path}");
    }
    for path in ["", "/", "/other", "/mainx", "m"] {
        assert_eq!(user(&server, root(), path, 7), QuotaRes::NoQuota, "{path}");
    }
    assert_eq!(get(&server, root(), "/main", 2, 7), QuotaRes::NoQuota, "projects");
}

#[test]
fn the_rules_of_the_volume_apply_whatever_the_path() {
    let mut server = limited();
    let elsewhere = Export { clients: vec!["198.51.100.0/24".parse().unwrap()], ..open_export() };
    server.export(vec![elsewhere.clone()]);
    assert_eq!(user(&server, root(), "/main", 7), QuotaRes::Perm, "no export admits the client");
    let squashed = Export { squash: Squash::Root, ..open_export() };
    let second = Export { path: "/again".to_owned(), ..open_export() };
    server.export(vec![elsewhere, squashed, second]);
    assert_eq!(user(&server, root(), "/again", 7), QuotaRes::Perm, "as for handles, the first export counts");
    let privileged = Export { privileged_port_required: true, ..open_export() };
    server.export(vec![privileged]);
    let unprivileged = Client { peer: "192.0.2.1:4000".parse().unwrap(), ..client(7, 8) };
    assert_eq!(user(&server, unprivileged, "/main", 7), QuotaRes::Perm);
    assert_eq!(user(&server, client(7, 8), "/main", 7), QuotaRes::Quota(expected()));
}

#[test]
fn volumes_are_told_apart() {
    let server = Server::of_two();
    limit(&server, QuotaKind::User, 7, 1, 5 * KIB);
    assert_eq!(server.volume.id(), VolumeId(1));
    let hard = |path| match user(&server, root(), path, 7) {
        QuotaRes::Quota(quota) => (quota.is_active, quota.block_hard_limit),
        other => panic!("{other:?}"),
    };
    assert_eq!((hard("/main"), hard("/other")), ((true, 5), (false, 0)));
}

#[test]
fn whoever_has_no_limits_sees_what_he_uses() {
    let server = Server::new();
    let file = server.create(root(), server.root(), "file", 0o644);
    server.write(file, 0, &[1; 5000]).unwrap();
    let QuotaRes::Quota(shown) = user(&server, root(), "/main", 0) else { panic!("no quota") };
    assert_eq!((shown.is_active, shown.block_hard_limit, shown.blocks, shown.files), (false, 0, 5, 2));
    let args = GetQuotaArgs2 { path: Path(b"/main"), kind: KIND_USER, id: 0 };
    assert_eq!(call(&server, root(), 2, Procedure::GetActiveQuota, &args), QuotaRes::NoQuota);
}

#[test]
fn nobody_sets_quotas() {
    let server = limited();
    let new = NewQuota {
        block_hard_limit: 0,
        block_soft_limit: 0,
        blocks: 0,
        file_hard_limit: 0,
        file_soft_limit: 0,
        files: 0,
        block_time_left: 0,
        file_time_left: 0,
    };
    let path = Path(b"/main");
    for procedure in [Procedure::SetQuota, Procedure::SetActiveQuota] {
        let args = SetQuotaArgs1 { command: 0x400, path, id: 7, new };
        assert_eq!(call(&server, root(), 1, procedure, &args), QuotaRes::Perm);
        let args = SetQuotaArgs2 { command: 0x400, path, id: 7, kind: KIND_USER, new };
        assert_eq!(call(&server, root(), 2, procedure, &args), QuotaRes::Perm);
    }
    assert_eq!(user(&server, root(), "/main", 7), QuotaRes::Quota(expected()));
}
