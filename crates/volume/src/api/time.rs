//! Wall-clock times as files carry them.

use std::time::Duration;

/// Nanoseconds in a second.
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A point in time: nanoseconds since 1970-01-01T00:00:00Z, leap seconds ignored. Spans the years 1677 to 2262.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The epoch, 1970-01-01T00:00:00Z.
    pub const EPOCH: Time = Time(0);

    /// A time from nanoseconds since the epoch.
    pub const fn from_nanos(nanos: i64) -> Time {
        Time(nanos)
    }

    /// A time from seconds and nanoseconds; saturates at the ends of the range.
    pub fn from_parts(seconds: i64, nanos: u32) -> Time {
        Time(seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(i64::from(nanos)))
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    #[inline]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(NANOS_PER_SECOND)
    }

    /// Nanoseconds past `seconds()`, below 1,000,000,000.
    #[inline]
    pub fn subsecond_nanos(self) -> u32 {
        u32::try_from(self.0.rem_euclid(NANOS_PER_SECOND)).expect("a remainder below 10^9 fits")
    }

    /// This time moved on by `duration`; saturates.
    pub fn plus(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// The next representable time.
    pub fn next(self) -> Time {
        Time(self.0.saturating_add(1))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// How far these are apart, whichever is later. What is due some time after another event should come soon, and not in hours,
    /// if the clock was set back in between.
    pub fn apart(self, other: Time) -> Duration {
        Duration::from_nanos(self.0.abs_diff(other.0))
    }
}

#[cfg(test)]
mod tests;
