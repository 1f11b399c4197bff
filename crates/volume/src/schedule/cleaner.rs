//! The cleaner's choice of segments, and its progress.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::api::ids::{Layer, SegmentId};
use crate::api::time::Time;
use crate::segments::SegmentInfo;

/// State of the cleaner.
#[derive(Default)]
pub struct Cleaner {
    state: Mutex<Work>,
    due: Condvar,
    cleaned: AtomicU64,
}

#[derive(Default)]
struct Work {
    kicked: bool,
    /// Segments that had been cleaned at the last call of [`Cleaner::take_progress`].
    cleaned_before: u64,
    current: Option<(SegmentId, u64)>,
    /// Segments that were cleaned, and wait for a checkpoint to find them dead.
    finished: HashSet<SegmentId>,
    /// Stored bytes that the cleaner moved into each segment. Headers of small extents count as dead in a segment's
    /// live bytes; without this they would be moved again and again.
    packed: HashMap<SegmentId, u64>,
    /// Segments that could not be cleaned, and when.
    failed: HashMap<SegmentId, Time>,
}

/// Delay before retrying a segment that could not be cleaned, for lack of room or because media failed.
const TRY_AGAIN: Duration = Duration::from_secs(60);

impl Cleaner {
    /// Returns the number of segments cleaned since the volume was opened.
    pub fn cleaned(&self) -> u64 {
        self.cleaned.load(Ordering::Relaxed)
    }

    /// Whether a segment was cleaned since the last call.
    pub fn take_progress(&self) -> bool {
        let cleaned = self.cleaned();
        std::mem::replace(&mut self.state.lock().cleaned_before, cleaned) != cleaned
    }

    /// Wakes the cleaner: space has become short, or there is more room to clean.
    pub fn kick(&self) {
        self.state.lock().kicked = true;
        self.due.notify_all();
    }

    /// Blocks until [`Cleaner::kick`], for at most `max`. Returns whether it was called.
    pub fn wait(&self, max: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.kicked {
            self.due.wait_for(&mut state, max);
        }
        std::mem::take(&mut state.kicked)
    }

    /// Forgets a deleted segment.
    pub fn forget(&self, id: SegmentId) {
        let mut state = self.state.lock();
        state.finished.remove(&id);
        state.failed.remove(&id);
        state.packed.remove(&id);
    }

    /// Returns the segment being cleaned, and where in it the next step begins.
    pub fn current(&self) -> Option<(SegmentId, u64)> {
        self.state.lock().current
    }

    /// Records that a step reached `next`, or the end of the segment.
    pub fn advance(&self, id: SegmentId, next: Option<u64>) {
        let mut state = self.state.lock();
        state.current = next.map(|offset| (id, offset));
        if next.is_none() {
            state.finished.insert(id);
            self.cleaned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stops cleaning the current segment, which was deleted.
    pub fn stop(&self) {
        self.state.lock().current = None;
    }

    /// Records that a segment could not be cleaned.
    pub fn note_failure(&self, id: SegmentId, now: Time) {
        let mut state = self.state.lock();
        state.current = None;
        state.failed.insert(id, now);
    }

    /// Counts stored bytes moved into a segment.
    pub fn note_moved(&self, id: SegmentId, bytes: u64) {
        *self.state.lock().packed.entry(id).or_default() += bytes;
    }

    /// Returns the segment that frees most for the least copying, of those less than `percent` live. `oldest` is the
    /// oldest memtable: the rows of a chosen segment's extents are all in the index.
    pub fn choose(
        &self,
        segments: Vec<(SegmentId, SegmentInfo)>,
        oldest: Layer,
        percent: u64,
        now: Time,
    ) -> Option<SegmentId> {
        let mut state = self.state.lock();
        state.failed.retain(|_, failure| now.apart(*failure) < TRY_AGAIN);
        let is_worth_it = |(id, info): &(SegmentId, SegmentInfo)| {
            info.is_settled(oldest)
                && info.live > 0
                && info.live * 100 < state.packed.get(id).map_or(info.capacity, |packed| *packed) * percent
                && !state.finished.contains(id)
                && !state.failed.contains_key(id)
        };
        let worth = segments.into_iter().filter(is_worth_it);
        worth.min_by_key(|(_, info)| info.live * 1000 / info.capacity.max(1)).map(|(id, _)| id)
    }
}
