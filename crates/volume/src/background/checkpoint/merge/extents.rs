//! The extent table: how many mappings name each part of an extent, and what that leaves alive of segments.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Merge, Reference, cleared};
use crate::api::ids::{ExtentId, SegmentId};
use crate::background::checkpoint::CheckpointError;
use crate::background::checkpoint::destage::Destaged;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::{ExtentRecord, References, SECTORS_MAX, sectors};
use crate::limits::EXTENT_BYTES_MAX;
use crate::tables::index::IndexError;

/// What a checkpoint changes of the extent table.
#[derive(Default)]
struct Changes {
    /// New and moved rows of the journal.
    moved: BTreeMap<ExtentId, ExtentRecord>,
    /// How many more bytes of segments are alive.
    live: BTreeMap<SegmentId, i64>,
    /// Buffer for counting.
    steps: Vec<i64>,
}

impl Merge<'_> {
    /// Updates the extent table: new and moved rows, and references. Returns the change of each segment's live bytes.
    pub(super) fn apply_extents(
        &mut self,
        records: &[(Key, Slot)],
        destaged: &Destaged,
    ) -> Result<BTreeMap<SegmentId, i64>, CheckpointError> {
        let mut changes = Changes::default();
        for (key, slot) in records {
            if let (Some((_, Table::Extent, fields)), Some(value)) = (key::parse(key), slot) {
                let id = ExtentId(key::number(fields).unwrap_or_default());
                changes.moved.insert(id, decode(value)?);
            }
        }
        let mut references = std::mem::take(&mut self.references);
        let touched = changes.moved.keys().chain(destaged.extents.iter().map(|(id, _)| id));
        references.extend(touched.map(|id| Reference::none(*id)));
        references.sort_unstable();
        let mut written = destaged.extents.iter().peekable();
        for of_extent in references.chunk_by(|one, next| one.extent == next.extent) {
            let id = of_extent[0].extent;
            // The index has no rows yet for extents that this checkpoint wrote.
            let new = written.next_if(|(written, _)| *written == id).map(|(_, row)| row);
            self.apply_extent(id, new, of_extent, &mut changes)?;
        }
        changes.live.retain(|_, delta| *delta != 0);
        Ok(changes.live)
    }

    /// Updates the row of one extent, `new` if this checkpoint wrote it.
    fn apply_extent(
        &mut self,
        id: ExtentId,
        new: Option<&ExtentRecord>,
        of_extent: &[Reference],
        changes: &mut Changes,
    ) -> Result<(), CheckpointError> {
        let key = key::extent(id);
        let old = match new {
            Some(_) => None,
            None => self.index.take(&key, decode)?.transpose()?,
        };
        let before = match &old {
            None if new.is_none() && self.index.is_lost(&key) => {
                // Nobody knows what mappings name it, so it is never freed. If it has no row, reads of it fail.
                if !changes.moved.contains_key(&id) {
                    return Ok(());
                }
                References::Unknown
            }
            None => References::NONE,
            Some(old) => old.references.clone(),
        };
        if let Some(old) = &old {
            *changes.live.entry(old.segment).or_default() -= i64::from(old.live_bytes(&old.references));
        }
        let row = new.map(Cow::Borrowed).or_else(|| changes.moved.remove(&id).or(old).map(Cow::Owned));
        let sectors = row.as_ref().map_or(SECTORS_MAX, |row| sectors(row.length));
        let spans = of_extent.iter().map(|reference| (reference.span, i64::from(reference.change)));
        let references = before.changed(sectors, spans, &mut changes.steps);
        let references = references.map_err(|_| corrupt(id, "more references dropped than there were"))?;
        if references == References::NONE {
            // The index no longer has the row.
            self.outcome.freed.push((id, row.map_or(EXTENT_BYTES_MAX, |row| row.length as usize)));
            return Ok(());
        }
        let row = row.ok_or_else(|| corrupt(id, "named by a map, but not in the extent table"))?;
        *changes.live.entry(row.segment).or_default() += i64::from(row.live_bytes(&references));
        row.encode_into(&references, cleared(&mut self.scratch));
        self.index.put(&key, &self.scratch)?;
        Ok(())
    }
}

fn corrupt(id: ExtentId, what: &str) -> IndexError {
    IndexError::Corrupt(format!("extent {id}: {what}"))
}

fn decode(value: &[u8]) -> Result<ExtentRecord, IndexError> {
    ExtentRecord::decode(value).map_err(|error| IndexError::Corrupt(error.to_string()))
}
