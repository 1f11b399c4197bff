//! Two machines mirror a disk with DRBD (`e2e/scenarios/drbd.sh`). The one that serves is killed; the other one takes over, with all
//! that a client was acknowledged.

use std::thread;
use std::time::{Duration, Instant};

use super::{BETWEEN, Blow, mark, stalls};
use crate::e2e::Options;
use crate::e2e::hosts::{BRIDGE, Switch};
use crate::e2e::lab::{ADDRESS, Lab};

/// The guests: the client, and the two machines.
const CLIENT: u8 = 1;
const MACHINES: [u8; 2] = [2, 3];

/// Time limit for the machines to begin, and to take over.
const PATIENCE: Duration = Duration::from_secs(90);

pub(in crate::e2e) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    let switch = Switch::make(lab)?;
    let outcome = take_over(lab)?;
    drop(switch);
    // What the lab closes is an empty data directory: the group's was on the machines.
    lab.start()?;
    Ok(outcome)
}

fn take_over(lab: &Lab) -> Result<String, String> {
    let program = lab.binary();
    let program = program.to_string_lossy();
    let start = |number| lab.start_guest_at(BRIDGE, number, "drbd.sh", "448M", &[&program]);
    let [mut first, mut second] = [start(MACHINES[0])?, start(MACHINES[1])?];
    lab.await_file("served-first", PATIENCE)?;
    let mut client = lab.start_guest_at(BRIDGE, CLIENT, "pair.sh", "192M", &["3", "1", ADDRESS])?;
    lab.await_file(&format!("ready-{CLIENT}"), PATIENCE)?;
    mark(lab, 1)?;
    thread::sleep(BETWEEN);
    Lab::kill_guest(MACHINES[0], &mut first);
    let begun = Instant::now();
    lab.create_file("fenced")?;
    lab.await_file("taken-over", PATIENCE)?;
    let took = begun.elapsed();
    thread::sleep(BETWEEN);
    mark(lab, 0)?;
    thread::sleep(BETWEEN);
    lab.create_file("stop")?;
    lab.finish_guest(CLIENT, &mut client)?;
    lab.create_file("served")?;
    lab.finish_guest(MACHINES[1], &mut second)?;
    let stalls = stalls::judge(lab, &["3"], &[Blow::Dies])?;
    Ok(format!("{stalls}; of that, mounting and starting {:.2} s", took.as_secs_f64()))
}
