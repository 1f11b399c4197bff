//! `holdfast bench suite`: the published tests, in one command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use load::error::LoadError;
use load::hosts::Coordinator;
use load::published::Tier;
use load::report::{json, table};
use load::suite::{RateLimits, Scale, Suite, published};
use server::admin;
use server::admin::api::types::{Kind, QosChange, QosInfo, Rate, Setting, SettingChange};
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
    /// Sweep over the published tiers of rates too: limit a volume of the server with this data directory, and remove the limit in the end
    #[arg(long, value_name = "DATA", requires = "volume")]
    tiers: Option<PathBuf>,
    /// The volume of the target, for --tiers; it must have no limits of its own
    #[arg(long, value_name = "VOLUME", requires = "tiers")]
    volume: Option<String>,
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

/// The limits of a volume, set through the administrator's socket of its server.
struct VolumeRates {
    data: PathBuf,
    volume: String,
}

impl VolumeRates {
    /// Checks that the server serves the volume, and that it has no limits, which would be lost.
    fn new(data: PathBuf, volume: String) -> Result<VolumeRates, Error> {
        let path = format!("/v1/qos?kind=volume&name={}", admin::escaped(&volume));
        let found: Vec<QosInfo> = admin::get(&data, &path)?;
        if found.iter().any(|info| info.set != Setting::default()) {
            return Err(Error::failed(format!(
                "the volume {volume:?} has limits; remove them first: holdfast qos set {} --volume {volume} --reset",
                data.display()
            )));
        }
        Ok(VolumeRates { data, volume })
    }
}

impl RateLimits for VolumeRates {
    fn set(&mut self, tier: Option<&Tier>) -> Result<(), LoadError> {
        let limits = tier.into_iter().flat_map(|tier| {
            [(Rate::ReadBytes, Some(tier.read_bytes_per_s)), (Rate::WriteBytes, Some(tier.write_bytes_per_s))]
        });
        let set = SettingChange { reset: true, limits: limits.collect(), ..SettingChange::default() };
        let change = QosChange { kind: Kind::Volume, name: self.volume.clone(), set };
        let answer: Result<QosInfo, Error> = admin::ask(&self.data, "PATCH", "/v1/qos", Some(&change));
        answer.map(drop).map_err(|error| LoadError::new(error.to_string()))
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
    let mut rates = match (&command.tiers, &command.volume) {
        (Some(data), Some(volume)) => Some(VolumeRates::new(data.clone(), volume.clone())?),
        _ => None,
    };
    let rates = rates.as_mut().map(|rates| rates as &mut dyn RateLimits);
    let ran = published(&server, &suite, rates, hosts.as_mut(), &mut result, &mut watch);
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
