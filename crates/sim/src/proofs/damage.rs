//! Flips bits in the index of a volume. Whatever can be read must be right, and a crash while a copy replaces the index must
//! leave the old one or the new one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::media_faults::{EVENTS, start};
use crate::engine::{Sizes, object, open, walk};
use crate::media::{Disk, SimMedia, Survival};
use crate::random::Random;
use crate::workload::Event;
use volume::Volume;
use volume::time::Time;

/// Boundaries at which each volume is crashed, about.
const BOUNDARIES: u64 = 6;

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
    let (mut run, mut workload, mut random) = start(seed)?;
    for _ in 0..EVENTS {
        let event = workload.next(&run.model);
        run.step(event)?;
    }
    run.step(Event::Reopen)?;
    let (sizes, now) = (run.sizes(), run.now() + 1_000_000);
    let sound = run.media.disk();
    let volume = open(&SimMedia::of(sound.clone(), sizes.capacity, random.fork()), &sizes, now)?;
    let inos: Vec<u64> = walk(&volume, now)?.objects.keys().copied().collect();
    let right = show(&volume, &inos, now);
    drop(volume);
    let mut tally = Tally::default();
    for number in 0..tries {
        let mut disk = sound.clone();
        // Most draws hit a block that was never written.
        let (draws, most) = (200, 1 + random.index(3));
        let flips: Vec<_> = (0..draws).filter_map(|_| disk.flip_in_index(&mut random)).take(most).collect();
        let case = Case { disk, sizes, now, inos: &inos, right: &right };
        case.judge(&mut random, &mut tally)
            .map_err(|wrong| format!("copy {number} with {flips:?}: {wrong}"))?;
    }
    Ok(tally)
}

struct Case<'c> {
    disk: Disk,
    sizes: Sizes,
    now: i64,
    inos: &'c [u64],
    right: &'c Shown,
}

impl Case<'_> {
    /// Opens the volume, has its index replaced, and crashes it at each boundary of that.
    fn judge(&self, random: &mut Random, tally: &mut Tally) -> Result<(), String> {
        let media = SimMedia::of(self.disk.clone(), self.sizes.capacity, random.fork());
        media.record();
        let Some(shown) = self.settle(&media)? else {
            tally.refused += 1;
            return Ok(());
        };
        tally.opened += 1;
        tally.lost += shown.values().filter(|shown| shown.is_err()).count() as u64;
        let boundaries = media.recorded();
        for (number, boundary) in boundaries.iter().enumerate() {
            if !random.chance(BOUNDARIES.min(boundaries.len() as u64), boundaries.len() as u64) {
                continue;
            }
            let survival = Survival::draw(random);
            let disk = boundary.disk.crash(random, survival);
            let media = SimMedia::of(disk, self.sizes.capacity, random.fork());
            let after = self.settle(&media)?.ok_or("the volume no longer opens").map_err(|wrong| {
                format!("after a crash at boundary {number} with {survival:?} surviving, {wrong}")
            })?;
            if after != shown {
                return Err(format!(
                    "a crash at boundary {number} with {survival:?} surviving changed what is shown: {after:?} \
                     instead of {shown:?}"
                ));
            }
            tally.points += 1;
        }
        Ok(())
    }

    /// Opens the volume and makes checkpoints until nothing more is found, and returns what is shown then; `None` if
    /// the volume is refused.
    fn settle(&self, media: &SimMedia) -> Result<Option<Shown>, String> {
        let volume = match open(media, &self.sizes, self.now) {
            Ok(volume) => volume,
            Err(why) if why.contains("holdfast dump --files") => return Ok(None),
            Err(why) => return Err(format!("the volume does not open: {why}")),
        };
        for _ in 0..3 {
            self.shown_by(&volume)?;
            volume.step_commit(Time::from_nanos(self.now));
            volume.step_checkpoint(Time::from_nanos(self.now), true);
        }
        if let Some(why) = volume.refuses_changes() {
            return if why.contains("holdfast check") { Ok(None) } else { Err(why) };
        }
        // What is in memory may be shown although it is lost.
        drop(volume);
        let volume =
            open(media, &self.sizes, self.now).map_err(|why| format!("it does not open again: {why}"))?;
        self.shown_by(&volume).map(Some)
    }

    fn shown_by(&self, volume: &Volume) -> Result<Shown, String> {
        let shown = show(volume, self.inos, self.now);
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
