//! Several volumes in a pool, crashed at every boundary of their creation, changes and deletion.

use sim::media::{Action, Effect, Fault, MediaPart};
use sim::proofs::volumes::{self, Plan, Planted};

mod seeds;

#[test]
fn volumes_come_and_go_across_every_crash() {
    let mut points = 0;
    // With the second of these seeds, a crash takes a volume and its deletion back, and its number is used again. With the third,
    // a limit is set while data that was accepted before cannot be written back.
    for seed in [1, 459_638_139_911, 459_638_672_900].into_iter().chain(seeds::seeds(2, 4)) {
        points += volumes::run(seed, &Plan::default()).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{points} crash points");
}

fn is_detected(planted: Planted) -> bool {
    (1..10).any(|seed| volumes::run(seed, &Plan { planted, ..Plan::default() }).is_err())
}

#[test]
fn volumes_that_are_acknowledged_early_are_detected() {
    assert!(is_detected(Planted::EarlyReplies));
}

#[test]
fn volumes_lost_by_lying_syncs_are_detected() {
    let lie = Effect::Lie;
    let fault =
        Fault { part: Some(MediaPart::Log), action: Action::Sync, after: 0, effect: lie, lasting: true };
    assert!(is_detected(Planted::Media(fault)));
}
