//! A device that fills up and is emptied again, with crashes.

use sim::proofs::full_device;

mod seeds;

#[test]
fn a_full_device_loses_nothing_and_can_be_emptied() {
    for seed in seeds::seeds(1, 2) {
        let tally = full_device::run(seed, 15).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        assert!(tally.refused > 0);
    }
}

/// The proof once took an extended attribute that exceeded its own limit for a full device.
#[test]
fn limits_of_a_file_are_not_a_full_device() {
    full_device::run(459_588_464_904, 15).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// With this seed, only one spare segment was left on the full device, and the cleaner waited for a second one for ever, though a
/// third of what was written was dead.
#[test]
fn a_full_device_with_one_spare_segment_is_cleaned() {
    full_device::run(459_640_776_714, 15).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// With the first seed, the volume has a limit at the end, which the proof once took for space that was lost; with the second, one
/// that kept the device from being filled.
#[test]
fn a_limit_of_the_volume_is_no_lost_space() {
    full_device::run(64, 15).unwrap_or_else(|wrong| panic!("{wrong}"));
    full_device::run(459_704_855_686, 15).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// With this seed, the device shows five of six segments at the end.
#[test]
fn a_segment_less_is_no_lost_space() {
    full_device::run(459_730_068_737, 15).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// With this seed, calls wait for the cleaner long before one is refused.
#[test]
fn a_device_fills_up_however_long_calls_wait() {
    full_device::run(459_750_992_900, 15).unwrap_or_else(|wrong| panic!("{wrong}"));
}
