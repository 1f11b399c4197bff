//! The rounds of write-back, which advance the flushes under way.
//!
//! Write-back advances in rounds. A round starts the flushes that callers requested since the last one, or a flush of everything
//! due once the previous one is done. It writes one portion and waits until the journal has the mappings. Callers whose files are
//! complete by then are answered at once, even if other callers still wait.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;

use crate::api::ids::ObjectId;
use crate::api::time::Time;
use crate::file::dirty::DirtyRange;
use crate::pool::Pool;
use crate::schedule::write_back::turns::File;
use crate::schedule::write_back::under_way::{Outstanding, UnderWay};
use crate::schedule::write_back::{Failed, Flush};

/// Most files that one round looks at, of those that somebody waits for and of others: to save them in the journal, or to
/// write them to segments.
pub(crate) const FILES_PER_ROUND_MAX: usize = 512;

/// Errors of a round that concern more than a single file.
#[derive(Clone, Copy, Default)]
struct Trouble {
    /// Segments could not be written.
    is_of_media: bool,
    /// The journal failed: nothing was saved.
    is_of_journal: bool,
}

impl Trouble {
    fn any(self) -> bool {
        self.is_of_media || self.is_of_journal
    }
}

/// How many files were completed.
#[derive(Clone, Copy, Default)]
pub(super) struct Ended {
    pub saved: usize,
    pub failed: usize,
}

impl UnderWay {
    /// Adds a flush.
    pub(crate) fn add(&mut self, pool: &Pool, flush: Flush) {
        let Flush { generation, after, is_of_due, files, requested } = flush;
        if is_of_due {
            self.latest = generation;
        }
        let mut left = files.len();
        let mut unchanged = requested.clone();
        for (id, cell) in files {
            let is_requested = unchanged.remove(&id);
            if let Some(file) = self.turns.get_mut(id) {
                // It changed since its data was taken.
                file.again.push(generation);
            } else {
                self.look_at(File::new(id, cell, vec![generation], is_requested));
            }
            if is_requested {
                self.turns.hurry(id);
            }
        }
        for id in unchanged {
            if let Some(file) = self.turns.get_mut(id) {
                // All unstable data was taken for the latest flush that waits for this file.
                let last = if file.again.is_empty() { &mut file.serves } else { &mut file.again };
                last.push(generation);
                self.turns.hurry(id);
            } else if let Some(cell) = pool.inodes.peek(id) {
                self.look_at(File::new(id, cell, vec![generation], true));
            } else {
                continue;
            }
            left += 1;
        }
        let unsaved = BTreeSet::new();
        self.flushes.push_back(Outstanding { generation, after, requested, unsaved, left });
    }

    /// Advances by about one portion of data, and counts the files that are complete.
    pub(super) fn round(&mut self, pool: &Pool, now: Time, drive_commit: bool, ended: &mut Ended) {
        let mut complete = self.save_small_files(pool, now);
        let portion = self.turns.next_portion(pool.limits.portion_bytes());
        let mut trouble = Trouble::default();
        if !portion.is_empty() && !pool.committer.has_failed() {
            trouble.is_of_media = !pool.write_portion(&portion, &mut self.turns, now);
        }
        if !trouble.is_of_media {
            complete.extend(self.turns.take_finished(&portion));
        }
        let mut complete: Vec<File> =
            complete.into_iter().filter_map(|file| self.unless_superseded(file)).collect();
        // Newer data that is gone by now was removed by an entry that is queued by now.
        let last = pool.committer.last_queued();
        trouble.is_of_journal =
            pool.committer.has_failed() || !pool.committer.wait_durable(last, drive_commit);
        #[cfg(test)]
        pool.hooks.reach(crate::hooks::Point::RoundSaved);
        if trouble.any() {
            // Nothing more is tried: each attempt may take long. Accepted data is still in memory, but clients may be told
            // that it could not be made stable.
            pool.losses.fetch_add(1, Ordering::AcqRel);
            let rest =
                self.turns.take_all().into_iter().chain(self.requested.drain(..)).chain(self.due.drain(..));
            complete.extend(rest.map(|file| File { has_failed: true, ..file }));
        }
        let mut saved = Vec::new();
        let is_any_complete = !complete.is_empty();
        for mut file in complete {
            file.has_failed |= trouble.is_of_journal;
            let count = if file.has_failed { &mut ended.failed } else { &mut ended.saved };
            *count += 1;
            self.end_file(pool, file, trouble, now, &mut saved);
        }
        pool.write_back.note_saved(&saved);
        self.end_flushes(pool, trouble);
        if is_any_complete || !self.is_busy() {
            pool.committer.wake_waiters();
        }
    }

    /// Saves files with little unstable data in the journal, and returns those that are complete; others take turns from now on.
    fn save_small_files(&mut self, pool: &Pool, now: Time) -> Vec<File> {
        let mut complete = Vec::new();
        let mut inline_left = pool.inline_budget();
        let requested = self.requested.len().min(FILES_PER_ROUND_MAX);
        let due = self.due.len().min(FILES_PER_ROUND_MAX);
        let files: Vec<File> = self.requested.drain(..requested).chain(self.due.drain(..due)).collect();
        for mut file in files {
            // Its data was taken since it was put there.
            if let Some(writing) = self.turns.get_mut(file.id) {
                writing.serves.append(&mut file.serves);
                if file.is_requested {
                    self.turns.hurry(file.id);
                }
                continue;
            }
            if pool.committer.has_failed() || pool.is_deleted(file.id.volume) {
                file.has_failed = true;
                complete.push(file);
                continue;
            }
            match pool.save_small(file.id, inline_left, now) {
                Ok(Some(bytes)) => inline_left = inline_left.saturating_sub(bytes),
                Ok(None) => file.ranges = file.cell.lock().dirty.ranges().cloned().collect(),
                Err(error) => file.note_failure(error),
            }
            if file.ranges.is_empty() {
                complete.push(file);
            } else {
                self.turns.put(file);
            }
        }
        complete
    }

    /// Returns a file that is complete. If newer unstable data replaced what a caller waits for, that data is written too. The
    /// file takes no more until then, unless a durable change removes all that it has, so this happens only once.
    fn unless_superseded(&mut self, mut file: File) -> Option<File> {
        if file.has_failed || !file.is_requested || file.is_set_aside || file.superseded.is_empty() {
            return Some(file);
        }
        let mut state = file.cell.lock();
        let mut writes = BTreeSet::new();
        for (start, end) in file.superseded.drain(..) {
            writes.extend(state.dirty.overlapping(start, end).map(|range| range.write));
        }
        let is_newer = |range: &&DirtyRange| writes.contains(&range.write);
        let newer: VecDeque<DirtyRange> = state.dirty.ranges().filter(is_newer).cloned().collect();
        state.is_set_aside = !newer.is_empty();
        drop(state);
        if newer.is_empty() {
            return Some(file);
        }
        (file.is_set_aside, file.ranges) = (true, newer);
        self.turns.put(file);
        None
    }

    /// Ends a file for the flushes that its data was written for. `saved` receives it, with the last of them if callers wait
    /// for it.
    fn end_file(
        &mut self,
        pool: &Pool,
        file: File,
        trouble: Trouble,
        now: Time,
        saved: &mut Vec<(ObjectId, Option<u64>)>,
    ) {
        let File { id, cell, serves, again, has_failed, is_requested, .. } = file;
        let last = serves.iter().copied().max().unwrap_or_default();
        if pool.is_deleted(id.volume) {
            pool.drop_unstable(&cell);
        } else if has_failed {
            let mut state = cell.lock();
            // Later readers see unstable data again, or what an earlier flush made stable.
            if state.flush_generation <= last {
                state.flush_generation = 0;
            }
            if state.unsaved || !state.dirty.is_empty() {
                pool.write_back.enter(&state, &cell, now);
                state.is_set_aside = !trouble.any() && !state.dirty.is_empty();
                if !trouble.any() {
                    pool.write_back.set_aside(id, now);
                }
            }
        } else {
            cell.lock().is_set_aside = false;
            saved.push((id, is_requested.then_some(last)));
        }
        for flush in &mut self.flushes {
            if serves.contains(&flush.generation) {
                flush.left -= 1;
                if has_failed && flush.requested.contains(&id) {
                    flush.unsaved.insert(id);
                }
            }
            // What an earlier one could not save is saved now.
            if !has_failed {
                flush.unsaved.remove(&id);
            }
            if flush.left == 0 {
                flush.requested.clear();
            }
        }
        if !again.is_empty() {
            let waits =
                |flush: &Outstanding| again.contains(&flush.generation) && flush.requested.contains(&id);
            let is_requested = self.flushes.iter().any(waits);
            self.look_at(File::new(id, cell, again, is_requested));
        }
    }

    /// Ends the flushes that are complete, as are those before them.
    fn end_flushes(&mut self, pool: &Pool, trouble: Trouble) {
        while self.flushes.front().is_some_and(|flush| flush.left == 0)
            && let Some(flush) = self.flushes.pop_front()
        {
            let failed = match (trouble.is_of_journal, flush.unsaved) {
                (true, _) => Some(Failed::All),
                (_, unsaved) => (!unsaved.is_empty()).then_some(Failed::Files(unsaved)),
            };
            pool.write_back.finish(flush.generation, flush.after, failed);
        }
    }
}
