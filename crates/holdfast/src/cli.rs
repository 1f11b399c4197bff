//! The command line: each command's arguments are in its own file.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Error, Parser, Subcommand};

use crate::commands::{
    bench, check, cluster, completions, config, dump, man, node, pool, qos, quota, serve, status, token, top,
    tree, volume,
};
use crate::report::count;

/// Follows the help of every command.
const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure, faults found, or files not copied whole; 2 the command line or the configuration \
is wrong; 3 another process uses the data directory or a pool.";

/// A network file server that keeps its promises
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the volumes of a data directory over NFSv3, NFSv4.0, NFSv4.1 and NFSv4.2
    Serve(serve::Serve),
    /// Create, list, show, rename, change and delete volumes, even while a server runs
    Volume(volume::Volume),
    /// Create, list, show, copy and delete pools, which hold volumes
    Pool(pool::Pool),
    /// Limit what users, groups, trees and volumes use, and show their use, even while a server runs
    Quota(quota::Quota),
    /// Make directories quota trees, list and delete them, even while a server runs
    Tree(tree::Tree),
    /// Limit the bytes and operations a second of targets, pools, volumes and clients of a running server
    Qos(qos::Qos),
    /// Check volumes for faults; no server may be running on the data directory
    Check(check::Check),
    /// Copy the files of a volume, damaged or not, or print its records; no server may be running on the data directory
    Dump(dump::Dump),
    /// Show the state of a running server
    Status(status::Status),
    /// Show what clients do on a running server, and what their calls wait for
    Top(top::Top),
    /// Create, list and delete tokens for administration over the network
    Token(token::Token),
    /// Print an example of the configuration file, or check one; export and import what is set besides
    Config(config::Config),
    /// Run the agent of a machine of a cluster, which serves groups of volumes and moves their addresses
    Node(node::Node),
    /// Show, start, stop and move the groups of a machine
    Cluster(cluster::Cluster),
    /// Measure an NFS server with a load generator that needs no mount
    Bench(bench::Bench),
    /// Print a script that completes commands and options with the Tab key
    Completions(completions::Completions),
    /// Write a man page for each command
    Man(man::Man),
}

/// Adds to an error what to write instead of `--watch 5`: the number is optional, so it follows an equals sign.
pub(crate) fn with_tip(mut error: Error, arguments: impl Iterator<Item = OsString>) -> Error {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut pairs = words.iter().zip(words.iter().skip(1));
    let watched = pairs.find_map(|(option, value)| {
        let seconds: u64 = value.parse().ok()?;
        (*option == "--watch").then_some(seconds)
    });
    if let (ErrorKind::UnknownArgument, Some(seconds)) = (error.kind(), watched) {
        let tip = format!("to repeat every {}, write '--watch={seconds}'", count(seconds, "second"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn a_number_after_watch_gets_a_tip() {
        for words in [["status", "data", "--watch", "5"], ["status", "--watch", "5", "data"]] {
            let words = || ["holdfast"].into_iter().chain(words);
            let error = super::Cli::command().try_get_matches_from(words()).unwrap_err();
            let said = super::with_tip(error, words().map(Into::into)).to_string();
            assert!(said.contains("write '--watch=5'"), "{said}");
        }
    }

    #[test]
    fn arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn every_command_that_answers_prints_json_too() {
        /// They run until they are stopped, write for another program in its format, or answer by their exit code alone.
        const OTHERS: &[&str] = &[
            "serve",
            "config example",
            "config export",
            "node",
            "cluster metrics",
            "cluster hold",
            "bench agent",
            "bench clean",
            "bench report",
            "completions",
            "man",
        ];
        fn look_at(command: &clap::Command, path: &str, without: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            if command.get_subcommands().next().is_none()
                && !command.get_arguments().any(|argument| argument.get_id() == "json")
            {
                without.push(path.trim_start().to_owned());
            }
            command.get_subcommands().for_each(|part| look_at(part, &path, without));
        }
        let mut without = Vec::new();
        super::Cli::command().get_subcommands().for_each(|command| look_at(command, "", &mut without));
        assert_eq!(without, OTHERS);
    }

    #[test]
    fn no_default_is_empty() {
        fn look_at(command: &clap::Command) {
            for argument in command.get_arguments() {
                let is_empty = argument.get_default_values().iter().any(|value| value.is_empty());
                assert!(!is_empty, "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(look_at);
        }
        look_at(&super::Cli::command());
    }
}
