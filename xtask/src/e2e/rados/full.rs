//! A cluster without room: the pool fills by what clients write, and the cluster itself is full.

use std::thread;
use std::time::{Duration, Instant};

use super::node::{Caller, MISSING, Node};
use super::{FILES, Model};
use crate::ceph::Ceph;
use crate::nfs::{NOSPC, OK, Procedure};
use crate::process::random_bytes;

/// Bytes of a file that is to fill the pool.
const FILLER: usize = 1 << 20;

/// Within which the cluster says that it is full, or has room again, and the server follows.
const NOTICED: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(500);

/// Sets the parts of the OSDs' space from which on the cluster is nearly full, and full.
fn set_ratios(ceph: &Ceph, [near, backfill, full]: [&str; 3]) -> Result<(), String> {
    for (which, ratio) in [("nearfull", near), ("backfillfull", backfill), ("full", full)] {
        ceph.administer("ceph", &["osd", &format!("set-{which}-ratio"), ratio])?;
    }
    Ok(())
}

/// Gives the cluster its room back.
fn make_room(ceph: &Ceph) -> Result<(), String> {
    set_ratios(ceph, ["0.95", "0.96", "0.97"])
}

/// The pool becomes full: writing is refused, removing works, and afterwards writing works again.
pub(super) fn fill(ceph: &Ceph, node: &Node<'_>, model: &mut Model) -> Result<(), String> {
    set_ratios(ceph, ["0.001", "0.002", "0.003"])?;
    let mut caller = node.caller()?;
    let content = random_bytes(&mut model.random, FILLER);
    let mut refused = false;
    for number in 0..1000 {
        let name = format!("filler-{number}");
        match caller.put(&name, &content)? {
            OK => drop(model.files.insert(name, content.clone())),
            NOSPC => {
                refused = true;
                caller.remove_if_there(&name)?;
                break;
            }
            status => return Err(format!("writing to a full pool: status {status}")),
        }
    }
    if !refused {
        return Err("the full pool refused nothing".to_owned());
    }
    remove_some(&mut caller, model)?;
    make_room(ceph)?;
    await_room(&mut caller, model, "after")
}

/// The cluster itself is full, as if another of its users had filled it. Files can be read and removed, and writes fail. A server
/// that is killed then cannot start until there is room.
pub(super) fn overfill(ceph: &Ceph, node: &mut Node<'_>, model: &mut Model) -> Result<(), String> {
    set_ratios(ceph, ["0.000001", "0.000002", "0.000003"])?;
    let begun = Instant::now();
    while !ceph.administer("ceph", &["health", "detail"])?.contains("OSD_FULL") {
        if begun.elapsed() > NOTICED {
            return Err("the cluster does not say that it is full".to_owned());
        }
        thread::sleep(POLL);
    }
    let mut caller = node.caller()?;
    model.verify(&mut caller)?;
    let content = random_bytes(&mut model.random, FILLER);
    let begun = Instant::now();
    while caller.put("refused", &content)? == OK {
        if begun.elapsed() > NOTICED {
            return Err("a full cluster refuses nothing".to_owned());
        }
        caller.remove("refused")?;
        thread::sleep(POLL);
    }
    caller.remove_if_there("refused")?;
    remove_some(&mut caller, model)?;
    let said = node.kill_and_restart_after(|| make_room(ceph))?;
    if !said.contains("no room") {
        return Err(format!("a server that is started while the cluster is full says: {said}"));
    }
    let mut caller = node.caller()?;
    model.verify(&mut caller)?;
    await_room(&mut caller, model, "at last")
}

fn remove_some(caller: &mut Caller, model: &mut Model) -> Result<(), String> {
    let victims: Vec<String> = model.files.keys().take(FILES / 4).cloned().collect();
    for name in victims {
        caller.remove(&name)?;
        model.files.remove(&name);
    }
    model.verify(caller)
}

/// Writes a file as soon as there is room.
fn await_room(caller: &mut Caller, model: &mut Model, name: &str) -> Result<(), String> {
    let content = random_bytes(&mut model.random, FILLER);
    let begun = Instant::now();
    while begun.elapsed() < NOTICED {
        match caller.put(name, &content)? {
            OK => {
                model.files.insert(name.to_owned(), content);
                return Ok(());
            }
            NOSPC => thread::sleep(POLL),
            status => return Err(format!("writing after the pool was full: status {status}")),
        }
    }
    Err("nothing can be written although there is room again".to_owned())
}

impl Caller {
    fn remove(&mut self, name: &str) -> Result<(), String> {
        let root = self.root.clone();
        self.connection.drop_name(Procedure::Remove, &root, name)
    }

    /// Removes a file whose CREATE or WRITE failed, if it exists.
    fn remove_if_there(&mut self, name: &str) -> Result<(), String> {
        let root = self.root.clone();
        let removed = self.connection.ask(Procedure::Remove, &[OK, MISSING], |arguments| {
            arguments.opaque(&root).opaque(name.as_bytes());
        });
        removed.map(drop)
    }
}
