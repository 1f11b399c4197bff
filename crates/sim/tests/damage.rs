//! Damaged indexes: what can be read is served and can be repaired, also after a crash while the index is replaced.

use sim::proofs::{damage, repair};

mod seeds;

#[test]
fn a_crash_while_a_damaged_index_is_replaced_changes_nothing() {
    let (mut opened, mut lost, mut points) = (0, 0, 0);
    for seed in seeds::seeds(1, 2) {
        let tally = damage::run(seed, 4).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        (opened, lost, points) = (opened + tally.opened, lost + tally.lost, points + tally.points);
    }
    println!("{opened} damaged volumes opened, {lost} objects lost, {points} crash points");
    assert!(opened > 0 && points > 0);
}

#[test]
fn a_start_that_replaces_the_index_has_it_open_once() {
    // The second of two open copies overwrote what the first had committed, and a crash showed it.
    let tally = damage::run(1_795_446_118, 30).unwrap();
    assert!(tally.points > 0);
}

#[test]
fn a_crash_while_a_volume_is_repaired_leaves_it_as_it_was_or_repaired() {
    let (mut repaired, mut changed, mut points) = (0, 0, 0);
    for seed in seeds::seeds(1, 2) {
        let tally = repair::run(seed, 8).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        (repaired, changed, points) =
            (repaired + tally.repaired, changed + tally.changed, points + tally.points);
    }
    println!("{repaired} volumes repaired, {changed} of them changed, {points} crash points");
    assert!(changed > 0 && points > 0);
}
