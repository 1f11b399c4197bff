//! Who runs a volume's commit step: its own thread, or an event loop that has nothing else to do.
//!
//! Handing a batch to another thread and hearing of it again costs two switches. Where a sync takes longer than that, it is
//! the committer's, so that no loop waits for the device. Where the last ones took less (a device that keeps its cache
//! when power fails, memory), a loop that served one connection and has no other with input writes the batch itself.
//! One commit that takes long is enough to leave them to the committer again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use volume::{Progress, Volume};

use crate::clock::now;
use crate::limits::{SHORT_COMMIT, SHORT_COMMITS_MIN};

/// Commits of one volume.
pub(crate) struct Commits {
    volume: Arc<Volume>,
    pace: Pace,
}

/// How many of the last commits were short, up to [`SHORT_COMMITS_MIN`].
#[derive(Default)]
struct Pace(AtomicU32);

impl Commits {
    pub(crate) fn of(volume: &Arc<Volume>) -> Arc<Commits> {
        Arc::new(Commits { volume: Arc::clone(volume), pace: Pace::default() })
    }

    /// The committer's step.
    pub(crate) fn step(&self) -> Progress {
        let start = Instant::now();
        let progress = self.volume.step_commit(now());
        if progress == Progress::Worked {
            self.pace.took(start.elapsed());
        }
        progress
    }

    /// Commits what is queued here and now, if that will be short; else wakes the committer. Answers whether something
    /// became durable.
    pub(crate) fn commit_here(&self) -> bool {
        if !self.volume.awaits_commit() {
            return false;
        }
        let start = Instant::now();
        if self.pace.is_short() && self.volume.try_step_commit(now()) == Progress::Worked {
            self.pace.took(start.elapsed());
            // What others queued meanwhile, and what waits for a fence.
            self.volume.wake_commit();
            return true;
        }
        self.volume.wake_commit();
        false
    }
}

impl Pace {
    fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= SHORT_COMMITS_MIN
    }

    /// Remembers how long a commit took. That two threads may count one as none does not matter.
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
    fn one_long_commit_ends_the_trust_that_many_short_ones_earn() {
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
