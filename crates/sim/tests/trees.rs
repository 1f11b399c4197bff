//! Quota trees, crashed at every boundary while they are made, filled and deleted.

use sim::proofs::trees::{self, Plan};

mod seeds;

#[test]
fn trees_hold_what_is_beneath_them_across_every_crash() {
    let mut points = 0;
    for seed in seeds::seeds(1, 4) {
        points += trees::run(seed, &Plan::default()).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{points} crash points");
}

/// The seed found that the offline check took the middle of two walks, one beneath the other, for a fault.
#[test]
fn a_tree_may_be_begun_where_another_one_is_left() {
    trees::run(459_641_905_777, &Plan::default()).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// The seed found that the offline check took a tree for a fault whose directory was removed while the tree was deleted.
#[test]
fn the_directory_of_a_tree_that_is_left_may_be_removed() {
    trees::run(459_647_803_147, &Plan::default()).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// The seed found that a caller was refused who fits after a flush, because another one had waited for one before.
#[test]
fn nobody_is_refused_who_fits_after_a_flush() {
    trees::run(459_651_560_972, &Plan::default()).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn trees_that_are_acknowledged_early_are_detected() {
    let plan = Plan { is_hasty: true, ..Plan::default() };
    assert!((1..20).any(|seed| trees::run(seed, &plan).is_err()));
}

/// Faults of the engine, which a release build lacks.
#[cfg(debug_assertions)]
mod planted {
    use sim::proofs::trees::{self, Plan};
    use volume::planted::{Fault, plant};

    fn is_detected(fault: Fault) -> bool {
        plant(Some(fault));
        let wrong = (1..20).find_map(|seed| trees::run(seed, &Plan::default()).err());
        plant(None);
        println!("{fault:?}: {wrong:?}");
        wrong.is_some()
    }

    #[test]
    fn a_tree_that_new_objects_lose_is_detected() {
        assert!(is_detected(Fault::LoseTree));
    }

    #[test]
    fn limits_without_reservations_are_detected() {
        assert!(is_detected(Fault::ReserveNothing));
    }

    #[test]
    fn a_forgotten_refund_is_detected() {
        assert!(is_detected(Fault::ForgetRefund));
    }
}
