//! `holdfast cluster` for groups in a Ceph cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use cluster::{ClusterConfig, Command, Duty, Name};
use node::administration::{Administration, ClusterStatus, GroupView, NodeView};
use node::status::State;
use server::error::Error;

use super::{Action, details};
use crate::report::{Outcome, as_json, count, print, print_either};

/// What an administrator asks of the cluster.
pub(super) enum Change {
    Init,
    Apply(PathBuf),
    Execute(Command),
    Fence(Name),
    Status { json: bool },
}

impl Change {
    /// Returns what an action asks of the cluster; none if it is for the agent of this machine alone.
    pub(super) fn of(action: &Action) -> Result<Option<Change>, Error> {
        let name = |text: &str| Name::new(text).map_err(|error| Error::usage(error.to_string()));
        Ok(Some(match action {
            Action::Init => Change::Init,
            Action::Apply { file } => Change::Apply(file.clone()),
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
            Action::Move { group, to } => Change::Execute(Command::Move(name(&group.name)?, name(to)?)),
            Action::Status { json } => Change::Status { json: *json },
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
        !matches!(self, Change::Status { .. } | Change::Execute(Command::Move(..)))
    }

    pub(super) fn run(self, cluster: &Administration) -> Outcome {
        match self {
            Change::Init => {
                cluster.init().map_err(Error::failed)?;
                print("the cluster has no nodes yet: add each with `holdfast cluster add NODE`\n");
            }
            Change::Apply(file) => apply(cluster, &file)?,
            Change::Execute(command) => execute(cluster, &command).map_err(Error::failed)?,
            Change::Fence(node) => {
                let groups = cluster.fence(&node).map_err(Error::failed)?;
                let groups: Vec<&str> = groups.iter().map(Name::as_str).collect();
                let taken = if groups.is_empty() { "it had no groups".to_owned() } else { groups.join(", ") };
                print(&format!("{node} is fenced; others take over: {taken}\n"));
            }
            Change::Status { json } => {
                let status = cluster.status().map_err(Error::failed)?;
                print_either(json, &as_json(&status), || text(&status));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Replaces the groups.
fn apply(cluster: &Administration, file: &PathBuf) -> Result<(), Error> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| Error::usage(format!("{shown}: {error}")))?;
    let config = ClusterConfig::parse(&text).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{shown}, {mistake}")).collect();
        Error::usage(lines.join("\n"))
    })?;
    let groups = count(config.groups.len().try_into().unwrap_or(u64::MAX), "group");
    let revision = cluster.execute(&Command::Apply(config)).map_err(Error::failed)?;
    print(&format!("the cluster has {groups} (revision {revision})\n"));
    Ok(())
}

/// Changes what is wanted, and waits until it is so.
fn execute(cluster: &Administration, command: &Command) -> Result<(), String> {
    let revision = cluster.execute(command)?;
    let done = match command {
        Command::Move(group, node) => {
            let took =
                cluster.wait(|serving| serving.get(node).is_some_and(|groups| groups.contains(group)))?;
            format!("{node} serves {group} after {} ms", took.as_millis())
        }
        Command::Drain(node) => {
            let took = cluster.wait(|serving| serving.get(node).is_none_or(|groups| groups.is_empty()))?;
            format!("{node} serves nothing after {} ms", took.as_millis())
        }
        Command::Add(node) => format!("{node} is a node of the cluster"),
        Command::Remove(node) => format!("{node} is no node of the cluster any more"),
        Command::Undrain(node) => format!("{node} is given groups again"),
        Command::Fence(_) | Command::Apply(_) => "done".to_owned(),
    };
    print(&format!("{done} (revision {revision})\n"));
    Ok(())
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
