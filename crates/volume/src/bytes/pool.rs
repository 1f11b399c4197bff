//! The pool of buffers of extents, and buffers that are being filled.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{BLOCK, Buffer, Bytes, Repr};
use crate::limits::{EXTENT_BYTES_MAX, INLINE_WRITE_BYTES_MAX};

/// Most bytes of unused buffers that a pool keeps.
pub(crate) const POOL_BYTES_MAX: usize = 16 << 20;

/// Smallest length that gets a pooled buffer, bytes; shorter data would waste most of it.
const POOLED_BYTES_MIN: usize = EXTENT_BYTES_MAX - EXTENT_BYTES_MAX / 16;

/// Longest data without aligned memory, bytes: it may travel in the journal, which copies it.
const UNALIGNED_BYTES_MAX: usize = INLINE_WRITE_BYTES_MAX / 2;

/// Unused buffers of extents: each has room for the largest at a multiple of [`BLOCK`].
#[derive(Debug)]
pub struct Pool {
    free: Mutex<Vec<Vec<u8>>>,
    /// Most buffers that it keeps.
    max: usize,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new(POOL_BYTES_MAX)
    }
}

impl Pool {
    /// Returns a pool that keeps at most this many bytes.
    pub fn new(bytes: usize) -> Pool {
        Pool { free: Mutex::default(), max: bytes.min(POOL_BYTES_MAX) / EXTENT_BYTES_MAX }
    }

    /// Returns a copy of `bytes`.
    pub fn copy(self: &Arc<Pool>, bytes: &[u8]) -> Bytes {
        self.concat(std::iter::once(bytes))
    }

    /// Returns the concatenation of `parts`.
    pub fn concat<'a>(self: &Arc<Pool>, parts: impl Iterator<Item = &'a [u8]> + Clone) -> Bytes {
        let length = parts.clone().map(<[u8]>::len).sum();
        let mut filling = self.fill(length, false);
        parts.for_each(|part| filling.take(part));
        filling.finish()
    }

    /// Returns `length` bytes written by `fill`, which finds arbitrary contents.
    pub fn filled<E>(
        self: &Arc<Pool>,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        let mut filling = self.fill(length, false);
        fill(filling.space())?;
        filling.received(length);
        Ok(filling.finish())
    }

    /// Returns bytes of several lengths written by `fill`, which finds arbitrary contents.
    pub fn filled_all<E>(
        self: &Arc<Pool>,
        lengths: impl Iterator<Item = usize>,
        fill: impl FnOnce(Vec<&mut [u8]>) -> Result<(), E>,
    ) -> Result<Vec<Bytes>, E> {
        let mut fillings: Vec<Filling> = lengths.map(|length| self.fill(length, false)).collect();
        fill(fillings.iter_mut().map(Filling::space).collect())?;
        let finish = |mut filling: Filling| {
            filling.received(filling.missing());
            filling.finish()
        };
        Ok(fillings.into_iter().map(finish).collect())
    }

    /// Returns a buffer to be filled with `length` bytes, which are checksummed meanwhile if `is_checksummed`.
    pub(super) fn fill(self: &Arc<Pool>, length: usize, is_checksummed: bool) -> Filling {
        let mut buffer = if (POOLED_BYTES_MIN..=EXTENT_BYTES_MAX).contains(&length) {
            let free = self.free.lock().pop();
            Buffer::aligned(free.unwrap_or_else(|| Vec::with_capacity(EXTENT_BYTES_MAX + BLOCK)), length)
                .of_pool(self)
        } else if length > UNALIGNED_BYTES_MAX {
            Buffer::aligned(Vec::with_capacity(length + BLOCK), length)
        } else {
            Buffer::new(Vec::with_capacity(length), 0, length)
        };
        if is_checksummed {
            buffer.checksums.reserve_exact(length.div_ceil(BLOCK));
        }
        Filling { buffer, filled: 0, is_checksummed }
    }

    /// Returns how many unused buffers it has.
    #[cfg(test)]
    pub(super) fn unused(&self) -> usize {
        self.free.lock().len()
    }

    pub(super) fn take_back(&self, memory: Vec<u8>) {
        let mut free = self.free.lock();
        if free.len() < self.max {
            free.push(memory);
        }
    }
}

/// A buffer that is being filled from its front. If it is dropped before, its memory returns to the pool.
#[derive(Debug)]
pub(super) struct Filling {
    buffer: Buffer,
    filled: usize,
    is_checksummed: bool,
}

impl Filling {
    /// Returns how many bytes are missing.
    pub(super) fn missing(&self) -> usize {
        self.buffer.length - self.filled
    }

    /// Returns the bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns the memory for what is missing, with arbitrary contents.
    pub(super) fn space(&mut self) -> &mut [u8] {
        let Buffer { memory, start, length, .. } = &mut self.buffer;
        let end = *start + *length;
        if memory.len() < end {
            memory.resize(end, 0);
        }
        &mut memory[*start + self.filled..end]
    }

    /// Records that the first bytes of [`Filling::space`] were received, and checksums the blocks that they complete.
    ///
    /// # Panics
    /// If more than is missing.
    pub(super) fn received(&mut self, bytes: usize) {
        assert!(bytes <= self.missing(), "more was received than there was space for");
        self.filled += bytes;
        if !self.is_checksummed {
            return;
        }
        let Buffer { memory, start, length, checksums, .. } = &mut self.buffer;
        loop {
            let from = checksums.len() * BLOCK;
            let to = (from + BLOCK).min(*length);
            if from >= *length || to > self.filled {
                return;
            }
            checksums.push(crc32c::crc32c(&memory[*start + from..*start + to]));
        }
    }

    /// Copies `bytes`, and checksums the blocks that they complete. They are few enough to stay in the processor's cache, and
    /// copying them at once is faster than block by block.
    ///
    /// # Panics
    /// If they are more than is missing.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let memory = &mut self.buffer.memory;
        let at = self.buffer.start + self.filled;
        // New memory is not cleared before.
        let (over, behind) = bytes.split_at(bytes.len().min(memory.len() - at));
        memory[at..at + over.len()].copy_from_slice(over);
        memory.extend_from_slice(behind);
        self.received(bytes.len());
    }

    /// Returns the bytes.
    ///
    /// # Panics
    /// If any are missing.
    pub(super) fn finish(self) -> Bytes {
        assert_eq!(self.missing(), 0, "all bytes have been received");
        Bytes(Repr::Owned(Arc::new(self.buffer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_extents_return_to_the_pool_and_others_are_exact() {
        let pool = Arc::new(Pool::default());
        let extent = vec![7; EXTENT_BYTES_MAX];
        let bytes = pool.concat([&extent[..5], &extent[5..]].into_iter());
        assert!(*bytes == *extent);
        let (shared, place) = (bytes.clone(), bytes.as_ptr());
        drop(bytes);
        assert_ne!(pool.copy(&extent).as_ptr(), place, "somebody still reads it");
        drop(shared);
        let again: Result<Bytes, ()> = pool.filled(EXTENT_BYTES_MAX - 3, |bytes| {
            assert_eq!(bytes.len(), EXTENT_BYTES_MAX - 3);
            bytes.fill(1);
            Ok(())
        });
        let again = again.unwrap();
        assert!(again.as_ptr() == place && again.iter().all(|byte| *byte == 1));
        let small = pool.copy(&extent[..10]);
        assert_eq!(*small, extent[..10]);
        drop((small, again));
        assert_eq!(pool.free.lock().len(), 2);
    }

    #[test]
    fn a_pool_keeps_a_bounded_number_of_buffers() {
        let pool = Arc::new(Pool::default());
        let many: Vec<Bytes> =
            (0..POOL_BYTES_MAX / EXTENT_BYTES_MAX + 9).map(|_| pool.copy(&[0; EXTENT_BYTES_MAX])).collect();
        drop(many);
        assert_eq!(pool.free.lock().len(), POOL_BYTES_MAX / EXTENT_BYTES_MAX);
    }
}
