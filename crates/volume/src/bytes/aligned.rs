//! Memory as direct I/O wants it.

use super::BLOCK;

/// Memory of fixed size that begins at a multiple of [`BLOCK`]: a slice of a larger allocation, so that no unsafe code is
/// needed.
#[derive(Debug)]
pub struct AlignedBuffer {
    /// Never grown, so its bytes never move.
    bytes: Vec<u8>,
    start: usize,
}

/// Returns where in an allocation the first multiple of [`BLOCK`] is.
pub(super) fn aligned_start(memory: &[u8]) -> usize {
    memory.as_ptr().addr().next_multiple_of(BLOCK) - memory.as_ptr().addr()
}

impl AlignedBuffer {
    /// `length` zeros.
    pub fn new(length: usize) -> AlignedBuffer {
        let bytes = vec![0; length + BLOCK];
        let start = aligned_start(&bytes);
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
