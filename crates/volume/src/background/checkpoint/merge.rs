//! The index transaction of a checkpoint.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::destage::Destaged;
use super::{CheckpointError, Merged};
use crate::api::ids::{ExtentId, Ino, Layer, SegmentId};
use crate::encoding::anchor::Anchor;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Key, Table};
use crate::encoding::record::{ExtentMapping, ExtentRecord, InodeRecord, MetaRecord, SegmentRecord, Source};
use crate::limits::{EXTENT_BYTES_MAX, REAPED_MAPPINGS_MAX};
use crate::schedule::checkpoints::Frozen;
use crate::segments::Segments;
use crate::tables::index::{Index, IndexError, LostRanges, Records};
use crate::transaction::change::clip_mapping;
use crate::volume::Volume;

/// Mappings read at a time.
const PAGE: usize = 1024;

/// For [`Merge::punch`]: no mapping ends there.
const NOTHING_LAID: u64 = 0;

impl Volume {
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
            scratch: Vec::new(),
            outcome: Merged::default(),
            budget: REAPED_MAPPINGS_MAX,
        };
        merge.apply_records(records)?;
        self.identity.raise_format(format_of(records));
        merge.apply_maps(destaged)?;
        merge.clear_truncated(records)?;
        merge.reap()?;
        let live = merge.apply_extents(records, destaged)?;
        merge.apply_segments(&self.segments, &live, frozen.memtable.layer, destaged)?;
        for (key, usage) in &frozen.usage {
            match usage {
                Some(usage) => merge.index.put(key, &usage.encode())?,
                None => merge.index.delete(key)?,
            }
        }
        for key in &frozen.replies.delete {
            merge.index.delete(&key::reply(&key.0))?;
        }
        for (key, record) in &frozen.replies.put {
            merge.index.put(&key::reply(&key.0), &record.encode())?;
        }
        let (segment, ceiling) = (self.segments.next(), self.committer.time_ceiling());
        let meta = self.identity.meta(anchor, self.committer.generation(), segment, ceiling);
        merge.index.put(&key::meta(), &meta.encode())?;
        let outcome = merge.done();
        if let Some(lost) = lost {
            update.put_lost(lost)?;
        }
        #[cfg(test)]
        self.hooks.reach(crate::hooks::Point::IndexChanged);
        update.commit()?;
        *self.index_meta.lock() = meta;
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
    /// Buffer for encoding records.
    scratch: Vec<u8>,
    outcome: Merged,
    /// Mappings of removed and truncated files that may still be freed.
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

    /// Replaces older mappings with newer ones.
    fn apply_maps(&mut self, destaged: &Destaged) -> Result<(), CheckpointError> {
        for (ino, mappings) in &destaged.maps {
            self.outcome.maps.insert(*ino);
            for (end, mapping) in mappings {
                if mapping.source == Source::Hole {
                    self.punch(*ino, (mapping.start, *end), NOTHING_LAID)?;
                } else {
                    self.lay(*ino, *end, mapping)?;
                }
            }
        }
        self.outcome.maps.extend(&destaged.removed);
        Ok(())
    }

    /// Puts a mapping over what it covers: most often one mapping of the same size, whose record it replaces.
    fn lay(&mut self, ino: Ino, end: u64, mapping: &ExtentMapping) -> Result<(), CheckpointError> {
        self.count(mapping, 1);
        let key = key::map(ino, end);
        mapping.encode_into(cleared(&mut self.scratch));
        let replaced = self.index.replace(&key, &self.scratch, ExtentMapping::decode)?;
        let Some(old) = replaced else { return self.punch(ino, (mapping.start, end), end) };
        let old = old.map_err(|_| damaged_mapping(&key))?;
        self.count(&old, -1);
        if old.start < mapping.start {
            self.put_mapping(ino, mapping.start, &clip_mapping(&old, old.start, mapping.start))?;
        }
        if old.start > mapping.start { self.punch(ino, (mapping.start, old.start), end) } else { Ok(()) }
    }

    /// Removes `[start, end)` from a file's map, except the mapping that ends at `laid` and is already in place.
    fn punch(&mut self, ino: Ino, (start, end): (u64, u64), laid: u64) -> Result<(), CheckpointError> {
        let mut from = start;
        loop {
            let page = self.page(ino, from, end)?;
            for (old_end, old) in page.iter().filter(|(old_end, _)| *old_end != laid) {
                self.drop_mapping(ino, *old_end, old)?;
                if old.start < start {
                    self.put_mapping(ino, start, &clip_mapping(old, old.start, start))?;
                }
                if *old_end > end {
                    self.put_mapping(ino, *old_end, &clip_mapping(old, end, *old_end))?;
                    return Ok(());
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => from = *last,
                _ => return Ok(()),
            }
        }
    }

    /// Changes the references of a mapping's extent.
    fn count(&mut self, mapping: &ExtentMapping, change: i64) {
        if let Source::Extent { id, .. } = mapping.source {
            self.references.push((id, change));
        }
    }

    fn put_mapping(&mut self, ino: Ino, end: u64, mapping: &ExtentMapping) -> Result<(), IndexError> {
        self.count(mapping, 1);
        mapping.encode_into(cleared(&mut self.scratch));
        self.index.put(&key::map(ino, end), &self.scratch)
    }

    fn drop_mapping(&mut self, ino: Ino, end: u64, mapping: &ExtentMapping) -> Result<(), IndexError> {
        self.count(mapping, -1);
        self.index.delete(&key::map(ino, end))
    }

    /// Returns a page of the mappings of a file that end after `from` and begin before `to`.
    fn page(&self, ino: Ino, from: u64, to: u64) -> Result<Vec<(u64, ExtentMapping)>, CheckpointError> {
        let mut page = Vec::new();
        let mut damaged = None;
        self.index.scan(
            &key::map(ino, from.saturating_add(1)),
            &key::map(ino, u64::MAX),
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

    /// Frees what truncations hid; a record loses its pending truncations once they are done.
    fn clear_truncated(&mut self, records: &[(Key, Slot)]) -> Result<(), CheckpointError> {
        for (key, slot) in records {
            let (Some((_, Table::Inode, fields)), Some(value)) = (key::parse(key), slot) else { continue };
            let ino = Ino(key::number(fields).unwrap_or_default());
            let record = decode_inode(value)?;
            if !record.pending_truncations.is_empty() {
                self.clear_truncated_of(ino, record)?;
            }
        }
        Ok(())
    }

    fn clear_truncated_of(&mut self, ino: Ino, mut record: InodeRecord) -> Result<(), CheckpointError> {
        self.outcome.maps.insert(ino);
        let mut from = record.pending_truncations.iter().map(|cut| cut.from).min().unwrap_or(u64::MAX);
        loop {
            let page = self.page(ino, from, u64::MAX)?;
            for (end, mapping) in &page {
                let visible = record.visible_end(mapping.birth);
                if visible >= *end {
                    continue;
                }
                self.drop_mapping(ino, *end, mapping)?;
                if visible > mapping.start {
                    self.put_mapping(ino, visible, &clip_mapping(mapping, mapping.start, visible))?;
                }
                self.budget = self.budget.saturating_sub(1);
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE && self.budget > 0 => from = *last,
                Some(_) if page.len() == PAGE => {
                    self.outcome.more_to_reap = true;
                    self.index.put(&key::reap(ino), &[])?;
                    return Ok(());
                }
                _ => break,
            }
        }
        self.outcome.cleared.push((ino, record.truncations));
        record.pending_truncations.clear();
        self.index.put(&key::inode(ino), &record.encode())?;
        Ok(())
    }

    /// Frees the maps of removed files, and continues with truncations that were too large for an earlier checkpoint. If
    /// the record of an inode is lost, its map stays, as nobody knows whether the file was removed.
    fn reap(&mut self) -> Result<(), CheckpointError> {
        for ino in self.waiting_to_be_reaped()? {
            if self.budget == 0 {
                self.outcome.more_to_reap = true;
                return Ok(());
            }
            self.outcome.maps.insert(ino);
            if let Some(value) = self.index.get(&key::inode(ino))? {
                let record = decode_inode(&value)?;
                self.index.delete(&key::reap(ino))?;
                self.clear_truncated_of(ino, record)?;
            } else if !self.index.is_lost(&key::inode(ino)) {
                self.reap_removed(ino)?;
            }
        }
        Ok(())
    }

    fn reap_removed(&mut self, ino: Ino) -> Result<(), CheckpointError> {
        loop {
            let page = self.page(ino, 0, u64::MAX)?;
            for (end, mapping) in &page {
                self.drop_mapping(ino, *end, mapping)?;
            }
            self.budget = self.budget.saturating_sub(page.len());
            if page.len() < PAGE {
                self.reap_xattrs(ino)?;
                self.index.delete(&key::reap(ino))?;
                return Ok(());
            }
            if self.budget == 0 {
                self.outcome.more_to_reap = true;
                return Ok(());
            }
        }
    }

    /// Deletes the extended attributes of a removed object: few, as their bytes are bounded.
    fn reap_xattrs(&mut self, ino: Ino) -> Result<(), IndexError> {
        let mut keys: Vec<Key> = Vec::new();
        let (from, to) = (key::xattr(ino, b""), key::xattr(Ino(ino.0.saturating_add(1)), b""));
        self.index.scan(&from, &to, &mut |key, _| {
            keys.push(key.into());
            ControlFlow::Continue(())
        })?;
        self.budget = self.budget.saturating_sub(keys.len());
        keys.iter().try_for_each(|key| self.index.delete(key))
    }

    /// Returns files of the reap table, as many as the budget could serve.
    fn waiting_to_be_reaped(&self) -> Result<Vec<Ino>, CheckpointError> {
        let mut waiting = Vec::new();
        let (from, to) = key::table_range(FIRST, Table::Reap);
        self.index.scan(&from, &to, &mut |key, _| {
            waiting.extend(key::parse(key).and_then(|(_, _, fields)| key::number(fields)).map(Ino));
            if waiting.len() >= REAPED_MAPPINGS_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(waiting)
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
                    let references =
                        u32::try_from(references).map_err(|_| corrupt(id, "too many references"))?;
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

/// Returns the format of a volume that holds these records.
fn format_of(records: &[(Key, Slot)]) -> u32 {
    let formats = records.iter().filter_map(|(key, _)| Some(MetaRecord::format_of(key::parse(key)?.1)));
    formats.max().unwrap_or(MetaRecord::FORMAT_FIRST)
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
