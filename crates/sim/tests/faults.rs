//! Media that fail: nothing is acknowledged on hope, and what was acknowledged is there when the volume is opened again.

use sim::faults;

mod seeds;

#[test]
fn io_errors_lose_nothing_that_was_acknowledged() {
    let mut struck = 0;
    for seed in seeds::seeds(1, 30) {
        struck += faults::run_io_errors(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(struck > 0, "no fault struck");
}

#[test]
fn flipped_bits_are_refused() {
    for seed in seeds::seeds(1, 30) {
        faults::run_bit_flips(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}
