//! Files with unstable data, and the rounds of write-back that are asked for, begun and done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::api::ids::Ino;
use crate::api::time::Time;
use crate::file::inodes::{InodeState, SharedInode};

/// Unstable data is written back at the latest this long after it came.
const AGE: Duration = Duration::from_secs(2);

/// Failed rounds that are remembered: replies wait for a round no longer than a few seconds.
const FAILED_FLUSHES_MAX: usize = 1024;

/// What a round takes.
pub struct Flush {
    /// Its number.
    pub generation: u64,
    /// The files, with their inodes.
    pub files: Vec<(Ino, SharedInode)>,
    /// Files that somebody waits for, also such that an earlier round has written meanwhile.
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
    /// The last round that began. Their numbers are even: who waits for the odd one before waits for the same round, and
    /// not for its success.
    started: u64,
    /// Files that somebody waits for.
    requested: BTreeSet<Ino>,
    /// Whether the device or memory is short: write all back.
    pressed: bool,
    /// Whether somebody waits for a round, whatever it finds to do.
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
    /// Bytes of unstable data.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Counts unstable bytes that came and went.
    pub fn count(&self, before: u64, after: u64) {
        if after >= before {
            self.dirty_bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.dirty_bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// The identity of one more WRITE.
    pub fn new_write(&self) -> u64 {
        self.next_write.fetch_add(1, Ordering::Relaxed)
    }

    /// The last round that is done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Whether a round failed.
    pub fn has_failed(&self, flush_generation: u64) -> bool {
        flush_generation != 0 && self.state.lock().failed.contains(&flush_generation)
    }

    /// Enters a locked file that has unstable data or unsaved times.
    pub fn enter(&self, state: &InodeState, cell: &SharedInode, now: Time) {
        self.state.lock().files.entry(state.ino).or_insert_with(|| (SharedInode::clone(cell), now));
    }

    /// Files that wait to be written back.
    pub fn files(&self) -> usize {
        self.state.lock().files.len()
    }

    /// Asks for a file to be written back, and says which round will have done it.
    pub fn request(&self, ino: Ino) -> u64 {
        let mut state = self.state.lock();
        state.requested.insert(ino);
        self.wanted.notify_one();
        state.started + 2
    }

    /// Asks for everything to be written back soon, and says what to wait for that is reached when that was tried.
    pub fn pace(&self) -> u64 {
        let mut state = self.state.lock();
        (state.pressed, state.paced) = (true, true);
        self.wanted.notify_one();
        state.started + 1
    }

    /// Asks for everything to be written back soon.
    pub fn press(&self) {
        self.state.lock().pressed = true;
        self.wanted.notify_one();
    }

    /// Blocks until somebody asks, or the time is over.
    pub fn wait(&self, max: Duration) {
        let mut state = self.state.lock();
        if state.requested.is_empty() && !state.pressed {
            self.wanted.wait_for(&mut state, max);
        }
    }

    /// Begins a round.
    pub fn begin(&self, now: Time, everything: bool) -> Option<Flush> {
        let mut state = self.state.lock();
        let everything = std::mem::take(&mut state.pressed) || everything;
        let requested = std::mem::take(&mut state.requested);
        let due = |ino: &Ino, since: &Time| everything || requested.contains(ino) || now.since(*since) >= AGE;
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

    /// Ends a round.
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
