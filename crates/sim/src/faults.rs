//! Runs on media that fail. Once a fault has struck, the model is not asked any more; what counts is that replies which
//! leave are kept, and that the volume opens again.

use volume::request::Error;

use crate::crash::{judge, judge_damaged};
use crate::media::{Action, Boundary, Effect, Fault, Place};
use crate::random::Random;
use crate::run::{BEGIN, Run, Sizes, through};
use crate::workload::{Event, Profile, Step, Workload};

const EVENTS: usize = 80;

fn start(seed: u64) -> Result<(Run, Workload, Random), String> {
    let mut random = Random::new(seed);
    let profile = Profile { reopen: false, ..Profile::default() };
    let workload = Workload::new(random.fork(), profile, BEGIN + 10_000_000_000);
    let run = Run::new(Sizes::draw(&mut random), random.fork())?.through(through(seed));
    Ok((run, workload, random))
}

/// One fault, somewhere, once or for good.
fn draw(random: &mut Random) -> Fault {
    let place = *random.pick(&[Some(Place::Log), Some(Place::Index), Some(Place::Blob), None]);
    let action = *random.pick(&[Action::Write, Action::Sync, Action::Sync, Action::Read, Action::Allocate]);
    Fault { place, action, after: random.below(12), effect: Effect::Fail, lasting: random.chance(1, 3) }
}

/// Lets one I/O error strike in a random workload, and then crashes. The number of faults that struck.
///
/// # Errors
/// What was lost, or acknowledged though it could not be kept.
pub fn run_io_errors(seed: u64) -> Result<u64, String> {
    let (mut run, mut workload, mut random) = start(seed)?;
    run.media.plan(draw(&mut random));
    let mut struck_at = None;
    for number in 0..EVENTS {
        let event = workload.next(&run.model);
        if run.media.faults_struck() > 0 {
            run.faulty = true;
            struck_at = struck_at.or(Some(number));
            // What fails in memory is the engine's affair; only background work goes on.
            if struck_at.is_some_and(|at| number > at + 6) {
                break;
            }
            run.step(Event::Step(*random.pick(&[
                Step::Commit,
                Step::WriteBack(true),
                Step::Checkpoint(true),
            ])))?;
            continue;
        }
        run.faulty = true;
        let stepped = run.step(event);
        if run.media.faults_struck() == 0 {
            stepped?;
        }
    }
    let struck = run.media.faults_struck();
    refused(&run)?;
    let boundary = Boundary { disk: run.media.disk(), mark: run.mark() };
    for _ in 0..4 {
        judge(&run, &boundary, &mut random, false)
            .map_err(|wrong| format!("after a fault of the media, {wrong}"))?;
    }
    Ok(struck)
}

/// A volume that refuses changes must say so to whoever asks for one.
fn refused(run: &Run) -> Result<(), String> {
    if run.volume.refuses_changes().is_none() {
        return Ok(());
    }
    match run.probe_change() {
        Err(Error::ReadOnly | Error::Io | Error::NoSpace | Error::Busy) => Ok(()),
        other => Err(format!("the volume refuses changes, but a MKDIR is answered {other:?}")),
    }
}

/// Flips bits of a closed volume: what is read then is right, or refused.
///
/// # Errors
/// Wrong data.
pub fn run_bit_flips(seed: u64) -> Result<u64, String> {
    let (mut run, mut workload, mut random) = start(seed)?;
    for _ in 0..EVENTS {
        let event = workload.next(&run.model);
        run.step(event)?;
    }
    run.step(Event::Reopen)?;
    let mut refused = 0;
    for _ in 0..30 {
        let mut disk = run.media.disk();
        let flips: Vec<_> = (0..1 + random.below(20)).filter_map(|_| disk.flip(&mut random)).collect();
        let right =
            judge_damaged(&run, disk, &mut random).map_err(|wrong| format!("with {flips:?}: {wrong}"))?;
        refused += u64::from(!right);
    }
    Ok(refused)
}
