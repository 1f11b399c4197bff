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
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use store::{CLAIM_TERM, boot_time};

use crate::child::Child;
use crate::config::Group;
use crate::connections::{List, Recorder};
use crate::handover::{Candidate, Report, Sockets};
use crate::network::Network;
use crate::shared::Shared;
use crate::status::{GroupStatus, Phases, State, milliseconds};
use addresses::Addresses;

mod addresses;
mod holding;
mod servers;

/// The answer to a command: nothing, or a sentence that says what went wrong.
pub(crate) type Answer = Result<(), String>;

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
    /// End the thread, unless the group is starting or served.
    EndStopped(Sender<Answer>),
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
    /// How many groups share the memory of this machine at the moment.
    pub(crate) groups: Arc<AtomicUsize>,
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

    /// Closes the sockets for good, unless the group is starting or served.
    ///
    /// # Errors
    /// A sentence that says that it is.
    pub(crate) fn end_stopped(&self) -> Answer {
        self.ask(Event::EndStopped)
    }

    fn ask(&self, event: impl FnOnce(Sender<Answer>) -> Event) -> Answer {
        let (sender, answer) = channel();
        let gone =
            || "the group's thread has ended: try again; if that does not help, restart the agent".to_owned();
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
    /// Keeps the list of connections while the addresses are here. Clients connect before they are served, and another machine may
    /// have to take over from this one by then.
    recorder: Option<Recorder>,
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
