//! A report for the terminal: aligned columns, readable figures, each rate as a fraction of its limit.

use crate::published;
use crate::report::{memory, notes, subject, units};
use crate::result::{
    Comparison, Host, Latency, LimitKind, Measurement, Phase, Report, Target, TierRun, VERDICT_ROUNDS_MIN,
};
use crate::text;

/// Returns the whole report as lines of text.
#[must_use]
pub fn render(report: &Report) -> String {
    let report = &super::settled(report);
    let mut out = String::new();
    head(report, &mut out);
    if !report.results.is_empty() {
        out.push('\n');
        out.push_str(&results(report).render());
    }
    if !report.tiers.is_empty() {
        out.push('\n');
        out.push_str(&tiers(report).render());
    }
    let notes = notes::of(report);
    if !notes.is_empty() {
        out.push('\n');
        notes.iter().for_each(|note| line(&mut out, "note", note));
    }
    let published = published_rows(report);
    if !published.rows.is_empty() {
        out.push('\n');
        out.push_str(&published.render());
    }
    if let Some(comparison) = &report.comparison {
        out.push('\n');
        compared(comparison, &mut out);
    }
    out
}

/// Writes the machines, the server and the limits.
fn head(report: &Report, out: &mut String) {
    match &report.comparison {
        Some(comparison) => {
            line(out, "A", &target(&comparison.a));
            line(out, "B", &target(&comparison.b));
        }
        None => line(out, "target", &target(&report.target)),
    }
    let host = |host: &Host| format!("{}, cores: {}, {}", host.name, host.cores, host.kernel);
    match report.agents.as_slice() {
        [] => line(out, "client", &host(&report.host)),
        agents => {
            line(out, "host", &format!("{}; it coordinated the clients", host(&report.host)));
            agents.iter().for_each(|agent| line(out, "client", &host(agent)));
        }
    }
    line(out, "caches", &report.caches);
    line(out, "memory", &memory::describe(report));
    let limits = &report.limits;
    if let Some(rate) = limits.null_calls_per_s {
        let p50 = limits.null_p50_ns.map(|ns| format!(", p50 {}", units::nanoseconds(ns as f64)));
        line(out, "limit", &format!("NULL calls {}{}", units::operations(rate), p50.unwrap_or_default()));
    }
    let peer = limits.tcp_peer.as_ref().map(|peer| format!(", with {peer}")).unwrap_or_default();
    if let Some(rate) = limits.tcp_bytes_per_s {
        let name = subject::limit_short_name(LimitKind::TcpLineRate, report);
        line(out, "limit", &format!("{name} {}{peer}", units::bytes_per_second(rate)));
    }
    if let Some(rate) = limits.tcp_sent_bytes_per_s {
        line(out, "limit", &format!("TCP, sent {}{peer}", units::bytes_per_second(rate)));
    }
    if let Some(directory) = &limits.directory {
        let text = format!(
            "{}: read {}, write {}, syncs {} (p50 {})",
            directory.path,
            units::bytes_per_second(directory.read_bytes_per_s),
            units::bytes_per_second(directory.write_bytes_per_s),
            units::operations(directory.syncs_per_s),
            units::nanoseconds(directory.sync_p50_ns as f64)
        );
        line(out, "limit", &text);
    }
}

fn target(target: &Target) -> String {
    let label = target.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    format!("{}{label}", subject::target_address(target))
}

fn line(out: &mut String, name: &str, text: &str) {
    out.push_str(&format!("{name:8}{}\n", printable(text)));
}

fn printable(text: &str) -> String {
    text::printable(text, usize::MAX)
}

fn results(report: &Report) -> Table {
    let mut table = Table::new(&[
        "workload",
        "working set",
        "threads",
        "depth",
        "rate",
        "moved",
        "p50",
        "p99",
        "p99.9",
        "max",
        "of limit",
        "server CPU/op",
        "seed",
        "",
    ]);
    for measurement in &report.results {
        table.rows.push(row(measurement, report));
        if measurement.phases.len() > 1 {
            table.rows.extend(measurement.phases.iter().map(phase_row));
        }
    }
    table
}

fn row(measurement: &Measurement, report: &Report) -> Vec<String> {
    let limit = measurement.limit.as_ref().map(|limit| {
        format!("{} of {}", units::percent(limit.fraction), subject::limit_name(limit.limit, report))
    });
    let cost = measurement.server.as_ref().map(|it| units::nanoseconds(it.cpu_ns_per_operation));
    let moved =
        if measurement.bytes > 0 { units::bytes_per_second(measurement.bytes_per_s) } else { String::new() };
    let mut cells = vec![
        printable(&measurement.name),
        memory::working_set(measurement),
        units::count(u64::from(measurement.threads)),
        units::count(u64::from(measurement.depth)),
        units::operations(measurement.operations_per_s),
        moved,
    ];
    cells.extend(latencies(&measurement.latency));
    cells.push(limit.unwrap_or_default());
    cells.push(cost.unwrap_or_default());
    cells.push(measurement.seed.to_string());
    cells.push(notes::marks(measurement, report));
    cells
}

/// Returns what was measured at tiers of rates.
fn tiers(report: &Report) -> Table {
    let mut table = Table::new(&["tier", "workload", "cap", "moved", "of cap", "p50", "p99", "p99.9", "max"]);
    for TierRun { tier, measurement } in &report.tiers {
        let mut cells = vec![
            tier.as_ref().map_or_else(|| "none".to_owned(), |tier| printable(&tier.name)),
            printable(&measurement.name),
            tier.as_ref().map(|tier| units::bytes_per_second(tier.cap_bytes_per_s)).unwrap_or_default(),
            units::bytes_per_second(measurement.bytes_per_s),
            tier.as_ref().map(|tier| units::percent(tier.fraction)).unwrap_or_default(),
        ];
        cells.extend(latencies(&measurement.latency));
        table.rows.push(cells);
    }
    table
}

fn phase_row(phase: &Phase) -> Vec<String> {
    let mut cells =
        vec![format!("  {}", printable(&phase.procedure)), String::new(), String::new(), String::new()];
    cells.push(units::operations(phase.operations_per_s));
    cells.push(String::new());
    cells.extend(latencies(&phase.latency));
    cells
}

fn latencies(latency: &Latency) -> [String; 4] {
    let times = [latency.p50_ns, latency.p99_ns, latency.p999_ns, latency.max_ns];
    // Without operations there is no latency.
    times.map(|ns| if latency.count == 0 { String::new() } else { units::nanoseconds(ns as f64) })
}

/// Returns the published figures that the measurements correspond to.
fn published_rows(report: &Report) -> Table {
    let mut table = Table::new(&[
        "figure",
        "corresponds to",
        "measured",
        "of limit",
        "published",
        "of its limit",
        "sources",
    ]);
    for measurement in &report.results {
        for row in measurement.published.iter().filter_map(|id| published::find(id)) {
            table.rows.push(published_row(measurement, row, report));
        }
    }
    table
}

fn published_row(measurement: &Measurement, row: &published::Row, report: &Report) -> Vec<String> {
    let (rate, fraction) = subject::against(measurement, row, &report.limits);
    let mut sources = vec![row.source];
    sources.extend(row.limit.map(|limit| limit.source));
    sources.dedup();
    let sources: Vec<String> = sources.iter().map(|source| format!("[{}]", source.tag())).collect();
    vec![
        row.id.to_owned(),
        format!("{}: {}", row.system.name(), row.test),
        rate,
        fraction.map(units::percent).unwrap_or_default(),
        row.printed.to_owned(),
        row.fraction().map_or_else(|| "none stated".to_owned(), units::percent),
        sources.concat(),
    ]
}

fn compared(comparison: &Comparison, out: &mut String) {
    let mut table = Table::new(&[
        "workload",
        "A",
        "B",
        "A / B",
        "spread",
        "rounds",
        "verdict",
        "CPU A",
        "CPU B",
        "CPU A / B",
        "",
    ]);
    for row in &comparison.rows {
        let cost = |ns: Option<f64>, per_gib: Option<f64>| {
            subject::cost_text(subject::unit_of(&row.unit), ns, per_gib).unwrap_or_default()
        };
        let errors = subject::compared_errors(row);
        let marks: Vec<String> = errors.into_iter().chain(memory::mark_compared(row, comparison)).collect();
        table.rows.push(vec![
            printable(&row.name),
            subject::rate_text(subject::unit_of(&row.unit), row.a_median),
            subject::rate_text(subject::unit_of(&row.unit), row.b_median),
            units::ratio(row.ratio),
            format!("{} to {}", units::ratio(row.ratio_low), units::ratio(row.ratio_high)),
            row.rounds.to_string(),
            row.verdict().words(),
            cost(row.a_cpu_ns_per_operation, row.a_cpu_seconds_per_gib),
            cost(row.b_cpu_ns_per_operation, row.b_cpu_seconds_per_gib),
            row.cpu_ratio.map(units::ratio).unwrap_or_default(),
            marks.join(", "),
        ]);
    }
    out.push_str(&table.render());
    if comparison.rows.iter().any(|row| row.rounds < VERDICT_ROUNDS_MIN) {
        line(out, "note", &format!("A verdict needs at least {VERDICT_ROUNDS_MIN} rounds."));
    }
}

/// Rows of cells under a head. The first and the last column are words and align left; figures align right.
struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    /// Renders the table without empty columns.
    fn render(&self) -> String {
        let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let used: Vec<usize> = (0..self.head.len())
            .filter(|column| self.rows.iter().any(|row| !cell(row, *column).is_empty()))
            .collect();
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        let lines: Vec<Vec<String>> = std::iter::once(&head)
            .chain(&self.rows)
            .map(|row| used.iter().map(|column| cell(row, *column)).collect())
            .collect();
        let width = |place: usize| {
            lines
                .iter()
                .filter_map(|line| line.get(place))
                .map(|text| text.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..used.len()).map(width).collect();
        let head: Vec<&str> = used.iter().filter_map(|column| self.head.get(*column).copied()).collect();
        let mut out = String::new();
        for line in lines {
            let mut text = String::new();
            for ((place, cell), width) in line.iter().enumerate().zip(&widths) {
                let words = place == 0
                    || head.get(place).is_some_and(|it| matches!(*it, "corresponds to" | "workload"))
                    || used.get(place) == Some(&(self.head.len() - 1));
                text.push_str(&if words { format!("{cell:width$}  ") } else { format!("{cell:>width$}  ") });
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests;
