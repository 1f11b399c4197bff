//! What one node does about each group, given what it knows at the moment.
//!
//! A server that is to serve a group first gets ready: it connects to the store, and *stands* for the lease. Only when it does so does
//! the node that has the group stop serving it. So a move costs no more than a stop and an opening, and a node that cannot serve
//! takes nothing away from one that can. If the owner is gone, the standing server takes the lease once it has run out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{SILENT, TURN, WATCH};
use crate::membership::{Duty, Membership};
use crate::name::Name;
use crate::observed::{Observed, Presence};
use crate::placement::{Move, candidates, plan};
use crate::record::LeaseState;

/// What a node sees of a group's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Who took it last.
    pub owner: Name,
    /// Whether it is still held.
    pub state: LeaseState,
    /// For how long it has been seen unchanged.
    pub unchanged: Duration,
}

/// What a node does about a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Nothing. A server that stands for the lease is stopped; one that has it serves on.
    Rest,
    /// Has a server stand for the lease, unless there is one already, which waits so much longer than it must.
    Stand(Duration),
    /// Stops its server, since another node stands for the group.
    Yield,
    /// Stops its server even if no other node can serve: the node is fenced, or not a member.
    Quit,
}

/// What one node knows.
#[derive(Clone, Debug)]
pub struct Surroundings<'s> {
    /// The nodes and groups.
    pub membership: &'s Membership,
    /// The nodes that were heard of. Others are absent.
    pub nodes: BTreeMap<Name, Presence>,
    /// The leases of groups that were ever served.
    pub leases: BTreeMap<Name, Sight>,
    /// The nodes that stand for each group.
    pub standing: BTreeMap<Name, BTreeSet<Name>>,
}

impl Surroundings<'_> {
    /// Returns which node serves each group. The owner of a lease that was not renewed lately is none.
    #[must_use]
    pub fn observed(&self) -> Observed {
        let serves = |(group, sight): (&Name, &Sight)| {
            let is_served = sight.state == LeaseState::Held && sight.unchanged < WATCH;
            is_served.then(|| (group.clone(), sight.owner.clone()))
        };
        Observed { nodes: self.nodes.clone(), owners: self.leases.iter().filter_map(serves).collect() }
    }

    /// Returns what `node` does about each group.
    #[must_use]
    pub fn tasks(&self, node: &Name) -> BTreeMap<Name, Task> {
        let observed = self.observed();
        let moves = plan(self.membership, &observed);
        let may_serve = self.membership.duty(node).is_some_and(|duty| duty != Duty::Fenced);
        let task = |group: &Name| {
            if !may_serve {
                return Task::Quit;
            }
            let change = moves.iter().find(|change| change.group == *group);
            self.task(node, group, change, &observed)
        };
        self.membership.groups().map(|group| (group.clone(), task(group))).collect()
    }

    fn task(&self, node: &Name, group: &Name, change: Option<&Move>, observed: &Observed) -> Task {
        let is_owner = observed.owners.get(group) == Some(node);
        match change {
            Some(change) if is_owner && self.stands(group, &change.to) => Task::Yield,
            // Its server may be gone with an agent that was restarted.
            _ if is_owner => Task::Stand(Duration::ZERO),
            Some(change) if change.to == *node => Task::Stand(Duration::ZERO),
            _ => self.stand_by(node, group, observed),
        }
    }

    fn stands(&self, group: &Name, node: &Name) -> bool {
        self.standing.get(group).is_some_and(|nodes| nodes.contains(node))
    }

    /// What a node does about a group that is not meant for it: takes it nevertheless, if those that come before do not.
    fn stand_by(&self, node: &Name, group: &Name, observed: &Observed) -> Task {
        let order = candidates(self.membership, observed, group);
        let Some(before) = order.iter().position(|candidate| candidate == node) else { return Task::Rest };
        let wait = TURN * u32::try_from(before).unwrap_or(u32::MAX);
        let ready = |sight: &Sight| match sight.state {
            LeaseState::Held => SILENT,
            LeaseState::Released | LeaseState::OfferedTo(_) => Duration::ZERO,
        };
        match self.leases.get(group) {
            Some(sight) if sight.unchanged >= ready(sight) + wait => Task::Stand(wait),
            _ => Task::Rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClusterConfig;
    use crate::membership::Command;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    const STAND: Task = Task::Stand(Duration::ZERO);
    const HELD: Duration = Duration::from_millis(300);
    const ALL: [&str; 3] = ["a", "b", "c"];

    /// Nodes a, b and c; node a serves the group home.
    fn membership() -> Membership {
        let mut membership = Membership::default();
        let text = "[[group]]\nname = \"home\"\naddresses = [\"10.0.0.5/24\"]\n";
        let nodes = ALL.map(|node| Command::Add(name(node)));
        for command in nodes.into_iter().chain([Command::Apply(ClusterConfig::parse(text).unwrap())]) {
            membership.execute(command, &Observed::default()).unwrap();
        }
        membership
    }

    fn around(membership: &Membership, state: LeaseState, unchanged: Duration) -> Surroundings<'_> {
        Surroundings {
            membership,
            nodes: ALL.map(|node| (name(node), Presence::Steady)).into(),
            leases: [(name("home"), Sight { owner: name("a"), state, unchanged })].into(),
            standing: BTreeMap::new(),
        }
    }

    fn tasks(around: &Surroundings<'_>) -> [Task; 3] {
        ALL.map(|node| around.tasks(&name(node))[&name("home")])
    }

    #[test]
    fn a_group_that_is_served_stays() {
        let membership = membership();
        assert_eq!(tasks(&around(&membership, LeaseState::Held, HELD)), [STAND, Task::Rest, Task::Rest]);
        assert_eq!(
            tasks(&around(&membership, LeaseState::Held, SILENT - Duration::from_millis(1))),
            [STAND, Task::Rest, Task::Rest]
        );
    }

    #[test]
    fn a_group_that_was_never_served_is_stood_for_by_one_node() {
        let membership = membership();
        let mut around = around(&membership, LeaseState::Held, HELD);
        around.leases.clear();
        assert_eq!(tasks(&around), [STAND, Task::Rest, Task::Rest]);
    }

    #[test]
    fn an_owner_yields_only_once_the_next_one_stands() {
        let mut membership = membership();
        membership.execute(Command::Move(name("home"), name("c")), &Observed::default()).unwrap();
        let mut around = around(&membership, LeaseState::Held, HELD);
        assert_eq!(tasks(&around), [STAND, Task::Rest, STAND]);
        around.standing.insert(name("home"), [name("b")].into());
        assert_eq!(tasks(&around), [STAND, Task::Rest, STAND], "b is not meant");
        around.standing.insert(name("home"), [name("c")].into());
        assert_eq!(tasks(&around), [Task::Yield, Task::Rest, STAND]);
        // Released: the one that stands takes it, and others only if it does not.
        around.leases.get_mut(&name("home")).unwrap().state = LeaseState::Released;
        assert_eq!(tasks(&around), [Task::Rest, Task::Rest, STAND]);
    }

    #[test]
    fn nodes_take_turns_for_a_group_whose_owner_is_silent() {
        let membership = membership();
        let mut around = around(&membership, LeaseState::Held, SILENT);
        // a is heard of, so that it may start another server.
        assert_eq!(tasks(&around), [STAND, Task::Rest, Task::Rest]);
        around.leases.get_mut(&name("home")).unwrap().unchanged = SILENT + TURN;
        assert_eq!(tasks(&around), [STAND, Task::Stand(TURN), Task::Rest]);
        around.leases.get_mut(&name("home")).unwrap().unchanged = WATCH + TURN * 2;
        assert_eq!(tasks(&around), [STAND, Task::Stand(TURN), Task::Stand(TURN * 2)]);
        // a is absent: b is the next at once.
        around.nodes.insert(name("a"), Presence::Absent);
        around.leases.get_mut(&name("home")).unwrap().unchanged = HELD;
        assert_eq!(tasks(&around)[1..], [STAND, Task::Rest]);
    }

    #[test]
    fn a_drained_node_serves_until_another_stands_and_a_fenced_one_stops_at_once() {
        let mut membership = membership();
        membership.execute(Command::Drain(name("a")), &Observed::default()).unwrap();
        let mut drained = around(&membership, LeaseState::Held, HELD);
        assert_eq!(tasks(&drained)[..2], [STAND, STAND]);
        drained.standing.insert(name("home"), [name("b")].into());
        assert_eq!(tasks(&drained)[..2], [Task::Yield, STAND]);
        let mut fenced = membership.clone();
        fenced.execute(Command::Fence(name("a")), &Observed::default()).unwrap();
        assert_eq!(tasks(&around(&fenced, LeaseState::Held, HELD))[..2], [Task::Quit, STAND]);
        let mut removed = fenced;
        removed.execute(Command::Remove(name("a")), &Observed::default()).unwrap();
        assert_eq!(tasks(&around(&removed, LeaseState::Held, HELD))[0], Task::Quit);
    }
}
