//! The index transaction of a checkpoint.

mod deletion;
mod extents;
mod map_counts;
mod reaping;
mod usage;

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
use crate::encoding::record::{ExtentMapping, InodeRecord, SegmentRecord, Source, Span, VolumeRecord};
use crate::limits::REAPED_MAPPINGS_MAX;
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

/// A mapping of sectors of an extent comes or goes: how many times more they are named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reference {
    extent: ExtentId,
    span: Span,
    change: i32,
}

impl Reference {
    /// For an extent whose row changes.
    fn none(extent: ExtentId) -> Reference {
        Reference { extent, span: Span::NONE, change: 0 }
    }
}

/// An index transaction in progress.
struct Merge<'u> {
    index: Records<'u>,
    /// Changes of extents' reference counts, as they come.
    references: Vec<Reference>,
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
        self.count(id.volume, (mapping, end), 1);
        let key = key::map(id, end);
        mapping.encode_into(cleared(&mut self.scratch));
        let replaced = self.index.replace(&key, &self.scratch, ExtentMapping::decode)?;
        let Some(old) = replaced else { return self.punch(id, (mapping.start, end), end) };
        let old = old.map_err(|_| damaged_mapping(&key))?;
        self.count(id.volume, (&old, end), -1);
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

    /// Counts a mapping that comes or goes, and the reference to what it names of its extent.
    fn count(&mut self, volume: VolumeNumber, (mapping, end): (&ExtentMapping, u64), change: i32) {
        *self.map_counts.entry(volume).or_default() += i64::from(change);
        if let Source::Extent { id, offset } = mapping.source {
            let span = Span::of(offset, end.saturating_sub(mapping.start));
            self.references.push(Reference { extent: id, span, change });
        }
    }

    fn put_mapping(&mut self, id: ObjectId, end: u64, mapping: &ExtentMapping) -> Result<(), IndexError> {
        self.count(id.volume, (mapping, end), 1);
        mapping.encode_into(cleared(&mut self.scratch));
        self.index.put(&key::map(id, end), &self.scratch)
    }

    fn drop_mapping(&mut self, id: ObjectId, end: u64, mapping: &ExtentMapping) -> Result<(), IndexError> {
        self.count(id.volume, (mapping, end), -1);
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
}

/// Clears a buffer for reuse.
fn cleared(buffer: &mut Vec<u8>) -> &mut Vec<u8> {
    buffer.clear();
    buffer
}

fn damaged_mapping(key: &[u8]) -> IndexError {
    IndexError::Corrupt(format!("the map record at {key:02x?} does not decode"))
}

fn decode_inode(value: &[u8]) -> Result<InodeRecord, IndexError> {
    InodeRecord::decode(value).map_err(|error| IndexError::Corrupt(error.to_string()))
}
