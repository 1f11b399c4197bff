//! Machines with agents: network namespaces, each with a cable to a bridge in the scenario's own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::lab::{ADDRESS, Lab};
use crate::process;

/// The bridge, and the scenario's own address on it.
pub(super) const BRIDGE: &str = "pair";
pub(super) const OWN: &str = "10.77.0.2/24";

/// Time limit of an agent's start.
const START: Duration = Duration::from_secs(20);

/// Interval between two looks.
const POLL: Duration = Duration::from_millis(50);

/// The scenario's namespace as a switch: a bridge, and the namespace has the server's address no more.
pub(super) struct Switch<'l>(&'l Lab);

impl<'l> Switch<'l> {
    pub(super) fn make(lab: &'l Lab) -> Result<Switch<'l>, String> {
        ip(&["addr", "del", &format!("{ADDRESS}/32"), "dev", "lo"])?;
        ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        ip(&["link", "set", BRIDGE, "up"])?;
        ip(&["addr", "add", OWN, "dev", BRIDGE])?;
        Ok(Switch(lab))
    }
}

impl Drop for Switch<'_> {
    fn drop(&mut self) {
        // The scenario goes on without machines.
        let _ = self.0.renew_network();
    }
}

/// A machine. Without an agent it is off, unless another program stands for the agent.
pub(super) struct Host<'l> {
    lab: &'l Lab,
    pub(super) name: &'static str,
    /// Its own address.
    own: &'static str,
    /// What its programs have in their environment.
    environment: Vec<(OsString, OsString)>,
    pub(super) agent: Option<Child>,
}

impl<'l> Host<'l> {
    /// Makes a machine without an agent.
    pub(super) fn make(lab: &'l Lab, (name, own): (&'static str, &'static str)) -> Result<Host<'l>, String> {
        let host = Host { lab, name, own, environment: Vec::new(), agent: None };
        let (node, cable) = (host.namespace(), host.cable_name());
        ip(&["netns", "add", &node])?;
        ip(&["-n", &node, "link", "set", "lo", "up"])?;
        ip(&["link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &node])?;
        ip(&["link", "set", &cable, "master", BRIDGE, "up"])?;
        ip(&["-n", &node, "link", "set", "eth0", "up"])?;
        ip(&["-n", &node, "addr", "add", own, "dev", "eth0"])?;
        Ok(host)
    }

    /// Gives its programs the environment of a command.
    pub(super) fn with_environment(mut self, of: &Command) -> Host<'l> {
        let set = of.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        self.environment.extend(set);
        self
    }

    pub(super) fn namespace(&self) -> String {
        format!("{}-{}", self.lab.namespace(), self.name)
    }

    /// The file with its agent's configuration.
    pub(super) fn configuration(&self) -> PathBuf {
        self.lab.folder.join(format!("{}.toml", self.name))
    }

    /// The switch's end of its cable.
    pub(super) fn cable_name(&self) -> String {
        format!("node-{}", self.name)
    }

    /// Connects its cable (`up`), or pulls it out (`down`).
    pub(super) fn cable(&self, state: &str) -> Result<(), String> {
        ip(&["link", "set", &self.cable_name(), state])
    }

    /// Returns a command that runs the program under test on it.
    fn holdfast(&self, word: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace()]).arg(self.lab.binary()).arg(word);
        command.arg("--config").arg(self.configuration());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts its agent, and waits until that answers `holdfast cluster WORDS`.
    pub(super) fn boot(&mut self, words: &[&str]) -> Result<(), String> {
        self.cable("up")?;
        let log = File::options().create(true).append(true).open(self.lab.log());
        let log = log.map_err(process::at(&self.lab.log()))?;
        let errors = log.try_clone().map_err(process::at(&self.lab.log()))?;
        self.agent = Some(process::start(self.holdfast("node").stdout(log).stderr(errors))?);
        let begun = Instant::now();
        while self.cluster(words).is_err() {
            if let Some(Ok(Some(status))) = self.agent.as_mut().map(Child::try_wait) {
                let log = fs::read_to_string(self.lab.log()).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                return Err(format!(
                    "the agent of {} ended: {status}; the log ends with {last:?}",
                    self.name
                ));
            }
            if begun.elapsed() > START {
                return Err(format!("the agent of {} does not answer", self.name));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Runs `holdfast cluster` on it.
    pub(super) fn cluster(&self, words: &[&str]) -> Result<String, String> {
        process::output(self.holdfast("cluster").args(words))
    }

    /// Sends a signal to all its processes.
    pub(super) fn signal_all(&self, signal: &str) -> Result<(), String> {
        let processes = process::output(Command::new("ip").args(["netns", "pids", &self.namespace()]))?;
        let processes: Vec<&str> = processes.split_whitespace().collect();
        if processes.is_empty() {
            return Ok(());
        }
        process::output(Command::new("kill").arg(format!("-{signal}")).args(processes)).map(drop)
    }

    /// Switches it off: its cable, its processes and what was given to it are gone at once.
    pub(super) fn lose(&mut self) -> Result<(), String> {
        self.cable("down")?;
        self.signal_all("KILL")?;
        self.reap();
        let node = self.namespace();
        ip(&["-n", &node, "addr", "flush", "dev", "eth0", "scope", "global"])?;
        ip(&["-n", &node, "addr", "add", self.own, "dev", "eth0"])
    }

    /// Ends its agent, if there is one.
    pub(super) fn reap(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            process::stop(&mut agent);
        }
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        let _ = self.signal_all("KILL");
        self.reap();
        let _ = Command::new("ip").args(["netns", "del", &self.namespace()]).status();
    }
}

pub(super) fn ip(words: &[&str]) -> Result<(), String> {
    process::output(Command::new("ip").args(words)).map(drop)
}
