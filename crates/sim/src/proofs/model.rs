//! Random operations and background work without crashes: every reply is judged, and the whole tree compared regularly.

use super::Failure;
use super::shrink::shrink;
use crate::engine::Sizes;
use crate::random::Random;
use crate::run::{FIRST_CALL, Run};
use crate::transport::transport_of;
use crate::workload::{Event, Profile, Workload};

/// The number of events between two comparisons of the whole tree.
const COMPARE_EVERY: usize = 400;

/// Runs `count` events of this seed and workload.
///
/// # Errors
/// The failure, not shrunk.
pub fn run(seed: u64, count: usize, profile: Profile) -> Result<(), Failure> {
    let mut random = Random::new(seed);
    let sizes = Sizes::draw(&mut random);
    let mut workload = Workload::new(random.fork(), profile, FIRST_CALL);
    let mut events = Vec::new();
    let failed = |wrong, events: &[Event]| Failure { seed, generation: 0, wrong, events: events.to_vec() };
    let run = Run::new(sizes, random).map_err(|wrong| failed(wrong, &events))?;
    let mut run = run.with_transport(transport_of(seed));
    for number in 0..count {
        let event = workload.next(&run.model);
        events.push(event);
        run.step(event).map_err(|wrong| failed(wrong, &events))?;
        // Only crashes need the history.
        run.model.declare_durable();
        run.history.clear();
        run.acks.clear();
        if number % COMPARE_EVERY == COMPARE_EVERY - 1 {
            run.compare_all().map_err(|wrong| failed(wrong, &events))?;
        }
    }
    run.compare_all().map_err(|wrong| failed(wrong, &events))
}

/// Runs these events on a new volume with the seed's sizes.
///
/// # Errors
/// What was wrong.
pub fn replay(seed: u64, events: &[Event]) -> Result<(), String> {
    let mut random = Random::new(seed);
    let sizes = Sizes::draw(&mut random);
    // The workload's generator.
    let _ = random.fork();
    let mut run = Run::new(sizes, random)?.with_transport(transport_of(seed));
    for event in events {
        run.step(*event)?;
        run.model.declare_durable();
    }
    run.compare_all()
}

/// Returns the kind of a failure: its sentence without numbers and without the operation.
pub(crate) fn kind(wrong: &str) -> String {
    let sentence = wrong.rsplit("}: ").next().unwrap_or(wrong);
    sentence.chars().filter(|letter| letter.is_alphabetic() || *letter == ' ').take(40).collect()
}

/// Shrinks a failure to fewer events that still fail.
#[must_use]
pub fn minimize(failure: &Failure, tries: usize) -> Failure {
    let kind = kind(&failure.wrong);
    let same = |events: &[Event]| replay(failure.seed, events).is_err_and(|wrong| self::kind(&wrong) == kind);
    let events = shrink(&failure.events, tries, same);
    let wrong = replay(failure.seed, &events).err().unwrap_or_else(|| failure.wrong.clone());
    Failure { wrong, events, ..*failure }
}
