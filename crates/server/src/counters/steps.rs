//! How long the background steps of a volume took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::counters::histogram::{Snapshot, bucket};
use crate::counters::tallied::{DURATION_BUCKETS, DURATION_UNIT};

/// Durations that several threads note.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    buckets: [AtomicU64; DURATION_BUCKETS],
    nanos: AtomicU64,
}

impl Durations {
    pub(crate) fn note(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let place = bucket::<DURATION_BUCKETS>(nanos, DURATION_UNIT);
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Snapshot<DURATION_BUCKETS> {
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        Snapshot { buckets, sum: self.nanos.load(Ordering::Relaxed) }
    }
}

/// The steps of a volume whose durations are noted.
#[derive(Debug, Default)]
pub(crate) struct StepDurations {
    /// Commits: a batch of the journal is written and synced.
    pub(crate) syncs: Durations,
    pub(crate) checkpoints: Durations,
}
