//! Two machines share a data directory and a floating address (docs/cluster.md). Network namespaces stand for the machines, a bridge
//! for the network, killing all processes of a namespace for the fence. The machine that serves dies, its server dies or is
//! stopped for a while, or the group is moved, under guests that tell what was acknowledged to them.

use std::fs::{self, File};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use super::Options;
use super::lab::{ADDRESS, Lab, PORT};
use crate::process::{self, root};

/// The bridge, and the scenario's own address on it.
const BRIDGE: &str = "pair";
const OWN: &str = "10.77.0.2/24";

/// The names of the machines, and their own addresses.
const NODES: [(&str, &str); 2] = [("a", "10.77.0.3/24"), ("b", "10.77.0.4/24")];

/// How long a cluster manager takes to find out that a machine is gone.
const DETECTION: Duration = Duration::from_millis(2400);

/// Time for guests to work between two rounds, and for all of them to have noticed the one before.
const BETWEEN: Duration = Duration::from_secs(2);

/// The longest pause of a client that is no failure, seconds. What is promised is measured: see docs/results.md.
const STALL_MAX: f64 = 30.0;

/// What happens to the machine that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    /// It loses its link, is found dead, and fenced.
    Dies,
    /// Its server is killed.
    ServerDies,
    /// Everything on it is stopped for as many milliseconds.
    Stops(u64),
    /// The group is moved to the other machine.
    Moves,
}

impl Blow {
    fn name(self) -> &'static str {
        match self {
            Blow::Dies => "node lost",
            Blow::ServerDies => "server killed",
            Blow::Stops(_) => "node stopped",
            Blow::Moves => "moved",
        }
    }
}

pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let mut pair = Pair::make(lab)?;
    let versions: &[&str] = if options.sample { &["3", "4.1"] } else { &["3", "4.0", "4.1", "4.2"] };
    let mut random = fastrand::Rng::with_seed(options.seed);
    pair.cluster(0, &["start", "home"])?;
    let count = versions.len().to_string();
    let mut guests = Vec::new();
    for (number, version) in (1..).zip(versions) {
        let script = lab.start_guest_at(BRIDGE, number, "pair.sh", "192M", &[version, &count])?;
        guests.push((number, script));
    }
    for (number, _) in &guests {
        lab.await_file(&format!("ready-{number}"), Duration::from_secs(120))?;
    }
    let mut blows =
        vec![Blow::Dies, Blow::ServerDies, Blow::Stops(random.u64(500..5000)), Blow::Moves, Blow::Dies];
    while blows.len() < options.rounds {
        let stops = Blow::Stops(random.u64(500..5000));
        blows.extend(random.choice([Blow::Dies, Blow::Dies, Blow::ServerDies, stops, Blow::Moves]));
    }
    let rounds = if options.sample { 5 } else { options.rounds.max(5) };
    for (round, blow) in (1..).zip(&blows[..rounds]) {
        mark(lab, round)?;
        pair.strike(*blow).map_err(|why| format!("round {round}, {}: {why}", blow.name()))?;
        thread::sleep(BETWEEN);
        mark(lab, 0)?;
        pair.heal()?;
        thread::sleep(BETWEEN);
    }
    pair.refuses_a_second_machine()?;
    let stop = lab.out().join("stop");
    fs::write(&stop, "").map_err(process::at(&stop))?;
    for (number, mut guest) in guests {
        lab.finish_guest(number, &mut guest)?;
    }
    pair.cluster(pair.serving, &["stop", "home"])?;
    pair.try_resource_agent()?;
    let stalls = stalls(lab, versions.len(), &blows[..rounds])?;
    drop(pair);
    // Without a group, and checked when it has stopped.
    lab.start()?;
    Ok(stalls)
}

/// Tells the guests which round it is; 0 stands for the time between rounds.
fn mark(lab: &Lab, round: usize) -> Result<(), String> {
    let path = lab.out().join("round");
    let fresh = lab.out().join("round.new");
    fs::write(&fresh, round.to_string()).map_err(process::at(&fresh))?;
    fs::rename(&fresh, &path).map_err(process::at(&path))
}

/// Returns the longest pauses of clients, by what caused them.
fn stalls(lab: &Lab, guests: usize, blows: &[Blow]) -> Result<String, String> {
    let mut longest: Vec<f64> = vec![0.0; blows.len()];
    for number in 1..=guests {
        let path = lab.out().join(format!("stall-guest{number}"));
        let text = fs::read_to_string(&path).map_err(process::at(&path))?;
        for line in text.lines() {
            let pair = line
                .split_once(' ')
                .and_then(|(round, took)| Some((round.parse().ok()?, took.parse().ok()?)));
            let (round, took): (usize, f64) = pair.ok_or_else(|| format!("{}: {line:?}", path.display()))?;
            if let Some(longest) = round.checked_sub(1).and_then(|index| longest.get_mut(index)) {
                *longest = longest.max(took);
            }
        }
    }
    let mut said = Vec::new();
    for name in ["node lost", "server killed", "node stopped", "moved"] {
        let of = longest.iter().zip(blows).filter(|(_, blow)| blow.name() == name);
        let mut of: Vec<f64> = of.map(|(took, _)| *took).collect();
        of.sort_by(f64::total_cmp);
        let (Some(most), Some(median)) = (of.last(), of.get(of.len() / 2)) else { continue };
        said.push(format!("{name} {} x: p50 {median:.2} s, max {most:.2} s", of.len()));
        if *most > STALL_MAX {
            return Err(format!("a client waited for {most} s: {}", said.join("; ")));
        }
    }
    Ok(said.join("; "))
}

/// The two machines.
struct Pair<'l> {
    lab: &'l Lab,
    agents: [Option<Child>; 2],
    serving: usize,
}

impl<'l> Pair<'l> {
    /// Makes the machines with their agents, and the data directory.
    fn make(lab: &'l Lab) -> Result<Pair<'l>, String> {
        let own = lab.namespace();
        let ip = |words: &[&str]| process::output(Command::new("ip").args(words)).map(drop);
        remove_cables()?;
        // The namespace itself is a switch here, and has the address no more.
        ip(&["addr", "del", &format!("{ADDRESS}/32"), "dev", "lo"])?;
        ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        ip(&["link", "set", BRIDGE, "up"])?;
        ip(&["addr", "add", OWN, "dev", BRIDGE])?;
        for (name, address) in NODES {
            let node = format!("{own}-{name}");
            ip(&["netns", "add", &node])?;
            ip(&["-n", &node, "link", "set", "lo", "up"])?;
            ip(&["link", "add", &link(name), "type", "veth", "peer", "name", "eth0", "netns", &node])?;
            ip(&["link", "set", &link(name), "master", BRIDGE, "up"])?;
            ip(&["-n", &node, "link", "set", "eth0", "up"])?;
            ip(&["-n", &node, "addr", "add", address, "dev", "eth0"])?;
        }
        let data = lab.data();
        let mut pool = Command::new(lab.binary());
        pool.args(["pool", "create"]).arg(&data).args([
            "default",
            "--volume",
            "main",
            "--journal-size",
            "64MiB",
        ]);
        process::output(&mut pool)?;
        let mut pair = Pair { lab, agents: [None, None], serving: 0 };
        let configuration = lab.write_configuration()?;
        for (number, (name, _)) in NODES.into_iter().enumerate() {
            let text = format!(
                "node = \"{name}\"\ninterface = \"eth0\"\nsocket = \"{}\"\n[[group]]\nname = \"home\"\n\
                 addresses = [\"{ADDRESS}/24\"]\nports = [{PORT}, 111]\ndata = \"{}\"\nconfig = \"{}\"\n",
                lab.folder.join(format!("{name}.sock")).display(),
                data.display(),
                configuration.display(),
            );
            let path = pair.configuration(number);
            fs::write(&path, text).map_err(process::at(&path))?;
            pair.boot(number)?;
        }
        Ok(pair)
    }

    fn namespace(&self, node: usize) -> String {
        format!("{}-{}", self.lab.namespace(), NODES[node].0)
    }

    fn configuration(&self, node: usize) -> std::path::PathBuf {
        self.lab.folder.join(format!("{}.toml", NODES[node].0))
    }

    /// Starts the agent of a machine, with its link.
    fn boot(&mut self, node: usize) -> Result<(), String> {
        process::output(Command::new("ip").args(["link", "set", &link(NODES[node].0), "up"]))?;
        let log = File::options().create(true).append(true).open(self.lab.log());
        let log = log.map_err(process::at(&self.lab.log()))?;
        let errors = log.try_clone().map_err(process::at(&self.lab.log()))?;
        let mut agent = Command::new("ip");
        agent.args(["netns", "exec", &self.namespace(node)]).arg(self.lab.binary());
        agent.args(["node", "--config"]).arg(self.configuration(node)).stdout(log).stderr(errors);
        self.agents[node] = Some(process::start(&mut agent)?);
        for _ in 0..100 {
            if self.cluster(node, &["status"]).is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the agent of {} does not answer", NODES[node].0))
    }

    /// Runs `holdfast cluster` on a machine.
    fn cluster(&self, node: usize, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(node)]).arg(self.lab.binary());
        process::output(command.args(["cluster", "--config"]).arg(self.configuration(node)).args(words))
    }

    /// Sends a signal to all processes of a machine.
    fn signal_all(&self, node: usize, signal: &str) -> Result<(), String> {
        let processes = process::output(Command::new("ip").args(["netns", "pids", &self.namespace(node)]))?;
        let processes: Vec<&str> = processes.split_whitespace().collect();
        process::output(Command::new("kill").arg(format!("-{signal}")).args(processes)).map(drop)
    }

    fn strike(&mut self, blow: Blow) -> Result<(), String> {
        let (from, to) = (self.serving, 1 - self.serving);
        match blow {
            Blow::Dies => {
                process::output(Command::new("ip").args(["link", "set", &link(NODES[from].0), "down"]))?;
                thread::sleep(DETECTION);
                self.signal_all(from, "KILL")?;
                // A machine that is switched off loses what was given to it.
                let mut forget = Command::new("ip");
                forget.args([
                    "-n",
                    &self.namespace(from),
                    "addr",
                    "del",
                    &format!("{ADDRESS}/24"),
                    "dev",
                    "eth0",
                ]);
                process::output(&mut forget)?;
                if let Some(mut agent) = self.agents[from].take() {
                    process::stop(&mut agent);
                }
                self.cluster(to, &["start", "home"])?;
                self.serving = to;
            }
            Blow::ServerDies => {
                let status: serde_json::Value =
                    serde_json::from_str(&self.cluster(from, &["status", "--json"])?)
                        .map_err(|error| format!("the status is no JSON: {error}"))?;
                let pid = status.pointer("/groups/0/pid").and_then(serde_json::Value::as_u64);
                let pid = pid.ok_or("the status names no process")?.to_string();
                process::output(Command::new("kill").args(["-KILL", &pid]))?;
            }
            Blow::Stops(milliseconds) => {
                self.signal_all(from, "STOP")?;
                thread::sleep(Duration::from_millis(milliseconds));
                self.signal_all(from, "CONT")?;
            }
            Blow::Moves => {
                self.cluster(from, &["stop", "home"])?;
                self.cluster(to, &["start", "home"])?;
                self.serving = to;
            }
        }
        Ok(())
    }

    /// Boots a machine that was lost.
    fn heal(&mut self) -> Result<(), String> {
        for node in 0..NODES.len() {
            if self.agents[node].is_none() {
                self.boot(node)?;
            }
        }
        Ok(())
    }

    /// Runs the cluster manager's own test of the resource agent, in a cluster that fences and in one that does not.
    fn try_resource_agent(&self) -> Result<(), String> {
        let bin = self.lab.folder.join("bin");
        fs::create_dir_all(&bin).map_err(process::at(&bin))?;
        let attribute = bin.join("crm_attribute");
        for (fences, passes) in [("true", true), ("false", false)] {
            fs::write(&attribute, format!("#!/bin/sh\necho {fences}\n")).map_err(process::at(&attribute))?;
            process::output(Command::new("chmod").arg("+x").arg(&attribute))?;
            let mut tester = Command::new("ip");
            tester.args(["netns", "exec", &self.namespace(self.serving), "env", "OCF_ROOT=/usr/lib/ocf"]);
            tester.arg(format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()));
            tester.args(["ocf-tester", "-n", "home", "-o", "group=home"]);
            tester.args(["-o", &format!("config={}", self.configuration(self.serving).display())]);
            tester.args(["-o", &format!("program={}", self.lab.binary().display())]);
            let tested = process::output(tester.arg(root().join("package/cluster/group")));
            if tested.is_ok() != passes {
                let said = tested.unwrap_or_else(|why| why);
                return Err(format!("ocf-tester, where stonith-enabled is {fences}: {said}"));
            }
        }
        Ok(())
    }

    /// Starts the group on the machine that does not serve it, while the other one does.
    fn refuses_a_second_machine(&self) -> Result<(), String> {
        match self.cluster(1 - self.serving, &["start", "home"]) {
            Ok(_) => Err("both machines serve the group".to_owned()),
            Err(_) => self.cluster(self.serving, &["monitor", "home"]).map(drop),
        }
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        for (node, (name, _)) in NODES.into_iter().enumerate() {
            // A machine without processes needs no signal.
            let _ = self.signal_all(node, "KILL");
            if let Some(mut agent) = self.agents[node].take() {
                process::stop(&mut agent);
            }
            let _ = Command::new("ip").args(["link", "del", &link(name)]).status();
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(node)]).status();
        }
        // Other scenarios connect guests with the namespace itself, which has the address.
        let _ = remove_cables();
        let _ = Command::new("ip").args(["link", "del", BRIDGE]).status();
        let _ = Command::new("ip").args(["addr", "add", &format!("{ADDRESS}/32"), "dev", "lo"]).status();
    }
}

/// Removes what connected the guests of other scenarios with the namespace, or those of this one with the bridge.
fn remove_cables() -> Result<(), String> {
    let shown = process::output(Command::new("ip").args(["-brief", "link", "show", "type", "tun"]))?;
    for cable in shown.lines().filter_map(|line| line.split_whitespace().next()) {
        process::output(Command::new("ip").args(["link", "del", cable]))?;
    }
    Ok(())
}

/// The machine's end of the network cable, in the switch.
fn link(name: &str) -> String {
    format!("node-{name}")
}
