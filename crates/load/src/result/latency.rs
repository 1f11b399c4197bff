//! Latencies: a histogram, and the figures that people ask of it. Histograms of threads and hosts are merged as
//! histograms, so that a percentile of the whole is exact (to the histogram's three digits) and never an average of
//! percentiles.

use std::fmt;
use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

/// Counts by nanoseconds.
pub type Histogram = hdrhistogram::Histogram<u64>;

/// What is longer is counted as this long: an hour.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Three digits are kept of each value.
const DIGITS: u8 = 3;

/// An empty histogram for 1 ns to [`LATENCY_MAX_NS`], in about 270 KiB.
///
/// # Panics
/// Never: its bounds are constants that the library accepts.
#[must_use]
pub fn new_histogram() -> Histogram {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS).expect("the bounds are in order")
}

/// Latencies of operations, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many operations.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// The shortest.
    pub min_ns: u64,
    /// Half of them were as fast as this.
    pub p50_ns: u64,
    /// 90 of 100.
    pub p90_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1,000.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All of them: an HdrHistogram in its V2 encoding, in base64. Empty if there is none.
    pub histogram: String,
}

impl Latency {
    /// The figures of a histogram.
    ///
    /// # Panics
    /// Never: memory takes what is written.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let mut encoded = Vec::new();
        V2Serializer::new().serialize(histogram, &mut encoded).expect("a Vec takes any bytes");
        Self {
            count: histogram.len(),
            mean_ns: histogram.mean(),
            min_ns: histogram.min(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
            histogram: BASE64.encode(encoded),
        }
    }

    /// The histogram again.
    ///
    /// # Errors
    /// [`LatencyError`] if the text is none, or one of other bounds that does not fit.
    pub fn to_histogram(&self) -> Result<Histogram, LatencyError> {
        let mut merged = new_histogram();
        if self.histogram.is_empty() {
            return Ok(merged);
        }
        let bytes = BASE64.decode(&self.histogram).map_err(|error| LatencyError(error.to_string()))?;
        let decoded: Histogram = Deserializer::new()
            .deserialize(&mut Cursor::new(bytes))
            .map_err(|error| LatencyError(error.to_string()))?;
        merged.add(&decoded).map_err(|error| LatencyError(error.to_string()))?;
        Ok(merged)
    }

    /// Both together, as if one histogram had counted them.
    ///
    /// # Errors
    /// [`LatencyError`] if one of the two holds no histogram.
    pub fn merged(&self, other: &Self) -> Result<Self, LatencyError> {
        let mut histogram = self.to_histogram()?;
        histogram.add(other.to_histogram()?).map_err(|error| LatencyError(error.to_string()))?;
        Ok(Self::of(&histogram))
    }
}

/// A text that holds no histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyError(String);

impl fmt::Display for LatencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a histogram: {}", self.0)
    }
}

impl std::error::Error for LatencyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_merge_to_the_whole() {
        let (mut whole, mut left, mut right) = (new_histogram(), new_histogram(), new_histogram());
        for value in 1..10_000u64 {
            let value = value * value;
            whole.saturating_record(value);
            if value % 3 == 0 { &mut left } else { &mut right }.saturating_record(value);
        }
        let merged = Latency::of(&left).merged(&Latency::of(&right)).unwrap();
        assert_eq!(merged, Latency::of(&whole));
    }

    #[test]
    fn nothing_merges_with_something() {
        let mut one = new_histogram();
        one.saturating_record(77);
        let merged = Latency::default().merged(&Latency::of(&one)).unwrap();
        assert_eq!((merged.count, merged.p50_ns), (1, 77));
        assert_eq!(Latency::of(&new_histogram()), Latency::default());
    }

    #[test]
    fn damaged_text_is_refused() {
        for text in ["?", "AAAA", "HIST"] {
            let latency = Latency { histogram: text.to_owned(), ..Latency::default() };
            assert!(latency.to_histogram().is_err(), "{text}");
        }
    }
}
