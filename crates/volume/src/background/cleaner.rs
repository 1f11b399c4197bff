//! The cleaner: moves live extents out of segments that are mostly dead, so that these can be deleted.
//!
//! Moving an extent changes one row of the extent table (rule 1 of `docs/design.md`). Only the cleaner changes the
//! place of an extent, and only checkpoints change references, in the index: a checkpoint that applies a moved
//! row takes them from the index, and drops the row if the extent was freed meanwhile. So a move needs no lock.
//!
//! Of an extent only the parts are moved that mappings name. A part that none names in the index never gets one again: a new
//! mapping copies a part of an older one, and the first mappings of an extent are journaled before its segment is settled.

use std::io;
use std::time::Duration;

use crate::api::ids::{ExtentId, SegmentId};
use crate::api::time::Time;
use crate::background::Progress;
use crate::bytes::Slice;
use crate::encoding::key;
use crate::encoding::key::POOL;
use crate::encoding::record::{ExtentHeader, ExtentRecord, Kept, References, sectors};
use crate::limits::{EXTENTS_PER_ENTRY_MAX, MAP_BYTES_PER_ENTRY_MAX};
use crate::planted::{Fault, is_planted};
use crate::pool::Pool;
use crate::segments::space::SPARES_SET_ASIDE;
use crate::segments::{LIVE_PERCENT_MAX, find_extents};

/// Bytes of a segment that one step examines.
const STEP_BYTES: u64 = 4 << 20;

/// A segment is cleaned when less than this share of it is live, in percent; if space is short, when less than
/// [`LIVE_PERCENT_MAX`] is.
const LIVE_PERCENT: u64 = 50;

/// The same while more than half of the device is free: data that is overwritten often dies without help.
const LIVE_PERCENT_PLENTY: u64 = 15;

impl Pool {
    /// Cleans a bounded piece of a segment. If there is nothing to clean while space is short, counts that towards the refusal of
    /// waiting callers, or extends their wait if work still goes on. Call it once a second. With `drive_commit` it runs the commits
    /// that it waits for.
    pub fn step_clean(&self, now: Time, drive_commit: bool) -> Progress {
        let progress = self.step_clean_early(now, drive_commit);
        if progress == Progress::Idle && self.space.is_short() {
            self.judge_shortage();
        }
        progress
    }

    /// Blocks until there may be something to clean before the next [`Pool::step_clean`] is due, at most for `max`. Returns whether
    /// there may be.
    pub fn wait_clean(&self, max: Duration) -> bool {
        self.cleaner.wait(max)
    }

    /// Like [`Pool::step_clean`], but does not judge the shortage, so that it may be called at any time.
    pub fn step_clean_early(&self, now: Time, drive_commit: bool) -> Progress {
        if self.refuses_changes().is_some() {
            return Progress::Idle;
        }
        if self.committer.is_busy() {
            self.checkpoints.kick();
            return Progress::Idle;
        }
        let current = self.cleaner.current();
        let chosen = current.or_else(|| self.segment_to_clean(now));
        let Some((id, offset)) = chosen.filter(|_| self.has_room_to_clean()) else {
            return Progress::Idle;
        };
        match self.clean(id, offset, now, drive_commit) {
            Ok(next) => {
                self.cleaner.advance(id, next);
                if next.is_none() {
                    self.checkpoints.kick();
                }
            }
            // Meanwhile a checkpoint found the segment dead and deleted it.
            Err(_) if self.segments.info(id).is_none() => self.cleaner.stop(),
            Err(error) => {
                tracing::error!(segment = id.0, %error, "a segment could not be cleaned");
                self.cleaner.note_failure(id, now);
            }
        }
        Progress::Worked
    }

    /// Decides whether callers keep waiting for space, when the cleaner has nothing to do or no room to do it.
    fn judge_shortage(&self) {
        if self.refuses_changes().is_some() || self.committer.is_busy() {
            return;
        }
        let layer = self.view().active.layer;
        if self.checkpoint_may_help() || self.segments.has_dead(layer) {
            return;
        }
        let cleaned = self.cleaner.take_progress();
        // Once accepted data is written back, the cleaner may use the room that is kept for it.
        if cleaned || self.write_back.may_help() {
            self.write_back.press();
            self.space.prolong();
        } else {
            self.space.exhausted();
        }
    }

    /// Whether a checkpoint could still free space.
    fn checkpoint_may_help(&self) -> bool {
        !self.view().active.is_empty() && self.checkpoints.may_help()
    }

    /// Whether a step may take a segment: accepted data keeps its room, and the other stream one more segment. Where nothing is
    /// accepted the last one will do, as none may be accepted before there are more.
    fn has_room_to_clean(&self) -> bool {
        let reserved = self.space.reserved();
        let promised = reserved.div_ceil(self.segments.usable_bytes());
        let set_aside = if reserved == 0 { 1 } else { SPARES_SET_ASIDE };
        self.segments.spares() as u64 >= promised + set_aside
    }

    /// Returns the most worthwhile segment, if any is.
    fn segment_to_clean(&self, now: Time) -> Option<(SegmentId, u64)> {
        let oldest_in_memory = self.view().oldest_in_memory();
        let device = self.space.device();
        let percent = match self.space.is_short() {
            true => LIVE_PERCENT_MAX,
            false if device.available > device.total / 2 => LIVE_PERCENT_PLENTY,
            false => LIVE_PERCENT,
        };
        let chosen = self.cleaner.choose(self.segments.infos(), oldest_in_memory, percent, now);
        chosen.map(|id| (id, 0))
    }

    /// Moves the live extents that begin in one piece of a segment. Returns where the next piece begins.
    fn clean(&self, id: SegmentId, offset: u64, now: Time, drive_commit: bool) -> io::Result<Option<u64>> {
        let written = self.segments.info(id).map_or(0, |info| info.written);
        let length = STEP_BYTES.min(written.saturating_sub(offset));
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.segments.blob(id)?.read_at(offset, &mut bytes)?;
        let is_last = offset + length >= written;
        let (found, scanned) = find_extents(&bytes, is_last);
        let mut moved = Vec::new();
        if let Err(error) = self.copy_live(id, offset, &found, &mut moved) {
            self.segments.streams().cleaner.lock().seal(&self.segments);
            self.drop_moves(&moved);
            return Err(error);
        }
        let mut rest = &moved[..];
        while !rest.is_empty() {
            self.make_room_in_journal(now);
            let (some, after) = rest.split_at(fitting(rest));
            self.journal_moves(some, drive_commit).inspect_err(|_| self.drop_moves(rest))?;
            rest = after;
        }
        Ok((!is_last).then_some(offset + scanned as u64))
    }

    /// Copies the extents that the extent table still finds here, and syncs the copies.
    fn copy_live(
        &self,
        id: SegmentId,
        offset: u64,
        found: &[(usize, ExtentHeader)],
        moved: &mut Vec<(ExtentId, ExtentRecord)>,
    ) -> io::Result<()> {
        let view = self.view();
        let mut stream = self.segments.streams().cleaner.lock();
        for (start, header) in found {
            let key = key::extent(header.id);
            let value = match view.get(&key) {
                Ok(Some(value)) => value,
                Ok(None) => continue,
                // The segment's live bytes include it if it lies here, so the segment stays.
                Err(_) if view.index.lost().covers(&key) => continue,
                Err(error) => return Err(io::Error::other(error)),
            };
            let row = ExtentRecord::decode(&value).map_err(io::Error::other)?;
            if row.segment != id || row.offset != offset + *start as u64 {
                continue;
            }
            let kept = named(&row)?;
            let data = Slice::from(self.segments.read(&row, 0, u32::MAX)?);
            let parts: Vec<Slice> = (kept.spans(row.length).map(|span| span.bytes(row.length)))
                .map(|part| data.part(part.start as usize..part.end as usize))
                .collect();
            let new = stream.append_shared(&self.segments, header.id, &parts)?;
            self.cleaner.note_moved(new.segment, u64::from(new.stored));
            moved.push((header.id, new.keeping(kept, row.length)));
        }
        if moved.is_empty() { Ok(()) } else { stream.flush(&self.segments) }
    }

    fn drop_moves(&self, moved: &[(ExtentId, ExtentRecord)]) {
        for (_, row) in moved {
            self.segments.resolve_pending(row.segment, 1, None);
        }
    }

    fn journal_moves(&self, moved: &[(ExtentId, ExtentRecord)], drive_commit: bool) -> io::Result<()> {
        let mut change = self.begin_background(POOL).map_err(|error| io::Error::other(error.to_string()))?;
        let layer = change.view().active.layer;
        for (id, row) in moved {
            change.put(key::extent(*id), row.encode());
            self.put_segment(&mut change, row.segment);
            self.segments.resolve_pending(row.segment, 1, Some(layer));
        }
        let seq = change.commit();
        self.committer.wait_durable(seq, drive_commit);
        Ok(())
    }
}

/// Returns the parts of an extent that mappings name, which are all that need to be moved.
fn named(row: &ExtentRecord) -> io::Result<Kept> {
    let mut parts = match row.references {
        References::Runs(_) => row.references.named(sectors(row.length)),
        References::Each(_) | References::Unknown => return Ok(row.kept.clone()),
    };
    if is_planted(Fault::LoseSector) {
        parts.last_mut().filter(|last| last.from + 1 < last.to).iter_mut().for_each(|last| last.to -= 1);
    }
    match parts.iter().find(|part| !row.kept.has(**part)) {
        Some(part) => {
            Err(io::Error::other(format!("the map names {part:?} of an extent, which is not stored")))
        }
        None => Ok(Kept::parts(parts, row.length)),
    }
}

/// Returns how many of these rows, one at least, fit an entry.
fn fitting(moved: &[(ExtentId, ExtentRecord)]) -> usize {
    let mut bytes = 0;
    let fits = |(_, row): &&(ExtentId, ExtentRecord)| {
        bytes += row.encode().len() as u64;
        bytes <= MAP_BYTES_PER_ENTRY_MAX
    };
    moved.iter().take(EXTENTS_PER_ENTRY_MAX).take_while(fits).count().max(1)
}
