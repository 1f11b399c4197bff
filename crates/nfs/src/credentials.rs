//! Credentials for the engine: the caller's AUTH_SYS credential, squashed as the export says.

use std::cell::OnceCell;

use volume::request::Credentials;
use wire::rpc::{AuthSys, Credential};

use crate::exports::{Export, Squash};

/// Squashes a credential. Every flavor but AUTH_SYS means the export's anonymous user.
pub(crate) fn credentials(credential: &Credential<'_>, export: &Export) -> Credentials {
    match (credential, export.squash) {
        (Credential::Sys(sys), Squash::None) => {
            Credentials { uid: sys.uid, gid: sys.gid, groups: sys.groups.as_slice().to_vec() }
        }
        (Credential::Sys(sys), Squash::Root) => without_root(sys, export),
        _ => anonymous(export),
    }
}

/// The caller's credentials for each export whose objects a call uses: nearly always one. They are a list, since objects refer to
/// those that are there when others come.
#[derive(Debug, Default)]
pub(crate) struct SharedCredentials(OnceCell<OfExport>);

#[derive(Debug)]
struct OfExport {
    export: *const Export,
    credentials: Credentials,
    /// Those for other exports.
    others: OnceCell<Box<OfExport>>,
}

impl OfExport {
    fn new(credential: &Credential<'_>, export: &Export) -> OfExport {
        OfExport { export, credentials: credentials(credential, export), others: OnceCell::new() }
    }

    /// Returns those for an export that is not this one.
    #[cold]
    fn beyond(&self, credential: &Credential<'_>, export: &Export) -> &Credentials {
        let next = self.others.get_or_init(|| Box::new(OfExport::new(credential, export)));
        if std::ptr::eq(next.export, export) { &next.credentials } else { next.beyond(credential, export) }
    }
}

impl SharedCredentials {
    /// Squashes the credential of the call, once for each export.
    #[inline]
    pub(crate) fn of(&self, credential: &Credential<'_>, export: &Export) -> &Credentials {
        let first = self.0.get_or_init(|| OfExport::new(credential, export));
        if std::ptr::eq(first.export, export) { &first.credentials } else { first.beyond(credential, export) }
    }
}

/// Returns what the export makes of the superuser.
pub(crate) fn of_superuser(export: &Export) -> Credentials {
    if export.squash == Squash::None { Credentials::root() } else { anonymous(export) }
}

/// Returns the export's anonymous user.
fn anonymous(export: &Export) -> Credentials {
    Credentials { uid: export.anonymous_uid, gid: export.anonymous_gid, groups: Vec::new() }
}

/// Replaces the superuser, and the superuser's group, which owns much of a system.
fn without_root(sys: &AuthSys<'_>, export: &Export) -> Credentials {
    let user = |uid| if uid == 0 { export.anonymous_uid } else { uid };
    let group = |gid| if gid == 0 { export.anonymous_gid } else { gid };
    Credentials {
        uid: user(sys.uid),
        gid: group(sys.gid),
        groups: sys.groups.as_slice().iter().map(|gid| group(*gid)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use volume::ids::VolumeId;
    use wire::rpc::{Groups, OpaqueAuth};

    use super::*;

    fn sys(uid: u32, gid: u32, groups: &[u32]) -> Credential<'static> {
        let groups = Groups::new(groups).unwrap();
        Credential::Sys(AuthSys { stamp: 1, machine_name: b"client", uid, gid, groups })
    }

    fn seen(credential: &Credential<'_>, squash: Squash) -> (u32, u32, Vec<u32>) {
        let export =
            Export { squash, anonymous_uid: 1001, anonymous_gid: 1002, ..Export::new("/main", VolumeId(1)) };
        let seen = credentials(credential, &export);
        (seen.uid, seen.gid, seen.groups)
    }

    #[test]
    fn squashing_replaces_the_named_users() {
        let root = sys(0, 0, &[0, 5]);
        let user = sys(7, 8, &[9, 0]);
        assert_eq!(seen(&root, Squash::None), (0, 0, vec![0, 5]));
        assert_eq!(seen(&root, Squash::Root), (1001, 1002, vec![1002, 5]));
        assert_eq!(seen(&root, Squash::All), (1001, 1002, vec![]));
        assert_eq!(seen(&user, Squash::None), (7, 8, vec![9, 0]));
        assert_eq!(seen(&user, Squash::Root), (7, 8, vec![9, 1002]));
        assert_eq!(seen(&user, Squash::All), (1001, 1002, vec![]));
    }

    #[test]
    fn each_export_squashes_the_credential_of_a_call() {
        let strict = Export { squash: Squash::Root, anonymous_uid: 9, ..Export::new("/main", VolumeId(1)) };
        let open = Export { squash: Squash::None, ..Export::new("/main", VolumeId(1)) };
        let all = Export { squash: Squash::All, ..Export::new("/main", VolumeId(1)) };
        let (root, shared) = (sys(0, 0, &[]), SharedCredentials::default());
        let first = shared.of(&root, &strict);
        for _ in 0..2 {
            assert_eq!(shared.of(&root, &open).uid, 0);
            assert_eq!(shared.of(&root, &all).uid, 65534);
            assert!(std::ptr::eq(shared.of(&root, &strict), first), "squashed once");
        }
        assert_eq!(first.uid, 9);
    }

    #[test]
    fn callers_without_auth_sys_are_anonymous() {
        for credential in [Credential::None, Credential::Other(OpaqueAuth::NONE)] {
            for squash in [Squash::None, Squash::Root, Squash::All] {
                assert_eq!(seen(&credential, squash), (1001, 1002, vec![]));
            }
        }
    }
}
