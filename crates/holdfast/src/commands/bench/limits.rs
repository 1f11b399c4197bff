//! `holdfast bench limits`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use load::limits::Scope;

use super::watch::{Watch, bytes, count, time};
use super::{LimitOptions, TargetOptions, failed, json};
use crate::report::{Outcome, print, table};

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
    /// Print JSON
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
    if limits.json {
        print(&json(&report)?);
    } else {
        print(&format_limits(&report.limits));
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats limits as a table.
pub(super) fn format_limits(limits: &load::result::Limits) -> String {
    let mut rows = Vec::new();
    if let Some(rate) = limits.null_calls_per_s {
        rows.push(("NULL calls", format!("{}/s", count(rate))));
    }
    if let Some(ns) = limits.null_p50_ns {
        rows.push(("NULL call alone, median", time(ns)));
    }
    if let Some(rate) = limits.tcp_bytes_per_s {
        rows.push(("TCP", format!("{}/s", bytes(rate))));
    }
    if let Some(rate) = limits.tcp_sent_bytes_per_s {
        rows.push(("TCP, sent", format!("{}/s", bytes(rate))));
    }
    if let Some(peer) = &limits.tcp_peer {
        rows.push(("TCP between clients and", peer.clone()));
    }
    if let Some(directory) = &limits.directory {
        rows.push(("directory", directory.path.clone()));
        rows.push(("reads", format!("{}/s", bytes(directory.read_bytes_per_s))));
        rows.push(("writes", format!("{}/s", bytes(directory.write_bytes_per_s))));
        rows.push(("synced writes of 4 KiB", format!("{}/s", count(directory.syncs_per_s))));
        rows.push(("synced write, median", time(directory.sync_p50_ns)));
    }
    table(&rows)
}
