//! When a checkpoint is due, and what is frozen for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::api::ids::{Ino, ObjectId, Seq, VolumeNumber};
use crate::api::time::Time;
use crate::cache::duplicate_requests::{FreshReplies, ReplyChanges};
use crate::tables::memtable::Memtable;

/// A memtable that is not empty is checkpointed after this long, so that a restart replays little.
const CHECKPOINT_AGE_MAX: Duration = Duration::from_secs(60);

/// On a device without room for the index, removals are checkpointed after this long.
const CHECKPOINT_AGE_WHEN_FULL: Duration = Duration::from_secs(1);

/// On a full device, how often at least an index is searched for free pages, and a settled one is committed again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Delay after a failed checkpoint.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A failure that repeats is logged again after this long.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// State of checkpoints.
#[derive(Default)]
pub struct Checkpoints {
    state: Mutex<Timing>,
    due: Condvar,
    done: AtomicU64,
    /// Bytes in segments that newer data replaced since the last freeze.
    replaced: AtomicU64,
    /// Held while a checkpoint is made: by its thread, or by a write-back that finds the ring full.
    running: Mutex<()>,
    /// Whether the index could not be reopened for lack of space.
    index_closed: AtomicBool,
    room: Mutex<IndexRoom>,
    /// Memtables that the index has replaced, while somebody may still read them.
    retired: Mutex<Vec<Arc<Memtable>>>,
}

/// Room inside the index's own file: pages that removed records left.
#[derive(Default)]
pub struct IndexRoom {
    /// Bytes of unused pages.
    pub free: u64,
    /// When it was measured.
    pub looked: Option<Time>,
    /// Bytes of used pages then.
    pub used: u64,
    /// Bytes of the file then.
    pub file: u64,
}

#[derive(Default)]
struct Timing {
    kicked: bool,
    last: Option<Time>,
    last_failure: Option<Time>,
    /// What failed, as last logged, and when.
    logged: Vec<(String, Time)>,
    /// Whether maps of removed or truncated files remain to be freed.
    more_to_reap: bool,
    /// The last file whose map was being freed.
    last_reaped: Option<ObjectId>,
    /// Whether the last checkpoint had no changes to write and only released what its predecessor freed.
    settled: bool,
    /// How many times a failure to read the index passed since the last checkpoint.
    repairs: u32,
    /// Number of checkpoints at the last call of [`Checkpoints::may_help`].
    looked_at: u64,
    /// What is frozen and not in the index yet.
    frozen: Option<Arc<Frozen>>,
}

/// A frozen memtable, with the other state of the same moment.
pub struct Frozen {
    /// Bytes that the files of all volumes use.
    pub used: u64,
    /// The memtable.
    pub memtable: Arc<Memtable>,
    /// The last entry in it.
    pub seq: Seq,
    /// The next inode numbers of all volumes.
    pub next_inos: Vec<(VolumeNumber, Ino)>,
    /// Replies cached since the freeze before.
    pub fresh_replies: FreshReplies,
    /// What is stored of them, once it is known.
    pub replies: OnceLock<ReplyChanges>,
}

/// What decides whether a checkpoint is due.
#[derive(Default)]
pub struct Pressure {
    /// Whether nothing changed since the last freeze.
    pub is_empty: bool,
    /// Whether much of the journal's ring is used.
    pub is_ring_filling: bool,
    /// Whether a caller was recently refused for lack of room.
    pub is_short: bool,
    /// Whether a checkpoint would delete segments.
    pub has_dead_segments: bool,
    /// Whether the index cannot grow by a whole checkpoint.
    pub is_index_full: bool,
    /// Whether blocks of the index could not be read.
    pub is_index_damaged: bool,
}

/// Returns how long to wait before searching a mostly used index file again: about twenty times the duration of a search
/// at 160 MiB per second.
fn look_again(file: u64) -> Duration {
    const BYTES_PER_SECOND: u64 = 8 << 20;
    Duration::from_secs(file / BYTES_PER_SECOND).clamp(Duration::from_secs(1), LOOK_AGAIN)
}

impl Checkpoints {
    /// Returns the state of a volume that is opened, where maps of removed or truncated files may remain to be freed.
    pub fn new(more_to_reap: bool) -> Checkpoints {
        let checkpoints = Checkpoints::default();
        checkpoints.state.lock().more_to_reap = more_to_reap;
        checkpoints
    }

    /// Requests a checkpoint.
    pub fn kick(&self) {
        self.state.lock().kicked = true;
        self.due.notify_all();
    }

    /// Counts bytes in segments that newer data replaced, and requests a checkpoint once they reach `enough` since
    /// the last one.
    pub fn note_replaced(&self, bytes: u64, enough: u64) {
        let before = self.replaced.fetch_add(bytes, Ordering::Relaxed);
        if before < enough && before + bytes >= enough {
            self.kick();
        }
    }

    /// Whether a checkpoint could still free space: not if one was made since the last call, or if the last attempt
    /// failed.
    pub fn may_help(&self) -> bool {
        let mut state = self.state.lock();
        let done = self.done();
        let made_one = std::mem::replace(&mut state.looked_at, done) != done;
        state.more_to_reap || !(made_one || state.last_failure.is_some())
    }

    /// Reduces the room inside the index by what a checkpoint may have used.
    pub fn spend_room(&self, bytes: u64) {
        let mut room = self.room.lock();
        room.free = room.free.saturating_sub(bytes);
    }

    /// Returns the number of checkpoints since the volume was opened.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Blocks until a checkpoint is requested, at most for `max`.
    pub fn wait(&self, max: Duration) {
        let mut state = self.state.lock();
        if !state.kicked {
            self.due.wait_for(&mut state, max);
        }
    }

    /// Waits for a checkpoint in progress, and excludes others until the guard is dropped.
    pub fn run(&self) -> MutexGuard<'_, ()> {
        self.running.lock()
    }

    /// Whether a checkpoint is due, or made because of `force`.
    pub fn is_due(&self, now: Time, force: bool, load: &Pressure) -> bool {
        let mut state = self.state.lock();
        if state.last_failure.is_some_and(|failure| !force && now.apart(failure) < PAUSE_AFTER_FAILURE) {
            return false;
        }
        let last = *state.last.get_or_insert(now);
        let full = load.is_index_full && now.apart(last) >= CHECKPOINT_AGE_WHEN_FULL;
        let kicked = std::mem::take(&mut state.kicked) || load.is_short || full;
        // Pages freed by the last transactions can be reused only after another transaction.
        let pause = if state.settled { LOOK_AGAIN } else { CHECKPOINT_AGE_WHEN_FULL };
        let settle = load.is_index_full && now.apart(last) >= pause;
        if state.frozen.is_some()
            || state.more_to_reap
            || load.is_ring_filling
            || load.has_dead_segments
            || load.is_index_damaged
            || settle
        {
            return true;
        }
        !load.is_empty && (force || kicked || now.apart(last) >= CHECKPOINT_AGE_MAX)
    }

    /// Returns what is frozen and not in the index yet; if nothing is, freezes what `freeze` returns.
    pub fn freeze(&self, freeze: impl FnOnce() -> Frozen) -> Arc<Frozen> {
        let mut state = self.state.lock();
        let frozen = state.frozen.get_or_insert_with(|| {
            self.replaced.store(0, Ordering::Relaxed);
            Arc::new(freeze())
        });
        Arc::clone(frozen)
    }

    /// Ends a checkpoint of what was frozen.
    pub fn finish(&self, now: Time, more_to_reap: bool, last_reaped: Option<ObjectId>) {
        self.done.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let frozen = state.frozen.take();
        state.settled = frozen.is_some_and(|frozen| frozen.memtable.is_empty());
        state.last = Some(now);
        state.last_failure = None;
        state.logged.clear();
        state.repairs = 0;
        state.more_to_reap = more_to_reap;
        state.last_reaped = last_reaped;
    }

    /// Whether maps of removed or truncated files, or deleted volumes, remain to be freed.
    pub fn is_reaping(&self) -> bool {
        self.state.lock().more_to_reap
    }

    /// Returns the last file whose map the checkpoint before was freeing: others have their turn first.
    pub fn last_reaped(&self) -> Option<ObjectId> {
        self.state.lock().last_reaped
    }

    /// Keeps a memtable until nobody reads it, so that no reader has to free its records.
    pub fn retire(&self, memtable: &Arc<Memtable>) {
        self.retired.lock().push(Arc::clone(memtable));
    }

    /// Frees the retired memtables that nobody reads any more. Takes long: only for threads that nobody waits for.
    pub fn free_retired(&self) {
        self.retired.lock().retain(|memtable| Arc::strong_count(memtable) > 1);
    }

    /// Whether to log a failure: not if the same was logged a moment ago, and no checkpoint succeeded since.
    pub fn is_news(&self, now: Time, what: &str) -> bool {
        /// Failures that are told apart.
        const KINDS_MAX: usize = 8;
        let mut state = self.state.lock();
        state.logged.retain(|(_, at)| now.apart(*at) < LOG_AGAIN);
        let is_known = state.logged.iter().any(|(known, _)| known == what);
        if !is_known && state.logged.len() < KINDS_MAX {
            state.logged.push((what.to_owned(), now));
            return true;
        }
        false
    }

    /// Records that a failure to read the index passed.
    pub fn note_repair(&self) {
        self.state.lock().repairs += 1;
    }

    /// Returns how many times that happened since the last checkpoint.
    pub fn repairs(&self) -> u32 {
        self.state.lock().repairs
    }

    /// Records a failed checkpoint.
    pub fn note_failure(&self, now: Time) {
        self.state.lock().last_failure = Some(now);
    }

    /// Whether the index could not be reopened for lack of space.
    pub fn is_index_closed(&self) -> bool {
        self.index_closed.load(Ordering::Acquire)
    }

    /// Records whether the index could be reopened.
    pub fn set_index_closed(&self, closed: bool) {
        self.index_closed.store(closed, Ordering::Release);
    }

    /// Returns the bytes free inside the index's file, as last measured.
    pub fn free_in_index(&self) -> u64 {
        self.room.lock().free
    }

    /// Measures the room inside the index when none is left outside: seldom, unless little of the file is in use.
    pub fn refresh_room(&self, now: Time, can_grow: bool, measure: impl FnOnce(&mut IndexRoom)) {
        let mut room = self.room.lock();
        let seldom = room.used.saturating_mul(4) > room.file;
        let too_soon = room.looked.is_some_and(|looked| now.apart(looked) < look_again(room.file));
        if !(can_grow && room.free == 0 || seldom && too_soon) {
            measure(&mut room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_repeats_is_logged_once_a_minute() {
        let checkpoints = Checkpoints::default();
        let at = |seconds| Time::from_parts(seconds, 0);
        let logged = (0..180).filter(|second| checkpoints.is_news(at(*second), "no room")).count();
        assert_eq!(logged, 3);
        assert!(checkpoints.is_news(at(180), "another"));
        checkpoints.finish(at(180), false, None);
        assert!(checkpoints.is_news(at(181), "no room"), "it went well in between");
    }

    #[test]
    fn checkpoints_go_on_when_the_clock_was_set_back() {
        let checkpoints = Checkpoints::default();
        let (before, after) = (Time::from_parts(1_000_000, 0), Time::from_parts(900_000, 0));
        assert!(!checkpoints.is_due(before, false, &Pressure::default()));
        checkpoints.note_failure(before);
        let load = Pressure { is_ring_filling: true, ..Pressure::default() };
        assert!(!checkpoints.is_due(before, false, &load), "it failed a moment ago");
        assert!(checkpoints.is_due(after, false, &load));
    }
}
