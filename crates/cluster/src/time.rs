//! Points in time, as a node's clock shows them.

use std::ops::Add;
use std::time::Duration;

/// A point in time: nanoseconds since an origin of the caller's choice, by a clock that is never set back and that goes on
/// while the machine sleeps (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ORIGIN: Time = Time(0);

    /// Returns the time this number of nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Returns the nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}
