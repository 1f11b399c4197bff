//! File data in memory, shared without copying. The memory of whole extents is pooled.
//!
//! New memory is expensive: the kernel faults in each page and clears it, which costs more than copying into it. So
//! the buffers of extents, which hold most bulk data, return to a pool when the last reference is dropped.
//!
//! Checksums of file data are made while it is in the processor's cache, as it arrives, and kept with it: bytes that are
//! shared never change, so their checksums never become stale.

use std::borrow::Borrow;
use std::ops::{Deref, Range};
use std::sync::Arc;

mod aligned;
mod arriving;
mod pool;
mod value;

pub use aligned::AlignedBuffer;
pub use arriving::{Arriving, Received, WriteData};
pub(crate) use pool::POOL_BYTES_MAX;
pub use pool::Pool;
pub use value::Value;

/// Bytes that one checksum covers, and the alignment of memory for direct I/O.
pub const BLOCK: usize = 4096;

/// Immutable bytes; a clone shares them.
#[derive(Clone, Debug)]
pub struct Bytes(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Shared(Arc<[u8]>),
    Owned(Arc<Buffer>),
}

#[derive(Debug)]
struct Buffer {
    memory: Vec<u8>,
    /// Where in it the bytes are.
    start: usize,
    length: usize,
    /// CRC32C of each [`BLOCK`], the last of which may be shorter; none if they were not made.
    checksums: Vec<u32>,
    /// The pool that its memory returns to.
    home: Option<Arc<Pool>>,
}

impl Buffer {
    /// Returns a buffer without checksums, which belongs to no pool.
    fn new(memory: Vec<u8>, start: usize, length: usize) -> Buffer {
        Buffer { memory, start, length, checksums: Vec::new(), home: None }
    }

    /// Returns a buffer of bytes that begin at a multiple of [`BLOCK`]. There is room for another block in `memory`.
    fn aligned(mut memory: Vec<u8>, length: usize) -> Buffer {
        let start = aligned::aligned_start(&memory);
        memory.resize(memory.len().max(start), 0);
        Buffer::new(memory, start, length)
    }

    /// Returns its memory to `pool` when it is dropped.
    fn of_pool(mut self, pool: &Arc<Pool>) -> Buffer {
        self.home = Some(Arc::clone(pool));
        self
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// Returns the bytes of memory that it takes.
    fn capacity(&self) -> usize {
        self.memory.capacity()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.take_back(std::mem::take(&mut self.memory));
        }
    }
}

impl Bytes {
    /// Returns the CRC32C of each [`BLOCK`] of these bytes, the last of which may be shorter; an empty slice if they were
    /// not made.
    pub fn checksums(&self) -> &[u32] {
        match &self.0 {
            Repr::Shared(_) => &[],
            Repr::Owned(buffer) => &buffer.checksums,
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Shared(bytes) => bytes,
            Repr::Owned(buffer) => buffer.bytes(),
        }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Arc<[u8]>> for Bytes {
    fn from(bytes: Arc<[u8]>) -> Bytes {
        Bytes(Repr::Shared(bytes))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        let length = bytes.len();
        Bytes(Repr::Owned(Arc::new(Buffer::new(bytes, 0, length))))
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(Repr::Shared(bytes.into()))
    }
}

/// A part of [`Bytes`], which stay in memory as a whole.
#[derive(Clone, Debug)]
pub struct Slice {
    bytes: Bytes,
    range: Range<usize>,
}

impl Slice {
    /// Returns the part of `bytes` within `range`.
    ///
    /// # Panics
    /// If `range` exceeds `bytes`.
    pub fn new(bytes: Bytes, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= bytes.len(), "a slice lies within its buffer");
        Slice { bytes, range }
    }

    /// Returns the part of it within `range`.
    ///
    /// # Panics
    /// If `range` exceeds it.
    pub fn part(&self, range: Range<usize>) -> Slice {
        Slice::new(self.bytes.clone(), self.range.start + range.start..self.range.start + range.end)
    }

    /// Returns the bytes of the buffer that it keeps in memory.
    pub fn kept_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the CRC32C of `range` of it, if it was made: if the range is a [`BLOCK`] of the buffer.
    fn kept_checksum(&self, range: Range<usize>) -> Option<u32> {
        let (start, end) = (self.range.start + range.start, self.range.start + range.end);
        let is_block = start.is_multiple_of(BLOCK) && end == (start + BLOCK).min(self.bytes.len());
        if is_block { self.bytes.checksums().get(start / BLOCK).copied() } else { None }
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<Bytes> for Slice {
    fn from(bytes: Bytes) -> Slice {
        let range = 0..bytes.len();
        Slice { bytes, range }
    }
}

/// Returns the CRC32C of each [`BLOCK`] of the concatenation of `parts`: those that were made with their bytes, and the
/// others made now.
pub(crate) fn checksums(parts: &[Slice]) -> Vec<u32> {
    let mut checksums = Vec::new();
    // Of the current block, and how much of it has been seen.
    let (mut crc, mut seen) = (0, 0);
    for part in parts {
        let mut at = 0;
        while at < part.len() {
            let end = part.len().min(at + BLOCK - seen);
            let kept = if seen == 0 { part.kept_checksum(at..end) } else { None };
            crc = kept.unwrap_or_else(|| crc32c::crc32c_append(crc, &part[at..end]));
            seen += end - at;
            at = end;
            if seen == BLOCK {
                checksums.push(crc);
                (crc, seen) = (0, 0);
            }
        }
    }
    if seen > 0 {
        checksums.push(crc);
    }
    checksums
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

#[cfg(test)]
mod tests;
