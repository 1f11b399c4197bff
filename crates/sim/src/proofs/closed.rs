//! Closed volumes, copies of which proofs damage.

use std::sync::Arc;

use super::media_faults::{EVENTS, start};
use crate::engine::{Sizes, open};
use crate::media::{Boundary, Disk, SimMedia, Survival};
use crate::random::Random;
use crate::run::Run;
use crate::workload::Event;
use volume::Volume;

/// Attempts to flip a bit in the index: most hit a block that was never written.
const DRAWS: usize = 200;

/// A sound volume that is closed.
pub(super) struct Closed {
    pub(super) disk: Disk,
    pub(super) sizes: Sizes,
    /// Later than all its times, in nanoseconds.
    pub(super) now: i64,
}

/// Returns the run of a random workload, after which the volume was closed and opened again.
pub(super) fn reopened(seed: u64) -> Result<(Run, Random), String> {
    let (mut run, mut workload, random) = start(seed)?;
    for _ in 0..EVENTS {
        let event = workload.next(&run.model);
        run.step(event)?;
    }
    run.step(Event::Reopen)?;
    Ok((run, random))
}

impl Closed {
    /// Returns a volume that a random workload has left.
    pub(super) fn new(seed: u64) -> Result<(Closed, Random), String> {
        let (run, random) = reopened(seed)?;
        Ok((Closed { disk: run.media.disk(), sizes: run.sizes(), now: run.now() + 1_000_000 }, random))
    }

    /// Returns media with the contents of a copy.
    pub(super) fn media(&self, copy: Disk, random: &mut Random) -> SimMedia {
        SimMedia::of(copy, self.sizes.capacity, random.fork())
    }

    /// Opens an undamaged copy.
    pub(super) fn open(&self, random: &mut Random) -> Result<Arc<Volume>, String> {
        open(&self.media(self.disk.clone(), random), &self.sizes, self.now)
    }

    /// Has `tries` copies judged that have up to `flips_max` bits flipped in their indexes.
    pub(super) fn damage(
        &self,
        (tries, flips_max): (u64, usize),
        random: &mut Random,
        mut judge: impl FnMut(Disk, &mut Random) -> Result<(), String>,
    ) -> Result<(), String> {
        for number in 0..tries {
            let mut disk = self.disk.clone();
            let count = 1 + random.index(flips_max);
            let flips: Vec<_> = (0..DRAWS).filter_map(|_| disk.flip_in_index(random)).take(count).collect();
            judge(disk, random).map_err(|wrong| format!("copy {number} with {flips:?}: {wrong}"))?;
        }
        Ok(())
    }
}

/// Has the disks judged that crashes leave at about `most` of the boundaries. Returns the number of crashes.
pub(super) fn crash_at_some(
    boundaries: &[Boundary],
    most: u64,
    random: &mut Random,
    mut judge: impl FnMut(Disk, &mut Random) -> Result<(), String>,
) -> Result<u64, String> {
    let mut crashes = 0;
    for (number, boundary) in boundaries.iter().enumerate() {
        if !random.chance(most.min(boundaries.len() as u64), boundaries.len() as u64) {
            continue;
        }
        let survival = Survival::draw(random);
        let disk = boundary.disk.crash(random, survival);
        judge(disk, random).map_err(|wrong| {
            format!("after a crash at boundary {number} with {survival:?} surviving, {wrong}")
        })?;
        crashes += 1;
    }
    Ok(crashes)
}
