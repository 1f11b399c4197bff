//! Media that fail. Once a fault takes effect, the model is no longer asked: replies that leave must be kept, and the
//! volume must open again.

use volume::request::Error;

use super::closed::reopened;
use super::crash::{judge, judge_damaged};
use crate::engine::Sizes;
use crate::media::{Action, Boundary, Effect, Fault, MediaPart};
use crate::random::Random;
use crate::run::{FIRST_CALL, Run};
use crate::transport::transport_of;
use crate::workload::{Event, Profile, Workload};

pub(super) const EVENTS: usize = 80;

pub(super) fn start(seed: u64) -> Result<(Run, Workload, Random), String> {
    let mut random = Random::new(seed);
    let profile = Profile { reopen: false, ..Profile::default() };
    let workload = Workload::new(random.fork(), profile, FIRST_CALL);
    let run = Run::new(Sizes::draw(&mut random), random.fork())?.with_transport(transport_of(seed));
    Ok((run, workload, random))
}

/// Draws a fault, anywhere, once or lasting.
fn draw(random: &mut Random) -> Fault {
    let part = *random.pick(&[Some(MediaPart::Log), Some(MediaPart::Index), Some(MediaPart::Blob), None]);
    let action = *random.pick(&[Action::Write, Action::Sync, Action::Sync, Action::Read, Action::Allocate]);
    Fault { part, action, after: random.below(12), effect: Effect::Fail, lasting: random.chance(1, 3) }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Faults that took effect.
    pub struck: u64,
    /// Changes refused because the journal had failed.
    pub refused: u64,
    /// How often an open volume was read completely after a fault.
    pub judged: u64,
}

/// Plans one I/O error in a random workload. If it ended the journal, every later change must be refused; else
/// everything but unstable data must be intact, and the workload goes on. Finally the machine crashes.
///
/// # Errors
/// What was lost, or acknowledged although it could not be kept.
pub fn run_io_errors(seed: u64) -> Result<Tally, String> {
    let (mut run, mut workload, mut random) = start(seed)?;
    let fault = draw(&mut random);
    run.media.plan(fault);
    run.faulty = true;
    let mut tally = Tally::default();
    for _ in 0..EVENTS {
        let (event, struck) = (workload.next(&run.model), run.media.faults_struck());
        let stepped = run.step(event);
        if run.media.faults_struck() == struck && tally.struck == 0 {
            stepped?;
            continue;
        }
        tally.struck = run.media.faults_struck();
        if run.volume().refuses_changes().is_some() {
            tally.refused = refused(&mut run, &mut workload)?;
            break;
        }
        // The effect of the call that met the fault is unknown, as is what failing media do later.
        if stepped.is_err() || fault.lasting || !run.resync()? {
            break;
        }
        tally.judged += 1;
    }
    let boundary = Boundary { disk: run.media.disk(), mark: run.mark() };
    for _ in 0..4 {
        judge(&run, &boundary, &mut random, false).map_err(|wrong| format!("after {fault:?}, {wrong}"))?;
    }
    Ok(tally)
}

/// Attempts changes of a volume whose journal failed: none may succeed. Returns the number of refusals.
fn refused(run: &mut Run, workload: &mut Workload) -> Result<u64, String> {
    let mut refused = 0;
    for _ in 0..EVENTS {
        if let Event::Call(operation) = workload.next(&run.model) {
            refused += u64::from(run.must_refuse(operation)?);
        }
    }
    match run.probe_change() {
        Err(Error::ReadOnly | Error::Io) => Ok(refused),
        other => Err(format!("the volume refuses changes, but MKDIR returns {other:?}")),
    }
}

/// Flips bits of a closed volume: reads must return the right data or fail. Returns the number of refusals.
///
/// # Errors
/// Wrong data.
pub fn run_bit_flips(seed: u64) -> Result<u64, String> {
    let (run, mut random) = reopened(seed)?;
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
