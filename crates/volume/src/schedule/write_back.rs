//! Files with unstable data, and flushes: requested, begun and done.

pub(crate) mod turns;
pub(crate) mod under_way;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::api::ids::ObjectId;
use crate::api::request::FlushWait;
use crate::api::time::Time;
use crate::file::inodes::{InodeState, SharedInode};

/// Unstable data is written back at this age at the latest.
const DIRTY_AGE_MAX: Duration = Duration::from_secs(2);

/// Most files of a flush that nobody asks for; more are left to the next one.
const FILES_PER_FLUSH_MAX: usize = 16_384;

/// Files that are taken at a time, as WRITE, READ and COMMIT need the same lock.
const FILES_AT_ONCE: usize = 512;

/// Failed flushes that are told apart from others. Replies wait for a flush no longer than a few seconds, but a remembered
/// reply can be asked for hours later. If more failed, all up to the last that is forgotten count as failed.
const FAILED_FLUSHES_MAX: usize = 1024;

/// Files of one failed flush that are told apart from those that it saved. If more failed, it counts as failed for all.
const FAILED_FILES_MAX: usize = 256;

/// A file that could not be saved is left alone for this long, then for twice as long each time, unless a caller asks for it.
const PAUSE_AFTER_FAILURE: Duration = DIRTY_AGE_MAX;

/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(32);

/// From one flush of everything due to the next, generations advance by this. Those between are for flushes of what callers
/// ask for meanwhile.
pub const GENERATIONS_PER_FLUSH: u64 = 1 << 20;

/// The work of one flush.
pub struct Flush {
    /// Its generation.
    pub generation: u64,
    /// The previous generation. Callers that wait for any later one, up to this, wait for this flush.
    pub after: u64,
    /// Whether it has the files that are due, or only those that callers wait for.
    pub is_of_due: bool,
    /// The files, with their inodes; each once.
    pub files: Vec<(ObjectId, SharedInode)>,
    /// Files that callers wait for, including those that an earlier flush wrote meanwhile.
    pub requested: BTreeSet<ObjectId>,
}

/// State of write-back.
pub struct WriteBack {
    state: Mutex<Requests>,
    /// Number of files to be written back.
    files: AtomicUsize,
    wanted: Condvar,
    done: AtomicU64,
    /// Grows after files were saved, and after a flush was done.
    advances: AtomicU64,
    dirty_bytes: AtomicU64,
    next_write: AtomicU64,
}

#[derive(Default)]
struct Requests {
    /// Files with unstable data or unsaved times.
    files: BTreeMap<ObjectId, Waiting>,
    /// When they are due, but for those that rest.
    due: BTreeSet<(Time, ObjectId)>,
    /// When those are due that could not be saved the last time.
    rested: BTreeSet<(Time, ObjectId)>,
    /// The last generation begun. Generations are even: a caller that waits for the odd number before one waits for
    /// the same flush, but not for its success.
    started: u64,
    /// Files that callers wait for, and that a flush saved before it was done, with its generation.
    saved: BTreeMap<ObjectId, u64>,
    /// Files that callers wait for.
    requested: BTreeSet<ObjectId>,
    /// Whether the device or memory is short: write everything back.
    pressed: bool,
    /// Whether a caller waits for a flush, whatever it finds to do.
    paced: bool,
    /// Flushes that failed, with the generation before.
    failed: BTreeMap<u64, (u64, Failed)>,
    /// The last generation that failed and is not among these any more.
    forgotten: u64,
    /// Files that the last flush of them could not save, and how long they rest.
    pauses: BTreeMap<ObjectId, Duration>,
}

/// A file to be written back.
struct Waiting {
    cell: SharedInode,
    due: Time,
    rests: bool,
}

/// Which files are due: those whose time is no later.
#[derive(Clone, Copy)]
struct Until {
    due: Time,
    rested: Time,
}

impl Requests {
    fn put(&mut self, id: ObjectId, waiting: Waiting) {
        let order = if waiting.rests { &mut self.rested } else { &mut self.due };
        order.insert((waiting.due, id));
        self.files.insert(id, waiting);
    }

    fn take(&mut self, id: ObjectId) -> Option<Waiting> {
        let waiting = self.files.remove(&id)?;
        let order = if waiting.rests { &mut self.rested } else { &mut self.due };
        order.remove(&(waiting.due, id));
        Some(waiting)
    }

    /// Returns the generation of the next flush of what is due.
    fn next_flush(&self) -> u64 {
        (self.started / GENERATIONS_PER_FLUSH + 1) * GENERATIONS_PER_FLUSH
    }

    /// Returns a file that is due.
    fn next_due(&self, until: Until) -> Option<ObjectId> {
        let of = |order: &BTreeSet<(Time, ObjectId)>, until: Time, longest| {
            let next = order.first().filter(|(due, _)| *due <= until);
            // The clock was set back since the last one was put there.
            let next = next.or_else(|| order.last().filter(|(due, _)| *due > until.plus(longest)));
            next.map(|(_, id)| *id)
        };
        of(&self.due, until.due, DIRTY_AGE_MAX).or_else(|| of(&self.rested, until.rested, PAUSE_MAX))
    }

    /// Takes some files that are due, and returns whether there were any.
    fn take_due(&mut self, until: Until, into: &mut Vec<(ObjectId, SharedInode)>) -> bool {
        let before = into.len();
        while into.len() < before + FILES_AT_ONCE
            && let Some(id) = self.next_due(until)
        {
            into.extend(self.take(id).map(|waiting| (id, waiting.cell)));
        }
        into.len() > before
    }
}

/// For whom a flush failed.
#[derive(Debug)]
pub enum Failed {
    /// For all who waited for it.
    All,
    /// For those who waited for one of these files.
    Files(BTreeSet<ObjectId>),
}

impl Default for WriteBack {
    fn default() -> WriteBack {
        WriteBack {
            state: Mutex::default(),
            files: AtomicUsize::new(0),
            wanted: Condvar::new(),
            done: AtomicU64::new(0),
            advances: AtomicU64::new(0),
            dirty_bytes: AtomicU64::new(0),
            next_write: AtomicU64::new(1),
        }
    }
}

impl WriteBack {
    /// Returns the bytes of unstable data.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Replaces `before` by `after` in the sum of unstable bytes.
    pub fn count(&self, before: u64, after: u64) {
        if after >= before {
            self.dirty_bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.dirty_bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Whether writing back unstable data may help. False while a file that could not be saved waits to be retried.
    pub fn may_help(&self) -> bool {
        self.dirty_bytes() > 0 && self.state.lock().pauses.is_empty()
    }

    /// Returns an identity for a WRITE.
    pub fn new_write(&self) -> u64 {
        self.next_write.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the last generation that is done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Returns a count that grows after files were saved, and after a flush was done.
    pub fn advances(&self) -> u64 {
        self.advances.load(Ordering::Acquire)
    }

    /// Whether a flush failed for its waiter, or may have: very many failed since.
    pub fn has_failed(&self, flush: FlushWait) -> bool {
        if flush.generation == 0 {
            return false;
        }
        // Waiters for an odd one accept a failure.
        if !flush.generation.is_multiple_of(2) {
            return false;
        }
        let state = self.state.lock();
        if flush.generation <= state.forgotten {
            return true;
        }
        match (state.failed.range(flush.generation..).next(), flush.file) {
            (Some((_, (after, _))), _) if *after >= flush.generation => false,
            (Some((_, (_, Failed::Files(files)))), Some(file)) => files.contains(&file),
            (failed, _) => failed.is_some(),
        }
    }

    /// Whether a flush has saved the file that somebody waits for, though it may not be done with others.
    pub fn has_saved(&self, flush: FlushWait) -> bool {
        let Some(file) = flush.file else { return false };
        self.state.lock().saved.get(&file).is_some_and(|generation| *generation >= flush.generation)
    }

    /// Adds a locked file that has unstable data or unsaved times.
    pub fn enter(&self, file: &InodeState, cell: &SharedInode, now: Time) {
        let mut state = self.state.lock();
        if !state.files.contains_key(&file.id) {
            let (cell, due) = (SharedInode::clone(cell), now.plus(DIRTY_AGE_MAX));
            state.put(file.id, Waiting { cell, due, rests: false });
            self.files.store(state.files.len(), Ordering::Relaxed);
        }
    }

    /// Returns the number of files to be written back.
    pub fn files(&self) -> usize {
        self.files.load(Ordering::Relaxed)
    }

    /// Requests that a file be written back, and returns the generation that will have done it.
    pub fn request(&self, id: ObjectId) -> u64 {
        let mut state = self.state.lock();
        state.requested.insert(id);
        self.wanted.notify_one();
        // The next one may be a greater one.
        state.started + 2
    }

    /// Requests that everything be written back soon, to slow callers down. Returns the flush generation to wait for; it
    /// counts as reached even if the flush fails.
    pub fn pace(&self) -> u64 {
        let mut state = self.state.lock();
        (state.pressed, state.paced) = (true, true);
        self.wanted.notify_one();
        state.next_flush() - 1
    }

    /// Requests that everything be written back soon, without a caller that waits.
    pub fn press(&self) {
        self.state.lock().pressed = true;
        self.wanted.notify_one();
    }

    /// Blocks until write-back is requested, at most for `max`.
    pub fn wait(&self, max: Duration) {
        let mut state = self.state.lock();
        if state.requested.is_empty() && !state.pressed {
            self.wanted.wait_for(&mut state, max);
        }
    }

    /// Begins a flush of what is requested or old, or of everything: with what is requested, so many files that callers do not
    /// wait long. Files that could not be saved a moment ago are left out unless they are requested.
    pub fn begin(&self, now: Time, everything: bool) -> Option<Flush> {
        /// Later than any.
        const ALWAYS: Time = Time::from_nanos(i64::MAX);
        let mut state = self.state.lock();
        let pressed = std::mem::take(&mut state.pressed);
        let requested = std::mem::take(&mut state.requested);
        let paced = std::mem::take(&mut state.paced);
        let until = Until {
            due: if everything || pressed { ALWAYS } else { now },
            rested: if everything { ALWAYS } else { now },
        };
        if requested.is_empty() && !paced && state.next_due(until).is_none() {
            return None;
        }
        let generation = state.next_flush();
        let mut flush = Flush::start(&mut state, generation, requested);
        flush.is_of_due = true;
        let files = &mut flush.files;
        let max = files.len() + FILES_PER_FLUSH_MAX;
        while files.len() < max && state.take_due(until, files) {
            MutexGuard::bump(&mut state);
        }
        // The next flush goes on.
        state.pressed |= pressed && state.next_due(until).is_some();
        self.files.store(state.files.len(), Ordering::Relaxed);
        drop(state);
        // A file that changed while others had the lock was entered, and may have been taken, again.
        let mut taken = HashSet::with_capacity(files.len());
        files.retain(|(id, _)| taken.insert(*id));
        Some(flush)
    }

    /// Begins a flush of what is requested, beside one that is not done.
    pub fn join(&self) -> Option<Flush> {
        let mut state = self.state.lock();
        let generation = state.started + 2;
        if state.requested.is_empty() || generation >= state.next_flush() {
            return None;
        }
        let requested = std::mem::take(&mut state.requested);
        let flush = Flush::start(&mut state, generation, requested);
        self.files.store(state.files.len(), Ordering::Relaxed);
        Some(flush)
    }

    /// Sets a file aside that could not be saved, and that [`WriteBack::enter`] added again.
    pub fn set_aside(&self, id: ObjectId, now: Time) {
        let mut state = self.state.lock();
        let pause = state.pauses.get(&id).map_or(PAUSE_AFTER_FAILURE, |pause| (2 * *pause).min(PAUSE_MAX));
        state.pauses.insert(id, pause);
        if let Some(waiting) = state.take(id) {
            state.put(id, Waiting { due: now.plus(pause), rests: true, ..waiting });
        }
    }

    /// Notes files that were saved, with the last flush that each was saved for if callers wait for it.
    pub fn note_saved(&self, files: &[(ObjectId, Option<u64>)]) {
        if files.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for (id, generation) in files {
            state.pauses.remove(id);
            if let Some(generation) = generation {
                state.saved.insert(*id, *generation);
            }
        }
        self.advances.fetch_add(1, Ordering::Release);
    }

    /// Ends a flush; all before it have ended. Those after the generation `after` wait for it.
    pub fn finish(&self, generation: u64, after: u64, failed: Option<Failed>) {
        let mut state = self.state.lock();
        if let Some(failed) = failed {
            let failed = match failed {
                Failed::Files(files) if files.len() > FAILED_FILES_MAX => Failed::All,
                failed => failed,
            };
            state.failed.insert(generation, (after, failed));
            if state.failed.len() > FAILED_FLUSHES_MAX
                && let Some((forgotten, _)) = state.failed.pop_first()
            {
                state.forgotten = forgotten;
            }
        }
        self.done.store(generation, Ordering::Release);
        state.saved.retain(|_, saved_for| *saved_for > generation);
        self.advances.fetch_add(1, Ordering::Release);
    }
}

impl Flush {
    /// Begins a flush of what is requested.
    fn start(state: &mut MutexGuard<'_, Requests>, generation: u64, requested: BTreeSet<ObjectId>) -> Flush {
        let after = std::mem::replace(&mut state.started, generation);
        let mut files = Vec::new();
        for (number, id) in requested.iter().enumerate() {
            files.extend(state.take(*id).map(|waiting| (*id, waiting.cell)));
            if number % FILES_AT_ONCE == 0 {
                MutexGuard::bump(state);
            }
        }
        Flush { generation, after, is_of_due: false, files, requested }
    }
}

#[cfg(test)]
mod tests;
