//! The maps of files. Where records of a map may be lost, or lead nowhere, a mapping of lost data takes their place.

use std::ops::ControlFlow;

use super::extents::Extents;
use super::pass::{Pass, each};
use super::records::correct_truncations;
use crate::api::attributes::FileType;
use crate::api::ids::{Ino, ObjectId, VolumeNumber};
use crate::count::count;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::{ExtentMapping, InodeRecord, Source, Span};
use crate::limits::FILE_BYTES_MAX;
use crate::offline::check::FaultKind;
use crate::offline::check::records::check_key;
use crate::offline::check::view::Found;
use crate::tables::index::IndexError;

/// The map of a file while it is repaired.
struct Map {
    ino: Ino,
    /// The file's record, unless it is lost.
    inode: Option<InodeRecord>,
    /// Whether no mapping can be trusted: the record of a truncation that is not complete is lost, or may be.
    is_doubtful: bool,
    /// Where the last mapping ended.
    end: u64,
    /// Whether mappings after that may be lost.
    has_gap: bool,
    lost_bytes: u64,
}

impl Map {
    /// Returns where the data of the file ends, if its record says so. A repair adds nothing beyond: it was cut off.
    fn bound(&self) -> u64 {
        self.inode
            .as_ref()
            .map_or(FILE_BYTES_MAX, |inode| inode.mapped_end.min(inode.size).min(FILE_BYTES_MAX))
    }

    /// Returns where truncations that are not complete cut off a mapping that ends at `end`.
    fn cut(&self, birth: u32, end: u64) -> u64 {
        self.inode.as_ref().map_or(end, |inode| end.min(inode.visible_end(birth)))
    }

    /// Returns the end of what the file shows of a mapping that ends at `end`.
    fn visible_end(&self, birth: u32, end: u64) -> u64 {
        self.cut(birth, end).min(self.bound())
    }
}

impl Pass<'_, '_> {
    /// Repairs all maps, and counts what each refers to.
    pub(super) fn mend_maps(&mut self, extents: &mut Extents) -> Result<(), IndexError> {
        let mut file: Option<Map> = None;
        let view = self.view;
        each(view, self.volume, Table::Map, &mut |fields, value| {
            let (Some(ino), Some(end)) = (key::number(fields).map(Ino), key::second_number(fields)) else {
                return Ok(());
            };
            if file.as_ref().is_none_or(|file| file.ino != ino) {
                if let Some(done) = file.take() {
                    self.finish_map(&done);
                }
                file = Some(self.open_map(ino)?);
            }
            match &mut file {
                Some(map) if !self.lacks_mappings(ino) => self.mend_mapping(map, end, value, extents),
                _ => Ok(()),
            }
        })?;
        if let Some(done) = file {
            self.finish_map(&done);
        }
        let files = self.objects.iter().filter(|(_, object)| object.file_type == FileType::Regular);
        let lacking: Vec<Ino> = files.map(|(ino, _)| *ino).filter(|ino| self.lacks_mappings(*ino)).collect();
        lacking.into_iter().try_for_each(|ino| self.mend_lacking(ino, extents))
    }

    /// Counts what the maps of a deleted volume refer to: checkpoints go on removing them.
    pub(super) fn count_deleted(
        &self,
        volume: VolumeNumber,
        extents: &mut Extents,
    ) -> Result<(), IndexError> {
        each(self.view, volume, Table::Map, &mut |fields, value| {
            let end = key::second_number(fields).unwrap_or_default();
            refer(extents, ExtentMapping::decode(value).ok().as_ref(), end);
            Ok(())
        })
    }

    /// Whether mappings of an object may be lost.
    fn lacks_mappings(&self, ino: Ino) -> bool {
        let (from, to) = map_range(self.volume.object(ino));
        self.objects.contains_key(&ino) && self.view.has_lost(&from, &to)
    }

    /// Begins with a file. One whose record is lost gets a new one; what was removed is freed.
    fn open_map(&mut self, ino: Ino) -> Result<Map, IndexError> {
        let mut inode = self
            .view
            .get(&key::inode(self.volume.object(ino)))?
            .and_then(|value| InodeRecord::decode(&value).ok());
        inode.iter_mut().for_each(correct_truncations);
        let is_reaped = self.reap.contains(&ino);
        let is_doubtful = inode.is_none() && (is_reaped || self.is_lost(&key::reap(self.volume.object(ino))));
        if !self.objects.contains_key(&ino) && !is_reaped {
            if self.is_lost(&key::inode(self.volume.object(ino))) {
                self.recreate(ino, FileType::Regular);
            } else {
                self.free(ino)?;
            }
        }
        Ok(Map { ino, inode, is_doubtful, end: 0, has_gap: false, lost_bytes: 0 })
    }

    fn finish_map(&mut self, map: &Map) {
        if map.lost_bytes > 0 {
            let what = format!("it has lost {} of data: reads there fail", count(map.lost_bytes, "byte"));
            self.changes.list(FaultKind::Data, map.ino, what);
            self.changes.tally.lost_bytes = self.changes.tally.lost_bytes.saturating_add(map.lost_bytes);
        }
    }

    /// Repairs the map of a file of which records may be lost.
    fn mend_lacking(&mut self, ino: Ino, extents: &mut Extents) -> Result<(), IndexError> {
        let view = self.view;
        let mut map = self.open_map(ino)?;
        let (from, to) = map_range(self.volume.object(ino));
        let tells_gaps = !self.is_complete(&map)?;
        let mut result = Ok(());
        view.each_in_index(&from, &to, &mut |found| {
            match found {
                Found::Lost(_) => map.has_gap = tells_gaps,
                Found::Record(key, value) => {
                    let fields = key::parse(key).map_or(&[][..], |(_, _, fields)| fields);
                    let is_sound = check_key(Table::Map, fields).is_ok();
                    let end = key::second_number(fields).filter(|_| is_sound);
                    result = end.map_or(Ok(()), |end| self.mend_mapping(&mut map, end, value, extents));
                }
            }
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result?;
        // Where a file without a record ended is unknown.
        let end = if map.inode.is_some() { map.bound() } else { 0 };
        self.fill_gap(&mut map, end)?;
        self.finish_map(&map);
        Ok(())
    }

    /// Whether nothing of a map is lost although records may be: the bytes that are known are all that the file has. That is
    /// certain only if the loss is new, as changes of a file that lacks mappings cannot count what they replace.
    fn is_complete(&self, map: &Map) -> Result<bool, IndexError> {
        let (from, to) = map_range(self.volume.object(map.ino));
        let Some(inode) = map.inode.as_ref().filter(|_| !self.known.meets(&from, &to)) else {
            return Ok(false);
        };
        let mut known = 0_u64;
        self.view.each_in_index(&from, &to, &mut |found| {
            if let Found::Record(key, value) = found
                && let Some((_, _, fields)) = key::parse(key)
                && let (Some(end), Ok(mapping)) = (key::second_number(fields), ExtentMapping::decode(value))
            {
                let end = map.visible_end(mapping.birth, end);
                known = known.saturating_add(end.saturating_sub(mapping.start));
            }
            ControlFlow::Continue(())
        })?;
        Ok(known == inode.used)
    }

    /// Repairs one mapping, and the gap before it.
    fn mend_mapping(
        &mut self,
        map: &mut Map,
        end: u64,
        value: &[u8],
        extents: &mut Extents,
    ) -> Result<(), IndexError> {
        let (ino, key) = (map.ino, key::map(self.volume.object(map.ino), end));
        let Some(file_type) = self.objects.get(&ino).map(|object| object.file_type) else {
            // It is freed later, with what it refers to.
            refer(extents, ExtentMapping::decode(value).ok().as_ref(), end);
            return Ok(());
        };
        let decoded = ExtentMapping::decode(value).ok();
        let start = decoded.as_ref().map_or(map.end, |mapping| mapping.start.max(map.end));
        let is_hole = matches!(&decoded, Some(mapping) if mapping.source == Source::Hole);
        if file_type != FileType::Regular || end > FILE_BYTES_MAX || start >= end || is_hole {
            self.changes.tally.records_dropped += 1;
            return self.out.delete(&key);
        }
        self.fill_gap(map, start)?;
        let birth = decoded.as_ref().map_or(u32::MAX, |mapping| mapping.birth);
        let visible_end = map.visible_end(birth, end);
        let sound = decoded.filter(|mapping| mapping.start == start && is_backed(mapping, end, extents));
        let sound = sound.filter(|_| !map.is_doubtful);
        // Checkpoints free what is cut off, as long as it is known what that is.
        let is_kept = sound.is_some() && map.cut(birth, end) <= map.bound();
        if !is_kept && visible_end <= start {
            self.changes.tally.records_dropped += 1;
            return self.out.delete(&key);
        }
        let end_then = if is_kept { end } else { visible_end };
        if end_then != end {
            self.out.delete(&key)?;
        }
        match sound {
            Some(mapping) => {
                refer(extents, Some(&mapping), end_then);
                self.count_mapping(map, end_then, &mapping);
                if end_then != end {
                    self.out.put(&key::map(self.volume.object(ino), end_then), &mapping.encode())?;
                }
            }
            None => self.put_lost(map, start, end_then)?,
        }
        map.end = end_then;
        Ok(())
    }

    /// Has reads fail from the last mapping to `to`, if mappings there may be lost.
    fn fill_gap(&mut self, map: &mut Map, to: u64) -> Result<(), IndexError> {
        let to = to.min(map.bound());
        if !std::mem::take(&mut map.has_gap) || map.end >= to {
            return Ok(());
        }
        let start = map.end;
        self.put_lost(map, start, to)?;
        map.end = to;
        Ok(())
    }

    fn put_lost(&mut self, map: &mut Map, start: u64, end: u64) -> Result<(), IndexError> {
        let birth = map.inode.as_ref().map_or(0, |inode| inode.truncations);
        let lost = ExtentMapping { start, birth, source: Source::Lost };
        self.count_mapping(map, end, &lost);
        map.lost_bytes = map.lost_bytes.saturating_add(end - start);
        self.out.put(&key::map(self.volume.object(map.ino), end), &lost.encode())
    }

    fn count_mapping(&mut self, map: &Map, end: u64, mapping: &ExtentMapping) {
        let Some(object) = self.objects.get_mut(&map.ino) else { return };
        object.birth_max = object.birth_max.max(mapping.birth);
        let end = map.visible_end(mapping.birth, end);
        if mapping.start < end {
            object.mapped = object.mapped.saturating_add(end - mapping.start);
            object.mapped_end = object.mapped_end.max(end);
        }
    }
}

/// Returns the first key of a file's map, and the key after the last.
fn map_range(file: ObjectId) -> (Key, Key) {
    (key::map(file, 0), key::map(file, u64::MAX).successor())
}

/// Whether the data of a mapping may be readable, or is known to be lost.
fn is_backed(mapping: &ExtentMapping, end: u64, extents: &Extents) -> bool {
    match mapping.source {
        Source::Lost => true,
        Source::Extent { id, offset } => extents.get(&id).is_some_and(|extent| {
            let length = end - mapping.start;
            u64::from(offset) + length <= u64::from(extent.length)
                && extent.kept.has(Span::of(offset, length))
        }),
        Source::Inline(_) | Source::Hole => false,
    }
}

/// Counts that a mapping names an extent.
fn refer(extents: &mut Extents, mapping: Option<&ExtentMapping>, end: u64) {
    if let Some(ExtentMapping { start, source: Source::Extent { id, offset }, .. }) = mapping
        && let Some(extent) = extents.get_mut(id)
    {
        extent.references.add(Span::of(*offset, end.saturating_sub(*start)));
    }
}
