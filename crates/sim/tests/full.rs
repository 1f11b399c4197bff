//! A device that fills up and is emptied again, with crashes.

use sim::full;

mod seeds;

#[test]
fn a_full_device_loses_nothing_and_can_be_emptied() {
    for seed in seeds::seeds(1, 2) {
        let tally = full::run(seed, 15).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        assert!(tally.refused > 0);
    }
}
