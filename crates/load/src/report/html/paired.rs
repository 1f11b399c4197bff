//! The published tests that ran here: a card per system with its figures as fractions of that system's limit, each
//! above the same test here as a fraction of ours.

use std::fmt::Write as _;

use super::charts;
use crate::published::{ROWS, Row, Shape, System};
use crate::report::markup::escape;
use crate::report::{plot, subject, units};
use crate::result::Report;

pub(super) fn write(report: &Report, out: &mut String) {
    let cards: Vec<String> = System::ALL.into_iter().filter_map(|system| card(report, system)).collect();
    if cards.is_empty() {
        return;
    }
    let about = "Each test that was run here beside the figure that was published for it. Machines differ, so both are \
                 fractions of a limit of their own: ours of what was measured in this run, theirs of what the report states. \
                 A full bar is the limit.";
    super::section(out, "tests", "The published tests, run here", about);
    charts::grid(out, &cards);
    out.push_str("</section>\n");
}

/// Returns a system's tests, unless none ran or none has limits on both sides.
fn card(report: &Report, system: System) -> Option<String> {
    let rows: Vec<String> =
        ROWS.iter().filter(|row| row.system == system).filter_map(|row| pair(report, row)).collect();
    (!rows.is_empty()).then(|| {
        format!(
            "<figure class=\"chart\"><figcaption><h3>{}</h3></figcaption><div class=\"bars\">{}</div></figure>\n",
            escape(system.name()),
            rows.concat()
        )
    })
}

/// Returns a figure with the measurement that corresponds to it.
fn pair(report: &Report, row: &Row) -> Option<String> {
    let theirs = row.fraction()?;
    let found = report.results.iter().find(|it| it.published.iter().any(|id| id == row.id))?;
    let (rate, ours) = subject::against(found, row, &report.limits);
    let ours = ours.filter(|fraction| fraction.is_finite())?;
    let mut out = format!(
        "<div class=\"row\"><span class=\"what\">{}</span>{}<span class=\"much\">{} · {}</span></div>",
        escape(&name(row)),
        plot::bar(ours, "fill"),
        escape(&units::percent(ours)),
        escape(&rate)
    );
    let _ = write!(
        out,
        "<div class=\"row other\"><span class=\"what\">published</span>{}<span class=\"much\">{} · {}</span></div>",
        plot::bar(theirs, super::overlay::class(row.system)),
        escape(&units::percent(theirs)),
        // Some reports give a figure in two units.
        escape(row.printed.split(", ").next().unwrap_or(row.printed))
    );
    Some(out)
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
