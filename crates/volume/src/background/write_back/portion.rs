//! The part of a file's unstable data that one journal entry takes.
//!
//! What an entry replaces must be counted, and where the file's map is not in memory it must be read first. So an entry takes as
//! much as a moment under the file's lock suffices to count, and what was counted is journaled before more is read: however long
//! the map is, each read brings the file nearer to being saved, and nothing is counted more than a few times.

use crate::file::inodes::InodeState;
use crate::limits::COUNT_RUNS_MAX;
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::map_update::Filled;

/// Most ranges that are counted for an entry. Each takes up to [`COUNT_RUNS_MAX`] mappings per layer.
const COUNTED_MAX: usize = 64;

/// With so many mappings counted, an entry is made before more of the map is read.
const MAPPINGS_ENOUGH: usize = 64;

/// Ranges that an entry fills.
#[derive(Default)]
pub(super) struct Portion {
    filled: Vec<Filled>,
    /// Ranges whose mappings were counted.
    counted: usize,
    /// Mappings that were counted, and ranges.
    mappings: usize,
    is_full: bool,
}

impl Portion {
    /// Takes the beginning of a range of a locked file, as far as its mappings can be counted now, and returns the end of that
    /// part. It is empty if the portion is full, and never if the portion is.
    pub(super) fn take(
        &mut self,
        attempt: &Attempt<'_>,
        state: &mut InodeState,
        (start, end): (u64, u64),
    ) -> Result<u64, Stop> {
        if self.is_full {
            return Ok(start);
        }
        let part = match attempt.mapped_part(state, (start, end), u64::MAX) {
            Err(Stop::Missing(_)) if self.mappings >= MAPPINGS_ENOUGH => {
                self.is_full = true;
                return Ok(start);
            }
            part => part?,
        };
        self.filled.push(Filled { start, end: part.end, new_bytes: part.end - start - part.bytes });
        if let Some(mappings) = part.counted {
            self.counted += 1;
            self.mappings += 1 + mappings;
        }
        self.is_full = part.end < end || self.counted >= COUNTED_MAX || self.mappings >= 4 * COUNT_RUNS_MAX;
        Ok(part.end)
    }

    /// Returns what the entry fills.
    pub(super) fn filled(&self) -> &[Filled] {
        &self.filled
    }
}
