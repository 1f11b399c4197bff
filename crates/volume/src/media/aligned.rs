//! Memory as direct I/O wants it.

use super::BLOCK_BYTES;

/// [`BLOCK_BYTES`] as a length in memory.
const ALIGNMENT: usize = 4096;
const _: () = assert!(ALIGNMENT as u64 == BLOCK_BYTES);

/// Memory of fixed size that begins at a multiple of [`BLOCK_BYTES`]: a slice of a larger allocation, so that no unsafe
/// code is needed.
#[derive(Debug)]
pub struct AlignedBuffer {
    /// Never grown, so its bytes never move.
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// `length` zeros.
    pub fn new(length: usize) -> AlignedBuffer {
        let bytes = vec![0; length + ALIGNMENT];
        let start = bytes.as_ptr().addr().next_multiple_of(ALIGNMENT) - bytes.as_ptr().addr();
        AlignedBuffer { bytes, start }
    }

    /// The first `length` bytes.
    pub fn first(&self, length: usize) -> &[u8] {
        &self.bytes[self.start..self.start + length]
    }

    /// The first `length` bytes.
    pub fn first_mut(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + length]
    }
}
