//! Which node serves which group: a plan that follows from the nodes that are up and from what administrators want.
//!
//! Each node makes the plan for itself. Owners offer the groups that it moves away from them, and others take what nobody has;
//! that two nodes see different things for a moment does no harm, since leases decide.
//!
//! # What a plan follows
//! - A group is on the node that an administrator moved it to; or the first of its preferred nodes; or, if none of these is
//!   there, on any node, so that nodes have as many groups as each other.
//! - Nothing moves without need. A group that nobody serves, or whose node is to be emptied, moves at once, with all others of
//!   its kind. For the sake of preferences and of balance, one group moves at a time, after all those, and only to nodes that
//!   have been there for a while: a node that comes and goes attracts nothing.
//! - While nobody and nothing changes, no group moves twice, however many plans are made and whichever of their moves come first.

use std::collections::{BTreeMap, BTreeSet};

use crate::membership::{Duty, Membership};
use crate::name::Name;
use crate::observed::{Observed, Presence};

/// A group that is to change its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The group.
    pub group: Name,
    /// The node that serves it, and has to offer it; none if it may just be taken.
    pub from: Option<Name>,
    /// The node that it goes to.
    pub to: Name,
    /// Why.
    pub why: Why,
}

/// Why a group moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Nobody serves it.
    Unserved,
    /// Its node is to be emptied.
    Drained,
    /// An administrator wants it there.
    Wanted,
    /// It prefers that node.
    Preferred,
    /// Its node has more groups than that one.
    Balance,
}

impl Why {
    /// Whether it moves at once, together with others.
    fn is_urgent(self) -> bool {
        self <= Why::Wanted
    }
}

/// Returns the groups that are to move now.
#[must_use]
pub fn plan(membership: &Membership, observed: &Observed) -> Vec<Move> {
    let view = View { membership, observed };
    let moves = targets(&view).into_iter().filter_map(|(group, to)| {
        let owner = view.owner(group);
        if owner == Some(to) {
            return None;
        }
        let from = owner.cloned();
        Some(Move { group: group.clone(), why: view.why(group, to), from, to: to.clone() })
    });
    let (urgent, others): (Vec<Move>, Vec<Move>) = moves.partition(|change| change.why.is_urgent());
    if urgent.is_empty() { others.into_iter().take(1).collect() } else { urgent }
}

/// Returns the nodes that may take a group if it is not served, the best one first. A node waits longer the more nodes come
/// before it.
#[must_use]
pub fn candidates(membership: &Membership, observed: &Observed, group: &Name) -> Vec<Name> {
    let view = View { membership, observed };
    let targets = targets(&view);
    let mut nodes: Vec<&Name> = targets.get(group).copied().into_iter().collect();
    nodes.extend(view.wishes(group).filter(|node| view.can_take(node)));
    nodes.extend(view.takers());
    let mut seen = BTreeSet::new();
    nodes.into_iter().filter(|node| seen.insert(*node)).cloned().collect()
}

struct View<'v> {
    membership: &'v Membership,
    observed: &'v Observed,
}

impl<'v> View<'v> {
    fn presence(&self, node: &Name) -> Presence {
        let is_fenced = self.membership.duty(node) == Some(Duty::Fenced);
        let seen = self.observed.nodes.get(node).copied().unwrap_or(Presence::Absent);
        if is_fenced { Presence::Absent } else { seen }
    }

    fn is_active(&self, node: &Name) -> bool {
        self.membership.duty(node) == Some(Duty::Active)
    }

    /// Whether a node may be given groups.
    fn can_take(&self, node: &Name) -> bool {
        self.is_active(node) && self.presence(node) != Presence::Absent
    }

    /// Returns the nodes that may be given groups; if there are none, those that are there though they are to be emptied: that
    /// is better than nobody.
    fn takers(&self) -> Vec<&'v Name> {
        let nodes = self.membership.nodes();
        let present: Vec<&Name> = nodes
            .filter(|(node, duty)| *duty != Duty::Fenced && self.presence(node) != Presence::Absent)
            .map(|(node, _)| node)
            .collect();
        let active: Vec<&Name> = present.iter().copied().filter(|node| self.is_active(node)).collect();
        if active.is_empty() { present } else { active }
    }

    /// Returns the node that serves a group, if it is up.
    fn owner(&self, group: &Name) -> Option<&'v Name> {
        let owner = self.observed.owners.get(group)?;
        let is_member = self.membership.duty(owner).is_some();
        (is_member && self.presence(owner) != Presence::Absent).then_some(owner)
    }

    /// Returns the node that an administrator moved a group to, then those that it prefers.
    fn wishes(&self, group: &Name) -> impl Iterator<Item = &'v Name> {
        self.membership.wanted(group).into_iter().chain(self.membership.preferred(group))
    }

    /// Returns where wishes put a group, if they do.
    fn wish(&self, group: &Name) -> Option<&'v Name> {
        let stays = self.owner(group).filter(|owner| self.is_active(owner));
        let wanted = self.membership.wanted(group);
        let is_good = |node: &&Name| match self.presence(node) {
            Presence::Absent => false,
            Presence::Steady => true,
            Presence::Returning => stays.is_none() || stays == Some(node) || wanted == Some(node),
        };
        self.wishes(group).filter(|node| self.is_active(node)).find(is_good)
    }

    fn why(&self, group: &Name, to: &Name) -> Why {
        match self.owner(group) {
            None => Why::Unserved,
            Some(owner) if !self.is_active(owner) => Why::Drained,
            Some(_) if self.membership.wanted(group) == Some(to) => Why::Wanted,
            Some(_) if self.membership.preferred(group).any(|node| node == to) => Why::Preferred,
            Some(_) => Why::Balance,
        }
    }
}

/// Returns the node of each group once all moves are made. Groups that no node can serve are left out.
fn targets<'v>(view: &View<'v>) -> BTreeMap<&'v Name, &'v Name> {
    let takers = view.takers();
    let mut loads: BTreeMap<&Name, usize> = takers.iter().map(|node| (*node, 0)).collect();
    let mut targets = BTreeMap::new();
    let mut homeless = Vec::new();
    let mut movable = Vec::new();
    for group in view.membership.groups() {
        let stays = view.owner(group).filter(|owner| loads.contains_key(*owner));
        let wish = view.wish(group);
        match wish.or(stays) {
            Some(node) => {
                *loads.entry(node).or_default() += 1;
                targets.insert(group, node);
                if wish.is_none() {
                    movable.push(group);
                }
            }
            None => homeless.push(group),
        }
    }
    let is_steady = |node: &Name| view.presence(node) == Presence::Steady;
    for group in homeless {
        let best = takers.iter().copied().min_by_key(|node| (!is_steady(node), loads[*node], *node));
        let Some(node) = best else { continue };
        *loads.entry(node).or_default() += 1;
        targets.insert(group, node);
        movable.push(group);
    }
    balance(&mut targets, &mut loads, &movable, is_steady);
    targets
}

/// Moves groups without wishes from nodes that have at least two more than another one.
fn balance<'v>(
    targets: &mut BTreeMap<&'v Name, &'v Name>,
    loads: &mut BTreeMap<&'v Name, usize>,
    movable: &[&'v Name],
    is_steady: impl Fn(&Name) -> bool,
) {
    loop {
        let lightest =
            loads.iter().filter(|(node, _)| is_steady(node)).min_by_key(|(node, load)| (**load, **node));
        let Some((to, least)) = lightest.map(|(node, load)| (*node, *load)) else { return };
        let from_most = movable.iter().max_by_key(|group| (loads[targets[**group]], **group)).copied();
        let Some(group) = from_most.filter(|group| loads[targets[*group]] >= least + 2) else { return };
        let from = targets.insert(group, to).expect("it has a target");
        *loads.entry(from).or_default() -= 1;
        *loads.entry(to).or_default() += 1;
    }
}

#[cfg(test)]
mod tests;
