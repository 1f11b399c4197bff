//! Streams, which append extents to one segment after another.
//!
//! Extents are packed: copied into the stream's buffer, each behind its header. Those of nearly the largest size begin at
//! a block instead, with their header at the end of the block before, so that their data is written from where it lies in
//! memory, also with direct I/O.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use super::{ALIGN, MAGIC, SegmentInfo, Segments};
use crate::api::ids::{ExtentId, Layer, SegmentId};
use crate::bytes::{BLOCK, Slice};
use crate::encoding::record::{ExtentHeader, ExtentRecord};
use crate::limits::EXTENT_BYTES_MAX;
use crate::media::{AlignedBuffer, BLOCK_BYTES, Blob};

/// Bytes that a stream gathers before it writes.
const WRITE_BYTES: usize = 1 << 20;

/// Memory of a stream: what it gathers, and one more extent with its header and padding.
const BUFFER_BYTES: usize = WRITE_BYTES + EXTENT_BYTES_MAX + 3 * BLOCK;

/// Length from which extents begin at a block, bytes: the block of the header is at most 1/30 of it.
pub(super) const UNPACKED_BYTES_MIN: usize = EXTENT_BYTES_MAX / 16 * 15;

/// Appends extents to one segment after another.
#[derive(Default)]
pub struct Stream {
    open: Option<Open>,
}

/// Bytes that are not written yet.
enum Part {
    /// A range of the stream's buffer; no two of these are adjacent parts.
    Copied(Range<usize>),
    /// Whole blocks at a multiple of the block in memory.
    Shared(Slice),
}

struct Open {
    id: SegmentId,
    blob: Arc<dyn Blob>,
    /// Offset of the parts in the segment; a multiple of the block.
    at: u64,
    parts: Vec<Part>,
    /// Bytes of the parts.
    gathered: usize,
    /// Copied bytes are at its front.
    buffer: AlignedBuffer,
    filled: usize,
}

impl Stream {
    /// Appends an extent of at most [`EXTENT_BYTES_MAX`], whose bytes are copied, and returns where it lies. They are on
    /// media after [`Stream::flush`].
    pub fn append<'a>(
        &mut self,
        segments: &Segments,
        id: ExtentId,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> io::Result<ExtentRecord> {
        let length: usize = parts.clone().map(<[u8]>::len).sum();
        let open = self.with_room(segments, length)?;
        open.pad(ALIGN, 0);
        open.push(&header(id, length));
        let (start, from) = (open.end(), open.filled);
        parts.for_each(|part| open.push(part));
        // Checksums the copy, which is in the processor's cache.
        let record = ExtentRecord::of(&open.buffer.first(open.filled)[from..], open.id, start);
        open.appended(segments)?;
        Ok(record)
    }

    /// Like [`Stream::append`], but data of a large extent is written from where it lies, as far as it is aligned in memory.
    pub fn append_shared(
        &mut self,
        segments: &Segments,
        id: ExtentId,
        parts: &[Slice],
    ) -> io::Result<ExtentRecord> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length < UNPACKED_BYTES_MIN || is_mostly_copied(parts, length) {
            return self.append(segments, id, parts.iter().map(|part| &**part));
        }
        let open = self.with_room(segments, length)?;
        open.pad(BLOCK, ExtentHeader::BYTES);
        open.push(&header(id, length));
        let start = open.end();
        parts.iter().for_each(|part| open.share(part));
        let record = ExtentRecord::new(&crate::bytes::checksums(parts), length, open.id, start);
        open.appended(segments)?;
        Ok(record)
    }

    /// Returns a segment with room for an extent: the current one, or a new one.
    fn with_room(&mut self, segments: &Segments, length: usize) -> io::Result<&mut Open> {
        let needed = length as u64 + 3 * BLOCK_BYTES;
        if self.open.as_ref().is_some_and(|open| open.end() + needed > segments.capacity) {
            self.flush(segments)?;
            self.seal(segments);
        }
        if self.open.is_none() {
            self.open = Some(Open::new(segments)?);
        }
        Ok(self.open.as_mut().expect("opened just above"))
    }

    /// Makes everything appended durable. Pads the last block, so that no later append touches it.
    pub fn flush(&mut self, segments: &Segments) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.pad(BLOCK, 0);
        open.write(segments)?;
        open.blob.sync()
    }

    /// Seals the current segment if most of what was written to it is dead and no memtable from `oldest` on names it:
    /// then deleting the whole is worth more than filling the rest.
    pub fn seal_if_mostly_dead(&mut self, segments: &Segments, oldest: Layer) {
        let Some(info) = self.open.as_ref().and_then(|open| segments.info(open.id)) else { return };
        if (SegmentInfo { sealed: true, ..info }).is_settled(oldest) && info.live * 2 < info.written {
            self.seal(segments);
        }
    }

    /// Appends no more to the current segment.
    pub fn seal(&mut self, segments: &Segments) {
        if let Some(open) = self.open.take() {
            segments.update(open.id, |info| info.sealed = true);
        }
    }
}

impl Open {
    fn new(segments: &Segments) -> io::Result<Open> {
        let (id, blob) = segments.take_spare()?;
        let buffer = AlignedBuffer::new(BUFFER_BYTES);
        let mut open = Open { id, blob, at: 0, parts: Vec::new(), gathered: 0, buffer, filled: 0 };
        open.push(&MAGIC);
        open.push(&id.0.to_be_bytes());
        open.pad(BLOCK, 0);
        Ok(open)
    }

    /// Returns the offset in the segment after the last part.
    fn end(&self) -> u64 {
        self.at + self.gathered as u64
    }

    /// Appends a copy of `bytes`.
    fn push(&mut self, bytes: &[u8]) {
        self.copied(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends the fewest zeros after which `before` bytes end at a multiple of `unit`.
    fn pad(&mut self, unit: usize, before: usize) {
        let zeros = (self.gathered + before).next_multiple_of(unit) - before - self.gathered;
        self.copied(zeros).fill(0);
    }

    /// Appends `length` bytes of the stream's buffer, and returns them to be written.
    fn copied(&mut self, length: usize) -> &mut [u8] {
        let from = self.filled;
        self.filled += length;
        self.gathered += length;
        match self.parts.last_mut() {
            Some(Part::Copied(range)) => range.end = self.filled,
            _ => self.parts.push(Part::Copied(from..self.filled)),
        }
        &mut self.buffer.first_mut(self.filled)[from..]
    }

    /// Appends bytes without copying them, as far as they are whole blocks, here and in memory.
    fn share(&mut self, bytes: &Slice) {
        let whole = shareable(self.gathered, bytes);
        if whole > 0 {
            self.parts.push(Part::Shared(bytes.part(0..whole)));
            self.gathered += whole;
        }
        if whole < bytes.len() {
            self.push(&bytes[whole..]);
        }
    }

    /// Notes that an extent was appended, and writes if enough has been gathered.
    fn appended(&mut self, segments: &Segments) -> io::Result<()> {
        if self.gathered >= WRITE_BYTES {
            self.write(segments)?;
        }
        segments.update(self.id, |info| info.pending += 1);
        Ok(())
    }

    /// Writes whole blocks. What remains is at the end of the stream's buffer, as only whole blocks are shared.
    fn write(&mut self, segments: &Segments) -> io::Result<()> {
        let rest = self.gathered % BLOCK;
        let copied = self.buffer.first(self.filled - rest);
        let parts: Vec<IoSlice<'_>> = (self.parts.iter())
            .map(|part| match part {
                Part::Copied(range) => &copied[range.start..range.end.min(copied.len())],
                Part::Shared(bytes) => bytes,
            })
            .filter(|part| !part.is_empty())
            .map(IoSlice::new)
            .collect();
        self.blob.append(self.at, &parts)?;
        self.buffer.first_mut(self.filled).copy_within(self.filled - rest.., 0);
        self.at += (self.gathered - rest) as u64;
        (self.filled, self.gathered) = (rest, rest);
        self.parts.clear();
        self.parts.push(Part::Copied(0..rest));
        let written = self.at;
        segments.update(self.id, |info| info.written = written);
        Ok(())
    }
}

fn header(id: ExtentId, length: usize) -> [u8; ExtentHeader::BYTES] {
    ExtentHeader { id, length: u32::try_from(length).expect("extents are far below 4 GiB") }.encode()
}

/// Returns how many of these bytes, which begin at `position`, need no copy: whole blocks, here and in memory.
fn shareable(position: usize, bytes: &[u8]) -> usize {
    let is_aligned = position.is_multiple_of(BLOCK) && bytes.as_ptr().addr().is_multiple_of(BLOCK);
    if is_aligned { bytes.len() - bytes.len() % BLOCK } else { 0 }
}

/// Whether most of an extent that begins at a block would have to be copied nevertheless.
fn is_mostly_copied(parts: &[Slice], length: usize) -> bool {
    let (mut position, mut shared) = (0, 0);
    for part in parts {
        shared += shareable(position, part);
        position += part.len();
    }
    shared < length / 2
}
