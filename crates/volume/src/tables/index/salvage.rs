//! Copies what can be read of a damaged index into a new file.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::walker::{Salvaged, Walker};
use super::{CheckedFile, Index, IndexError, LostRanges, Records};
use crate::media::RandomFile;

/// Follows every key.
const END: &[u8] = &[0xff];

/// A damaged index.
#[derive(Debug)]
pub struct Salvage {
    file: CheckedFile,
    /// What was lost before.
    lost: LostRanges,
    cache_bytes: usize,
}

/// A page of a damaged index that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPage {
    /// Its first block, as the library numbers them.
    pub block: u64,
    /// Why it cannot be used.
    pub why: IndexError,
}

/// What a copy lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Records in the copy.
    pub records: u64,
    /// Pages with records that could not be used.
    pub bad_pages: Vec<BadPage>,
    /// The lost ranges of the copy: those that its original had too, and new ones.
    pub lost: LostRanges,
}

/// Inspects the records that are copied, and completes the copy.
pub trait Contents {
    /// Sees each record, in key order.
    fn see(&mut self, key: &[u8], value: &[u8]);
    /// Adds records, and removes from the lost ranges what is known.
    fn complete(&mut self, records: &mut Records<'_>, lost: &mut LostRanges) -> Result<(), IndexError>;
}

impl Salvage {
    /// Opens a damaged index of which nothing is in memory.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if not even the place of the records can be read.
    pub fn open(file: Arc<dyn RandomFile>, cache_bytes: usize) -> Result<Salvage, IndexError> {
        let file = CheckedFile::open(file)?;
        let lost = lost_ranges(&file, cache_bytes)?;
        Walker::open(file.clone(), cache_bytes)?;
        Ok(Salvage { file, lost, cache_bytes })
    }

    /// Returns the damaged index, as it was last written.
    pub(super) fn of(index: &Index) -> Salvage {
        Salvage {
            file: index.file.clone(),
            lost: LostRanges::clone(&index.lost),
            cache_bytes: index.cache_bytes,
        }
    }

    /// Returns the bytes that a copy takes at most.
    pub fn bytes_needed(&self) -> u64 {
        self.file.stored_len()
    }

    /// Copies what can be read into an empty file, durably. Returns `None` if something could not be read and can now:
    /// then copy again.
    ///
    /// # Errors
    /// [`IndexError::Full`] if the device has no room for the copy, [`IndexError::Corrupt`] if not even the place of
    /// the records can be read, errors of `contents`.
    pub fn copy(
        &self,
        into: Arc<dyn RandomFile>,
        contents: &mut dyn Contents,
    ) -> Result<Option<Copied>, IndexError> {
        match self.try_copy(&into, contents) {
            // Neither a missing device nor a transient failure is damage.
            Ok(copied) => {
                self.file.check_readable()?;
                let is_final = copied.bad_pages.is_empty() || self.file.look_again() == 0;
                Ok(is_final.then_some(copied))
            }
            Err(IndexError::Corrupt(_)) if self.file.look_again() > 0 => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn try_copy(
        &self,
        into: &Arc<dyn RandomFile>,
        contents: &mut dyn Contents,
    ) -> Result<Copied, IndexError> {
        let walker = Walker::open(self.file.clone(), self.cache_bytes)?;
        let mut copied = Copied { lost: self.lost.clone(), ..Copied::default() };
        let copy = Index::create(Arc::clone(into), self.cache_bytes)?;
        let update = copy.begin()?;
        let mut records = update.records()?;
        let mut result = Ok(());
        walker.salvage(&mut |found| {
            match found {
                Salvaged::Record { key, value } => {
                    contents.see(key, value);
                    copied.records += 1;
                    result = records.put(key, value);
                }
                Salvaged::Lost { from, to: None, why, .. } if from.is_empty() => result = Err(why),
                Salvaged::Lost { from, to, block, why } => {
                    copied.lost.add(&from, to.as_deref().unwrap_or(END));
                    copied.bad_pages.push(BadPage { block, why });
                }
            }
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result?;
        contents.complete(&mut records, &mut copied.lost)?;
        drop(records);
        if !copied.lost.is_empty() {
            update.put_lost(&copied.lost)?;
        }
        update.commit()?;
        drop(copy);
        into.sync()?;
        Ok(copied)
    }
}

/// Reads the lost ranges of an index.
///
/// # Errors
/// [`IndexError::Corrupt`] if the header or the list of tables cannot be read.
pub fn lost_ranges(file: &CheckedFile, cache_bytes: usize) -> Result<LostRanges, IndexError> {
    let mut lost = LostRanges::default();
    let Some(table) = Walker::open_lost(file.clone(), cache_bytes)? else { return Ok(lost) };
    table.salvage(&mut |found| {
        match found {
            Salvaged::Record { key, value } => lost.add(key, value),
            // Which ranges follow is unknown, so everything that is absent there may be lost.
            Salvaged::Lost { from, .. } => lost.add(&from, END),
        }
        ControlFlow::Continue(())
    })?;
    Ok(lost)
}
