//! A server on a Ceph cluster of its own: it is killed, its pool is copied, its segments are in an erasure-coded pool, it is stopped
//! while another takes its pools over, an OSD hangs, the pool fills, the cluster is full.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::Options;
use super::lab::Lab;
use crate::ceph::Ceph;
use crate::nfs::OK;
use crate::process::random_bytes;

pub(super) use node::Caller;
use node::Node;

mod coded;
mod copies;
mod full;
mod node;

/// Files written before each fault.
const FILES: usize = 60;

/// The size of the largest of them in bytes: some are in the journal, some in segments.
const FILE_BYTES_MAX: usize = 200_000;

/// How long an OSD is stopped.
const HUNG: Duration = Duration::from_secs(4);

/// Within which a process that lost the namespace must be gone, once it runs again.
const GONE: Duration = Duration::from_secs(5);

/// Time limit of a takeover: the lease that is watched, and opening.
const TAKEOVER: Duration = Duration::from_secs(20);

/// Runs the scenario. Returns a note with the times of the restart and the takeover.
pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let ceph = Ceph::start(&lab.folder, lab.binary(), "127.0.0.1")?;
    let mut model = Model::new(options.seed);
    let mut node = Node::start(&ceph, "a")?;
    model.write(&mut node.caller()?, FILES)?;
    let restart = node.kill_and_restart()?;
    model.verify(&mut node.caller()?)?;
    node.stop()?;
    ceph.check("a", DATA)?;
    copies::copy(&ceph, &model)?;
    let segments = coded::serve(&ceph)?;

    let takeover = take_over(&ceph, &mut model)?;
    let mut node = Node::start(&ceph, "b")?;
    hang(&ceph, &node, &mut model)?;
    full::fill(&ceph, &node, &mut model)?;
    model.verify(&mut node.caller()?)?;
    full::overfill(&ceph, &mut node, &mut model)?;
    model.verify(&mut node.caller()?)?;
    node.stop()?;
    ceph.check("a", DATA)?;
    drop(ceph);
    // On a directory, and checked when it has stopped.
    lab.start()?;
    Ok(format!(
        "{} files, first reply {} ms after kill -9, {} ms after a takeover began; {segments} objects in an erasure-coded pool",
        model.files.len(),
        restart.as_millis(),
        takeover.as_millis()
    ))
}

/// Where the pools are.
const DATA: &str = "rados:holdfast@nfs/e2e";

/// What was acknowledged.
struct Model {
    random: Rng,
    files: BTreeMap<String, Vec<u8>>,
    made: usize,
}

impl Model {
    fn new(seed: u64) -> Model {
        Model { random: Rng::with_seed(seed), files: BTreeMap::new(), made: 0 }
    }

    /// Writes files, each acknowledged as durable.
    fn write(&mut self, caller: &mut Caller, count: usize) -> Result<(), String> {
        for _ in 0..count {
            self.made += 1;
            let name = format!("file-{}", self.made);
            let length = self.random.usize(1..FILE_BYTES_MAX);
            let content = random_bytes(&mut self.random, length);
            match caller.put(&name, &content)? {
                OK => drop(self.files.insert(name, content)),
                status => return Err(format!("writing {name}: status {status}")),
            }
        }
        Ok(())
    }

    fn content(&self, name: &str) -> Result<&Vec<u8>, String> {
        self.files.get(name).ok_or_else(|| format!("{name} was not written"))
    }

    fn verify(&self, caller: &mut Caller) -> Result<(), String> {
        for (name, content) in &self.files {
            if caller.get(name)? != *content {
                return Err(format!("{name} has other contents than were acknowledged"));
            }
        }
        Ok(())
    }
}

/// A second machine takes over from one that is stopped, which then runs again. Returns the time to the first reply.
fn take_over(ceph: &Ceph, model: &mut Model) -> Result<Duration, String> {
    let mut old = Node::start(ceph, "a")?;
    model.write(&mut old.caller()?, FILES / 4)?;
    let refused = ceph.holdfast("b").args(["serve", DATA, "--listen", "127.0.0.1:0"]).output();
    let refused = refused.map_err(|error| format!("holdfast: {error}"))?;
    let why = String::from_utf8_lossy(&refused.stderr);
    if refused.status.success() || !why.contains("is in use by the machine") {
        return Err(format!("a second server started beside the first, or said: {why}"));
    }
    old.signal("STOP");
    let start = Instant::now();
    let new = Node::start(ceph, "b")?;
    let takeover = start.elapsed();
    if takeover > TAKEOVER {
        return Err(format!("the takeover took {} ms", takeover.as_millis()));
    }
    model.verify(&mut new.caller()?)?;
    old.signal("CONT");
    let gone = old.await_death(GONE)?;
    model.write(&mut new.caller()?, FILES / 4)?;
    model.verify(&mut new.caller()?)?;
    if !gone.contains("signal: 9") {
        return Err(format!("the server that lost its pools ended with {gone}"));
    }
    new.stop()?;
    ceph.check("a", DATA)?;
    Ok(takeover)
}

/// An OSD is stopped and continued: calls wait, and none fails.
fn hang(ceph: &Ceph, node: &Node, model: &mut Model) -> Result<(), String> {
    ceph.signal("osd.1", "STOP")?;
    let mut caller = node.caller()?;
    let continued = thread::scope(|scope| {
        let continued = scope.spawn(|| {
            thread::sleep(HUNG);
            ceph.signal("osd.1", "CONT")
        });
        let start = Instant::now();
        let written = model.write(&mut caller, FILES / 4);
        let waited = start.elapsed();
        continued.join().map_err(|_| "the thread that continues the OSD panicked".to_owned())??;
        written?;
        if waited < HUNG / 2 {
            Err(format!("nothing waited for the OSD: {} ms", waited.as_millis()))
        } else {
            Ok(())
        }
    });
    continued?;
    model.verify(&mut node.caller()?)
}
