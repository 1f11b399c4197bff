//! The machines with their agents.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::e2e::lab::Lab;
use crate::e2e::pair::{BRIDGE, ip, link};
use crate::e2e::rados::Ceph;
use crate::process;

/// The names of the machines, and their own addresses.
const NODES: [(&str, &str); 4] =
    [("a", "10.77.0.3/24"), ("b", "10.77.0.4/24"), ("c", "10.77.0.5/24"), ("d", "10.77.0.6/24")];

/// Time limit of an agent's start and stop.
const AGENT: Duration = Duration::from_secs(20);

/// Interval between two looks.
const POLL: Duration = Duration::from_millis(50);

/// The machines.
pub(super) struct Machines<'l> {
    lab: &'l Lab,
    ceph: &'l Ceph,
    agents: [Option<Child>; 4],
    lost: Option<usize>,
}

impl<'l> Machines<'l> {
    /// Makes them, without agents.
    pub(super) fn make(lab: &'l Lab, ceph: &'l Ceph) -> Result<Machines<'l>, String> {
        let machines = Machines { lab, ceph, agents: [const { None }; 4], lost: None };
        for (number, (name, address)) in NODES.into_iter().enumerate() {
            let node = machines.namespace(number);
            ip(&["netns", "add", &node])?;
            ip(&["-n", &node, "link", "set", "lo", "up"])?;
            ip(&["link", "add", &link(name), "type", "veth", "peer", "name", "eth0", "netns", &node])?;
            ip(&["link", "set", &link(name), "master", BRIDGE, "up"])?;
            ip(&["-n", &node, "link", "set", "eth0", "up"])?;
            ip(&["-n", &node, "addr", "add", address, "dev", "eth0"])?;
            let text = format!(
                "node = \"{name}\"\ninterface = \"eth0\"\nstore = \"rados:holdfast@nfs\"\nsocket = \"{}\"\n",
                lab.folder.join(format!("{name}.sock")).display(),
            );
            let path = machines.configuration(number);
            fs::write(&path, text).map_err(process::at(&path))?;
            let local = ceph.local(name);
            fs::create_dir_all(&local).map_err(process::at(&local))?;
        }
        Ok(machines)
    }

    pub(super) fn name(&self, node: usize) -> &'static str {
        NODES[node].0
    }

    fn namespace(&self, node: usize) -> String {
        format!("{}-{}", self.lab.namespace(), NODES[node].0)
    }

    fn configuration(&self, node: usize) -> PathBuf {
        self.lab.folder.join(format!("{}.toml", NODES[node].0))
    }

    /// Connects the cable of a machine, or pulls it out.
    pub(super) fn cable(&self, node: usize, state: &str) -> Result<(), String> {
        ip(&["link", "set", &link(NODES[node].0), state])
    }

    /// Starts the agent of a machine, with its link, and waits until it answers.
    pub(super) fn boot(&mut self, node: usize) -> Result<(), String> {
        self.cable(node, "up")?;
        let log = File::options().create(true).append(true).open(self.lab.log());
        let log = log.map_err(process::at(&self.lab.log()))?;
        let errors = log.try_clone().map_err(process::at(&self.lab.log()))?;
        let mut agent = Command::new("ip");
        agent.args(["netns", "exec", &self.namespace(node)]).arg(self.lab.binary());
        agent.args(["node", "--config"]).arg(self.configuration(node)).stdout(log).stderr(errors);
        let server = self.ceph.holdfast(NODES[node].0);
        agent.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.agents[node] = Some(process::start(&mut agent)?);
        let begun = Instant::now();
        while self.on(node, &["metrics"]).is_err() {
            if begun.elapsed() > AGENT {
                return Err(format!("the agent of {} does not answer", NODES[node].0));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Boots the machine that was lost.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.lost.take().map_or(Ok(()), |node| self.boot(node))
    }

    /// Runs `holdfast cluster` on a machine.
    fn on(&self, node: usize, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(node)]).arg(self.lab.binary());
        let server = self.ceph.holdfast(NODES[node].0);
        command.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
        process::output(command.args(["cluster", "--config"]).arg(self.configuration(node)).args(words))
    }

    /// Runs `holdfast cluster` where the scenario runs, as an administrator does.
    pub(super) fn cluster(&self, words: &[&str]) -> Result<String, String> {
        let mut command = self.ceph.holdfast("administrator");
        process::output(command.args(["cluster", "--config"]).arg(self.configuration(0)).args(words))
    }

    fn status(&self) -> Result<Value, String> {
        serde_json::from_str(&self.cluster(&["status", "--json"])?)
            .map_err(|error| format!("the status is no JSON: {error}"))
    }

    fn groups(&self) -> Result<Vec<Value>, String> {
        let status = self.status()?;
        let groups = status.get("groups").and_then(Value::as_array).cloned();
        groups.ok_or_else(|| "the status has no groups".to_owned())
    }

    /// Returns the machine that has a group.
    pub(super) fn owner(&self, group: &str) -> Result<usize, String> {
        let groups = self.groups()?;
        let found = groups.iter().find(|found| found["name"] == group);
        let owner = found.and_then(|group| group["owner"].as_str());
        let number = NODES.iter().position(|(name, _)| Some(*name) == owner);
        number.ok_or_else(|| format!("nobody has the group {group}"))
    }

    pub(super) fn serves_anything(&self, node: &str) -> Result<bool, String> {
        Ok(self.groups()?.iter().any(|group| group["owner"] == node && group["status"]["state"] == "serving"))
    }

    /// Waits until all groups are served. Returns how long that took.
    pub(super) fn settle(&self, limit: Duration) -> Result<Duration, String> {
        let begun = Instant::now();
        loop {
            let groups = self.groups()?;
            if groups.iter().all(|group| group["status"]["state"] == "serving") {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > limit {
                return Err(format!("not all groups are served: {}", self.cluster(&["status"])?));
            }
            thread::sleep(POLL);
        }
    }

    /// Sends a signal to all processes of a machine.
    pub(super) fn signal_all(&self, node: usize, signal: &str) -> Result<(), String> {
        let processes = process::output(Command::new("ip").args(["netns", "pids", &self.namespace(node)]))?;
        let processes: Vec<&str> = processes.split_whitespace().collect();
        if processes.is_empty() {
            return Ok(());
        }
        process::output(Command::new("kill").arg(format!("-{signal}")).args(processes)).map(drop)
    }

    /// Loses a machine: its link, its processes and what was given to it are gone at once.
    pub(super) fn lose(&mut self, node: usize) -> Result<(), String> {
        self.cable(node, "down")?;
        self.signal_all(node, "KILL")?;
        if let Some(mut agent) = self.agents[node].take() {
            process::stop(&mut agent);
        }
        let own = NODES[node].1;
        let namespace = self.namespace(node);
        ip(&["-n", &namespace, "addr", "flush", "dev", "eth0"])?;
        ip(&["-n", &namespace, "addr", "add", own, "dev", "eth0"])?;
        self.lost = Some(node);
        Ok(())
    }

    /// Kills the server of a group.
    pub(super) fn kill_server(&self, group: &str) -> Result<(), String> {
        let groups = self.groups()?;
        let found = groups.iter().find(|found| found["name"] == group);
        let server =
            found.and_then(|group| group["status"]["pid"].as_u64()).ok_or("the status names no process")?;
        process::output(Command::new("kill").args(["-KILL", &server.to_string()])).map(drop)
    }

    /// Has all agents stop.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        for (agent, (name, _)) in self.agents.iter_mut().zip(NODES) {
            let Some(mut agent) = agent.take() else { continue };
            process::signal(&agent, "TERM");
            match process::wait(&mut agent, AGENT) {
                Some(status) if status.success() => {}
                status => return Err(format!("the agent of {name} did not stop: {status:?}")),
            }
        }
        Ok(())
    }
}

impl Drop for Machines<'_> {
    fn drop(&mut self) {
        for node in 0..NODES.len() {
            // A machine without processes needs no signal.
            let _ = self.signal_all(node, "KILL");
            if let Some(mut agent) = self.agents[node].take() {
                process::stop(&mut agent);
            }
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(node)]).status();
        }
    }
}
