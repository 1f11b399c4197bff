//! The pace at which a peer sends a record or takes replies, measured since they began.

use std::time::{Duration, Instant};

use super::origins::Standing;
use crate::limits::{
    FAST_PACE_MIN, FAST_PACE_TIME, NOT_FAST_TIME, OWN_PACE_MIN, OWN_PACE_TIME, PACE_MIN, PACE_TIME,
};

/// A least pace: a peer keeps it if it moved enough since it began, except for a time at first. It is never ahead by more than
/// that time, so that it cannot stop for longer.
#[derive(Clone, Copy, Debug)]
struct Floor {
    bytes_per_second: u32,
    time: Duration,
}

/// What is asked of every peer while others wait for its memory.
const LEAST: Floor = Floor { bytes_per_second: PACE_MIN, time: PACE_TIME };

/// What is asked of fast ones.
const FAST: Floor = Floor { bytes_per_second: FAST_PACE_MIN, time: FAST_PACE_TIME };

/// What is asked of a peer while others of its own origin wait for the memory.
const OWN: Floor = Floor { bytes_per_second: OWN_PACE_MIN, time: OWN_PACE_TIME };

impl Floor {
    /// Returns how long these bytes may take.
    fn time_for(self, bytes: usize) -> Duration {
        Duration::from_secs(u64::try_from(bytes).unwrap_or(u64::MAX)) / self.bytes_per_second
    }

    /// Whether a peer does not keep it that began at `began`, and whose bytes suffice until `until`.
    fn is_missed(self, began: Instant, until: Instant, now: Instant) -> bool {
        now > until.max(began + self.time)
    }
}

/// How fast the peer of a connection has moved a record or its replies so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    began: Instant,
    /// Until when the bytes that were moved suffice.
    least_until: Instant,
    fast_until: Instant,
    own_until: Instant,
}

impl Pace {
    pub(crate) fn begin(now: Instant) -> Pace {
        Pace { began: now, least_until: now, fast_until: now, own_until: now }
    }

    /// Notes that bytes were moved.
    pub(crate) fn moved(&mut self, bytes: usize, now: Instant) {
        let floors =
            [(&mut self.least_until, LEAST), (&mut self.fast_until, FAST), (&mut self.own_until, OWN)];
        for (until, floor) in floors {
            *until = (*until + floor.time_for(bytes)).min(now + floor.time);
        }
    }

    /// Notes that for some time the peer could not go on because of the server.
    pub(crate) fn pause(&mut self, time: Duration) {
        for instant in [&mut self.began, &mut self.least_until, &mut self.fast_until, &mut self.own_until] {
            *instant += time;
        }
    }

    /// Whether it is below [`PACE_MIN`].
    pub(crate) fn is_slow(&self, now: Instant) -> bool {
        LEAST.is_missed(self.began, self.least_until, now)
    }

    /// Whether it is below [`OWN_PACE_MIN`].
    pub(crate) fn has_stopped(&self, now: Instant) -> bool {
        OWN.is_missed(self.began, self.own_until, now)
    }

    /// Whether it is below [`FAST_PACE_MIN`].
    pub(crate) fn is_below_fast(&self, now: Instant) -> bool {
        FAST.is_missed(self.began, self.fast_until, now)
    }

    /// Returns the time from which on the peer was behind the pace of fast ones, to compare it with others.
    pub(crate) fn behind_since(&self) -> Instant {
        self.fast_until
    }

    /// Returns what a record of `length` bytes shows that is complete.
    pub(crate) fn of_record(&self, length: usize, now: Instant) -> Option<Standing> {
        let longest = FAST.time_for(length);
        // Shorter ones could wait in the socket of a slow peer.
        if longest >= FAST.time && now <= self.began + longest {
            return Some(Standing::Fast);
        }
        self.of_replies(now)
    }

    /// Returns what replies show that were taken.
    pub(crate) fn of_replies(&self, now: Instant) -> Option<Standing> {
        (self.is_below_fast(now) && now > self.began + NOT_FAST_TIME).then_some(Standing::Steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that a peer at the least pace moves in a tenth of a second, rounded up.
    const TENTH: usize = PACE_MIN as usize / 10 + 1;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_peer_that_keeps_the_pace_is_never_slow() {
        let start = Instant::now();
        for burst in [1, 2, 5, 10, 20] {
            let mut pace = Pace::begin(start);
            for tenth in 0..100 {
                let now = start + millis(tenth * 100);
                if tenth % burst == 0 {
                    pace.moved(TENTH * usize::try_from(burst).unwrap(), now);
                }
                assert!(!pace.is_slow(now + millis(99)), "{burst} {tenth}");
            }
        }
    }

    #[test]
    fn a_peer_that_stops_is_slow_after_the_time_whatever_it_moved_before() {
        let start = Instant::now();
        let mut pace = Pace::begin(start);
        assert!(!pace.is_slow(start + PACE_TIME) && pace.is_slow(start + PACE_TIME + millis(1)));
        assert!(!pace.is_below_fast(start + FAST_PACE_TIME));
        assert!(pace.is_below_fast(start + FAST_PACE_TIME + millis(1)));
        let now = start + millis(1000);
        pace.moved(100 << 20, now);
        assert!(!pace.is_slow(now + PACE_TIME) && pace.is_slow(now + PACE_TIME + millis(1)));
        assert!(!pace.is_below_fast(now + FAST_PACE_TIME));
        assert!(pace.is_below_fast(now + FAST_PACE_TIME + millis(1)));
    }

    #[test]
    fn a_pause_of_the_server_does_not_count() {
        let start = Instant::now();
        let mut pace = Pace::begin(start);
        pace.pause(millis(5000));
        let now = start + millis(5000);
        assert!(!pace.is_below_fast(now + FAST_PACE_TIME) && pace.is_slow(now + PACE_TIME + millis(1)));
        assert_eq!(pace.of_record(1 << 20, now + millis(900)), Some(Standing::Fast));
    }

    #[test]
    fn the_largest_record_is_over_in_little_more_than_four_seconds() {
        let start = Instant::now();
        let mut pace = Pace::begin(start);
        pace.moved(wire::limits::RECORD_BYTES_MAX - 1, start + PACE_TIME);
        assert!(pace.is_slow(start + millis(4126)));
    }

    #[test]
    fn a_record_shows_whether_its_peer_is_fast() {
        let start = Instant::now();
        let pace = Pace::begin(start);
        let shown = |length, time| pace.of_record(length, start + millis(time));
        assert_eq!(shown(1 << 20, 1000), Some(Standing::Fast));
        assert_eq!(shown(1 << 20, 1001), Some(Standing::Steady));
        assert_eq!(shown(80 << 10, 10), None, "it could wait in a socket");
        assert_eq!(shown(80 << 10, 900), None, "a lost packet may cost so much");
        assert_eq!(shown(80 << 10, 1100), Some(Standing::Steady));
    }
}
