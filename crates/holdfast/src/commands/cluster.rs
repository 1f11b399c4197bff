//! `holdfast cluster`: shows and moves groups. Those on shared disks by asking the agent of this machine; those in a Ceph cluster by
//! reading and changing what all nodes follow.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use node::administration::Administration;
use node::config::PATH_DEFAULT;
use node::control::{self, Answer, Command};
use node::metrics;
use node::status::{GroupStatus, NodeStatus, State};
use serde_json::json;
use server::error::Error;

use super::node::read;
use super::serve::{notify, stop_signals};
use crate::report::{Outcome, as_json, print, print_either};

mod store;

/// The exit code of `monitor` for a group that is not served here, which resource agents use (OCF_NOT_RUNNING).
const NOT_RUNNING: u8 = 7;

/// How often a held group is tested.
const WATCH: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "Examples, for groups in a Ceph cluster:
  holdfast cluster init
  holdfast cluster add a
  holdfast cluster apply cluster.toml     # see docs/rados.md
  holdfast cluster status
  holdfast cluster drain a                # before its maintenance

`init`, `apply`, `add`, `remove`, `drain`, `undrain` and `fence` are for groups in a Ceph cluster, where the agent's configuration has
a `store`; `start`, `stop`, `hold` and `takeover` are for groups on shared disks.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cluster {
    /// The agent's configuration file, which names its socket and the store
    #[arg(long, value_name = "FILE", default_value = PATH_DEFAULT, global = true)]
    config: PathBuf,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Begin a cluster of nodes whose groups are in a Ceph cluster
    Init(Format),
    /// Replace the groups by those of a file; those that are not in it must not be served
    Apply {
        /// The file, with a [[group]] for each
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        format: Format,
    },
    /// Make a machine a node, which may serve groups
    Add(Node),
    /// Take a node out, which serves nothing or is fenced
    Remove(Node),
    /// Move all groups from a node, and keep it empty; returns when it is
    Drain(Node),
    /// Give a node groups again that was drained or fenced
    Undrain(Node),
    /// Declare that a node is off, so that others take its groups without waiting
    Fence {
        #[command(flatten)]
        node: Node,
        /// Confirm that it is off, or cut off from all clients: it could still answer them otherwise
        #[arg(long)]
        yes: bool,
    },
    /// Show the groups of this machine, or the whole cluster if they are in a Ceph cluster
    Status(Format),
    /// Print the metrics of this machine's groups for Prometheus
    Metrics,
    /// Serve a group here; the cluster manager calls this after it has fenced the other machine and mounted the device
    Start(Group),
    /// Stop serving a group here
    Stop(Group),
    /// Test whether a group is served here: exit code 0 if its server answers, 7 if it is stopped, 1 if it fails
    Monitor(Group),
    /// Serve a group here until a signal comes, and stop it then; ends if the group fails. For systemd and drbd-reactor
    Hold(Held),
    /// Fence the machine that serves a group, and serve it here; for sites without a cluster manager
    Takeover {
        #[command(flatten)]
        group: Group,
        /// The machine that served it
        #[arg(long, value_name = "NODE")]
        from: String,
    },
    /// Move a group to another machine, or have the cluster manager move it; in a Ceph cluster, it then stays there
    Move {
        #[command(flatten)]
        group: Group,
        /// The machine that is to serve it
        #[arg(value_name = "NODE")]
        to: String,
    },
}

/// The format of the output.
#[derive(Clone, Copy, Debug, Args)]
struct Format {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Group {
    /// Name of the group
    #[arg(value_name = "GROUP")]
    name: String,
    #[command(flatten)]
    format: Format,
}

/// A group that is held in the foreground, so that nothing is printed.
#[derive(Debug, Args)]
struct Held {
    /// Name of the group
    #[arg(value_name = "GROUP")]
    name: String,
}

#[derive(Debug, Args)]
struct Node {
    /// Name of the node
    #[arg(value_name = "NODE")]
    name: String,
    #[command(flatten)]
    format: Format,
}

impl Action {
    fn prints_json(&self) -> bool {
        match self {
            Action::Init(format) | Action::Apply { format, .. } | Action::Status(format) => format.json,
            Action::Add(node)
            | Action::Remove(node)
            | Action::Drain(node)
            | Action::Undrain(node)
            | Action::Fence { node, .. } => node.format.json,
            Action::Start(group)
            | Action::Stop(group)
            | Action::Monitor(group)
            | Action::Takeover { group, .. }
            | Action::Move { group, .. } => group.format.json,
            Action::Metrics | Action::Hold(_) => false,
        }
    }
}

pub(crate) fn run(cluster: &Cluster) -> Outcome {
    let config = read(&cluster.config)?;
    let location = config.location().map_err(Error::usage)?;
    match (location, store::Change::of(&cluster.action)?) {
        (Some(location), Some(change)) => {
            let administration = Administration::open(&location).map_err(Error::failed)?;
            change.run(&administration, cluster.action.prints_json())
        }
        (None, Some(change)) if change.is_for_stores() => Err(Error::usage(format!(
            "{} names no `store`: this command is for groups in a Ceph cluster",
            cluster.config.display()
        ))),
        _ => ask_agent(cluster, &config.socket),
    }
}

/// Has the agent of this machine do it.
fn ask_agent(cluster: &Cluster, socket: &Path) -> Outcome {
    if let Action::Hold(held) = &cluster.action {
        return hold(socket, &held.name);
    }
    let answer = control::ask(socket, &command(&cluster.action)?).map_err(Error::failed)?;
    match (answer, &cluster.action) {
        (Answer::Status(status), Action::Status(format)) => {
            print_either(format.json, &as_json(&status), || text(&status));
            Ok(ExitCode::SUCCESS)
        }
        (Answer::Status(status), Action::Metrics) => {
            print(&metrics::text(&status));
            Ok(ExitCode::SUCCESS)
        }
        (Answer::Failed(reason), _) => Err(Error::failed(reason)),
        (Answer::Stopped, action) => {
            print_done(action, State::Stopped);
            Ok(ExitCode::from(NOT_RUNNING))
        }
        (_, action) => {
            let is_stopped = matches!(action, Action::Stop(_));
            print_done(action, if is_stopped { State::Stopped } else { State::Serving });
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// With `--json`, prints what was done. Without it, prints nothing: the exit code tells whether it succeeded.
fn print_done(action: &Action, state: State) {
    let done = match action {
        Action::Start(group)
        | Action::Stop(group)
        | Action::Monitor(group)
        | Action::Takeover { group, .. } => {
            json!({ "group": group.name, "state": state })
        }
        Action::Move { group, to, .. } => json!({ "group": group.name, "node": to }),
        _ => return,
    };
    print_either(action.prints_json(), &done, String::new);
}

fn command(action: &Action) -> Result<Command, Error> {
    Ok(match action {
        Action::Status(_) | Action::Metrics => Command::Status,
        Action::Start(group) => Command::Start { group: group.name.clone() },
        Action::Hold(held) => Command::Start { group: held.name.clone() },
        Action::Stop(group) => Command::Stop { group: group.name.clone() },
        Action::Monitor(group) => Command::Monitor { group: group.name.clone() },
        Action::Takeover { group, from } => {
            Command::Takeover { group: group.name.clone(), from: from.clone() }
        }
        Action::Move { group, to, .. } => Command::Move { group: group.name.clone(), to: to.clone() },
        Action::Init(_)
        | Action::Apply { .. }
        | Action::Add(_)
        | Action::Remove(_)
        | Action::Drain(_)
        | Action::Undrain(_)
        | Action::Fence { .. } => return Err(Error::usage("the agent does not do this")),
    })
}

/// Serves a group, and watches it.
fn hold(socket: &Path, group: &str) -> Outcome {
    let ask = |command: &Command| match control::ask(socket, command) {
        Ok(Answer::Failed(reason)) | Err(reason) => Err(Error::failed(reason)),
        Ok(answer) => Ok(answer),
    };
    let group = || group.to_owned();
    let mut signals = stop_signals()?;
    ask(&Command::Start { group: group() })?;
    notify::ready();
    let watched = loop {
        thread::sleep(WATCH);
        if signals.pending().next().is_some() {
            notify::stopping();
            break Ok(());
        }
        match ask(&Command::Monitor { group: group() }) {
            Ok(Answer::Stopped) => break Err(Error::failed("the group was stopped")),
            Ok(_) => {}
            // Its server may just be started again.
            Err(_) => {
                thread::sleep(WATCH);
                if let Err(error) = ask(&Command::Monitor { group: group() }) {
                    break Err(error);
                }
            }
        }
    };
    ask(&Command::Stop { group: group() })?;
    watched.map(|()| ExitCode::SUCCESS)
}

fn text(status: &NodeStatus) -> String {
    let groups: Vec<String> = status.groups.iter().map(group).collect();
    let link = if status.has_link { "" } else { ": its interface has no link" };
    format!("node {}{link}\n\n{}", status.node, groups.join("\n"))
}

fn group(group: &GroupStatus) -> String {
    let mut text = format!("group {}: {}", group.name, group.state.word());
    if let Some(pid) = group.pid {
        text += &format!(", process {pid}");
    }
    text += "\n";
    text + &details(group)
}

/// What is known of a group on a machine, a line each.
fn details(group: &GroupStatus) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("  {name:<12}{value}\n");
    if let Some(reason) = &group.reason {
        line("reason", reason.clone());
    }
    line("addresses", group.addresses.join(", "));
    if let Some(age) = group.claim_age_ms {
        line("claim", format!("renewed {age} ms ago"));
    }
    if let Some(phases) = group.last_start {
        let [parts @ .., (_, total)] = phases.named();
        let parts: Vec<String> = parts.iter().map(|(phase, took)| format!("{phase} {took}")).collect();
        line("last start", format!("{total} ms: {}", parts.join(", ")));
    }
    if group.restarts > 0 {
        line("restarts", format!("{} since then", group.restarts));
    }
    text
}
