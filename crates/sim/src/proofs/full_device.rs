//! A device that fills up. Changes are refused for want of space, removals still work, removed space becomes available
//! again, and a crash at any of these moments takes back nothing that a reply has shown.

use volume::media::Media;
use volume::quota::Owner;
use volume::request::{Access, Credentials, Journaled, Request};
use volume::time::Time;

use super::crash::judge;
use crate::call::{Call, EngineOnlyOp};
use crate::engine::Sizes;
use crate::media::Fault;
use crate::random::Random;
use crate::run::{FIRST_CALL, Run};
use crate::transport::transport_of;
use crate::workload::{Event, Profile, Step, Workload};

/// Bytes of a segment.
const SEGMENT_BYTES: u64 = 512 << 10;

/// The number of events that must fill the device. Before a call is refused, many wait for the cleaner, which works now and then.
const FILLING: usize = 3000;
/// The number of events on the full device that are crashed.
const EVENTS: usize = 50;
/// The number of rounds of background work that must free removed space.
const ROUNDS: i64 = 400;

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Calls refused for want of space.
    pub refused: u64,
    /// Crashes.
    pub points: u64,
}

fn start(seed: u64) -> Result<(Run, Workload, Random), String> {
    let mut random = Random::new(seed);
    let profile = Profile {
        reopen: false,
        write_bytes: 60_000,
        root_percent: 80,
        contentions: 0,
        ..Profile::default()
    };
    let workload = Workload::new(random.fork(), profile, FIRST_CALL);
    let mut sizes = Sizes { segment_bytes: SEGMENT_BYTES, ..Sizes::draw(&mut random) };
    sizes.capacity = sizes.log_bytes + (*random.pick(&[16, 24, 32]) << 20);
    let mut run = Run::new(sizes, random.fork())?.with_transport(transport_of(seed));
    run.model.leniency.full = true;
    Ok((run, workload, random))
}

/// Returns the free bytes that FSSTAT shows.
fn free(run: &Run) -> Result<u64, String> {
    let credentials = Credentials::root();
    let now = Time::from_nanos(run.now());
    let request = Request { credentials: &credentials, now, access: Access::Blocking, key: None };
    run.volume()
        .status(&request)
        .map(|status| status.value.bytes_free)
        .map_err(|failure| format!("FSSTAT: {:?}", failure.error))
}

/// Runs all background work while time passes.
fn run_background(run: &mut Run) -> Result<(), String> {
    for round in 0..ROUNDS {
        if round % 10 == 0 {
            run.step(Event::Clock(run.now() + 1_000_000_000))?;
        }
        for step in [Step::WriteBack(true), Step::Commit, Step::Checkpoint(true), Step::Clean] {
            run.step(Event::Step(step))?;
        }
    }
    Ok(())
}

/// Drops the history, which only crashes need.
fn forget(run: &mut Run) {
    run.model.declare_durable();
    run.history.clear();
    run.acks.clear();
}

/// Fills the device until it refuses a call.
fn fill(run: &mut Run, workload: &mut Workload, random: &mut Random) -> Result<(), String> {
    let refused = run.model.refused;
    for _ in 0..FILLING {
        let event = if random.chance(1, 4) { workload.next(&run.model) } else { workload.fill(&run.model) };
        let is_limit = matches!(&event, Event::Call(operation)
            if matches!(operation.call, Call::EngineOnly(EngineOnlyOp::SetQuota { owner: Owner::VOLUME, .. })));
        run.step(event)?;
        if is_limit {
            unlimit(run, workload)?;
        }
        forget(run);
        if run.model.refused > refused {
            return Ok(());
        }
    }
    Err(format!("{FILLING} events do not fill a device of {} bytes", run.sizes().capacity))
}

/// Removes a name, which must work however full the device is.
fn remove_one(run: &mut Run, workload: &mut Workload) -> Result<bool, String> {
    let Some((directory, name, is_directory)) = run.model.removable() else { return Ok(false) };
    let call = match is_directory {
        true => Call::RemoveDirectory { directory, name },
        false => Call::Remove { directory, name },
    };
    let before = run.model.mutations;
    run.step(Event::Call(workload.operation(call)))?;
    match run.model.mutations > before {
        true => Ok(true),
        false => Err(format!("{call:?} failed on a full device")),
    }
}

/// Releases all held files, so that orphans are removed.
fn release_all(run: &mut Run, workload: &mut Workload) -> Result<(), String> {
    while let Some(object) = run.model.held_objects().first().copied() {
        let call = Call::EngineOnly(EngineOnlyOp::Release { object });
        run.step(Event::Call(workload.operation(call)))?;
    }
    for _ in 0..1000 {
        if run.volume().orphans().is_empty() {
            return Ok(());
        }
        run.step(Event::Call(workload.operation(Call::EngineOnly(EngineOnlyOp::ReapOrphan))))?;
        run.step(Event::Step(Step::Checkpoint(true)))?;
    }
    Err("orphans that nobody holds stay on a full device".to_owned())
}

/// Removes the limit of the volume, which would keep the device from being filled, and show as space that is not free.
fn unlimit(run: &mut Run, workload: &mut Workload) -> Result<(), String> {
    let call = Call::EngineOnly(EngineOnlyOp::SetQuota { owner: Owner::VOLUME, limits: None });
    run.step(Event::Call(workload.operation(call)))
}

/// Removes a file of a volume that was opened on a full device.
fn remove_after_opening(run: &Run, volume: &volume::Volume) -> Result<(), String> {
    let credentials = Credentials::root();
    for round in 0..2000 {
        let now = Time::from_nanos(run.now() + round * 20_000_000);
        let request = Request { credentials: &credentials, now, access: Access::Blocking, key: None };
        let root = volume::ids::Ino::ROOT;
        let listing = volume.read_directory(&request, root, volume::ids::Cookie(0), 30, true);
        let listing = listing.map_err(|failure| format!("READDIR: {:?}", failure.error))?.value;
        let is_file = |entry: &&volume::results::Entry| {
            let kind = entry.attributes.as_ref().map(|attributes| attributes.file_type);
            kind.is_some_and(|kind| kind != volume::attributes::FileType::Directory)
        };
        let Some(entry) = listing.entries.iter().find(is_file) else { return Ok(()) };
        match volume.remove(&request, root, &entry.name, &mut |_| Journaled::default()) {
            Ok(_) => return Ok(()),
            Err(failure) if failure.error.is_busy() => {
                volume.step_write_back(now, true, true);
                volume.step_commit(now);
                volume.step_checkpoint(now, true);
                volume.step_clean(now, true);
            }
            Err(failure) => return Err(format!("REMOVE after opening: {:?}", failure.error)),
        }
    }
    Err("REMOVE after opening: busy after all attempts".to_owned())
}

/// Crashes the device at some of the boundaries.
fn crash(run: &Run, most: usize, random: &mut Random) -> Result<u64, String> {
    let boundaries = run.media.recorded();
    let mut points = 0;
    for (number, boundary) in boundaries.iter().enumerate() {
        if random.chance(most as u64, boundaries.len() as u64) {
            let context = |wrong| format!("boundary {number}: {wrong}");
            let recovered = judge(run, boundary, random, false).map_err(context)?;
            remove_after_opening(run, recovered.volume()).map_err(context)?;
            points += 1;
        }
    }
    Ok(points)
}

/// Fills a device, works on it, empties it and fills it again. Crashes it at about `boundaries` boundaries in each of
/// two phases.
///
/// # Errors
/// What was wrong.
pub fn run(seed: u64, most: usize) -> Result<Tally, String> {
    run_on(seed, most, None)
}

/// Runs the same on media with this fault.
///
/// # Errors
/// What was wrong.
pub fn run_on(seed: u64, most: usize, fault: Option<Fault>) -> Result<Tally, String> {
    let (mut run, mut workload, mut random) = start(seed)?;
    fault.into_iter().for_each(|fault| run.media.plan(fault));
    run_background(&mut run)?;
    let room = free(&run)?;
    fill(&mut run, &mut workload, &mut random)?;
    let used = run.model.used();
    if used < room / 4 {
        let left = free(&run)?;
        return Err(format!(
            "refused with {used} bytes used of {room} that were free; FSSTAT shows {left} free"
        ));
    }
    run.step(Event::Reopen)?;
    run.media.record();
    for _ in 0..EVENTS {
        match random.below(4) {
            0 => run.step(workload.next(&run.model))?,
            1 => remove_one(&mut run, &mut workload).map(drop)?,
            _ => run.step(workload.fill(&run.model))?,
        }
    }
    let mut points = crash(&run, most, &mut random)?;
    run.step(Event::Reopen)?;
    run.media.record();
    while remove_one(&mut run, &mut workload)? {}
    release_all(&mut run, &mut workload)?;
    points += crash(&run, most, &mut random)?;
    unlimit(&mut run, &mut workload)?;
    forget(&mut run);
    run_background(&mut run)?;
    let after = free(&run)?;
    // FSSTAT counts whole segments, and the device has room for a few only.
    if after + SEGMENT_BYTES < room && after < room / 8 * 7 {
        let space = run.media.space().map_err(|error| error.to_string())?;
        return Err(format!("{room} bytes were free, {after} after everything was removed; {space:?}"));
    }
    fill(&mut run, &mut workload, &mut random)?;
    let again = run.model.used();
    if again < used / 2 {
        return Err(format!("{used} bytes fit at first, {again} after everything was removed"));
    }
    run.compare_all()?;
    Ok(Tally { refused: run.model.refused, points })
}

#[cfg(test)]
mod tests {
    use volume::attributes::SetAttributes;
    use volume::results::SetXattr;

    use super::*;
    use crate::call::{CreateHow, Name, Obj};

    #[test]
    fn limits_of_a_file_do_not_count_as_refusals() {
        let (mut run, mut workload, _) = start(1).unwrap();
        let how = CreateHow::Guarded(SetAttributes::default());
        let create = workload.operation(Call::Create { directory: Obj(0), name: Name(0), how });
        run.step(Event::Call(create)).unwrap();
        let object = Obj(create.id);
        let set = |key| {
            let how = SetXattr::Either;
            Call::EngineOnly(EngineOnlyOp::SetXattr { object, key, length: u16::MAX, how })
        };
        let too_much = Call::EngineOnly(EngineOnlyOp::Allocate { object, offset: 0, length: 2 << 30 });
        for call in [set(0), set(1), set(2), too_much] {
            run.step(Event::Call(workload.operation(call))).unwrap();
        }
        assert_eq!(run.model.refused, 0);
    }
}
