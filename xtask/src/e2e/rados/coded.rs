//! Pools whose segments are in an erasure-coded pool, set up as `docs/rados.md` says.

use super::{FILES, Model, Node};
use crate::ceph::Ceph;

/// Where such pools are, and how their segments are listed.
const DATA: &str = "rados:holdfast@nfs+nfs-ec/coded";
const SEGMENTS: &[&str] = &["--pool", "nfs-ec", "--namespace", "coded", "ls"];

/// Writes files, kills the server and reads them again. Returns how many objects the erasure-coded pool holds.
pub(super) fn serve(ceph: &Ceph) -> Result<usize, String> {
    create_pool(ceph)?;
    let mut model = Model::new(1);
    let mut node = Node::start_at(ceph, "coded", DATA)?;
    model.write(&mut node.caller()?, FILES)?;
    node.kill_and_restart()?;
    model.verify(&mut node.caller()?)?;
    model.write(&mut node.caller()?, FILES)?;
    model.verify(&mut node.caller()?)?;
    node.stop()?;
    ceph.check("coded", DATA)?;
    match ceph.administer("rados", SEGMENTS)?.lines().count() {
        0 => Err("no segment is in the erasure-coded pool".to_owned()),
        segments => Ok(segments),
    }
}

fn create_pool(ceph: &Ceph) -> Result<(), String> {
    // The first two commands are needed only here: the data is in memory, and the three OSDs are on one host.
    let commands: [&[&str]; 6] = [
        &["config", "set", "mon", "mon_debug_no_require_bluestore_for_ec_overwrites", "true"],
        &[
            "osd",
            "erasure-code-profile",
            "set",
            "default",
            "k=2",
            "m=1",
            "crush-failure-domain=osd",
            "--force",
        ],
        &["osd", "pool", "create", "nfs-ec", "erasure"],
        &["osd", "pool", "set", "nfs-ec", "allow_ec_overwrites", "true"],
        &["osd", "pool", "application", "enable", "nfs-ec", "holdfast"],
        &[
            "auth",
            "caps",
            "client.holdfast",
            "mon",
            "profile rbd",
            "osd",
            "allow rwx pool=nfs, allow rwx pool=nfs-ec",
        ],
    ];
    commands.into_iter().try_for_each(|words| ceph.administer("ceph", words).map(drop))
}
