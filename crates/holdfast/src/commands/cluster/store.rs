//! `holdfast cluster` for groups in a Ceph cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use cluster::{ClusterConfig, Command, Duty, Name};
use node::administration::{Administration, ClusterStatus, GroupView, NodeView};
use node::status::{State, milliseconds};
use serde::Serialize;
use server::error::Error;

use super::{Action, details};
use crate::report::{Outcome, as_json, count, print_either};

/// What an administrator asks of the cluster.
pub(super) enum Change {
    Init,
    Apply(PathBuf),
    Execute(Command),
    Fence(Name),
    Status,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Done {
    /// How often the configuration was changed since the cluster began.
    revision: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Name>,
    /// The group that moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Name>,
    /// The groups that the cluster has, or that others take over.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<Name>>,
    /// How long it took until all nodes had followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u64>,
}

impl Change {
    /// Returns what an action asks of the cluster; none if it is for the agent of this machine alone.
    pub(super) fn of(action: &Action) -> Result<Option<Change>, Error> {
        let name = |text: &str| Name::new(text).map_err(|error| Error::usage(error.to_string()));
        Ok(Some(match action {
            Action::Init(_) => Change::Init,
            Action::Apply { file, .. } => Change::Apply(file.clone()),
            Action::Add(node) => Change::Execute(Command::Add(name(&node.name)?)),
            Action::Remove(node) => Change::Execute(Command::Remove(name(&node.name)?)),
            Action::Drain(node) => Change::Execute(Command::Drain(name(&node.name)?)),
            Action::Undrain(node) => Change::Execute(Command::Undrain(name(&node.name)?)),
            Action::Fence { node, yes: true } => Change::Fence(name(&node.name)?),
            Action::Fence { node, .. } => {
                let node = &node.name;
                return Err(Error::usage(format!(
                    "make sure that {node} is off, or cut off from all clients, and confirm it with --yes: it could answer them \
                     until its lease ends. If it is only to be emptied, run `holdfast cluster drain {node}`"
                )));
            }
            Action::Move { group, to, .. } => Change::Execute(Command::Move(name(&group.name)?, name(to)?)),
            Action::Status(_) => Change::Status,
            Action::Metrics
            | Action::Start(_)
            | Action::Stop(_)
            | Action::Monitor(_)
            | Action::Hold(_)
            | Action::Takeover { .. } => return Ok(None),
        }))
    }

    /// Whether only the nodes of a store know it.
    pub(super) fn is_for_stores(&self) -> bool {
        !matches!(self, Change::Status | Change::Execute(Command::Move(..)))
    }

    pub(super) fn run(self, cluster: &Administration, json: bool) -> Outcome {
        let (done, sentence) = match self {
            Change::Init => {
                let revision = cluster.init().map_err(Error::failed)?;
                let sentence = "the cluster has no nodes yet: add each with `holdfast cluster add NODE`";
                (Done { revision, ..Done::default() }, sentence.to_owned())
            }
            Change::Apply(file) => apply(cluster, &file)?,
            Change::Execute(command) => execute(cluster, &command).map_err(Error::failed)?,
            Change::Fence(node) => fence(cluster, node).map_err(Error::failed)?,
            Change::Status => {
                let status = cluster.status().map_err(Error::failed)?;
                print_either(json, &as_json(&status), || text(&status));
                return Ok(ExitCode::SUCCESS);
            }
        };
        print_either(json, &as_json(&done), || format!("{sentence}\n"));
        Ok(ExitCode::SUCCESS)
    }
}

/// Replaces the groups.
fn apply(cluster: &Administration, file: &PathBuf) -> Result<(Done, String), Error> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| Error::usage(format!("{shown}: {error}")))?;
    let config = ClusterConfig::parse(&text).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{shown}, {mistake}")).collect();
        Error::usage(lines.join("\n"))
    })?;
    let groups: Vec<Name> = config.groups.iter().map(|group| group.name.clone()).collect();
    let number = count(groups.len().try_into().unwrap_or(u64::MAX), "group");
    let revision = cluster.execute(&Command::Apply(config)).map_err(Error::failed)?;
    let done = Done { revision, groups: Some(groups), ..Done::default() };
    Ok((done, format!("the cluster has {number} (revision {revision})")))
}

/// Declares that a node is off.
fn fence(cluster: &Administration, node: Name) -> Result<(Done, String), String> {
    let (revision, groups) = cluster.fence(&node)?;
    let names: Vec<&str> = groups.iter().map(Name::as_str).collect();
    let taken = if names.is_empty() { "it had no groups".to_owned() } else { names.join(", ") };
    let sentence = format!("{node} is fenced; others take over: {taken}");
    Ok((Done { revision, node: Some(node), groups: Some(groups), ..Done::default() }, sentence))
}

/// Changes what is wanted, and waits until it is so.
fn execute(cluster: &Administration, command: &Command) -> Result<(Done, String), String> {
    let revision = cluster.execute(command)?;
    let mut done = Done { revision, ..Done::default() };
    let sentence = match command {
        Command::Move(group, node) => {
            let took = milliseconds(
                cluster.wait(|serving| serving.get(node).is_some_and(|groups| groups.contains(group)))?,
            );
            (done.group, done.node, done.milliseconds) =
                (Some(group.clone()), Some(node.clone()), Some(took));
            format!("{node} serves {group} after {took} ms")
        }
        Command::Drain(node) => {
            let took = milliseconds(
                cluster.wait(|serving| serving.get(node).is_none_or(|groups| groups.is_empty()))?,
            );
            (done.node, done.milliseconds) = (Some(node.clone()), Some(took));
            format!("{node} serves nothing after {took} ms")
        }
        Command::Add(node) => {
            done.node = Some(node.clone());
            format!("{node} is a node of the cluster")
        }
        Command::Remove(node) => {
            done.node = Some(node.clone());
            format!("{node} is no node of the cluster any more")
        }
        Command::Undrain(node) => {
            done.node = Some(node.clone());
            format!("{node} is given groups again")
        }
        Command::Fence(_) | Command::Apply(_) => "done".to_owned(),
    };
    Ok((done, format!("{sentence} (revision {revision})")))
}

fn text(status: &ClusterStatus) -> String {
    let nodes: String = status.nodes.iter().map(node).collect();
    let groups: Vec<String> = status.groups.iter().map(group).collect();
    let (store, revision) = (&status.store, status.revision);
    format!("cluster {store}, revision {revision}\n\n{nodes}\n{}", groups.join("\n"))
}

fn node(node: &NodeView) -> String {
    let duty = match node.duty {
        Duty::Active => "",
        Duty::Draining => ", drained",
        Duty::Fenced => ", fenced",
    };
    let presence = match (node.is_up, node.has_link) {
        (true, true) => "up",
        (true, false) => "up, but its interface has no link",
        (false, _) => "silent",
    };
    format!("node {}: {presence}{duty}\n", node.name)
}

fn group(group: &GroupView) -> String {
    let state = match (&group.owner, &group.status) {
        (None, _) => "not served".to_owned(),
        (Some(owner), None) => format!("had by {owner}, which is silent"),
        (Some(owner), Some(status)) => format!("{} on {owner}", status.state.word()),
    };
    let mut text = format!("group {}: {state}, epoch {}\n", group.name, group.epoch);
    match &group.status {
        Some(status) if status.state != State::Standby => text += &details(status),
        _ => text += &format!("  {:<12}{}\n", "addresses", group.addresses.join(", ")),
    }
    let list = |names: &[Name]| names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
    let mut line = |name: &str, value: String| text += &format!("  {name:<12}{value}\n");
    if !group.nodes.is_empty() {
        line("prefers", list(&group.nodes));
    }
    if let Some(node) = &group.moved_to {
        line("moved to", node.to_string());
    }
    if !group.standby.is_empty() {
        line("standby", list(&group.standby));
    }
    for (node, reason) in &group.failures {
        line("failed", format!("on {node}: {reason}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_has_only_the_fields_that_concern_it() {
        let name = |text: &str| Name::new(text).unwrap();
        let moved = Done {
            revision: 7,
            node: Some(name("b")),
            group: Some(name("home")),
            milliseconds: Some(412),
            ..Done::default()
        };
        let expected =
            serde_json::json!({ "revision": 7, "node": "b", "group": "home", "milliseconds": 412 });
        assert_eq!(as_json(&moved), expected);
        let applied = Done { revision: 2, groups: Some(Vec::new()), ..Done::default() };
        assert_eq!(as_json(&applied), serde_json::json!({ "revision": 2, "groups": [] }));
    }
}
