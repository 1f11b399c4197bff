use std::time::Duration;

use super::*;
use crate::call::{ClientId, LoopId};
use crate::cost::Cost;
use crate::limits::Dimension;

const MIB: u32 = 1 << 20;

fn millis(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn limit(dimension: Dimension, rate: u64) -> Limits {
    Limits::NONE.with(dimension, rate).unwrap()
}

fn token(call: u64) -> Token {
    Token { event_loop: LoopId(0), call }
}

fn call(limiters: &[Arc<Limiter>], client: u64, cost: Cost, number: u64) -> Call<'_> {
    Call { limiters, client: ClientId(client.into()), cost, token: token(number) }
}

/// Releases everything until a time, and returns the calls with the times of their release.
fn release_until(scheduler: &Scheduler, end: Time) -> Vec<(u64, Time)> {
    let mut calls = Vec::new();
    let mut out = Vec::new();
    while let Some(deadline) = scheduler.next_deadline().filter(|deadline| *deadline <= end) {
        scheduler.release(deadline, &mut out);
        for released in out.drain(..) {
            if let Released::Call { token, .. } = released {
                calls.push((token.call, deadline));
            }
        }
    }
    calls
}

#[test]
fn nothing_is_held_without_limits() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &Limits::NONE)];
    for number in 0..10_000 {
        let verdict = scheduler.admit(millis(0), &call(&limiters, 1, Cost::read(MIB), number));
        assert_eq!(verdict, Verdict::Admitted);
    }
    assert_eq!(scheduler.next_deadline(), None);
}

#[test]
fn other_classes_pass_while_writes_are_held() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::WriteBytes, 1 << 20))];
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 1, Cost::write(MIB), 1)), Verdict::Admitted);
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 1, Cost::write(1), 2)), Verdict::Held);
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 1, Cost::metadata(), 3)), Verdict::Admitted);
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 1, Cost::read(MIB), 4)), Verdict::Admitted);
    let commit = Cost::write(MIB).debt_only();
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 1, commit, 5)), Verdict::Admitted);
    assert_eq!(scheduler.check(), Ok(1));
}

#[test]
fn a_refusal_leaves_nothing_charged() {
    let scheduler = Scheduler::default();
    let wide = scheduler.limiter(millis(0), &limit(Dimension::ReadOps, 1000));
    let narrow = scheduler.limiter(millis(0), &limit(Dimension::ReadBytes, 1 << 20));
    let both = [Arc::clone(&wide), narrow];
    assert_eq!(scheduler.admit(millis(0), &call(&both, 1, Cost::read(MIB), 0)), Verdict::Admitted);
    for number in 1..4 {
        assert_eq!(scheduler.admit(millis(0), &call(&both, 1, Cost::read(MIB), number)), Verdict::Held);
    }
    let wide = [wide];
    let admitted = (10..).take_while(|number| {
        scheduler.admit(millis(0), &call(&wide, 2, Cost::read(1), *number)) == Verdict::Admitted
    });
    assert_eq!(admitted.count(), 99, "a burst of 100 but for the one that passed both");
}

#[test]
fn clients_get_equal_shares_whatever_the_size_and_number_of_their_calls() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::ReadBytes, 100 << 20))];
    for number in 0..300 {
        let _ = scheduler.admit(millis(0), &call(&limiters, 1, Cost::read(MIB), number));
    }
    for number in 1000..20_000 {
        let _ = scheduler.admit(millis(0), &call(&limiters, 2, Cost::read(4096), number));
    }
    let calls = release_until(&scheduler, millis(1000));
    let large = calls.iter().filter(|(number, _)| *number < 1000).count() * 256;
    let small = calls.iter().filter(|(number, _)| *number >= 1000).count();
    assert!(large.abs_diff(small) <= 256, "{large} and {small} blocks");
}

#[test]
fn a_queue_takes_four_seconds_of_calls_and_tells_of_room() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::WriteOps, 100))];
    let verdicts: Vec<Verdict> = (0..1000)
        .map(|number| scheduler.admit(millis(0), &call(&limiters, 1, Cost::write(1), number)))
        .collect();
    let count = |verdict| verdicts.iter().filter(|other| **other == verdict).count();
    assert_eq!((count(Verdict::Admitted), count(Verdict::Held)), (10, 400));
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 2, Cost::write(1), 2000)), Verdict::Held);
    let mut out = Vec::new();
    let mut now = millis(0);
    while !out.contains(&Released::Room { event_loop: LoopId(0), client: ClientId(1) }) {
        now = scheduler.next_deadline().unwrap();
        scheduler.release(now, &mut out);
    }
    assert!((millis(1900)..=millis(3100)).contains(&now), "{now:?}");
}

#[test]
fn a_removed_limit_releases_what_it_held_and_a_new_one_holds() {
    let scheduler = Scheduler::default();
    let volume = scheduler.limiter(millis(0), &limit(Dimension::WriteOps, 100));
    let limiters = [Arc::clone(&volume)];
    for number in 0..110 {
        let _ = scheduler.admit(millis(0), &call(&limiters, 1, Cost::write(1), number));
    }
    scheduler.change(millis(1), &volume, &Limits::NONE);
    assert_eq!(release_until(&scheduler, millis(1)).len(), 100);
    assert_eq!(scheduler.check(), Ok(0));
    scheduler.change(millis(2), &volume, &limit(Dimension::WriteOps, 1000));
    let admitted = (200..1000).take_while(|number| {
        scheduler.admit(millis(2), &call(&limiters, 1, Cost::write(1), *number)) == Verdict::Admitted
    });
    assert_eq!(admitted.count(), 100);
}

#[test]
fn calls_that_pass_without_a_limit_take_no_share_of_the_next_one() {
    let scheduler = Scheduler::default();
    let rate = limit(Dimension::WriteBytes, 8 << 20);
    let volume = scheduler.limiter(millis(0), &rate);
    let limiters = [Arc::clone(&volume)];
    for number in 0..32 {
        let _ = scheduler.admit(millis(0), &call(&limiters, 1, Cost::write(MIB), number));
    }
    scheduler.change(millis(10), &volume, &Limits::NONE);
    assert_eq!(release_until(&scheduler, millis(10)).len(), 31);
    scheduler.change(millis(20), &volume, &rate);
    for number in 100..116 {
        let _ = scheduler.admit(millis(20), &call(&limiters, 2, Cost::write(MIB), number + 100));
        let _ = scheduler.admit(millis(20), &call(&limiters, 1, Cost::write(MIB), number));
    }
    let calls = release_until(&scheduler, millis(1020));
    let of_first = calls.iter().filter(|(number, _)| *number < 200).count();
    let of_second = calls.len() - of_first;
    assert!(calls.len() >= 8 && of_first.abs_diff(of_second) <= 1, "{of_first} and {of_second} calls");
}

#[test]
fn forgotten_calls_leave_no_trace() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::WriteOps, 100))];
    for number in 0..60 {
        let _ = scheduler.admit(millis(0), &call(&limiters, number % 3, Cost::write(1), number));
    }
    for number in (10..60).rev() {
        assert!(scheduler.forget(millis(1), token(number)));
    }
    assert!(!scheduler.forget(millis(1), token(11)));
    assert_eq!(scheduler.check(), Ok(0));
    assert_eq!(release_until(&scheduler, millis(1000)), []);
    assert_eq!(scheduler.next_deadline(), None, "the queue was dropped");
}

#[test]
fn short_reads_give_back_what_they_did_not_read() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::ReadBytes, 10 << 20))];
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 1, Cost::read(MIB), 1)), Verdict::Admitted);
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 1, Cost::read(MIB), 2)), Verdict::Held);
    scheduler.refund(millis(1), &call(&limiters, 1, Cost::read(MIB), 1));
    assert_eq!(release_until(&scheduler, millis(1)), [(2, millis(1))]);
}

#[test]
fn counters_tell_what_waits_and_for_how_long() {
    let scheduler = Scheduler::default();
    let volume = scheduler.limiter(millis(0), &limit(Dimension::MetadataOps, 10));
    let limiters = [Arc::clone(&volume)];
    for number in 0..3 {
        let _ = scheduler.admit(millis(0), &call(&limiters, 1, Cost::metadata(), number));
    }
    let index = Dimension::MetadataOps.index();
    assert_eq!(scheduler.counters(millis(50), &volume).held[index], 2);
    assert_eq!(scheduler.counters(millis(50), &volume).throttled[index], Duration::from_millis(50));
    release_until(&scheduler, millis(5000));
    assert_eq!(scheduler.counters(millis(5000), &volume).held[index], 0);
    assert_eq!(scheduler.counters(millis(5000), &volume).throttled[index], Duration::from_millis(150));
}

#[test]
fn a_place_outlives_the_queue_in_which_it_was_taken() {
    let scheduler = Scheduler::default();
    let target = [scheduler.limiter(millis(0), &limit(Dimension::TotalOps, 1000))];
    let volume = scheduler.limiter(millis(0), &limit(Dimension::WriteBytes, 1 << 20));
    let both = [Arc::clone(&target[0]), volume];
    let send = |now, count, first| {
        for number in first..first + count {
            let _ = scheduler.admit(now, &call(&target, 2, Cost::metadata(), number));
        }
    };
    assert_eq!(scheduler.admit(millis(0), &call(&both, 1, Cost::write(MIB), 1)), Verdict::Admitted);
    send(millis(0), 400, 1000);
    release_until(&scheduler, millis(250));
    // It waits for the target among others, then for the volume alone, while the queue of the target is dropped.
    assert_eq!(scheduler.admit(millis(250), &call(&both, 1, Cost::write(MIB), 2)), Verdict::Held);
    release_until(&scheduler, millis(800));
    send(millis(800), 500, 2000);
    let calls = release_until(&scheduler, millis(1000));
    let (_, time) =
        calls.iter().find(|(number, _)| *number == 2).expect("it is not behind those that came later");
    assert!(*time < millis(960), "{time:?}");
}

#[test]
fn no_overdraft_passes_a_limit_that_was_just_lowered() {
    let scheduler = Scheduler::default();
    let ops = limit(Dimension::TotalOps, 100);
    let target = [scheduler.limiter(millis(0), &ops.with_burst(Duration::from_secs(1)).unwrap())];
    let volume = scheduler.limiter(millis(0), &limit(Dimension::WriteBytes, 1 << 20));
    let both = [Arc::clone(&target[0]), volume];
    assert_eq!(scheduler.admit(millis(0), &call(&both, 1, Cost::write(MIB), 1)), Verdict::Admitted);
    for number in 1000..1250 {
        let _ = scheduler.admit(millis(0), &call(&target, 2, Cost::metadata(), number));
    }
    // It has its turn at the target soon, and then waits for the volume until 950 ms.
    assert_eq!(scheduler.admit(millis(0), &call(&both, 1, Cost::write(MIB), 2)), Verdict::Held);
    release_until(&scheduler, millis(900));
    scheduler.change(millis(900), &target[0], &ops.with_burst(Duration::from_millis(20)).unwrap());
    // A debt of one second remains; the new burst allows 20 ms of it.
    assert_eq!(release_until(&scheduler, millis(1800)), []);
    assert!(release_until(&scheduler, millis(2000)).iter().any(|(number, _)| *number == 2));
}

/// Has client 2 send calls that are never held, 50,000 a second, until a time; returns what was released meanwhile.
fn flood(scheduler: &Scheduler, limiters: &[Arc<Limiter>], from: Time, end: Time) -> Vec<(u64, Time)> {
    let mut calls = Vec::new();
    let mut now = from;
    while now < end {
        let urgent = Cost::metadata().debt_only();
        assert_eq!(scheduler.admit(now, &call(limiters, 2, urgent, u64::MAX)), Verdict::Admitted);
        now = now + Duration::from_micros(20);
        calls.extend(release_until(scheduler, now));
    }
    calls
}

#[test]
fn calls_that_are_never_held_take_no_more_than_their_clients_share() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::TotalOps, 1000))];
    let (mut number, mut now) = (0, millis(0));
    let mut released = 0;
    while now < millis(4000) {
        while scheduler.check().unwrap() < 16 {
            let _ = scheduler.admit(now, &call(&limiters, 1, Cost::metadata(), number));
            number += 1;
        }
        let next = now + Duration::from_millis(5);
        released += flood(&scheduler, &limiters, now, next).len();
        now = next;
    }
    assert!((1900..=2200).contains(&released), "{released} of half of 4000");
}

#[test]
fn calls_that_are_never_held_hardly_delay_a_call_now_and_then() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::TotalOps, 1000))];
    for number in 0..10 {
        let sent = millis(500 * (number + 1));
        flood(&scheduler, &limiters, millis(500 * number), sent);
        let verdict = scheduler.admit(sent, &call(&limiters, 1, Cost::metadata(), number));
        let released = flood(&scheduler, &limiters, sent, sent + Duration::from_millis(5));
        assert!(verdict == Verdict::Admitted || released.len() == 1, "{number} waits");
    }
}

#[test]
fn a_lowered_limit_puts_no_client_further_behind_for_calls_that_are_never_held() {
    let scheduler = Scheduler::default();
    let target = scheduler.limiter(millis(0), &limit(Dimension::TotalOps, 100_000));
    let volume = scheduler.limiter(millis(0), &limit(Dimension::WriteBytes, 1 << 20));
    let (limiters, both) = ([Arc::clone(&target)], [Arc::clone(&target), volume]);
    let send = |client, calls| {
        for number in calls {
            let _ = scheduler.admit(millis(0), &call(&limiters, client, Cost::metadata(), number));
        }
    };
    send(1, 0..20_000);
    for _ in 0..200_000 {
        let urgent = Cost::metadata().debt_only();
        let _ = scheduler.admit(millis(0), &call(&limiters, 2, urgent, u64::MAX));
    }
    // The first calls of two flows have places when the limit is lowered, and the others take theirs later.
    send(2, 100_000..101_000);
    let _ = scheduler.admit(millis(0), &call(&both, 2, Cost::write(MIB), 101_000));
    scheduler.change(millis(0), &target, &limit(Dimension::TotalOps, 100));
    // Client 1 has a second before client 2, and then a half of the rate.
    let calls = release_until(&scheduler, millis(20_000));
    let of_second: Vec<&(u64, Time)> = calls.iter().filter(|(number, _)| *number >= 100_000).collect();
    assert!(of_second.iter().any(|(number, _)| *number == 101_000), "both flows go on");
    assert!((930..=960).contains(&of_second.len()), "{} of {} calls", of_second.len(), calls.len());
}

#[test]
fn what_is_owed_is_paid_before_anything_else_passes() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::TotalBytes, 1 << 20))];
    scheduler.owe(millis(0), &call(&limiters, 1, Cost::write(3 * MIB), 0));
    assert_eq!(scheduler.admit(millis(0), &call(&limiters, 1, Cost::write(1), 1)), Verdict::Held);
    let released = release_until(&scheduler, millis(10_000));
    let [(1, at)] = released[..] else { panic!("{released:?}") };
    assert!((millis(2890)..millis(2910)).contains(&at), "3 s but for the burst: {at:?}");
}

#[test]
fn what_is_owed_holds_nobody_for_ever() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::TotalBytes, 1 << 20))];
    let owe = |client| scheduler.owe(millis(0), &call(&limiters, client, Cost::write(u32::MAX), 0));
    owe(1);
    for (number, client) in [(1, 1), (2, 2)] {
        let verdict = scheduler.admit(millis(0), &call(&limiters, client, Cost::write(MIB), number));
        assert_eq!(verdict, Verdict::Held);
    }
    owe(1);
    for (number, client) in [(3, 1), (4, 2)] {
        let verdict = scheduler.admit(millis(0), &call(&limiters, client, Cost::write(MIB), number));
        assert_eq!(verdict, Verdict::Held);
    }
    let released = release_until(&scheduler, millis(20_000));
    let order: Vec<u64> = released.iter().map(|(number, _)| *number).collect();
    assert_eq!(order, [1, 2, 4, 3], "the one that owes has its turn after others");
    let first = released[0].1;
    assert!(first <= Time::ORIGIN + OWED_MAX + Duration::from_millis(100), "{first:?}");
    assert_eq!(scheduler.check(), Ok(0));
}

#[test]
fn calls_that_have_passed_other_limiters_always_find_a_place() {
    let scheduler = Scheduler::default();
    let limiters = [scheduler.limiter(millis(0), &limit(Dimension::TotalBytes, 1 << 20))];
    let calls =
        (0..10).map(|number| scheduler.admit(millis(0), &call(&limiters, 1, Cost::write(MIB), number)));
    assert_eq!(calls.last(), Some(Verdict::Full));
    assert_eq!(scheduler.go_on(millis(0), &call(&limiters, 1, Cost::write(MIB), 10)), Verdict::Held);
    assert!(release_until(&scheduler, millis(60_000)).iter().any(|(number, _)| *number == 10));
    assert_eq!(scheduler.check(), Ok(0));
}
