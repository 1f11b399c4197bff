//! Applying a journal entry: shared by operations, recovery and, later, a standby (rule 15 of `docs/design.md`).

use crate::api::ids::ObjectId;
use crate::api::request::Durability;
use crate::cache::duplicate_requests::DuplicateRequestCache;
use crate::encoding::codec::Malformed;
use crate::encoding::entry::{Entry, Slot};
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record;
use crate::encoding::record::{ExtentMapping, ReplyRecord, Source};
use crate::file::extent_map::{decode_verified, memtable_mappings};
use crate::limits::STATE_KEY_BYTES_MAX;
use crate::tables::memtable::Memtable;
use crate::tables::usage::VolumeUsage;
use crate::transaction::change::clip_mapping;

/// Makes an entry's changes visible: records, usage, cached reply. The reply waits for `after`: the entry, and a
/// flush generation if what it shows depends on one.
pub fn apply(
    entry: Entry,
    after: Durability,
    memtable: &Memtable,
    usage: &VolumeUsage,
    duplicate_requests: &DuplicateRequestCache,
) {
    usage.apply(entry.volume, &entry.usage);
    memtable.add_usage(entry.volume, &entry.usage);
    if let Some(remembered) = entry.remembered {
        let record = ReplyRecord { time: remembered.time, seq: after.seq, answer: remembered.answer };
        duplicate_requests.insert(remembered.key.for_volume(entry.volume), record, after.flush, true);
    }
    memtable.apply(entry.records, &entry.fresh);
}

/// Applies an entry's records when entries of several memtables are replayed into one.
///
/// An operation clips the mappings that its own memtable holds; those of an older memtable it leaves, as lookups read
/// layer by layer. In one memtable they would overlap, so they are clipped here. If the entry did so itself, nothing
/// remains to be done.
pub fn overlay(memtable: &Memtable, records: Vec<(Key, Slot)>) {
    for (key, slot) in records {
        if let (Some((ino, end)), Some(value)) = (map_key(&key), &slot)
            && let Some(start) = ExtentMapping::start_of(end, value)
        {
            cut_back(memtable, ino, start, end);
        }
        memtable.apply([(key, slot)], &[]);
    }
}

fn cut_back(memtable: &Memtable, ino: ObjectId, start: u64, end: u64) {
    let mut older: Vec<(u64, ExtentMapping)> = Vec::new();
    memtable_mappings(memtable, ino, (start, end), &mut |_, old_end, old| {
        older.push((old_end, decode_verified(old)));
    });
    for (old_end, old) in older {
        memtable.apply([(key::map(ino, old_end), None)], &[]);
        for (from, to) in [(old.start, start), (end, old_end)] {
            if from < to {
                let cut = clip_mapping(&old, from, to).encode();
                memtable.apply([(key::map(ino, to), Some(cut.into()))], &[]);
            }
        }
    }
}

fn map_key(key: &[u8]) -> Option<(ObjectId, u64)> {
    match key::parse(key)? {
        (_, Table::Map, fields) => Some((key::object(key)?, key::second_number(fields)?)),
        _ => None,
    }
}

/// Checks a record read from media, so that everything in a memtable decodes.
///
/// # Errors
/// The key or the value is not in this release's format.
pub fn check_record(key: &[u8], slot: &Slot) -> Result<(), Malformed> {
    let (_, table, fields) = key::parse(key).ok_or(Malformed("key in a journal entry"))?;
    let numbers = match table {
        Table::Meta | Table::Reply | Table::State | Table::Volume => 0,
        Table::Usage | Table::Quota | Table::MapCount => 0,
        Table::Map | Table::Cookie => 2,
        _ => 1,
    };
    if fields.len() < numbers * 8
        || (table == Table::Reap && key::reaped(fields).is_none())
        || (table == Table::Quota && key::owner(fields).is_none())
        || (table == Table::Volume && key::volume_number(fields).is_none())
        || (table == Table::State && fields.len() > STATE_KEY_BYTES_MAX)
    {
        return Err(Malformed("key in a journal entry"));
    }
    let Some(value) = slot else { return Ok(()) };
    if table == Table::Map {
        let end = key::second_number(fields).ok_or(Malformed("map key"))?;
        let mapping = ExtentMapping::borrow(value)?;
        let length =
            end.checked_sub(mapping.start).filter(|length| *length > 0).ok_or(Malformed("map record"))?;
        return match mapping.source {
            Source::Inline(bytes) if bytes.len() as u64 != length => Err(Malformed("map record")),
            // Only a repair writes it, to the index.
            Source::Lost => Err(Malformed("map record")),
            Source::Extent { offset, .. }
                if u64::from(offset).saturating_add(length) > u64::from(u32::MAX) =>
            {
                Err(Malformed("map record"))
            }
            _ => Ok(()),
        };
    }
    record::check(table, value)
}

#[cfg(test)]
mod tests;
