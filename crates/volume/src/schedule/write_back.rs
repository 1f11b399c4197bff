//! Files with unstable data, and flushes: requested, begun and done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::api::ids::Ino;
use crate::api::time::Time;
use crate::file::inodes::{InodeState, SharedInode};

/// Unstable data is written back at this age at the latest.
const DIRTY_AGE_MAX: Duration = Duration::from_secs(2);

/// Failed flushes that are remembered: replies wait for a flush no longer than a few seconds.
const FAILED_FLUSHES_MAX: usize = 1024;

/// The work of one flush.
pub struct Flush {
    /// Its generation.
    pub generation: u64,
    /// The files, with their inodes.
    pub files: Vec<(Ino, SharedInode)>,
    /// Files that callers wait for, including those that an earlier flush wrote meanwhile.
    pub requested: BTreeSet<Ino>,
}

/// State of write-back.
pub struct WriteBack {
    state: Mutex<Requests>,
    wanted: Condvar,
    done: AtomicU64,
    dirty_bytes: AtomicU64,
    next_write: AtomicU64,
}

#[derive(Default)]
struct Requests {
    /// Files with unstable data or unsaved times, and since when.
    files: BTreeMap<Ino, (SharedInode, Time)>,
    /// The last generation begun. Generations are even: a caller that waits for the odd number before one waits for
    /// the same flush, but not for its success.
    started: u64,
    /// Files that callers wait for.
    requested: BTreeSet<Ino>,
    /// Whether the device or memory is short: write everything back.
    pressed: bool,
    /// Whether a caller waits for a flush, whatever it finds to do.
    paced: bool,
    failed: BTreeSet<u64>,
}

impl Default for WriteBack {
    fn default() -> WriteBack {
        WriteBack {
            state: Mutex::default(),
            wanted: Condvar::new(),
            done: AtomicU64::new(0),
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

    /// Returns an identity for a WRITE.
    pub fn new_write(&self) -> u64 {
        self.next_write.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the last generation that is done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Whether this generation failed.
    pub fn has_failed(&self, flush_generation: u64) -> bool {
        flush_generation != 0 && self.state.lock().failed.contains(&flush_generation)
    }

    /// Adds a locked file that has unstable data or unsaved times.
    pub fn enter(&self, state: &InodeState, cell: &SharedInode, now: Time) {
        self.state.lock().files.entry(state.ino).or_insert_with(|| (SharedInode::clone(cell), now));
    }

    /// Returns the number of files to be written back.
    pub fn files(&self) -> usize {
        self.state.lock().files.len()
    }

    /// Requests that a file be written back, and returns the generation that will have done it.
    pub fn request(&self, ino: Ino) -> u64 {
        let mut state = self.state.lock();
        state.requested.insert(ino);
        self.wanted.notify_one();
        state.started + 2
    }

    /// Requests that everything be written back soon, to slow callers down. Returns the flush generation to wait for; it
    /// counts as reached even if the flush fails.
    pub fn pace(&self) -> u64 {
        let mut state = self.state.lock();
        (state.pressed, state.paced) = (true, true);
        self.wanted.notify_one();
        state.started + 1
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

    /// Begins a flush of what is requested or old, or of everything.
    pub fn begin(&self, now: Time, everything: bool) -> Option<Flush> {
        let mut state = self.state.lock();
        let everything = std::mem::take(&mut state.pressed) || everything;
        let requested = std::mem::take(&mut state.requested);
        let due = |ino: &Ino, since: &Time| {
            everything || requested.contains(ino) || now.since(*since) >= DIRTY_AGE_MAX
        };
        let files: Vec<(Ino, SharedInode)> = state
            .files
            .iter()
            .filter(|(ino, (_, since))| due(ino, since))
            .map(|(ino, (cell, _))| (*ino, SharedInode::clone(cell)))
            .collect();
        let paced = std::mem::take(&mut state.paced);
        if files.is_empty() && requested.is_empty() && !paced {
            return None;
        }
        state.started += 2;
        for (ino, _) in &files {
            state.files.remove(ino);
        }
        Some(Flush { generation: state.started, files, requested })
    }

    /// Ends a flush.
    pub fn finish(&self, flush_generation: u64, failed: bool) {
        if failed {
            let mut state = self.state.lock();
            state.failed.insert(flush_generation);
            if state.failed.len() > FAILED_FLUSHES_MAX {
                state.failed.pop_first();
            }
        }
        self.done.store(flush_generation, Ordering::Release);
    }
}
