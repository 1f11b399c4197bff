//! Which segment the cleaner works on, and which it has finished or given up.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::api::ids::{Layer, SegmentId};
use crate::api::time::Time;
use crate::segments::SegmentInfo;

/// State of the cleaner.
#[derive(Default)]
pub struct Cleaner {
    state: Mutex<Work>,
    cleaned: AtomicU64,
}

#[derive(Default)]
struct Work {
    current: Option<(SegmentId, u64)>,
    /// Segments that were gone through, and wait for a checkpoint to see them dead.
    finished: HashSet<SegmentId>,
    /// Stored bytes that it moved into segments. Small extents have headers that count as dead in the live bytes of a segment,
    /// so without this it would move them again and again.
    packed: HashMap<SegmentId, u64>,
    /// Those that could not be, and when that was.
    failed: HashMap<SegmentId, Time>,
}

/// A segment that could not be cleaned, for want of room or as media failed, is left alone for so long.
const TRY_AGAIN: Duration = Duration::from_secs(60);

impl Cleaner {
    /// Segments gone through since the volume was opened.
    pub fn cleaned(&self) -> u64 {
        self.cleaned.load(Ordering::Relaxed)
    }

    /// A segment is deleted.
    pub fn forget(&self, id: SegmentId) {
        let mut state = self.state.lock();
        state.finished.remove(&id);
        state.failed.remove(&id);
        state.packed.remove(&id);
    }

    /// Returns the segment that is being cleaned, and where in it the next step begins.
    pub fn current(&self) -> Option<(SegmentId, u64)> {
        self.state.lock().current
    }

    /// Notes that a step went on to `next`, or to the end of the segment.
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

    /// Notes that a segment could not be cleaned.
    pub fn note_failure(&self, id: SegmentId, now: Time) {
        let mut state = self.state.lock();
        state.current = None;
        state.failed.insert(id, now);
    }

    /// Counts stored bytes that were moved into a segment.
    pub fn note_moved(&self, id: SegmentId, bytes: u64) {
        *self.state.lock().packed.entry(id).or_default() += bytes;
    }

    /// Chooses the segment that gives most room for the least copying, of those that are less than `percent` alive. All rows
    /// that name its extents are in the index: no memtable from `oldest` on does.
    pub fn choose(
        &self,
        segments: Vec<(SegmentId, SegmentInfo)>,
        oldest: Layer,
        percent: u64,
        now: Time,
    ) -> Option<SegmentId> {
        let mut state = self.state.lock();
        state.failed.retain(|_, failure| now.since(*failure) < TRY_AGAIN);
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
