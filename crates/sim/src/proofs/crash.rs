//! Crashes at every boundary. A run of a workload is recorded. At each of its boundaries the device is crashed, opened,
//! read completely, and compared with the replies sent before. Then the run continues from one of the recovered
//! volumes.

use std::sync::Arc;

use volume::Volume;
use volume::check::{CheckOptions, check};
use volume::media::Media;

use super::Failure;
use super::shrink::shrink;
use crate::engine::{Sizes, attributes, check_usage, open, walk};
use crate::media::{Boundary, Disk, SimMedia, Survival};
use crate::model::Model;
use crate::model::recovery::{SafeRanges, Tree};
use crate::random::Random;
use crate::run::{FIRST_CALL, Run};
use crate::transport::{Transport, transport_of};
use crate::workload::{Event, Profile, Workload};

/// The extent of the proof for one seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Crashes and recoveries in a row.
    pub generations: u32,
    /// Events between two crashes.
    pub events: usize,
    /// The maximum number of boundaries tried in each generation.
    pub boundaries: usize,
    /// The workload; it must not close the volume.
    pub profile: Profile,
}

impl Default for Plan {
    fn default() -> Plan {
        let profile = Profile { reopen: false, ..Profile::default() };
        Plan { generations: 4, events: 60, boundaries: 400, profile }
    }
}

/// A volume that was opened after a crash and judged correct.
#[derive(Debug)]
pub struct Recovered {
    media: SimMedia,
    volume: Arc<Volume>,
    state: Model,
    tree: Tree,
    mark: u64,
    again: Vec<Boundary>,
}

impl Recovered {
    /// Returns the volume.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }
}

/// Crashes the device at a boundary, and judges the recovered volume.
///
/// # Errors
/// What was lost, or exists although no client asked for it.
pub fn judge(run: &Run, boundary: &Boundary, random: &mut Random, record: bool) -> Result<Recovered, String> {
    let survival = Survival::draw(random);
    let disk = boundary.disk.crash(random, survival);
    let media = SimMedia::of(disk, run.sizes().capacity, random.fork());
    if record {
        media.record();
    }
    let context = |wrong: String| format!("after a crash with {survival:?} surviving, {wrong}");
    let now = run.now() + 1_000_000;
    let volume = open(&media, &run.sizes(), now)
        .map_err(|wrong| context(format!("the volume does not open: {wrong}")))?;
    let mut again = media.recorded();
    again.iter_mut().for_each(|boundary_of| boundary_of.mark = boundary.mark);
    let tree = walk(&volume, now).map_err(context)?;
    let (least, safe) = acknowledged(run, boundary.mark);
    let teller = run.acks.iter().find(|ack| ack.mark <= boundary.mark && ack.observed.mutation == least);
    let teller = teller.map(|ack| (ack.id, ack.mark, boundary.mark));
    let state = find_state(run, boundary.mark, least, &tree, &safe).map_err(|wrong| {
        context(format!("{wrong}\n      shown by {teller:?} (operation, event, current event)"))
    })?;
    check_usage(&volume, &tree, now).map_err(context)?;
    for ino in state.gone() {
        if attributes(&volume, ino, now).is_ok() {
            return Err(context(format!("inode {ino} is gone, but its handle works")));
        }
    }
    check_offline(media.disk(), run.sizes().capacity, random).map_err(context)?;
    Ok(Recovered { media, volume, state, tree, mark: boundary.mark, again })
}

/// Runs the offline check on a device that no process has open.
///
/// # Errors
/// The faults found.
pub fn check_offline(disk: Disk, capacity: u64, random: &mut Random) -> Result<(), String> {
    let media: Arc<dyn Media> = Arc::new(SimMedia::of(disk, capacity, random.fork()));
    let report = check(&media, &CheckOptions { read_data: true, faults_max: 5 })
        .map_err(|error| format!("check: {error}"))?;
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    if report.is_clean() { Ok(()) } else { Err(format!("check finds {}", faults.join("; "))) }
}

/// Returns the last mutation and the data that the replies which left have shown.
fn acknowledged(run: &Run, mark: u64) -> (u64, SafeRanges) {
    let mut safe = SafeRanges::default();
    let mut least = run.asked[0];
    for ack in run.acks.iter().filter(|ack| ack.mark <= mark) {
        least = least.max(ack.observed.mutation);
        if let Some(range) = ack.observed.bytes {
            safe.add(ack.id, range, ack.observed.committed);
        }
    }
    (least, safe)
}

/// Returns the latest state that matches the tree.
fn find_state(run: &Run, mark: u64, least: u64, tree: &Tree, safe: &SafeRanges) -> Result<Model, String> {
    let index = usize::try_from(mark).expect("a count of events").min(run.asked.len() - 1);
    let most = run.asked[index];
    let mut wrong = Vec::new();
    for mutation in (least..=most).rev() {
        let state = run.history.get(&mutation).unwrap_or(&run.model);
        match state.compare(tree, safe) {
            Ok(()) => return Ok(state.clone()),
            Err(why) => wrong.push(format!("{mutation}: {why}")),
        }
    }
    Err(format!(
        "the tree matches no state between mutations {least} and {most}:\n      {}",
        wrong.join("\n      ")
    ))
}

/// Runs one seed. Returns the number of crashes.
///
/// # Errors
/// The first failure, not shrunk.
pub fn run(seed: u64, plan: &Plan) -> Result<u64, Failure> {
    run_with(seed, plan, transport_of(seed))
}

/// Runs one seed with these clients. Returns the number of crashes.
///
/// # Errors
/// The first failure, not shrunk.
pub fn run_with(seed: u64, plan: &Plan, clients: Box<dyn Transport>) -> Result<u64, Failure> {
    let mut random = Random::new(seed);
    let sizes = Sizes::draw(&mut random);
    let mut workload = Workload::new(random.fork(), plan.profile, FIRST_CALL);
    let fail =
        |generation, wrong, events: &[Event]| Failure { seed, generation, wrong, events: events.to_vec() };
    let run = Run::new(sizes, random.fork()).map_err(|wrong| fail(0, wrong, &[]))?;
    let mut run = run.with_transport(clients);
    let mut points = 0;
    for generation in 0..plan.generations {
        run.media.record();
        let mut events = Vec::new();
        for _ in 0..plan.events {
            let event = workload.next(&run.model);
            events.push(event);
            run.step(event).map_err(|wrong| fail(generation, wrong, &events))?;
        }
        run.resume().map_err(|wrong| fail(generation, wrong, &events))?;
        let boundaries = run.media.recorded();
        let (successor, tried) = judge_all(&run, &boundaries, plan, &mut random)
            .map_err(|wrong| fail(generation, wrong, &events))?;
        points += tried;
        let Some(Recovered { media, volume, state, tree, mark, .. }) = successor else { return Ok(points) };
        for id in run.recovered(media, volume, &state, &tree, mark) {
            if random.chance(1, 4) {
                run.step(Event::Repeat(id)).map_err(|wrong| fail(generation, wrong, &events))?;
            }
        }
    }
    Ok(points)
}

/// Tries the boundaries. Returns the recovered volume to continue with, and the number of crashes.
fn judge_all(
    run: &Run,
    boundaries: &[Boundary],
    plan: &Plan,
    random: &mut Random,
) -> Result<(Option<Recovered>, u64), String> {
    let mut points = 0;
    let mut successor = None;
    let chosen = random.index(boundaries.len());
    for (number, boundary) in boundaries.iter().enumerate() {
        if boundaries.len() > plan.boundaries
            && !random.chance(plan.boundaries as u64, boundaries.len() as u64)
            && number != chosen
        {
            continue;
        }
        let twice = random.chance(1, 10);
        let recovered =
            judge(run, boundary, random, twice).map_err(|wrong| format!("boundary {number}: {wrong}"))?;
        points += 1;
        // Recovery writes, and may be crashed itself.
        for again in &recovered.again {
            if random.chance(1, 3) {
                judge(run, again, random, false)
                    .map_err(|wrong| format!("boundary {number}, crashed during recovery: {wrong}"))?;
                points += 1;
            }
        }
        if number == chosen {
            successor = Some(recovered);
        }
    }
    Ok((successor, points))
}

/// Runs these events on a new volume with the seed's sizes, and crashes it at every boundary several times.
///
/// # Errors
/// What was wrong.
pub fn replay(seed: u64, events: &[Event], tries: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let sizes = Sizes::draw(&mut random);
    let mut run = Run::new(sizes, random.fork())?.with_transport(transport_of(seed));
    run.media.record();
    for event in events {
        run.step(*event)?;
    }
    run.resume()?;
    let boundaries = run.media.recorded();
    for number in 0..tries {
        for (at, boundary) in boundaries.iter().enumerate() {
            let mut random = Random::new(seed ^ number << 32 ^ at as u64);
            judge(&run, boundary, &mut random, false).map_err(|wrong| format!("boundary {at}: {wrong}"))?;
        }
    }
    Ok(())
}

/// Opens the damaged device of a closed volume. Returns true if everything is intact, false if anything was refused.
///
/// # Errors
/// Wrong data.
pub fn judge_damaged(run: &Run, disk: Disk, random: &mut Random) -> Result<bool, String> {
    let media = SimMedia::of(disk, run.sizes().capacity, random.fork());
    let now = run.now() + 1_000_000;
    let Ok(volume) = open(&media, &run.sizes(), now) else { return Ok(false) };
    let Ok(tree) = walk(&volume, now) else { return Ok(false) };
    // The walk finds neither what clients held nor files without a name, and cannot tell whether quotas are missing. The volume
    // reports when they are lost.
    let lost = ["state of clients", "files without a name", "quotas"];
    if volume.damage().is_some_and(|damage| lost.iter().any(|what| damage.contains(what))) {
        return Ok(false);
    }
    let mut state = run.model.clone();
    state.declare_durable();
    state.compare(&tree, &SafeRanges::default()).map(|()| true)
}

/// Returns a checksum of the device after some events of this seed.
///
/// # Errors
/// What was wrong.
pub fn digest(seed: u64, events: usize) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let mut workload = Workload::new(random.fork(), Profile::default(), FIRST_CALL);
    let mut run = Run::new(Sizes::draw(&mut random), random.fork())?.with_transport(transport_of(seed));
    for _ in 0..events {
        let event = workload.next(&run.model);
        run.step(event)?;
    }
    Ok(run.media.disk().digest())
}

/// Shrinks a failure of the first generation.
#[must_use]
pub fn minimize(failure: &Failure, tries: usize) -> Failure {
    if failure.generation > 0 || replay(failure.seed, &failure.events, 6).is_ok() {
        return failure.clone();
    }
    let events = shrink(&failure.events, tries, |events| replay(failure.seed, events, 6).is_err());
    let wrong = replay(failure.seed, &events, 6).err().unwrap_or_default();
    Failure { wrong, events, ..failure.clone() }
}
