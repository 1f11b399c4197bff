//! Whether the index can be read without waiting for media, judged by recent reads.
//!
//! The library does not tell what it caches, and it treats a read that its file refuses as a failure. So reads are
//! observed: after many in a row that needed no block of the file, the next one will hardly need one. A read that
//! does makes the index cold again, so at most one in [`WARM_AFTER`] surprises a caller that must not wait.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::IndexError;

/// Consecutive reads without a block of the file after which the index is warm.
const WARM_AFTER: u32 = 1024;

thread_local! {
    static BLOCK_READS: Cell<u64> = const { Cell::new(0) };
}

/// Records that this thread reads blocks of an index file.
pub(super) fn count_block_read() {
    BLOCK_READS.with(|reads| reads.set(reads.get() + 1));
}

/// How recent reads went.
#[derive(Debug)]
pub(super) struct Warmth {
    /// Reads to go until the index is warm.
    left: AtomicU32,
    cold: AtomicU64,
    blocks: AtomicU64,
    /// The library failed: reads that miss its cache need many blocks each.
    damaged: AtomicBool,
}

/// Reads of the index that needed its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdReads {
    /// How many there were.
    pub reads: u64,
    /// How many times they read the file.
    pub file_reads: u64,
}

impl Default for Warmth {
    fn default() -> Warmth {
        Warmth {
            left: AtomicU32::new(WARM_AFTER),
            cold: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            damaged: AtomicBool::new(false),
        }
    }
}

impl Warmth {
    /// Whether the next read will hardly need media.
    pub(super) fn is_warm(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 && !self.damaged.load(Ordering::Relaxed)
    }

    /// Records that the library failed, which it does for good: the index is cold from now on.
    pub(super) fn note_damage(&self, error: &IndexError) {
        if !self.damaged.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the index is damaged; what can be read is served; run `holdfast check`");
        }
    }

    /// Returns the reads so far that needed the file.
    pub(super) fn cold_reads(&self) -> ColdReads {
        ColdReads {
            reads: self.cold.load(Ordering::Relaxed),
            file_reads: self.blocks.load(Ordering::Relaxed),
        }
    }

    /// Performs a read, and records whether it needed blocks of the file.
    pub(super) fn watch<T>(&self, read: impl FnOnce() -> T) -> T {
        let before = BLOCK_READS.with(Cell::get);
        let result = read();
        let blocks = BLOCK_READS.with(Cell::get) - before;
        if blocks > 0 {
            self.cold.fetch_add(1, Ordering::Relaxed);
            self.blocks.fetch_add(blocks, Ordering::Relaxed);
            self.left.store(WARM_AFTER, Ordering::Relaxed);
        } else {
            // Two threads at once may count as one: a guess need not be exact.
            let left = self.left.load(Ordering::Relaxed);
            if left > 0 {
                self.left.store(left - 1, Ordering::Relaxed);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_reads_without_a_block_make_it_warm_and_one_with_a_block_cold() {
        let warmth = Warmth::default();
        for _ in 0..WARM_AFTER {
            assert!(!warmth.is_warm());
            warmth.watch(|| {});
        }
        assert!(warmth.is_warm());
        warmth.watch(|| {});
        assert!(warmth.is_warm());
        warmth.watch(count_block_read);
        assert!(!warmth.is_warm());
        warmth.watch(|| (count_block_read(), count_block_read()));
        assert_eq!(warmth.cold_reads(), ColdReads { reads: 2, file_reads: 3 });
    }
}
