//! An entry under construction.

use std::ops::Range;

use super::{COUNT_BYTES, Entry, PUT, Remembered, Slot, UsageDelta, encode_record, encoded_count};
use crate::api::ids::VolumeNumber;
use crate::bytes::{Bytes, Value};
use crate::encoding::codec::Write;
use crate::encoding::key::Key;
use crate::encoding::record::ExtentMapping;

/// Typical overhead of an entry with file data, bytes: it is kept as long as the data.
const BESIDE_DATA_BYTES: usize = 320;

/// An entry that, if it contains file data, is encoded while it is built: the data is copied once, into the buffer
/// that both the journal and lookups read. Other entries are encoded at the end, when their length is known.
#[derive(Debug, Default)]
pub struct Draft {
    entry: Entry,
    /// Empty until there is file data.
    bytes: Vec<u8>,
    /// Records whose values are in `bytes` only, and where.
    values: Vec<(usize, Range<usize>)>,
}

impl Draft {
    /// Returns an empty entry of a volume.
    pub fn new(volume: VolumeNumber) -> Draft {
        Draft { entry: Entry { volume, ..Entry::default() }, ..Draft::default() }
    }

    /// Returns the volume whose usage it changes.
    pub fn volume(&self) -> VolumeNumber {
        self.entry.volume
    }

    /// Puts or deletes a record.
    pub fn push(&mut self, key: Key, slot: Slot) {
        if !self.bytes.is_empty() {
            encode_record(&mut self.bytes, &key, &slot);
        }
        self.entry.records.push((key, slot));
    }

    /// Puts an extent mapping with inline data.
    pub fn push_mapping<B: AsRef<[u8]>>(&mut self, key: Key, mapping: &ExtentMapping<B>) {
        let length = mapping.encoded_bytes();
        if self.bytes.is_empty() {
            self.prepare(length);
        }
        self.bytes.u8(PUT);
        self.bytes.short_bytes(&key);
        self.bytes.u32(u32::try_from(length).expect("a piece is far below 4 GiB"));
        let start = self.bytes.len();
        mapping.encode_into(&mut self.bytes);
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

    /// Returns the usage that it adds.
    pub fn usage(&self) -> &[UsageDelta] {
        &self.entry.usage
    }

    /// Caches the request that caused the entry.
    pub fn remember(&mut self, remembered: Remembered) {
        self.entry.remembered = Some(remembered);
    }

    /// Allocates room for `data` bytes of inline mappings and the rest of the entry, to avoid growing step by step.
    pub fn prepare(&mut self, data: usize) {
        if !self.bytes.is_empty() {
            self.bytes.reserve(data);
            return;
        }
        self.bytes.reserve_exact(data + BESIDE_DATA_BYTES);
        self.bytes.extend_from_slice(&[0; COUNT_BYTES]);
        for (key, slot) in &self.entry.records {
            encode_record(&mut self.bytes, key, slot);
        }
    }

    /// Returns the encoded entry, and its contents.
    pub fn finish(mut self) -> (Bytes, Entry) {
        if self.bytes.is_empty() {
            return (self.entry.encode().into(), self.entry);
        }
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
