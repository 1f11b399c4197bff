//! `holdfast node`: runs the agent of a machine until a signal stops it. SIGHUP has it, and its servers, read their configuration
//! again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use node::agent::Agent;
use node::config::{Config, EXAMPLE, PATH_DEFAULT};
use server::error::Error;
use signal_hook::consts::SIGHUP;

use super::serve::{notify, signals};
use crate::report::{Outcome, print};

const EXAMPLES: &str =
    "The agent runs on each machine of a cluster, as root. It serves nothing until the cluster manager or \
`holdfast cluster` tells it to start a group; for groups in a Ceph cluster, the agents agree who serves what. On SIGHUP, \
the agent and the servers of its groups reread their configuration files. The agent applies changes of fence_command, mount_command \
and move_command, and of groups that this machine is not serving; other changes need a restart.

Examples:
  holdfast node --example > /etc/holdfast/node.toml
  holdfast node";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Node {
    /// The agent's configuration file
    #[arg(long, value_name = "FILE", default_value = PATH_DEFAULT)]
    config: PathBuf,
    /// Print an example of the configuration file
    #[arg(long, conflicts_with = "check")]
    example: bool,
    /// Check the configuration file, and do nothing else
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(node: &Node) -> Outcome {
    if node.example {
        print(EXAMPLE);
        return Ok(ExitCode::SUCCESS);
    }
    let config = read(&node.config)?;
    if node.check {
        print(&format!("{}: no mistakes\n", node.config.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let program = std::env::current_exe().map(OsString::from);
    let program = program.map_err(|error| Error::failed(format!("cannot find this program: {error}")))?;
    // Before the agent starts, so that no signal is lost.
    let mut signals = signals()?;
    let groups: Vec<&str> = config.group.iter().map(|group| &*group.name).collect();
    let groups =
        config.store.as_ref().map_or_else(|| groups.join(", "), |store| format!("of {}", store.display()));
    let name = config.node.clone();
    let agent = Agent::start(config, vec![program]).map_err(Error::failed)?;
    print(&format!("holdfast: the agent of {name:?} is ready for the groups {groups}\n"));
    notify::ready();
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        notify::reloading();
        match agent.reload(Config::read(&node.config)) {
            Ok(()) => eprintln!("holdfast: the agent has read its configuration again"),
            Err(left) => eprintln!("holdfast: the agent did not apply all of its configuration: {left}"),
        }
        notify::ready();
    }
    notify::stopping();
    agent.stop();
    Ok(ExitCode::SUCCESS)
}

/// Reads the agent's configuration.
pub(super) fn read(path: &std::path::Path) -> Result<Config, Error> {
    Config::read(path).map_err(Error::usage)
}
