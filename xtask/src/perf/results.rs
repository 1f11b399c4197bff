//! Results as Markdown tables and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::bench::Sample;
use super::rows::{Bound, Row};

/// The desired side of a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// No bound.
    None,
}

impl Goal {
    /// `yes`, or `no` with the ratio to the bound.
    fn verdict(self, value: f64) -> String {
        let (is_met, ratio) = match self {
            Goal::AtMost(bound) => (value <= bound, value / bound),
            Goal::AtLeast(bound) => (value >= bound, value / bound),
            Goal::None => return String::new(),
        };
        if is_met { "yes".to_owned() } else { format!("no: {ratio:.2} ×") }
    }

    fn shown(self, unit: &str) -> String {
        match self {
            Goal::AtMost(bound) => format!("≤ {}", quantity(bound, unit)),
            Goal::AtLeast(bound) => format!("≥ {}", quantity(bound, unit)),
            Goal::None => String::new(),
        }
    }
}

/// A figure outside the main table, with one value per round.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
    pub(super) unit: &'static str,
    pub(super) goal: Goal,
}

/// The samples of a row of the main table: Holdfast's and the peer's, one per round.
#[derive(Debug)]
pub(super) struct RowResult {
    pub(super) row: &'static Row,
    pub(super) ours: Vec<Sample>,
    pub(super) peer: Vec<Sample>,
}

/// The median.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The median of one figure of all samples.
pub(super) fn median_of(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    median(&samples.iter().map(figure).collect::<Vec<_>>())
}

fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Formats a number with three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 || size == 0.0 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Formats a number with its unit; large ones in thousands and millions.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "%" => format!("{:.0} %", value * 100.0),
        "×" => format!("{value:.2} ×"),
        " µs" => time(value),
        _ if value >= 1e6 => format!("{}M{unit}", digits(value / 1e6)),
        _ if value >= 1e4 => format!("{}k{unit}", digits(value / 1e3)),
        _ => format!("{}{unit}", digits(value)),
    }
}

/// Formats a latency.
fn time(microseconds: f64) -> String {
    if microseconds >= 1e3 {
        format!("{} ms", digits(microseconds / 1e3))
    } else {
        format!("{} µs", digits(microseconds))
    }
}

/// A sample's cost in the unit of the row's bound.
pub(super) fn cost(row: &Row, sample: &Sample, microseconds: f64) -> f64 {
    match row.bound {
        Bound::MicrosecondsPerOperation(_) => microseconds,
        Bound::SecondsPerGib(_) => microseconds / 1e6 / sample.gib_per_operation.max(1e-12),
    }
}

fn rate(row: &Row, samples: &[Sample]) -> String {
    match row.bound {
        Bound::MicrosecondsPerOperation(_) => {
            quantity(median_of(samples, |sample| sample.operations_per_s), "/s")
        }
        Bound::SecondsPerGib(_) => {
            format!("{} GB/s", digits(median_of(samples, |sample| sample.bytes_per_s) / 1e9))
        }
    }
}

impl RowResult {
    fn cells(&self, has_peer: bool) -> Vec<String> {
        let row = self.row;
        let (unit, goal) = match row.bound {
            Bound::MicrosecondsPerOperation(bound) => (" µs", Goal::AtMost(bound)),
            Bound::SecondsPerGib(bound) => (" s/GiB", Goal::AtMost(bound)),
        };
        let costs: Vec<f64> = self.ours.iter().map(|sample| cost(row, sample, sample.server_us)).collect();
        let client = median_of(&self.ours, |sample| cost(row, sample, sample.client_us));
        let (low, high) = range(&costs);
        let mut cells = vec![
            row.title.to_owned(),
            rate(row, &self.ours),
            time(median_of(&self.ours, |sample| sample.p50_us)),
            time(median_of(&self.ours, |sample| sample.p99_us)),
            format!("**{}{unit}** ({} – {})", digits(median(&costs)), digits(low), digits(high)),
            goal.shown(unit),
            goal.verdict(median(&costs)),
            format!("{}{unit}", digits(client)),
        ];
        let counts: Vec<f64> = self.ours.iter().filter_map(|sample| sample.instructions).collect();
        cells.push(if counts.is_empty() { "–".to_owned() } else { quantity(median(&counts), "") });
        if has_peer && self.peer.is_empty() {
            cells.extend(["–"; 3].map(str::to_owned));
        } else if has_peer {
            let theirs = median_of(&self.peer, |sample| cost(row, sample, sample.server_us));
            cells.push(rate(row, &self.peer));
            cells.push(format!("{}{unit}", digits(theirs)));
            cells.push(format!("{:.2} ×", median(&costs) / theirs));
        }
        cells
    }

    fn json(&self) -> Value {
        let samples = |samples: &[Sample]| -> Vec<Value> {
            let one = |sample: &Sample| {
                json!({
                    "operations_per_s": sample.operations_per_s,
                    "bytes_per_s": sample.bytes_per_s,
                    "p50_us": sample.p50_us,
                    "p99_us": sample.p99_us,
                    "server_cpu_us_per_operation": sample.server_us,
                    "client_cpu_us_per_operation": sample.client_us,
                    "gib_per_operation": sample.gib_per_operation,
                    "instructions_per_operation": sample.instructions,
                    "failed": sample.failed,
                })
            };
            samples.iter().map(one).collect()
        };
        let bound = match self.row.bound {
            Bound::MicrosecondsPerOperation(bound) => json!({ "server_cpu_us_per_operation": bound }),
            Bound::SecondsPerGib(bound) => json!({ "server_cpu_s_per_gib": bound }),
        };
        let (ours, peer) = (samples(&self.ours), samples(&self.peer));
        json!({ "name": self.row.name, "bound": bound, "holdfast": ours, "peer": peer })
    }
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    let mut line = |cells: &[String]| {
        writeln!(out, "| {} |", cells.join(" | ")).expect("a String takes any text");
    };
    line(&head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
    line(&vec!["---".to_owned(); head.len()]);
    for row in rows {
        line(row);
    }
    out
}

/// Formats both tables; an empty one is omitted.
pub(super) fn shown(measured: &[RowResult], figures: &[Figure], peer: Option<&str>) -> String {
    let mut out = String::new();
    if !measured.is_empty() {
        let mut head = vec![
            "",
            "rate",
            "p50",
            "p99",
            "server CPU (range)",
            "bound",
            "reached",
            "client CPU",
            "instructions",
        ];
        let theirs = peer.map(|peer| [format!("{peer}: rate"), format!("{peer}: CPU")]);
        if let Some([rate, cost]) = &theirs {
            head.extend([rate.as_str(), cost.as_str(), "CPU ratio"]);
        }
        let rows: Vec<Vec<String>> = measured.iter().map(|row| row.cells(peer.is_some())).collect();
        out += &table(&head, &rows);
        out.push('\n');
    }
    if !figures.is_empty() {
        let row = |figure: &Figure| {
            let (value, (low, high)) = (median(&figure.values), range(&figure.values));
            vec![
                figure.name.clone(),
                format!("**{}**", quantity(value, figure.unit)),
                if figure.values.len() > 1 {
                    format!("{} – {}", quantity(low, figure.unit), quantity(high, figure.unit))
                } else {
                    String::new()
                },
                figure.goal.shown(figure.unit),
                figure.goal.verdict(value),
            ]
        };
        out += &table(
            &["", "median", "range", "bound", "reached"],
            &figures.iter().map(row).collect::<Vec<_>>(),
        );
    }
    out
}

/// All results as JSON.
pub(super) fn to_json(machine: &Value, measured: &[RowResult], figures: &[Figure]) -> Value {
    let figure = |figure: &Figure| {
        let (at_most, at_least) = match figure.goal {
            Goal::AtMost(bound) => (Some(bound), None),
            Goal::AtLeast(bound) => (None, Some(bound)),
            Goal::None => (None, None),
        };
        let unit = figure.unit.trim();
        json!({ "name": figure.name, "values": figure.values, "unit": unit, "at_most": at_most, "at_least": at_least })
    };
    let rows: Vec<Value> = measured.iter().map(RowResult::json).collect();
    json!({ "schema": 2, "machine": machine, "rows": rows, "figures": figures.iter().map(figure).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn verdicts_give_the_ratio_to_a_missed_bound() {
        assert_eq!(Goal::AtMost(2.0).verdict(2.0), "yes");
        assert_eq!(Goal::AtMost(2.0).verdict(3.0), "no: 1.50 ×");
        assert_eq!(Goal::AtLeast(0.65).verdict(0.7), "yes");
        assert_eq!(Goal::AtLeast(100.0).verdict(50.0), "no: 0.50 ×");
        assert_eq!(Goal::None.verdict(1.0), "");
    }

    #[test]
    fn quantities_have_three_digits() {
        assert_eq!(quantity(1.5, " µs"), "1.50 µs");
        assert_eq!(quantity(53_500.0, " µs"), "53.5 ms");
        assert_eq!(quantity(0.1234, " s/GiB"), "0.123 s/GiB");
        assert_eq!(quantity(416_000.0, "/s"), "416k/s");
        assert_eq!(quantity(0.654, "%"), "65 %");
    }
}
