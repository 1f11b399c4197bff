//! The cleaner: moves what is alive out of segments that are mostly dead, so that they can be deleted.
//!
//! Moving changes one row of the extent table (rule 1 of `docs/design.md`). Only the cleaner changes places, and only
//! checkpoints change reference counts, in the index: a checkpoint that applies a moved row takes the count from the
//! index, and drops the row if the extent was freed meanwhile. So the move needs no lock.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::api::ids::{ExtentId, SegmentId};
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::record::{ExtentHeader, ExtentRecord};
use crate::limits::PIECES_PER_ENTRY;
use crate::segments::{Stream, find_extents};
use crate::volume::{Progress, SPARES_SET_ASIDE, Volume};

/// Bytes of a segment that one step looks at.
const STEP_BYTES: u64 = 4 << 20;

/// A segment is cleaned when less than this share of it is alive, in percent.
const LIVE_PERCENT: u64 = 50;

/// The same while more than half of the device is free: what is written over and over dies by itself.
const LIVE_PERCENT_PLENTY: u64 = 15;

/// The same when space is short.
const LIVE_PERCENT_SHORT: u64 = 90;

/// State of the cleaner.
#[derive(Default)]
pub struct Cleaner {
    state: Mutex<State>,
    cleaned: AtomicU64,
    stream: Mutex<Stream>,
}

#[derive(Default)]
struct State {
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
}

impl Volume {
    /// One bounded piece of cleaning. `drive_commit` makes it run the commits that it waits for.
    pub fn step_clean(&self, now: Time, drive_commit: bool) -> Progress {
        if self.refuses_changes().is_some() {
            return Progress::Idle;
        }
        if self.committer.is_busy() {
            self.checkpoints.kick();
            return Progress::Idle;
        }
        let current = self.cleaner.state.lock().current;
        let Some((id, offset)) =
            current.or_else(|| self.segment_to_clean(now)).filter(|_| self.has_room_to_clean())
        else {
            let layers = self.layers();
            let checkpoint_may_help = !layers.active.is_empty() && self.checkpoints.may_help();
            if self.space.is_short() && !checkpoint_may_help && !self.segments.has_dead(layers.active.layer) {
                self.space.exhausted();
            }
            return Progress::Idle;
        };
        match self.clean(id, offset, now, drive_commit) {
            Ok(next) => self.note_cleaned(id, next),
            // A checkpoint found it dead meanwhile and deleted it.
            Err(_) if self.segments.info(id).is_none() => self.cleaner.state.lock().current = None,
            Err(error) => {
                tracing::error!(segment = id.0, %error, "a segment could not be cleaned");
                let mut state = self.cleaner.state.lock();
                state.current = None;
                state.failed.insert(id, now);
            }
        }
        Progress::Worked
    }

    /// Whether a step may take a segment: what was accepted has its room, and the other stream that it may need one more.
    fn has_room_to_clean(&self) -> bool {
        let promised = self.space.reserved().div_ceil(self.segments.usable_bytes());
        self.segments.spares() as u64 >= promised + SPARES_SET_ASIDE
    }

    /// When space is short, gives up open segments that are mostly dead, so that they can be deleted or cleaned.
    pub(crate) fn seal_dead_streams(&self) {
        let oldest = self.layers().oldest_in_memory();
        for stream in [&self.write_back.stream, &self.checkpoints.stream, &self.cleaner.stream] {
            // One that is in use is not dead.
            if let Some(mut stream) = stream.try_lock() {
                stream.seal_if_mostly_dead(&self.segments, oldest);
            }
        }
    }

    fn note_cleaned(&self, id: SegmentId, next: Option<u64>) {
        let mut state = self.cleaner.state.lock();
        state.current = next.map(|offset| (id, offset));
        if next.is_none() {
            state.finished.insert(id);
            drop(state);
            self.cleaner.cleaned.fetch_add(1, Ordering::Relaxed);
            self.checkpoints.kick();
        }
    }

    /// The segment that gives most for least, if one is worth it. All rows that name its extents are in the index.
    fn segment_to_clean(&self, now: Time) -> Option<(SegmentId, u64)> {
        let oldest_in_memory = self.layers().oldest_in_memory();
        let device = self.space.device();
        let percent = match self.space.is_short() {
            true => LIVE_PERCENT_SHORT,
            false if device.available > device.total / 2 => LIVE_PERCENT_PLENTY,
            false => LIVE_PERCENT,
        };
        let mut state = self.cleaner.state.lock();
        state.failed.retain(|_, failure| now.since(*failure) < TRY_AGAIN);
        self.segments
            .infos()
            .into_iter()
            .filter(|(id, info)| {
                info.is_settled(oldest_in_memory)
                    && info.live > 0
                    && info.live * 100
                        < state.packed.get(id).map_or(info.capacity, |packed| *packed) * percent
                    && !state.finished.contains(id)
                    && !state.failed.contains_key(id)
            })
            .min_by_key(|(_, info)| info.live * 1000 / info.capacity.max(1))
            .map(|(id, _)| (id, 0))
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
            self.cleaner.stream.lock().seal(&self.segments);
            self.drop_moves(&moved);
            return Err(error);
        }
        for (index, some) in moved.chunks(PIECES_PER_ENTRY).enumerate() {
            self.make_room_in_journal(now);
            self.journal_moves(some, drive_commit).inspect_err(|_| {
                self.drop_moves(&moved[index * PIECES_PER_ENTRY..]);
            })?;
        }
        Ok((!is_last).then_some(offset + scanned as u64))
    }

    /// Copies those extents that the extent table still finds here, and syncs the copies.
    fn copy_live(
        &self,
        id: SegmentId,
        offset: u64,
        found: &[(usize, ExtentHeader)],
        moved: &mut Vec<(ExtentId, ExtentRecord)>,
    ) -> io::Result<()> {
        let layers = self.layers();
        let mut stream = self.cleaner.stream.lock();
        for (start, header) in found {
            let Some(value) = layers.get(&key::extent(header.id)).map_err(io::Error::other)? else {
                continue;
            };
            let row = ExtentRecord::decode(&value).map_err(io::Error::other)?;
            if row.segment != id || row.offset != offset + *start as u64 {
                continue;
            }
            let data = self.segments.read(&row, 0, u32::MAX)?;
            let mut new = stream.append(&self.segments, header.id, &data)?;
            *self.cleaner.state.lock().packed.entry(new.segment).or_default() += u64::from(new.stored);
            new.references = row.references;
            moved.push((header.id, new));
        }
        if moved.is_empty() { Ok(()) } else { stream.flush(&self.segments) }
    }

    fn drop_moves(&self, moved: &[(ExtentId, ExtentRecord)]) {
        for (_, row) in moved {
            self.segments.settle(row.segment, 1, None);
        }
    }

    fn journal_moves(&self, moved: &[(ExtentId, ExtentRecord)], drive_commit: bool) -> io::Result<()> {
        let begun = self.begin_background();
        let Ok(mut change) = begun else {
            return Err(io::Error::other("the volume refuses changes"));
        };
        let layer = change.layers().active.layer;
        for (id, row) in moved {
            change.put(key::extent(*id), row.encode());
            self.put_segment(&mut change, row.segment);
            self.segments.settle(row.segment, 1, Some(layer));
        }
        let seq = change.commit();
        self.committer.wait_durable(seq, drive_commit);
        Ok(())
    }
}
