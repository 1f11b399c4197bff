//! Results, and their form as JSON and in words. `tables` shows them.

use serde_json::{Value, json};

use super::bench::Sample;
use super::rows::{Bound, Limit, NULL, PROTOCOLS, Protocol, Row};
use super::transfer_limits::TransferLimits;

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
    pub(super) fn verdict(self, value: f64) -> String {
        let (is_met, ratio) = match self {
            Goal::AtMost(bound) => (value <= bound, value / bound),
            Goal::AtLeast(bound) => (value >= bound, value / bound),
            Goal::None => return String::new(),
        };
        if is_met { "yes".to_owned() } else { format!("no: {ratio:.2} ×") }
    }

    pub(super) fn shown(self, unit: &str) -> String {
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

/// The samples of a row over one protocol: Holdfast's and the peer's, one per round.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) ours: Vec<Sample>,
    pub(super) peer: Vec<Sample>,
}

/// The samples of a row.
#[derive(Debug)]
pub(super) struct RowResult {
    pub(super) row: &'static Row,
    /// In the order of [`PROTOCOLS`].
    over: [Samples; PROTOCOLS.len()],
}

/// What the main table shows.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) rows: Vec<RowResult>,
    /// One per round.
    pub(super) transfers: Vec<TransferLimits>,
}

impl RowResult {
    pub(super) fn new(row: &'static Row) -> RowResult {
        RowResult { row, over: Default::default() }
    }

    pub(super) fn over(&self, protocol: Protocol) -> &Samples {
        &self.over[protocol as usize]
    }

    pub(super) fn over_mut(&mut self, protocol: Protocol) -> &mut Samples {
        &mut self.over[protocol as usize]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.over.iter().all(|samples| samples.ours.is_empty())
    }

    /// Returns costs in the unit of the row's bound.
    pub(super) fn costs(&self, samples: &[Sample]) -> Vec<f64> {
        samples.iter().map(|sample| cost(self.row, sample, sample.server_us)).collect()
    }

    fn json(&self, limit: Option<f64>) -> Value {
        let over = |protocol: Protocol| {
            let samples = self.over(protocol);
            json!({ "bound": self.row.bound(protocol), "holdfast": samples_json(&samples.ours),
                "peer": samples_json(&samples.peer) })
        };
        json!({
            "name": self.row.name, "unit": self.row.unit().trim(), "peer_ratio_at_most": self.row.peer_ratio,
            "limit": limit, "limit_ratio_at_most": self.row.limit_ratio,
            "nfs3": over(Protocol::Nfs3), "nfs4.2": over(Protocol::Nfs42),
        })
    }
}

fn samples_json(samples: &[Sample]) -> Vec<Value> {
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
}

impl Measured {
    /// Returns the samples of a row over NFSv3.
    pub(super) fn over_nfs3(&self, name: &str) -> &[Sample] {
        let row = self.rows.iter().find(|result| result.row.name == name);
        row.map_or(&[], |result| &result.over(Protocol::Nfs3).ours)
    }

    /// Returns the median of what a row costs at least, in its unit.
    pub(super) fn limit(&self, row: &Row) -> Option<f64> {
        let costs: Vec<f64> = match row.limit? {
            Limit::Null => self.over_nfs3(NULL).iter().map(|sample| sample.server_us).collect(),
            Limit::Send => self.transfers.iter().map(|limits| limits.send).collect(),
            Limit::Copy => self.transfers.iter().map(|limits| limits.copy).collect(),
        };
        (!costs.is_empty()).then(|| median(&costs))
    }
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

pub(super) fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Formats a number with three significant digits.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 || size == 0.0 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Formats a number with its unit; large ones in thousands and millions.
pub(super) fn quantity(value: f64, unit: &str) -> String {
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
pub(super) fn time(microseconds: f64) -> String {
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

/// All results as JSON.
pub(super) fn to_json(machine: &Value, measured: &Measured, figures: &[Figure]) -> Value {
    let figure = |figure: &Figure| {
        let (at_most, at_least) = match figure.goal {
            Goal::AtMost(bound) => (Some(bound), None),
            Goal::AtLeast(bound) => (None, Some(bound)),
            Goal::None => (None, None),
        };
        let unit = figure.unit.trim();
        json!({ "name": figure.name, "values": figure.values, "unit": unit, "at_most": at_most, "at_least": at_least })
    };
    let rows: Vec<Value> = measured.rows.iter().map(|row| row.json(measured.limit(row.row))).collect();
    json!({ "schema": 3, "machine": machine, "rows": rows, "figures": figures.iter().map(figure).collect::<Vec<_>>() })
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
