//! Blocks of an index file that could not be read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Most blocks that are remembered. More are as good a reason to act.
const MAX: usize = 65_536;

/// The blocks that could not be read or did not verify, twice in a row, and were not written since.
#[derive(Debug, Default)]
pub(super) struct BadBlocks {
    blocks: Mutex<BTreeSet<u64>>,
    /// Slots that may hold any blocks, as their labels cannot be read.
    unknown_slots: AtomicUsize,
    /// Whether blocks that verify make no sense. Reading them again changes nothing.
    has_nonsense: AtomicBool,
}

impl BadBlocks {
    pub(super) fn is_empty(&self) -> bool {
        self.unknown_slots.load(Ordering::Relaxed) == 0
            && !self.has_nonsense.load(Ordering::Relaxed)
            && self.blocks.lock().is_empty()
    }

    /// Notes damage that no bad block explains.
    pub(super) fn note_damage(&self) {
        if self.is_empty() {
            self.has_nonsense.store(true, Ordering::Relaxed);
        }
    }

    /// Sets how many slots there are whose labels cannot be read; returns how many there were.
    pub(super) fn set_unknown_slots(&self, count: usize) -> usize {
        self.unknown_slots.swap(count, Ordering::Relaxed)
    }

    /// Returns the blocks, in order.
    pub(super) fn list(&self) -> Vec<u64> {
        self.blocks.lock().iter().copied().collect()
    }

    pub(super) fn add(&self, block: u64) {
        let mut blocks = self.blocks.lock();
        if blocks.len() < MAX {
            blocks.insert(block);
        }
    }

    /// Forgets `count` blocks from `first` on, which were written.
    pub(super) fn written(&self, first: u64, count: u64) {
        let mut blocks = self.blocks.lock();
        if !blocks.is_empty() {
            blocks.retain(|block| !(first..first + count).contains(block));
        }
    }

    /// Forgets the blocks that `is_good` now, and returns how many those were.
    pub(super) fn look_again(&self, is_good: impl Fn(u64) -> bool) -> usize {
        let good: Vec<u64> = self.list().into_iter().filter(|block| is_good(*block)).collect();
        let mut blocks = self.blocks.lock();
        good.iter().filter(|block| blocks.remove(block)).count()
    }
}
