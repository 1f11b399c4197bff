//! File data in memory, shared without copying. The memory of whole extents is pooled.
//!
//! New memory is expensive: the kernel faults in each page and clears it, which costs more than copying into it. So
//! the buffers of extents, which hold most bulk data, return to a pool when the last reference is dropped.

use std::ops::{Deref, Range};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::EXTENT_BYTES_MAX;

mod value;

pub use value::Value;

/// Most bytes of unused buffers that a pool keeps.
pub(crate) const POOL_BYTES_MAX: usize = 16 << 20;

/// Smallest length that gets a pooled buffer, bytes; shorter data would waste most of it.
const POOLED_BYTES_MIN: usize = EXTENT_BYTES_MAX - EXTENT_BYTES_MAX / 16;

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
    bytes: Vec<u8>,
    /// The pool that its memory returns to.
    home: Option<Arc<Pool>>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.take_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Shared(bytes) => bytes,
            Repr::Owned(buffer) => &buffer.bytes,
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
        Bytes(Repr::Owned(Arc::new(Buffer { bytes, home: None })))
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
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

/// Unused buffers of extents.
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
        let mut bytes = self.take(length);
        bytes.clear();
        parts.for_each(|part| bytes.extend_from_slice(part));
        self.own(bytes)
    }

    /// Returns `length` bytes written by `fill`, which finds arbitrary contents.
    pub fn filled<E>(
        self: &Arc<Pool>,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        let mut bytes = self.take(length);
        bytes.resize(length, 0);
        fill(&mut bytes)?;
        Ok(self.own(bytes))
    }

    /// Returns memory for `length` bytes.
    fn take(&self, length: usize) -> Vec<u8> {
        let is_pooled = (POOLED_BYTES_MIN..=EXTENT_BYTES_MAX).contains(&length);
        let free = if is_pooled { self.free.lock().pop() } else { None };
        free.unwrap_or_else(|| Vec::with_capacity(if is_pooled { EXTENT_BYTES_MAX } else { length }))
    }

    fn own(self: &Arc<Pool>, bytes: Vec<u8>) -> Bytes {
        let home = (bytes.capacity() == EXTENT_BYTES_MAX).then(|| Arc::clone(self));
        Bytes(Repr::Owned(Arc::new(Buffer { bytes, home })))
    }

    fn take_back(&self, bytes: Vec<u8>) {
        let mut free = self.free.lock();
        if free.len() < self.max {
            free.push(bytes);
        }
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
