//! Tables of all figures.

use std::fmt::Write as _;

use super::charts;
use crate::report::markup::escape;
use crate::report::plot;
use crate::report::subject::{self, Family};
use crate::report::{memory, notes, series, units};
use crate::result::{Latency, Measurement, Report};

pub(super) fn write(report: &Report, out: &mut String) {
    if report.results.is_empty() {
        return;
    }
    let about =
        "The small line is the rate over time. The JSON of this result has the histogram of each latency.";
    super::section(out, "figures", "Every figure", about);
    for family in Family::ALL {
        let members: Vec<&Measurement> =
            series::of_family(report, family).into_iter().flat_map(|line| line.steps).collect();
        if !members.is_empty() {
            let _ = write!(out, "<h3>{}</h3>", family.title());
            measurements(&members, report, out);
        }
    }
    errors(report, out);
    out.push_str("</section>\n");
}

const HEAD: [&str; 20] = [
    "Workload",
    "Working set",
    "Threads",
    "Depth",
    "Connections",
    "Rate",
    "Moved",
    "Of limit",
    "Over time",
    "Mean",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "Max",
    "CPU per op",
    "CPU per GiB",
    "Operations",
    "Time",
    "Marks",
];

fn measurements(members: &[&Measurement], report: &Report, out: &mut String) {
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for head in HEAD {
        let _ = write!(out, "<th>{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for measurement in members {
        row(measurement, report, out);
        if measurement.phases.len() > 1 {
            phases(measurement, out);
        }
    }
    out.push_str("</tbody></table></div>\n");
}

fn cell(out: &mut String, text: &str) {
    let _ = write!(out, "<td>{}</td>", escape(text));
}

fn row(measurement: &Measurement, report: &Report, out: &mut String) {
    let _ = write!(
        out,
        "<tr title=\"{}\"><td class=\"words\">{}</td>",
        escape(&format!("{}; seed {}", subject::parameters(&measurement.workload), measurement.seed)),
        escape(&measurement.name)
    );
    cell(out, &memory::working_set(measurement));
    for figure in [measurement.threads, measurement.depth, measurement.connections] {
        cell(out, &units::count(u64::from(figure)));
    }
    cell(out, &units::operations(measurement.operations_per_s));
    let moved =
        if measurement.bytes > 0 { units::bytes_per_second(measurement.bytes_per_s) } else { String::new() };
    cell(out, &moved);
    let limit = measurement.limit.as_ref();
    let of = limit
        .map(|it| format!("{} {}", units::percent(it.fraction), subject::limit_short_name(it.limit, report)));
    cell(out, &of.unwrap_or_default());
    let spark = plot::spark(&measurement.timeline, charts::sample_rate(measurement));
    let _ = write!(out, "<td class=\"drawing\">{spark}</td>");
    latency(&measurement.latency, out);
    let server = measurement.server.as_ref();
    cell(out, &server.map(|it| units::nanoseconds(it.cpu_ns_per_operation)).unwrap_or_default());
    cell(out, &server.and_then(|it| it.cpu_seconds_per_gib).map(units::seconds).unwrap_or_default());
    cell(out, &units::count(measurement.operations));
    cell(out, &units::seconds(measurement.seconds));
    let _ = writeln!(out, "<td class=\"words\">{}</td></tr>", escape(&notes::marks(measurement, report)));
}

fn phases(measurement: &Measurement, out: &mut String) {
    for phase in &measurement.phases {
        let _ = write!(
            out,
            "<tr class=\"phase\"><td class=\"words\">{}</td><td></td><td></td><td></td><td></td>",
            escape(&phase.procedure)
        );
        cell(out, &units::operations(phase.operations_per_s));
        out.push_str("<td></td><td></td><td></td>");
        latency(&phase.latency, out);
        out.push_str("<td></td><td></td>");
        cell(out, &units::count(phase.operations));
        cell(out, &units::seconds(phase.seconds));
        out.push_str("<td></td></tr>\n");
    }
}

/// Writes six columns, which are empty without latencies.
fn latency(latency: &Latency, out: &mut String) {
    let times =
        [latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, latency.max_ns].map(|ns| ns as f64);
    for time in std::iter::once(latency.mean_ns).chain(times) {
        let text = if latency.count == 0 { String::new() } else { units::nanoseconds(time) };
        cell(out, &text);
    }
}

fn errors(report: &Report, out: &mut String) {
    if report.results.iter().all(|it| it.errors.is_empty()) {
        return;
    }
    out.push_str("<h3>Errors</h3><div class=\"scroll\"><table><thead><tr><th>Workload</th><th>Threads</th><th>Cause</th><th>Times</th></tr></thead><tbody>\n");
    for measurement in &report.results {
        for error in &measurement.errors {
            let _ = writeln!(
                out,
                "<tr><td class=\"words\">{}</td><td>{}</td><td class=\"words\">{}</td><td>{}</td></tr>",
                escape(&measurement.name),
                units::count(u64::from(measurement.threads)),
                escape(&error.cause),
                units::count(error.count)
            );
        }
    }
    out.push_str("</tbody></table></div>\n");
}
