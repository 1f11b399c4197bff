//! The groups of a cluster of nodes in a Ceph cluster: a thread that says what this node does, hears what others do, and has servers
//! stand for groups, or stop, as [`cluster::Surroundings`] says. Leases decide who serves; this decides who tries.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cluster::{ABSENT_AFTER, BEAT, Membership, Name, POLL, Roster, Surroundings, Task, Time};
use rados::Location;

use crate::administration::not_begun;
use crate::beat::{Beat, Heard, beats_of};
use crate::config::Group;
use crate::group::{Handle, Launch, lock};
use crate::groups::Groups;
use crate::handover::Candidate;
use crate::network::Network;
use crate::records::{Notified, Records};
use crate::shared::Shared;
use crate::status::{GroupStatus, NodeStatus, State};
use crate::watching::{Watching, now};

/// How long after a server failed the next one is tried.
const RETRY: Duration = Duration::from_secs(10);

/// How long after a server was stopped for another node none is started here again.
const YIELDED: Duration = Duration::from_secs(2);

/// What the thread needs of its agent.
pub(crate) struct Surface {
    pub(crate) node: Name,
    pub(crate) store: Location,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) network: Arc<dyn Network>,
    /// How servers are started.
    pub(crate) launch: Launch,
    /// Whether the interface has its link.
    pub(crate) has_link: Arc<AtomicBool>,
}

/// The thread.
pub(crate) struct Coordination {
    stir: Sender<()>,
    ended: Mutex<Receiver<()>>,
    is_stopping: Arc<AtomicBool>,
}

impl Coordination {
    /// Starts it.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(surface: Surface) -> io::Result<Coordination> {
        let ((stir, stirred), (end, ended)) = (channel(), channel());
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&is_stopping);
        let mut coordinator = Coordinator::new(surface, stir.clone());
        thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            while !stops.load(Ordering::SeqCst) {
                coordinator.turn();
                match stirred.recv_timeout(POLL) {
                    Ok(()) => {
                        // Several at once are one.
                        while stirred.try_recv().is_ok() {}
                        coordinator.stir();
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            // Others are told before the agent goes on to end.
            drop(coordinator);
            drop(end);
        })?;
        Ok(Coordination { stir, ended: Mutex::new(ended), is_stopping })
    }

    /// Has it look at everything at once.
    pub(crate) fn stir(&self) {
        // The thread may have ended.
        let _ = self.stir.send(());
    }

    /// Ends it: no group is started any more. If the cluster does not answer, that is not waited for.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.stir();
        let _ = lock(&self.ended).recv_timeout(ABSENT_AFTER);
    }
}

/// A group as this node sees it.
struct Known {
    handle: Arc<Handle>,
    watching: Watching,
    /// When its server was found to have failed here.
    failed: Option<Time>,
    /// When its server was stopped for another node, which takes a moment to take the lease.
    yielded: Option<Time>,
}

struct Coordinator {
    surface: Surface,
    /// Wakes this thread.
    stir: Sender<()>,
    /// The states of groups that others wait for, as they were told last.
    standing: BTreeSet<String>,
    known: BTreeMap<Name, Known>,
    /// How often the groups had been replaced when servers last read their configuration.
    applied: Option<u64>,
    heard: Heard,
    /// Groups that cannot be had here, with the reason, which is logged once.
    refused: BTreeMap<Name, String>,
    /// The last thing that was wrong with the cluster as a whole.
    complaint: Option<String>,
    count: u64,
    /// When the last beat was sent, and since when none was late.
    beaten: Option<Time>,
    up: Time,
}

impl Coordinator {
    fn new(surface: Surface, stir: Sender<()>) -> Coordinator {
        Coordinator {
            surface,
            stir,
            standing: BTreeSet::new(),
            known: BTreeMap::new(),
            applied: None,
            heard: Heard::default(),
            refused: BTreeMap::new(),
            complaint: None,
            // Higher than that of an agent that ran here before.
            count: now().as_nanos(),
            beaten: None,
            up: now(),
        }
    }

    fn stir(&self) {
        self.known.values().for_each(|known| known.watching.stir());
    }

    fn turn(&mut self) {
        let complaint = self.try_turn().err();
        if let Some(complaint) = complaint.as_ref().filter(|new| self.complaint.as_ref() != Some(new)) {
            eprintln!("holdfast: {complaint}");
        }
        self.complaint = complaint;
    }

    fn try_turn(&mut self) -> Result<(), String> {
        let store = &self.surface.store;
        let unread = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| format!("cannot read {what} in {store}: {error}")
        };
        let roster = self.surface.records.roster().map_err(unread("the configuration"))?;
        let roster = roster.ok_or_else(|| not_begun(store))?;
        let membership = Roster::decode(&roster).map_err(|error| error.to_string())?.membership;
        let stir = self.stir.clone();
        let notified = || -> Notified {
            let stir = stir.clone();
            Box::new(move || {
                // The thread may have ended.
                let _ = stir.send(());
            })
        };
        self.surface.records.watch(&notified).map_err(unread("changes of the configuration"))?;
        let asked = now();
        let said = self.surface.records.nodes().map_err(unread("what nodes say"))?;
        self.heard.listen(asked, now(), beats_of(said).collect());
        self.reconcile(&membership);
        if self.applied.replace(membership.applied()).is_some_and(|before| before != membership.applied()) {
            self.surface.groups.reload();
        }
        self.act(&membership);
        self.beat().map_err(|error| format!("cannot tell other nodes that this one is there: {error}"))?;
        if membership.duty(&self.surface.node).is_none() {
            let node = &self.surface.node;
            return Err(format!("{node} is no node of the cluster: run `holdfast cluster add {node}`"));
        }
        Ok(())
    }

    /// Has the groups of the configuration, and no others.
    fn reconcile(&mut self, membership: &Membership) {
        let wanted: BTreeMap<Name, Group> = membership
            .groups()
            .filter_map(|name| {
                Some((name.clone(), Group::in_store(membership.group(name)?, &self.surface.store)))
            })
            .collect();
        self.surface.launch.groups.store(wanted.len(), Ordering::Relaxed);
        let is_gone = |(name, known): (&Name, &Known)| {
            (wanted.get(name) != Some(known.handle.config())).then(|| name.clone())
        };
        for name in self.known.iter().filter_map(is_gone).collect::<Vec<_>>() {
            self.surface.groups.remove(name.as_str());
            if let Some(known) = self.known.remove(&name) {
                known.handle.end();
            }
        }
        self.refused.retain(|name, _| wanted.contains_key(name));
        for (name, config) in
            wanted.into_iter().filter(|(name, _)| !self.known.contains_key(name)).collect::<Vec<_>>()
        {
            match self.make(&name, &config) {
                Ok(known) => {
                    self.refused.remove(&name);
                    self.surface.groups.add(Arc::clone(&known.handle));
                    self.known.insert(name, known);
                }
                Err(why) => {
                    if self.refused.get(&name) != Some(&why) {
                        eprintln!("holdfast: the group {name} cannot be served here: {why}");
                        self.refused.insert(name, why);
                    }
                }
            }
        }
    }

    fn make(&self, name: &Name, config: &Group) -> Result<Known, String> {
        let Surface { node, records, network, launch, .. } = &self.surface;
        let unusable = |error: io::Error| format!("its records cannot be used: {error}");
        let records = records.group(name.as_str()).map_err(unusable)?;
        let shared = Shared::Records(Arc::clone(&records));
        let handle = Arc::new(Handle::start(config, shared, launch, Arc::clone(network))?);
        let watching = Watching::start(node, name.as_str(), records).map_err(unusable)?;
        Ok(Known { handle, watching, failed: None, yielded: None })
    }

    /// Has each group do what is to be done about it now.
    fn act(&mut self, membership: &Membership) {
        let now = now();
        let sights =
            self.known.iter().filter_map(|(name, known)| Some((name.clone(), known.watching.sight(now)?)));
        let mut standing: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for (node, beat) in self.heard.beats(now) {
            for group in beat.standing().filter_map(|group| Name::new(group).ok()) {
                standing.entry(group).or_default().insert(node.clone());
            }
        }
        let leases = sights.collect();
        let surroundings = Surroundings { membership, nodes: self.heard.presences(now), leases, standing };
        let mut tasks = surroundings.tasks(&self.surface.node);
        for (name, known) in &mut self.known {
            if let Some(task) = tasks.remove(name) {
                known.act(task, now);
            }
        }
    }

    /// Tells other nodes what this one does, if it is time.
    fn beat(&mut self) -> io::Result<()> {
        let sent = now();
        let groups = self.surface.groups.statuses();
        let awaited = |group: &GroupStatus| format!("{} {}", group.name, group.state.word());
        let standing: BTreeSet<String> = groups.iter().map(awaited).collect();
        let is_new = standing != self.standing;
        if !is_new && self.beaten.is_some_and(|beaten| sent.since(beaten) + POLL / 2 < BEAT) {
            return Ok(());
        }
        if self.beaten.is_some_and(|beaten| sent.since(beaten) > ABSENT_AFTER) {
            self.up = sent;
        }
        self.beaten = Some(sent);
        self.count += 1;
        let beat = Beat {
            count: self.count,
            up_ms: u64::try_from(sent.since(self.up).as_millis()).unwrap_or(u64::MAX),
            status: NodeStatus {
                node: self.surface.node.to_string(),
                has_link: self.surface.has_link.load(Ordering::Relaxed),
                groups: groups.into_iter().filter(|group| group.state != State::Stopped).collect(),
            },
        };
        let says = serde_json::to_vec(&beat)?;
        self.surface.records.set_node(self.surface.node.as_str(), Some(&says))?;
        if is_new {
            self.standing = standing;
            self.notify();
        }
        Ok(())
    }

    /// Has others look at once. Nobody waits for them, and they look soon anyway.
    fn notify(&self) {
        let records = Arc::clone(&self.surface.records);
        let notify = move || drop(records.notify());
        drop(thread::Builder::new().name("notify".to_owned()).spawn(notify));
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // Others need not find out by its silence.
        let _ = self.surface.records.set_node(self.surface.node.as_str(), None);
        self.notify();
    }
}

impl Known {
    fn act(&mut self, task: Task, now: Time) {
        let state = self.handle.status().state;
        self.failed = (state == State::Failed).then(|| self.failed.unwrap_or(now));
        match (task, state) {
            (Task::Stand(delay), State::Stopped) => {
                if self.yielded.is_none_or(|yielded| now.since(yielded) > YIELDED) {
                    self.stand(delay);
                }
            }
            (Task::Stand(delay), State::Failed) => {
                if self.failed.is_some_and(|failed| now.since(failed) > RETRY) {
                    self.failed = Some(now);
                    self.stand(delay);
                }
            }
            (Task::Rest, State::Standby | State::Failed) => self.handle.stop_soon(),
            // Clients may have connected here already: a move now would make them wait for two starts. A start that hangs fails.
            (Task::Yield, State::Starting) => {}
            (Task::Yield | Task::Quit, State::Stopped) => {}
            (Task::Yield | Task::Quit, _) => {
                self.yielded = Some(now);
                self.handle.stop_soon();
            }
            (Task::Stand(_) | Task::Rest, _) => {}
        }
    }

    fn stand(&self, delay: Duration) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.handle.stand(Candidate { delay_ms, watched: self.watching.watched() });
    }
}

#[cfg(test)]
mod tests;
