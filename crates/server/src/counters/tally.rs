//! Counts the calls of one event loop: what they did, and their latencies with their phases.
//!
//! Only the loop writes, with plain loads and stores; scrapes read meanwhile ([`Tallied`]).
//!
//! The latency of a call answered in the turn in which it arrived is counted when the turn ends, with the readings of the clock
//! that the turn makes anyway: one when it begins, one for each call, one when all calls are executed, one when it ends. Such
//! calls are counted in runs ([`crate::counters::runs`]).

use std::net::IpAddr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use nfs::summary::{CallSummary, OperationId};
use volume::ids::VolumeId;
use volume::time::Time;

use crate::counters::activity::{Activity, ActivityTally};
use crate::counters::add;
use crate::counters::operations::{CallLabel, Counted, OperationTally};
use crate::counters::phases::{Phase, Timing};
use crate::counters::runs::{Latencies, Run, Source};
use crate::counters::tallied::{DURATION_UNIT, Tallied};
use crate::limits::SLOW_EVENTS_PER_SECOND_MAX;

/// What is counted besides what always is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TallySettings {
    /// Clients that are counted.
    pub(crate) clients: usize,
    /// The least duration of a call that makes an event.
    pub(crate) slow: Duration,
}

/// A call that was counted, and whose reply is to be sent in a later turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCall {
    pub(crate) label: CallLabel,
    pub(crate) client: IpAddr,
    pub(crate) timing: Timing,
}

/// A call that took longer than the threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowCall {
    pub(crate) client: IpAddr,
    pub(crate) volume: Option<VolumeId>,
    pub(crate) operation: OperationId,
    pub(crate) timing: Timing,
    /// The number of calls in its run, this one included; all took equally long.
    pub(crate) calls: u64,
}

/// The counting loop's side.
pub(crate) struct Tally {
    operations: OperationTally,
    activity: ActivityTally,
    slow_nanos: u64,
    /// The second in which the last events of slow calls were made, and their number.
    slow_events: (i64, usize),
    /// Where the calls come from that are being executed.
    source: Source,
    run: Run,
    /// The latencies of earlier runs of the turn.
    ended: Vec<Latencies>,
    /// Calls that had to wait.
    late: Vec<PendingCall>,
}

impl Tally {
    /// Counts for this number of listen addresses.
    pub(crate) fn new(targets: usize, settings: TallySettings) -> Tally {
        let activity = ActivityTally::new();
        let client = IpAddr::from([0, 0, 0, 0]);
        let source = Source { counted: Counted::default(), client, arrived: Time::from_nanos(0) };
        Tally {
            operations: OperationTally::new(targets, settings.clients, activity.watch()),
            activity,
            slow_nanos: u64::try_from(settings.slow.as_nanos()).unwrap_or(u64::MAX),
            slow_events: (0, 0),
            source,
            run: Run::new(&source),
            ended: Vec::new(),
            late: Vec::new(),
        }
    }

    /// Returns the readers' view.
    pub(crate) fn tallied(&self) -> Arc<Tallied> {
        Arc::clone(self.operations.tallied())
    }

    /// Returns where to count the calls of a new connection. Clients beyond the limit are not counted.
    pub(crate) fn connected(&mut self, target: usize, client: IpAddr) -> Counted {
        self.operations.connected(target, client)
    }

    /// Notes the end of a connection.
    pub(crate) fn disconnected(&self, counted: Counted) {
        self.operations.disconnected(counted);
    }

    /// Counts bytes that a connection has received, or that were replied by it.
    #[inline]
    pub(crate) fn count_bytes(&self, counted: Counted, bytes: usize) {
        self.operations.count_bytes(counted, bytes);
    }

    /// Counts a connection that broke a rule.
    pub(crate) fn count_malformed(&self, counted: Counted) {
        self.operations.count_malformed(counted);
    }

    /// Begins a turn: activities are counted in it if somebody watches now.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Time) {
        self.activity.note_time(now);
    }

    /// Begins the calls of a source. The caller has noted a reading of the clock since the last call. They continue the current
    /// run, unless they arrived at another time, are counted elsewhere, or somebody watches: then a run has the calls of one
    /// client.
    #[inline]
    pub(crate) fn begin_source(&mut self, source: Source) {
        if self.run.has_calls()
            && (source.arrived != self.source.arrived
                || source.counted != self.source.counted
                || self.activity.is_watched())
        {
            self.end_run();
        }
        self.source = source;
    }

    /// Notes a reading of the clock: the call before has been executed.
    #[inline]
    pub(crate) fn note_time(&mut self, now: Time) {
        self.run.note_time(now, &self.source.client);
    }

    /// Counts a call of the source whose reply is sent at the end of this turn.
    #[inline]
    pub(crate) fn answered(&mut self, summary: &CallSummary, begun: Time) {
        self.activity.note_object(summary);
        if !self.run.is_of(summary) {
            self.begin_run(summary);
        }
        self.run.add(begun);
    }

    #[inline(never)]
    fn begin_run(&mut self, summary: &CallSummary) {
        if self.run.has_calls() {
            self.end_run();
        }
        let label = self.operations.count(summary, self.source.counted, 1);
        self.run.begin(summary, label, self.source.arrived);
    }

    #[inline]
    fn end_run(&mut self) {
        self.count_answered();
        // `push` would copy it twice.
        self.ended.extend_from_slice(slice::from_ref(self.run.latencies()));
        self.run.end();
    }

    /// Counts the operations of the calls that were answered. Called before a reply leaves, so that a client that has its reply
    /// finds its call counted.
    #[inline]
    pub(crate) fn count_answered(&mut self) {
        if self.run.has_uncounted() {
            self.count_more();
        }
    }

    #[inline(never)]
    fn count_more(&mut self) {
        let (summary, calls) = self.run.take_uncounted();
        self.operations.count_apart(summary, self.source.counted, calls);
    }

    /// Counts what a call did whose reply has to wait, or that had to wait itself.
    pub(crate) fn count(&mut self, summary: &CallSummary, counted: Counted) -> CallLabel {
        self.activity.note_object(summary);
        self.operations.count_apart(summary, counted, 1)
    }

    /// Counts that the effect of a call that was counted is lost, so that it failed after all.
    pub(crate) fn count_lost(&mut self, call: &PendingCall) {
        self.operations.count_lost(&call.label);
    }

    /// Notes a call whose reply is sent at the end of this turn, after it had to wait.
    pub(crate) fn answered_late(&mut self, call: PendingCall) {
        self.late.push(call);
    }

    /// Counts the latencies of the calls whose replies were just sent. Passes those that took too long to `slow`, but few in a
    /// second, and of a run the one that took longest to execute.
    pub(crate) fn end_turn(&mut self, now: Time, mut slow: impl FnMut(&SlowCall)) {
        self.note_time(now);
        self.count_answered();
        self.activity.end_turn(now);
        if !self.ended.is_empty() {
            self.count_ended(now, &mut slow);
        }
        if self.run.has_calls() {
            let run = self.run.latencies();
            let total = run.count(self.operations.volume(&run.label), now);
            if self.is_noted(total) {
                self.note_run(*run, now, &mut slow);
            }
            self.run.end();
        }
        if !self.late.is_empty() {
            self.end_late(now, &mut slow);
        }
    }

    /// Counts the latencies of the earlier runs of a turn.
    #[inline(never)]
    fn count_ended(&mut self, now: Time, slow: &mut impl FnMut(&SlowCall)) {
        let mut next = 0;
        while let Some(run) = self.ended.get(next) {
            next += 1;
            let total = run.count(self.operations.volume(&run.label), now);
            if self.is_noted(total) {
                self.note_run(*run, now, slow);
            }
        }
        self.ended.clear();
    }

    /// Whether calls that took this long are counted as activities or reported as slow.
    #[inline]
    fn is_noted(&self, total: u64) -> bool {
        total >= self.slow_nanos || self.activity.is_watched()
    }

    /// Counts the latencies of the calls that had to wait.
    #[inline(never)]
    fn end_late(&mut self, now: Time, slow: &mut impl FnMut(&SlowCall)) {
        let mut late = std::mem::take(&mut self.late);
        for PendingCall { label, client, mut timing } in late.drain(..) {
            timing.end(Phase::Send, now);
            let volume = self.operations.volume(&label);
            volume.durations[label.operation.class().number()].count(timing.total(), DURATION_UNIT, 1);
            for (phase, nanos) in volume.phases.iter().zip(timing.nanos()) {
                add(phase, nanos);
            }
            self.note_activity(&label, client, timing.nanos(), 1);
            self.note_slow(&label, client, timing, 1, slow);
        }
        self.late = late;
    }

    /// Counts a run for those who watch, and reports it if it was slow.
    #[inline(never)]
    fn note_run(&mut self, run: Latencies, now: Time, slow: &mut impl FnMut(&SlowCall)) {
        let client = run.longest.client;
        self.note_activity(&run.label, client, run.phases(now), run.calls);
        self.note_slow(&run.label, client, run.longest.timing(run.arrived, now), run.calls, slow);
    }

    /// Counts calls of a client for those who watch, with the sums of their phases.
    fn note_activity(&mut self, label: &CallLabel, client: IpAddr, phases: [u64; Phase::COUNT], calls: u64) {
        if self.activity.is_watched() {
            let (volume, operation) = (self.operations.volume_id(label), label.operation);
            let activity = Activity { client: client.to_canonical(), volume, operation };
            self.activity.count(activity, label.transferred, phases, calls);
        }
    }

    /// Counts calls that took as long as this one, if that was too long, and reports this one.
    fn note_slow(
        &mut self,
        label: &CallLabel,
        client: IpAddr,
        timing: Timing,
        calls: u64,
        slow: &mut impl FnMut(&SlowCall),
    ) {
        if timing.unheld() < self.slow_nanos {
            return;
        }
        add(&self.operations.tallied().slow, calls);
        let second = timing.ended().seconds();
        if self.slow_events.0 != second {
            self.slow_events = (second, 0);
        }
        self.slow_events.1 += 1;
        if self.slow_events.1 <= SLOW_EVENTS_PER_SECOND_MAX {
            let volume = self.operations.volume_id(label);
            slow(&SlowCall { client, volume, operation: label.operation, timing, calls });
        }
    }
}

#[cfg(test)]
mod tests;
