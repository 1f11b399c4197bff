//! A pool of buffers that are aligned for direct I/O.

use std::sync::{Mutex, PoisonError};

use volume::media::AlignedBuffer;

/// The alignment of memory, offsets and lengths in direct I/O, which every common device and file system accepts.
pub(crate) const ALIGNMENT: usize = 4096;

/// The size of a pooled buffer in bytes, the largest single transfer. A read of 1 MiB at an unaligned offset takes two.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;

/// Buffers kept for reuse. More threads than this at once allocate new ones.
const BUFFERS_KEPT: usize = 8;

/// Whether `bytes` can be used for direct I/O without a copy.
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) && bytes.len().is_multiple_of(ALIGNMENT)
}

/// Aligned buffers of [`BUFFER_BYTES`], shared by all files of a volume.
#[derive(Default)]
pub(crate) struct Pool {
    free: Mutex<Vec<AlignedBuffer>>,
}

impl Pool {
    /// Calls `act` with a buffer, whose contents are arbitrary.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut AlignedBuffer) -> T) -> T {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = free.unwrap_or_else(|| AlignedBuffer::new(BUFFER_BYTES));
        let result = act(&mut buffer);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < BUFFERS_KEPT {
            free.push(buffer);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_reused() {
        let pool = Pool::default();
        let place = pool.with(|buffer| {
            assert!(is_aligned(buffer.first(BUFFER_BYTES)));
            buffer.first_mut(8192)[8191] = 7;
            buffer.first(1).as_ptr().addr()
        });
        pool.with(|buffer| assert_eq!(buffer.first(1).as_ptr().addr(), place, "the same buffer again"));
    }
}
