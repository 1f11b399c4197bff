//! The published tests that ran here: a card per system with its figures as fractions of that system's limit, each
//! above the same test here as a fraction of ours.

use std::fmt::Write as _;

use super::charts;
use crate::published::{ROWS, Row, Shape, System};
use crate::report::markup::escape;
use crate::report::{memory, plot, subject, units};
use crate::result::{LimitKind, Measurement, Report};

pub(super) fn write(report: &Report, out: &mut String) {
    let cards: Vec<String> = System::ALL.into_iter().filter_map(|system| card(report, system)).collect();
    if cards.is_empty() {
        return;
    }
    let about = "Each test that was run here beside the figure that was published for it. Machines differ, so both are \
                 fractions of a limit of their own: ours of what was measured in this run, theirs of what the report states. \
                 The mark is the limit. Limits differ in kind: what this machine can carry is not a service level.";
    super::section(out, "tests", "The published tests, run here", about);
    charts::grid(out, &cards);
    out.push_str("</section>\n");
}

/// A figure beside the measurement that corresponds to it.
struct Pair<'r> {
    row: &'static Row,
    measurement: &'r Measurement,
    rate: String,
    /// As a fraction of our limit, if that is known and valid.
    ours: Option<f64>,
    theirs: f64,
}

/// Returns a system's tests on one scale, unless none ran or none has a limit.
fn card(report: &Report, system: System) -> Option<String> {
    let pairs: Vec<Pair<'_>> =
        ROWS.iter().filter(|row| row.system == system).filter_map(|row| pair(report, row)).collect();
    if pairs.iter().all(|pair| pair.ours.is_none()) {
        return None;
    }
    let reach = pairs.iter().flat_map(|pair| [pair.ours.unwrap_or(0.0), pair.theirs]).fold(1.0, f64::max);
    let rows: Vec<String> = pairs.iter().map(|pair| draw(report, pair, reach)).collect();
    Some(format!(
        "<figure class=\"chart\"><figcaption><h3>{}</h3><p>From 0 to {} of each figure's own limit.</p></figcaption>\
         <div class=\"bars\">{}</div></figure>\n",
        escape(system.name()),
        escape(&units::percent(reach)),
        rows.concat()
    ))
}

/// Returns a figure with the measurement that corresponds to it.
fn pair<'r>(report: &'r Report, row: &'static Row) -> Option<Pair<'r>> {
    let theirs = row.fraction()?;
    let measurement = report.results.iter().find(|it| it.published.iter().any(|id| id == row.id))?;
    let (rate, ours) = subject::against(measurement, row, &report.limits);
    Some(Pair { row, measurement, rate, ours: ours.filter(|fraction| fraction.is_finite()), theirs })
}

/// Draws both bars of a pair, with the names of their limits beside them.
fn draw(report: &Report, pair: &Pair<'_>, reach: f64) -> String {
    let Pair { row, measurement, rate, ours, theirs } = pair;
    let kind = match row.shape {
        Shape::Metadata { .. } => Some(LimitKind::NullCalls),
        _ => report.limits.nearest(measurement).map(|limit| limit.limit),
    };
    let limit = kind.map(|kind| {
        let value = subject::limit_text(kind, &report.limits).unwrap_or_default();
        format!("{}, {value}", subject::limit_name(kind, report))
    });
    let limit = match (limit, ours) {
        (Some(limit), Some(_)) => format!("of the {limit}"),
        (Some(limit), None) => format!("the {limit}, is not valid as a limit"),
        (None, _) => "no limit was measured".to_owned(),
    };
    let mark = memory::mark(measurement, report).map(|mark| format!("; {mark}")).unwrap_or_default();
    let what = |name: &str, limit: &str| {
        format!("<span class=\"what\">{}<br/><small>{}</small></span>", escape(name), escape(limit))
    };
    let mut out = format!("<div class=\"row\">{}", what(&name(row), &(limit + &mark)));
    let _ = match ours {
        Some(ours) => write!(
            out,
            "{}<span class=\"much\">{} · {}</span></div>",
            plot::limited_bar(*ours, reach, "fill"),
            escape(&units::percent(*ours)),
            escape(rate)
        ),
        None => write!(out, "<span></span><span class=\"much\">{}</span></div>", escape(rate)),
    };
    let _ = write!(
        out,
        "<div class=\"row other\">{}{}<span class=\"much\">{} · {}</span></div>",
        what("published", &row.limit.map(|limit| format!("of {}", limit.what)).unwrap_or_default()),
        plot::limited_bar(*theirs, reach, super::overlay::class(row.system)),
        escape(&units::percent(*theirs)),
        // Some reports give a figure in two units.
        escape(row.printed.split(", ").next().unwrap_or(row.printed))
    );
    out
}

/// Names a test and its direction.
fn name(row: &Row) -> String {
    match row.shape {
        Shape::Sequential { write: true, .. } | Shape::Random { read_percent: 0, .. } => {
            format!("{}, writes", row.test)
        }
        Shape::Sequential { .. } | Shape::Random { read_percent: 100.., .. } => {
            format!("{}, reads", row.test)
        }
        Shape::Random { read_percent, .. } => {
            format!("{}, {read_percent}:{}", row.test, 100 - read_percent)
        }
        Shape::Metadata { procedure, .. } => format!("{}, {procedure}", row.test),
    }
}
