//! Counting of calls with made-up times.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs::summary::{Class, Protocol, Status};

use super::*;
use crate::counters::tallied::VolumeCounters;
use crate::limits::VOLUMES_COUNTED_MAX;

mod model;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn operation(protocol: Protocol, name: &str) -> OperationId {
    OperationId::all().find(|id| id.protocol() == protocol && id.name() == name).unwrap()
}

fn at(microseconds: i64) -> Time {
    Time::from_nanos(microseconds * 1000)
}

fn tally(clients: usize) -> Tally {
    Tally::new(2, TallySettings { clients, slow: Duration::from_millis(1) })
}

fn summary(name: &str, status: Status, volume: u64) -> CallSummary {
    let mut summary = CallSummary::of_one(operation(Protocol::Nfs3, name), status);
    summary.volume = Some(VolumeId(volume));
    summary
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Returns the counters of a volume.
fn volume(tally: &Tally, id: u64) -> Arc<VolumeCounters> {
    let entries = tally.tallied().volumes.entries();
    entries.into_iter().find(|(found, _)| *found == Some(VolumeId(id))).unwrap().1
}

#[test]
fn operations_are_counted_by_volume_and_errors_by_status() {
    let mut tally = tally(0);
    let counted = tally.connected(1, CLIENT);
    for (name, status, id) in [
        ("GETATTR", Status::OK, 7),
        ("GETATTR", Status::OK, 8),
        ("READ", Status::IO, 7),
        ("GETATTR", Status::OK, 7),
    ] {
        tally.count(&summary(name, status, id), counted);
    }
    let getattr = operation(Protocol::Nfs3, "GETATTR");
    let read = operation(Protocol::Nfs3, "READ");
    assert_eq!(load(&volume(&tally, 7).operations[getattr.number()]), 2);
    assert_eq!(load(&volume(&tally, 8).operations[getattr.number()]), 1);
    assert_eq!(load(&volume(&tally, 7).operations[read.number()]), 1);
    let errors: Vec<_> =
        tally.tallied().errors.entries().iter().map(|(key, count)| (*key, load(count))).collect();
    assert_eq!(errors, [((Some(VolumeId(7)), read, Status::IO), 1)]);
    let target = &tally.tallied().targets[1];
    assert_eq!((load(&target.operations), load(&target.errors), load(&target.connections)), (4, 1, 1));
    tally.disconnected(counted);
    assert_eq!(load(&target.connections), 0);
}

#[test]
fn latencies_are_counted_with_their_phases_when_the_turn_ends() {
    let mut tally = tally(0);
    let counted = tally.connected(0, CLIENT);
    let call = summary("GETATTR", Status::OK, 1);
    // Two calls arrive together; the second begins when the first has been executed.
    tally.begin_source(Source { counted, client: CLIENT, arrived: at(100) });
    tally.note_time(at(110));
    tally.answered(&call, at(110));
    tally.note_time(at(113));
    tally.answered(&call, at(113));
    tally.note_time(at(120));
    tally.note_time(at(125));
    tally.end_turn(at(130), |_| panic!("no call was slow"));
    let counters = volume(&tally, 1);
    let nanos: Vec<u64> = counters.phases.iter().map(|phase| load(phase) / 1000).collect();
    assert_eq!(nanos, [10 + 13, 0, 0, 3 + 7, 0, 17 + 10]);
    let durations = counters.durations[Class::Getattr.number()].read();
    assert_eq!((durations.count(), durations.sum, durations.buckets[1]), (2, 60_000, 2));
}

#[test]
fn a_call_that_waited_is_counted_with_what_it_waited_for() {
    let mut tally = tally(0);
    let counted = tally.connected(0, CLIENT);
    let label = tally.count(&summary("WRITE", Status::OK, 1), counted);
    let mut timing = Timing::of_arrival(at(0));
    timing.end(Phase::Queue, at(5));
    timing.end(Phase::Engine, at(15));
    timing.end(Phase::Durability, at(1500));
    tally.answered_late(PendingCall { label, client: CLIENT, timing });
    let mut slow = Vec::new();
    tally.end_turn(at(1510), |call| slow.push(*call));
    assert_eq!(slow.len(), 1, "it took longer than a millisecond");
    assert_eq!((slow[0].operation.name(), slow[0].volume), ("WRITE", Some(VolumeId(1))));
    assert_eq!(slow[0].timing.nanos().map(|nanos| nanos / 1000), [5, 0, 0, 10, 1485, 10]);
    let durations = volume(&tally, 1).durations[Class::Write.number()].read();
    assert_eq!((durations.count(), durations.sum), (1, 1_510_000));
}

#[test]
fn few_events_of_slow_calls_are_made_in_a_second() {
    let mut tally = tally(0);
    let counted = tally.connected(0, CLIENT);
    let (mut events, calls) = (0, ["READ", "GETATTR"].map(|name| summary(name, Status::OK, 1)));
    for second in [5, 6] {
        tally.begin_source(Source { counted, client: CLIENT, arrived: at(0) });
        for call in calls.iter().cycle().take(50) {
            tally.note_time(at(10));
            tally.answered(call, at(10));
        }
        tally.end_turn(at(second * 1_000_000), |_| events += 1);
    }
    assert_eq!((events, load(&tally.tallied().slow)), (2 * SLOW_EVENTS_PER_SECOND_MAX, 100));
}

#[test]
fn of_slow_calls_that_are_alike_the_longest_is_reported() {
    let mut tally = tally(0);
    let counted = tally.connected(0, CLIENT);
    let other = IpAddr::from([192, 0, 2, 2]);
    let call = summary("READ", Status::OK, 1);
    for (client, begun) in [(CLIENT, 10), (other, 20), (CLIENT, 900)] {
        tally.note_time(at(begun));
        tally.begin_source(Source { counted, client, arrived: at(0) });
        tally.answered(&call, at(begun));
    }
    let mut slow = Vec::new();
    tally.note_time(at(910));
    tally.end_turn(at(1000), |call| slow.push(*call));
    let [SlowCall { client, calls: 3, timing, .. }] = slow[..] else { panic!("{slow:?}") };
    assert_eq!((client, load(&tally.tallied().slow)), (other, 3));
    assert_eq!(timing.nanos().map(|nanos| nanos / 1000), [20, 0, 0, 880, 0, 100]);
}

#[test]
fn a_lost_effect_counts_as_an_error_of_the_operation() {
    let mut tally = tally(0);
    let counted = tally.connected(0, CLIENT);
    let label = tally.count(&summary("WRITE", Status::OK, 3), counted);
    let call = PendingCall { label, client: CLIENT, timing: Timing::of_arrival(at(0)) };
    tally.count_lost(&call);
    let write = operation(Protocol::Nfs3, "WRITE");
    let errors = tally.tallied().errors.entries();
    assert_eq!((errors[0].0, load(&errors[0].1)), ((Some(VolumeId(3)), write, Status::IO), 1));
    assert_eq!(load(&volume(&tally, 3).operations[write.number()]), 1, "it was counted before");
}

#[test]
fn the_first_clients_are_counted() {
    let mut tally = tally(2);
    let address = |last| IpAddr::from([192, 0, 2, last]);
    let places: Vec<Option<u32>> =
        [1, 2, 3, 1].iter().map(|last| tally.connected(0, address(*last)).client).collect();
    assert_eq!(places, [Some(0), Some(1), None, Some(0)]);
    let counted = Counted { target: 0, client: Some(1) };
    tally.count(&summary("READ", Status::OK, 1), counted);
    tally.count_bytes(counted, 4096);
    let clients = tally.tallied().clients.entries();
    let (client, counters) = &clients[1];
    assert_eq!(*client, address(2));
    assert_eq!((load(&counters.operations), load(&counters.bytes)), (1, 4096));
    assert_eq!(load(&counters.protocols), 1 << Protocol::Nfs3 as u32);
    assert_eq!(load(&tally.tallied().targets[0].bytes), 4096);
}

/// Counts a turn of GETATTRs. Under callgrind, `--toggle-collect=*turn_of_getattrs*` counts its instructions.
#[inline(never)]
fn turn_of_getattrs(tally: &mut Tally, counted: Counted, calls: i64) {
    let summary = summary("GETATTR", Status::OK, 1);
    tally.begin_source(Source { counted, client: CLIENT, arrived: at(0) });
    for number in 0..calls {
        tally.note_time(at(number));
        tally.answered(&summary, at(number));
    }
    tally.end_turn(at(calls), |_| panic!("no call was slow"));
}

#[test]
fn many_calls_of_a_turn_are_counted() {
    let mut tally = tally(0);
    let counted = tally.connected(0, CLIENT);
    turn_of_getattrs(&mut tally, counted, 900);
    turn_of_getattrs(&mut tally, counted, 100);
    let getattr = operation(Protocol::Nfs3, "GETATTR");
    assert_eq!(load(&volume(&tally, 1).operations[getattr.number()]), 1000);
    assert_eq!(volume(&tally, 1).durations[Class::Getattr.number()].read().count(), 1000);
}

#[test]
fn those_who_watch_see_who_does_what_where() {
    let mut tally = tally(0);
    let counted = tally.connected(0, CLIENT);
    let mapped = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped());
    let turn = |tally: &mut Tally, start: i64| {
        let mut read = summary("READ", Status::OK, 1);
        read.transferred.read = 4096;
        read.ino = volume::ids::Ino(5);
        tally.begin_turn(at(start));
        tally.begin_source(Source { counted, client: CLIENT, arrived: at(start) });
        tally.answered(&read, at(start + 1));
        tally.note_time(at(start + 3));
        let label = tally.count(&summary("WRITE", Status::OK, 2), counted);
        let mut timing = Timing::of_arrival(at(start));
        timing.end(Phase::Durability, at(start + 9));
        tally.answered_late(PendingCall { label, client: mapped, timing });
        tally.end_turn(at(start + 10), |_| {});
    };
    turn(&mut tally, 0);
    tally.tallied().activity.ask(at(1000));
    turn(&mut tally, 100);
    turn(&mut tally, 200);
    let entries = tally.tallied().activity.entries();
    assert_eq!(entries.len(), 3, "what nobody watched was not counted");
    let shown = |place: usize| {
        let (activity, counters) = &entries[place];
        let activity = activity.unwrap();
        assert_eq!(activity.client, CLIENT);
        let micros = counters.phases.each_ref().map(|nanos| load(nanos) / 1000);
        (activity.operation.name(), activity.volume, load(&counters.calls), load(&counters.read), micros)
    };
    assert_eq!(shown(1), ("READ", Some(VolumeId(1)), 2, 8192, [2, 0, 0, 4, 0, 14]));
    let objects = tally.tallied().activity.objects.entries(at(300));
    let objects: Vec<_> = objects.iter().map(|(object, _, counters)| (object.ino.0, counters.read)).collect();
    assert_eq!(objects, [(5, 8192)]);
    tally.begin_turn(at(1000));
    assert!(tally.tallied().activity.objects.entries(at(1000)).is_empty(), "nobody watches any more");
    assert_eq!(shown(2), ("WRITE", Some(VolumeId(2)), 2, 0, [0, 0, 0, 0, 18, 2]));
}

#[test]
fn volumes_beyond_the_bound_count_as_none() {
    let mut tally = tally(0);
    let counted = tally.connected(0, CLIENT);
    for id in 1..2 * VOLUMES_COUNTED_MAX as u64 {
        tally.count(&summary("READ", Status::IO, id), counted);
    }
    tally.count(&summary("READ", Status::IO, 1), counted);
    let read = operation(Protocol::Nfs3, "READ").number();
    let volumes = tally.tallied().volumes.entries();
    assert_eq!(
        (volumes.len(), tally.tallied().errors.entries().len()),
        (VOLUMES_COUNTED_MAX, VOLUMES_COUNTED_MAX)
    );
    assert_eq!(load(&volume(&tally, 1).operations[read]), 2);
    let none = volumes.iter().find(|(id, _)| id.is_none()).unwrap();
    assert_eq!(load(&none.1.operations[read]), VOLUMES_COUNTED_MAX as u64);
}
