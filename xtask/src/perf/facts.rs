//! What was measured, as tables in Markdown and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::bench::Sample;
use super::rows::{Bound, Row};

/// On which side of a bound one wants to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// No more than that.
    Most(f64),
    /// No less than that.
    Least(f64),
    /// Told for its own sake.
    None,
}

impl Goal {
    /// `yes`, or how far off.
    fn verdict(self, value: f64) -> String {
        let (reached, off) = match self {
            Goal::Most(bound) => (value <= bound, value / bound),
            Goal::Least(bound) => (value >= bound, value / bound),
            Goal::None => return String::new(),
        };
        if reached { "yes".to_owned() } else { format!("no: {off:.2} ×") }
    }

    fn shown(self, unit: &str) -> String {
        match self {
            Goal::Most(bound) => format!("≤ {}", quantity(bound, unit)),
            Goal::Least(bound) => format!("≥ {}", quantity(bound, unit)),
            Goal::None => String::new(),
        }
    }
}

/// One figure that is no row of the main table: the median of several, and their range.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
    pub(super) unit: &'static str,
    pub(super) goal: Goal,
}

/// A row of the main table: samples by round of holdfast, and of the peer if there is one.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) row: &'static Row,
    pub(super) ours: Vec<Sample>,
    pub(super) peer: Vec<Sample>,
}

/// The middle of some numbers.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The middle of one figure of all samples.
pub(super) fn median_of(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    median(&samples.iter().map(figure).collect::<Vec<_>>())
}

fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Three digits.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 || size == 0.0 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A number with its unit, large ones in thousands and millions.
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

/// A latency, given in microseconds.
fn time(microseconds: f64) -> String {
    if microseconds >= 1e3 {
        format!("{} ms", digits(microseconds / 1e3))
    } else {
        format!("{} µs", digits(microseconds))
    }
}

/// The cost in the unit of the row's bound, of a sample.
fn cost(row: &Row, sample: &Sample, microseconds: f64) -> f64 {
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

impl Measured {
    fn cells(&self, has_peer: bool) -> Vec<String> {
        let row = self.row;
        let (unit, goal) = match row.bound {
            Bound::MicrosecondsPerOperation(bound) => (" µs", Goal::Most(bound)),
            Bound::SecondsPerGib(bound) => (" s/GiB", Goal::Most(bound)),
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

/// Both tables, as far as there is anything in them.
pub(super) fn shown(measured: &[Measured], facts: &[Fact], peer: Option<&str>) -> String {
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
    if !facts.is_empty() {
        let row = |fact: &Fact| {
            let (value, (low, high)) = (median(&fact.values), range(&fact.values));
            vec![
                fact.name.clone(),
                format!("**{}**", quantity(value, fact.unit)),
                if fact.values.len() > 1 {
                    format!("{} – {}", quantity(low, fact.unit), quantity(high, fact.unit))
                } else {
                    String::new()
                },
                fact.goal.shown(fact.unit),
                fact.goal.verdict(value),
            ]
        };
        out +=
            &table(&["", "median", "range", "bound", "reached"], &facts.iter().map(row).collect::<Vec<_>>());
    }
    out
}

/// All of it.
pub(super) fn to_json(machine: &Value, measured: &[Measured], facts: &[Fact]) -> Value {
    let fact = |fact: &Fact| {
        let (at_most, at_least) = match fact.goal {
            Goal::Most(bound) => (Some(bound), None),
            Goal::Least(bound) => (None, Some(bound)),
            Goal::None => (None, None),
        };
        let unit = fact.unit.trim();
        json!({ "name": fact.name, "values": fact.values, "unit": unit, "at_most": at_most, "at_least": at_least })
    };
    let rows: Vec<Value> = measured.iter().map(Measured::json).collect();
    json!({ "schema": 1, "machine": machine, "rows": rows, "facts": facts.iter().map(fact).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_bound_is_reached_or_missed_by_so_much() {
        assert_eq!(Goal::Most(2.0).verdict(2.0), "yes");
        assert_eq!(Goal::Most(2.0).verdict(3.0), "no: 1.50 ×");
        assert_eq!(Goal::Least(0.65).verdict(0.7), "yes");
        assert_eq!(Goal::Least(100.0).verdict(50.0), "no: 0.50 ×");
        assert_eq!(Goal::None.verdict(1.0), "");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(quantity(1.5, " µs"), "1.50 µs");
        assert_eq!(quantity(53_500.0, " µs"), "53.5 ms");
        assert_eq!(quantity(0.1234, " s/GiB"), "0.123 s/GiB");
        assert_eq!(quantity(416_000.0, "/s"), "416k/s");
        assert_eq!(quantity(0.654, "%"), "65 %");
    }
}
