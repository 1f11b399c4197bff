//! `holdfast bench limits`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use load::limits::Scope;
use load::report::{json, table};

use super::watch::Watch;
use super::{LimitOptions, TargetOptions, failed};
use crate::report::{Outcome, print};

const EXAMPLES: &str = "Examples:
  holdfast bench limits 127.0.0.1:/main
  holdfast bench limits 127.0.0.1:/main --directory /srv/holdfast --seconds 5 --json
  holdfast bench limits filer:/export --line-rate-peer filer:7411 --token-file token";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Limits {
    #[command(flatten)]
    measured: TargetOptions,
    #[command(flatten)]
    options: LimitOptions,
    /// Length of each part
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = super::work::parse_seconds)]
    seconds: Duration,
    /// Print JSON (docs/bench.md describes it)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(limits: &Limits) -> Outcome {
    let server = limits.measured.server()?;
    let mut report = limits.measured.report(&server);
    let mut watch = Watch::new()?;
    watch.title = "limits".to_owned();
    let (peer, length) = (limits.options.peer()?, limits.seconds);
    let scope = Scope { directory: limits.options.directory.as_deref(), peer: peer.as_ref(), length };
    let measured = load::limits::measure(&server, &scope, None, &mut watch);
    watch.clear();
    report.limits = measured.map_err(failed)?;
    print(&if limits.json { json::write(&report) } else { table::render(&report) });
    Ok(ExitCode::SUCCESS)
}
