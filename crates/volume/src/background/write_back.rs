//! Write-back: unstable data goes to segments, and the journal receives the mappings that locate it. Small amounts go
//! into the journal itself.
//!
//! It runs in flushes, each with a generation. A caller that needs data stable (COMMIT, a large stable WRITE) waits
//! for the next flush; one flush serves all callers that asked before it began. The order within a flush is rule 2 of
//! `docs/design.md`: bytes to segments, sync, then the journal entry that names them, then its sync. Writes,
//! truncations and stable writes go on meanwhile; what they replaced is detected when the mappings are journaled,
//! under the inode's lock.

use std::io;

use crate::api::ids::{ExtentId, Ino, Seq};
use crate::api::request::{Access, Durability, Error, Promised};
use crate::api::time::Time;
use crate::background::Progress;
use crate::bytes::Slice;
use crate::cache::blocks::{GROUP_BYTES, WHOLE_EXTENT};
use crate::encoding::key;
use crate::encoding::record::{ExtentMapping, ExtentRecord, InodeRecord, SegmentRecord, Source};
use crate::file::dirty::DirtyRange;
use crate::file::extent_map::{MAPPING_ENTRY_BYTES, replaceable};
use crate::file::inodes::{InodeState, SharedInode};
use crate::limits::{EXTENT_BYTES_MAX, EXTENTS_PER_ENTRY_MAX, MAP_BYTES_PER_ENTRY_MAX, PORTION_BYTES};
use crate::schedule::write_back::Flush;
use crate::segments::space::EXTENT_OVERHEAD_BYTES;
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::map_update::{Filled, inline_mappings, new_bytes};
use crate::volume::Volume;

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

/// A flush failed.
#[derive(Clone, Copy)]
struct FlushFailed;

impl Volume {
    /// Runs one flush, of the files that are requested or old, or of all. With `drive_commit` it runs the commits
    /// that it waits for; otherwise another thread must.
    pub fn step_write_back(&self, now: Time, everything: bool, drive_commit: bool) -> Progress {
        self.maintain_space();
        let Some(Flush { generation: flush_generation, files, requested }) =
            self.write_back.begin(now, everything)
        else {
            return Progress::Idle;
        };
        let failed = self.write_back_files(&files, now, drive_commit).is_err();
        if failed {
            // Accepted data is still in memory, but a client may have been told that it could not be made stable.
            self.losses.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
            // Callers that wait for this generation get an error. Later readers see unstable data again, or what an
            // earlier flush made stable.
            for cell in requested.iter().filter_map(|ino| self.inodes.peek(*ino)) {
                let mut state = cell.lock();
                state.flush_generation =
                    if state.flush_generation <= flush_generation { 0 } else { state.flush_generation };
            }
            for (_, cell) in &files {
                let mut state = cell.lock();
                state.flush_generation =
                    if state.flush_generation <= flush_generation { 0 } else { state.flush_generation };
                if state.unsaved || !state.dirty.is_empty() {
                    self.write_back.enter(&state, cell, now);
                }
            }
        }
        self.write_back.finish(flush_generation, failed);
        self.committer.wake_waiters();
        if failed { Progress::Idle } else { Progress::Worked }
    }

    /// Blocks until a flush is requested, at most for `max`.
    pub fn wait_write_back(&self, max: std::time::Duration) {
        self.write_back.wait(max);
    }

    fn write_back_files(
        &self,
        files: &[(Ino, SharedInode)],
        now: Time,
        drive_commit: bool,
    ) -> Result<(), FlushFailed> {
        if self.committer.has_failed() {
            return Err(FlushFailed);
        }
        let mut large = Vec::new();
        // Data for the journal must be small compared with the ring: it is written even when callers have to wait.
        let (used, capacity) = (self.committer.used_bytes(), self.committer.capacity_bytes());
        let inline_left = if used * 5 > capacity * 4 { 0 } else { capacity / 16 };
        let mut inline_left = usize::try_from(inline_left).unwrap_or(usize::MAX);
        for (ino, cell) in files {
            self.make_room_in_journal(now);
            match self.save_small(*ino, inline_left)? {
                Some(bytes) => inline_left = inline_left.saturating_sub(bytes),
                None => large.push((*ino, cell.lock().dirty.ranges().cloned().collect::<Vec<DirtyRange>>())),
            }
        }
        for portion in portions(large) {
            self.write_portion(&portion, now)?;
        }
        let last = self.committer.last_queued();
        if self.committer.wait_durable(last, drive_commit) { Ok(()) } else { Err(FlushFailed) }
    }

    /// Writes unstable data of files to segments, and journals where it is.
    fn write_portion(&self, files: &[(Ino, Vec<DirtyRange>)], now: Time) -> Result<(), FlushFailed> {
        let planned = self.write_extents(files)?;
        let mut result = Ok(());
        for ((ino, _), of_file) in files.iter().zip(&planned) {
            for some in of_file.chunks(EXTENTS_PER_ENTRY_MAX) {
                if result.is_ok() {
                    result = self.save_extents(*ino, some, now);
                }
                self.drop_pending(some);
            }
        }
        result
    }

    /// Writes and syncs the unstable data of files. If a segment fails, its data is written to a new one, from
    /// memory, once.
    fn write_extents(&self, files: &[(Ino, Vec<DirtyRange>)]) -> Result<Vec<Vec<Planned>>, FlushFailed> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        for _ in 0..2 {
            let mut planned: Vec<Vec<Planned>> = Vec::new();
            match self.try_write_extents(files, &mut planned) {
                Ok(()) => return Ok(planned),
                Err(error) => {
                    tracing::error!(%error, "writing file data to a segment failed");
                    self.segments.streams().write_back.lock().seal(&self.segments);
                    planned.iter().for_each(|of_file| self.drop_pending(of_file));
                }
            }
        }
        Err(FlushFailed)
    }

    fn try_write_extents(
        &self,
        files: &[(Ino, Vec<DirtyRange>)],
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
    fn save_small(&self, ino: Ino, max: usize) -> Result<Option<usize>, FlushFailed> {
        let saved = self.run(Access::Blocking, |attempt| {
            let mut state = attempt.lock(ino)?;
            let bytes = usize::try_from(state.dirty.bytes()).unwrap_or(usize::MAX);
            let fits = bytes <= max && self.fits_an_entry(&state);
            if fits {
                self.save_inline(attempt, &mut state)?;
            }
            Ok(Promised { value: fits.then_some(bytes), after: Durability::NOW })
        });
        ignore_removed(saved.map(|promised| promised.value).map_err(|failure| failure.error), Some(0))
    }

    /// Journals all unstable data of a locked file inline, with its times.
    pub(crate) fn save_inline(&self, attempt: &Attempt<'_>, state: &mut InodeState) -> Result<Seq, Stop> {
        if state.dirty.is_empty() && !state.unsaved {
            return Ok(state.seq);
        }
        let mut pieces = Vec::new();
        let mut filled = Vec::new();
        let dirty: Vec<DirtyRange> = state.dirty.ranges().cloned().collect();
        for piece in &dirty {
            inline_mappings(state.record(), piece.start, piece.data(), &mut pieces);
            let (start, end) = (piece.start, piece.end);
            let new_bytes = end - start - attempt.mapped_bytes(state, start, end)?;
            filled.push(Filled { start, end, new_bytes });
        }
        let mut change = self.begin_background()?;
        let reserved: u64 = pieces.iter().map(|(end, piece)| end - piece.start + EXTENT_OVERHEAD_BYTES).sum();
        self.space.extend(reserved);
        change.add_inline(reserved);
        self.put_mappings(&mut change, state, &pieces, &filled);
        for piece in &dirty {
            state.dirty.remove(piece.start, piece.end);
        }
        self.account_dirty(state);
        change.put_inode(state.ino, state.record());
        state.journaled(change.commit());
        Ok(state.seq)
    }

    /// Journals where a file's unstable data was written, if it is still the newest, in entries of bounded size. A
    /// crash between two entries leaves part of an unstable write.
    fn save_extents(&self, ino: Ino, planned: &[Planned], now: Time) -> Result<(), FlushFailed> {
        loop {
            self.make_room_in_journal(now);
            let saved = self.run(Access::Blocking, |attempt| {
                let mut state = attempt.lock(ino)?;
                let is_all = self.save_planned(attempt, &mut state, planned)?;
                Ok(Promised { value: is_all, after: Durability::NOW })
            });
            if ignore_removed(saved.map(|promised| promised.value).map_err(|failure| failure.error), true)? {
                return Ok(());
            }
        }
    }

    /// Makes a checkpoint if the ring is nearly full: background work journals beyond the limit for callers, and
    /// nothing could empty a ring that is completely full.
    pub(crate) fn make_room_in_journal(&self, now: Time) {
        if self.committer.is_busy() {
            self.step_checkpoint(now, true);
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
        let (mut bytes, mut filled, mut left) = (0, Vec::new(), MAP_BYTES_PER_ENTRY_MAX);
        'portion: for (index, plan) in planned.iter().enumerate() {
            for (start, end) in plan.current(state) {
                if left == 0 {
                    break 'portion;
                }
                let (reached, taken) = replaceable(&view.active, state.ino, (start, end), left);
                bytes += reached - start;
                let holes = reached - start - attempt.mapped_bytes(state, start, reached)?;
                filled.push(Filled { start, end: reached, new_bytes: holes });
                pieces.push((reached, plan.piece(state.record(), start)));
                used[index] = true;
                left = if reached < end { 0 } else { left.saturating_sub(taken + MAPPING_ENTRY_BYTES) };
            }
        }
        drop(view);
        let mut change = self.begin_background()?;
        let layer = change.view().active.layer;
        for (plan, _) in planned.iter().zip(used).filter(|(_, used)| *used) {
            // Put the row with every portion: a checkpoint between two portions may have found the extent replaced
            // and dropped its row.
            change.put(key::extent(plan.id), plan.record.encode());
            self.put_segment(&mut change, plan.record.segment);
            self.segments.resolve_pending(plan.record.segment, 0, Some(layer));
            plan.cache(self);
        }
        self.put_mappings(&mut change, state, &pieces, &filled);
        for (end, piece) in &pieces {
            state.dirty.remove(piece.start, *end);
        }
        self.account_dirty(state);
        change.put_inode(state.ino, state.record());
        state.journaled(change.commit());
        self.checkpoints
            .note_replaced(bytes - new_bytes(&filled), RECLAIM_SEGMENTS * self.segments.capacity_bytes());
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
        ExtentMapping { epoch: record.epoch, start, birth: record.truncations, source }
    }

    /// Caches the bytes for readers.
    fn cache(&self, volume: &Volume) {
        let group = if self.record.length as usize <= GROUP_BYTES { 0 } else { WHOLE_EXTENT };
        let whole = match &self.parts[..] {
            [part] => part.whole_buffer().cloned(),
            _ => None,
        };
        let bytes =
            whole.unwrap_or_else(|| volume.segments.pool().concat(self.parts.iter().map(DirtyRange::data)));
        volume.blocks.insert((self.id, group), bytes);
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

/// Divides the unstable data of files into portions of [`PORTION_BYTES`], or of one range.
fn portions(files: Vec<(Ino, Vec<DirtyRange>)>) -> Vec<Vec<(Ino, Vec<DirtyRange>)>> {
    let mut portions: Vec<Vec<(Ino, Vec<DirtyRange>)>> = Vec::new();
    let mut left = 0;
    for (ino, pieces) in files {
        for piece in pieces {
            let length = piece.end - piece.start;
            if left < length || portions.is_empty() {
                portions.push(Vec::new());
                left = PORTION_BYTES;
            }
            left = left.saturating_sub(length);
            let portion = portions.last_mut().expect("pushed at the latest just above");
            match portion.last_mut() {
                Some((last, pieces)) if *last == ino => pieces.push(piece),
                _ => portion.push((ino, vec![piece])),
            }
        }
    }
    portions
}

/// Treats a file that was removed meanwhile as `done`.
fn ignore_removed<T>(result: Result<T, Error>, done: T) -> Result<T, FlushFailed> {
    match result {
        Ok(value) => Ok(value),
        Err(Error::Stale) => Ok(done),
        Err(error) => {
            tracing::error!(%error, "unstable data could not be journaled");
            Err(FlushFailed)
        }
    }
}
