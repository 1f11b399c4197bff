//! What ran, where, with which caches, and the limits.

use std::fmt::Write as _;

use crate::report::markup::escape;
use crate::report::{memory, subject, units};
use crate::result::{Host, LimitKind, Report, Totals};

pub(super) fn write(report: &Report, out: &mut String) {
    super::section(out, "conditions", "What ran, and where", "");
    out.push_str("<div class=\"pair\"><dl class=\"facts\">");
    match &report.comparison {
        Some(comparison) => {
            fact(out, "Server A", &subject::target_address(&comparison.a));
            fact(out, "Server B", &subject::target_address(&comparison.b));
        }
        None => fact(out, "Server", &subject::target_address(&report.target)),
    }
    fact(out, "Started", &units::moment(report.started_unix_s));
    fact(out, if report.agents.is_empty() { "Client" } else { "Coordinator" }, &host(&report.host));
    for (i, agent) in report.agents.iter().enumerate() {
        fact(out, &format!("Client {}", i + 1), &host(agent));
    }
    fact(out, "Memory", &memory::describe(report));
    let totals = totals(report);
    fact(out, "Measured", &amount(&totals));
    fact(out, "Load", &load(&totals));
    let caches = if report.caches.trim().is_empty() { "not declared" } else { report.caches.as_str() };
    let _ = write!(
        out,
        "</dl><div><div class=\"caches\"><h3>Caches, as declared</h3><p>{}</p></div>",
        escape(caches)
    );
    // The rows of a comparison have no limits.
    if report.comparison.is_none() || !report.results.is_empty() {
        limits(report, out);
    }
    out.push_str("</div></div>\n</section>\n");
}

fn fact(out: &mut String, name: &str, text: &str) {
    let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
}

fn host(host: &Host) -> String {
    format!("{}, cores: {}, {}", host.name, units::count(u64::from(host.cores)), host.kernel)
}

/// Adds up everything that was measured, for results and for a comparison.
fn totals(report: &Report) -> Totals {
    let mut totals =
        report.comparison.as_ref().and_then(|comparison| comparison.totals.clone()).unwrap_or_default();
    report.results.iter().for_each(|it| totals.add(it));
    totals
}

/// Summarizes how much was measured.
fn amount(totals: &Totals) -> String {
    format!(
        "measurements: {}; {} measured, {} of warm-up before; operations: {}; moved: {}",
        units::count(totals.measurements),
        units::seconds(totals.seconds),
        units::seconds(totals.warmup_seconds),
        units::short(totals.operations as f64),
        units::bytes(totals.bytes)
    )
}

/// Summarizes the ranges of threads, depth and connections.
fn load(totals: &Totals) -> String {
    let range = |(low, high): (u32, u32)| match low {
        0 => "none".to_owned(),
        _ if low != high => format!("{low} to {high}"),
        _ => low.to_string(),
    };
    let (threads, depth) = (range(totals.threads), range(totals.depth));
    format!("threads: {threads}; in flight per thread: {depth}; connections: {}", range(totals.connections))
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
        fact(out, subject::limit_name(LimitKind::TcpLineRate, report), &units::bytes_per_second(rate));
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
    for kind in &limits.not_valid {
        fact(
            out,
            "Not valid",
            &format!("{}: a result is more than 5 % above it", subject::limit_name(*kind, report)),
        );
    }
    if out.len() == before {
        fact(out, "None", "no limit was measured, so there are no fractions");
    }
    out.push_str("</dl>");
}
