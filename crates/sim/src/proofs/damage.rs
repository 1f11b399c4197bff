//! Flips bits in the index of a volume. Whatever can be read must be right, and a crash while a copy replaces the index must
//! leave the old one or the new one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::closed::{Closed, crash_at_some};
use crate::engine::{object, open, walk};
use crate::media::{Disk, SimMedia};
use crate::random::Random;
use volume::Volume;
use volume::time::Time;

/// Boundaries at which each volume is crashed, about.
const BOUNDARIES: u64 = 6;

/// What is advised if a volume cannot be opened: something of it can be read, or nothing.
const ADVICE: [&str; 2] = ["holdfast dump --files", "restore the pool from a backup"];

/// The attributes and data of each object, or the error that it returns.
type Shown = BTreeMap<u64, Result<String, String>>;

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Damaged volumes that were opened.
    pub opened: u64,
    /// Volumes that were refused because the damage hit what is needed to find records.
    pub refused: u64,
    /// Objects that could not be shown completely.
    pub lost: u64,
    /// Crashes while an index was replaced.
    pub points: u64,
}

/// Damages the index of a closed volume several times, once in each of `tries` copies of it.
///
/// # Errors
/// Something was shown wrongly, or a crash lost something.
pub fn run(seed: u64, tries: u64) -> Result<Tally, String> {
    let (sound, mut random) = Closed::new(seed)?;
    let volume = sound.open(&mut random)?;
    let inos: Vec<u64> = walk(&volume, sound.now)?.objects.keys().copied().collect();
    let right = show(&volume, &inos, sound.now);
    drop(volume);
    let case = Case { sound: &sound, inos: &inos, right: &right };
    let mut tally = Tally::default();
    sound.damage((tries, 3), &mut random, |disk, random| case.judge(disk, random, &mut tally))?;
    Ok(tally)
}

struct Case<'c> {
    sound: &'c Closed,
    inos: &'c [u64],
    right: &'c Shown,
}

impl Case<'_> {
    /// Opens a damaged copy, has its index replaced, and crashes it at boundaries of that.
    fn judge(&self, disk: Disk, random: &mut Random, tally: &mut Tally) -> Result<(), String> {
        let media = self.sound.media(disk, random);
        media.record();
        let Some(shown) = self.settle(&media)? else {
            tally.refused += 1;
            return Ok(());
        };
        tally.opened += 1;
        tally.lost += shown.values().filter(|shown| shown.is_err()).count() as u64;
        tally.points += crash_at_some(&media.recorded(), BOUNDARIES, random, |disk, random| {
            let after = self.settle(&self.sound.media(disk, random))?.ok_or("the volume no longer opens")?;
            if after == shown {
                return Ok(());
            }
            Err(format!("other contents are shown: {after:?} instead of {shown:?}"))
        })?;
        Ok(())
    }

    /// Opens the volume and makes checkpoints until nothing more is found, and returns what is shown then; `None` if
    /// the volume is refused.
    fn settle(&self, media: &SimMedia) -> Result<Option<Shown>, String> {
        let volume = match open(media, &self.sound.sizes, self.sound.now) {
            Ok(volume) => volume,
            Err(why) if ADVICE.iter().any(|advice| why.contains(advice)) => return Ok(None),
            Err(why) => return Err(format!("the volume does not open: {why}")),
        };
        for _ in 0..3 {
            self.shown_by(&volume)?;
            volume.step_commit(Time::from_nanos(self.sound.now));
            volume.step_checkpoint(Time::from_nanos(self.sound.now), true);
        }
        if let Some(why) = volume.refuses_changes() {
            return if why.contains("holdfast check") { Ok(None) } else { Err(why) };
        }
        // What is in memory may be shown although it is lost.
        drop(volume);
        let volume = open(media, &self.sound.sizes, self.sound.now)
            .map_err(|why| format!("it does not open again: {why}"))?;
        self.shown_by(&volume).map(Some)
    }

    fn shown_by(&self, volume: &Volume) -> Result<Shown, String> {
        let shown = show(volume, self.inos, self.sound.now);
        for (ino, shown) in &shown {
            if shown.is_ok() && self.right[ino] != *shown {
                return Err(format!("inode {ino} shows {shown:?} instead of {:?}", self.right[ino]));
            }
        }
        Ok(shown)
    }
}

/// Reads all objects.
fn show(volume: &Volume, inos: &[u64], now: i64) -> Shown {
    let one = |ino: u64| {
        let mut found = object(volume, ino, now)?;
        // Reading sets it, in memory.
        (found.seen.atime, found.seen_after.atime) = (0, 0);
        let mut data = DefaultHasher::new();
        std::mem::take(&mut found.windows).hash(&mut data);
        Ok(format!("{found:?}, data {:x}", data.finish()))
    };
    inos.iter().map(|ino| (*ino, one(*ino))).collect()
}
