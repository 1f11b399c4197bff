//! Latency histograms and their summaries. Histograms of threads and hosts are merged as histograms, so percentiles
//! of the whole are exact to the histogram's three digits, never averages of percentiles.

use std::fmt;
use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

/// Counts by latency in nanoseconds.
pub type Histogram = hdrhistogram::Histogram<u64>;

/// Longer latencies count as this one, an hour.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Significant digits of a value.
const DIGITS: u8 = 3;

/// Returns an empty histogram for 1 ns to [`LATENCY_MAX_NS`], of about 270 KiB.
///
/// # Panics
/// Never: the library accepts these constant bounds.
#[must_use]
pub fn new_histogram() -> Histogram {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS).expect("the bounds are in order")
}

/// The latency of operations, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The number of operations.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The minimum.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The maximum.
    pub max_ns: u64,
    /// The whole distribution: an HdrHistogram in its V2 encoding, in base64. Empty without operations.
    pub histogram: String,
}

impl Latency {
    /// Summarizes a histogram.
    ///
    /// # Panics
    /// Never: writing to memory does not fail.
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

    /// Decodes the histogram.
    ///
    /// # Errors
    /// [`LatencyError`] if the text is not a histogram, or its bounds do not fit.
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

    /// Merges two, as if one histogram had counted both.
    ///
    /// # Errors
    /// [`LatencyError`] if either text is not a histogram.
    pub fn merged(&self, other: &Self) -> Result<Self, LatencyError> {
        let mut histogram = self.to_histogram()?;
        histogram.add(other.to_histogram()?).map_err(|error| LatencyError(error.to_string()))?;
        Ok(Self::of(&histogram))
    }
}

/// A text that is not a histogram.
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
    fn merged_halves_equal_the_whole() {
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
    fn an_empty_histogram_merges_with_another() {
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
