//! `holdfast bench compare`: two servers, measured in turn.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
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
    /// Local process of the first server, to measure its processor time; may be repeated
    #[arg(long, value_name = "PID")]
    server_pid_a: Vec<u32>,
    /// Local process of the second server; may be repeated
    #[arg(long, value_name = "PID")]
    server_pid_b: Vec<u32>,
    /// Port of the first server's MOUNT service [default: the NFS port, else the port that rpcbind names]
    #[arg(long, value_name = "PORT")]
    mount_port_a: Option<u16>,
    /// Port of the second server's MOUNT service
    #[arg(long, value_name = "PORT")]
    mount_port_b: Option<u16>,
    /// Name of the first server in the report
    #[arg(long, value_name = "NAME")]
    label_a: Option<String>,
    /// Name of the second server in the report
    #[arg(long, value_name = "NAME")]
    label_b: Option<String>,
    /// Memory of the first server's machine: results that fit it are marked [default: this machine's, if it runs here]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    server_memory_a: Option<Size>,
    /// Memory of the second server's machine
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    server_memory_b: Option<Size>,
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

impl Compare {
    fn side(
        &self,
        address: &str,
        mount_port: Option<u16>,
        label: Option<&String>,
        pids: &[u32],
        memory: Option<Size>,
    ) -> Result<Side, Error> {
        let server = self.caller.server(address, mount_port)?;
        let target = target(&server, label.cloned());
        let memory_bytes = server_memory_bytes(&server, memory);
        Ok(Side { server, target, server_pids: pids.to_vec(), memory_bytes })
    }
}

pub(crate) fn run(command: &Compare) -> Outcome {
    let a = command.side(
        &command.a,
        command.mount_port_a,
        command.label_a.as_ref(),
        &command.server_pid_a,
        command.server_memory_a,
    )?;
    let b = command.side(
        &command.b,
        command.mount_port_b,
        command.label_b.as_ref(),
        &command.server_pid_b,
        command.server_memory_b,
    )?;
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
