//! What the time between the arrival of a call and the sending of its reply was spent on.

use volume::time::Time;

/// What a call may be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has arrived, and waits for its turn or for memory.
    Queue,
    /// It is held by rate limits.
    Qos,
    /// It waits for a worker, for a limit of the pool, or for something that is in the way of it alone.
    Line,
    /// It is executed.
    Engine,
    /// Its reply waits until what it shows is durable, or is held back.
    Durability,
    /// Its reply waits until the turn sends it, and is sent.
    Send,
}

impl Phase {
    /// All phases, in the order of their numbers.
    pub(crate) const ALL: [Phase; 6] =
        [Phase::Queue, Phase::Qos, Phase::Line, Phase::Engine, Phase::Durability, Phase::Send];

    pub(crate) const COUNT: usize = Phase::ALL.len();

    /// Returns the name, as labels have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Phase::Queue => "queue",
            Phase::Qos => "qos",
            Phase::Line => "line",
            Phase::Engine => "engine",
            Phase::Durability => "durability",
            Phase::Send => "send",
        }
    }
}

/// The phases of one call so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    arrived: Time,
    /// When the phase began that has not ended.
    since: Time,
    nanos: [u64; Phase::COUNT],
}

impl Timing {
    /// A call that arrived at this time.
    pub(crate) fn of_arrival(arrived: Time) -> Timing {
        Timing { arrived, since: arrived, nanos: [0; Phase::COUNT] }
    }

    /// Ends a phase; the next one begins.
    pub(crate) fn end(&mut self, phase: Phase, now: Time) {
        self.nanos[phase as usize] += nanos_between(self.since, now);
        self.since = now;
    }

    /// Returns the nanoseconds of each phase.
    pub(crate) fn nanos(&self) -> [u64; Phase::COUNT] {
        self.nanos
    }

    /// Returns when the last phase ended.
    pub(crate) fn ended(&self) -> Time {
        self.since
    }

    /// Returns the nanoseconds of the whole.
    pub(crate) fn total(&self) -> u64 {
        nanos_between(self.arrived, self.since)
    }

    /// Returns the nanoseconds in which no rate limit held the call.
    pub(crate) fn unheld(&self) -> u64 {
        self.total().saturating_sub(self.nanos[Phase::Qos as usize])
    }
}

/// Returns the time between two readings of the clock in nanoseconds; zero if they are in the wrong order.
#[inline]
pub(crate) fn nanos_between(earlier: Time, later: Time) -> u64 {
    u64::try_from(later.nanos().wrapping_sub(earlier.nanos())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_to_the_whole() {
        let at = Time::from_nanos;
        let mut timing = Timing::of_arrival(at(100));
        timing.end(Phase::Queue, at(110));
        timing.end(Phase::Line, at(130));
        timing.end(Phase::Engine, at(135));
        timing.end(Phase::Line, at(175));
        timing.end(Phase::Engine, at(176));
        timing.end(Phase::Send, at(180));
        assert_eq!(timing.nanos(), [10, 0, 60, 6, 0, 4]);
        assert_eq!(timing.total(), 80);
        timing.end(Phase::Send, at(170));
        assert_eq!(timing.nanos()[5], 4, "an earlier reading takes nothing away");
    }
}
