//! Decides which thread runs a pool's commit step: its own, or an event loop that has nothing else to do.
//!
//! Handing a batch to another thread and back costs two context switches. If a sync takes longer, the committer does
//! it, so that no loop waits for the device. If recent syncs took less (memory, or a device whose cache survives
//! power failures), a loop that served one connection and has no other with input writes the batch itself. One long
//! commit returns them to the committer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use volume::{Pool, Progress};

use crate::clock::now;
use crate::counters::steps::StepDurations;
use crate::limits::{SHORT_COMMIT, SHORT_COMMITS_MIN};

/// Commits of one pool: one sync serves all its volumes.
pub(crate) struct Commits {
    pool: Arc<Pool>,
    pace: Pace,
    durations: StepDurations,
    /// The pool refused data when that was last watched.
    is_full: AtomicBool,
}

/// The number of short commits in a row, up to [`SHORT_COMMITS_MIN`].
#[derive(Default)]
struct Pace(AtomicU32);

impl Commits {
    pub(crate) fn of(pool: &Arc<Pool>) -> Arc<Commits> {
        let (pace, durations) = (Pace::default(), StepDurations::default());
        Arc::new(Commits { pool: Arc::clone(pool), pace, durations, is_full: AtomicBool::new(false) })
    }

    /// Returns how long the pool's steps took.
    pub(crate) fn durations(&self) -> &StepDurations {
        &self.durations
    }

    /// Whether these are the commits of this pool.
    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// Notes whether the pool is full.
    pub(crate) fn note_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Whether the pool was full when that was last noted.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    fn took(&self, time: Duration) {
        self.pace.took(time);
        self.durations.syncs.note(time);
    }

    /// Runs one step of the committer.
    pub(crate) fn step(&self) -> Progress {
        let start = Instant::now();
        let progress = self.pool.step_commit(now());
        if progress == Progress::Worked {
            self.took(start.elapsed());
        }
        progress
    }

    /// Commits queued entries at once if that is expected to be short; else wakes the committer. Returns whether something
    /// became durable.
    pub(crate) fn commit_here(&self) -> bool {
        if !self.pool.awaits_commit() {
            return false;
        }
        let start = Instant::now();
        if self.pace.is_short() && self.pool.try_step_commit(now()) == Progress::Worked {
            self.took(start.elapsed());
            // For entries queued since, and those behind a fence.
            self.pool.wake_commit();
            return true;
        }
        self.pool.wake_commit();
        false
    }
}

impl Pace {
    fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= SHORT_COMMITS_MIN
    }

    /// Notes how long a commit took. Two threads may count two commits as one, which does no harm.
    fn took(&self, time: Duration) {
        let short = self.0.load(Ordering::Relaxed);
        let short = if time > SHORT_COMMIT { 0 } else { (short + 1).min(SHORT_COMMITS_MIN) };
        self.0.store(short, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_commit_returns_commits_to_the_committer() {
        let pace = Pace::default();
        for _ in 0..SHORT_COMMITS_MIN {
            assert!(!pace.is_short());
            pace.took(SHORT_COMMIT);
        }
        assert!(pace.is_short());
        pace.took(SHORT_COMMIT * 2);
        assert!(!pace.is_short());
        pace.took(SHORT_COMMIT);
        assert!(!pace.is_short());
    }
}
