//! One group on this machine: a thread that starts and stops its server, holds its addresses, and starts a server that ended
//! again.
//!
//! # The order of a start
//! 1. The server is started, and claims the data directory. Until then nothing is touched: if another machine serves the group,
//!    its clients do not notice the attempt.
//! 2. While the server opens the data directory, what remains here of earlier connections is ended: a client that comes back to the
//!    same port would find it, and hang.
//! 3. The addresses are taken, announced to the neighbours, and known clients are made to notice. They connect at once, since the
//!    listening sockets have been there all along, and wait in the backlog until the server accepts them.
//!
//! A stop is the reverse: the addresses go first, so that clients see silence rather than the end of their connections. They
//! continue with the machine that has the addresses next.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use store::Claim;

use crate::child::Child;
use crate::config::Group;
use crate::connections::Recorder;
use crate::handover::{Handover, Report, Sockets};
use crate::limits::{ANNOUNCEMENTS, REFRESH, RESTARTS_MAX, RESTARTS_WITHIN, START_MAX, STOP_MAX};
use crate::network::Network;
use crate::status::{GroupStatus, Phases, State, milliseconds};
use addresses::Addresses;

mod addresses;

/// The answer to a command: nothing, or a sentence that says what went wrong.
pub(crate) type Answer = Result<(), String>;

/// Exit codes of a server that another start would not change: a wrong configuration, a data directory that is in use.
const FINAL_EXITS: [i32; 2] = [2, 3];

/// What happens to a group.
enum Event {
    /// Start it, after fencing took so long.
    Start(Duration, Sender<Answer>),
    Stop(Sender<Answer>),
    /// The server of this number told something, or is gone.
    Heard(u64, Option<Report>),
}

/// How servers are started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The name of this machine.
    pub(crate) node: String,
    /// The program, and arguments before those for a group.
    pub(crate) program: Vec<OsString>,
}

/// A group of this machine; a thread does what it is asked.
pub(crate) struct Handle {
    config: Group,
    events: Sender<Event>,
    status: Arc<Mutex<GroupStatus>>,
}

impl Handle {
    /// Binds the sockets of a group and starts its thread.
    ///
    /// # Errors
    /// A sentence that says which address cannot be bound.
    pub(crate) fn start(
        config: &Group,
        launch: &Launch,
        network: Arc<dyn Network>,
    ) -> Result<Handle, String> {
        let sockets = bind(config, &*network)?;
        let (events, received) = channel();
        let status = Arc::new(Mutex::new(GroupStatus {
            name: config.name.clone(),
            state: State::Stopped,
            reason: None,
            addresses: config.addresses.iter().map(IpNet::to_string).collect(),
            pid: None,
            restarts: 0,
            last_start: None,
        }));
        let worker = Worker {
            addresses: Addresses { config: config.clone(), network },
            config: config.clone(),
            launch: launch.clone(),
            sockets,
            events: events.clone(),
            status: Arc::clone(&status),
            running: None,
            launched: 0,
            restarts: VecDeque::new(),
        };
        let thread = thread::Builder::new().name(format!("group {}", config.name));
        let spawned = thread.spawn(move || worker.run(&received));
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Handle { config: config.clone(), events, status })
    }

    pub(crate) fn config(&self) -> &Group {
        &self.config
    }

    pub(crate) fn status(&self) -> GroupStatus {
        lock(&self.status).clone()
    }

    /// Serves the group, and returns when clients are served. `fenced` is how long it took to fence the other machine.
    pub(crate) fn serve(&self, fenced: Duration) -> Answer {
        self.ask(|answer| Event::Start(fenced, answer))
    }

    /// Stops serving the group.
    pub(crate) fn stop(&self) -> Answer {
        self.ask(Event::Stop)
    }

    fn ask(&self, event: impl FnOnce(Sender<Answer>) -> Event) -> Answer {
        let (sender, answer) = channel();
        let gone = || "the group's thread has ended: restart the agent".to_owned();
        self.events.send(event(sender)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

/// What the thread has.
struct Worker {
    config: Group,
    addresses: Addresses,
    launch: Launch,
    sockets: Sockets,
    events: Sender<Event>,
    status: Arc<Mutex<GroupStatus>>,
    /// Something while the group is starting or served.
    running: Option<Running>,
    /// How many servers were started.
    launched: u64,
    /// When servers ended lately without being told to.
    restarts: VecDeque<Instant>,
}

/// A group that is starting or served.
struct Running {
    child: Child,
    /// The number of the child.
    number: u64,
    begun: Instant,
    /// When the child was started, and when it claimed the data directory.
    launched: Instant,
    claimed: Option<Instant>,
    has_addresses: bool,
    phases: Phases,
    is_ready: bool,
    /// Who waits for the end of the start.
    waiting: Vec<Sender<Answer>>,
    refreshed: Instant,
    announcements: u32,
    /// Keeps the list of connections.
    _recorder: Option<Recorder>,
}

impl Worker {
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            match events.recv_timeout(self.patience()) {
                Ok(Event::Start(fenced, answer)) => self.start(fenced, answer),
                Ok(Event::Stop(answer)) => {
                    self.stop();
                    // Nobody waits for the answer if its command was interrupted.
                    let _ = answer.send(Ok(()));
                }
                Ok(Event::Heard(number, report)) if self.is_current(number) => match report {
                    Some(Report::Claimed) => self.claimed(),
                    Some(Report::Ready) => self.ready(),
                    None => self.ended(),
                },
                Ok(Event::Heard(..)) => {}
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tick();
        }
    }

    fn is_current(&self, number: u64) -> bool {
        self.running.as_ref().is_some_and(|running| running.number == number)
    }

    /// Returns how long nothing has to be done.
    fn patience(&self) -> Duration {
        match &self.running {
            Some(running) => REFRESH.saturating_sub(running.refreshed.elapsed()),
            None => Duration::from_secs(3600),
        }
    }

    fn start(&mut self, fenced: Duration, answer: Sender<Answer>) {
        if let Some(running) = &mut self.running {
            if running.is_ready {
                let _ = answer.send(Ok(()));
            } else {
                running.waiting.push(answer);
            }
            return;
        }
        self.restarts.clear();
        lock(&self.status).restarts = 0;
        let begun = Instant::now();
        let phases = Phases { fence_ms: milliseconds(fenced), ..Phases::default() };
        match self.launch(begun, phases) {
            Ok(mut running) => {
                running.waiting.push(answer);
                self.running = Some(running);
                self.show(State::Starting, None);
            }
            Err(reason) => {
                self.show(State::Failed, Some(reason.clone()));
                let _ = answer.send(Err(reason));
            }
        }
    }

    /// Starts a server.
    fn launch(&mut self, begun: Instant, phases: Phases) -> Result<Running, String> {
        self.launched += 1;
        let (number, events) = (self.launched, self.events.clone());
        // The thread may have ended.
        let heard = move |report| drop(events.send(Event::Heard(number, report)));
        let handover = Handover { group: self.config.name.clone(), node: self.launch.node.clone() };
        let launched = Instant::now();
        let child = Child::start(&self.launch.program, &self.config, &handover, &self.sockets, heard)
            .map_err(|error| format!("cannot start a server for {}: {error}", self.config.data.display()))?;
        Ok(Running {
            child,
            number,
            begun,
            launched,
            claimed: None,
            has_addresses: false,
            phases,
            is_ready: false,
            waiting: Vec::new(),
            refreshed: launched,
            announcements: 0,
            _recorder: None,
        })
    }

    /// The server has the data directory, and opens it: takes the addresses meanwhile.
    fn claimed(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let claimed = Instant::now();
        running.claimed = Some(claimed);
        running.phases.claim_ms = milliseconds(running.launched.elapsed());
        if !running.has_addresses {
            running.has_addresses = true;
            if let Err(reason) = self.addresses.take(&mut running.phases) {
                let Running { child, waiting, .. } = running;
                drop(child);
                self.addresses.give_up();
                return self.fail(waiting, reason);
            }
            (running.refreshed, running.announcements) = (Instant::now(), 1);
        }
        self.running = Some(running);
    }

    fn ready(&mut self) {
        let Some(running) = &mut self.running else { return };
        running.phases.open_ms = milliseconds(running.claimed.unwrap_or(running.launched).elapsed());
        running.phases.total_ms = running.phases.fence_ms + milliseconds(running.begun.elapsed());
        running.is_ready = true;
        running._recorder = Recorder::start(&self.config, &self.addresses.network);
        let (phases, waiting) = (running.phases, std::mem::take(&mut running.waiting));
        lock(&self.status).last_start = Some(phases);
        self.show(State::Serving, None);
        // Answer last: the command that gets the answer may ask for the status next.
        for waiting in waiting {
            let _ = waiting.send(Ok(()));
        }
        // A client whose first attempt came before the address did.
        self.addresses.tickle();
    }

    /// The server has ended without being told to: starts another one, with the same addresses, unless that is pointless.
    fn ended(&mut self) {
        let Some(running) = self.running.take() else { return };
        let Running { child, waiting, has_addresses, .. } = running;
        let code = child.ended().and_then(|status| status.code());
        self.restarts.retain(|ended| ended.elapsed() < RESTARTS_WITHIN);
        self.restarts.push_back(Instant::now());
        lock(&self.status).restarts += 1;
        match self.relaunch(code) {
            Ok(again) => {
                self.running = Some(Running { waiting, has_addresses, ..again });
                self.show(State::Starting, None);
            }
            Err(reason) => {
                if has_addresses {
                    self.addresses.give_up();
                }
                self.fail(waiting, reason);
            }
        }
    }

    /// Starts a server after one that ended with this exit code.
    fn relaunch(&mut self, code: Option<i32>) -> Result<Running, String> {
        if code.is_some_and(|code| FINAL_EXITS.contains(&code)) {
            return Err("its server refused to start: see the log of the agent".to_owned());
        }
        if self.restarts.len() > RESTARTS_MAX {
            let times = self.restarts.len();
            return Err(format!("its server ended {times} times within a minute: see the log of the agent"));
        }
        // The connections ended with it. Those that clients have made since wait for the next server: a connection that is reset before
        // its first reply may have a Linux client wait for 3 s (`xprt_reconnect_delay` of its `xprt.c`).
        self.launch(Instant::now(), Phases::default())
    }

    fn fail(&mut self, waiting: Vec<Sender<Answer>>, reason: String) {
        eprintln!("holdfast: the group {:?} has failed here: {reason}", self.config.name);
        self.show(State::Failed, Some(reason.clone()));
        for waiting in waiting {
            let _ = waiting.send(Err(reason.clone()));
        }
    }

    /// Stops the group, if it is starting or served.
    fn stop(&mut self) {
        let Some(running) = self.running.take() else { return self.show(State::Stopped, None) };
        if running.has_addresses {
            self.addresses.give_up();
        }
        drop(running._recorder);
        if !running.child.stop(STOP_MAX)
            && let Err(error) = Claim::release_for(&self.config.data, &self.launch.node)
        {
            eprintln!("holdfast: cannot release the claim on {}: {error}", self.config.data.display());
        }
        self.show(State::Stopped, None);
        for waiting in running.waiting {
            let _ = waiting.send(Err("the group was stopped".to_owned()));
        }
    }

    /// Prolongs the addresses, if the group has them here, and notices a server that does not begin to serve.
    fn tick(&mut self) {
        let Some(running) = &mut self.running else { return };
        if running.refreshed.elapsed() < REFRESH {
            return;
        }
        running.refreshed = Instant::now();
        if !running.is_ready && running.launched.elapsed() > START_MAX {
            return self.give_up_late_start();
        }
        // Until the claim is had, another machine may have them.
        if !running.has_addresses {
            return;
        }
        let announces = running.announcements < ANNOUNCEMENTS;
        running.announcements += u32::from(announces);
        self.addresses.prolong();
        if announces {
            self.addresses.announce();
        }
    }

    fn give_up_late_start(&mut self) {
        let Some(Running { child, waiting, has_addresses, .. }) = self.running.take() else { return };
        if has_addresses {
            self.addresses.give_up();
        }
        drop(child);
        self.fail(waiting, format!("its server did not begin to serve within {} s", START_MAX.as_secs()));
    }

    fn show(&self, state: State, reason: Option<String>) {
        let mut status = lock(&self.status);
        status.pid = self.running.as_ref().map(|running| running.child.id());
        (status.state, status.reason) = (state, reason);
    }
}

/// Binds the sockets of a group.
fn bind(config: &Group, network: &dyn Network) -> Result<Sockets, String> {
    let mut sockets = Sockets::default();
    for at in config.sockets() {
        let failed = |error| format!("cannot listen on {at} for the group {:?}: {error}", config.name);
        sockets.listeners.push(network.listen(at).map_err(failed)?);
        sockets.datagrams.push(network.take_datagrams(at).map_err(failed)?);
    }
    Ok(sockets)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
