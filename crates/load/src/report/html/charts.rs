//! Charts of rates and latencies over threads, of mixes, and of rates over time.

use std::fmt::Write as _;

use crate::published::{ROWS, Shape, System, Unit};
use crate::report::markup::escape;
use crate::report::plot::{self, Axis, AxisKind, AxisScale, Chart, Level, Line, Point, Stroke};
use crate::report::series::{self, Series};
use crate::report::subject::{self, Family};
use crate::report::units;
use crate::result::{Measurement, Report, Sample};

/// Lines that a chart can hold and still be read.
const LINES_MAX: usize = 6;
/// Charts of a section that are visible at once. The others are folded away.
const SHOWN_MAX: usize = 6;

pub(super) const THREADS: Axis = Axis { kind: AxisKind::Log2, title: "threads", format: units::threads_tick };

fn rate_axis(unit: Unit) -> Axis {
    match unit {
        Unit::Bytes => {
            Axis { kind: AxisKind::FromZero, title: "bytes per second", format: units::bytes_tick }
        }
        Unit::Operations => {
            Axis { kind: AxisKind::FromZero, title: "operations per second", format: units::short_tick }
        }
    }
}

/// Returns the CSS class of the n-th line of a chart.
pub(super) fn class(n: usize) -> String {
    format!("c{}", n % LINES_MAX + 1)
}

/// Writes charts side by side, and folds all but the first few away.
pub(super) fn grid(out: &mut String, charts: &[String]) {
    let (shown, folded) = charts.split_at(charts.len().min(SHOWN_MAX));
    let _ = write!(out, "<div class=\"grid\">\n{}</div>\n", shown.concat());
    if !folded.is_empty() {
        let _ = write!(
            out,
            "<details><summary>{} more charts</summary><div class=\"grid\">\n{}</div></details>\n",
            folded.len(),
            folded.concat()
        );
    }
}

/// Writes a chart of rate over threads for each family, or bars if there is only one number of threads.
pub(super) fn rates(report: &Report, out: &mut String) {
    let mut charts = Vec::new();
    let mixes = series::mixes(report);
    for family in Family::ALL {
        let mut all = series::of_family(report, family);
        // Work in phases and the steps of a mix have sections of their own.
        if matches!(family, Family::Metadata | Family::SmallFiles) {
            all.retain(|line| line.steps.iter().all(|it| it.phases.is_empty()));
        }
        all.retain(|line| line.steps.len() > 1 || !line.steps.iter().any(|it| series::in_a_mix(&mixes, it)));
        let (single, several): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.steps.len() < 2);
        for lines in several.chunks(LINES_MAX) {
            charts.push(rate_chart(report, family, lines));
        }
        if !single.is_empty() {
            charts.push(rate_bars(report, family, &single));
        }
    }
    if charts.is_empty() {
        return;
    }
    let about = "How rates grow with the number of threads. A dashed level shows a measured limit, \
                 unless it is far above.";
    super::section(out, "rates", "Rate over threads", about);
    grid(out, &charts);
    out.push_str("</section>\n");
}

fn rate_chart(report: &Report, family: Family, lines: &[Series<'_>]) -> String {
    let unit = family.unit();
    let best = lines.iter().filter_map(Series::best).map(subject::rate).fold(0.0, f64::max);
    let drawn = lines.iter().enumerate().map(|(n, line)| {
        let points = line.steps.iter().map(|it| point(report, it, subject::rate(it), &line.label));
        Line {
            label: line.label.clone(),
            figure: line.best().map(|it| peak(report, it)).unwrap_or_default(),
            class: class(n),
            stroke: Stroke::Solid,
            points: points.collect(),
        }
    });
    let chart = Chart {
        title: family.title().to_owned(),
        note: String::new(),
        x: THREADS,
        y: rate_axis(unit),
        lines: drawn.collect(),
        levels: levels(report, unit, lines, best),
        window: None,
    };
    chart.render()
}

/// Describes the best rate and its number of threads.
fn peak(report: &Report, measurement: &Measurement) -> String {
    let unit = Family::of(&measurement.workload).unit();
    let limit = measurement.limit.as_ref().map(|limit| {
        format!(" · {} of {}", units::percent(limit.fraction), subject::limit_short_name(limit.limit, report))
    });
    let rate = subject::rate_text(unit, subject::rate(measurement));
    format!("{rate} at {}{}", measurement.threads, limit.unwrap_or_default())
}

/// Returns a point over the number of threads, with its tooltip.
pub(super) fn point(report: &Report, measurement: &Measurement, y: f64, label: &str) -> Point {
    let unit = Family::of(&measurement.workload).unit();
    let mut says = format!(
        "{label}\nthreads: {}\n{}",
        measurement.threads,
        subject::rate_text(unit, subject::rate(measurement))
    );
    if let Some(limit) = &measurement.limit {
        let _ = write!(
            says,
            "\n{} of the {}",
            units::percent(limit.fraction),
            subject::limit_name(limit.limit, report)
        );
    }
    if measurement.latency.count > 0 {
        let times = [measurement.latency.p50_ns, measurement.latency.p99_ns];
        let [p50, p99] = times.map(|ns| units::nanoseconds(ns as f64));
        let _ = write!(says, "\np50 {p50}, p99 {p99}");
    }
    Point { x: Some(f64::from(measurement.threads)), y, says }
}

/// Returns the limits of these lines, except those so high that they would flatten the lines.
fn levels(report: &Report, unit: Unit, lines: &[Series<'_>], best: f64) -> Vec<Level> {
    const REACH: f64 = 3.0;
    let mut levels: Vec<Level> = Vec::new();
    for limit in lines.iter().flat_map(|line| &line.steps).filter_map(|it| it.limit.as_ref()) {
        let Some((value, of)) = subject::limit_value(limit.limit, &report.limits) else { continue };
        let known = levels.iter().any(|level| level.y == value);
        if of == unit && value.is_finite() && value <= best * REACH && !known {
            let name = subject::limit_name(limit.limit, report);
            levels.push(Level { y: value, label: format!("{name}: {}", subject::rate_text(unit, value)) });
        }
    }
    levels
}

/// Draws a bar for each series with a single number of threads.
fn rate_bars(report: &Report, family: Family, single: &[Series<'_>]) -> String {
    let measurements = || single.iter().filter_map(|line| Some((line, *line.steps.first()?)));
    let most =
        measurements().map(|(_, it)| subject::rate(it)).filter(|it| it.is_finite()).fold(0.0, f64::max);
    let mut out = format!(
        "<figure class=\"chart\"><figcaption><h3>{}</h3><p>From 0 to {}.</p></figcaption><div class=\"bars\">",
        family.title(),
        subject::rate_text(family.unit(), most)
    );
    for (line, measurement) in measurements() {
        let rate = subject::rate(measurement);
        let _ = write!(
            out,
            "<div class=\"row\"><span class=\"what\">{}</span>{}<span class=\"much\">{}</span></div>",
            escape(&line.label),
            plot::bar(rate / most, "fill"),
            escape(&peak(report, measurement))
        );
    }
    out.push_str("</div></figure>\n");
    out
}

const NANOSECONDS: Axis = Axis { kind: AxisKind::Log10, title: "latency", format: units::nanoseconds_tick };

/// Writes latency percentiles over threads, or strips on a common scale if there is only one number of threads.
pub(super) fn latencies(report: &Report, out: &mut String) {
    let all: Vec<Series<'_>> =
        Family::ALL.into_iter().flat_map(|family| series::of_family(report, family)).collect();
    let timed = |line: &Series<'_>| line.steps.iter().any(|it| it.latency.count > 0);
    let (single, several): (Vec<_>, Vec<_>) =
        all.into_iter().filter(timed).partition(|it| it.steps.len() < 2);
    if single.is_empty() && several.is_empty() {
        return;
    }
    let about = "From sending an operation to its reply, on a logarithmic scale. Darker lines show rarer \
                 operations: of 1,000, one takes longer than p99.9.";
    super::section(out, "latency", "Latency percentiles", about);
    let charts: Vec<String> = several.iter().map(latency_chart).collect();
    if !charts.is_empty() {
        grid(out, &charts);
    }
    latency_strips(&single, out);
    out.push_str("</section>\n");
}

fn latency_chart(line: &Series<'_>) -> String {
    let timed = || line.steps.iter().filter(|it| it.latency.count > 0);
    type Percentile = (&'static str, fn(&Measurement) -> u64);
    let percentiles: [Percentile; 4] = [
        ("p99.9", |it| it.latency.p999_ns),
        ("p99", |it| it.latency.p99_ns),
        ("p90", |it| it.latency.p90_ns),
        ("p50", |it| it.latency.p50_ns),
    ];
    let lines = percentiles.into_iter().enumerate().map(|(n, (name, value))| {
        let points = timed().map(|it| {
            let says = format!("{name} at threads: {}\n{}", it.threads, units::nanoseconds(value(it) as f64));
            Point { x: Some(f64::from(it.threads)), y: value(it) as f64, says }
        });
        let last = timed().next_back().map(|it| units::nanoseconds(value(it) as f64));
        Line {
            label: name.to_owned(),
            figure: last.unwrap_or_default(),
            class: format!("p{}", 4 - n),
            stroke: Stroke::Solid,
            points: points.collect(),
        }
    });
    let most = timed().next_back().map(|it| format!("The legend's figures are at threads: {}.", it.threads));
    Chart {
        title: line.label.clone(),
        note: most.unwrap_or_default(),
        x: THREADS,
        y: NANOSECONDS,
        lines: lines.collect(),
        levels: Vec::new(),
        window: None,
    }
    .render()
}

fn latency_strips(single: &[Series<'_>], out: &mut String) {
    let rows: Vec<(&Series<'_>, &Measurement)> =
        single.iter().filter_map(|line| Some((line, *line.steps.first()?))).collect();
    if rows.is_empty() {
        return;
    }
    let bounds = rows.iter().flat_map(|(_, it)| [it.latency.p50_ns as f64, it.latency.p999_ns as f64]);
    let scale = AxisScale::new(AxisKind::Log10, bounds);
    let (low, high) =
        (scale.ticks.first().copied().unwrap_or(1.0), scale.ticks.last().copied().unwrap_or(1.0));
    let _ = write!(
        out,
        "<figure class=\"chart wide\"><figcaption><h3>p50 to p99.9, from {} to {}</h3><p>Shades end at p90, p99 and p99.9.</p></figcaption><div class=\"bars\">",
        units::nanoseconds(low),
        units::nanoseconds(high)
    );
    for (line, measurement) in rows {
        let latency = &measurement.latency;
        let [p50, p99, p999] =
            [latency.p50_ns, latency.p99_ns, latency.p999_ns].map(|ns| units::nanoseconds(ns as f64));
        let _ = write!(
            out,
            "<div class=\"row\"><span class=\"what\">{}</span>{}<span class=\"much\">{p50} · {p99} · {p999}</span></div>",
            escape(&format!("{}, threads: {}", line.label, measurement.threads)),
            plot::strip(latency, &scale)
        );
    }
    out.push_str("</div></figure>\n");
}

const READS: Axis =
    Axis { kind: AxisKind::Even, title: "% of operations that read", format: units::short_tick };

/// Writes rates over the share of reads: as measured, and relative to pure reads like published figures.
pub(super) fn mixes(report: &Report, out: &mut String) {
    let mixes = series::mixes(report);
    if mixes.is_empty() {
        return;
    }
    let about = "From pure writes (0:100) on the left to pure reads on the right. The second chart divides each rate by the system's \
                 own rate of pure reads, so that it compares shapes instead of machines.";
    super::section(out, "mixes", "Mixes of reads and writes", about);
    let mut charts = Vec::new();
    for some in mixes.chunks(LINES_MAX) {
        for relative in [false, true] {
            let lines = some.iter().enumerate().map(|(n, mix)| mix_line(mix, class(n), relative));
            let mut lines: Vec<Line> = lines.filter(|line| !line.points.is_empty()).collect();
            if relative && !lines.is_empty() {
                lines.extend(published_mixes());
            }
            let y = if relative {
                Axis {
                    kind: AxisKind::FromZero,
                    title: "of the rate of pure reads",
                    format: units::percent_tick,
                }
            } else {
                rate_axis(Unit::Operations)
            };
            let title = if relative { "As fractions of pure reads" } else { "Operations per second" };
            let chart = Chart {
                title: title.to_owned(),
                note: String::new(),
                x: READS,
                y,
                lines,
                levels: Vec::new(),
                window: None,
            };
            charts.push(chart.render());
        }
    }
    grid(out, &charts);
    out.push_str("</section>\n");
}

fn mix_line(mix: &series::Mix<'_>, class: String, relative: bool) -> Line {
    let reads = mix.steps.iter().find(|(share, _)| *share == 100).map(|(_, it)| it.operations_per_s);
    let base = if relative { reads.unwrap_or(f64::NAN) } else { 1.0 };
    let points = mix.steps.iter().map(|(share, it)| {
        let rate = units::operations(it.operations_per_s);
        let says = format!("{}\n{share}:{} reads to writes\n{rate}", mix.label, 100 - share);
        Point { x: Some(f64::from(*share)), y: it.operations_per_s / base, says }
    });
    let points: Vec<Point> = points.filter(|point| point.y.is_finite()).collect();
    let writes = mix.steps.iter().find(|(share, _)| *share == 0).map(|(_, it)| it.operations_per_s / base);
    let figure = match (writes, relative) {
        (Some(writes), true) => format!("{} at 0:100", units::percent(writes)),
        (Some(writes), false) => format!("{} at 0:100", units::operations(writes)),
        _ => String::new(),
    };
    Line { label: mix.label.clone(), figure, class, stroke: Stroke::Solid, points }
}

/// Returns the published mixes, by system and test, as fractions of their own pure reads.
fn published_mixes() -> Vec<Line> {
    let mut tests: Vec<(System, &str, Vec<(u8, f64)>)> = Vec::new();
    for row in ROWS {
        let Shape::Random { read_percent, .. } = row.shape else { continue };
        match tests.iter_mut().find(|(system, test, _)| *system == row.system && *test == row.test) {
            Some((_, _, points)) => points.push((read_percent, row.figure)),
            None => tests.push((row.system, row.test, vec![(read_percent, row.figure)])),
        }
    }
    let several = tests.into_iter().filter(|(_, _, points)| points.len() > 1);
    several
        .filter_map(|(system, test, mut points)| {
            let reads = points.iter().find(|(share, _)| *share == 100)?.1;
            points.sort_by_key(|(share, _)| *share);
            let lowest = points.first().map(|(share, figure)| (*share, figure / reads))?;
            let label = format!("{}, {test}", system.name());
            let line = points.iter().map(|(share, figure)| Point {
                x: Some(f64::from(*share)),
                y: figure / reads,
                says: format!(
                    "{label}\n{share}:{} reads to writes\n{}",
                    100 - share,
                    units::operations(*figure)
                ),
            });
            Some(Line {
                label: label.clone(),
                figure: format!("{} at {}:{}", units::percent(lowest.1), lowest.0, 100 - lowest.0),
                class: super::overlay::class(system).to_owned(),
                stroke: Stroke::Dashed,
                points: line.collect(),
            })
        })
        .collect()
}

const SECONDS: Axis = Axis { kind: AxisKind::Elapsed, title: "seconds", format: units::short_tick };

/// Writes rate over time: the best measurement of each series, then those that did not become steady. The tables have
/// a small line for each of the others.
pub(super) fn timelines(report: &Report, out: &mut String) {
    let mut chosen: Vec<&Measurement> = Vec::new();
    let mut others: Vec<&Measurement> = Vec::new();
    for line in Family::ALL.into_iter().flat_map(|family| series::of_family(report, family)) {
        let drawable = line.steps.iter().copied().filter(|it| it.timeline.len() > 1);
        let best = drawable.clone().max_by(|a, b| subject::rate(a).total_cmp(&subject::rate(b)));
        chosen.extend(best);
        let doubtful =
            drawable.filter(|it| it.interrupted || it.steady.as_ref().is_some_and(|steady| !steady.reached));
        others.extend(doubtful.filter(|it| best.is_none_or(|best| !std::ptr::eq(*it, best))));
    }
    if chosen.is_empty() {
        return;
    }
    let about = "The best step of each workload from the end of the warm-up, and steps that were interrupted or did not become \
                 steady. The window of a steady-state run is shaded.";
    super::section(out, "time", "Rate over time", about);
    let charts: Vec<String> = chosen.into_iter().chain(others).map(timeline).collect();
    grid(out, &charts);
    out.push_str("</section>\n");
}

fn timeline(measurement: &Measurement) -> String {
    let unit = Family::of(&measurement.workload).unit();
    let rate = sample_rate(measurement);
    let points = measurement.timeline.iter().map(|sample| Point {
        x: Some(sample.at_s).filter(|at| at.is_finite()),
        y: rate(sample),
        says: format!(
            "at {}\n{}\np50 {}, p99 {}",
            units::seconds(sample.at_s),
            subject::rate_text(unit, rate(sample)),
            units::nanoseconds(sample.p50_ns as f64),
            units::nanoseconds(sample.p99_ns as f64)
        ),
    });
    let points: Vec<Point> = points.filter(|point| point.x.is_some()).collect();
    let end = points.iter().filter_map(|point| point.x).fold(0.0, f64::max);
    let steady = measurement.steady.as_ref();
    let window = steady.filter(|steady| steady.window_s.is_finite()).map(|steady| {
        let name = if steady.reached { "steady window" } else { "last window, not steady" };
        ((end - steady.window_s).max(0.0), end, name)
    });
    let judged = steady.map(|steady| {
        let (spread, slope) = (units::percent(steady.spread), units::percent(steady.slope));
        let verdict = if steady.reached { "Steady" } else { "Not steady" };
        format!("{verdict}: spread {spread}, slope {slope} over {}.", units::seconds(steady.window_s))
    });
    let mean = subject::rate(measurement);
    let level = Level { y: mean, label: format!("result: {}", subject::rate_text(unit, mean)) };
    Chart {
        title: format!("{}, threads: {}", subject::label(&measurement.workload), measurement.threads),
        note: judged.unwrap_or_default(),
        x: SECONDS,
        y: rate_axis(unit),
        lines: vec![Line {
            label: String::new(),
            figure: String::new(),
            class: class(0),
            stroke: Stroke::Plain,
            points,
        }],
        levels: vec![level],
        window,
    }
    .render()
}

/// Returns how to read the rate of a sample of this measurement.
pub(super) fn sample_rate(measurement: &Measurement) -> fn(&Sample) -> f64 {
    match Family::of(&measurement.workload).unit() {
        Unit::Bytes => |sample| sample.bytes_per_s,
        Unit::Operations => |sample| sample.operations_per_s,
    }
}
