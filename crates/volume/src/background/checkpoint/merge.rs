//! The index transaction of a checkpoint.

mod deletion;
mod map_counts;
mod reaping;
mod usage;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use super::destage::Destaged;
use super::{CheckpointError, Merged};
use crate::api::ids::{ExtentId, Ino, Layer, ObjectId, SegmentId, VolumeNumber};
use crate::encoding::anchor::Anchor;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::{
    ExtentMapping, ExtentRecord, InodeRecord, SegmentRecord, Source, VolumeRecord,
};
use crate::limits::{EXTENT_BYTES_MAX, REAPED_MAPPINGS_MAX};
use crate::pool::Pool;
use crate::schedule::checkpoints::Frozen;
use crate::segments::Segments;
use crate::tables::index::{Index, IndexError, LostRanges, Records};
use crate::transaction::change::clip_mapping;

/// Mappings read at a time.
const PAGE: usize = 1024;

/// For [`Merge::punch`]: no mapping ends there.
const NOTHING_LAID: u64 = 0;

impl Pool {
    /// Applies what was frozen to the index in one transaction.
    pub(super) fn merge(
        &self,
        index: &Index,
        frozen: &Frozen,
        records: &[(Key, Slot)],
        destaged: &Destaged,
        (anchor, lost): (Anchor, Option<&LostRanges>),
    ) -> Result<Merged, CheckpointError> {
        let update = index.begin()?;
        let mut merge = Merge {
            index: update.records()?,
            references: Vec::new(),
            map_counts: BTreeMap::new(),
            scratch: Vec::new(),
            outcome: Merged::default(),
            budget: REAPED_MAPPINGS_MAX,
        };
        merge.apply_records(records)?;
        merge.apply_usage(&frozen.memtable.usage.sorted(), &anchor)?;
        merge.apply_maps(destaged)?;
        merge.clear_truncated(records)?;
        merge.reap(self.checkpoints.last_reaped())?;
        merge.delete_volumes(&self.deletions.list())?;
        let map_counts = merge.apply_map_counts()?;
        let live = merge.apply_extents(records, destaged)?;
        merge.apply_segments(&self.segments, &live, frozen.memtable.layer, destaged)?;
        merge.put_next_inos(&frozen.next_inos)?;
        for key in frozen.replies.get().into_iter().flat_map(|replies| &replies.delete) {
            merge.index.delete(&key::reply(key.volume(), key.bytes()))?;
        }
        for (key, record) in frozen.replies.get().into_iter().flat_map(|replies| &replies.put) {
            merge.index.put(&key::reply(key.volume(), key.bytes()), &record.encode())?;
        }
        let (segment, ceiling) = (self.segments.next(), self.committer.time_ceiling());
        let next_volume = VolumeNumber(self.next_volume.load(Ordering::Relaxed));
        let meta = self.identity.meta(anchor, self.committer.generation(), segment, next_volume, ceiling);
        merge.index.put(&key::meta(), &meta.encode())?;
        let outcome = merge.done();
        if let Some(lost) = lost {
            update.put_lost(lost)?;
        }
        #[cfg(test)]
        self.hooks.reach(crate::hooks::Point::IndexChanged);
        update.commit()?;
        self.note_map_counts(&map_counts);
        *self.index_meta.lock() = meta;
        #[cfg(test)]
        self.hooks.reach(crate::hooks::Point::IndexCommitted);
        for (id, live) in live {
            self.segments.update(id, |info| info.live = info.live.wrapping_add_signed(live));
        }
        Ok(outcome)
    }
}

/// An index transaction in progress.
struct Merge<'u> {
    index: Records<'u>,
    /// Changes of extents' reference counts, as they come.
    references: Vec<(ExtentId, i64)>,
    /// Changes of the volumes' numbers of mappings.
    map_counts: BTreeMap<VolumeNumber, i64>,
    /// Buffer for encoding records.
    scratch: Vec<u8>,
    outcome: Merged,
    /// Mappings of removed and truncated files that may still be looked at.
    budget: usize,
}

impl Merge<'_> {
    /// Returns what it changed; closes the records.
    fn done(self) -> Merged {
        self.outcome
    }

    /// Writes the live bytes of segments, and deletes the rows of segments that nothing can refer to.
    fn apply_segments(
        &mut self,
        segments: &Segments,
        live: &BTreeMap<SegmentId, i64>,
        layer: Layer,
        destaged: &Destaged,
    ) -> Result<(), CheckpointError> {
        let destaged_to: BTreeSet<SegmentId> =
            destaged.extents.iter().map(|(_, record)| record.segment).collect();
        for (id, info) in segments.infos() {
            let (key, delta) = (key::segment(id), live.get(&id).copied().unwrap_or(0));
            let now = info.live.wrapping_add_signed(delta);
            let settled = info.sealed && info.pending == 0 && info.newest_layer <= layer;
            if now == 0 && settled && !destaged_to.contains(&id) {
                self.index.delete(&key)?;
                self.outcome.dead.push(id);
            } else if delta != 0
                || info.newest_layer >= layer
                || destaged_to.contains(&id)
                || self.index.is_lost(&key)
            {
                // Write the row even if only a newer memtable names the segment: the entry that journaled its
                // creation may be trimmed now.
                self.index.put(&key, &SegmentRecord { capacity: info.capacity, live: now }.encode())?;
            }
        }
        Ok(())
    }

    /// Puts and deletes records that need no other treatment. Memtables have counters and replies only if opening
    /// found one that does not decode: its deletion, before what is known is put.
    fn apply_records(&mut self, records: &[(Key, Slot)]) -> Result<(), IndexError> {
        for (key, slot) in records {
            let plain = matches!(
                key::parse(key),
                Some((
                    _,
                    Table::Inode
                        | Table::Name
                        | Table::Cookie
                        | Table::Symlink
                        | Table::State
                        | Table::Xattr
                        | Table::Orphan
                        | Table::Reap
                        | Table::Usage
                        | Table::Quota
                        | Table::Tree
                        | Table::MapCount
                        | Table::Volume
                        | Table::Reply,
                    _
                ))
            );
            match slot {
                _ if !plain => {}
                Some(value) => self.index.put(key, value)?,
                None => self.index.delete(key)?,
            }
        }
        Ok(())
    }

    /// Returns the record about a volume.
    fn volume(&self, volume: VolumeNumber) -> Result<Option<VolumeRecord>, IndexError> {
        let record = self.index.get(&key::volume(volume))?.map(|value| VolumeRecord::decode(&value));
        record.transpose().map_err(|error| IndexError::Corrupt(error.to_string()))
    }

    /// Raises the next inode numbers in the records of volumes. Writes them all, into new blocks of the index, as it is done with
    /// the record about the pool: damage of the older blocks then does no harm, though a cache hid it from this process.
    fn put_next_inos(&mut self, next_inos: &[(VolumeNumber, Ino)]) -> Result<(), IndexError> {
        for (volume, next) in next_inos {
            let key = key::volume(*volume);
            let Some(mut record) = self.volume(*volume)? else { continue };
            record.next_ino = record.next_ino.max(*next);
            self.index.put(&key, &record.encode())?;
        }
        Ok(())
    }

    /// Replaces older mappings with newer ones.
    fn apply_maps(&mut self, destaged: &Destaged) -> Result<(), CheckpointError> {
        for (id, mappings) in &destaged.maps {
            self.outcome.maps.insert(*id);
            for (end, mapping) in mappings {
                if mapping.source == Source::Hole {
                    self.punch(*id, (mapping.start, *end), NOTHING_LAID)?;
                } else {
                    self.lay(*id, *end, mapping)?;
                }
            }
        }
        self.outcome.maps.extend(&destaged.removed);
        Ok(())
    }

    /// Puts a mapping over what it covers: most often one mapping of the same size, whose record it replaces.
    fn lay(&mut self, id: ObjectId, end: u64, mapping: &ExtentMapping) -> Result<(), CheckpointError> {
        self.count(id.volume, mapping, 1);
        let key = key::map(id, end);
        mapping.encode_into(cleared(&mut self.scratch));
        let replaced = self.index.replace(&key, &self.scratch, ExtentMapping::decode)?;
        let Some(old) = replaced else { return self.punch(id, (mapping.start, end), end) };
        let old = old.map_err(|_| damaged_mapping(&key))?;
        self.count(id.volume, &old, -1);
        if old.start < mapping.start {
            self.put_mapping(id, mapping.start, &clip_mapping(&old, old.start, mapping.start))?;
        }
        if old.start > mapping.start { self.punch(id, (mapping.start, old.start), end) } else { Ok(()) }
    }

    /// Removes `[start, end)` from a file's map, except the mapping that ends at `laid` and is already in place.
    fn punch(&mut self, id: ObjectId, (start, end): (u64, u64), laid: u64) -> Result<(), CheckpointError> {
        let mut from = start;
        loop {
            let page = self.page(id, from, end)?;
            for (old_end, old) in page.iter().filter(|(old_end, _)| *old_end != laid) {
                self.drop_mapping(id, *old_end, old)?;
                if old.start < start {
                    self.put_mapping(id, start, &clip_mapping(old, old.start, start))?;
                }
                if *old_end > end {
                    self.put_mapping(id, *old_end, &clip_mapping(old, end, *old_end))?;
                    return Ok(());
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => from = *last,
                _ => return Ok(()),
            }
        }
    }

    /// Counts a mapping that comes or goes, and the reference to its extent.
    fn count(&mut self, volume: VolumeNumber, mapping: &ExtentMapping, change: i64) {
        *self.map_counts.entry(volume).or_default() += change;
        if let Source::Extent { id, .. } = mapping.source {
            self.references.push((id, change));
        }
    }

    fn put_mapping(&mut self, id: ObjectId, end: u64, mapping: &ExtentMapping) -> Result<(), IndexError> {
        self.count(id.volume, mapping, 1);
        mapping.encode_into(cleared(&mut self.scratch));
        self.index.put(&key::map(id, end), &self.scratch)
    }

    fn drop_mapping(&mut self, id: ObjectId, end: u64, mapping: &ExtentMapping) -> Result<(), IndexError> {
        self.count(id.volume, mapping, -1);
        self.index.delete(&key::map(id, end))
    }

    /// Returns a page of the mappings of a file that end after `from` and begin before `to`.
    fn page(&self, id: ObjectId, from: u64, to: u64) -> Result<Vec<(u64, ExtentMapping)>, CheckpointError> {
        let mut page = Vec::new();
        let mut damaged = None;
        self.index.scan(
            &key::map(id, from.saturating_add(1)),
            &key::map(id, u64::MAX),
            &mut |key, value| {
                let end = key::parse(key).and_then(|(_, _, fields)| key::second_number(fields));
                match (end, ExtentMapping::decode(value)) {
                    (Some(_), Ok(mapping)) if mapping.start >= to => return ControlFlow::Break(()),
                    (Some(end), Ok(mapping)) => page.push((end, mapping)),
                    _ => damaged = Some(key.to_vec()),
                }
                if page.len() == PAGE || damaged.is_some() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        )?;
        match damaged {
            Some(key) => Err(damaged_mapping(&key).into()),
            None => Ok(page),
        }
    }

    /// Updates the extent table: new and moved rows, and reference counts. Returns the change of each segment's live
    /// bytes.
    fn apply_extents(
        &mut self,
        records: &[(Key, Slot)],
        destaged: &Destaged,
    ) -> Result<BTreeMap<SegmentId, i64>, CheckpointError> {
        let mut moved: BTreeMap<ExtentId, ExtentRecord> = BTreeMap::new();
        for (key, slot) in records {
            if let (Some((_, Table::Extent, fields)), Some(value)) = (key::parse(key), slot) {
                let id = ExtentId(key::number(fields).unwrap_or_default());
                moved.insert(id, decode_extent(value)?);
            }
        }
        let mut changes = std::mem::take(&mut self.references);
        changes.extend(moved.keys().chain(destaged.extents.iter().map(|(id, _)| id)).map(|id| (*id, 0)));
        changes.sort_unstable();
        let mut written = destaged.extents.iter().peekable();
        let mut live: BTreeMap<SegmentId, i64> = BTreeMap::new();
        for of_extent in changes.chunk_by(|(id, _), (next, _)| id == next) {
            let id = of_extent[0].0;
            // The index has no rows yet for extents that this checkpoint wrote.
            let new = written.next_if(|(written, _)| *written == id).map(|(_, row)| Cow::Borrowed(row));
            let old = match &new {
                Some(_) => None,
                None => self.index.take(&key::extent(id), decode_extent)?.transpose()?,
            };
            let before = match &old {
                None if new.is_none() && self.index.is_lost(&key::extent(id)) => {
                    // Nobody knows how many mappings name it, so it is never freed. If it has no row, reads of it
                    // fail.
                    if !moved.contains_key(&id) {
                        continue;
                    }
                    ExtentRecord::REFERENCES_UNKNOWN
                }
                None => 0,
                Some(old) => old.references,
            };
            let references = match before {
                ExtentRecord::REFERENCES_UNKNOWN => i64::from(before),
                _ => i64::from(before) + of_extent.iter().map(|(_, change)| change).sum::<i64>(),
            };
            if let Some(old) = &old {
                *live.entry(old.segment).or_default() -= i64::from(old.stored);
            }
            let row = new.or_else(|| moved.remove(&id).or(old).map(Cow::Owned));
            match row {
                Some(row) if references > 0 => {
                    // With more mappings than can be counted it is never freed.
                    let references = u32::try_from(references).unwrap_or(ExtentRecord::REFERENCES_UNKNOWN);
                    *live.entry(row.segment).or_default() += i64::from(row.stored);
                    row.encode_into(references, cleared(&mut self.scratch));
                    self.index.put(&key::extent(id), &self.scratch)?;
                }
                _ if references < 0 => {
                    return Err(corrupt(id, "more references dropped than there were").into());
                }
                None if references > 0 => {
                    return Err(corrupt(id, "named by a map, but not in the extent table").into());
                }
                // No references remain, and the index no longer has the row.
                row => self.outcome.freed.push((id, row.map_or(EXTENT_BYTES_MAX, |row| row.length as usize))),
            }
        }
        live.retain(|_, delta| *delta != 0);
        Ok(live)
    }
}

/// Clears a buffer for reuse.
fn cleared(buffer: &mut Vec<u8>) -> &mut Vec<u8> {
    buffer.clear();
    buffer
}

fn damaged_mapping(key: &[u8]) -> IndexError {
    IndexError::Corrupt(format!("the map record at {key:02x?} does not decode"))
}

fn corrupt(id: ExtentId, what: &str) -> IndexError {
    IndexError::Corrupt(format!("extent {id}: {what}"))
}

fn decode_inode(value: &[u8]) -> Result<InodeRecord, IndexError> {
    InodeRecord::decode(value).map_err(|error| IndexError::Corrupt(error.to_string()))
}

fn decode_extent(value: &[u8]) -> Result<ExtentRecord, IndexError> {
    ExtentRecord::decode(value).map_err(|error| IndexError::Corrupt(error.to_string()))
}
