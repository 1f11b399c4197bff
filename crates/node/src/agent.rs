//! The agent: the groups of a machine, and the commands for them.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cluster::Name;
use rados::Board;

use crate::config::Config;
use crate::control::{self, Answer, Command};
use crate::coordination::{Coordination, Surface};
use crate::group::{Handle, Launch, lock};
use crate::groups::Groups;
use crate::limits::{COMMANDS_MAX, FENCE_MAX};
use crate::metrics::{self, scrapes};
use crate::monitor::answers_null;
use crate::network::Network;
use crate::network::kernel::Kernel;
use crate::records::Records;
use crate::status::{NodeStatus, Phases, State, milliseconds};

/// Interval at which a running command is polled for its exit.
const POLL: Duration = Duration::from_millis(20);

mod reload;

/// An agent that runs.
pub struct Agent {
    /// Replaced by [`Agent::reload`].
    config: Mutex<Arc<Config>>,
    /// Held by a reload.
    reloading: Mutex<()>,
    launch: Launch,
    network: Arc<dyn Network>,
    groups: Arc<Groups>,
    /// Decides about groups in a store.
    coordination: Mutex<Option<Coordination>>,
    socket: PathBuf,
    has_link: Arc<AtomicBool>,
    /// Commands that are being executed.
    commands: AtomicUsize,
    is_stopping: AtomicBool,
}

impl Agent {
    /// Binds the sockets of all groups and waits for commands in threads of its own. Serves nothing yet. `program` starts a
    /// server: the binary, and arguments before those for a group.
    ///
    /// # Errors
    /// A sentence that says what cannot be bound.
    pub fn start(config: Config, program: Vec<OsString>) -> Result<Arc<Agent>, String> {
        let network = Kernel::open(&config.interface)?;
        let records = config.location()?.map(|store| Board::open(&store)).transpose();
        let records = records.map_err(|error| error.to_string())?;
        let records = records.map(|board| Arc::new(board) as Arc<dyn Records>);
        Agent::start_with(config, program, Arc::new(network), records)
    }

    fn start_with(
        config: Config,
        program: Vec<OsString>,
        network: Arc<dyn Network>,
        records: Option<Arc<dyn Records>>,
    ) -> Result<Arc<Agent>, String> {
        let listener = control::listen(&config.socket)?;
        let groups = Arc::new(config.group.len().into());
        let agent = Arc::new(Agent {
            launch: Launch { node: config.node.clone(), groups, program },
            network,
            groups: Arc::default(),
            coordination: Mutex::default(),
            socket: config.socket.clone(),
            has_link: Arc::new(AtomicBool::new(true)),
            commands: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            config: Mutex::new(Arc::new(config)),
            reloading: Mutex::default(),
        });
        agent.config().group.iter().try_for_each(|group| agent.add_group(group))?;
        agent.watch_link()?;
        agent.answer_scrapes()?;
        if let Some(records) = records {
            agent.coordinate(records)?;
        }
        let accepting = Arc::clone(&agent);
        let accept = thread::Builder::new().name("commands".to_owned());
        let accept = accept.spawn(move || accepting.accept(&listener));
        accept.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(agent)
    }

    /// Returns the current configuration.
    fn config(&self) -> Arc<Config> {
        Arc::clone(&lock(&self.config))
    }

    /// Begins to serve groups of a store, as all of its nodes agree.
    fn coordinate(&self, records: Arc<dyn Records>) -> Result<(), String> {
        let config = self.config();
        let node = Name::new(&config.node).map_err(|error| error.to_string())?;
        let store = config.location()?.ok_or("there is no store")?;
        let (groups, has_link) = (Arc::clone(&self.groups), Arc::clone(&self.has_link));
        let (network, launch) = (Arc::clone(&self.network), self.launch.clone());
        let surface = Surface { node, store, records, groups, network, launch, has_link };
        let started = Coordination::start(surface);
        *lock(&self.coordination) = Some(started.map_err(|error| format!("cannot start a thread: {error}"))?);
        Ok(())
    }

    /// Begins to tell the groups of the interface's link.
    fn watch_link(self: &Arc<Agent>) -> Result<(), String> {
        let agent = Arc::clone(self);
        let interface = self.config().interface.clone();
        let failed = format!("cannot watch the link of {interface}");
        let tell = move |has_link: bool| {
            let what = if has_link { "has its" } else { "lost its" };
            eprintln!("holdfast: the interface {interface} {what} link");
            agent.has_link.store(has_link, Ordering::Relaxed);
            agent.groups.all().iter().for_each(|group| group.tell_link(has_link));
        };
        let watched = self.network.watch_link(Box::new(tell));
        watched.map_err(|error| format!("{failed}: {error}"))
    }

    /// Begins to answer Prometheus, if it is to.
    fn answer_scrapes(self: &Arc<Agent>) -> Result<(), String> {
        let Some(address) = self.config().metrics else { return Ok(()) };
        let failed = |error: io::Error| format!("cannot answer Prometheus at {address}: {error}");
        let listener = TcpListener::bind(address).map_err(failed)?;
        let agent = Arc::clone(self);
        let answer = move || scrapes::answer(&listener, || metrics::text(&agent.status()));
        thread::Builder::new().name("metrics".to_owned()).spawn(answer).map_err(failed)?;
        Ok(())
    }

    /// Stops serving all groups. What comes afterwards is refused.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        if let Some(coordination) = lock(&self.coordination).take() {
            coordination.stop();
        }
        thread::scope(|scope| {
            for group in self.groups.all() {
                // A group that is not served is stopped already.
                scope.spawn(move || drop(group.stop()));
            }
        });
        let _ = std::fs::remove_file(&self.socket);
    }

    fn accept(self: &Arc<Agent>, listener: &UnixListener) {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => self.serve(stream),
                Err(error) => {
                    eprintln!("holdfast: cannot accept a command: {error}");
                    thread::sleep(POLL);
                }
            }
        }
    }

    fn serve(self: &Arc<Agent>, mut stream: UnixStream) {
        if self.commands.fetch_add(1, Ordering::SeqCst) >= COMMANDS_MAX {
            self.commands.fetch_sub(1, Ordering::SeqCst);
            let busy = Answer::Failed("the agent executes too many commands: try again".to_owned());
            // Who has gone needs no answer.
            let _ = control::answer(&mut stream, &busy);
            return;
        }
        let agent = Arc::clone(self);
        let spawned = thread::Builder::new().name("command".to_owned()).spawn(move || {
            if let Ok(command) = control::receive(&stream) {
                let answer = agent.execute(&command);
                let _ = control::answer(&mut stream, &answer);
            }
            agent.commands.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            self.commands.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn execute(&self, command: &Command) -> Answer {
        let done = |result: Result<(), String>| match result {
            Ok(()) => Answer::Done,
            Err(reason) => Answer::Failed(reason),
        };
        match command {
            Command::Status => Answer::Status(self.status()),
            Command::Start { .. } | Command::Stop { .. } | Command::Takeover { .. } | Command::Move { .. }
                if self.config().store.is_some() =>
            {
                Answer::Failed(
                    "the nodes of the cluster decide which of them serves a group: see `holdfast cluster move`".to_owned(),
                )
            }
            Command::Start { group } => done(self.serve_group(group, Phases::default())),
            Command::Stop { group } => done(self.group(group).and_then(|group| group.stop())),
            Command::Monitor { group } => self.monitor(group),
            Command::Takeover { group, from } => done(self.take_over(group, from)),
            Command::Move { group, to } => done(self.move_group(group, to)),
        }
    }

    fn status(&self) -> NodeStatus {
        NodeStatus {
            node: self.launch.node.clone(),
            has_link: self.has_link.load(Ordering::Relaxed),
            groups: self.groups.statuses(),
        }
    }

    fn group(&self, name: &str) -> Result<Arc<Handle>, String> {
        let found = self.groups.find(name);
        found.ok_or_else(|| format!("the agent's configuration has no group {name:?}"))
    }

    /// Serves a group. `before` is the time that the preceding steps took.
    fn serve_group(&self, name: &str, before: Phases) -> Result<(), String> {
        let group = self.group(name)?;
        if self.is_stopping.load(Ordering::SeqCst) {
            return Err("the agent is stopping".to_owned());
        }
        group.serve(before)
    }

    fn monitor(&self, name: &str) -> Answer {
        let group = match self.group(name) {
            Ok(group) => group,
            Err(reason) => return Answer::Failed(reason),
        };
        let status = group.status();
        match status.state {
            State::Stopped | State::Standby => Answer::Stopped,
            State::Failed => Answer::Failed(status.reason.unwrap_or_default()),
            State::Starting => Answer::Failed("its server is starting".to_owned()),
            State::Serving | State::Paused => {
                let addresses: Vec<SocketAddr> = group.config().sockets().collect();
                match addresses.into_iter().try_for_each(answers_null) {
                    Ok(()) => Answer::Done,
                    Err(reason) => Answer::Failed(reason),
                }
            }
        }
    }

    /// Fences the other machine, mounts the device, and serves the group. Without a fence, nothing is mounted or taken over.
    fn take_over(&self, name: &str, from: &str) -> Result<(), String> {
        self.group(name)?;
        let config = self.config();
        if from == config.node {
            return Err(format!("{from:?} is this machine: nothing is fenced"));
        }
        if config.fence_command.is_empty() {
            return Err(
                "no `fence_command` is configured: the machine that served the group may still write; let the cluster \
                 manager fence it and start the group"
                    .to_owned(),
            );
        }
        let begun = Instant::now();
        run(&config.fence_command, name, from).map_err(|error| {
            format!("the machine {from:?} was not fenced, so {name:?} is not taken over: {error}")
        })?;
        let fence_ms = milliseconds(begun.elapsed());
        let begun = Instant::now();
        if !config.mount_command.is_empty() {
            run(&config.mount_command, name, from).map_err(|error| {
                format!("the device of {name:?} was not mounted, so it is not taken over: {error}")
            })?;
        }
        let mount_ms = milliseconds(begun.elapsed());
        self.serve_group(name, Phases { fence_ms, mount_ms, ..Phases::default() })
    }

    fn move_group(&self, name: &str, to: &str) -> Result<(), String> {
        self.group(name)?;
        let config = self.config();
        if config.move_command.is_empty() {
            return Err("no `move_command` is configured: have the cluster manager move the group".to_owned());
        }
        run(&config.move_command, name, to)
    }
}

/// Runs a command of the configuration. It must succeed within [`FENCE_MAX`].
fn run(words: &[String], group: &str, node: &str) -> Result<(), String> {
    let mut words = words.iter().map(|word| word.replace("{group}", group).replace("{node}", node));
    let program = words.next().unwrap_or_default();
    let shown = |error: io::Error| format!("cannot run {program}: {error}");
    let mut process = Process::new(&program).args(words).stdin(Stdio::null()).spawn().map_err(shown)?;
    let begun = Instant::now();
    loop {
        match process.try_wait().map_err(shown)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{program} failed: {status}")),
            None if begun.elapsed() > FENCE_MAX => {
                // It is gone if it cannot be killed.
                let _ = process.kill();
                let _ = process.wait();
                return Err(format!("{program} did not end within {} s", FENCE_MAX.as_secs()));
            }
            None => thread::sleep(POLL),
        }
    }
}

#[cfg(test)]
mod tests;
