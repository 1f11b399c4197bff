//! Nodes without a shared disk serve groups whose pools are in a Ceph cluster (docs/rados.md). Network namespaces stand for the machines,
//! a bridge for the network. Nodes die, stop, are cut off, drained and added, servers die, agents die or stop alone, groups are moved,
//! under guests that tell what was acknowledged to them, and beside a client that checks what it wrote.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::Options;
use super::hosts::{OWN, Switch};
use super::lab::{ADDRESS, Lab, PORT};
use super::pair::stalls::{self, Kind};
use super::pair::{BETWEEN, Blow, mark, pause, start_guests};
use crate::ceph::Ceph;
use crate::process;

use machines::Machines;
use writer::Writer;

mod machines;
mod writer;

/// The address of the group `work`, which has no guests.
const WORK: &str = "10.77.0.60";

/// Bytes of the journal of each group.
const JOURNAL: &str = "32MiB";

/// How long a node is stopped, or cut off, seconds: for less than a lease lasts, and for longer than an address does.
const PAUSES: (f64, f64) = (0.5, 20.0);
/// The longest pause in a sample, seconds.
const SAMPLED_PAUSE_MAX: f64 = 8.0;

/// How long the cluster may take until all groups are served again.
const SETTLED: Duration = Duration::from_secs(30);

/// How long an agent may take to store the list of connections: the next node has only those that are in it noticed at once, and this
/// writer, unlike the kernel's clients, sends nothing while it waits.
const RECORDED: Duration = Duration::from_millis(1500);

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Something to the node that serves the guests.
    Blow(Blow),
    /// The agent of that node is killed, which ends its servers.
    AgentDies,
    /// That agent alone is stopped, until others serve its groups.
    AgentStops,
    /// That node is drained.
    Drain,
    /// The last node is added, and given a group.
    Add,
}

impl Kind for Event {
    fn name(&self) -> &'static str {
        match self {
            Event::Blow(blow) => blow.name(),
            Event::AgentDies => "agent killed",
            Event::AgentStops => "agent stopped",
            Event::Drain => "drained",
            Event::Add => "node added",
        }
    }

    fn pause(&self) -> f64 {
        match self {
            Event::Blow(blow) => blow.pause(),
            Event::AgentDies | Event::AgentStops | Event::Drain | Event::Add => 0.0,
        }
    }
}

/// Returns what happens in each round: each kind once, in any order, and then anything.
fn events(options: &Options) -> Vec<Event> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let (least, most) = PAUSES;
    let bounds = (least, if options.sample { SAMPLED_PAUSE_MAX } else { most });
    let pause = |random: &mut fastrand::Rng| pause(random, bounds);
    let (stopped, cut) = (pause(&mut random), pause(&mut random));
    let mut events = vec![
        Event::Blow(Blow::Dies),
        Event::Blow(Blow::ServerDies),
        Event::Blow(Blow::Stops(stopped.max(Duration::from_secs(4)))),
        Event::Blow(Blow::IsCut(cut)),
        Event::Blow(Blow::Moves),
        Event::AgentStops,
        Event::Drain,
        Event::Add,
    ];
    random.shuffle(&mut events);
    let rounds = if options.sample { 0 } else { options.rounds };
    while events.len() < rounds {
        events.push(match random.u8(..10) {
            0..3 => Event::Blow(Blow::Dies),
            3 => Event::Blow(Blow::ServerDies),
            4 => Event::Blow(Blow::Stops(pause(&mut random))),
            5 => Event::Blow(Blow::IsCut(pause(&mut random))),
            6 => Event::Blow(Blow::Moves),
            7 => Event::AgentDies,
            8 => Event::AgentStops,
            _ => Event::Drain,
        });
    }
    events
}

pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let switch = Switch::make(lab)?;
    let own = OWN.split('/').next().unwrap_or(OWN);
    let ceph = Ceph::start(&lab.folder, lab.binary(), own)?;
    let mut machines = Machines::make(lab, &ceph)?;
    set_up(lab, &ceph, &mut machines)?;
    let versions: &[&str] = if options.sample { &["3", "4.1"] } else { &["3", "4.0", "4.1", "4.2"] };
    let guests = start_guests(lab, versions, |_| vec![ADDRESS.to_owned()])?;
    let writer = Writer::start(&format!("{WORK}:{PORT}"), options.seed)?;
    thread::sleep(RECORDED);
    let first = set_settings(&ceph, &machines)?;

    let events = events(options);
    for (round, event) in (1..).zip(&events) {
        mark(lab, round)?;
        let begun = Instant::now();
        strike(&mut machines, *event).map_err(|why| format!("round {round}, {}: {why}", event.name()))?;
        println!("     round {round}, {}: served after {:.2} s", event.name(), begun.elapsed().as_secs_f64());
        thread::sleep(BETWEEN);
        mark(lab, 0)?;
        machines.heal()?;
        thread::sleep(BETWEEN);
    }
    lab.create_file("stop")?;
    let mut failed = Vec::new();
    for ((number, mut guest), version) in guests.into_iter().zip(versions) {
        if let Err(why) = lab.finish_guest(number, &mut guest) {
            failed.push(format!("NFSv{version}: {why}"));
        }
    }
    let stalls = stalls::judge(lab, versions, &events);
    let written = writer.finish();
    if !failed.is_empty() {
        return Err(format!("{}; {}", failed.join("; "), stalls.unwrap_or_else(|why| why)));
    }
    let (stalls, written) = (stalls?, written?);
    find_settings(&ceph, &machines, first)?;
    machines.stop()?;
    for group in ["home", "work", "other"] {
        ceph.check("a", &place(group))?;
    }
    drop(machines);
    drop(ceph);
    drop(switch);
    // On a directory, and checked when it has stopped.
    lab.start()?;
    Ok(format!("{stalls}; {written}"))
}

fn place(group: &str) -> String {
    format!("rados:holdfast@nfs/{group}")
}

/// Creates a token and sets a rate limit where a group is served. Returns which node that is.
fn set_settings(ceph: &Ceph, machines: &Machines<'_>) -> Result<usize, String> {
    let (node, home) = (machines.owner("home")?, place("home"));
    let on_it = |words: &[&str]| process::output(ceph.holdfast(machines.name(node)).args(words)).map(drop);
    on_it(&["token", "create", &home, "kept"])?;
    on_it(&["qos", "set", &home, "--client", "192.0.2.7", "--total-ops", "1000"])?;
    Ok(node)
}

/// Finds them where another node than the first one serves the group.
fn find_settings(ceph: &Ceph, machines: &Machines<'_>, first: usize) -> Result<(), String> {
    if machines.owner("home")? == first {
        let to = machines.name(if first == 1 { 2 } else { 1 });
        machines.cluster(&["move", "home", to, "--json"])?;
    }
    let (node, home) = (machines.owner("home")?, place("home"));
    let on_it = |words: &[&str]| process::output(ceph.holdfast(machines.name(node)).args(words));
    let (tokens, limits) = (on_it(&["token", "list", &home])?, on_it(&["qos", "list", &home])?);
    if tokens.starts_with("kept") && limits.contains("192.0.2.7") {
        Ok(())
    } else {
        Err(format!("another node has other settings: {tokens}{limits}"))
    }
}

/// Makes the pools and the cluster of the first three nodes by the steps of the document, with small journals, the addresses and
/// ports of the scenario, and a third group.
fn set_up(lab: &Lab, ceph: &Ceph, machines: &mut Machines<'_>) -> Result<(), String> {
    for group in ["work", "other"] {
        let words =
            ["pool", "create", &place(group), "default", "--volume", "main", "--journal-size", JOURNAL];
        process::output(ceph.holdfast("a").args(words))?;
    }
    let served = format!("ports = [{PORT}, 111]\nconfig = \"{}\"", lab.write_configuration()?.display());
    let other = format!(
        "\n[[group]]\nname = \"other\"\naddresses = [\"10.77.0.61/24\"]\nnodes = [\"a\", \"b\"]\n{served}\n"
    );
    let groups = ceph.step("file cluster.toml");
    let groups = groups.replace("10.0.0.50", ADDRESS).replace("10.0.0.51", WORK);
    let groups = groups.replace("nodes = [\"a\", \"b\"]", "nodes = []");
    let groups = groups.replace("config = \"/etc/holdfast/home.toml\"", &served);
    let groups = groups.replace("#ports = [2049, 111]", &served);
    let path = lab.folder.join("cluster.toml");
    fs::write(&path, groups + &other).map_err(process::at(&path))?;
    let steps = ceph.step("cluster").replace("cluster.toml", &path.display().to_string());
    let steps = steps.replace("--volume home", &format!("--volume main --journal-size {JOURNAL}"));
    machines.type_in(&steps.replace("nfs/home home", "nfs/home main"))?;
    for node in 0..3 {
        machines.boot(node)?;
    }
    machines.settle(SETTLED).map(drop)
}

/// Does it to the node that serves the guests, and waits until all groups are served again.
fn strike(machines: &mut Machines<'_>, event: Event) -> Result<(), String> {
    let node = machines.owner("home")?;
    match event {
        Event::Blow(Blow::Dies) => machines.lose(node)?,
        Event::Blow(Blow::ServerDies) => machines.kill_server("home")?,
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
            machines.cluster(&["move", "home", to])?;
        }
        Event::AgentDies => {
            machines.signal_agent(node, "KILL")?;
            machines.await_another("home", node, SETTLED)?;
            machines.boot_again(node)?;
        }
        Event::AgentStops => {
            machines.signal_agent(node, "STOP")?;
            let served = machines.await_another("home", node, SETTLED);
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
    }
    machines.settle(SETTLED).map(drop)
}
