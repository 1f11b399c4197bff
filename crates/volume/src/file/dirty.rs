//! Unstable data of a file: accepted, in memory, not yet on media.

use std::collections::BTreeMap;

use crate::bytes::{Bytes, Slice};
use crate::limits::{DIRTY_FILE_BYTES, DIRTY_RANGE_BYTES, INLINE_MAPPINGS_MAX, INLINE_WRITE_BYTES_MAX};

/// The effort of writing back a range, besides its bytes: about that of this many bytes.
const RANGE_EFFORT: u64 = 4096;

/// A range of unstable bytes.
#[derive(Clone, Debug)]
pub struct DirtyRange {
    /// Offset in the file.
    pub start: u64,
    /// Offset in the file after the last byte.
    pub end: u64,
    /// Identifies the WRITE, so that write-back knows whether what it wrote is still the newest.
    pub write: u64,
    /// A buffer that contains the bytes.
    bytes: Bytes,
    /// Where in it they begin.
    from: usize,
}

impl DirtyRange {
    /// Returns the bytes.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.len()]
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        usize::try_from(self.end - self.start).expect("a piece is no longer than its buffer")
    }

    /// Returns the effort of writing it back, as a number of bytes.
    pub fn effort(&self) -> u64 {
        self.end - self.start + RANGE_EFFORT
    }

    /// Returns the buffer, if this range is all of it.
    pub fn whole_buffer(&self) -> Option<&Bytes> {
        (self.len() == self.bytes.len()).then_some(&self.bytes)
    }

    /// Returns the bytes, shared.
    pub fn shared(&self) -> Slice {
        Slice::new(self.bytes.clone(), self.from..self.from + self.len())
    }

    /// Returns the buffer, and the range of it that holds `[start, end)` of the file.
    pub fn slice(&self, start: u64, end: u64) -> (Bytes, usize, usize) {
        let skip = usize::try_from(start - self.start).expect("a piece is no longer than its buffer");
        let length = usize::try_from(end - start).expect("a piece is no longer than its buffer");
        (self.bytes.clone(), self.from + skip, self.from + skip + length)
    }

    /// Returns the part within `[start, end)`.
    pub fn clipped(&self, start: u64, end: u64) -> DirtyRange {
        let (start, end) = (start.max(self.start), end.min(self.end));
        let skip = usize::try_from(start - self.start).expect("a piece is no longer than its buffer");
        DirtyRange { start, end, write: self.write, bytes: self.bytes.clone(), from: self.from + skip }
    }

    /// Copies the bytes if they are less than half of their buffer.
    fn compact(self) -> DirtyRange {
        if self.bytes.len() <= 2 * self.len() {
            return self;
        }
        DirtyRange { bytes: Bytes::from(self.data()), from: 0, ..self }
    }
}

/// The unstable data of one file; boxed, as most inodes in memory have none.
#[derive(Debug, Default)]
pub struct Dirty(Option<Box<Ranges>>);

/// Ranges that do not overlap, by their end; never empty.
#[derive(Debug, Default)]
struct Ranges {
    by_end: BTreeMap<u64, DirtyRange>,
    bytes: u64,
}

impl Dirty {
    /// Returns the number of unstable bytes.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |ranges| ranges.bytes)
    }

    /// Returns the number of ranges.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |ranges| ranges.by_end.len())
    }

    /// Returns the memory that the ranges take, bytes: with their buffers, and with the inode that they pin.
    pub fn memory_bytes(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        // A range pins fewer unused bytes of a longer buffer than its own length; these are not counted.
        self.bytes() + self.count() as u64 * DIRTY_RANGE_BYTES + DIRTY_FILE_BYTES
    }

    /// Returns the segment space to reserve: with the overhead of an extent for each range.
    pub fn footprint(&self) -> u64 {
        crate::segments::space::footprint(self.bytes(), self.count() as u64)
    }

    /// Whether the data may travel in the journal: few bytes, in not too many ranges, as each becomes a record.
    pub fn is_small(&self) -> bool {
        self.bytes() <= INLINE_WRITE_BYTES_MAX as u64 && self.count() <= INLINE_MAPPINGS_MAX
    }

    /// Whether there is no unstable data.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds new data, which replaces older data in its range.
    pub fn insert(&mut self, start: u64, bytes: Bytes, write: u64) {
        let end = start + bytes.len() as u64;
        self.remove(start, end);
        let ranges = self.0.get_or_insert_default();
        ranges.bytes += end - start;
        ranges.by_end.insert(end, DirtyRange { start, end, write, bytes, from: 0 });
    }

    /// Removes `[start, end)`.
    pub fn remove(&mut self, start: u64, end: u64) {
        let overlapping: Vec<DirtyRange> = self.overlapping(start, end).cloned().collect();
        let Some(ranges) = &mut self.0 else { return };
        for range in overlapping {
            ranges.by_end.remove(&range.end);
            ranges.bytes -= range.end - range.start;
            for rest in [(range.start, start), (end, range.end)] {
                if rest.0 < rest.1 {
                    ranges.bytes += rest.1 - rest.0;
                    ranges.by_end.insert(rest.1, range.clipped(rest.0, rest.1).compact());
                }
            }
        }
        if ranges.by_end.is_empty() {
            self.0 = None;
        }
    }

    /// Returns the ranges that touch `[start, end)`, in file order.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &DirtyRange> {
        let from = start.saturating_add(1);
        let behind = self.0.iter().flat_map(move |ranges| ranges.by_end.range(from..));
        behind.map(|(_, range)| range).take_while(move |range| range.start < end)
    }

    /// Returns the parts of `[start, end)` without unstable data, in file order.
    pub fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut from) = (Vec::new(), start);
        for range in self.overlapping(start, end) {
            if from < range.start {
                gaps.push((from, range.start));
            }
            from = range.end;
        }
        if from < end {
            gaps.push((from, end));
        }
        gaps
    }

    /// Returns all ranges, in file order.
    pub fn ranges(&self) -> impl Iterator<Item = &DirtyRange> {
        self.0.iter().flat_map(|ranges| ranges.by_end.values())
    }
}

#[cfg(test)]
mod tests;
