//! Damaged volumes that are repaired: a crash leaves a volume as it was or repaired, and a second repair completes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::closed::{Closed, crash_at_some};
use crate::engine::{object, open, repair, walk};
use crate::media::{Disk, SimMedia};
use crate::model::recovery::FoundObject;
use crate::random::Random;
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
    let (sound, mut random) = Closed::new(seed)?;
    let volume = sound.open(&mut random)?;
    let right = walk(&volume, sound.now)?.objects;
    drop(volume);
    let case = Case { sound: &sound, right: &right };
    let mut tally = Tally::default();
    sound.damage((tries, 4), &mut random, |disk, random| case.judge(disk, random, &mut tally))?;
    Ok(tally)
}

struct Case<'c> {
    sound: &'c Closed,
    right: &'c BTreeMap<u64, FoundObject>,
}

impl Case<'_> {
    /// Repairs a damaged copy, and crashes it at boundaries of that.
    fn judge(&self, disk: Disk, random: &mut Random, tally: &mut Tally) -> Result<(), String> {
        let media = self.sound.media(disk, random);
        media.record();
        let Ok(repaired) = repair(&media, &self.sound.sizes, self.sound.now) else {
            tally.refused += 1;
            return Ok(());
        };
        tally.repaired += 1;
        tally.changed += u64::from(repaired.is_replaced);
        let boundaries = media.recorded();
        let expected = self.judge_repaired(&media)?;
        tally.points += crash_at_some(&boundaries, BOUNDARIES, random, |disk, random| {
            self.judge_crashed(disk, expected, random)
        })?;
        Ok(())
    }

    /// The volume opens after a crash, and a repair makes of it what the first would have made.
    fn judge_crashed(&self, disk: Disk, expected: (u64, u64), random: &mut Random) -> Result<(), String> {
        let media = self.sound.media(disk.clone(), random);
        let opened = open(&media, &self.sound.sizes, self.sound.now);
        drop(opened.map_err(|why| format!("the volume does not open: {why}"))?);
        let media = self.sound.media(disk, random);
        repair(&media, &self.sound.sizes, self.sound.now)
            .map_err(|why| format!("it cannot be repaired: {why}"))?;
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
        let volume = open(media, &self.sound.sizes, self.sound.now)?;
        for (ino, right) in self.right {
            let Ok(found) = object(&volume, *ino, self.sound.now) else { continue };
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
