//! Damaged indexes: what can be read is served, also after a crash while the index is replaced by a copy.

use sim::proofs::damage;

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
