//! The commands of administrators for a cluster of nodes in a Ceph cluster, from any of its nodes. They change the configuration, which
//! all nodes follow; no node needs to run.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use cluster::{BEAT, Command, Duty, Epoch, LeaseRecord, LeaseState, Membership, Name, Observed, Roster};
use rados::{Board, Location};
use serde::Serialize;

use crate::beat::{Beat, beats_of};
use crate::status::{GroupStatus, State};

/// How often a change is tried again if others change the configuration at the same time.
const TRIES: usize = 20;

/// How long a group may take to move before that is reported. It moves on nevertheless.
const MOVE_MAX: Duration = Duration::from_secs(60);

/// Between two looks at whether a group has moved.
const LOOK: Duration = Duration::from_millis(200);

/// The cluster, as an administrator reaches it.
pub struct Administration {
    location: Location,
    board: Board,
}

/// A cluster at the moment.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// Where its configuration and its groups are.
    pub store: String,
    /// How often the configuration was changed.
    pub revision: u64,
    /// Its nodes, in the order of their names.
    pub nodes: Vec<NodeView>,
    /// Its groups, in the order of their names.
    pub groups: Vec<GroupView>,
}

/// A node of a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// Its name.
    pub name: Name,
    /// What is wanted of it.
    pub duty: Duty,
    /// Whether heartbeats of its agent arrive.
    pub is_up: bool,
    /// Whether its network interface has a link; true if that is unknown.
    pub has_link: bool,
}

/// A group of a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct GroupView {
    /// Its name.
    pub name: Name,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The nodes that it prefers, the best one first.
    pub nodes: Vec<Name>,
    /// The node that an administrator moved it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<Name>,
    /// The node that has its lease; none if it was released, or never taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// How often its lease was taken.
    pub epoch: u32,
    /// The nodes whose servers stand by.
    pub standby: Vec<Name>,
    /// What the owner says of it; none if that is not up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<GroupStatus>,
    /// Why other nodes failed to serve it.
    pub failures: BTreeMap<Name, String>,
}

impl Administration {
    /// Connects to the Ceph cluster.
    ///
    /// # Errors
    /// A sentence that says why that cannot be done.
    pub fn open(location: &Location) -> Result<Administration, String> {
        let board = Board::open(location).map_err(|error| error.to_string())?;
        Ok(Administration { location: location.clone(), board })
    }

    fn failed(&self, action: &str) -> impl Fn(io::Error) -> String + use<> {
        let (action, location) = (action.to_owned(), self.location.clone());
        move |error| format!("cannot {action} in {location}: {error}; look at `ceph status`")
    }

    /// Begins a cluster without nodes and groups. Returns the revision of its configuration.
    ///
    /// # Errors
    /// There is one already, or it cannot be written.
    pub fn init(&self) -> Result<u64, String> {
        let roster = Roster { revision: 1, ..Roster::default() };
        let made = self.board.set_cluster(None, &roster.encode());
        match made.map_err(self.failed("write the configuration"))? {
            true => Ok(roster.revision),
            false => {
                Err(format!("there is a cluster in {} already: see `holdfast cluster status`", self.location))
            }
        }
    }

    fn roster(&self) -> Result<(Roster, u64), String> {
        let found = self.board.cluster().map_err(self.failed("read the configuration"))?;
        let (bytes, version) = found.ok_or_else(|| not_begun(&self.location))?;
        Ok((Roster::decode(&bytes).map_err(|error| error.to_string())?, version))
    }

    /// Changes the configuration. Returns its revision.
    ///
    /// # Errors
    /// The command makes no sense now, or the configuration cannot be written: a sentence.
    pub fn execute(&self, command: &Command) -> Result<u64, String> {
        for _ in 0..TRIES {
            let (mut roster, version) = self.roster()?;
            let owners = self.leases(&roster.membership)?.into_iter().filter_map(|(group, lease)| {
                (lease.state == LeaseState::Held).then(|| (group, lease.owner.node().clone()))
            });
            let observed = Observed { owners: owners.collect(), ..Observed::default() };
            roster.membership.execute(command.clone(), &observed).map_err(|refusal| refusal.to_string())?;
            roster.revision += 1;
            let made = self.board.set_cluster(Some(version), &roster.encode());
            if made.map_err(self.failed("write the configuration"))? {
                // Nodes that are not told look soon anyway.
                let _ = self.board.notify();
                return Ok(roster.revision);
            }
        }
        Err("others change the configuration all the time: try again".to_owned())
    }

    /// Declares that a node is off: has the Ceph cluster refuse what it may still send, and others take its groups at once.
    /// Returns the revision of the configuration, and the groups.
    ///
    /// # Errors
    /// There is no such node, or the Ceph cluster does not do it: a sentence.
    pub fn fence(&self, node: &Name) -> Result<(u64, Vec<Name>), String> {
        let revision = self.execute(&Command::Fence(node.clone()))?;
        let mut released = Vec::new();
        for (name, lease) in self.leases(&self.roster()?.0.membership)? {
            if lease.owner.node() != node || lease.state != LeaseState::Held {
                continue;
            }
            let group = self.board.group(name.as_str()).map_err(self.failed("open a namespace"))?;
            group.shut_out(lease.owner.addresses()).map_err(self.failed(&format!("shut out {node}")))?;
            group.release_for(lease.owner.instance()).map_err(self.failed(&format!("release {name}")))?;
            released.push(name);
        }
        let _ = self.board.notify();
        Ok((revision, released))
    }

    fn leases(&self, membership: &Membership) -> Result<BTreeMap<Name, LeaseRecord>, String> {
        let mut leases = BTreeMap::new();
        for name in membership.groups() {
            let group = self.board.group(name.as_str()).map_err(self.failed("open a namespace"))?;
            let lease = group.lease().map_err(self.failed(&format!("read the lease of {name}")))?;
            if let Some((bytes, _)) = lease {
                let lease =
                    LeaseRecord::decode(&bytes).map_err(|damage| format!("the group {name}: {damage}"))?;
                leases.insert(name.clone(), lease);
            }
        }
        Ok(leases)
    }

    fn beats(&self) -> Result<BTreeMap<Name, Beat>, String> {
        let said = self.board.nodes().map_err(self.failed("read what nodes say"))?;
        Ok(beats_of(said).collect())
    }

    /// Returns what nodes say that are up: those that said something new within a moment.
    fn heard(&self) -> Result<BTreeMap<Name, Beat>, String> {
        let before = self.beats()?;
        let (begun, mut heard) = (Instant::now(), BTreeMap::new());
        while begun.elapsed() < BEAT * 3 && heard.len() < before.len() {
            thread::sleep(BEAT / 5);
            let is_new =
                |node: &Name, beat: &Beat| before.get(node).is_none_or(|old| old.count != beat.count);
            heard.extend(self.beats()?.into_iter().filter(|(node, beat)| is_new(node, beat)));
        }
        Ok(heard)
    }

    /// Shows the cluster. Takes half a second, or longer if nodes are silent.
    ///
    /// # Errors
    /// It cannot be read: a sentence.
    pub fn status(&self) -> Result<ClusterStatus, String> {
        let heard = self.heard()?;
        let (roster, _) = self.roster()?;
        let mut leases = self.leases(&roster.membership)?;
        let membership = &roster.membership;
        let node = |(name, duty): (&Name, Duty)| {
            let beat = heard.get(name);
            let has_link = beat.is_none_or(|beat| beat.status.has_link);
            NodeView { name: name.clone(), duty, is_up: beat.is_some(), has_link }
        };
        let mut groups = Vec::new();
        for name in membership.groups() {
            let Some(config) = membership.group(name) else { continue };
            let lease = leases.remove(name);
            let held = lease.as_ref().filter(|lease| lease.state == LeaseState::Held);
            let owner = held.map(|lease| lease.owner.node().clone());
            let shown = |node: &Name| said_of(heard.get(node)?, name);
            let with = |state: State| {
                let said = heard.iter().filter_map(|(node, beat)| Some((node.clone(), said_of(beat, name)?)));
                said.filter(move |(_, group)| group.state == state)
            };
            groups.push(GroupView {
                name: name.clone(),
                addresses: config.addresses.iter().map(ToString::to_string).collect(),
                nodes: config.nodes.clone(),
                moved_to: membership.wanted(name).cloned(),
                status: owner.as_ref().and_then(shown).cloned(),
                owner,
                epoch: lease.map_or(Epoch::NONE, |lease| lease.epoch).0,
                standby: with(State::Standby).map(|(node, _)| node).collect(),
                failures: with(State::Failed)
                    .map(|(node, group)| (node, group.reason.clone().unwrap_or_default()))
                    .collect(),
            });
        }
        let nodes = membership.nodes().map(node).collect();
        Ok(ClusterStatus { store: self.location.to_string(), revision: roster.revision, nodes, groups })
    }

    /// Waits until the groups that nodes say they serve are as they should be. `is_done` gets the groups that each node serves.
    ///
    /// # Errors
    /// It takes too long, or the cluster cannot be read: a sentence.
    pub fn wait(
        &self,
        is_done: impl Fn(&BTreeMap<Name, BTreeSet<Name>>) -> bool,
    ) -> Result<Duration, String> {
        let begun = Instant::now();
        loop {
            let serves = |beat: &Beat| {
                let groups = beat.status.groups.iter().filter(|group| group.state == State::Serving);
                groups.filter_map(|group| Name::new(&group.name).ok()).collect()
            };
            let serving = self.beats()?.iter().map(|(node, beat)| (node.clone(), serves(beat))).collect();
            if is_done(&serving) {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > MOVE_MAX {
                return Err(format!(
                    "it is recorded, but not done after {} s: `holdfast cluster status` says why",
                    MOVE_MAX.as_secs()
                ));
            }
            thread::sleep(LOOK);
        }
    }
}

/// Says that nobody has begun a cluster in a store.
pub(crate) fn not_begun(store: &Location) -> String {
    format!("there is no cluster in {store} yet: run `holdfast cluster init`")
}

fn said_of<'b>(beat: &'b Beat, group: &Name) -> Option<&'b GroupStatus> {
    beat.status.groups.iter().find(|status| status.name == group.as_str())
}
