//! Nodes that take over a group from each other.

use sim::failover::{Plan, Planted, Tally, every_boundary, run};

mod seeds;

/// Whether the proof finds a fault within some schedules.
fn is_detected(plan: &Plan, schedules: u64) -> bool {
    (1..=schedules).find_map(|seed| run(seed, plan).err()).inspect(|wrong| println!("{wrong}")).is_some()
}

fn planted(planted: Planted) -> Plan {
    Plan { planted, ..Plan::default() }
}

#[test]
fn takeovers_lose_nothing_and_two_owners_never_execute_at_once() {
    let mut sum = Tally::default();
    for seed in seeds::seeds(1, 300) {
        sum.add(&run(seed, &Plan::default()).unwrap_or_else(|wrong| panic!("{wrong}")));
    }
    println!("{sum:?}");
    let Tally { takeovers, acknowledged, lost, reads, refused, paused, faults, late, .. } = sum;
    let counts = [takeovers, acknowledged, lost, reads, refused, paused, faults, late];
    assert!(counts.iter().all(|count| *count > 0), "{sum:?}");
}

#[test]
fn a_store_that_hangs_moves_nothing() {
    let plan = Plan { only_hangs: true, ..Plan::default() };
    for seed in seeds::seeds(1, 100) {
        run(seed, &plan).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn late_calls_and_crashes_at_any_step_of_a_takeover_harm_nothing() {
    let (ways, tally) = every_boundary(Planted::Nothing).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{ways} ways, {tally:?}");
    assert!(ways > 30_000 && tally.refused > 0 && tally.lost > 0, "{ways} ways, {tally:?}");
}

#[test]
fn reading_before_sealing_is_detected() {
    assert!(every_boundary(Planted::ReadBeforeSeal).is_err());
    assert!(is_detected(&planted(Planted::ReadBeforeSeal), 1000));
}

#[test]
fn a_write_without_a_guard_is_detected() {
    assert!(every_boundary(Planted::UnguardedAppend).is_err());
    assert!(is_detected(&planted(Planted::UnguardedAppend), 1000));
    assert!(every_boundary(Planted::UnguardedHead).is_err());
    assert!(is_detected(&planted(Planted::UnguardedHead), 1000));
}

#[test]
fn a_deadline_from_the_answer_is_detected() {
    assert!(is_detected(&planted(Planted::DeadlineFromAnswer), 1000));
}

#[test]
fn an_error_because_of_a_lost_lease_is_detected() {
    assert!(is_detected(&planted(Planted::ErrorReplies), 1000));
}

#[test]
fn clocks_that_are_more_wrong_than_allowed_are_detected() {
    assert!(is_detected(&Plan { clock_error_percent: 20, ..Plan::default() }, 1000));
}
