//! Nodes without a shared disk serve groups whose pools are in a Ceph cluster (docs/rados.md). Network namespaces stand for the machines,
//! a bridge for the network. Nodes die, stop, are cut off, drained, added and removed, servers die, agents die or stop alone, groups are
//! moved, under guests that tell what was acknowledged to them, and beside a client that checks what it wrote. With `--minutes`, a guest
//! builds software too.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use super::hosts::{BRIDGE, OWN, Switch};
use super::lab::{ADDRESS, Lab, PORT};
use super::pair::stalls::{self, Kind as _};
use super::pair::{BETWEEN, Blow, mark, start_guests};
use super::{Options, scenarios};
use crate::ceph::Ceph;
use crate::process;

use events::{Event, Events, GROUPS};
use machines::Machines;
use writer::Writer;

mod events;
mod machines;
mod writer;

/// The addresses of the other groups.
const WORK: &str = "10.77.0.60";
const OTHER: &str = "10.77.0.61";
const BUILDS: &str = "10.77.0.62";

/// Bytes of the journal of each group.
const JOURNAL: &str = "32MiB";

/// How long the cluster may take until all groups are served again.
const SETTLED: Duration = Duration::from_secs(30);

/// Bytes of each OSD: what guests build for an hour takes more than what they write in some rounds.
const OSD_BYTES: u64 = 1 << 30;
const OSD_BYTES_OF_BUILDS: u64 = 3 << 30;

pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let switch = Switch::make(lab)?;
    let own = OWN.split('/').next().unwrap_or(OWN);
    let builds = options.minutes.is_some();
    let bytes = if builds { OSD_BYTES_OF_BUILDS } else { OSD_BYTES };
    let ceph = Ceph::start_with(&lab.folder, lab.binary(), own, bytes)?;
    let mut machines = Machines::make(lab, &ceph)?;
    set_up(lab, &ceph, &mut machines)?;
    let versions: &[&str] = if options.sample { &["3", "4.1"] } else { &["3", "4.0", "4.1", "4.2"] };
    let mut guests = start_guests(lab, versions, |_| vec![ADDRESS.to_owned()])?;
    if builds {
        guests.push(start_builder(lab, guests.len())?);
    }
    let writer = Writer::start(&format!("{WORK}:{PORT}"), options.seed)?;
    let first = set_settings(&ceph, &machines)?;

    let happened = strike_repeatedly(lab, &mut machines, options, &mut guests)?;
    lab.create_file("stop")?;
    let mut failed = Vec::new();
    for (number, mut guest) in guests {
        if let Err(why) = lab.finish_guest(number, &mut guest) {
            failed.push(why);
        }
    }
    let stalls = stalls::judge(lab, versions, &happened);
    let written = writer.finish();
    if !failed.is_empty() {
        return Err(format!("{}; {}", failed.join("; "), stalls.unwrap_or_else(|why| why)));
    }
    let mut done = vec![stalls?, written?];
    if builds {
        let path = lab.out().join("builds");
        let count = fs::read_to_string(&path).map_err(process::at(&path))?;
        done.push(format!("{} builds", count.trim()));
    }
    find_settings(&ceph, &machines, first)?;
    machines.stop_all()?;
    for group in GROUPS {
        ceph.check("a", &place(group))?;
    }
    drop(machines);
    drop(ceph);
    drop(switch);
    // On a directory, and checked when it has stopped.
    lab.start()?;
    Ok(done.join("; "))
}

/// Starts a guest that builds software, beside `others` other guests.
fn start_builder(lab: &Lab, others: usize) -> Result<(u8, Child), String> {
    let number = u8::try_from(others + 1).map_err(|_| "there are too many guests".to_owned())?;
    let tarball = scenarios::linux_tarball()?.display().to_string();
    let (_, parts) = scenarios::SAMPLE_OF_TOOLS;
    let arguments = [&[&*tarball, BUILDS], parts].concat();
    let guest = lab.start_guest_at(BRIDGE, number, "builds.sh", "768M", &arguments)?;
    lab.await_file("building", Duration::from_secs(120))?;
    Ok((number, guest))
}

/// Has things happen to the nodes, as long as all guests work. Returns what happened.
fn strike_repeatedly(
    lab: &Lab,
    machines: &mut Machines<'_>,
    options: &Options,
    guests: &mut [(u8, Child)],
) -> Result<Vec<Event>, String> {
    let mut happened = Vec::new();
    for (round, (event, group, until)) in (1..).zip(Events::new(options)) {
        happened.push(event);
        mark(lab, round)?;
        let begun = Instant::now();
        let what = format!("round {round}, {} ({group})", event.name());
        strike(machines, event, group).map_err(|why| format!("{what}: {why}"))?;
        println!("     {what}: served after {:.2} s", begun.elapsed().as_secs_f64());
        thread::sleep(BETWEEN);
        mark(lab, 0)?;
        machines.heal()?;
        thread::sleep(until);
        Lab::check_guests(guests).map_err(|why| format!("{what}: {why}"))?;
    }
    Ok(happened)
}

fn place(group: &str) -> String {
    format!("rados:holdfast@nfs/{group}")
}

/// Creates a token and sets a rate limit where a group is served. Returns which node that is.
fn set_settings(ceph: &Ceph, machines: &Machines<'_>) -> Result<usize, String> {
    let (node, home) = (machines.owner("home", SETTLED)?, place("home"));
    let on_it = |words: &[&str]| process::output(ceph.holdfast(machines.name(node)).args(words)).map(drop);
    on_it(&["token", "create", &home, "kept"])?;
    on_it(&["qos", "set", &home, "--client", "192.0.2.7", "--total-ops", "1000"])?;
    Ok(node)
}

/// Finds them where another node than the first one serves the group.
fn find_settings(ceph: &Ceph, machines: &Machines<'_>, first: usize) -> Result<(), String> {
    if machines.owner("home", SETTLED)? == first {
        let to = machines.name(if first == 1 { 2 } else { 1 });
        machines.cluster(&["move", "home", to, "--json"])?;
    }
    let (node, home) = (machines.owner("home", SETTLED)?, place("home"));
    let on_it = |words: &[&str]| process::output(ceph.holdfast(machines.name(node)).args(words));
    let (tokens, limits) = (on_it(&["token", "list", &home])?, on_it(&["qos", "list", &home])?);
    if tokens.starts_with("kept") && limits.contains("192.0.2.7") {
        Ok(())
    } else {
        Err(format!("another node has other settings: {tokens}{limits}"))
    }
}

/// Makes the pools and the cluster of the first three nodes by the steps of the document, with small journals, the addresses and
/// ports of the scenario, and two more groups.
fn set_up(lab: &Lab, ceph: &Ceph, machines: &mut Machines<'_>) -> Result<(), String> {
    for group in &GROUPS[1..] {
        let words =
            ["pool", "create", &place(group), "default", "--volume", "main", "--journal-size", JOURNAL];
        process::output(ceph.holdfast("a").args(words))?;
    }
    let served = format!("ports = [{PORT}, 111]\nconfig = \"{}\"", lab.write_configuration()?.display());
    let more = |name: &str, address: &str, nodes: &str| {
        format!(
            "\n[[group]]\nname = \"{name}\"\naddresses = [\"{address}/24\"]\nnodes = [{nodes}]\n{served}\n"
        )
    };
    let others = more("other", OTHER, "\"a\", \"b\"") + &more("builds", BUILDS, "");
    let groups = ceph.step("file cluster.toml");
    let groups = groups.replace("10.0.0.50", ADDRESS).replace("10.0.0.51", WORK);
    let groups = groups.replace("nodes = [\"a\", \"b\"]", "nodes = []");
    let groups = groups.replace("config = \"/etc/holdfast/home.toml\"", &served);
    let groups = groups.replace("#ports = [2049, 111]", &served);
    let path = lab.folder.join("cluster.toml");
    fs::write(&path, groups + &others).map_err(process::at(&path))?;
    let steps = ceph.step("cluster").replace("cluster.toml", &path.display().to_string());
    let steps = steps.replace("--volume home", &format!("--volume main --journal-size {JOURNAL}"));
    machines.type_in(&steps.replace("nfs/home home", "nfs/home main"))?;
    for node in 0..3 {
        machines.boot(node)?;
    }
    machines.settle(SETTLED).map(drop)
}

/// Does it to the node that serves a group, and waits until all groups are served again.
fn strike(machines: &mut Machines<'_>, event: Event, group: &str) -> Result<(), String> {
    let node = machines.owner(group, SETTLED)?;
    match event {
        Event::Blow(Blow::Dies) => machines.lose(node)?,
        Event::Blow(Blow::ServerDies) => machines.kill_server(group)?,
        Event::Blow(Blow::Stops(length)) => {
            machines.signal_all(node, "STOP")?;
            thread::sleep(length);
            machines.signal_all(node, "CONT")?;
        }
        Event::Blow(Blow::IsCut(length)) => {
            machines.cable(node, "down")?;
            thread::sleep(length);
            machines.cable(node, "up")?;
        }
        Event::Blow(Blow::Moves) => {
            let to = machines.name(if node == 1 { 2 } else { 1 });
            machines.cluster(&["move", group, to])?;
        }
        Event::AgentDies => {
            machines.signal_agent(node, "KILL")?;
            machines.await_another(group, node, SETTLED)?;
            machines.boot_again(node)?;
        }
        Event::AgentStops => {
            machines.signal_agent(node, "STOP")?;
            let served = machines.await_another(group, node, SETTLED);
            machines.signal_agent(node, "CONT")?;
            served?;
        }
        Event::Drain => {
            let name = machines.name(node);
            machines.cluster(&["drain", name])?;
            if machines.serves_anything(name)? {
                return Err(format!("{name} is drained, and serves a group"));
            }
            machines.cluster(&["undrain", name])?;
        }
        Event::Add => {
            machines.boot(3)?;
            machines.cluster(&["add", "d"])?;
            machines.cluster(&["move", "work", "d"])?;
        }
        Event::Remove => {
            machines.cluster(&["drain", "d"])?;
            machines.cluster(&["remove", "d"])?;
            machines.stop(3)?;
        }
    }
    machines.settle(SETTLED).map(drop)
}
