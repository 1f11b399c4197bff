//! The phases of metadata tests: bars of the best step above the published figures, and each phase over threads.

use std::fmt::Write as _;

use super::charts::{self, THREADS};
use crate::published::{ROWS, Row, Shape};
use crate::report::markup::escape;
use crate::report::plot::{self, Axis, AxisKind, Chart, Line, Point, Stroke};
use crate::report::series::{self, Series};
use crate::report::subject::{self, Family};
use crate::report::units;
use crate::result::{Measurement, Phase, Report};

pub(super) fn write(report: &Report, out: &mut String) {
    let families = [Family::Metadata, Family::SmallFiles];
    let all: Vec<Series<'_>> = families.into_iter().flat_map(|it| series::of_family(report, it)).collect();
    let phased: Vec<&Series<'_>> =
        all.iter().filter(|line| line.steps.iter().any(|it| !it.phases.is_empty())).collect();
    if phased.is_empty() {
        return;
    }
    let about = "Each phase has the machine to itself, as in mdtest. Published figures share the axis; in curves they \
                 are dashed. They are rates, not fractions, as their report states no limit, and come from other \
                 machines.";
    super::section(out, "metadata", "Metadata, phase by phase", about);
    let mut figures = Vec::new();
    for line in phased {
        figures.extend(bars(report, line));
        if line.steps.iter().filter(|it| !it.phases.is_empty()).count() > 1 {
            figures.push(over_threads(line));
        }
    }
    charts::grid(out, &figures);
    out.push_str("</section>\n");
}

/// Draws the phases of the step that took the least time per operation.
fn bars(report: &Report, line: &Series<'_>) -> Option<String> {
    let phased = line.steps.iter().copied().filter(|it| !it.phases.is_empty());
    let step = phased.max_by(|a, b| a.operations_per_s.total_cmp(&b.operations_per_s))?;
    let others: Vec<(&Phase, Option<&Row>)> =
        step.phases.iter().map(|phase| (phase, row_for(step, phase))).collect();
    let rates =
        others.iter().flat_map(|(phase, row)| [phase.operations_per_s, row.map_or(0.0, |row| row.figure)]);
    let most = rates.filter(|it| it.is_finite()).fold(0.0, f64::max);
    let mut out = format!(
        "<figure class=\"chart\"><figcaption><h3>{}, threads: {}</h3><p>{}. Measured and published rates from 0 to {}.</p></figcaption><div class=\"bars\">",
        escape(&line.label),
        step.threads,
        escape(&subject::parameters(&step.workload)),
        units::operations(most)
    );
    for (phase, row) in others {
        let fraction = subject::phase_fraction(phase.operations_per_s, &report.limits);
        let of_null =
            fraction.map(|it| format!(" · {} of NULL", escape(&units::percent(it)))).unwrap_or_default();
        let _ = write!(
            out,
            "<div class=\"row\"><span class=\"what\">{}</span>{}<span class=\"much\">{}{of_null}</span></div>",
            escape(&phase.procedure),
            plot::bar(phase.operations_per_s / most, "fill"),
            units::operations(phase.operations_per_s)
        );
        if let Some(row) = row {
            let threads = row.threads.map(|it| format!(" at {it}")).unwrap_or_default();
            let _ = write!(
                out,
                "<div class=\"row other\"><span class=\"what\">{}</span>{}<span class=\"much\">{}{threads} [{}]</span></div>",
                escape(row.system.name()),
                plot::bar(row.figure / most, super::overlay::class(row.system)),
                escape(row.printed),
                row.source.tag()
            );
        }
    }
    out.push_str("</div></figure>\n");
    Some(out)
}

/// Returns the published figure for a phase.
fn row_for(step: &Measurement, phase: &Phase) -> Option<&'static Row> {
    ROWS.iter().find(|row| {
        subject::corresponds(&step.workload, row.shape)
            && matches!(row.shape, Shape::Metadata { procedure, .. } if procedure == phase.procedure)
    })
}

fn over_threads(line: &Series<'_>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for phase in line.steps.iter().flat_map(|it| &it.phases) {
        if !names.contains(&phase.procedure.as_str()) {
            names.push(&phase.procedure);
        }
    }
    let lines = names.into_iter().enumerate().flat_map(|(n, name)| {
        let points = line.steps.iter().filter_map(|it| Some(point(it.threads, of_phase(it, name)?)));
        let points: Vec<Point> = points.collect();
        let row = line.steps.iter().find_map(|it| row_for(it, of_phase(it, name)?));
        let best = points.iter().map(|point| point.y).filter(|y| y.is_finite()).fold(0.0, f64::max);
        let measured = Line {
            label: name.to_owned(),
            figure: units::operations(best),
            class: charts::class(n),
            stroke: Stroke::Solid,
            points,
        };
        std::iter::once(measured).chain(row.map(|row| published(n, name, row)))
    });
    Chart {
        title: format!("{} over threads", line.label),
        note: "The legend's figures are the best of each phase.".to_owned(),
        x: THREADS,
        y: Axis { kind: AxisKind::FromZero, title: "operations per second", format: units::short_tick },
        lines: lines.collect(),
        levels: Vec::new(),
        window: None,
    }
    .render()
}

fn of_phase<'m>(step: &'m Measurement, name: &str) -> Option<&'m Phase> {
    step.phases.iter().find(|phase| phase.procedure == name)
}

/// Returns the published curve of a phase, in the colour of the measured one.
fn published(n: usize, phase: &str, row: &Row) -> Line {
    let point = |threads: Option<u32>, rate: f64| {
        let at = threads.map(|it| format!("threads: {it}\n")).unwrap_or_default();
        let (name, tag, rate_text) = (row.system.name(), row.source.tag(), units::operations(rate));
        Point {
            x: threads.map(f64::from),
            y: rate,
            says: format!("{name}\n{phase}\n{at}{rate_text} [{tag}]"),
        }
    };
    let mut points: Vec<Point> = row.points.iter().map(|it| point(Some(it.threads), it.figure)).collect();
    if points.is_empty() {
        points.push(point(row.threads, row.figure));
    }
    Line {
        label: format!("{phase}, {} [{}]", row.system.name(), row.source.tag()),
        figure: units::operations(row.figure),
        class: charts::class(n),
        stroke: Stroke::Dashed,
        points,
    }
}

fn point(threads: u32, phase: &Phase) -> Point {
    let mut says =
        format!("{}\nthreads: {threads}\n{}", phase.procedure, units::operations(phase.operations_per_s));
    if phase.latency.count > 0 {
        let [p50, p99] = [phase.latency.p50_ns, phase.latency.p99_ns].map(|ns| units::nanoseconds(ns as f64));
        let _ = write!(says, "\np50 {p50}, p99 {p99}");
    }
    Point { x: Some(f64::from(threads)), y: phase.operations_per_s, says }
}
