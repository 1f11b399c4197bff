//! The nodes and groups of a cluster, and what administrators want of them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::config::{ClusterConfig, GroupConfig};
use crate::limits::NODES_MAX;
use crate::name::Name;
use crate::observed::Observed;

/// What an administrator wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duty {
    /// It serves.
    Active,
    /// It is to be emptied.
    Draining,
    /// It is known to be off, whatever others hear of it.
    Fenced,
}

/// The nodes and groups of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    nodes: BTreeMap<Name, Duty>,
    groups: BTreeMap<Name, Group>,
    /// How often the groups were replaced.
    #[serde(default)]
    applied: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    #[serde(flatten)]
    config: GroupConfig,
    /// Where an administrator moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wanted: Option<Name>,
}

/// What an administrator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes a node a member.
    Add(Name),
    /// Takes a node out. It must be empty, or known to be off.
    Remove(Name),
    /// Empties a node, and keeps it empty.
    Drain(Name),
    /// Gives a node groups again.
    Undrain(Name),
    /// Declares that a node is off. Others take its groups without waiting, so it must be.
    Fence(Name),
    /// Moves a group to a node, where it stays while that node is up.
    Move(Name, Name),
    /// Replaces the groups.
    Apply(ClusterConfig),
}

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such node.
    UnknownNode(Name),
    /// There is no such group.
    UnknownGroup(Name),
    /// The node is a member.
    AlreadyMember(Name),
    /// The cluster has [`NODES_MAX`] nodes.
    TooManyNodes,
    /// The node serves this group.
    StillServes(Name, Name),
    /// The node is to be emptied, or off.
    NotActive(Name),
    /// The groups name these nodes, which are no members.
    UnknownPreferences(Vec<Name>),
    /// These groups are not in the new list, and nodes serve them.
    ServedGroups(Vec<Name>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[Name]| names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
        match self {
            Refusal::UnknownNode(node) => write!(f, "{node} is not a node of the cluster: add it first"),
            Refusal::UnknownGroup(group) => write!(f, "the cluster has no group {group}"),
            Refusal::AlreadyMember(node) => write!(f, "{node} is a node of the cluster already"),
            Refusal::TooManyNodes => write!(f, "the cluster has {NODES_MAX} nodes, which is the limit"),
            Refusal::StillServes(node, group) => {
                write!(f, "{node} serves the group {group}: drain it first, or fence it if it is off")
            }
            Refusal::NotActive(node) => write!(f, "{node} is drained or fenced: undrain it first"),
            Refusal::UnknownPreferences(nodes) => {
                write!(f, "groups name nodes that the cluster does not have: {}", list(nodes))
            }
            Refusal::ServedGroups(groups) => {
                write!(f, "these groups are served, but not in the file: {}", list(groups))
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl Membership {
    /// Executes a command, or refuses it and changes nothing.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn execute(&mut self, command: Command, observed: &Observed) -> Result<(), Refusal> {
        match command {
            Command::Add(node) if self.nodes.contains_key(&node) => Err(Refusal::AlreadyMember(node)),
            Command::Add(_) if self.nodes.len() >= NODES_MAX => Err(Refusal::TooManyNodes),
            Command::Add(node) => {
                self.nodes.insert(node, Duty::Active);
                Ok(())
            }
            Command::Remove(node) => self.remove(node, observed),
            Command::Drain(node) => self.set(node, Duty::Draining),
            Command::Undrain(node) => self.set(node, Duty::Active),
            Command::Fence(node) => self.set(node, Duty::Fenced),
            Command::Move(group, node) => self.move_group(group, node),
            Command::Apply(config) => self.apply(config, observed),
        }
    }

    fn set(&mut self, node: Name, duty: Duty) -> Result<(), Refusal> {
        let Some(found) = self.nodes.get_mut(&node) else { return Err(Refusal::UnknownNode(node)) };
        *found = duty;
        if duty != Duty::Active {
            self.forget_wishes(&node);
        }
        Ok(())
    }

    fn remove(&mut self, node: Name, observed: &Observed) -> Result<(), Refusal> {
        let Some(duty) = self.duty(&node) else { return Err(Refusal::UnknownNode(node)) };
        let served = observed.owners.iter().find(|(_, owner)| **owner == node);
        if let (Some((group, _)), true) = (served, duty != Duty::Fenced) {
            return Err(Refusal::StillServes(node, group.clone()));
        }
        self.nodes.remove(&node);
        self.forget_wishes(&node);
        Ok(())
    }

    fn move_group(&mut self, group: Name, node: Name) -> Result<(), Refusal> {
        let duty = self.duty(&node);
        match (self.groups.get_mut(&group), duty) {
            (None, _) => Err(Refusal::UnknownGroup(group)),
            (_, None) => Err(Refusal::UnknownNode(node)),
            (_, Some(Duty::Draining | Duty::Fenced)) => Err(Refusal::NotActive(node)),
            (Some(found), Some(Duty::Active)) => {
                found.wanted = Some(node);
                Ok(())
            }
        }
    }

    fn apply(&mut self, config: ClusterConfig, observed: &Observed) -> Result<(), Refusal> {
        let named = config.groups.iter().flat_map(|group| &group.nodes);
        let mut unknown: Vec<Name> = named.filter(|node| !self.nodes.contains_key(*node)).cloned().collect();
        unknown.sort();
        unknown.dedup();
        if !unknown.is_empty() {
            return Err(Refusal::UnknownPreferences(unknown));
        }
        let is_kept = |name: &Name| config.groups.iter().any(|group| group.name == *name);
        let served = self.groups.keys().filter(|name| !is_kept(name) && observed.owners.contains_key(*name));
        let served: Vec<Name> = served.cloned().collect();
        if !served.is_empty() {
            return Err(Refusal::ServedGroups(served));
        }
        let mut before = std::mem::take(&mut self.groups);
        self.groups.extend(config.groups.into_iter().map(|config| {
            let wanted = before.remove(&config.name).and_then(|group| group.wanted);
            (config.name.clone(), Group { config, wanted })
        }));
        self.applied += 1;
        Ok(())
    }

    /// Nothing is wanted on a node any more.
    fn forget_wishes(&mut self, node: &Name) {
        for group in self.groups.values_mut() {
            group.wanted.take_if(|wanted| wanted == node);
        }
    }

    /// Returns all nodes in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = (&Name, Duty)> {
        self.nodes.iter().map(|(node, duty)| (node, *duty))
    }

    /// Returns what is wanted of a node; none if it is no member.
    #[must_use]
    pub fn duty(&self, node: &Name) -> Option<Duty> {
        self.nodes.get(node).copied()
    }

    /// Returns the names of all groups, in their order.
    pub fn groups(&self) -> impl Iterator<Item = &Name> {
        self.groups.keys()
    }

    /// Returns how often the groups were replaced. Whenever they are, even by the same ones, servers read their configuration again.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns what the configuration says of a group.
    #[must_use]
    pub fn group(&self, name: &Name) -> Option<&GroupConfig> {
        self.groups.get(name).map(|group| &group.config)
    }

    /// Returns the node that an administrator moved a group to.
    #[must_use]
    pub fn wanted(&self, group: &Name) -> Option<&Name> {
        self.groups.get(group).and_then(|group| group.wanted.as_ref())
    }

    /// Returns the nodes that a group prefers, the best one first.
    pub(crate) fn preferred(&self, group: &Name) -> impl Iterator<Item = &Name> {
        self.groups.get(group).into_iter().flat_map(|group| &group.config.nodes)
    }
}

#[cfg(test)]
mod tests;
