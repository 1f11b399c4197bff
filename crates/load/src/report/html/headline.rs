//! The first screen: the best result of each kind of work, as a fraction of its limit.

use std::fmt::Write as _;

use crate::report::markup::escape;
use crate::report::subject::{self, Family};
use crate::report::units;
use crate::report::{memory, plot};
use crate::result::{Latency, LimitKind, Measurement, Report};
use crate::workload::Workload;

/// Tiles on the first screen.
const TILES_MAX: usize = 8;

/// A figure as a fraction of its limit.
struct Tile {
    label: String,
    rate: String,
    /// Below the rate: threads and latency.
    detail: Vec<String>,
    fraction: Option<f64>,
    /// The limit, in words and figures, or the reason for its absence.
    of: String,
}

pub(super) fn write(report: &Report, out: &mut String) {
    let tiles = tiles(report);
    if tiles.is_empty() {
        if report.comparison.is_none() {
            out.push_str("<p class=\"empty\">Nothing was measured.</p>\n");
        }
        return;
    }
    out.push_str("<section id=\"headline\" class=\"tiles\" aria-label=\"Headline figures\">\n");
    let reach = tiles.iter().filter_map(|tile| tile.fraction).fold(1.0, f64::max);
    for tile in tiles {
        let _ = write!(out, "<div class=\"tile\"><h3>{}</h3>", escape(&tile.label));
        match tile.fraction {
            Some(fraction) => {
                let (number, sign) = split(&units::percent(fraction));
                let _ = write!(
                    out,
                    "<p class=\"big\">{}<small>{}</small></p>{}<p class=\"of\">of {}</p>",
                    escape(&number),
                    escape(&sign),
                    plot::limited_bar(fraction, reach, "fill"),
                    escape(&tile.of)
                );
            }
            None => {
                let _ = write!(
                    out,
                    "<p class=\"big rate\">{}</p><p class=\"of\">{}</p>",
                    escape(&tile.rate),
                    escape(&tile.of)
                );
            }
        }
        if tile.fraction.is_some() {
            let _ = write!(out, "<p class=\"reached\">{}</p>", escape(&tile.rate));
        }
        let detail: Vec<String> = tile.detail.iter().map(|line| escape(line)).collect();
        let _ = writeln!(out, "<p class=\"detail\">{}</p></div>", detail.join("<br/>"));
    }
    out.push_str("</section>\n");
}

/// Splits a figure from its unit.
fn split(text: &str) -> (String, String) {
    match text.rsplit_once(' ') {
        Some((number, unit)) => (number.to_owned(), format!("\u{202F}{unit}")),
        None => (text.to_owned(), String::new()),
    }
}

fn tiles(report: &Report) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let random = |reads: bool| {
        move |workload: &Workload| match workload {
            Workload::Random { read_percent, .. } => {
                (*read_percent >= 100) == reads && (reads || *read_percent == 0)
            }
            _ => false,
        }
    };
    let family = |wanted: Family| move |workload: &Workload| Family::of(workload) == wanted;
    tiles.extend(best(report, family(Family::SequentialRead)).map(|it| whole(report, it)));
    tiles.extend(best(report, family(Family::SequentialWrite)).map(|it| whole(report, it)));
    tiles.extend(best(report, random(true)).map(|it| whole(report, it)));
    tiles.extend(best(report, random(false)).map(|it| whole(report, it)));
    for procedure in ["CREATE", "STAT"] {
        tiles.extend(phase(report, procedure));
    }
    tiles.extend(best(report, family(Family::SmallFiles)).map(|it| whole(report, it)));
    let calls = |workload: &Workload| matches!(workload, Workload::Rate { .. });
    tiles.extend(best(report, calls).map(|it| whole(report, it)));
    tiles.extend(best(report, family(Family::Readdir)).map(|it| whole(report, it)));
    if tiles.is_empty() {
        tiles.extend(best(report, |_| true).map(|it| whole(report, it)));
    }
    tiles.truncate(TILES_MAX);
    tiles
}

/// Returns the measurement with the highest rate among those wanted.
fn best(report: &Report, wanted: impl Fn(&Workload) -> bool) -> Option<&Measurement> {
    let found = report.results.iter().filter(|it| wanted(&it.workload) && subject::rate(it).is_finite());
    found.max_by(|a, b| subject::rate(a).total_cmp(&subject::rate(b)))
}

/// Returns the threads and the latency of a measurement, and whether its data fits the server's memory.
fn detail(report: &Report, measurement: &Measurement, latency: &Latency) -> Vec<String> {
    let mut lines = threads_and_latency(measurement, latency).to_vec();
    lines.extend(memory::mark(measurement, report));
    lines
}

fn threads_and_latency(measurement: &Measurement, latency: &Latency) -> [String; 2] {
    let threads = format!("threads: {}", units::count(u64::from(measurement.threads)));
    if latency.count == 0 {
        return [threads, String::new()];
    }
    let [p50, p99] = [latency.p50_ns, latency.p99_ns].map(|ns| units::nanoseconds(ns as f64));
    // Keeps a figure and its unit on one line.
    [threads, format!("p50 {p50} · p99 {p99}").replace(' ', "\u{A0}").replace("\u{A0}·\u{A0}", "\u{A0}· ")]
}

fn whole(report: &Report, measurement: &Measurement) -> Tile {
    let unit = Family::of(&measurement.workload).unit();
    let limit = measurement.limit.as_ref();
    let named = |kind: LimitKind| {
        let value = subject::limit_text(kind, &report.limits).map(|text| format!(", {text}"));
        format!("the {}{}", subject::limit_name(kind, report), value.unwrap_or_default())
    };
    let of = match (limit, report.limits.nearest(measurement)) {
        (Some(limit), _) => named(limit.limit),
        (None, Some(limit)) => format!("{}, is not valid as a limit", named(limit.limit)),
        (None, None) => "no limit was measured".to_owned(),
    };
    Tile {
        label: subject::label(&measurement.workload),
        rate: subject::rate_text(unit, subject::rate(measurement)),
        detail: detail(report, measurement, &measurement.latency),
        fraction: limit.map(|limit| limit.fraction).filter(|fraction| fraction.is_finite()),
        of,
    }
}

/// Names the files of a metadata test within a label.
fn files(workload: &Workload) -> String {
    match *workload {
        Workload::Metadata { file_bytes: 1.., .. } => subject::label(workload).replacen('F', "f", 1),
        _ => "empty files".to_owned(),
    }
}

/// Returns the best result of a metadata phase over all metadata tests.
fn phase(report: &Report, procedure: &str) -> Option<Tile> {
    let metadata = report.results.iter().filter(|it| Family::of(&it.workload) == Family::Metadata);
    let phases = metadata.flat_map(|it| it.phases.iter().map(move |phase| (it, phase)));
    let (measurement, phase) = phases
        .filter(|(_, phase)| phase.procedure == procedure && phase.operations_per_s.is_finite())
        .max_by(|a, b| a.1.operations_per_s.total_cmp(&b.1.operations_per_s))?;
    let calls = subject::limit_text(LimitKind::NullCalls, &report.limits).unwrap_or_default();
    let fraction =
        subject::phase_fraction(phase.operations_per_s, &report.limits).filter(|it| it.is_finite());
    let of = match (fraction, calls.as_str()) {
        (Some(_), _) => format!("the NULL-call rate, {calls}"),
        (None, "") => "no limit was measured".to_owned(),
        (None, _) => format!("the NULL-call rate, {calls}, is not valid as a limit"),
    };
    Some(Tile {
        label: format!("{procedure}, {}", files(&measurement.workload)),
        rate: units::operations(phase.operations_per_s),
        detail: detail(report, measurement, &phase.latency),
        fraction,
        of,
    })
}
