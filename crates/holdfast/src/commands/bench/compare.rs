//! `holdfast bench compare`: two servers, measured in turn.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use load::client::Protocol;
use load::compare::{Side, compare};
use load::report::{json, table};
use server::config::size::Size;
use server::error::Error;

use super::watch::Watch;
use super::work::{RunOptions, WorkloadOptions, parse_size};
use super::{CachesOption, CallerOptions, failed, new_report, report, server_memory_bytes, target};
use crate::report::{Outcome, print};

const EXAMPLES: &str = "Examples:
  holdfast bench compare 127.0.0.1:2049:/main 127.0.0.1:3049:/main getattr --rounds 7
  holdfast bench compare 127.0.0.1:/main 127.0.0.1:3049:/main sequential-read --block 1MiB \\
      --label-a holdfast --label-b ganesha --server-pid-a 4711 --server-pid-b 4712
  holdfast bench compare old:/export new:/export random --mix 100,0 --threads 1,64 --report page.html
  holdfast bench compare filer:/export filer:/export metadata --protocol-a 4.2 --protocol-b 3

Measures the two in turn, A B A B ..., with the same random numbers. Prints the medians of their rates, their ratio, and \
the lowest and highest ratio of a round. A server is called faster if it was so in every one of at least five rounds. \
With --server-pid-a and --server-pid-b, compares the servers' processor time too, which is less sensitive to noise than \
rates.

Exit codes: 0 all operations succeeded; 1 the measurement or operations failed; 2 the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compare {
    /// First server and its export, such as 127.0.0.1:/main
    #[arg(value_name = "A")]
    a: String,
    /// Second server and its export
    #[arg(value_name = "B")]
    b: String,
    #[command(flatten)]
    work: WorkloadOptions,
    #[command(flatten)]
    options: RunOptions,
    /// Measurements of each server
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(load::compare::ROUNDS_MAX)))]
    rounds: u32,
    #[command(flatten)]
    of_a: OptionsOfA,
    #[command(flatten)]
    of_b: OptionsOfB,
    #[command(flatten)]
    caches: CachesOption,
    #[command(flatten)]
    caller: CallerOptions,
    /// Write an HTML page to this file
    #[arg(long, value_name = "PAGE.html")]
    report: Option<PathBuf>,
    /// Print JSON (docs/bench.md describes it)
    #[arg(long)]
    json: bool,
}

/// Declares the options of one server, which end with its letter.
macro_rules! side_options {
    ($name:ident, $letter:literal, $which:literal) => {
        #[doc = concat!("The options of the ", $which, " server.")]
        #[derive(Debug, Args)]
        struct $name {
            #[arg(
                id = concat!("server_pid_", $letter),
                long = concat!("server-pid-", $letter),
                value_name = "PID",
                help = concat!("Local process of the ", $which, " server, to measure its processor time; may be repeated")
            )]
            server_pids: Vec<u32>,
            #[arg(
                id = concat!("mount_port_", $letter),
                long = concat!("mount-port-", $letter),
                value_name = "PORT",
                help = concat!("Port of the ", $which, " server's MOUNT service [default: the NFS port, else the port that rpcbind names]")
            )]
            mount_port: Option<u16>,
            #[arg(
                id = concat!("protocol_", $letter),
                long = concat!("protocol-", $letter),
                value_name = "VERSION",
                help = concat!("Version of NFS of the ", $which, " server [default: that of --protocol]")
            )]
            protocol: Option<Protocol>,
            #[arg(
                id = concat!("label_", $letter),
                long = concat!("label-", $letter),
                value_name = "NAME",
                help = concat!("Name of the ", $which, " server in the report [default: its address and export]")
            )]
            label: Option<String>,
            #[arg(
                id = concat!("server_memory_", $letter),
                long = concat!("server-memory-", $letter),
                value_name = "SIZE",
                value_parser = parse_size,
                help = concat!("Memory of the ", $which, " server's machine, such as 64GiB: results that fit it are marked [default: this machine's, if it runs here]")
            )]
            server_memory: Option<Size>,
        }

        impl $name {
            fn side(&self, address: &str, caller: &CallerOptions) -> Result<Side, Error> {
                let mut server = caller.server(address, self.mount_port)?;
                server.protocol = self.protocol.unwrap_or(server.protocol);
                let target = target(&server, self.label.clone());
                let memory_bytes = server_memory_bytes(&server, self.server_memory);
                Ok(Side { server, target, server_pids: self.server_pids.clone(), memory_bytes })
            }
        }
    };
}

side_options!(OptionsOfA, "a", "first");
side_options!(OptionsOfB, "b", "second");

pub(crate) fn run(command: &Compare) -> Outcome {
    let a = command.of_a.side(&command.a, &command.caller)?;
    let b = command.of_b.side(&command.b, &command.caller)?;
    let workloads = command.work.workloads();
    for workload in &workloads {
        workload.check(command.options.verify).map_err(|error| Error::usage(error.to_string()))?;
    }
    let threads = &command.options.threads.0;
    let work: Vec<_> = workloads
        .iter()
        .flat_map(|workload| threads.iter().map(|threads| (*workload, command.options.for_threads(*threads))))
        .collect();
    let mut result = new_report(a.target.clone(), &command.caches);
    let mut watch = Watch::new()?;
    watch.prints_results = !command.json;
    let compared = compare(&a, &b, &work, command.rounds, &mut watch);
    watch.clear();
    let comparison = compared.map_err(failed)?;
    if watch.was_interrupted() {
        result.notes.push("Interrupted: only the rounds that were complete are compared.".to_owned());
    }
    result.comparison = Some(comparison);
    if let Some(path) = &command.report {
        report::write_page(path, &result)?;
    }
    print(&if command.json { json::write(&result) } else { table::render(&result) });
    match result.failed_operations() {
        0 => Ok(ExitCode::SUCCESS),
        failures => Err(Error::failed(format!("{failures} operations failed"))),
    }
}
