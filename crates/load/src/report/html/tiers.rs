//! The runs at tiers of rates: what each got of its tier, and how long calls took.

use std::fmt::Write as _;

use crate::report::markup::escape;
use crate::report::units;
use crate::result::{Latency, Report, TierRun};

const HEAD: [&str; 9] = ["Tier", "Workload", "Cap", "Moved", "Of cap", "p50", "p99", "p99.9", "Max"];

pub(super) fn write(report: &Report, out: &mut String) {
    if report.tiers.is_empty() {
        return;
    }
    let about = "The server held the load to each tier in turn. Latencies are those of a load that always has calls waiting, so that \
                 they grow as tiers get lower.";
    super::section(out, "tiers", "Tiers of rates", about);
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for head in HEAD {
        let _ = write!(out, "<th>{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for run in &report.tiers {
        out.push_str("<tr>");
        for (class, text) in cells(run) {
            let _ = write!(out, "<td class=\"{class}\">{}</td>", escape(&text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

fn cells(TierRun { tier, measurement }: &TierRun) -> [(&'static str, String); 9] {
    let Latency { count, p50_ns, p99_ns, p999_ns, max_ns, .. } = measurement.latency;
    let nothing = || units::NOTHING.to_owned();
    // Without operations there is no latency.
    let time = |ns: u64| if count == 0 { nothing() } else { units::nanoseconds(ns as f64) };
    let cap = tier.as_ref().map(|tier| units::bytes_per_second(tier.cap_bytes_per_s));
    let fraction = tier.as_ref().map(|tier| units::percent(tier.fraction));
    [
        ("words", tier.as_ref().map_or_else(|| "none".to_owned(), |tier| tier.name.clone())),
        ("words", measurement.name.clone()),
        ("", cap.unwrap_or_else(nothing)),
        ("", units::bytes_per_second(measurement.bytes_per_s)),
        ("", fraction.unwrap_or_else(nothing)),
        ("", time(p50_ns)),
        ("", time(p99_ns)),
        ("", time(p999_ns)),
        ("", time(max_ns)),
    ]
}
