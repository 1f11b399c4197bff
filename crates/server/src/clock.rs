//! The clocks: the wall clock, which may be set, and a monotonic one.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nfs::service::ClockReading;
use volume::time::Time;

/// Where the clock that is never set begins: with the wall clock's time, so that a later start of the server begins with a later
/// one.
static START: LazyLock<(Instant, Time)> = LazyLock::new(|| (Instant::now(), now()));

/// Returns the wall clock's time.
pub fn now() -> Time {
    let nanos = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        // A clock set before 1970 is wrong, but no reason to fail.
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    };
    Time::from_nanos(nanos)
}

/// Reads both clocks.
pub(crate) fn read() -> ClockReading {
    ClockReading { wall: now(), steady: steady() }
}

/// Returns the time of the clock that is never set.
pub(crate) fn steady() -> Time {
    let (began, time) = *START;
    time.plus(began.elapsed())
}

/// How long a loop has been executing calls. The clocks are read between calls: when one ended, the next one begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallClock {
    /// When the first call of a turn and that of a portion began, if there was one.
    turn: Option<Time>,
    portion: Option<Time>,
    /// What the clocks showed last.
    seen: ClockReading,
    /// When the loop was woken.
    woken: Time,
    /// No call has been executed since the clocks were read, nor anything else that takes time.
    is_fresh: bool,
}

impl CallClock {
    pub(crate) fn new() -> CallClock {
        let seen = read();
        CallClock { turn: None, portion: None, seen, woken: seen.steady, is_fresh: false }
    }

    /// Notes that the loop was woken.
    pub(crate) fn wake(&mut self) {
        (self.seen, self.is_fresh) = (read(), true);
        self.woken = self.seen.steady;
    }

    /// Returns when the loop was woken.
    pub(crate) fn woken(&self) -> Time {
        self.woken
    }

    /// Notes that time has passed since the clocks were read.
    pub(crate) fn pass(&mut self) {
        self.is_fresh = false;
    }

    /// Reads the clocks, unless nothing has been done since the last time.
    pub(crate) fn look(&mut self) {
        if !std::mem::replace(&mut self.is_fresh, true) {
            self.seen = read();
        }
    }

    /// Returns the time that was seen last.
    pub(crate) fn seen(&self) -> Time {
        self.seen.steady
    }

    pub(crate) fn begin_turn(&mut self) {
        (self.turn, self.portion) = (None, None);
    }

    pub(crate) fn begin_portion(&mut self) {
        self.portion = None;
    }

    /// Returns what the clocks show when a call begins.
    pub(crate) fn begin_call(&mut self) -> ClockReading {
        self.look();
        self.is_fresh = false;
        self.turn.get_or_insert(self.seen.steady);
        self.portion.get_or_insert(self.seen.steady);
        self.seen
    }

    /// Ends a portion: its last call took time as well.
    pub(crate) fn end_portion(&mut self) {
        self.pass();
        self.look();
    }

    /// Returns how long the calls of the turn took until the clocks were last read.
    pub(crate) fn turn(&self) -> Duration {
        self.turn.map_or(Duration::ZERO, |began| self.seen.steady.since(began))
    }

    /// Returns how long the calls of the portion took until the clocks were last read.
    pub(crate) fn portion(&self) -> Duration {
        self.portion.map_or(Duration::ZERO, |began| self.seen.steady.since(began))
    }
}
