//! Whether the index can be read without waiting for media, judged by recent reads.
//!
//! The library does not tell what it caches, and it treats a read that its file refuses as a failure. So reads are
//! observed: after many in a row that needed no block of the file, the next one will hardly need one. A read that
//! does makes the index cold again, so at most one in [`WARM_AFTER`] surprises a caller that must not wait.
//!
//! Clients choose what is read. So each surprise doubles the reads that it takes until the index is warm again, and only
//! many more without one halve them: a client that mixes cold reads into warm ones soon has all of them done by workers.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::IndexError;

/// Consecutive reads without a block of the file after which the index is warm, at first.
const WARM_AFTER: u32 = 1024;

/// The same after many surprises.
const WARM_AFTER_MAX: u32 = 1 << 18;

/// After so many times these reads without a surprise, half of them are enough.
const TRUST_AFTER: u32 = 16;

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
    /// Reads in a row that needed no block.
    in_row: AtomicU32,
    /// How many it takes until the index is warm.
    warm_after: AtomicU32,
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
            in_row: AtomicU32::new(0),
            warm_after: AtomicU32::new(WARM_AFTER),
            cold: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            damaged: AtomicBool::new(false),
        }
    }
}

impl Warmth {
    /// Whether the next read will hardly need media.
    pub(super) fn is_warm(&self) -> bool {
        let enough = self.warm_after.load(Ordering::Relaxed);
        self.in_row.load(Ordering::Relaxed) >= enough && !self.damaged.load(Ordering::Relaxed)
    }

    /// Records that the library failed, which it does for good: the index is cold from now on.
    pub(super) fn note_damage(&self, error: &IndexError) {
        if !self.damaged.swap(true, Ordering::Relaxed) {
            tracing::error!(event = "damage", %error, "the index is damaged; what can be read is served; run `holdfast check`");
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
            self.note_cold();
        } else {
            self.note_warm();
        }
        result
    }

    // Two threads at once may count as one: a guess need not be exact.

    fn note_warm(&self) {
        let enough = self.warm_after.load(Ordering::Relaxed);
        let in_row = self.in_row.load(Ordering::Relaxed);
        if in_row < enough.saturating_mul(TRUST_AFTER) {
            self.in_row.store(in_row + 1, Ordering::Relaxed);
        } else if enough > WARM_AFTER {
            let fewer = (enough / 2).max(WARM_AFTER);
            self.warm_after.store(fewer, Ordering::Relaxed);
            // It stays warm, and earns the next step anew.
            self.in_row.store(fewer, Ordering::Relaxed);
        }
    }

    fn note_cold(&self) {
        let enough = self.warm_after.load(Ordering::Relaxed);
        if self.in_row.swap(0, Ordering::Relaxed) >= enough {
            self.warm_after.store(enough.saturating_mul(2).min(WARM_AFTER_MAX), Ordering::Relaxed);
        }
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

    /// Has reads done that need no block, until the index is warm. Returns how many it took.
    fn warm_up(warmth: &Warmth) -> u32 {
        let mut reads = 0;
        while !warmth.is_warm() {
            warmth.watch(|| {});
            reads += 1;
        }
        reads
    }

    #[test]
    fn whoever_mixes_cold_reads_into_warm_ones_is_trusted_less_and_less() {
        let warmth = Warmth::default();
        let (mut reads, mut surprises) = (0, 0);
        while reads < 1_000_000 {
            reads += warm_up(&warmth);
            warmth.watch(count_block_read);
            surprises += 1;
        }
        assert!(surprises <= 12, "{surprises} reads surprised a caller that must not wait");
        // A read that is known to be cold is no surprise.
        let before = warm_up(&warmth);
        assert_eq!(before, WARM_AFTER_MAX);
        warmth.watch(count_block_read);
        (0..10).for_each(|_| warmth.watch(count_block_read));
        assert_eq!(warm_up(&warmth), before);
        // Trust comes back slowly.
        let to_halve = TRUST_AFTER * before - before;
        (0..to_halve).for_each(|_| warmth.watch(|| {}));
        assert!(warmth.is_warm());
        warmth.watch(|| {});
        assert!(warmth.is_warm());
        warmth.watch(count_block_read);
        assert_eq!(warm_up(&warmth), before, "it was halved, and is doubled again");
        (0..50_000_000)
            .take_while(|_| {
                warmth.watch(|| {});
                warmth.warm_after.load(Ordering::Relaxed) > WARM_AFTER
            })
            .for_each(drop);
        assert!(warmth.is_warm());
        warmth.watch(count_block_read);
        assert_eq!(warm_up(&warmth), 2 * WARM_AFTER);
    }
}
