//! Programs of unprivileged users, and other hosts, that want to free the locks of a host's lock manager.

use super::super::nfs3::{self, LockOwner, NLM_DENIED, nlm};
use super::super::rpc::{Caller, Link};
use super::super::{Scene, places};

/// The lock that is attacked.
const VICTIM: LockOwner<'_> = LockOwner { host: b"victim", process: 99 };

pub(super) fn unlock(scene: &Scene) -> Result<String, String> {
    let mut link = Link::open(Caller::host(places::client(9)))?;
    let file = nfs3::create(&mut link, &scene.folder, b"victim-nlm")?;
    let status = nfs3::lock_call(&mut link, nlm::LOCK, VICTIM, &file, 0, false)?;
    if status != 0 {
        return Err(format!("cannot begin: LOCK of NLM: status {status}"));
    }
    let attackers = [
        Caller::unprivileged(places::client(9), 0),
        Caller::unprivileged(places::client(9), 1000),
        Caller::host(places::neighbour(241)),
    ];
    let mut judge = Link::open(Caller::host(places::client(10)))?;
    for by in attackers {
        let mut link = Link::open(by)?;
        let attempts: [(&str, &dyn Fn(&mut Link)); 3] = [
            ("UNLOCK", &|link| _ = nfs3::lock_call(link, nlm::UNLOCK, VICTIM, &file, 0, false)),
            ("FREE_ALL", &|link| _ = nfs3::free_all(link, VICTIM.host)),
            ("SM_NOTIFY", &|link| _ = nfs3::sm_notify(link, VICTIM.host, 3)),
        ];
        for (what, attempt) in attempts {
            // What it answers does not matter, only whether the lock is there.
            attempt(&mut link);
            let other = LockOwner { host: b"judge", process: 1 };
            match nfs3::lock_call(&mut judge, nlm::TEST, other, &file, 0, false)? {
                NLM_DENIED => {}
                _ => return Err(format!("{what} by {by:?} freed the lock")),
            }
        }
    }
    match nfs3::lock_call(&mut link, nlm::UNLOCK, VICTIM, &file, 0, false)? {
        0 => Ok("the lock stays until its owner releases it".to_owned()),
        status => Err(format!("the owner cannot release its lock: status {status}")),
    }
}
