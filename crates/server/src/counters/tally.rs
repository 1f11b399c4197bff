//! Counts the calls of one event loop: operations by volume, latencies with their phases, data, targets and clients.
//!
//! Only the loop writes, with plain loads and stores; scrapes read meanwhile ([`Tallied`]). What a volume, a status or a client
//! needs is made at its first use.
//!
//! The latency of a call answered in the turn in which it arrived is counted when the turn ends, with the readings of the clock
//! that the turn makes anyway: one when it begins, one for each call, one when all calls are executed, one when it ends.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use nfs::summary::{CallSummary, OperationId, Status, Transferred};
use volume::ids::VolumeId;
use volume::time::Time;

use crate::counters::activity::{Activity, ActivityTally};
use crate::counters::add;
use crate::counters::grown::Grown;
use crate::counters::phases::{Phase, Timing, nanos_between};
use crate::counters::tallied::{
    ClientCounters, DURATION_UNIT, ErrorKey, SIZE_UNIT, Tallied, TargetCounters, VolumeCounters,
};
use crate::limits::{SLOW_EVENTS_PER_SECOND_MAX, VOLUMES_COUNTED_MAX};

/// What is counted besides what always is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TallySettings {
    /// Clients that are counted.
    pub(crate) clients: usize,
    /// The least duration of a call that makes an event.
    pub(crate) slow: Duration,
}

/// Where the calls of a connection are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The number of its listen address.
    pub(crate) target: u32,
    /// The place of its client, if clients are counted.
    pub(crate) client: Option<u32>,
}

/// What the latency of a call is counted by, after its operations were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallLabel {
    /// The place of its volume.
    volume: u32,
    operation: OperationId,
    target: u32,
    transferred: Transferred,
}

/// A call that was answered in the turn in which it was executed.
#[derive(Clone, Copy)]
struct Answered {
    label: CallLabel,
    client: IpAddr,
    arrived: Time,
    begun: Time,
    /// When it was executed; none until the next reading of the clock.
    ended: Option<Time>,
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
}

/// The counting loop's side.
pub(crate) struct Tally {
    tallied: Arc<Tallied>,
    volumes: Grown<Option<VolumeId>, VolumeCounters>,
    /// The volume of the last call, and its place.
    last: (Option<VolumeId>, usize),
    /// The volumes by their places.
    ids: Vec<Option<VolumeId>>,
    errors: Grown<ErrorKey, AtomicU64>,
    clients: Grown<IpAddr, ClientCounters>,
    clients_counted: usize,
    clients_max: usize,
    activity: ActivityTally,
    slow_nanos: u64,
    /// The second in which the last events of slow calls were made, and their number.
    slow_events: (i64, usize),
    answered: Vec<Answered>,
    /// Calls that had to wait.
    late: Vec<PendingCall>,
}

impl Tally {
    /// Counts for this number of listen addresses.
    pub(crate) fn new(targets: usize, settings: TallySettings) -> Tally {
        let (mut volumes, errors, clients) = (Grown::new(), Grown::new(), Grown::new());
        let last = (None, volumes.place(&None));
        let activity = ActivityTally::new();
        let tallied = Arc::new(Tallied {
            volumes: volumes.readable(),
            errors: errors.readable(),
            clients: clients.readable(),
            targets: (0..targets).map(|_| TargetCounters::default()).collect(),
            activity: activity.watch(),
            slow: AtomicU64::new(0),
        });
        Tally {
            tallied,
            volumes,
            last,
            ids: vec![None],
            errors,
            clients,
            clients_counted: 0,
            clients_max: settings.clients,
            activity,
            slow_nanos: u64::try_from(settings.slow.as_nanos()).unwrap_or(u64::MAX),
            slow_events: (0, 0),
            answered: Vec::new(),
            late: Vec::new(),
        }
    }

    /// Returns the readers' view.
    pub(crate) fn tallied(&self) -> Arc<Tallied> {
        Arc::clone(&self.tallied)
    }

    /// Returns where to count the calls of a new connection. Clients beyond the limit are not counted.
    pub(crate) fn connected(&mut self, target: usize, client: IpAddr) -> Counted {
        add(&self.tallied.targets[target].connections, 1);
        let mut place = None;
        if self.clients_max > 0 {
            let known = self.clients.find(&client);
            if known.is_some() || self.clients_counted < self.clients_max {
                self.clients_counted += usize::from(known.is_none());
                place = Some(self.clients.place(&client));
            }
        }
        Counted {
            target: u32::try_from(target).expect("there are few listen addresses"),
            client: place.map(|place| u32::try_from(place).expect("few clients are counted")),
        }
    }

    /// Notes the end of a connection.
    pub(crate) fn disconnected(&self, counted: Counted) {
        add(&self.tallied.targets[counted.target as usize].connections, u64::MAX);
    }

    /// Counts bytes that a connection has received, or that were replied by it.
    #[inline]
    pub(crate) fn count_bytes(&self, counted: Counted, bytes: usize) {
        let bytes = bytes as u64;
        add(&self.tallied.targets[counted.target as usize].bytes, bytes);
        if let Some(client) = counted.client {
            add(&self.clients.at(client as usize).bytes, bytes);
        }
    }

    /// Counts a connection that broke a rule.
    pub(crate) fn count_malformed(&self, counted: Counted) {
        add(&self.tallied.targets[counted.target as usize].errors, 1);
    }

    /// Counts what a call did.
    #[inline]
    pub(crate) fn count(&mut self, summary: &CallSummary, counted: Counted) -> CallLabel {
        if summary.volume != self.last.0 {
            self.find_volume(summary.volume);
        }
        let place = self.last.1;
        let volume = self.volumes.at(place);
        let (errors, target) = (&mut self.errors, &self.tallied.targets[counted.target as usize]);
        let mut operations = 0;
        summary.for_each_operation(|operation, status| {
            operations += 1;
            add(&volume.operations[operation.number()], 1);
            if status != Status::OK {
                count_error(errors, target, (self.ids[place], operation, status));
            }
        });
        add(&target.operations, operations);
        if summary.transferred.read > 0 {
            volume.read_bytes.count(summary.transferred.read.into(), SIZE_UNIT);
        }
        if summary.transferred.written > 0 {
            volume.written_bytes.count(summary.transferred.written.into(), SIZE_UNIT);
        }
        self.activity.note_object(summary);
        if let Some(client) = counted.client {
            let client = self.clients.at(client as usize);
            add(&client.operations, operations);
            let seen = client.protocols.load(std::sync::atomic::Ordering::Relaxed);
            let bit = 1 << summary.main.protocol() as u32;
            client.protocols.store(seen | bit, std::sync::atomic::Ordering::Relaxed);
        }
        CallLabel {
            volume: u32::try_from(place).unwrap_or(0),
            operation: summary.main,
            target: counted.target,
            transferred: summary.transferred,
        }
    }

    #[cold]
    fn find_volume(&mut self, volume: Option<VolumeId>) {
        let is_new = self.volumes.find(&volume).is_none();
        let counted = volume.filter(|_| !is_new || self.volumes.len() < VOLUMES_COUNTED_MAX);
        let place = self.volumes.place(&counted);
        if place == self.ids.len() {
            self.ids.push(counted);
        }
        self.last = (volume, place);
    }

    /// Counts that the effect of a call that was counted is lost, so that it failed after all.
    pub(crate) fn count_lost(&mut self, call: &PendingCall) {
        let label = call.label;
        let volume = self.ids[label.volume as usize];
        let target = &self.tallied.targets[label.target as usize];
        count_error(&mut self.errors, target, (volume, label.operation, Status::IO));
    }

    /// Notes a reading of the clock: the call before has been executed.
    #[inline]
    pub(crate) fn note_time(&mut self, now: Time) {
        if let Some(last) = self.answered.last_mut() {
            last.ended.get_or_insert(now);
        }
    }

    /// Notes a call whose reply is sent at the end of this turn.
    #[inline]
    pub(crate) fn answered(&mut self, label: CallLabel, client: IpAddr, arrived: Time, begun: Time) {
        self.answered.push(Answered { label, client, arrived, begun, ended: None });
    }

    /// Notes a call whose reply is sent at the end of this turn, after it had to wait.
    pub(crate) fn answered_late(&mut self, call: PendingCall) {
        self.late.push(call);
    }

    /// Counts the latencies of the calls whose replies were just sent. Passes those that took too long to `slow`, but few in a
    /// second.
    pub(crate) fn end_turn(&mut self, now: Time, mut slow: impl FnMut(&SlowCall)) {
        self.activity.end_turn(now);
        // One call in a turn is common, so the list stays where it is: moving it costs half as much as counting a call.
        let mut next = 0;
        while let Some(&Answered { label, client, arrived, begun, ended }) = self.answered.get(next) {
            next += 1;
            let ended = ended.unwrap_or(now);
            let total = nanos_between(arrived, now);
            let volume = self.volumes.at(label.volume as usize);
            volume.durations[label.operation.class().number()].count(total, DURATION_UNIT);
            add(&volume.phases[Phase::Queue as usize], nanos_between(arrived, begun));
            add(&volume.phases[Phase::Engine as usize], nanos_between(begun, ended));
            add(&volume.phases[Phase::Send as usize], nanos_between(ended, now));
            if total >= self.slow_nanos || self.activity.is_watched() {
                let mut timing = Timing::of_arrival(arrived);
                timing.end(Phase::Queue, begun);
                timing.end(Phase::Engine, ended);
                timing.end(Phase::Send, now);
                self.note(label, client, timing, &mut slow);
            }
        }
        self.answered.clear();
        if !self.late.is_empty() {
            self.end_late(now, &mut slow);
        }
    }

    /// Counts the latencies of the calls that had to wait.
    #[inline(never)]
    fn end_late(&mut self, now: Time, slow: &mut impl FnMut(&SlowCall)) {
        let mut late = std::mem::take(&mut self.late);
        for PendingCall { label, client, mut timing } in late.drain(..) {
            timing.end(Phase::Send, now);
            let volume = self.volumes.at(label.volume as usize);
            volume.durations[label.operation.class().number()].count(timing.total(), DURATION_UNIT);
            for (phase, nanos) in volume.phases.iter().zip(timing.nanos()) {
                add(phase, nanos);
            }
            if timing.unheld() >= self.slow_nanos || self.activity.is_watched() {
                self.note(label, client, timing, slow);
            }
        }
        self.late = late;
    }

    /// Counts a call for those who watch, and reports it if it was slow.
    #[inline(never)]
    fn note(&mut self, label: CallLabel, client: IpAddr, timing: Timing, slow: &mut impl FnMut(&SlowCall)) {
        if self.activity.is_watched() {
            let volume = self.ids[label.volume as usize];
            let activity = Activity { client: client.to_canonical(), volume, operation: label.operation };
            self.activity.count(activity, label.transferred, timing.nanos());
        }
        if timing.unheld() >= self.slow_nanos {
            self.note_slow(label, client, timing, slow);
        }
    }

    #[cold]
    fn note_slow(
        &mut self,
        label: CallLabel,
        client: IpAddr,
        timing: Timing,
        slow: &mut impl FnMut(&SlowCall),
    ) {
        add(&self.tallied.slow, 1);
        let second = timing.ended().seconds();
        if self.slow_events.0 != second {
            self.slow_events = (second, 0);
        }
        self.slow_events.1 += 1;
        if self.slow_events.1 <= SLOW_EVENTS_PER_SECOND_MAX {
            let volume = self.ids[label.volume as usize];
            slow(&SlowCall { client, volume, operation: label.operation, timing });
        }
    }
}

/// Counts a failed operation; for its target, only if the server is to blame.
#[cold]
fn count_error(errors: &mut Grown<ErrorKey, AtomicU64>, target: &TargetCounters, key: ErrorKey) {
    add(errors.of(&key), 1);
    let (_, operation, status) = key;
    if status.is_fault(operation.protocol()) {
        add(&target.errors, 1);
    }
}

#[cfg(test)]
mod tests;
