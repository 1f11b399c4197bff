//! Two servers, measured in turn: ratios with their spread.

use std::fmt::Write as _;

use crate::report::markup::escape;
use crate::report::plot;
use crate::report::units;
use crate::report::{memory, subject};
use crate::result::{Comparison, ComparisonRow, Report, Target, VERDICT_ROUNDS_MIN, Verdict};

/// The scale of ratios reaches at least this far to both sides of 1.
const RATIO_MIN: f64 = 1.25;
/// The scale reaches at most this far. Larger ratios are drawn at its end.
const RATIO_MAX: f64 = 1000.0;

pub(super) fn write(report: &Report, out: &mut String) {
    let Some(comparison) = &report.comparison else { return };
    let about = format!(
        "A against B, measured in turn, A B A B …, rounds: {}. A mark is the ratio of the medians, the line around it reaches from the lowest to \
         the highest ratio of neighbouring runs. A server is called faster if it was faster in every one of at least \
         {VERDICT_ROUNDS_MIN} rounds and failed no operation; with two equal servers, {VERDICT_ROUNDS_MIN} rounds agree by chance once in 16 rows. \
         CPU is the server's processor time for an operation, or for a GiB.",
        rounds(&comparison.rows)
    );
    super::section(out, "comparison", &subject::pair_name(comparison), &about);
    out.push_str("<dl class=\"facts\">");
    for (letter, target) in [("A", &comparison.a), ("B", &comparison.b)] {
        let _ = write!(out, "<dt>{letter}</dt><dd>{}</dd>", escape(&name(target)));
    }
    out.push_str("</dl>");
    table(comparison, out);
    out.push_str("</section>\n");
}

/// Returns the number of rounds of all rows.
fn rounds(rows: &[ComparisonRow]) -> String {
    let rounds = || rows.iter().map(|row| row.rounds);
    match (rounds().min().unwrap_or(0), rounds().max().unwrap_or(0)) {
        (low, high) if low == high => low.to_string(),
        (low, high) => format!("{low} to {high}"),
    }
}

fn name(target: &Target) -> String {
    let address = subject::target_address(target);
    target.label.as_ref().map_or_else(|| address.clone(), |label| format!("{label}, {address}"))
}

fn table(comparison: &Comparison, out: &mut String) {
    let rows = &comparison.rows;
    let reach = reach(rows);
    let costs =
        rows.iter().any(|row| row.a_cpu_ns_per_operation.is_some() || row.b_cpu_ns_per_operation.is_some());
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"compare\"><thead><tr><th>Workload</th><th>A</th><th>B</th>\
         <th class=\"words axis\"><span>{}</span><span>equal</span><span>{}</span></th><th>A / B</th><th>Spread</th><th>Rounds</th><th class=\"words\">Verdict</th>{}</tr></thead><tbody>",
        units::ratio(1.0 / reach),
        units::ratio(reach),
        if costs { "<th>CPU, A</th><th>CPU, B</th><th>A / B</th>" } else { "" }
    );
    for row in rows {
        let unit = subject::unit_of(&row.unit);
        let place = |ratio: f64| 0.5 + ratio.max(f64::MIN_POSITIVE).ln() / (2.0 * reach.ln());
        let drawing = if row.ratio.is_finite() && row.ratio > 0.0 {
            plot::interval(
                place(row.ratio_low),
                place(row.ratio),
                place(row.ratio_high),
                0.5,
                class(row.verdict()),
            )
        } else {
            String::new()
        };
        let marks = subject::compared_errors(row).into_iter().chain(memory::mark_compared(row, comparison));
        let marks: String = marks.map(|mark| format!("; {mark}")).collect();
        let _ = write!(
            out,
            "<tr><td class=\"words\">{}{marks}</td><td>{}</td><td>{}</td><td class=\"drawing\">{drawing}</td><td>{}</td><td>{} – {}</td><td>{}</td><td class=\"words\">{}</td>",
            escape(&row.name),
            subject::rate_text(unit, row.a_median),
            subject::rate_text(unit, row.b_median),
            units::ratio(row.ratio),
            units::ratio(row.ratio_low),
            units::ratio(row.ratio_high),
            row.rounds,
            row.verdict().words()
        );
        if costs {
            let cost = |ns: Option<f64>, per_gib: Option<f64>| {
                subject::cost_text(unit, ns, per_gib).unwrap_or_else(|| units::NOTHING.to_owned())
            };
            let ratio = row.cpu_ratio.map_or_else(|| units::NOTHING.to_owned(), units::ratio);
            let a = cost(row.a_cpu_ns_per_operation, row.a_cpu_seconds_per_gib);
            let b = cost(row.b_cpu_ns_per_operation, row.b_cpu_seconds_per_gib);
            let _ = write!(out, "<td>{a}</td><td>{b}</td><td>{ratio}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Returns how far the scale reaches to both sides, so that twice and half are equally far from 1.
fn reach(rows: &[ComparisonRow]) -> f64 {
    let ratios = rows.iter().flat_map(|row| [row.ratio_low, row.ratio, row.ratio_high]);
    let usable = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    usable.map(|ratio| ratio.max(1.0 / ratio)).fold(RATIO_MIN, f64::max).min(RATIO_MAX)
}

/// Returns the class of a drawing: a colour for the faster server, grey without a verdict.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::AFaster => "faster",
        Verdict::BFaster => "slower",
        Verdict::NotShown | Verdict::Failed(_) => "alike",
    }
}
