//! `holdfast bench suite`: the published tests, in one command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use load::hosts::Coordinator;
use load::report::{json, table};
use load::suite::{Scale, Suite, published};
use server::error::Error;

use super::watch::Watch;
use super::{HostOptions, ServerOptions, failed, report};
use crate::report::{Outcome, print};

const EXAMPLES: &str = "Examples:
  holdfast bench suite published --target 127.0.0.1:/main --quick
  holdfast bench suite published --target filer:/export --report page.html --json \\
      --caches 'restarted before the run; 64 GiB of memory' > result.json

Runs every test of the published reports that docs/bench.md names, at a scale that fits this machine and the server's \
free space, and measures the limits in the same run. If a test fails, the next one runs. Files are removed at the end. \
Ctrl-C ends the suite with the results so far.

Exit codes: 0 all tests ran; 1 a test failed; 2 the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SuiteCommand {
    /// Tests to run
    which: Which,
    /// Server and export, such as 127.0.0.1:/main or filer:2049:/export/data
    #[arg(long, value_name = "HOST[:PORT]:/EXPORT")]
    target: String,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    hosts: HostOptions,
    /// Length of tests and amount of data
    #[arg(long, value_name = "SCALE", default_value = "standard", conflicts_with = "quick")]
    scale: ScaleName,
    /// The same as --scale quick
    #[arg(long)]
    quick: bool,
    /// Run only the tests of these figures, separated by commas, such as dell-seq-read; the table names all figures
    #[arg(long, value_name = "FIGURE", value_delimiter = ',', value_parser = figure)]
    only: Vec<String>,
    /// Seed of random numbers [default: a new one, which is printed]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Write an HTML page to this file
    #[arg(long, value_name = "PAGE.html")]
    report: Option<PathBuf>,
    /// Print JSON (docs/bench.md describes it)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// The tests of five published reports
    Published,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScaleName {
    /// A minute or two: a second per test, at the published number of threads
    Quick,
    /// About ten minutes: over several numbers of threads
    Standard,
    /// Hours: a minute per test, with twice the server's memory, or this machine's if that is not known
    Long,
}

/// Checks the name of a published figure.
fn figure(name: &str) -> Result<String, String> {
    match load::published::find(name) {
        Some(row) => Ok(row.id.to_owned()),
        None => Err("no published figure has this name".to_owned()),
    }
}

pub(crate) fn run(command: &SuiteCommand) -> Outcome {
    let Which::Published = command.which;
    let server = command.server.server(&command.target)?;
    let scale = match command.scale {
        _ if command.quick => Scale::Quick,
        ScaleName::Quick => Scale::Quick,
        ScaleName::Standard => Scale::Standard,
        ScaleName::Long => Scale::Long,
    };
    let suite = Suite {
        scale,
        directory: command.hosts.limits.directory.clone(),
        peer: command.hosts.limits.peer()?,
        server_pids: command.hosts.server_pid.clone(),
        seed: command.seed,
        only: command.only.clone(),
    };
    let mut result = command.server.report(&server);
    let mut hosts = command.hosts.coordinator(&server)?;
    result.agents = hosts.as_ref().map(Coordinator::hosts).unwrap_or_default();
    let mut watch = Watch::new()?;
    watch.prints_results = !command.json;
    let ran = published(&server, &suite, hosts.as_mut(), &mut result, &mut watch);
    watch.clear();
    // Results so far are kept even if the run failed.
    print(&if command.json { json::write(&result) } else { table::render(&result) });
    if let Some(path) = &command.report {
        report::write_page(path, &result)?;
    }
    let lost = ran.map_err(failed)?;
    if result.results.is_empty() {
        return Err(Error::failed("nothing was measured"));
    }
    match (result.failed_operations(), lost) {
        (0, 0) => Ok(ExitCode::SUCCESS),
        (0, lost) => Err(Error::failed(format!("{lost} tests or hosts failed; the notes say why"))),
        (failures, _) => Err(Error::failed(format!("{failures} operations failed"))),
    }
}
