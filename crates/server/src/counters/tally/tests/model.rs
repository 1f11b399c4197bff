//! Random turns, counted in runs by the tally and call by call by a model.

use std::collections::BTreeMap;

use fastrand::Rng;
use nfs::summary::Transferred;

use super::*;
use crate::counters::histogram::Snapshot;
use crate::counters::phases::nanos_between;
use crate::counters::runs::Source;
use crate::counters::tallied::{DURATION_BUCKETS, ErrorKey, SIZE_BUCKETS, SIZE_UNIT};

const SLOW: u64 = 1_000_000;
/// Of these, two are counted.
const CLIENTS: u8 = 4;

type Volume = Option<VolumeId>;

/// A call whose reply leaves at the end of the turn.
#[derive(Clone, Debug)]
struct Call {
    summary: CallSummary,
    client: IpAddr,
    arrived: Time,
    begun: Time,
    ended: Option<Time>,
    is_late: bool,
}

impl Call {
    fn timing(&self, now: Time) -> Timing {
        let mut timing = Timing::of_arrival(self.arrived);
        timing.end(Phase::Queue, self.begun);
        timing.end(Phase::Engine, self.ended.unwrap_or(now));
        timing.end(Phase::Send, now);
        timing
    }
}

/// What is counted, each call by itself.
#[derive(Debug, Default, PartialEq)]
struct Model {
    operations: BTreeMap<(Volume, OperationId), u64>,
    errors: BTreeMap<ErrorKey, u64>,
    durations: BTreeMap<(Volume, Class), Snapshot<DURATION_BUCKETS>>,
    phases: BTreeMap<Volume, [u64; Phase::COUNT]>,
    read: BTreeMap<Volume, Snapshot<SIZE_BUCKETS>>,
    written: BTreeMap<Volume, Snapshot<SIZE_BUCKETS>>,
    /// Operations and errors.
    targets: [(u64, u64); 2],
    /// Operations and protocols.
    clients: BTreeMap<IpAddr, (u64, u64)>,
    slow: u64,
    /// Calls, bytes, phases.
    activity: BTreeMap<(IpAddr, Volume, OperationId), (u64, u64, u64, [u64; Phase::COUNT])>,
}

fn add_value<const N: usize>(histogram: &mut Snapshot<N>, value: u64, unit: u64) {
    let bucket = (0..N).find(|bucket| value <= unit << bucket).unwrap_or(N - 1);
    histogram.buckets[bucket] += 1;
    histogram.sum += value;
}

fn add_phases(sums: &mut [u64; Phase::COUNT], phases: [u64; Phase::COUNT]) {
    sums.iter_mut().zip(phases).for_each(|(sum, nanos)| *sum += nanos);
}

impl Model {
    fn count(&mut self, summary: &CallSummary, counted: Counted, client: IpAddr) {
        let (volume, target) = (summary.volume, &mut self.targets[counted.target as usize]);
        let mut operations = 0;
        summary.for_each_operation(|operation, status| {
            *self.operations.entry((volume, operation)).or_default() += 1;
            target.0 += 1;
            operations += 1;
            if status != Status::OK {
                *self.errors.entry((volume, operation, status)).or_default() += 1;
                target.1 += u64::from(status.is_fault(operation.protocol()));
            }
        });
        // Clients beyond the limit are not counted.
        if counted.client.is_some() {
            let by_client = self.clients.entry(client).or_default();
            by_client.0 += operations;
            by_client.1 |= 1 << summary.main.protocol() as u32;
        }
        let Transferred { read, written } = summary.transferred;
        if read > 0 {
            add_value(self.read.entry(volume).or_default(), read.into(), SIZE_UNIT);
        }
        if written > 0 {
            add_value(self.written.entry(volume).or_default(), written.into(), SIZE_UNIT);
        }
    }

    fn end(&mut self, call: &Call, now: Time, is_watched: bool) {
        let (summary, phases) = (&call.summary, call.timing(now).nanos());
        let total = nanos_between(call.arrived, now);
        let durations = self.durations.entry((summary.volume, summary.main.class())).or_default();
        add_value(durations, total, DURATION_UNIT);
        add_phases(self.phases.entry(summary.volume).or_default(), phases);
        self.slow += u64::from(total >= SLOW);
        if is_watched {
            let entry = self.activity.entry((call.client, summary.volume, summary.main)).or_default();
            entry.0 += 1;
            entry.1 += u64::from(summary.transferred.read);
            entry.2 += u64::from(summary.transferred.written);
            add_phases(&mut entry.3, phases);
        }
    }

    /// Reads the same from the counters. Those that are zero are left out, as are volumes that nothing was counted for.
    fn read(tallied: &Tallied) -> Model {
        let mut model = Model::default();
        for (volume, counters) in tallied.volumes.entries() {
            let operations =
                OperationId::all().zip(&counters.operations).filter(|(_, count)| load(count) > 0);
            model.operations.extend(operations.map(|(operation, count)| ((volume, operation), load(count))));
            let durations = Class::ALL.into_iter().zip(counters.durations.iter().map(|class| class.read()));
            let durations = durations.filter(|(_, read)| read.count() > 0);
            model.durations.extend(durations.map(|(class, read)| ((volume, class), read)));
            let phases = counters.phases.each_ref().map(load);
            model.phases.extend((phases != [0; Phase::COUNT]).then_some((volume, phases)));
            let sizes = |read: Snapshot<SIZE_BUCKETS>| (read.count() > 0).then_some((volume, read));
            model.read.extend(sizes(counters.read_bytes.read()));
            model.written.extend(sizes(counters.written_bytes.read()));
        }
        model.errors = tallied.errors.entries().iter().map(|(key, count)| (*key, load(count))).collect();
        for (target, counters) in model.targets.iter_mut().zip(&tallied.targets) {
            *target = (load(&counters.operations), load(&counters.errors));
        }
        for (client, counters) in tallied.clients.entries() {
            let counts = (load(&counters.operations), load(&counters.protocols));
            model.clients.extend((counts.0 > 0).then_some((client, counts)));
        }
        model.slow = load(&tallied.slow);
        for (activity, counters) in tallied.activity.entries() {
            let Some(Activity { client, volume, operation }) = activity else { continue };
            let (calls, read, written) =
                (load(&counters.calls), load(&counters.read), load(&counters.written));
            let phases = counters.phases.each_ref().map(load);
            model.activity.insert((client, volume, operation), (calls, read, written, phases));
        }
        model
    }
}

/// Makes a call of one of few kinds.
fn random_summary(random: &mut Rng) -> CallSummary {
    let of_nfs4 = |name| operation(Protocol::Nfs4, name);
    let mut summary = match random.u8(..8) {
        0..4 => summary("GETATTR", Status::OK, 1),
        4 => summary("READ", if random.u8(..4) == 0 { Status::IO } else { Status::OK }, 1),
        5 => summary("WRITE", Status::OK, 2),
        more => {
            let operations = vec![of_nfs4("PUTFH"); random.usize(1..3) + if more == 6 { 0 } else { 15 }];
            let mut summary = CallSummary::of_many(&operations, of_nfs4("GETATTR"), Status::OK);
            summary.volume = Some(VolumeId(1));
            summary
        }
    };
    if summary.main == operation(Protocol::Nfs3, "READ") {
        summary.transferred.read = 4096 << random.u8(..2);
    }
    if summary.main == operation(Protocol::Nfs3, "WRITE") {
        summary.transferred.written = 512;
    }
    if random.u8(..8) == 0 {
        summary.volume = None;
    }
    summary
}

/// A tally, the model, and the calls of a turn.
struct World {
    random: Rng,
    now: Time,
    tally: Tally,
    model: Model,
    /// The connections.
    counted: Vec<(Counted, IpAddr)>,
    calls: Vec<Call>,
    /// What the last call did.
    last: CallSummary,
    watched_until: Time,
}

impl World {
    fn new(seed: u64) -> World {
        let settings = TallySettings { clients: 2, slow: Duration::from_nanos(SLOW) };
        let mut tally = Tally::new(2, settings);
        let clients = (0..CLIENTS).map(|last| IpAddr::from([192, 0, 2, last]));
        let counted = clients.map(|client| (tally.connected(usize::from(client == CLIENT), client), client));
        let counted = counted.collect();
        let (now, watched_until) = (at(1_000_000), at(0));
        let mut random = Rng::with_seed(seed);
        let (model, calls, last) = (Model::default(), Vec::new(), random_summary(&mut random));
        World { random, now, tally, model, counted, calls, last, watched_until }
    }

    /// Lets time pass, and returns what the clock shows then. It rarely passes so much that calls are slow.
    fn read_clock(&mut self) -> Time {
        let most = if self.random.u8(..64) == 0 { 2 * SLOW } else { 5000 };
        self.now = self.now.plus(Duration::from_nanos(self.random.u64(..most)));
        if let Some(call) = self.calls.last_mut().filter(|call| !call.is_late) {
            call.ended.get_or_insert(self.now);
        }
        self.tally.note_time(self.now);
        self.now
    }

    fn execute(&mut self, (counted, client): (Counted, IpAddr), arrived: Time) {
        // Many that follow one another are alike.
        if self.random.u8(..4) == 0 {
            self.last = random_summary(&mut self.random);
        }
        let (summary, begun) = (self.last.clone(), self.read_clock());
        let is_late = self.random.u8(..8) == 0;
        let ended = is_late.then(|| begun.plus(Duration::from_nanos(100)));
        let call = Call { summary, client, arrived, begun, ended, is_late };
        self.model.count(&call.summary, counted, client);
        if is_late {
            let label = self.tally.count(&call.summary, counted);
            let mut timing = Timing::of_arrival(arrived);
            timing.end(Phase::Queue, begun);
            timing.end(Phase::Engine, begun.plus(Duration::from_nanos(100)));
            self.tally.answered_late(PendingCall { label, client, timing });
        } else {
            self.tally.answered(&call.summary, begun);
        }
        self.calls.push(call);
    }

    fn turn(&mut self) {
        let woken = self.read_clock();
        self.tally.begin_turn(woken);
        let is_watched = woken < self.watched_until;
        if !is_watched {
            self.model.activity.clear();
        }
        for _ in 0..self.random.u8(..4) {
            let connection = self.counted[self.random.usize(..self.counted.len())];
            let arrived = if self.random.u8(..4) == 0 { self.now } else { woken };
            self.tally.begin_source(Source { counted: connection.0, client: connection.1, arrived });
            (0..self.random.u8(..8)).for_each(|_| self.execute(connection, arrived));
            self.read_clock();
            if self.random.u8(..4) == 0 {
                self.tally.count_answered();
                let read = Model::read(&self.tally.tallied());
                assert_eq!(read.operations, self.model.operations, "counted before replies leave");
            }
        }
        self.end_turn(is_watched);
        if self.random.u8(..8) == 0 {
            let until = self.now.plus(Duration::from_micros(self.random.u64(..200)));
            self.watched_until = self.watched_until.max(until);
            self.tally.tallied().activity.ask(until);
        }
    }

    fn end_turn(&mut self, is_watched: bool) {
        let (now, slow_before) = (self.read_clock(), self.model.slow);
        let calls = std::mem::take(&mut self.calls);
        calls.iter().for_each(|call| self.model.end(call, now, is_watched));
        let mut events = Vec::new();
        self.tally.end_turn(now, |slow| events.push(*slow));
        assert_eq!(Model::read(&self.tally.tallied()), self.model);
        for event in &events {
            let is_it = |call: &&Call| {
                (call.client, call.summary.main) == (event.client, event.operation)
                    && call.timing(now).nanos() == event.timing.nanos()
            };
            assert!(calls.iter().any(|call| is_it(&call)), "{event:?} is none of {calls:?}");
        }
        let slow: u64 = events.iter().map(|event| event.calls).sum();
        if events.len() < SLOW_EVENTS_PER_SECOND_MAX {
            assert_eq!(slow, self.model.slow - slow_before);
        }
        // In another second, there may be events again.
        self.now = self.now.plus(Duration::from_secs(u64::from(!events.is_empty())));
    }
}

#[test]
fn runs_count_as_each_of_their_calls_would() {
    for seed in [1, 2, 3, fastrand::u64(..)] {
        println!("seed {seed}");
        let mut world = World::new(seed);
        (0..2000).for_each(|_| world.turn());
        assert!(world.model.slow > 100 && world.model.operations.len() == 8, "{:?}", world.model);
    }
}
