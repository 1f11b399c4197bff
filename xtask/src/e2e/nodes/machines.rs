//! The machines with their agents.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ceph::Ceph;
use crate::e2e::hosts::Host;
use crate::e2e::lab::Lab;
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
    ceph: &'l Ceph,
    hosts: Vec<Host<'l>>,
    lost: Option<usize>,
}

impl<'l> Machines<'l> {
    /// Makes them, without agents.
    pub(super) fn make(lab: &'l Lab, ceph: &'l Ceph) -> Result<Machines<'l>, String> {
        let mut machines = Machines { ceph, hosts: Vec::new(), lost: None };
        for node in NODES {
            let (name, _) = node;
            let host = Host::make(lab, node)?.with_environment(&ceph.holdfast(name));
            let typed = ceph.step("file /etc/holdfast/node.toml");
            let socket = lab.folder.join(format!("{name}.sock"));
            let text = typed.replace("\"a\"", &format!("\"{name}\""));
            let text = format!("{text}socket = \"{}\"\n", socket.display());
            fs::write(host.configuration(), text).map_err(process::at(&host.configuration()))?;
            let local = ceph.local(name);
            fs::create_dir_all(&local).map_err(process::at(&local))?;
            machines.hosts.push(host);
        }
        Ok(machines)
    }

    pub(super) fn name(&self, node: usize) -> &'static str {
        NODES[node].0
    }

    /// Connects the cable of a machine, or pulls it out.
    pub(super) fn cable(&self, node: usize, state: &str) -> Result<(), String> {
        self.hosts[node].cable(state)
    }

    /// Starts the agent of a machine, with its link, and waits until it answers.
    pub(super) fn boot(&mut self, node: usize) -> Result<(), String> {
        self.hosts[node].boot(&["metrics"])
    }

    /// Boots the machine that was lost.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.lost.take().map_or(Ok(()), |node| self.boot(node))
    }

    /// Runs `holdfast cluster` where the scenario runs, as an administrator does.
    pub(super) fn cluster(&self, words: &[&str]) -> Result<String, String> {
        let mut command = self.ceph.holdfast("administrator");
        process::output(command.args(["cluster", "--config"]).arg(self.hosts[0].configuration()).args(words))
    }

    /// Runs a step of the document, in which `holdfast cluster` reads the configuration of this machine's agent.
    pub(super) fn type_in(&self, commands: &str) -> Result<String, String> {
        let configured = format!("holdfast cluster --config '{}'", self.hosts[0].configuration().display());
        self.ceph.type_in("administrator", &commands.replace("holdfast cluster", &configured))
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

    /// Returns the machine that has a group, once one has: groups go back to the nodes that they prefer by
    /// themselves, and have no owner meanwhile.
    pub(super) fn owner(&self, group: &str, limit: Duration) -> Result<usize, String> {
        let begun = Instant::now();
        loop {
            let groups = self.groups()?;
            let found = groups.iter().find(|found| found["name"] == group);
            let owner = found.and_then(|group| group["owner"].as_str());
            match NODES.iter().position(|(name, _)| Some(*name) == owner) {
                Some(number) => return Ok(number),
                None if begun.elapsed() > limit => return Err(format!("nobody has the group {group}")),
                None => thread::sleep(POLL),
            }
        }
    }

    pub(super) fn serves_anything(&self, node: &str) -> Result<bool, String> {
        Ok(self.groups()?.iter().any(|group| group["owner"] == node && group["status"]["state"] == "serving"))
    }

    /// Waits until another machine than this one serves a group.
    pub(super) fn await_another(&self, group: &str, than: usize, limit: Duration) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let groups = self.groups()?;
            let found = groups.iter().find(|found| found["name"] == group).ok_or("there is no such group")?;
            let is_served = found["status"]["state"] == "serving";
            if is_served && found["owner"].as_str().is_some_and(|owner| owner != self.name(than)) {
                return Ok(());
            }
            if begun.elapsed() > limit {
                let name = self.name(than);
                return Err(format!(
                    "no other machine than {name} serves {group}: {}",
                    self.cluster(&["status"])?
                ));
            }
            thread::sleep(POLL);
        }
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
        self.hosts[node].signal_all(signal)
    }

    /// Sends a signal to the agent of a machine, and to nothing else there.
    pub(super) fn signal_agent(&self, node: usize, signal: &str) -> Result<(), String> {
        let agent = self.hosts[node].agent.as_ref().ok_or("the machine has no agent")?;
        process::output(Command::new("kill").args(["-s", signal, &agent.id().to_string()])).map(drop)
    }

    /// Starts the agent of a machine again, whose last one was killed.
    pub(super) fn boot_again(&mut self, node: usize) -> Result<(), String> {
        self.hosts[node].reap();
        self.boot(node)
    }

    /// Loses a machine, until [`Machines::heal`].
    pub(super) fn lose(&mut self, node: usize) -> Result<(), String> {
        self.lost = Some(node);
        self.hosts[node].lose()
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
    pub(super) fn stop_all(&mut self) -> Result<(), String> {
        (0..self.hosts.len()).try_for_each(|node| self.stop(node))
    }

    /// Has the agent of a machine stop, if it has one.
    pub(super) fn stop(&mut self, node: usize) -> Result<(), String> {
        let host = &mut self.hosts[node];
        let Some(mut agent) = host.agent.take() else { return Ok(()) };
        process::signal(&agent, "TERM");
        match process::wait(&mut agent, AGENT) {
            Some(status) if status.success() => Ok(()),
            status => Err(format!("the agent of {} did not stop: {status:?}", host.name)),
        }
    }
}
