//! What accounts and notes of all volumes of a pool may take of its memory.
//!
//! Anybody can use many numbers of users, in each volume that admits him, so that both are bounded over all volumes. An account can be
//! closed and opened again: those of the volume with the most of them give way to others. A note cannot, so a volume gets more of them
//! only while that leaves room for others. However many others have, a volume may have [`QUOTA_OWNERS_MIN`] of each.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{QUOTA_ACCOUNT_BYTES, QUOTA_NOTE_BYTES, QUOTA_OWNERS_MIN};

/// What a volume has of notes is at most so many times what is free: one takes three quarters, two have three sevenths each.
const TIMES_FREE: usize = 3;

/// Counts what the ledgers of a pool have in memory. Only the changes of the counts are exact: volumes that add something at the same
/// moment may exceed a bound by one each.
#[derive(Debug)]
pub(crate) struct Budget {
    accounts: Counted,
    notes: Counted,
}

/// So many, and how many there may be.
#[derive(Debug)]
struct Counted {
    count: AtomicUsize,
    max: usize,
}

impl Counted {
    fn new(bytes: u64, bytes_each: u64) -> Counted {
        let max = usize::try_from(bytes / bytes_each).unwrap_or(usize::MAX);
        Counted { count: AtomicUsize::new(0), max }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn add(&self, more: usize) {
        self.count.fetch_add(more, Ordering::Relaxed);
    }

    fn remove(&self, less: usize) {
        self.count.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Budget {
    /// Divides a number of bytes: half for accounts, half for notes.
    pub(crate) fn new(bytes: u64) -> Budget {
        Budget {
            accounts: Counted::new(bytes / 2, QUOTA_ACCOUNT_BYTES),
            notes: Counted::new(bytes / 2, QUOTA_NOTE_BYTES),
        }
    }

    /// Returns the number of open accounts, and how many may be open unless more are in use.
    #[cfg(test)]
    pub(crate) fn accounts(&self) -> (usize, usize) {
        (self.accounts.count(), self.accounts.max)
    }

    /// Whether an account that is opened takes the place of an idle one.
    pub(crate) fn is_full(&self) -> bool {
        self.accounts.count() >= self.accounts.max
    }

    pub(super) fn account_opened(&self) {
        self.accounts.add(1);
    }

    pub(super) fn accounts_closed(&self, count: usize) {
        self.accounts.remove(count);
    }

    /// Returns the number of notes, and how many there may be.
    #[cfg(test)]
    pub(crate) fn notes(&self) -> (usize, usize) {
        (self.notes.count(), self.notes.max)
    }

    /// Whether a volume with this many notes may have one more.
    pub(super) fn can_take_note(&self, own: usize) -> bool {
        let free = self.notes.max.saturating_sub(self.notes.count());
        own < QUOTA_OWNERS_MIN || own < free.saturating_mul(TIMES_FREE)
    }

    /// Follows the number of notes of a volume.
    pub(super) fn notes_changed(&self, before: usize, after: usize) {
        self.notes.add(after.saturating_sub(before));
        self.notes.remove(before.saturating_sub(after));
    }
}
