//! The pool is copied to a directory, to another namespace and to a directory again: files, handles and quotas are the same everywhere.

use std::thread;
use std::time::Duration;

use super::node::Node;
use super::{DATA, Model};
use crate::ceph::Ceph;
use crate::process;

/// Where it is copied to.
const OTHER: &str = "rados:holdfast@nfs/copy";

/// When a copy is killed, after its start.
const KILLED: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(700), Duration::from_millis(1200)];

/// Copies the pool at [`DATA`], which nobody serves.
pub(super) fn copy(ceph: &Ceph, model: &Model) -> Result<(), String> {
    let limits = ["--user", "1001", "--bytes", "1GiB:2GiB", "--inodes", "7"];
    process::output(ceph.holdfast("a").args(["quota", "set", DATA, "main"]).args(limits))?;
    let expected = quotas(ceph, DATA)?;
    let node = Node::start(ceph, "a")?;
    let handles = handles(&node, model)?;
    node.stop()?;
    let [first, second] = ["copied-1", "copied-2"].map(|name| ceph.beside(name));
    let [first, second] = [&first, &second].map(|path| path.to_str().ok_or("the folder has an odd name"));
    let (first, second) = (first?, second?);
    for (from, to) in [(DATA, first), (first, OTHER), (OTHER, second)] {
        if to == OTHER {
            kill_some(ceph, from, to)?;
        }
        let said = process::output(ceph.holdfast("a").args(["pool", "copy", from, "default", to]))?;
        if !said.contains("read again and compared") {
            return Err(format!("copying {from} to {to} said: {said}"));
        }
        ceph.check("a", to)?;
        if quotas(ceph, to)? != expected {
            return Err(format!("{to} has other quotas than {from}"));
        }
        let node = Node::start_at(ceph, "a", to)?;
        let mut caller = node.caller()?;
        model.verify(&mut caller)?;
        for (name, handle) in &handles {
            if caller.read(handle)? != *model.content(name)? {
                return Err(format!("the handle of {name} does not lead to it at {to}"));
            }
        }
        drop(caller);
        node.stop()?;
    }
    let again = ceph.holdfast("a").args(["pool", "copy", DATA, "default", OTHER]).output();
    let again = again.map_err(|error| format!("holdfast: {error}"))?;
    let why = String::from_utf8_lossy(&again.stderr);
    if again.status.success() || !why.contains("already") {
        return Err(format!("a pool was copied over another one, or it said: {why}"));
    }
    delete(ceph, OTHER)
}

fn delete(ceph: &Ceph, data: &str) -> Result<(), String> {
    let words = ["pool", "delete", data, "default", "--with-volumes", "--yes"];
    process::output(ceph.holdfast("a").args(words)).map(drop)
}

/// Kills copies under way: none becomes a pool.
fn kill_some(ceph: &Ceph, from: &str, to: &str) -> Result<(), String> {
    for after in KILLED {
        let mut child = process::start(ceph.holdfast("a").args(["pool", "copy", from, "default", to]))?;
        thread::sleep(after);
        process::stop(&mut child);
        let listed = ceph.holdfast("a").args(["pool", "list", to]).output();
        let listed = listed.map_err(|error| format!("holdfast: {error}"))?;
        if !listed.stdout.is_empty() {
            // It was faster.
            delete(ceph, to)?;
        }
    }
    Ok(())
}

/// Returns what the command says of the quotas of the volume.
fn quotas(ceph: &Ceph, data: &str) -> Result<String, String> {
    process::output(ceph.holdfast("a").args(["quota", "report", data, "main", "--json"]))
}

/// Returns the handles of all files.
fn handles(node: &Node<'_>, model: &Model) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut caller = node.caller()?;
    model.files.keys().map(|name| Ok((name.clone(), caller.find(name)?))).collect()
}
