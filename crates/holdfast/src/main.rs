//! The program `holdfast`: a network file server and its tools.
//!
//! Exit codes: 0 success; 1 failure, faults found by `check`, or files that `dump --files` could not copy whole; 2 the command
//! line or the configuration is wrong; 3 another process uses the data directory or a pool.

mod cli;
mod commands;
mod escape;
mod logging;
mod report;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| cli::with_tip(error, std::env::args_os()).exit());
    let result = match cli.command {
        Command::Serve(serve) => commands::serve::run(&serve),
        Command::Volume(volume) => commands::volume::run(&volume),
        Command::Qos(qos) => commands::qos::run(&qos),
        Command::Quota(quota) => commands::quota::run(&quota),
        Command::Tree(tree) => commands::tree::run(&tree),
        Command::Pool(pool) => commands::pool::run(&pool),
        Command::Check(check) => commands::check::run(&check),
        Command::Dump(dump) => commands::dump::run(&dump),
        Command::Token(token) => commands::token::run(&token),
        Command::Status(status) => commands::status::run(&status),
        Command::Top(top) => commands::top::run(&top),
        Command::Config(config) => commands::config::run(&config),
        Command::Node(node) => commands::node::run(&node),
        Command::Cluster(cluster) => commands::cluster::run(&cluster),
        Command::Bench(bench) => commands::bench::run(&bench),
        Command::Completions(completions) => commands::completions::run(&completions, Cli::command()),
        Command::Man(man) => commands::man::run(&man, Cli::command()),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("holdfast: {error}");
            report::exit_code(error.kind)
        }
    }
}
