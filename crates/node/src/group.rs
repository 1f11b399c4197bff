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
//!
//! A group in a Ceph cluster has a server that *stands by* before it is served: it is connected, and waits for the group's lease. Its
//! addresses are here only as long as the lease permits to answer.
//!
//! # When nobody could be reached
//! After a while without a link, clients have repeated what they sent, each time after twice as long: some would go on many seconds
//! after the link is back. So their connections are reset then, and they connect at once.
//!
//! If this process does not run for so long that the kernel removes the addresses, another machine may have taken over meanwhile.
//! The addresses are taken again only once the server has renewed its claim since.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use store::{CLAIM_TERM, boot_time};

use crate::child::Child;
use crate::config::Group;
use crate::connections::{self, List, Recorder};
use crate::handover::{Candidate, Handover, Report, Sockets};
use crate::limits::{
    ADDRESS_LIFETIME, ANNOUNCEMENTS, LINK_GONE_MIN, REFRESH, RESTARTS_MAX, RESTARTS_WITHIN, START_MAX,
    STOP_MAX,
};
use crate::network::Network;
use crate::shared::Shared;
use crate::status::{GroupStatus, Phases, State, milliseconds};
use addresses::Addresses;

mod addresses;

/// The answer to a command: nothing, or a sentence that says what went wrong.
pub(crate) type Answer = Result<(), String>;

/// Exit codes of a server that another start would not change: a wrong configuration, a data directory that is in use.
const FINAL_EXITS: [i32; 2] = [2, 3];

/// What happens to a group.
enum Event {
    /// Start it; fencing took this long.
    Start(Phases, Sender<Answer>),
    /// Have a server stand for its lease, if there is no server.
    Stand(Candidate),
    Stop(Sender<Answer>),
    /// Have its server read its configuration file again.
    Reload,
    /// Stop it, and end the thread.
    End(Sender<Answer>),
    /// The server of this number told something, or is gone.
    Heard(u64, Option<Report>),
    /// The interface has lost its link, or has it again.
    Link(bool),
}

/// How servers are started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The name of this machine.
    pub(crate) node: String,
    /// How many groups it can serve.
    pub(crate) groups: usize,
    /// The program, and arguments before those for a group.
    pub(crate) program: Vec<OsString>,
}

/// A group of this machine; a thread does what it is asked.
pub(crate) struct Handle {
    config: Group,
    shared: Shared,
    events: Sender<Event>,
    status: Arc<Mutex<GroupStatus>>,
    renewed: Arc<AtomicU64>,
}

impl Handle {
    /// Binds the sockets of a group and starts its thread.
    ///
    /// # Errors
    /// A sentence that says which address cannot be bound.
    pub(crate) fn start(
        config: &Group,
        shared: Shared,
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
            starts_total: 0,
            restarts_total: 0,
            reconnections_total: 0,
            claim_age_ms: None,
            last_start: None,
        }));
        let renewed = Arc::new(AtomicU64::new(0));
        let worker = Worker {
            addresses: Addresses { config: config.clone(), network },
            config: config.clone(),
            shared: shared.clone(),
            launch: launch.clone(),
            sockets,
            events: events.clone(),
            status: Arc::clone(&status),
            renewed: Arc::clone(&renewed),
            last_renewal: 0,
            link_gone: None,
            running: None,
            launched: 0,
            restarts: VecDeque::new(),
        };
        let thread = thread::Builder::new().name(format!("group {}", config.name));
        let spawned = thread.spawn(move || worker.run(&received));
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Handle { config: config.clone(), shared, events, status, renewed })
    }

    pub(crate) fn config(&self) -> &Group {
        &self.config
    }

    pub(crate) fn status(&self) -> GroupStatus {
        let mut status = lock(&self.status).clone();
        let renewed = self.renewed.load(Ordering::Relaxed);
        if renewed == 0 {
            return status;
        }
        let age = Duration::from_nanos(boot_time().saturating_sub(renewed));
        status.claim_age_ms = Some(milliseconds(age));
        if status.state == State::Serving && age > CLAIM_TERM {
            status.state = State::Paused;
            let seconds = age.as_secs();
            status.reason = Some(match self.shared {
                Shared::Directory(_) => {
                    format!("the device has taken no renewal of the claim for {seconds} s")
                }
                Shared::Records(_) => {
                    format!("the cluster has taken no renewal of the lease for {seconds} s")
                }
            });
        }
        status
    }

    /// Tells that the interface has lost its link, or has it again.
    pub(crate) fn tell_link(&self, has_link: bool) {
        // The thread may have ended.
        let _ = self.events.send(Event::Link(has_link));
    }

    /// Serves the group, and returns when clients are served. `before` is the time that the preceding steps took.
    pub(crate) fn serve(&self, before: Phases) -> Answer {
        self.ask(|answer| Event::Start(before, answer))
    }

    /// Has a server stand for the lease of the group, unless there is one.
    pub(crate) fn stand(&self, candidate: Candidate) {
        // The thread may have ended.
        let _ = self.events.send(Event::Stand(candidate));
    }

    /// Stops serving the group.
    pub(crate) fn stop(&self) -> Answer {
        self.ask(Event::Stop)
    }

    /// Stops serving the group, and does not wait for it.
    pub(crate) fn stop_soon(&self) {
        let (nobody, _) = channel();
        let _ = self.events.send(Event::Stop(nobody));
    }

    /// Has its server, if there is one, read its configuration file again.
    pub(crate) fn reload(&self) {
        // The thread may have ended.
        let _ = self.events.send(Event::Reload);
    }

    /// Stops serving the group for good, and closes its sockets.
    pub(crate) fn end(&self) {
        // The thread may have ended.
        let _ = self.ask(Event::End);
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
    shared: Shared,
    addresses: Addresses,
    launch: Launch,
    sockets: Sockets,
    events: Sender<Event>,
    status: Arc<Mutex<GroupStatus>>,
    /// When the last renewal of the claim began, as [`boot_time`]; 0 if there is none.
    renewed: Arc<AtomicU64>,
    /// The same for the last server that had it.
    last_renewal: u64,
    /// Since when the interface has no link.
    link_gone: Option<Instant>,
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
    /// What the lease calls the child, if it stood for one.
    instance: Option<u64>,
    begun: Instant,
    /// When the child was started, and when it claimed the data directory.
    launched: Instant,
    claimed: Option<Instant>,
    has_addresses: bool,
    /// When it was noticed that the kernel has removed the addresses, as [`boot_time`].
    lapsed: Option<u64>,
    /// Clients that are told, and how often they and the neighbours have been.
    clients: List,
    announcements: u32,
    phases: Phases,
    is_ready: bool,
    /// Whether the child is to read its configuration again once it serves: it may have read it before that changed.
    must_reload: bool,
    /// Callers that wait for the start to finish.
    waiting: Vec<Sender<Answer>>,
    refreshed: Instant,
    /// Keeps the list of connections.
    _recorder: Option<Recorder>,
}

impl Worker {
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            match events.recv_timeout(self.patience()) {
                Ok(Event::Start(before, answer)) => self.start(before, answer),
                Ok(Event::Stop(answer)) => {
                    self.stop();
                    // Nobody waits for the answer if its command was interrupted.
                    let _ = answer.send(Ok(()));
                }
                Ok(Event::Stand(candidate)) => self.stand(candidate),
                Ok(Event::Reload) => self.reload(),
                Ok(Event::End(answer)) => {
                    self.stop();
                    let _ = answer.send(Ok(()));
                    return;
                }
                Ok(Event::Heard(number, report)) if self.is_current(number) => match report {
                    Some(Report::Standing { instance }) => self.stands(instance),
                    Some(Report::Claimed) => self.claimed(),
                    Some(Report::Renewed { at }) => self.renewed(at),
                    Some(Report::Ready) => self.ready(),
                    None => self.ended(),
                },
                Ok(Event::Heard(..)) => {}
                Ok(Event::Link(has_link)) => self.link(has_link),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tick();
        }
    }

    fn is_current(&self, number: u64) -> bool {
        self.running.as_ref().is_some_and(|running| running.number == number)
    }

    /// Returns the time until the next periodic step.
    fn patience(&self) -> Duration {
        match &self.running {
            Some(running) => REFRESH.saturating_sub(running.refreshed.elapsed()),
            None => Duration::from_secs(3600),
        }
    }

    /// Has a server stand for the lease.
    fn stand(&mut self, candidate: Candidate) {
        if self.running.is_some() {
            return;
        }
        self.restarts.clear();
        match self.launch(Instant::now(), Phases::default(), Some(candidate)) {
            Ok(running) => {
                self.running = Some(running);
                self.show(State::Starting, None);
            }
            Err(reason) => self.fail(Vec::new(), reason),
        }
    }

    /// The server is connected, and waits for the lease.
    fn stands(&mut self, instance: u64) {
        let Some(running) = &mut self.running else { return };
        running.instance = Some(instance);
        self.show(State::Standby, None);
    }

    fn start(&mut self, before: Phases, answer: Sender<Answer>) {
        if let Some(running) = &mut self.running {
            if running.is_ready {
                let _ = answer.send(Ok(()));
            } else {
                running.waiting.push(answer);
            }
            return;
        }
        self.restarts.clear();
        {
            let mut status = lock(&self.status);
            (status.restarts, status.starts_total) = (0, status.starts_total + 1);
        }
        let begun = Instant::now();
        match self.launch(begun, before, None) {
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
    fn launch(
        &mut self,
        begun: Instant,
        phases: Phases,
        candidate: Option<Candidate>,
    ) -> Result<Running, String> {
        self.launched += 1;
        self.renewed.store(0, Ordering::Relaxed);
        let (number, events) = (self.launched, self.events.clone());
        // The thread may have ended.
        let heard = move |report| drop(events.send(Event::Heard(number, report)));
        let Launch { node, groups, .. } = &self.launch;
        let (group, node) = (self.config.name.clone(), node.clone());
        let handover = Handover { group, node, groups: *groups, candidate, gives_signs: true };
        let launched = Instant::now();
        let child = Child::start(&self.launch.program, &self.config, &handover, &self.sockets, heard)
            .map_err(|error| format!("cannot start a server for {}: {error}", self.config.data.display()))?;
        Ok(Running {
            child,
            number,
            instance: None,
            begun,
            launched,
            claimed: None,
            has_addresses: false,
            lapsed: None,
            clients: List::new(),
            announcements: 0,
            phases,
            is_ready: false,
            must_reload: false,
            waiting: Vec::new(),
            refreshed: launched,
            _recorder: None,
        })
    }

    /// The server has the data directory, and opens it: takes the addresses meanwhile.
    fn claimed(&mut self) {
        let Some(running) = &mut self.running else { return };
        self.last_renewal = boot_time();
        let claimed = Instant::now();
        running.claimed = Some(claimed);
        if running.instance.is_some() {
            // It may have stood by for days: its start begins now.
            running.begun = claimed;
            lock(&self.status).starts_total += 1;
            self.show(State::Starting, None);
        } else {
            running.phases.claim_ms = milliseconds(running.launched.elapsed());
        }
        let Some(running) = &mut self.running else { return };
        if !running.has_addresses {
            running.clients = connections::stored(&self.shared);
            self.take_addresses();
        }
    }

    /// Takes the addresses; if that fails, so has the group.
    fn take_addresses(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        match self.addresses.take(&mut running.phases, &running.clients) {
            Ok(()) => {
                (running.has_addresses, running.lapsed) = (true, None);
                (running.refreshed, running.announcements) = (Instant::now(), 1);
                self.running = Some(running);
            }
            Err(reason) => {
                let Running { child, waiting, .. } = running;
                drop(child);
                self.addresses.give_up();
                self.fail(waiting, reason);
            }
        }
    }

    /// The server has renewed its claim: if the addresses had lapsed, no other machine has them.
    fn renewed(&mut self, at: u64) {
        self.renewed.store(at, Ordering::Relaxed);
        self.last_renewal = at;
        let lapsed = self.running.as_ref().and_then(|running| running.lapsed);
        if lapsed.is_some_and(|lapsed| at > lapsed) {
            self.log("takes its addresses again");
            lock(&self.status).reconnections_total += 1;
            self.take_addresses();
        }
    }

    /// The interface has lost its link, or has it again.
    fn link(&mut self, has_link: bool) {
        if !has_link {
            self.link_gone.get_or_insert_with(Instant::now);
            return;
        }
        let Some(gone) = self.link_gone.take().map(|gone| gone.elapsed()) else { return };
        let Some(running) = &mut self.running else { return };
        if gone < LINK_GONE_MIN || !running.has_addresses {
            return;
        }
        running.clients = self.addresses.connections();
        running.announcements = 1;
        let count = running.clients.len();
        if let Err(reason) = self.addresses.end_connections() {
            eprintln!("holdfast: {reason}");
        }
        self.addresses.tell(&running.clients);
        lock(&self.status).reconnections_total += 1;
        let were_reset = if count == 1 {
            "1 connection was reset".to_owned()
        } else {
            format!("{count} connections were reset")
        };
        self.log(&format!("has its link back after {} s; {were_reset}", gone.as_secs()));
    }

    /// Does what has to be done from time to time: see [`REFRESH`].
    fn tick(&mut self) {
        let Some(running) = &mut self.running else { return };
        let since = running.refreshed.elapsed();
        if since < REFRESH {
            return;
        }
        running.refreshed = Instant::now();
        running.child.give_sign();
        // A server that stands for the lease has no time limit until it has claimed it.
        let begun = running.claimed.or_else(|| self.shared.term().is_none().then_some(running.launched));
        if !running.is_ready && begun.is_some_and(|begun| begun.elapsed() > START_MAX) {
            return self.give_up_late_start();
        }
        // Until the claim is had, another machine may have them.
        if !running.has_addresses {
            return;
        }
        let is_over =
            |term: Duration| Duration::from_nanos(boot_time().saturating_sub(self.last_renewal)) > term;
        if since >= ADDRESS_LIFETIME || self.shared.term().is_some_and(is_over) {
            return self.lapse();
        }
        self.addresses.refresh();
        if running.announcements < ANNOUNCEMENTS {
            running.announcements += 1;
            self.addresses.tell(&running.clients);
        }
    }

    /// The addresses were not refreshed in time.
    fn lapse(&mut self) {
        let Some(running) = &mut self.running else { return };
        (running.has_addresses, running.lapsed) = (false, Some(boot_time()));
        running.clients = self.addresses.connections();
        self.addresses.give_up();
        self.log("could not refresh its addresses in time, and takes them again when the claim is renewed");
    }

    /// Has the server read its configuration again, at once or when it serves: before that, a signal could end it.
    fn reload(&mut self) {
        match &mut self.running {
            Some(running) if running.is_ready => running.child.reload(),
            Some(running) => running.must_reload = true,
            None => {}
        }
    }

    fn ready(&mut self) {
        let Some(running) = &mut self.running else { return };
        running.phases.open_ms = milliseconds(running.claimed.unwrap_or(running.launched).elapsed());
        let before = running.phases.fence_ms + running.phases.mount_ms;
        running.phases.total_ms = before + milliseconds(running.begun.elapsed());
        running.is_ready = true;
        if running.must_reload {
            running.child.reload();
        }
        running._recorder = Recorder::start(&self.config, &self.shared, &self.addresses.network);
        let (phases, waiting) = (running.phases, std::mem::take(&mut running.waiting));
        let clients = running.clients.clone();
        lock(&self.status).last_start = Some(phases);
        self.show(State::Serving, None);
        self.log(&format!("is served, {} ms after it was started", phases.total_ms));
        // Answer last: the command that gets the answer may ask for the status next.
        for waiting in waiting {
            let _ = waiting.send(Ok(()));
        }
        // A client whose first attempt came before the address did.
        self.addresses.tell(&clients);
    }

    /// The server has ended without being told to: starts another one, with the same addresses, unless that is pointless.
    fn ended(&mut self) {
        let Some(running) = self.running.take() else { return };
        let Running { child, waiting, has_addresses, lapsed, .. } = running;
        self.renewed.store(0, Ordering::Relaxed);
        let code = child.ended().and_then(|status| status.code());
        self.restarts.retain(|ended| ended.elapsed() < RESTARTS_WITHIN);
        self.restarts.push_back(Instant::now());
        {
            let mut status = lock(&self.status);
            (status.restarts, status.restarts_total) = (status.restarts + 1, status.restarts_total + 1);
        }
        match self.relaunch(code) {
            Ok(again) => {
                self.log("has lost its server and is starting another one");
                self.running = Some(Running { waiting, has_addresses, lapsed, ..again });
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
        let candidate = self.shared.term().map(|_| Candidate::default());
        self.launch(Instant::now(), Phases::default(), candidate)
    }

    fn fail(&mut self, waiting: Vec<Sender<Answer>>, reason: String) {
        self.log(&format!("has failed here: {reason}"));
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
            && let Err(error) = self.shared.release(&self.launch.node, running.instance)
        {
            eprintln!("holdfast: cannot release the claim on {}: {error}", self.config.data.display());
        }
        self.renewed.store(0, Ordering::Relaxed);
        self.show(State::Stopped, None);
        if running.claimed.is_some() || self.shared.term().is_none() {
            self.log("is stopped");
        }
        for waiting in running.waiting {
            let _ = waiting.send(Err("the group was stopped".to_owned()));
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

    /// Writes an event of the group into the log of the agent.
    fn log(&self, event: &str) {
        eprintln!("holdfast: the group {:?} {event}", self.config.name);
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
