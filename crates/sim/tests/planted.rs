//! The simulation must find what it is there to find: each test breaks a promise on purpose and expects to be told.

use sim::media::{Action, Effect, Fault, MediaPart};
use sim::proofs::planted::{Planted, caught};

fn lying(part: MediaPart) -> Fault {
    Fault { part: Some(part), action: Action::Sync, after: 0, effect: Effect::Lie, lasting: true }
}

#[test]
fn media_that_lie_about_syncing_the_journal() {
    assert!(caught(Planted::Media(lying(MediaPart::Log)), 1..20));
}

#[test]
fn media_that_lie_about_syncing_segments() {
    assert!(caught(Planted::Media(lying(MediaPart::Blob)), 1..40));
}

#[test]
fn replies_that_leave_before_their_change_is_durable() {
    assert!(caught(Planted::EarlyReplies, 1..20));
}

#[test]
fn a_server_that_forgets_what_it_answered() {
    assert!(caught(Planted::Forgets, 1..20));
}

#[test]
fn a_write_verifier_that_never_changes() {
    assert!(caught(Planted::ConstantVerifier, 1..20));
}

#[test]
fn a_device_whose_room_does_not_come_back() {
    assert!(caught(Planted::LostRoom, 1..4));
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    assert!(!caught(Planted::Nothing, 1..4));
}
