//! The proofs find what they exist to find: each test breaks a promise on purpose.

use sim::media::{Action, Effect, Fault, MediaPart};
use sim::proofs::planted::{Planted, caught};

fn lying(part: MediaPart) -> Fault {
    Fault { part: Some(part), action: Action::Sync, after: 0, effect: Effect::Lie, lasting: true }
}

#[test]
fn lying_syncs_of_the_journal_are_detected() {
    assert!(caught(Planted::Media(lying(MediaPart::Log)), 1..20));
}

#[test]
fn lying_syncs_of_segments_are_detected() {
    assert!(caught(Planted::Media(lying(MediaPart::Blob)), 1..40));
}

#[test]
fn replies_before_durability_are_detected() {
    assert!(caught(Planted::EarlyReplies, 1..20));
}

#[test]
fn forgotten_answers_are_detected() {
    assert!(caught(Planted::Forgets, 1..20));
}

#[test]
fn constant_write_verifiers_are_detected() {
    assert!(caught(Planted::ConstantVerifier, 1..20));
}

#[test]
fn leaked_space_is_detected() {
    assert!(caught(Planted::LostRoom, 1..4));
}

#[test]
fn nothing_is_detected_without_a_fault() {
    assert!(!caught(Planted::Nothing, 1..4));
}
