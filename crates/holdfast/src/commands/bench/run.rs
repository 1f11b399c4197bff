//! `holdfast bench run`: one kind of workload, at one or more numbers of threads, block sizes and mixes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use load::client::Server;
use load::hosts::{Coordinator, measure_on};
use load::limits::Scope;
use load::report::{json, table};
use load::result::Report;
use load::run::{Observer as _, Options};
use load::workload::Workload;
use server::error::Error;

use super::watch::Watch;
use super::work::{RunOptions, WorkloadOptions};
use super::{HostOptions, TargetOptions, failed};
use crate::report::{Outcome, print};

const EXAMPLES: &str = "Examples:
  holdfast bench run 127.0.0.1:/main getattr --threads 1..64
  holdfast bench run 127.0.0.1:/main random --block 4KiB --mix 100,70,0 --threads 16 --depth 4
  holdfast bench run 127.0.0.1:/main sequential-write --block 1MiB --stability commit --server-pid 4711
  holdfast bench run 127.0.0.1:/main random --until-steady --max-seconds 600
  holdfast bench run 127.0.0.1:/main metadata --threads 32 --files 1000 --directories 4
  holdfast bench run 127.0.0.1:/main metadata --protocol 4.2 --connections 4 --threads 32
  holdfast bench run 127.0.0.1:/main random --verify --limits --json > result.json
  holdfast bench run filer:/export sequential-read --block 1MiB --line-rate-peer filer:7411 --token-file token

Files are made in a new directory under the export and removed at the end. Ctrl-C ends a measurement with the result so \
far. docs/bench.md describes the workloads and the JSON.

Exit codes: 0 all operations succeeded; 1 the measurement or operations failed; 2 the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    measured: TargetOptions,
    #[command(flatten)]
    work: WorkloadOptions,
    #[command(flatten)]
    options: RunOptions,
    /// Measure limits first and report each result as a fraction of its limit; implied by --directory and --line-rate-peer
    #[arg(long)]
    limits: bool,
    #[command(flatten)]
    hosts: HostOptions,
    /// Write an HTML page to this file
    #[arg(long, value_name = "PAGE.html")]
    report: Option<PathBuf>,
    /// Print JSON (docs/bench.md describes it)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(run: &Run) -> Outcome {
    let server = run.measured.server()?;
    let workloads = run.work.workloads();
    for workload in &workloads {
        workload.check(run.options.verify).map_err(|error| Error::usage(error.to_string()))?;
    }
    let mut report = run.measured.report(&server);
    let mut hosts = run.hosts.coordinator(&server)?;
    report.agents = hosts.as_ref().map(Coordinator::hosts).unwrap_or_default();
    let mut watch = Watch::new()?;
    watch.prints_results = !run.json && workloads.len() * run.options.threads.0.len() > 1;
    let (peer, length) = (run.hosts.limits.peer()?, Duration::from_secs(2));
    let scope = Scope { directory: run.hosts.limits.directory.as_deref(), peer: peer.as_ref(), length };
    if run.limits || run.hosts.limits.is_given() {
        watch.title = "limits".to_owned();
        let measured = load::limits::measure(&server, &scope, hosts.as_mut(), &mut watch);
        watch.clear();
        report.limits = measured.map_err(failed)?;
    }
    let measured = measure_all(run, &server, &workloads, &scope, hosts.as_mut(), &mut report, &mut watch);
    conclude(run, &report, measured)
}

/// Measures each workload with each number of threads, and adds the results to the report. Returns whether all hosts
/// have a part in all results.
fn measure_all(
    run: &Run,
    server: &Server,
    workloads: &[Workload],
    scope: &Scope<'_>,
    mut hosts: Option<&mut Coordinator>,
    report: &mut Report,
    watch: &mut Watch,
) -> Result<bool, Error> {
    let threads = &run.options.threads.0;
    let sweep: Vec<(&Workload, u32)> = workloads
        .iter()
        .flat_map(|workload| threads.iter().map(move |threads| (workload, *threads)))
        .collect();
    let count = sweep.len();
    let mut is_whole = true;
    for (done, (workload, threads)) in sweep.into_iter().enumerate() {
        if done > 0 && watch.was_interrupted() {
            return Err(interrupted(done, count, report));
        }
        watch.title = format!("{}/{count} {}, threads: {threads}", done + 1, workload.name());
        let options =
            Options { server_pids: run.hosts.server_pid.clone(), ..run.options.for_threads(threads) };
        let measured = measure_one(server, workload, &options, scope, hosts.as_deref_mut(), report, watch);
        is_whole &= match measured {
            // It was cut short before anything counted; the results before it do count.
            Err(_) if done > 0 && watch.was_interrupted() => return Err(interrupted(done, count, report)),
            measured => measured?,
        };
    }
    Ok(is_whole)
}

/// Notes that a sweep was interrupted.
fn interrupted(done: usize, count: usize, report: &mut Report) -> Error {
    report.notes.push(format!("Interrupted after {done} of {count} measurements."));
    Error::failed(format!("interrupted after {done} of {count} measurements"))
}

/// Measures once, and adds the result to the report. Returns whether all hosts have a part in it.
fn measure_one(
    server: &Server,
    workload: &Workload,
    options: &Options,
    scope: &Scope<'_>,
    mut hosts: Option<&mut Coordinator>,
    report: &mut Report,
    watch: &mut Watch,
) -> Result<bool, Error> {
    let measured = measure_on(hosts.as_deref_mut(), server, workload, options, watch);
    watch.clear();
    let combined = measured.map_err(failed)?;
    if combined.measurement.is_empty() {
        return Err(Error::failed("nothing was measured: no operation ended in time"));
    }
    let is_whole = combined.failures.is_empty();
    let notes = combined.sentences();
    notes.iter().for_each(|note| eprintln!("holdfast: {note}"));
    report.notes.extend(notes);
    load::limits::add_result(combined.measurement, report, server, scope, hosts, watch);
    watch.clear();
    report.results.last().into_iter().for_each(|measurement| watch.measured(measurement));
    Ok(is_whole)
}

/// Shows the results so far, also if a later measurement failed.
fn conclude(run: &Run, report: &Report, measured: Result<bool, Error>) -> Outcome {
    if report.results.is_empty() {
        measured?;
        return Err(Error::failed("nothing was measured"));
    }
    if let Some(path) = &run.report {
        super::report::write_page(path, report)?;
    }
    print(&if run.json { json::write(report) } else { table::render(report) });
    if !measured? {
        return Err(Error::failed("the result is incomplete; the notes say why"));
    }
    let failures = report.failed_operations();
    if failures > 0 {
        return Err(Error::failed(format!("{failures} operations failed")));
    }
    Ok(ExitCode::SUCCESS)
}
