use super::*;

const MIB: u64 = 1 << 20;
const BURST: Duration = Duration::from_millis(100);

fn gate(rate: u64) -> Gate {
    let gate = Gate::default();
    gate.set(Time::ORIGIN, Some(rate), BURST);
    gate
}

fn millis(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// Charges calls until one does not pass, and returns how many did.
fn fill(gate: &Gate, now: Time, units: u64) -> u64 {
    let cost = gate.ticks(units);
    (0..).take_while(|_| gate.try_charge(now, cost, Terms::Fits(Ticks(0)))).count() as u64
}

#[test]
fn an_idle_gate_lets_exactly_the_burst_pass() {
    let gate = gate(10_000);
    assert_eq!(fill(&gate, Time::ORIGIN, 1), 1000);
    assert_eq!(fill(&gate, millis(1), 1), 10);
    assert_eq!(fill(&gate, millis(10_000), 1), 1000);
}

#[test]
fn a_call_larger_than_the_burst_passes_and_is_paid_for() {
    let gate = gate(MIB);
    assert_eq!(fill(&gate, Time::ORIGIN, MIB), 1);
    // A debt of one second, of which half a burst must remain.
    assert_eq!(gate.opens_at(gate.ticks(MIB), Ticks(0)), millis(950));
    assert_eq!(fill(&gate, millis(949), MIB), 0);
    assert_eq!(fill(&gate, millis(950), MIB), 1);
}

#[test]
fn late_releases_cost_no_throughput() {
    let gate = gate(1000);
    let passed: u64 = (0..1000).map(|turn| fill(&gate, millis(turn * 10 + turn % 5), 1)).sum();
    assert!((10_090..=10_100).contains(&passed), "{passed}");
}

#[test]
fn prices_are_exact_at_high_rates() {
    let rate = 10_000_000_000;
    let gate = gate(rate);
    let error = gate.ticks(4096).0 * rate - 4096 * 16_000_000_000;
    assert!(error < rate, "rounded up by less than a tick");
}

#[test]
fn calls_that_are_never_held_delay_others_by_a_bounded_time() {
    let gate = gate(1000);
    for _ in 0..100_000 {
        gate.charge_debt(Time::ORIGIN, gate.ticks(1), Duration::from_millis(100));
    }
    assert_eq!(gate.opens_at(gate.ticks(1), Ticks(0)), millis(101));
}

#[test]
fn a_refund_gives_back_the_charge() {
    let gate = gate(1000);
    fill(&gate, Time::ORIGIN, 1);
    gate.refund(gate.ticks(7));
    assert_eq!(fill(&gate, Time::ORIGIN, 1), 7);
}

#[test]
fn a_higher_rate_shortens_debt_and_a_lower_rate_does_not_lengthen_it() {
    let gate = gate(MIB);
    fill(&gate, Time::ORIGIN, MIB);
    gate.set(Time::ORIGIN, Some(10 * MIB), BURST);
    assert!(gate.opens_at(gate.ticks(1), Ticks(0)) < millis(1));
    gate.set(Time::ORIGIN, Some(MIB), BURST);
    assert!(gate.opens_at(gate.ticks(1), Ticks(0)) < millis(1));
    gate.set(Time::ORIGIN, None, BURST);
    assert_eq!(gate.opens_at(gate.ticks(1 << 30), Ticks(0)), Time::ORIGIN);
}
