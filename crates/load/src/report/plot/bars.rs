//! Small drawings that stretch with the page: bars, intervals, strips and sparklines. Their texts are in the page
//! beside them, so that narrow screens do not squeeze them.

use std::fmt::Write as _;

use super::scale::{AxisKind, AxisScale};
use crate::report::markup::coordinate;
use crate::result::{Latency, Sample};

/// Points of a sparkline; more would be narrower than its stroke.
const SPARK_POINTS_MAX: usize = 120;

/// Opens a drawing of 100 by 10 units that stretches to its container.
fn open(class: &str) -> String {
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
    )
}

/// Draws a bar over a share of its container.
pub(crate) fn bar(share: f64, class: &str) -> String {
    let width = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    format!(
        "{}<rect class=\"rail\" width=\"100\" height=\"10\"/><rect class=\"{class}\" width=\"{}\" height=\"10\"/></svg>",
        open("bar"),
        coordinate(width)
    )
}

/// Draws a fraction of a limit on a scale from 0 to `reach`, which is at least 1, with a mark at the limit.
pub(crate) fn limited_bar(fraction: f64, reach: f64, class: &str) -> String {
    let drawn = bar(fraction / reach, class);
    let mark = coordinate(100.0 / reach - 0.3);
    drawn
        .replace("</svg>", &format!("<rect class=\"limit\" x=\"{mark}\" width=\"0.6\" height=\"10\"/></svg>"))
}

/// Draws an interval from low to high with a mark between them, all as shares, and a line at `even`.
pub(crate) fn interval(low: f64, middle: f64, high: f64, even: f64, class: &str) -> String {
    let place = |share: f64| if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    let (low, middle, high) = (place(low), place(middle), place(high));
    format!(
        "{}<rect class=\"even\" x=\"{}\" width=\"0.4\" height=\"10\"/><rect class=\"span {class}\" x=\"{}\" y=\"4\" \
         width=\"{}\" height=\"2\"/><rect class=\"{class}\" x=\"{}\" y=\"1\" width=\"1.2\" height=\"8\"/></svg>",
        open("interval"),
        coordinate(place(even)),
        coordinate(low),
        coordinate((high - low).max(0.5)),
        coordinate(middle - 0.6)
    )
}

/// Draws latencies on a common scale: from p50 to p99.9, with a step at each percentile.
pub(crate) fn strip(latency: &Latency, scale: &AxisScale) -> String {
    let place = |ns: u64| scale.place(ns as f64) * 100.0;
    let places = [latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns].map(place);
    let mut out = open("strip");
    out.push_str("<rect class=\"rail\" y=\"4\" width=\"100\" height=\"2\"/>");
    for (pair, class) in places.windows(2).zip(["to-p90", "to-p99", "to-p999"]) {
        if let [from, to] = pair {
            let width = coordinate((to - from).max(0.0));
            let _ = write!(
                out,
                "<rect class=\"{class}\" x=\"{}\" y=\"1.5\" width=\"{width}\" height=\"7\"/>",
                coordinate(*from)
            );
        }
    }
    let _ = write!(
        out,
        "<rect class=\"at-p50\" x=\"{}\" width=\"0.8\" height=\"10\"/></svg>",
        coordinate(places[0] - 0.4)
    );
    out
}

/// Draws the rate over time in the size of a word.
pub(crate) fn spark(timeline: &[Sample], rate: fn(&Sample) -> f64) -> String {
    let samples: Vec<&Sample> =
        timeline.iter().filter(|it| it.at_s.is_finite() && rate(it).is_finite()).collect();
    if samples.len() < 2 {
        return String::new();
    }
    let x = AxisScale::new(AxisKind::Even, samples.iter().map(|it| it.at_s));
    let y = AxisScale::new(AxisKind::FromZero, samples.iter().map(|it| rate(it)));
    let every = samples.len().div_ceil(SPARK_POINTS_MAX);
    let mut path = String::new();
    for (i, sample) in samples.into_iter().step_by(every).enumerate() {
        let (x, y) = (x.place(sample.at_s) * 100.0, 9.5 - y.place(rate(sample)) * 9.0);
        let _ = write!(path, "{}{} {}", if i == 0 { 'M' } else { 'L' }, coordinate(x), coordinate(y));
    }
    format!("{}<path d=\"{path}\"/></svg>", open("spark"))
}
