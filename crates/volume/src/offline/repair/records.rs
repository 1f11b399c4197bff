//! Writes the records of objects as they were counted, and the usage counters.

use std::collections::BTreeMap;

use super::objects::Object;
use super::pass::{Pass, each};
use crate::api::attributes::FileType;
use crate::api::ids::Ino;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::{InodeRecord, MapCountRecord, PendingTruncation, UsageRecord};
use crate::limits::FILE_BYTES_MAX;
use crate::tables::index::IndexError;
use crate::tables::usage;

/// Bits of a change value that count within a generation.
const CHANGE_COUNTER_BITS: u32 = 40;

impl Pass<'_, '_> {
    /// Writes the records of all objects that differ from what they should be, and everything that is counted from them.
    pub(super) fn mend_objects(&mut self) -> Result<(), IndexError> {
        let mut totals: BTreeMap<Key, UsageRecord> = BTreeMap::new();
        let mut objects = std::mem::take(&mut self.objects);
        for (ino, object) in &mut objects {
            let record = self.mend_object(*ino, object)?;
            for delta in usage::whole(&record) {
                let total = totals.entry(key::usage(self.volume, delta.kind.byte(), delta.id)).or_default();
                total.bytes = total.bytes.saturating_add_signed(delta.bytes);
                total.inodes = total.inodes.saturating_add_signed(delta.inodes);
            }
        }
        self.objects = objects;
        self.mend_orphans()?;
        self.mend_usage(totals)
    }

    fn mend_object(&mut self, ino: Ino, object: &Object) -> Result<InodeRecord, IndexError> {
        let old = match object.is_new {
            true => None,
            false => self
                .view
                .get(&key::inode(self.volume.object(ino)))?
                .and_then(|value| InodeRecord::decode(&value).ok()),
        };
        let mut record = old.clone().unwrap_or_else(|| self.new_record(object));
        correct(&mut record, ino, object);
        if !record.pending_truncations.is_empty() && self.reap.insert(ino) {
            // Otherwise no checkpoint would complete them.
            self.out.put(&key::reap(self.volume.object(ino)), &[])?;
        }
        if old.as_ref() == Some(&record) && !object.is_changed {
            return Ok(record);
        }
        if !object.is_new {
            self.changes.tally.objects_corrected += 1;
        }
        if object.is_changed {
            record.mtime = self.stamp.time;
        }
        record.ctime = self.stamp.time;
        let generation = u64::from(self.stamp.generation.0) << CHANGE_COUNTER_BITS;
        record.change = record.change.saturating_add(1).max(generation);
        self.out.put(&key::inode(self.volume.object(ino)), &record.encode())?;
        Ok(record)
    }

    fn mend_orphans(&mut self) -> Result<(), IndexError> {
        let orphans: Vec<Ino> =
            self.objects.iter().filter(|(_, object)| object.is_orphan).map(|(ino, _)| *ino).collect();
        let view = self.view;
        each(view, self.volume, Table::Orphan, &mut |fields, _| {
            let ino = Ino(key::number(fields).unwrap_or(0));
            if orphans.binary_search(&ino).is_ok() {
                Ok(())
            } else {
                self.out.delete(&key::orphan(self.volume.object(ino)))
            }
        })?;
        for ino in orphans {
            if self.view.get(&key::orphan(self.volume.object(ino)))?.is_none() {
                self.out.put(&key::orphan(self.volume.object(ino)), &[])?;
            }
        }
        Ok(())
    }

    /// Counts the mappings as the repaired index has them.
    pub(super) fn mend_map_count(&mut self) -> Result<(), IndexError> {
        let (mappings, key) = (self.out.count(self.volume, Table::Map)?, key::map_count(self.volume));
        let stored = self.out.get(&key)?;
        let is_right = match &stored {
            None => mappings == 0,
            Some(value) => mappings > 0 && MapCountRecord::decode(value) == Ok(MapCountRecord { mappings }),
        };
        if is_right {
            return Ok(());
        }
        self.changes.tally.counts_corrected += 1;
        if mappings == 0 {
            self.out.delete(&key)
        } else {
            self.out.put(&key, &MapCountRecord { mappings }.encode())
        }
    }

    fn mend_usage(&mut self, mut totals: BTreeMap<Key, UsageRecord>) -> Result<(), IndexError> {
        let view = self.view;
        each(view, self.volume, Table::Usage, &mut |fields, value| {
            let Some((kind, id)) = fields.split_first() else { return Ok(()) };
            let key = key::usage(self.volume, *kind, key::number(id).unwrap_or(0));
            let Some(total) = totals.remove(&key) else {
                self.changes.tally.counts_corrected += 1;
                return self.out.delete(&key);
            };
            if UsageRecord::decode(value) == Ok(total) {
                return Ok(());
            }
            self.changes.tally.counts_corrected += 1;
            self.out.put(&key, &total.encode())
        })?;
        for (key, total) in totals {
            self.changes.tally.counts_corrected += 1;
            self.out.put(&key, &total.encode())?;
        }
        Ok(())
    }
}

/// Sets the fields of a record that follow from other records.
fn correct(record: &mut InodeRecord, ino: Ino, object: &Object) {
    let is_directory = object.is_directory();
    record.file_type = object.file_type;
    record.mode &= 0o7777;
    record.links = if is_directory { object.subdirectories.saturating_add(2) } else { object.names };
    if is_directory {
        let parent = object.first.map_or(Ino::ROOT, |(parent, _)| parent);
        record.parent = if ino == Ino::ROOT { Ino::ROOT } else { parent };
        record.next_cookie = record.next_cookie.max(object.next_cookie);
        record.entries = object.entries;
    } else {
        record.parent = Ino(0);
    }
    record.tree = object.tree;
    (record.xattrs, record.xattr_bytes) = object.xattrs;
    record.used = object.mapped;
    if object.file_type == FileType::Regular {
        record.truncations = record.truncations.max(object.birth_max);
        correct_truncations(record);
        if object.is_new {
            (record.mapped_end, record.size) = (object.mapped_end, object.mapped_end);
        }
        record.size = record.size.min(FILE_BYTES_MAX);
        record.mapped_end = record.mapped_end.min(record.size);
    } else {
        record.mapped_end = 0;
        record.pending_truncations.clear();
        record.size = object.target_bytes.map_or(0, |bytes| bytes as u64);
    }
}

/// Leaves the pending truncations that can stand beside each other: a newer one is at a greater offset.
pub(super) fn correct_truncations(record: &mut InodeRecord) {
    let is_ordered =
        |pair: &[PendingTruncation]| pair[0].from < pair[1].from && pair[0].count < pair[1].count;
    if !record.pending_truncations.windows(2).all(is_ordered) {
        let mut truncations = std::mem::take(&mut record.pending_truncations);
        truncations.sort_by_key(|cut| cut.count);
        for cut in truncations {
            record.pending_truncations.retain(|older| older.from < cut.from && older.count < cut.count);
            record.pending_truncations.push(cut);
        }
    }
    let highest = record.pending_truncations.last().map_or(0, |cut| cut.count);
    record.truncations = record.truncations.max(highest);
}
