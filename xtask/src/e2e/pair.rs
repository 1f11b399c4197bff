//! Two machines share a data directory and a floating address (docs/cluster.md). Network namespaces stand for the machines, a bridge
//! for the network, killing all processes of a namespace for the fence. The machine that serves dies, its server dies, all of it is
//! stopped or without a link for a while, or the group is moved, under guests that tell what was acknowledged to them.

use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use super::Options;
use super::hosts::{BRIDGE, Host, Switch};
use super::lab::{ADDRESS, Lab, PORT, Peer};
use crate::process;

mod drbd;
mod ganesha;
pub(super) mod guests;
pub(super) mod pacemaker;
mod resource_agent;
pub(super) mod stalls;
mod traps;
mod typed;

use stalls::Kind as _;

pub(super) use drbd::run as run_drbd;
pub(super) use traps::run as run_traps;

/// The names of the machines, and their own addresses.
const NODES: [(&str, &str); 2] = [("a", "10.77.0.3/24"), ("b", "10.77.0.4/24")];

/// The group's other address, and the versions whose guests use it.
const ADDRESS6: &str = "fd77::1";
const OVER_IPV6: [&str; 2] = ["4.0", "4.1"];

/// How long a cluster manager takes to find out that a machine is gone.
const DETECTION: Duration = Duration::from_millis(2400);

/// Time for guests to work between two rounds, and for all of them to have noticed the one before.
pub(super) const BETWEEN: Duration = Duration::from_secs(2);

/// How long a machine is stopped, or without a link, and not taken for dead, seconds: for less than its addresses last, and for
/// much more.
const PAUSES: (f64, f64) = (0.5, 70.0);
/// The longest pause in a sample, seconds.
const SAMPLED_PAUSE_MAX: f64 = 5.0;

/// What happens to the machine that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    /// It loses its link, is found dead, and fenced.
    Dies,
    /// Its server is killed.
    ServerDies,
    /// Everything on it is stopped for so long.
    Stops(Duration),
    /// It has no link for so long.
    IsCut(Duration),
    /// The group is moved to the other machine.
    Moves,
}

impl stalls::Kind for Blow {
    fn name(&self) -> &'static str {
        match self {
            Blow::Dies => "node lost",
            Blow::ServerDies => "server killed",
            Blow::Stops(_) => "node stopped",
            Blow::IsCut(_) => "link cut",
            Blow::Moves => "moved",
        }
    }

    fn pause(&self) -> f64 {
        match self {
            Blow::Stops(length) | Blow::IsCut(length) => length.as_secs_f64(),
            Blow::Dies | Blow::ServerDies | Blow::Moves => 0.0,
        }
    }
}

/// Draws how long something is stopped or cut off, between these bounds in seconds: short times as often as long ones.
pub(super) fn pause(random: &mut fastrand::Rng, (least, most): (f64, f64)) -> Duration {
    Duration::from_secs_f64(least * (most / least).powf(random.f64()))
}

/// Returns what happens in each round: in a sample, each kind of blow but one.
fn blows(options: &Options) -> Vec<Blow> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let (least, most) = PAUSES;
    let bounds = (least, if options.sample { SAMPLED_PAUSE_MAX } else { most });
    let pause = |random: &mut fastrand::Rng| pause(random, bounds);
    let random_blow = |random: &mut fastrand::Rng| match random.u8(..8) {
        0..3 => Blow::Dies,
        3 => Blow::ServerDies,
        4 => Blow::Stops(pause(random)),
        5 => Blow::IsCut(pause(random)),
        _ => Blow::Moves,
    };
    let is_cut = random.bool();
    let length = pause(&mut random);
    let paused = if is_cut { Blow::IsCut(length) } else { Blow::Stops(length) };
    let mut blows = vec![Blow::Dies, Blow::ServerDies, paused, Blow::Moves, Blow::Dies];
    if !options.sample {
        blows.extend((blows.len()..options.rounds).map(|_| random_blow(&mut random)));
    }
    blows
}

pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let mut pair = Pair::make(lab)?;
    let versions: &[&str] = if options.sample { &["3", "4.1"] } else { &["3", "4.0", "4.1", "4.2"] };
    let server = |version: &str| {
        if OVER_IPV6.contains(&version) { format!("[{ADDRESS6}]") } else { ADDRESS.to_owned() }
    };
    pair.serve(0)?;
    if lab.peer == Peer::Ganesha {
        thread::sleep(ganesha::GRACE);
    }
    let guests = start_guests(lab, versions, |version| vec![server(version)])?;
    let blows = blows(options);
    let between = if lab.peer == Peer::Ganesha { ganesha::GRACE } else { BETWEEN };
    for (round, blow) in (1..).zip(&blows) {
        mark(lab, round)?;
        pair.strike(*blow).map_err(|why| format!("round {round}, {}: {why}", blow.name()))?;
        thread::sleep(between);
        mark(lab, 0)?;
        pair.heal()?;
        thread::sleep(BETWEEN);
    }
    if lab.peer == Peer::Holdfast {
        pair.refuses_a_second_machine()?;
        pair.shows_metrics()?;
    }
    lab.create_file("stop")?;
    let mut failed = Vec::new();
    for ((number, mut guest), version) in guests.into_iter().zip(versions) {
        if let Err(why) = lab.finish_guest(number, &mut guest) {
            failed.push(format!("NFSv{version}: {why}"));
        }
    }
    let stalls = stalls::judge(lab, versions, &blows);
    if !failed.is_empty() {
        return Err(format!("{}; {}", failed.join("; "), stalls.unwrap_or_else(|why| why)));
    }
    let stalls = stalls?;
    if lab.peer == Peer::Ganesha {
        return Ok(stalls);
    }
    pair.serving().cluster(&["stop", "home"])?;
    pair.try_resource_agent()?;
    drop(pair);
    // Without a group, and checked when it has stopped.
    lab.start()?;
    Ok(stalls)
}

/// Starts a guest with `pair.sh` for each version of NFS, with the arguments that `more` adds to it and to their number, and waits until
/// all of them work.
pub(super) fn start_guests(
    lab: &Lab,
    versions: &[&str],
    more: impl Fn(&str) -> Vec<String>,
) -> Result<Vec<(u8, Child)>, String> {
    let count = versions.len().to_string();
    let mut guests = Vec::new();
    for (number, version) in (1..).zip(versions) {
        let more = more(version);
        let mut arguments = vec![*version, &count];
        arguments.extend(more.iter().map(String::as_str));
        guests.push((number, lab.start_guest_at(BRIDGE, number, "pair.sh", "192M", &arguments)?));
    }
    for (number, _) in &guests {
        lab.await_file(&format!("ready-{number}"), Duration::from_secs(120))?;
    }
    Ok(guests)
}

/// Tells the guests which round it is; 0 stands for the time between rounds.
pub(super) fn mark(lab: &Lab, round: usize) -> Result<(), String> {
    let path = lab.out().join("round");
    let fresh = lab.out().join("round.new");
    fs::write(&fresh, round.to_string()).map_err(process::at(&fresh))?;
    fs::rename(&fresh, &path).map_err(process::at(&path))
}

/// The two machines.
struct Pair<'l> {
    lab: &'l Lab,
    machines: [Host<'l>; 2],
    serving: usize,
    _switch: Switch<'l>,
}

impl<'l> Pair<'l> {
    /// Makes the machines with their agents, and the data directory.
    fn make(lab: &'l Lab) -> Result<Pair<'l>, String> {
        let switch = Switch::make(lab)?;
        let [a, b] = NODES;
        let machines = [Host::make(lab, a)?, Host::make(lab, b)?];
        let mut pair = Pair { lab, machines, serving: 0, _switch: switch };
        if lab.peer == Peer::Ganesha {
            return Ok(pair);
        }
        let data = lab.data();
        lab.holdfast(&["pool", "create"], &["default", "--volume", "main", "--journal-size", "64MiB"])?;
        let configuration = lab.write_configuration()?;
        for (number, (name, _)) in NODES.into_iter().enumerate() {
            let text = format!(
                "node = \"{name}\"\ninterface = \"eth0\"\nsocket = \"{}\"\n[[group]]\nname = \"home\"\n\
                 addresses = [\"{ADDRESS}/24\", \"{ADDRESS6}/64\"]\nports = [{PORT}, 111]\ndata = \"{}\"\nconfig = \"{}\"\n",
                lab.folder.join(format!("{name}.sock")).display(),
                data.display(),
                configuration.display(),
            );
            let path = pair.machines[number].configuration();
            fs::write(&path, text).map_err(process::at(&path))?;
            pair.boot(number)?;
        }
        Ok(pair)
    }

    /// Boots a machine.
    fn boot(&mut self, node: usize) -> Result<(), String> {
        match self.lab.peer {
            Peer::Holdfast => self.machines[node].boot(&["status"]),
            Peer::Ganesha => self.machines[node].cable("up"),
        }
    }

    /// Returns the machine that serves the group.
    fn serving(&self) -> &Host<'l> {
        &self.machines[self.serving]
    }

    /// Has a machine serve the group.
    fn serve(&mut self, node: usize) -> Result<(), String> {
        match self.lab.peer {
            Peer::Holdfast => self.machines[node].cluster(&["start", "home"]).map(drop)?,
            Peer::Ganesha => self.start_ganesha(node)?,
        }
        self.serving = node;
        Ok(())
    }

    fn strike(&mut self, blow: Blow) -> Result<(), String> {
        let (from, to) = (self.serving, 1 - self.serving);
        match blow {
            Blow::Dies => {
                self.machines[from].cable("down")?;
                thread::sleep(DETECTION);
                self.machines[from].lose()?;
                self.serve(to)?;
            }
            Blow::ServerDies if self.lab.peer == Peer::Ganesha => {
                self.kill_ganesha(from)?;
                self.start_ganesha(from)?;
            }
            Blow::ServerDies => drop(self.kill_server()?),
            Blow::Stops(length) => {
                self.machines[from].signal_all("STOP")?;
                thread::sleep(length);
                self.machines[from].signal_all("CONT")?;
            }
            Blow::IsCut(length) => {
                self.machines[from].cable("down")?;
                thread::sleep(length);
                self.machines[from].cable("up")?;
            }
            Blow::Moves => {
                match self.lab.peer {
                    Peer::Holdfast => self.machines[from].cluster(&["stop", "home"]).map(drop)?,
                    Peer::Ganesha => self.stop_ganesha(from)?,
                }
                self.serve(to)?;
            }
        }
        Ok(())
    }

    /// Returns the process that serves the group, if one does.
    fn server_id(&self) -> Result<Option<u64>, String> {
        let status: serde_json::Value = serde_json::from_str(&self.serving().cluster(&["status", "--json"])?)
            .map_err(|error| format!("the status is no JSON: {error}"))?;
        Ok(status.pointer("/groups/0/pid").and_then(serde_json::Value::as_u64))
    }

    /// Kills the server, and returns which process it was.
    fn kill_server(&self) -> Result<u64, String> {
        let server = self.server_id()?.ok_or("the status names no process")?;
        process::output(Command::new("kill").args(["-KILL", &server.to_string()]))?;
        Ok(server)
    }

    /// Boots a machine that was lost.
    fn heal(&mut self) -> Result<(), String> {
        for node in 0..NODES.len() {
            if self.machines[node].agent.is_none() {
                self.boot(node)?;
            }
        }
        Ok(())
    }

    /// Has the agent show what the alert rules ask for.
    fn shows_metrics(&self) -> Result<(), String> {
        let shown = self.serving().cluster(&["metrics"])?;
        let missing: Vec<String> = super::metrics::alerted_of_agents()?
            .into_iter()
            .filter(|metric| !shown.lines().any(|line| line.starts_with(&format!("{metric}{{"))))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("the agent has no metrics {}", missing.join(", ")))
        }
    }

    /// Starts the group on the machine that does not serve it, while the other one does.
    fn refuses_a_second_machine(&self) -> Result<(), String> {
        match self.machines[1 - self.serving].cluster(&["start", "home"]) {
            Ok(_) => Err("both machines serve the group".to_owned()),
            Err(_) => self.serving().cluster(&["monitor", "home"]).map(drop),
        }
    }
}
