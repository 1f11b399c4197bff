//! Write-back: unstable data goes to segments, and the journal receives the mappings that locate it. Small amounts go
//! into the journal itself.
//!
//! It runs in flushes, each with a generation. A caller that needs data stable (COMMIT, a large stable WRITE) waits
//! until the next flush has saved its file; one flush serves all callers that asked before it began. Flushes overlap: files take
//! turns, in portions of bounded size. The order within a portion is rule 2 of `docs/design.md`: bytes to segments, sync, then
//! the journal entry that names them, then its sync. Writes, truncations and stable writes go on meanwhile; what they replaced
//! is detected when the mappings are journaled, under the inode's lock.

mod portion;
pub(crate) mod under_way;

use std::io;

use crate::api::ids::{ExtentId, ObjectId, Seq};
use crate::api::request::{Access, Durability, Error, Promised};
use crate::api::time::Time;
use crate::background::Progress;
use crate::bytes::Slice;
use crate::cache::blocks::{GROUP_BYTES, WHOLE_EXTENT};
use crate::encoding::key;
use crate::encoding::record::{ExtentMapping, ExtentRecord, InodeRecord, SegmentRecord, Source};
use crate::file::dirty::DirtyRange;
use crate::file::extent_map::{MAPPING_ENTRY_BYTES, replaceable};
use crate::file::inodes::{InodeState, LockedInode};
use crate::limits::{EXTENT_BYTES_MAX, EXTENTS_PER_ENTRY_MAX, MAP_BYTES_PER_ENTRY_MAX};
use crate::pool::Pool;
use crate::schedule::write_back::turns::{self, File, Turns};
use crate::segments::space::EXTENT_OVERHEAD_BYTES;
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::map_update::{inline_mappings, new_bytes};

use portion::Portion;
use under_way::Ended;

/// A checkpoint is worthwhile once the data of this many segments was replaced: it frees them, and they are reused
/// while others fill. So a file that is overwritten again and again takes little more than its length.
const RECLAIM_SEGMENTS: u64 = 8;

/// A written extent, and the unstable data in it.
struct Planned {
    id: ExtentId,
    record: ExtentRecord,
    /// The ranges in it.
    parts: Vec<DirtyRange>,
}

impl Pool {
    /// Advances write-back by about one portion of data: of the files that are requested or old. With `everything`, writes all
    /// that is unstable when it is called. With `drive_commit` it runs the commits that it waits for; otherwise another thread
    /// must. A file that cannot be saved fails only for those who wait for it.
    pub fn step_write_back(&self, now: Time, everything: bool, drive_commit: bool) -> Progress {
        self.maintain_space();
        let mut under_way = self.under_way.lock();
        let mut ended = Ended::default();
        while everything && under_way.is_busy() {
            under_way.round(self, now, drive_commit, &mut ended);
        }
        let begun = if under_way.is_writing_due() {
            self.write_back.join()
        } else {
            self.write_back.begin(now, everything)
        };
        if let Some(flush) = begun {
            under_way.add(self, flush);
        }
        if !under_way.is_busy() && ended.saved + ended.failed == 0 {
            return Progress::Idle;
        }
        while under_way.is_busy() {
            under_way.round(self, now, drive_commit, &mut ended);
            if !everything && under_way.is_busy() {
                return Progress::Worked;
            }
        }
        if self.space.is_short() {
            self.cleaner.kick();
        }
        // Failed files are not retried at once.
        if ended.failed > 0 && ended.saved == 0 { Progress::Idle } else { Progress::Worked }
    }

    /// Blocks until a flush is requested, at most for `max`.
    pub fn wait_write_back(&self, max: std::time::Duration) {
        self.write_back.wait(max);
    }

    /// Returns how much unstable data of small files may be journaled at a time, bytes. It must be little compared with the
    /// ring: it is written even when callers have to wait.
    fn inline_budget(&self) -> usize {
        let (used, capacity) = (self.committer.used_bytes(), self.committer.capacity_bytes());
        let budget = if used * 5 > capacity * 4 { 0 } else { capacity / 16 };
        usize::try_from(budget).unwrap_or(usize::MAX)
    }

    /// Writes unstable data of files to segments, and journals where it is. Returns false if media failed.
    fn write_portion(&self, portion: &turns::Portion, turns: &mut Turns, now: Time) -> bool {
        let Some(planned) = self.write_extents(portion) else {
            return false;
        };
        for ((id, _), of_file) in portion.iter().zip(&planned) {
            for some in of_file.chunks(EXTENTS_PER_ENTRY_MAX) {
                if let Some(file) = turns.get_mut(*id).filter(|file| !file.has_failed) {
                    match self.save_extents(*id, some, now) {
                        Ok(superseded) => file.superseded.extend(superseded),
                        Err(error) => file.note_failure(error),
                    }
                }
                self.drop_pending(some);
            }
        }
        true
    }

    /// Writes and syncs the unstable data of files. If a segment fails, its data is written to a new one, from
    /// memory, once.
    fn write_extents(&self, files: &[(ObjectId, Vec<DirtyRange>)]) -> Option<Vec<Vec<Planned>>> {
        if files.is_empty() {
            return Some(Vec::new());
        }
        for _ in 0..2 {
            let mut planned: Vec<Vec<Planned>> = Vec::new();
            match self.try_write_extents(files, &mut planned) {
                Ok(()) => return Some(planned),
                Err(error) => {
                    tracing::error!(event = "device_error", %error, "writing file data to a segment failed");
                    self.segments.streams().write_back.lock().seal(&self.segments);
                    planned.iter().for_each(|of_file| self.drop_pending(of_file));
                }
            }
        }
        None
    }

    fn try_write_extents(
        &self,
        files: &[(ObjectId, Vec<DirtyRange>)],
        planned: &mut Vec<Vec<Planned>>,
    ) -> io::Result<()> {
        let mut stream = self.segments.streams().write_back.lock();
        for (_, pieces) in files {
            planned.push(Vec::new());
            let of_file = planned.last_mut().expect("pushed just above");
            for parts in extents(pieces) {
                let id = self.identity.new_extent();
                let shared: Vec<Slice> = parts.iter().map(DirtyRange::shared).collect();
                let record = stream.append_shared(&self.segments, id, &shared)?;
                of_file.push(Planned { id, record, parts });
            }
        }
        stream.flush(&self.segments)
    }

    /// Journals a file's unstable data inline, with its times, and returns the number of bytes. Returns `None` if the
    /// file has more than `max` bytes or more than an entry takes, as it may have grown.
    fn save_small(&self, id: ObjectId, max: usize, now: Time) -> Result<Option<usize>, Error> {
        let mut most = 0;
        loop {
            self.make_room_in_journal(now);
            let saved = self.run(Access::Blocking, |attempt| {
                let Some(mut state) = lock_unless_removed(attempt, id)? else {
                    return Ok(Promised { value: (true, true), after: Durability::NOW });
                };
                let bytes = usize::try_from(state.dirty.bytes()).unwrap_or(usize::MAX);
                let fits = bytes <= max && self.fits_an_entry(&state);
                most = most.max(bytes);
                let is_all = !fits || self.save_inline_portion(attempt, &mut state)?;
                Ok(Promised { value: (is_all, fits), after: Durability::NOW })
            });
            let (is_all, fits) = saved.map_err(|failure| failure.error)?.value;
            if is_all {
                return Ok(fits.then_some(most));
            }
        }
    }

    /// Journals all unstable data of a locked file inline, with its times, on behalf of a caller. If something is missing or
    /// the journal is full, part of it may have been journaled.
    pub(crate) fn save_inline(&self, attempt: &Attempt<'_>, state: &mut InodeState) -> Result<Seq, Stop> {
        loop {
            if state.dirty.is_empty() && !state.unsaved {
                return Ok(state.seq);
            }
            drop(self.begin_freeing(state.id.volume)?);
            if self.save_inline_portion(attempt, state)? {
                return Ok(state.seq);
            }
        }
    }

    /// Journals a portion of the unstable data of a locked file inline, with its times. Returns whether that was all.
    fn save_inline_portion(&self, attempt: &Attempt<'_>, state: &mut InodeState) -> Result<bool, Stop> {
        if state.dirty.is_empty() && !state.unsaved {
            return Ok(true);
        }
        let dirty: Vec<DirtyRange> = state.dirty.ranges().cloned().collect();
        let (mut portion, mut taken) = (Portion::default(), Vec::with_capacity(dirty.len()));
        for range in &dirty {
            let reached = portion.take(attempt, state, (range.start, range.end))?;
            if reached > range.start {
                taken.push(range.clipped(range.start, reached));
            }
            if reached < range.end {
                break;
            }
        }
        let mut pieces = Vec::new();
        for range in &taken {
            inline_mappings(state.record(), range.start, range.data(), &mut pieces);
        }
        let mut change = self.begin_background(state.id.volume)?;
        let reserved: u64 = pieces.iter().map(|(end, piece)| end - piece.start + EXTENT_OVERHEAD_BYTES).sum();
        self.space.extend(reserved);
        change.add_inline(reserved);
        self.put_mappings(&mut change, state, &pieces, portion.filled());
        for range in &taken {
            state.dirty.remove(range.start, range.end);
        }
        self.account_dirty(state);
        change.put_inode(state.id, state.record());
        state.journaled(change.commit());
        Ok(state.dirty.is_empty())
    }

    /// Journals where a file's unstable data was written, if it is still the newest, in entries of bounded size. A
    /// crash between two entries leaves part of an unstable write. Returns ranges of which newer unstable data replaced a part.
    fn save_extents(&self, id: ObjectId, planned: &[Planned], now: Time) -> Result<Vec<(u64, u64)>, Error> {
        loop {
            self.make_room_in_journal(now);
            let saved = self.run(Access::Blocking, |attempt| {
                let Some(mut state) = lock_unless_removed(attempt, id)? else {
                    return Ok(Promised { value: Some(Vec::new()), after: Durability::NOW });
                };
                let is_all = self.save_planned(attempt, &mut state, planned)?;
                let value = is_all.then(|| superseded(&state, planned));
                Ok(Promised { value, after: Durability::NOW })
            });
            if let Some(superseded) = saved.map_err(|failure| failure.error)?.value {
                return Ok(superseded);
            }
        }
    }

    /// Makes a checkpoint if the ring is nearly full, or the memtables are: background work journals beyond the limits for
    /// callers. If that fails and the ring is full, the change that follows is refused.
    pub(crate) fn make_room_in_journal(&self, now: Time) {
        if self.memtables_are_full() {
            // Most often it is enough to wait for the checkpoint of the other one.
            drop(self.checkpoints.run());
        }
        let is_busy = self.committer.is_busy() || self.committer.is_full();
        if is_busy || self.memtables_are_full() {
            // Only a full ring is worth another attempt soon after one that failed.
            self.step_checkpoint(now, is_busy);
        }
    }

    /// Records that no more rows of these extents will be journaled; extents without a row are dead bytes.
    fn drop_pending(&self, planned: &[Planned]) {
        for plan in planned {
            self.segments.resolve_pending(plan.record.segment, 1, None);
        }
    }

    /// Journals a portion of what is planned for a locked file; returns whether that was all. Journaled data is no
    /// longer unstable, so the next call continues after it.
    fn save_planned(
        &self,
        attempt: &Attempt<'_>,
        state: &mut InodeState,
        planned: &[Planned],
    ) -> Result<bool, Stop> {
        let view = self.view();
        let (mut pieces, mut used) = (Vec::new(), vec![false; planned.len()]);
        let (mut bytes, mut portion, mut left) = (0, Portion::default(), MAP_BYTES_PER_ENTRY_MAX);
        'portion: for (index, plan) in planned.iter().enumerate() {
            for (start, end) in plan.current(state) {
                if left == 0 {
                    break 'portion;
                }
                let (reached, taken) = replaceable(&view.active, state.id, (start, end), left);
                let reached = portion.take(attempt, state, (start, reached))?;
                if reached > start {
                    bytes += reached - start;
                    pieces.push((reached, plan.piece(state.record(), start)));
                    used[index] = true;
                }
                left = if reached < end { 0 } else { left.saturating_sub(taken + MAPPING_ENTRY_BYTES) };
            }
        }
        drop(view);
        let mut change = self.begin_background(state.id.volume)?;
        let layer = change.view().active.layer;
        for (plan, _) in planned.iter().zip(used).filter(|(_, used)| *used) {
            // Put the row with every portion: a checkpoint between two portions may have found the extent replaced
            // and dropped its row.
            change.put(key::extent(plan.id), plan.record.encode());
            self.put_segment(&mut change, plan.record.segment);
            self.segments.resolve_pending(plan.record.segment, 0, Some(layer));
            plan.cache(self);
        }
        self.put_mappings(&mut change, state, &pieces, portion.filled());
        for (end, piece) in &pieces {
            state.dirty.remove(piece.start, *end);
        }
        self.account_dirty(state);
        change.put_inode(state.id, state.record());
        state.journaled(change.commit());
        self.checkpoints.note_replaced(
            bytes - new_bytes(portion.filled()),
            RECLAIM_SEGMENTS * self.segments.capacity_bytes(),
        );
        Ok(left > 0)
    }

    /// Journals the creation of a segment with the first entry that names it.
    pub(crate) fn put_segment(
        &self,
        change: &mut crate::transaction::change::Change<'_>,
        id: crate::api::ids::SegmentId,
    ) {
        if let Some(info) = self.segments.info(id)
            && info.newest_layer == crate::api::ids::Layer(0)
        {
            change.put(key::segment(id), SegmentRecord { capacity: info.capacity, live: 0 }.encode());
        }
    }
}

impl Planned {
    /// Returns the ranges of this extent that still hold the newest data of a locked file.
    fn current(&self, state: &InodeState) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for part in &self.parts {
            for piece in
                state.dirty.overlapping(part.start, part.end).filter(|piece| piece.write == part.write)
            {
                let range = (piece.start.max(part.start), piece.end.min(part.end));
                match ranges.last_mut() {
                    Some(last) if last.1 == range.0 => last.1 = range.1,
                    _ => ranges.push(range),
                }
            }
        }
        ranges
    }

    fn piece(&self, record: &InodeRecord, start: u64) -> ExtentMapping {
        let offset = u32::try_from(start - self.parts[0].start).expect("an extent is far below 4 GiB");
        let source = Source::Extent { id: self.id, offset };
        ExtentMapping { start, birth: record.truncations, source }
    }

    /// Caches the bytes for readers.
    fn cache(&self, pool: &Pool) {
        let group = if self.record.length as usize <= GROUP_BYTES { 0 } else { WHOLE_EXTENT };
        let whole = match &self.parts[..] {
            [part] => part.whole_buffer().cloned(),
            _ => None,
        };
        let bytes =
            whole.unwrap_or_else(|| pool.segments.pool().concat(self.parts.iter().map(DirtyRange::data)));
        pool.blocks.insert((self.id, group), bytes);
    }
}

/// Groups unstable data into extents: adjacent ranges, split at multiples of the largest extent.
fn extents(pieces: &[DirtyRange]) -> Vec<Vec<DirtyRange>> {
    let mut extents: Vec<Vec<DirtyRange>> = Vec::new();
    for piece in pieces {
        let mut start = piece.start;
        while start < piece.end {
            let boundary = (start / EXTENT_BYTES_MAX as u64 + 1) * EXTENT_BYTES_MAX as u64;
            let end = piece.end.min(boundary);
            let part = piece.clipped(start, end);
            match extents.last_mut() {
                Some(parts)
                    if start % EXTENT_BYTES_MAX as u64 != 0
                        && parts.last().is_some_and(|last| last.end == start) =>
                {
                    parts.push(part);
                }
                _ => extents.push(vec![part]),
            }
            start = end;
        }
    }
    extents
}

/// Returns the ranges of what was planned for a locked file, and journaled, that have newer unstable data.
fn superseded(state: &InodeState, planned: &[Planned]) -> Vec<(u64, u64)> {
    let ranges = planned.iter().flat_map(|plan| &plan.parts).map(|part| (part.start, part.end));
    ranges.filter(|(start, end)| state.dirty.overlapping(*start, *end).next().is_some()).collect()
}

impl File {
    /// Notes that its data could not be journaled, which is no fault if its volume was deleted. The checkpoint that failed logs
    /// why a full journal cannot be emptied.
    fn note_failure(&mut self, error: Error) {
        if !matches!(error, Error::Stale | Error::Busy) {
            tracing::error!(id = %self.id, %error, "unstable data of a file could not be journaled");
        }
        self.has_failed = true;
        self.ranges.clear();
    }
}

/// Locks a file, unless it was removed: the entry that removed it is queued, so its data need not be saved. The deletion of its
/// volume shows before its entry is queued, as the change's error `Stale`.
fn lock_unless_removed(attempt: &Attempt<'_>, id: ObjectId) -> Result<Option<LockedInode>, Stop> {
    match attempt.lock(id) {
        Ok(state) => Ok(Some(state)),
        Err(Stop::Failed(failure)) if failure.error == Error::Stale => Ok(None),
        Err(stop) => Err(stop),
    }
}
