//! Extents and segments: how often each extent is named, and how many bytes of each segment are in use.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::pass::{Pass, each};
use crate::api::ids::{ExtentId, SegmentId};
use crate::encoding::key;
use crate::encoding::key::{POOL, Table};
use crate::encoding::record::{ExtentHeader, ExtentRecord, Kept, References, SegmentRecord, sectors};
use crate::limits::EXTENT_BYTES_MAX;
use crate::media::BLOCK_BYTES;
use crate::tables::index::IndexError;

/// An extent whose data may be readable.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    /// Its bytes.
    pub length: u32,
    /// Which parts are stored.
    pub kept: Kept,
    /// Mappings that name it, as those of the largest extents.
    pub references: References,
}

/// All such extents.
pub(super) type Extents = HashMap<ExtentId, Extent>;

/// What the extents in a segment use of it.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    live: u64,
    end: u64,
}

impl Pass<'_, '_> {
    /// Loads the extents. Those that lie nowhere are dropped.
    pub(super) fn load_extents(&mut self, blobs: &[SegmentId]) -> Result<Extents, IndexError> {
        let present: BTreeSet<SegmentId> = blobs.iter().copied().collect();
        let mut extents = Extents::new();
        let view = self.view;
        each(view, POOL, Table::Extent, &mut |fields, value| {
            let (Some(id), Ok(row)) = (key::number(fields).map(ExtentId), ExtentRecord::decode(value)) else {
                return Ok(());
            };
            let is_placed = present.contains(&row.segment)
                && row.offset >= BLOCK_BYTES + ExtentHeader::BYTES as u64
                && row.stored > 0
                && row.stored as usize <= EXTENT_BYTES_MAX;
            if is_placed {
                extents
                    .insert(id, Extent { length: row.length, kept: row.kept, references: References::NONE });
                return Ok(());
            }
            self.changes.tally.records_dropped += 1;
            self.out.delete(&key::extent(id))
        })?;
        Ok(extents)
    }

    /// Writes the counts of references and of live bytes. Returns the next segment number.
    pub(super) fn mend_extents(&mut self, extents: &Extents) -> Result<u64, IndexError> {
        let mut segments: BTreeMap<SegmentId, Used> = BTreeMap::new();
        let view = self.view;
        each(view, POOL, Table::Extent, &mut |fields, value| {
            let (Some(id), Ok(mut row)) = (key::number(fields).map(ExtentId), ExtentRecord::decode(value))
            else {
                return Ok(());
            };
            let Some(extent) = extents.get(&id) else { return Ok(()) };
            let references = extent.references.clipped(sectors(row.length));
            if references == References::NONE {
                self.changes.tally.extents_freed += 1;
                return self.out.delete(&key::extent(id));
            }
            let used = segments.entry(row.segment).or_default();
            let end = row.offset.saturating_add(u64::from(row.stored));
            used.live = used.live.saturating_add(row.live_bytes(&references).into());
            used.end = used.end.max(end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(end));
            if row.references == references {
                return Ok(());
            }
            row.references = references;
            self.changes.tally.counts_corrected += 1;
            self.out.put(&key::extent(id), &row.encode())
        })?;
        self.mend_segments(segments)
    }

    fn mend_segments(&mut self, mut used: BTreeMap<SegmentId, Used>) -> Result<u64, IndexError> {
        let next = used.last_key_value().map_or(0, |(id, _)| id.0 + 1);
        let view = self.view;
        each(view, POOL, Table::Segment, &mut |fields, value| {
            let (Some(id), Ok(row)) = (key::number(fields).map(SegmentId), SegmentRecord::decode(value))
            else {
                return Ok(());
            };
            let of_segment = used.remove(&id);
            let Used { live, end } = of_segment.unwrap_or_default();
            let mended = SegmentRecord { capacity: row.capacity.max(end), live };
            if mended == row {
                return Ok(());
            }
            self.changes.tally.counts_corrected += 1;
            match of_segment {
                Some(_) => self.out.put(&key::segment(id), &mended.encode()),
                // The next start deletes its file.
                None => self.out.delete(&key::segment(id)),
            }
        })?;
        for (id, Used { live, end }) in used {
            self.changes.tally.counts_corrected += 1;
            self.out.put(&key::segment(id), &SegmentRecord { capacity: end, live }.encode())?;
        }
        Ok(next)
    }
}
