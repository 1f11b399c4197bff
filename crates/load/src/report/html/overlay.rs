//! Our rates and those of five published systems, each as a fraction of its own limit, which makes machines of
//! different size comparable.

use std::fmt::Write as _;

use super::charts::{self, THREADS};
use crate::published::{self, ROWS, Row, Source, System};
use crate::report::markup::escape;
use crate::report::plot::{Axis, AxisKind, Chart, Level, Line, Point, Stroke};
use crate::report::series::{self, Series};
use crate::report::subject::Family;
use crate::report::units;
use crate::result::Report;
use crate::workload::Workload;

/// A chart of one kind of work, with the closest published test of each system. Only the table shows tests without
/// replication or with cached answers.
struct Panel {
    title: &'static str,
    ours: fn(&Workload) -> bool,
    published: &'static [&'static str],
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Sequential reads",
        ours: |it| matches!(it, Workload::SequentialRead { .. }),
        published: &[
            "dell-seq-read",
            "pixstor-seq-read",
            "anf-64k-uncached-read",
            "oci80-1m-read",
            "starwind-2m-read",
        ],
    },
    Panel {
        title: "Sequential writes",
        ours: |it| matches!(it, Workload::SequentialWrite { .. }),
        published: &["dell-seq-write", "pixstor-seq-write", "anf-64k-uncached-write", "oci80-1m-write"],
    },
    Panel {
        title: "Random reads",
        ours: |it| matches!(it, Workload::Random { read_percent: 100.., .. }),
        published: &["anf-4k-uncached-read", "anf-8k-uncached-read", "starwind-4k-read"],
    },
    Panel {
        title: "Random writes",
        ours: |it| matches!(it, Workload::Random { read_percent: 0, .. }),
        published: &["anf-4k-uncached-write", "anf-8k-uncached-write"],
    },
];

/// Returns the CSS class with the system's colour.
pub(super) fn class(system: System) -> &'static str {
    match system {
        System::DellHpcNfs => "s1",
        System::Pixstor => "s2",
        System::AzureNetAppFiles => "s3",
        System::OciFileStorage => "s4",
        System::StarWind => "s5",
    }
}

pub(super) fn write(report: &Report, out: &mut String) {
    let all: Vec<Series<'_>> =
        Family::ALL.into_iter().flat_map(|family| series::of_family(report, family)).collect();
    let panels: Vec<String> = PANELS.iter().filter_map(|panel| draw(report, panel, &all)).collect();
    if panels.is_empty() {
        return;
    }
    let about = "Machines differ, so every system is compared with a limit of its own: ours with what was measured in \
                 this run, theirs (dashed) with what their reports state. Kinds of limits differ too: drives, links, \
                 service levels. The table at the end of the page has every figure with its limit and source.";
    super::section(out, "published", "Beside published systems", about);
    charts::grid(out, &panels);
    out.push_str("</section>\n");
}

fn draw(report: &Report, panel: &Panel, all: &[Series<'_>]) -> Option<String> {
    let is_ours =
        |line: &&Series<'_>| line.steps.iter().any(|it| (panel.ours)(&it.workload) && it.limit.is_some());
    let mut ours: Vec<&Series<'_>> = all.iter().filter(is_ours).collect();
    // Curves would hide single points, which other charts show.
    if ours.iter().any(|line| line.steps.len() > 1) {
        ours.retain(|line| line.steps.len() > 1);
    }
    let mut lines: Vec<Line> =
        ours.into_iter().enumerate().map(|(n, line)| measured(report, n, line)).collect();
    if lines.is_empty() {
        return None;
    }
    let rows: Vec<&Row> = panel.published.iter().filter_map(|id| published::find(id)).collect();
    lines.extend(rows.iter().copied().filter_map(line));
    // A system above its stated limit needs its note.
    let above = rows.iter().filter(|row| row.fraction().is_some_and(|fraction| fraction > 1.2));
    let notes = above.map(|row| format!("{}: {}.", row.system.name(), row.note));
    let chart = Chart {
        title: panel.title.to_owned(),
        note: notes.collect::<Vec<_>>().join(" "),
        x: THREADS,
        y: Axis { kind: AxisKind::FromZero, title: "of its own limit", format: units::percent_tick },
        lines,
        levels: vec![Level { y: 1.0, label: "the limit".to_owned() }],
        window: None,
    };
    Some(chart.render())
}

fn measured(report: &Report, n: usize, line: &Series<'_>) -> Line {
    let points = line.steps.iter().filter_map(|it| {
        let fraction = it.limit.as_ref()?.fraction;
        Some(charts::point(report, it, fraction, &line.label))
    });
    let points: Vec<Point> = points.collect();
    let best = points.iter().map(|point| point.y).filter(|y| y.is_finite()).fold(0.0, f64::max);
    Line {
        label: format!("here: {}", line.label),
        figure: units::percent(best),
        class: format!("{} ours", charts::class(n)),
        stroke: Stroke::Solid,
        points,
    }
}

/// Returns a published curve: the points that its report gives in numbers, or one beside the axis if it states no
/// threads.
fn line(row: &Row) -> Option<Line> {
    let best = row.fraction()?;
    let says = |fraction: f64, threads: Option<u32>| {
        let threads = threads.map(|it| format!("threads: {it}\n")).unwrap_or_default();
        let limit = row.limit.map(|limit| limit.what).unwrap_or_default();
        let (name, test, tags) = (row.system.name(), row.test, tags(row));
        format!("{name}\n{test}\n{threads}{} of its limit: {limit} {tags}", units::percent(fraction))
    };
    let mut points: Vec<Point> = row
        .fractions()
        .into_iter()
        .map(|(threads, y)| Point { x: Some(f64::from(threads)), y, says: says(y, Some(threads)) })
        .collect();
    if points.is_empty() {
        points.push(Point { x: row.threads.map(f64::from), y: best, says: says(best, row.threads) });
    }
    Some(Line {
        label: format!("{}, {} {}", row.system.name(), row.test, tags(row)),
        figure: units::percent(best),
        class: class(row.system).to_owned(),
        stroke: Stroke::Dashed,
        points,
    })
}

/// Returns the source tags of a row's figure and limit.
fn tags(row: &Row) -> String {
    let mut sources: Vec<Source> = vec![row.source];
    if let Some(limit) = row.limit {
        sources.extend([limit.source, Source::Derived]);
    }
    let mut tags: Vec<&str> = Vec::new();
    for source in sources {
        if !tags.contains(&source.tag()) {
            tags.push(source.tag());
        }
    }
    format!("[{}]", tags.join(""))
}

/// Writes a table of every published figure, with its limit, its sources and the corresponding result.
pub(super) fn table(report: &Report, out: &mut String) {
    if report.results.is_empty() {
        return;
    }
    let meanings = [Source::Report, Source::Documentation, Source::Derived];
    let meanings = meanings.map(|source| format!("[{}] {}", source.tag(), source.meaning())).join(", ");
    let about = format!("Figures that the five systems state about themselves. Sources: {meanings}.");
    super::section(out, "sources", "Published figures", &about);
    out.push_str(
        "<details><summary>All figures, with their limits and sources</summary><div class=\"scroll\"><table><thead><tr>\
         <th>System and test</th><th>Parameters</th><th>Threads</th><th>Figure</th><th>Of its limit</th><th>Limit</th>\
         <th>Sources</th><th>Measured here</th><th>Note</th></tr></thead><tbody>",
    );
    for row in ROWS {
        let threads = row.threads.map_or_else(|| units::NOTHING.to_owned(), |it| it.to_string());
        let cells = [
            ("words", format!("{}: {}", row.system.name(), row.test)),
            ("words small", row.parameters.to_owned()),
            ("", threads),
            ("", row.printed.to_owned()),
            ("", row.fraction().map_or_else(|| units::NOTHING.to_owned(), units::percent)),
            ("words small", row.limit.map_or("none stated", |limit| limit.what).to_owned()),
            ("words", tags(row)),
            ("words", here(report, row)),
            ("words small", row.note.to_owned()),
        ];
        let _ = write!(out, "<tr title=\"{}\">", escape(row.id));
        for (class, text) in cells {
            let _ = write!(out, "<td class=\"{class}\">{}</td>", escape(&text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div><dl class=\"facts reports\">");
    for system in System::ALL {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(system.name()), escape(system.report()));
    }
    out.push_str("</dl></details>\n</section>\n");
}

/// Describes what was measured here for a figure.
fn here(report: &Report, row: &Row) -> String {
    let found = report.results.iter().filter(|it| it.published.iter().any(|id| id == row.id));
    let texts = found.map(|it| {
        let (rate, fraction) = crate::report::subject::against(it, row, &report.limits);
        let fraction =
            fraction.map(|it| format!(", {} of its limit", units::percent(it))).unwrap_or_default();
        format!("{rate}{fraction} (threads: {})", it.threads)
    });
    texts.collect::<Vec<_>>().join("; ")
}
