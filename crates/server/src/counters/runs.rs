//! Runs: consecutive calls of a turn that do the same and arrived together, so that they are counted together.
//!
//! Calls that follow one another often do the same on the same volume. One more of them only adds to the sums of its run, in
//! plain memory of the loop; the counters that scrapes read are added to once for all calls of the run. All that is counted
//! stays exact: as the calls arrived by one reading of the clock, and are answered by one, their latencies are the same.

use std::net::IpAddr;
use std::time::Duration;

use nfs::summary::{CallSummary, OperationId, Status};
use volume::time::Time;

use crate::counters::add;
use crate::counters::operations::{CallLabel, Counted};
use crate::counters::phases::{Phase, Timing};
use crate::counters::tallied::{DURATION_UNIT, VolumeCounters};

/// Where calls come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) counted: Counted,
    pub(crate) client: IpAddr,
    pub(crate) arrived: Time,
}

/// The call of a run that took longest to execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Longest {
    pub(crate) client: IpAddr,
    pub(crate) begun: Time,
    pub(crate) engine: u64,
}

/// The latencies of the calls of a run. Durations are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub(crate) label: CallLabel,
    pub(crate) calls: u64,
    pub(crate) arrived: Time,
    /// Sums of the phases.
    pub(crate) queue: u64,
    pub(crate) engine: u64,
    pub(crate) longest: Longest,
}

impl Latencies {
    /// Counts the calls, whose replies were sent at this time, and returns how long each took.
    #[inline]
    pub(crate) fn count(&self, volume: &VolumeCounters, now: Time) -> u64 {
        let total = between(self.arrived, now);
        volume.durations[self.label.operation.class().number()].count(total, DURATION_UNIT, self.calls);
        let [queue, engine, send] = self.parts(total);
        add(&volume.phases[Phase::Queue as usize], queue);
        add(&volume.phases[Phase::Engine as usize], engine);
        add(&volume.phases[Phase::Send as usize], send);
        total
    }

    /// Returns the sums of all phases, if the replies were sent at this time.
    pub(crate) fn phases(&self, now: Time) -> [u64; Phase::COUNT] {
        let [queue, engine, send] = self.parts(between(self.arrived, now));
        let mut phases = [0; Phase::COUNT];
        phases[Phase::Queue as usize] = queue;
        phases[Phase::Engine as usize] = engine;
        phases[Phase::Send as usize] = send;
        phases
    }

    /// Returns the sums of the phases that such calls have, if each took `total`.
    #[inline]
    fn parts(&self, total: u64) -> [u64; 3] {
        let send = self.calls.wrapping_mul(total).wrapping_sub(self.queue).wrapping_sub(self.engine);
        [self.queue, self.engine, send]
    }
}

impl Longest {
    /// Returns the times of the call, which arrived and whose reply was sent at these times.
    pub(crate) fn timing(&self, arrived: Time, sent: Time) -> Timing {
        let mut timing = Timing::of_arrival(arrived);
        timing.end(Phase::Queue, self.begun);
        timing.end(Phase::Engine, self.begun.plus(Duration::from_nanos(self.engine)));
        timing.end(Phase::Send, sent);
        timing
    }
}

/// The run that the next call may belong to.
pub(crate) struct Run {
    /// What each call did; without calls, what those of the last run did.
    summary: CallSummary,
    /// Calls whose operations are counted.
    counted: u64,
    latencies: Latencies,
    /// When the last call began.
    begun: Time,
    /// The clock has not been read since the last call was executed.
    awaits_end: bool,
}

impl Run {
    /// Makes a run without calls.
    pub(crate) fn new(source: &Source) -> Run {
        let Source { client, arrived, .. } = *source;
        let longest = Longest { client, begun: arrived, engine: 0 };
        Run {
            summary: CallSummary::of_one(OperationId::default(), Status::OK),
            counted: 0,
            latencies: Latencies {
                label: CallLabel::default(),
                calls: 0,
                arrived,
                queue: 0,
                engine: 0,
                longest,
            },
            begun: arrived,
            awaits_end: false,
        }
    }

    /// Returns the latencies of the calls so far.
    #[inline]
    pub(crate) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Whether there are any calls.
    #[inline]
    pub(crate) fn has_calls(&self) -> bool {
        self.latencies.calls > 0
    }

    /// Whether a call that did this is one of the run, if it comes from the same source.
    #[inline]
    pub(crate) fn is_of(&self, summary: &CallSummary) -> bool {
        self.has_calls() && self.summary.is_alike(summary)
    }

    /// Begins anew, after the run before ended, with the call that is added next.
    #[inline]
    pub(crate) fn begin(&mut self, summary: &CallSummary, label: CallLabel, arrived: Time) {
        self.summary.become_alike(summary);
        self.counted = 1;
        self.latencies.label = label;
        self.latencies.arrived = arrived;
        (self.latencies.queue, self.latencies.engine) = (0, 0);
        self.latencies.longest.engine = 0;
    }

    /// Adds a call that was just executed.
    #[inline]
    pub(crate) fn add(&mut self, begun: Time) {
        self.latencies.calls += 1;
        self.latencies.queue = self.latencies.queue.wrapping_add(between(self.latencies.arrived, begun));
        (self.begun, self.awaits_end) = (begun, true);
    }

    /// Notes a reading of the clock: the last call, which came from `client`, has been executed.
    #[inline]
    pub(crate) fn note_time(&mut self, now: Time, client: &IpAddr) {
        if self.awaits_end {
            self.awaits_end = false;
            let engine = between(self.begun, now);
            self.latencies.engine = self.latencies.engine.wrapping_add(engine);
            if engine >= self.latencies.longest.engine {
                self.latencies.longest = Longest { client: *client, begun: self.begun, engine };
            }
        }
    }

    /// Whether the operations of any call are not counted.
    #[inline]
    pub(crate) fn has_uncounted(&self) -> bool {
        self.counted < self.latencies.calls
    }

    /// Returns what each call did, and the number of those that are counted now and were not before.
    pub(crate) fn take_uncounted(&mut self) -> (&CallSummary, u64) {
        let calls = self.latencies.calls - self.counted;
        self.counted = self.latencies.calls;
        (&self.summary, calls)
    }

    /// Ends the run, whose operations are counted.
    #[inline]
    pub(crate) fn end(&mut self) {
        debug_assert!(!self.awaits_end && !self.has_uncounted());
        self.latencies.calls = 0;
    }
}

/// Returns the nanoseconds between two readings of the clock. Unlike [`nanos_between`](crate::counters::phases::nanos_between), it
/// does not check that `later` is not before `earlier`, which saves a branch for each call.
#[inline]
fn between(earlier: Time, later: Time) -> u64 {
    later.nanos().wrapping_sub(earlier.nanos()).cast_unsigned()
}
