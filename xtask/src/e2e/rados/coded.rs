//! Pools whose segments are in an erasure-coded pool, set up by the steps of `docs/rados.md`.

use super::{FILES, Model, Node};
use crate::ceph::Ceph;

/// Where such pools are, and how their segments are listed.
const DATA: &str = "rados:holdfast@nfs+nfs-ec/coded";
const SEGMENTS: &[&str] = &["--pool", "nfs-ec", "--namespace", "coded", "ls"];

/// What is needed only here: the data is in memory, and the three OSDs are on one host.
const LAB: &str = "ceph config set mon mon_debug_no_require_bluestore_for_ec_overwrites true
    ceph osd erasure-code-profile set default k=2 m=1 crush-failure-domain=osd --force";

/// Writes files, kills the server and reads them again. Returns how many objects the erasure-coded pool holds.
pub(super) fn serve(ceph: &Ceph) -> Result<usize, String> {
    ceph.type_in("administrator", LAB)?;
    ceph.type_in("administrator", ceph.step("coded"))?;
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
