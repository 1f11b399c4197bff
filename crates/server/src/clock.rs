//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use volume::time::Time;

/// Returns the wall clock's time.
pub fn now() -> Time {
    let nanos = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        // A clock set before 1970 is wrong, but no reason to fail.
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    };
    Time::from_nanos(nanos)
}
