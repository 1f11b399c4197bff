//! Pools whose segments are in an erasure-coded pool, set up as `docs/rados.md` says.

use super::{FILES, Model, Node};
use crate::ceph::Ceph;
use crate::process;

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
    process::output(ceph.holdfast("coded").args(["check", DATA]))?;
    match ceph.administer("rados", SEGMENTS)?.lines().count() {
        0 => Err("no segment is in the erasure-coded pool".to_owned()),
        segments => Ok(segments),
    }
}

fn create_pool(ceph: &Ceph) -> Result<(), String> {
    // The first two commands are needed only here: the data is in memory, and the three OSDs are on one host.
    ceph.administer(
        "ceph",
        &["config", "set", "mon", "mon_debug_no_require_bluestore_for_ec_overwrites", "true"],
    )?;
    let profile = ["osd", "erasure-code-profile", "set", "default"];
    ceph.administer(
        "ceph",
        &[&profile[..], &["k=2", "m=1", "crush-failure-domain=osd", "--force"]].concat(),
    )?;
    ceph.administer("ceph", &["osd", "pool", "create", "nfs-ec", "erasure"])?;
    ceph.administer("ceph", &["osd", "pool", "set", "nfs-ec", "allow_ec_overwrites", "true"])?;
    ceph.administer("ceph", &["osd", "pool", "application", "enable", "nfs-ec", "holdfast"])?;
    let rights = ["mon", "profile rbd", "osd", "allow rwx pool=nfs, allow rwx pool=nfs-ec"];
    ceph.administer("ceph", &[&["auth", "caps", "client.holdfast"][..], &rights].concat())?;
    Ok(())
}
