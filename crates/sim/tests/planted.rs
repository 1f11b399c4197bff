//! The proofs detect planted faults: each test breaks a promise on purpose.

use sim::media::{Action, Effect, Fault, MediaPart};
use sim::proofs::planted::{Planted, is_detected};

fn lying(part: MediaPart) -> Fault {
    Fault { part: Some(part), action: Action::Sync, after: 0, effect: Effect::Lie, lasting: true }
}

#[test]
fn lying_syncs_of_the_journal_are_detected() {
    assert!(is_detected(Planted::Media(lying(MediaPart::Log)), 1..20));
}

#[test]
fn lying_syncs_of_segments_are_detected() {
    assert!(is_detected(Planted::Media(lying(MediaPart::Blob)), 1..40));
}

#[test]
fn replies_before_durability_are_detected() {
    assert!(is_detected(Planted::EarlyReplies, 1..20));
}

#[test]
fn lying_syncs_that_files_change_during_are_detected() {
    assert!(is_detected(Planted::LyingSlowSyncs, 1..40));
}

#[test]
fn forgotten_answers_are_detected() {
    assert!(is_detected(Planted::ForgottenAnswers, 1..20));
}

#[test]
fn constant_write_verifiers_are_detected() {
    assert!(is_detected(Planted::ConstantVerifier, 1..20));
}

#[test]
fn leaked_space_is_detected() {
    assert!(is_detected(Planted::LeakedSpace, 1..4));
}

#[test]
fn nothing_is_detected_without_a_fault() {
    assert!(!is_detected(Planted::Nothing, 1..4));
}

/// Faults of the engine, which a release build lacks.
#[cfg(debug_assertions)]
mod engine {
    use sim::proofs::{full_device, model};
    use sim::workload::Profile;
    use volume::planted::{Fault, plant};

    #[test]
    fn a_cleaner_that_loses_sectors_is_detected() {
        plant(Some(Fault::LoseSector));
        let is_detected_by_model = (1..10).any(|seed| model::run(seed, 700, Profile::default()).is_err());
        let is_detected_on_full_devices = (1..10).any(|seed| full_device::run(seed, 2).is_err());
        plant(None);
        assert!(is_detected_by_model && is_detected_on_full_devices);
    }
}
