//! Damaged volumes that are repaired: a crash leaves a volume as it was or repaired, and a second repair completes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::media_faults::{EVENTS, start};
use crate::engine::{Sizes, object, open, repair, walk};
use crate::media::{Disk, SimMedia, Survival};
use crate::model::recovery::FoundObject;
use crate::random::Random;
use crate::workload::Event;
use volume::check::{CheckOptions, FaultKind, Summary, check};
use volume::media::Media;

/// Boundaries at which each repair is crashed, about.
const BOUNDARIES: u64 = 12;

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Damaged volumes that were repaired.
    pub repaired: u64,
    /// Volumes that were refused because the damage hit what is needed to find records.
    pub refused: u64,
    /// Repairs that found something to repair.
    pub changed: u64,
    /// Crashes during repairs.
    pub points: u64,
}

/// Damages the index of a closed volume several times, once in each of `tries` copies of it, and repairs each.
///
/// # Errors
/// What a repair, or a crash, made of a volume.
pub fn run(seed: u64, tries: u64) -> Result<Tally, String> {
    let (mut run, mut workload, mut random) = start(seed)?;
    for _ in 0..EVENTS {
        let event = workload.next(&run.model);
        run.step(event)?;
    }
    run.step(Event::Reopen)?;
    let (sizes, now) = (run.sizes(), run.now() + 1_000_000);
    let sound = run.media.disk();
    let volume = open(&SimMedia::of(sound.clone(), sizes.capacity, random.fork()), &sizes, now)?;
    let right = walk(&volume, now)?.objects;
    drop(volume);
    let mut tally = Tally::default();
    for number in 0..tries {
        let mut disk = sound.clone();
        // Most draws hit a place that was never written.
        let most = 1 + random.index(4);
        let flips: Vec<_> = (0..200).filter_map(|_| disk.flip_in_index(&mut random)).take(most).collect();
        let case = Case { disk, sizes, now, right: &right };
        case.judge(&mut random, &mut tally)
            .map_err(|wrong| format!("copy {number} with {flips:?}: {wrong}"))?;
    }
    Ok(tally)
}

struct Case<'c> {
    disk: Disk,
    sizes: Sizes,
    now: i64,
    right: &'c BTreeMap<u64, FoundObject>,
}

impl Case<'_> {
    /// Repairs the volume, and crashes it at boundaries of that.
    fn judge(&self, random: &mut Random, tally: &mut Tally) -> Result<(), String> {
        let media = SimMedia::of(self.disk.clone(), self.sizes.capacity, random.fork());
        media.record();
        let Ok(repaired) = repair(&media, &self.sizes, self.now) else {
            tally.refused += 1;
            return Ok(());
        };
        tally.repaired += 1;
        tally.changed += u64::from(repaired.is_replaced);
        let boundaries = media.recorded();
        let expected = self.judge_repaired(&media)?;
        for (number, boundary) in boundaries.iter().enumerate() {
            if !random.chance(BOUNDARIES.min(boundaries.len() as u64), boundaries.len() as u64) {
                continue;
            }
            let survival = Survival::draw(random);
            let disk = boundary.disk.crash(random, survival);
            self.judge_crashed(&disk, expected, random).map_err(|wrong| {
                format!("after a crash at boundary {number} with {survival:?} surviving, {wrong}")
            })?;
            tally.points += 1;
        }
        Ok(())
    }

    /// The volume opens after a crash, and a repair makes of it what the first would have made.
    fn judge_crashed(&self, disk: &Disk, expected: (u64, u64), random: &mut Random) -> Result<(), String> {
        let media = SimMedia::of(disk.clone(), self.sizes.capacity, random.fork());
        let opened = open(&media, &self.sizes, self.now);
        drop(opened.map_err(|why| format!("the volume does not open: {why}"))?);
        let media = SimMedia::of(disk.clone(), self.sizes.capacity, random.fork());
        repair(&media, &self.sizes, self.now).map_err(|why| format!("it cannot be repaired: {why}"))?;
        let found = self.judge_repaired(&media)?;
        if found == expected {
            return Ok(());
        }
        Err(format!("it has {found:?} objects and names instead of {expected:?}"))
    }

    /// Checks a repaired volume: it has no faults, and shows nothing wrong. Returns how many objects and names it has.
    fn judge_repaired(&self, media: &SimMedia) -> Result<(u64, u64), String> {
        let checked: Arc<dyn Media> = Arc::new(media.clone());
        let report = check(&checked, &CheckOptions::default()).map_err(|error| error.to_string())?;
        if let Some(fault) = report.faults.iter().find(|fault| fault.kind != FaultKind::Data) {
            return Err(format!("a repaired volume has a fault: {fault}"));
        }
        let volume = open(media, &self.sizes, self.now)?;
        for (ino, right) in self.right {
            let Ok(found) = object(&volume, *ino, self.now) else { continue };
            // The end of a file whose record was lost is unknown.
            let is_comparable = found.seen.size == right.seen.size;
            if found.target != right.target || is_comparable && found.windows != right.windows {
                return Err(format!("inode {ino} has another content"));
            }
        }
        let Summary { inodes, names, .. } = report.summary;
        Ok((inodes, names))
    }
}
