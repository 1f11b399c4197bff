//! An entry in the making.

use std::ops::Range;

use super::{COUNT_BYTES, Entry, PUT, Remembered, Slot, UsageDelta, encode_record, encoded_count};
use crate::bytes::{Bytes, Value};
use crate::codec::Write;
use crate::key::Key;
use crate::record::MapRecord;

/// What an entry without file data takes at most, mostly, bytes: no more than a thread's cache of memory holds.
const SMALL_BYTES: usize = 1000;

/// What an entry with file data takes beside it, mostly, bytes: it is kept as long as the data.
const BESIDE_DATA_BYTES: usize = 320;

/// An entry that is encoded while it is made. File data is copied once: to where the journal takes it from, and where
/// lookups find it.
#[derive(Debug, Default)]
pub struct Draft {
    entry: Entry,
    bytes: Vec<u8>,
    /// Records whose values are in `bytes` only, and where.
    values: Vec<(usize, Range<usize>)>,
}

impl Draft {
    /// The records so far; of pieces of maps with inline data the keys only.
    pub fn records(&self) -> &[(Key, Slot)] {
        &self.entry.records
    }

    /// Puts or deletes a record.
    pub fn push(&mut self, key: Key, slot: Slot) {
        self.prepare(0);
        encode_record(&mut self.bytes, &key, &slot);
        self.entry.records.push((key, slot));
    }

    /// Puts a piece of a file's map.
    pub fn push_piece<B: AsRef<[u8]>>(&mut self, key: Key, piece: &MapRecord<B>) {
        let length = piece.encoded_bytes();
        self.bytes.u8(PUT);
        self.bytes.short_bytes(&key);
        self.bytes.u32(u32::try_from(length).expect("a piece is far below 4 GiB"));
        let start = self.bytes.len();
        piece.encode_into(&mut self.bytes);
        self.values.push((self.entry.records.len(), start..start + length));
        self.entry.records.push((key, None));
    }

    /// Marks the next record as one of [`Entry::fresh`].
    pub fn mark_next_fresh(&mut self) {
        self.entry.fresh.push(self.entry.records.len());
    }

    /// Adds usage.
    pub fn add_usage(&mut self, deltas: impl IntoIterator<Item = UsageDelta>) {
        self.entry.usage.extend(deltas);
    }

    /// Remembers the request that asked for it.
    pub fn remember(&mut self, remembered: Remembered) {
        self.entry.remembered = Some(remembered);
    }

    /// Makes room for `data` bytes of pieces of maps, and for all the rest.
    pub fn prepare(&mut self, data: usize) {
        if self.bytes.is_empty() {
            self.bytes.reserve_exact(if data > 0 { data + BESIDE_DATA_BYTES } else { SMALL_BYTES });
            self.bytes.extend_from_slice(&[0; COUNT_BYTES]);
        } else {
            self.bytes.reserve(data);
        }
    }

    /// Its bytes, and what they say.
    pub fn finish(mut self) -> (Bytes, Entry) {
        self.prepare(0);
        self.bytes[..COUNT_BYTES].copy_from_slice(&encoded_count(&self.entry.records));
        self.entry.encode_rest(&mut self.bytes);
        let bytes = Bytes::from(self.bytes);
        for (index, range) in self.values {
            self.entry.records[index].1 = Some(Value::part(&bytes, range));
        }
        (bytes, self.entry)
    }
}

#[cfg(test)]
mod tests;
