//! What ran, where, with which caches, and the limits.

use std::fmt::Write as _;

use crate::report::markup::escape;
use crate::report::units;
use crate::result::{Host, Report};

pub(super) fn write(report: &Report, out: &mut String) {
    super::section(out, "conditions", "What ran, and where", "");
    out.push_str("<div class=\"pair\"><dl class=\"facts\">");
    let target = &report.target;
    fact(out, "Server", &format!("{}:{}", target.address, target.export));
    fact(out, "Started", &units::moment(report.started_unix_s));
    fact(out, if report.agents.is_empty() { "Client" } else { "Coordinator" }, &host(&report.host));
    for (i, agent) in report.agents.iter().enumerate() {
        fact(out, &format!("Client {}", i + 1), &host(agent));
    }
    fact(out, "Measured", &amount(report));
    fact(out, "Load", &load(report));
    let caches = if report.caches.trim().is_empty() { "not declared" } else { report.caches.as_str() };
    let _ = write!(
        out,
        "</dl><div><div class=\"caches\"><h3>Caches, as declared</h3><p>{}</p></div>",
        escape(caches)
    );
    limits(report, out);
    out.push_str("</div></div>\n</section>\n");
}

fn fact(out: &mut String, name: &str, text: &str) {
    let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
}

fn host(host: &Host) -> String {
    format!("{}, cores: {}, {}", host.name, units::count(u64::from(host.cores)), host.kernel)
}

/// Summarizes how much was measured.
fn amount(report: &Report) -> String {
    let results = &report.results;
    let seconds: f64 = results.iter().map(|it| it.seconds).sum();
    let warmup: f64 = results.iter().map(|it| it.warmup_seconds).sum();
    let operations = results.iter().fold(0u64, |sum, it| sum.saturating_add(it.operations));
    let bytes = results.iter().fold(0u64, |sum, it| sum.saturating_add(it.bytes));
    format!(
        "measurements: {}; {} measured, {} of warm-up before; operations: {}; moved: {}",
        units::count(results.len() as u64),
        units::seconds(seconds),
        units::seconds(warmup),
        units::short(operations as f64),
        units::bytes(bytes)
    )
}

/// Summarizes the ranges of threads, depth and connections.
fn load(report: &Report) -> String {
    let range = |figure: fn(&crate::result::Measurement) -> u32| {
        let figures = || report.results.iter().map(figure);
        match (figures().min(), figures().max()) {
            (Some(low), Some(high)) if low != high => format!("{low} to {high}"),
            (Some(low), _) => low.to_string(),
            _ => "none".to_owned(),
        }
    };
    let (threads, depth) = (range(|it| it.threads), range(|it| it.depth));
    format!("threads: {threads}; in flight per thread: {depth}; connections: {}", range(|it| it.connections))
}

fn limits(report: &Report, out: &mut String) {
    out.push_str("<h3>Limits, measured in the same run</h3><dl class=\"facts limits\">");
    let before = out.len();
    let limits = &report.limits;
    if let Some(calls) = limits.null_calls_per_s {
        fact(out, "NULL calls", &units::operations(calls));
    }
    if let Some(ns) = limits.null_p50_ns {
        fact(out, "One NULL call, p50", &units::nanoseconds(ns as f64));
    }
    if let Some(rate) = limits.tcp_bytes_per_s {
        fact(out, "TCP, same client code", &units::bytes_per_second(rate));
    }
    if let Some(rate) = limits.tcp_sent_bytes_per_s {
        fact(out, "– sent", &units::bytes_per_second(rate));
    }
    if let Some(peer) = &limits.tcp_peer {
        fact(out, "– between clients and", peer);
    }
    if let Some(directory) = &limits.directory {
        fact(out, "Directory", &directory.path);
        fact(out, "– reads", &units::bytes_per_second(directory.read_bytes_per_s));
        fact(out, "– writes", &units::bytes_per_second(directory.write_bytes_per_s));
        let syncs = units::operations(directory.syncs_per_s);
        fact(out, "– syncs", &format!("{syncs}, p50 {}", units::nanoseconds(directory.sync_p50_ns as f64)));
    }
    if out.len() == before {
        fact(out, "None", "no limit was measured, so there are no fractions");
    }
    out.push_str("</dl>");
}
