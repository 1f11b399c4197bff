//! Limits that an administrator sets.

use std::fmt;
use std::time::Duration;

/// The least limit of a dimension in bytes. A call of 1 MiB then waits a second for itself, which no client takes for a
/// server that is gone.
pub const BYTES_PER_S_MIN: u64 = 1 << 20;

/// The least limit of a dimension in operations.
pub const OPS_PER_S_MIN: u64 = 10;

/// The highest limit of any dimension, beyond what a server can do.
pub const RATE_MAX: u64 = 1 << 40;

/// The burst if none is set.
pub const BURST_DEFAULT: Duration = Duration::from_millis(100);

/// The shortest burst. A half of it makes up for timers that fire late, which epoll's do by milliseconds.
pub const BURST_MIN: Duration = Duration::from_millis(20);

/// The longest burst.
pub const BURST_MAX: Duration = Duration::from_secs(10);

/// What a limit counts a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Bytes read.
    ReadBytes,
    /// Bytes written.
    WriteBytes,
    /// Bytes read or written.
    TotalBytes,
    /// READ operations.
    ReadOps,
    /// WRITE operations.
    WriteOps,
    /// Other operations.
    MetadataOps,
    /// Operations of any kind.
    TotalOps,
}

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// All of them, in the order of their indexes.
    pub const ALL: [Dimension; Dimension::COUNT] = [
        Dimension::ReadBytes,
        Dimension::WriteBytes,
        Dimension::TotalBytes,
        Dimension::ReadOps,
        Dimension::WriteOps,
        Dimension::MetadataOps,
        Dimension::TotalOps,
    ];

    /// Returns the name, as metrics and the configuration have it.
    pub const fn name(self) -> &'static str {
        match self {
            Dimension::ReadBytes => "read_bytes",
            Dimension::WriteBytes => "write_bytes",
            Dimension::TotalBytes => "total_bytes",
            Dimension::ReadOps => "read_ops",
            Dimension::WriteOps => "write_ops",
            Dimension::MetadataOps => "metadata_ops",
            Dimension::TotalOps => "total_ops",
        }
    }

    /// Whether it counts bytes; otherwise it counts operations.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Dimension::ReadBytes | Dimension::WriteBytes | Dimension::TotalBytes)
    }

    /// Returns the least limit, bytes or operations a second.
    pub const fn rate_min(self) -> u64 {
        if self.is_bytes() { BYTES_PER_S_MIN } else { OPS_PER_S_MIN }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn bit(self) -> u8 {
        1 << self.index()
    }
}

/// The limits of a target, a volume or a client: a rate in any of the dimensions, and how much more may pass at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    rates: [Option<u64>; Dimension::COUNT],
    burst: Duration,
}

impl Limits {
    /// No limit in any dimension.
    pub const NONE: Limits = Limits { rates: [None; Dimension::COUNT], burst: BURST_DEFAULT };

    /// Returns these limits with another rate in a dimension, bytes or operations a second.
    ///
    /// # Errors
    /// The rate is below [`Dimension::rate_min`] or above [`RATE_MAX`].
    pub fn with(mut self, dimension: Dimension, rate: u64) -> Result<Limits, LimitsError> {
        if rate < dimension.rate_min() {
            return Err(LimitsError::TooLow { dimension, rate });
        }
        if rate > RATE_MAX {
            return Err(LimitsError::TooHigh { dimension, rate });
        }
        self.rates[dimension.index()] = Some(rate);
        Ok(self)
    }

    /// Returns these limits without one in a dimension.
    #[must_use]
    pub fn without(mut self, dimension: Dimension) -> Limits {
        self.rates[dimension.index()] = None;
        self
    }

    /// Returns these limits with another burst: what may pass at once is what the rate allows in this time.
    ///
    /// # Errors
    /// The burst is shorter than [`BURST_MIN`] or longer than [`BURST_MAX`].
    pub fn with_burst(mut self, burst: Duration) -> Result<Limits, LimitsError> {
        if !(BURST_MIN..=BURST_MAX).contains(&burst) {
            return Err(LimitsError::Burst(burst));
        }
        self.burst = burst;
        Ok(self)
    }

    /// Returns the rate of a dimension, bytes or operations a second, if it is limited.
    pub fn rate(&self, dimension: Dimension) -> Option<u64> {
        self.rates[dimension.index()]
    }

    /// Returns the burst.
    pub fn burst(&self) -> Duration {
        self.burst
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::NONE
    }
}

/// Why limits are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsError {
    /// A rate is below the least.
    TooLow {
        /// Its dimension.
        dimension: Dimension,
        /// The rate, bytes or operations a second.
        rate: u64,
    },
    /// A rate is above [`RATE_MAX`].
    TooHigh {
        /// Its dimension.
        dimension: Dimension,
        /// The rate, bytes or operations a second.
        rate: u64,
    },
    /// The burst is too short or too long.
    Burst(Duration),
}

impl fmt::Display for LimitsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LimitsError::TooLow { dimension, rate } => {
                let (name, least) = (dimension.name(), dimension.rate_min());
                write!(out, "{name}: {rate} a second is too low; the least limit is {least}")
            }
            LimitsError::TooHigh { dimension, rate } => {
                let name = dimension.name();
                write!(out, "{name}: {rate} a second is too high; the highest limit is {RATE_MAX}")
            }
            LimitsError::Burst(burst) => {
                write!(out, "a burst of {burst:?} is not between {BURST_MIN:?} and {BURST_MAX:?}")
            }
        }
    }
}

impl std::error::Error for LimitsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_out_of_bounds_are_refused_with_the_bound() {
        let low = Limits::NONE.with(Dimension::ReadBytes, (1 << 20) - 1).unwrap_err();
        assert_eq!(low.to_string(), "read_bytes: 1048575 a second is too low; the least limit is 1048576");
        assert!(Limits::NONE.with(Dimension::TotalOps, 9).is_err());
        assert!(Limits::NONE.with(Dimension::TotalOps, 10).is_ok());
        assert!(Limits::NONE.with(Dimension::TotalBytes, RATE_MAX + 1).is_err());
    }

    #[test]
    fn bursts_out_of_bounds_are_refused() {
        let error = Limits::NONE.with_burst(Duration::from_millis(19)).unwrap_err();
        assert_eq!(error.to_string(), "a burst of 19ms is not between 20ms and 10s");
        assert!(Limits::NONE.with_burst(Duration::from_secs(11)).is_err());
    }

    #[test]
    fn a_limit_can_be_taken_away_again() {
        let limits = Limits::NONE.with(Dimension::ReadOps, 100).unwrap();
        assert_eq!(limits.rate(Dimension::ReadOps), Some(100));
        assert_eq!(limits.without(Dimension::ReadOps), Limits::NONE);
    }
}
