//! The wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// How long a loop has been executing calls, by the times at which they began: each call needs the time anyway. So the last
/// one does not count. If somebody sets the clock, a turn may be longer or shorter once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallClock {
    /// When the first call of a turn and that of a portion began, if there was one.
    turn: Option<Time>,
    portion: Option<Time>,
    /// When the last call began.
    last: Time,
}

impl CallClock {
    pub(crate) fn new() -> CallClock {
        CallClock { turn: None, portion: None, last: Time::EPOCH }
    }

    pub(crate) fn begin_turn(&mut self) {
        (self.turn, self.portion) = (None, None);
    }

    pub(crate) fn begin_portion(&mut self) {
        self.portion = None;
    }

    /// Returns the time at which a call begins.
    pub(crate) fn begin_call(&mut self) -> Time {
        self.last = now();
        self.turn.get_or_insert(self.last);
        self.portion.get_or_insert(self.last);
        self.last
    }

    /// Returns how long the calls of the turn took.
    pub(crate) fn turn(&self) -> Duration {
        self.turn.map_or(Duration::ZERO, |began| self.last.since(began))
    }

    /// Returns how long the calls of the portion took.
    pub(crate) fn portion(&self) -> Duration {
        self.portion.map_or(Duration::ZERO, |began| self.last.since(began))
    }
}
