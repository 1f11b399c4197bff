//! Checkpoints: a frozen memtable becomes part of the index, and the journal regains its space.
//!
//! Order: freeze, entries durable, inline data to segments and synced, index transaction, switch of the read view,
//! trim.
//!
//! Operations continue meanwhile on a new memtable. A crash before the index's commit loses nothing, as the journal
//! has everything; after the commit, the index does. The commit holds the journal position that it covers. Everything
//! that changes the index's content happens here: replaced mappings, the maps of removed and truncated files (in
//! bounded portions), reference counts, live bytes of segments.

mod destage;
mod merge;

use destage::Destager;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::api::ids::{ExtentId, Ino, Layer, ObjectId, SegmentId, VolumeNumber};
use crate::api::time::Time;
use crate::background::Progress;
use crate::background::rebuild::{Known, rebuild};
use crate::cache::blocks::{GROUP_BYTES, WHOLE_EXTENT};
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{Key, POOL, Table};
use crate::file::inodes;
use crate::pool::Pool;
use crate::schedule::checkpoints::{Frozen, IndexRoom, Pressure};
use crate::segments::space::{RoomToGrow, SPARES_SET_ASIDE};
use crate::tables::index::{Index, IndexError, LostRanges, Snapshot};
use crate::tables::memtable::Memtable;
use crate::tables::read_view::ReadView;

/// How many transient read failures an index may have between two checkpoints before it is replaced.
const REPAIRS_MAX: u32 = 2;

/// Why a checkpoint failed. The frozen memtable stays and is retried.
#[derive(Debug)]
pub enum CheckpointError {
    /// The index failed.
    Index(IndexError),
    /// The index is damaged, and could not be replaced.
    Rebuild(IndexError),
    /// The index is damaged, and there is no room for a copy of this many bytes.
    NoRoom(u64),
    /// Segments failed.
    Segments(std::io::Error),
    /// The journal failed; the pool refuses changes anyway.
    Journal,
}

impl std::fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CheckpointError::Index(error) => write!(f, "the index could not be changed: {error}"),
            CheckpointError::Rebuild(error) => {
                write!(f, "the damaged index could not be replaced by a copy: {error}")
            }
            CheckpointError::NoRoom(bytes) => write!(
                f,
                "the index is damaged, and there is no room to copy what can be read; free {bytes} bytes on its device"
            ),
            CheckpointError::Segments(error) => {
                write!(f, "file data could not be written to a segment: {error}")
            }
            CheckpointError::Journal => f.write_str("the journal failed"),
        }
    }
}

impl From<IndexError> for CheckpointError {
    fn from(error: IndexError) -> CheckpointError {
        CheckpointError::Index(error)
    }
}

/// What a checkpoint changed, besides the index.
#[derive(Default)]
pub struct Merged {
    /// Files whose map in the index changed.
    pub maps: std::collections::HashSet<ObjectId>,
    /// Files, each with the truncation count up to which the index holds no hidden mappings.
    pub cleared: Vec<(ObjectId, u32)>,
    /// Extents without references, with an upper bound of their bytes.
    pub freed: Vec<(ExtentId, usize)>,
    /// Segments without live data.
    pub dead: Vec<SegmentId>,
    /// Whether maps of removed or truncated files, or deleted volumes, remain to be freed.
    pub more_to_reap: bool,
    /// The last file that was served of those.
    pub last_reaped: Option<ObjectId>,
    /// Deleted volumes of which nothing remains.
    pub deleted: Vec<VolumeNumber>,
}

impl Pool {
    /// Makes a checkpoint if one is due, or with `force`.
    pub fn step_checkpoint(&self, now: Time, force: bool) -> Progress {
        self.maintain_space();
        self.checkpoints.free_retired();
        if self.refuses_changes().is_some() {
            return Progress::Idle;
        }
        self.look_for_room_in_index(now);
        if !self.is_checkpoint_due(now, force) {
            return Progress::Idle;
        }
        let Ok(()) = self.try_checkpoint(now) else { return Progress::Idle };
        if self.space.is_short() {
            self.cleaner.kick();
        }
        Progress::Worked
    }

    /// Makes a checkpoint. A failure is logged, and what can be done for the next attempt is done.
    pub(crate) fn try_checkpoint(&self, now: Time) -> Result<(), CheckpointError> {
        let _running = self.checkpoints.run();
        if self.checkpoints.is_index_closed() && !self.reopen_index(now) {
            self.checkpoints.note_failure(now);
            return Err(IndexError::Closed.into());
        }
        let mut result = self.checkpoint(now);
        if matches!(&result, Err(CheckpointError::Index(_))) && self.view().index.is_damaged() {
            // The damage was found only now. The next attempt begins by repairing it.
            result = self.checkpoint(now);
        }
        result.inspect_err(|error| {
            if self.checkpoints.is_news(now, &error.to_string()) {
                tracing::error!(%error, "checkpoint failed; retrying unless the pool refuses changes");
            }
            self.checkpoints.note_failure(now);
            self.recover_index(now, error);
        })
    }

    /// Recovers from a failed checkpoint. After a full device the index is reopened and the checkpoint retried. After
    /// a failed read nothing was changed, and the next checkpoint repairs the index first. After any other failure the
    /// index may be inconsistent, so the pool refuses changes.
    fn recover_index(&self, now: Time, failure: &CheckpointError) {
        match failure {
            CheckpointError::Index(IndexError::Corrupt(_) | IndexError::Closed)
                if self.view().index.is_damaged() => {}
            // There is no room for its copy. Reads do with what there is; nothing new is accepted.
            CheckpointError::NoRoom(_) => self.checkpoints.set_index_closed(true),
            CheckpointError::Index(IndexError::Full) if self.view().index.is_damaged() => {
                self.checkpoints.set_index_closed(true);
            }
            CheckpointError::Rebuild(error) => self.committer.fail(format!(
                "the index is damaged, and no copy of it can be made: {error}; stop the server, and run `holdfast \
                 check` and `holdfast dump --files`, which copies what can be read (docs/damage.md)"
            )),
            CheckpointError::Index(error) => {
                if !matches!(error, IndexError::Full) {
                    self.committer.fail(format!(
                        "the index failed, restart the server and run `holdfast check`: {error}"
                    ));
                }
                self.reopen_index(now);
            }
            CheckpointError::Segments(_) | CheckpointError::Journal => {}
        }
    }

    /// Replaces an index with blocks that cannot be read by a copy of the others, unless they can be read now.
    fn repair_index(&self) -> Result<(), CheckpointError> {
        if !self.view().index.is_damaged() {
            return Ok(());
        }
        let mut index = self.index.lock();
        // A failure that passed and came back is replaced too.
        if index.look_again() || self.checkpoints.repairs() >= REPAIRS_MAX {
            let cache_bytes = usize::try_from(self.limits.index_cache_bytes).unwrap_or(usize::MAX);
            let known = self.known();
            let salvage = index.salvage();
            let rebuilt = rebuild(self.media.as_ref(), &salvage, cache_bytes, Some(&known));
            let rebuilt = rebuilt.map_err(|error| match error {
                IndexError::Full => CheckpointError::NoRoom(salvage.bytes_needed()),
                error => CheckpointError::Rebuild(error),
            })?;
            if let Some(rebuilt) = rebuilt {
                let replies = key::table_range(POOL, Table::Reply);
                *index = rebuilt.index;
                *self.index_meta.lock() = rebuilt.meta;
                // What is in memory is written anew where it may be lost.
                let quiet = self.view.write();
                self.usage.write_all_again(&quiet.active.usage);
                drop(quiet);
                for volume in self.volumes.read().values() {
                    volume.is_state_settled.store(false, Ordering::Release);
                }
                if index.lost().meets(&replies.0, &replies.1) {
                    self.duplicate_requests.store_all_again();
                }
                self.checkpoints.set_index_closed(false);
                self.show(index.snapshot()?);
                return Ok(());
            }
        }
        tracing::warn!("blocks of the index could not be read, and now can");
        self.checkpoints.note_repair();
        index.reopen()?;
        self.show(index.snapshot()?);
        Ok(())
    }

    /// Returns what the index holds according to the last checkpoint. A volume made since is not among it.
    fn known(&self) -> Known {
        let meta = self.index_meta.lock().clone();
        let volumes = self.volumes.read();
        let of_index = volumes.range(..meta.next_volume).map(|(number, volume)| (*number, volume.record()));
        Known { volumes: of_index.collect(), meta }
    }

    /// Shows the same content of the index as before through a new snapshot: what was read from the old one stays valid.
    fn show(&self, snapshot: Snapshot) {
        let mut view = self.view.write();
        *view = Arc::new(ReadView { index: Arc::new(snapshot), ..ReadView::clone(&view) });
    }

    /// Reopens the index. That writes a little, for which a full device may lack room: then reads that need the index
    /// wait, nothing new is accepted, and the next checkpoint retries.
    fn reopen_index(&self, now: Time) -> bool {
        let mut index = self.index.lock();
        let opened = index.reopen().and_then(|()| index.snapshot());
        let is_full = matches!(opened, Err(IndexError::Full));
        self.checkpoints.set_index_closed(is_full);
        match opened {
            Ok(snapshot) => {
                self.show(snapshot);
                return true;
            }
            // The checkpoint repairs it first.
            Err(_) if index.is_damaged() => return true,
            Err(_) if is_full => {
                let what = "the index cannot be reopened until the device has free space";
                if self.checkpoints.is_news(now, what) {
                    tracing::error!("{what}");
                }
            }
            Err(error) => self.committer.fail(format!("the index could not be reopened: {error}")),
        }
        false
    }

    /// Measures the free space inside the index file when the device has none: a file that grew and was emptied keeps
    /// its length. Reads the whole tree.
    fn look_for_room_in_index(&self, now: Time) {
        /// An object has at least its inode, a name and a cookie.
        const BYTES_PER_OBJECT: u64 = 256;
        const PAGE_BYTES: u64 = 4096;
        self.checkpoints.refresh_room(now, self.space.can_checkpoint(), |room| {
            let index = self.index.lock();
            let file = index.file_bytes();
            let objects = self.usage.objects();
            if objects.saturating_mul(2 * BYTES_PER_OBJECT) > file {
                room.free = 0;
                return;
            }
            match index.stats() {
                Ok(stats) => {
                    let used = stats.pages.saturating_mul(PAGE_BYTES);
                    *room = IndexRoom { free: file.saturating_sub(used), looked: Some(now), used, file };
                }
                Err(error) => tracing::warn!(%error, "the index could not be searched for room"),
            }
        });
    }

    /// Blocks until a checkpoint is requested, at most for `max`.
    pub fn wait_checkpoint(&self, max: Duration) {
        self.checkpoints.wait(max);
    }

    fn is_checkpoint_due(&self, now: Time, force: bool) -> bool {
        let view = self.view();
        let (is_empty, layer) = (view.active.is_empty(), view.active.layer);
        let is_index_damaged = view.index.is_damaged();
        drop(view);
        let is_short = self.space.is_short();
        let load = Pressure {
            is_empty,
            is_ring_filling: self.committer.used_bytes() * 5 > self.committer.capacity_bytes() * 2,
            is_short,
            has_dead_segments: is_short && self.segments.has_dead(layer),
            is_index_full: !self.space.can_checkpoint(),
            is_index_damaged,
        };
        self.checkpoints.is_due(now, force, &load)
    }

    fn checkpoint(&self, now: Time) -> Result<(), CheckpointError> {
        self.repair_index()?;
        // Asked before the freeze, which then has the changes that settled it.
        let settled = self.settled();
        let frozen = self.freeze();
        // Not during the freeze, which blocks all operations.
        frozen.replies.get_or_init(|| self.duplicate_requests.changes(&frozen.fresh_replies, now));
        if !self.committer.wait_durable(frozen.seq, true) {
            return Err(CheckpointError::Journal);
        }
        let anchor = self.committer.anchor_at(frozen.seq).ok_or(CheckpointError::Journal)?;
        let records = frozen.memtable.sorted();
        let destaged = Destager { segments: &self.segments, identity: &self.identity }
            .destage(&records)
            .map_err(CheckpointError::Segments)?;
        let mut index = self.index.lock();
        let lost = lost_without_state(&index, &settled);
        let outcome = self.merge(&index, &frozen, &records, &destaged, (anchor, lost.as_ref()));
        let outcome = outcome.inspect_err(|_| destaged.abandon(&self.segments))?;
        if let Some(lost) = lost {
            index.set_lost(lost);
        }
        // The index has the rows: if no snapshot can be made, the next attempt replaces them.
        destaged.complete(&self.segments, frozen.memtable.layer);
        let snapshot = Arc::new(index.snapshot()?);
        drop(index);
        self.switch(&records, snapshot, &outcome);
        self.forget_blocks(&outcome.freed);
        self.committer.trim(&anchor);
        self.space.release(frozen.memtable.inline_bytes());
        self.checkpoints.spend_room(self.limits.pages_bytes(frozen.memtable.bytes()));
        self.delete_segments(&outcome.dead);
        if !outcome.more_to_reap {
            self.segments.note_used(frozen.used);
        }
        outcome.deleted.iter().for_each(|volume| self.deletions.remove(*volume));
        self.checkpoints.finish(now, outcome.more_to_reap, outcome.last_reaped);
        self.committer.wake_waiters();
        drop(frozen);
        self.checkpoints.free_retired();
        Ok(())
    }

    /// Returns the volumes whose protocol state was settled.
    fn settled(&self) -> Vec<VolumeNumber> {
        let volumes = self.volumes.read();
        let settled = volumes.values().filter(|volume| volume.is_state_settled.load(Ordering::Acquire));
        settled.map(|volume| volume.number).collect()
    }

    /// Returns the next inode numbers of all volumes.
    fn next_inos(&self) -> Vec<(VolumeNumber, Ino)> {
        let volumes = self.volumes.read();
        volumes.values().map(|volume| (volume.number, volume.next_ino())).collect()
    }

    /// Freezes the active memtable, unless one is frozen already.
    fn freeze(&self) -> Arc<Frozen> {
        self.checkpoints.freeze(|| {
            let mut view = self.view.write();
            let old = Arc::clone(&view.active);
            let frozen = Frozen {
                memtable: Arc::clone(&old),
                seq: self.committer.fence(),
                used: self.usage.bytes(),
                next_inos: self.next_inos(),
                fresh_replies: self.duplicate_requests.take_fresh(),
                replies: OnceLock::new(),
            };
            *view = Arc::new(ReadView {
                active: Arc::new(Memtable::new(Layer(old.layer.0 + 1))),
                frozen: Some(old),
                ..ReadView::clone(&view)
            });
            frozen
        })
    }

    /// Switches lookups of what was frozen to the index, in one step.
    fn switch(&self, records: &[(Key, Slot)], index: Arc<Snapshot>, outcome: &Merged) {
        for (key, _) in records {
            self.records.remove(key);
        }
        let changed = outcome.maps.clone();
        let before = {
            let mut view = self.view.write();
            let after = Arc::new(view.with_index(index, changed));
            std::mem::replace(&mut *view, after)
        };
        if let Some(memtable) = &before.frozen {
            self.checkpoints.retire(memtable);
        }
        drop(before);
        for (ino, count) in &outcome.cleared {
            let Some(cell) = self.inodes.peek(*ino) else { continue };
            let mut state = cell.lock();
            if let inodes::Presence::Present(record) = &mut state.presence {
                record.pending_truncations.retain(|cut| cut.count > *count);
            }
        }
    }

    /// Removes freed extents from the block cache, to reuse their memory.
    fn forget_blocks(&self, freed: &[(ExtentId, usize)]) {
        for (id, bytes) in freed {
            // Extents of at most one group are not cached whole.
            let whole = (*bytes > GROUP_BYTES).then_some(WHOLE_EXTENT);
            for group in (0..).take(bytes.div_ceil(GROUP_BYTES)).chain(whole) {
                self.blocks.remove(&(*id, group));
            }
        }
    }

    fn delete_segments(&self, dead: &[SegmentId]) {
        for id in dead {
            self.cleaner.forget(*id);
            if let Err(error) = self.segments.delete(*id) {
                tracing::warn!(segment = id.0, %error, "a dead segment could not be deleted; the next open will");
            }
        }
    }

    /// Keeps enough empty segments allocated for accepted and upcoming data, and room for a checkpoint; updates the
    /// ledger.
    pub(crate) fn maintain_space(&self) {
        /// Segments kept ready for new data beyond what is reserved.
        const AHEAD: u64 = 2;
        if self.space.is_short() {
            self.segments.seal_dead_streams(self.view().oldest_in_memory());
        }
        let usable = self.segments.usable_bytes();
        // Without room for a checkpoint, new data is refused, so that removals always work (rule 13 of
        // `docs/design.md`).
        let room = self.make_room_for_index();
        let can_add = room < RoomToGrow::Checkpoint
            || self.add_spares(self.space.reserved().div_ceil(usable) + SPARES_SET_ASIDE + AHEAD);
        let ready = (self.segments.spares() as u64).saturating_sub(SPARES_SET_ASIDE) * usable;
        match self.media.space() {
            Ok(device) => self.space.refresh(ready, device, room, can_add),
            Err(error) => tracing::warn!(%error, "the free space of the device could not be read"),
        }
    }

    /// Allocates spare segments until there are `wanted`. Returns false if there is no room for one more.
    fn add_spares(&self, wanted: u64) -> bool {
        while (self.segments.spares() as u64) < wanted {
            if let Err(error) = self.segments.add_spare() {
                tracing::debug!(%error, "no room for one more segment");
                return false;
            }
            if self.space.is_short() {
                self.cleaner.kick();
            }
        }
        true
    }

    /// Allocates room for the index to grow in one checkpoint. Returns what there is room for.
    fn make_room_for_index(&self) -> RoomToGrow {
        /// What the cleaner frees may be all the room that the index can get.
        const SPARES_OF_CLEANER: u64 = 1;
        let index = self.media.index();
        let inside = self.checkpoints.free_in_index();
        let has_room = |index_bytes: u64| {
            // Only half of the free space inside the file counts, as the tree may not be able to use all of it.
            let needed = self.limits.checkpoint_bytes(index_bytes).saturating_sub(inside / 2);
            let reserved = index.reserve(needed);
            if let Err(error) = &reserved {
                tracing::debug!(%error, needed, "no room for the index to grow");
            }
            reserved.is_ok()
        };
        match index.len() {
            // First the room that a checkpoint takes if its records share pages.
            Ok(length) if !self.checkpoints.is_index_closed() && has_room(0) => {
                self.add_spares(SPARES_OF_CLEANER);
                if has_room(length.saturating_sub(inside)) {
                    RoomToGrow::Checkpoint
                } else {
                    RoomToGrow::State
                }
            }
            _ => RoomToGrow::Nothing,
        }
    }
}

/// Returns the lost ranges without those of the protocol state of these volumes, if there are such.
fn lost_without_state(index: &Index, settled: &[VolumeNumber]) -> Option<LostRanges> {
    let ranges = settled.iter().map(|volume| key::table_range(*volume, Table::State));
    let met: Vec<(Key, Key)> = ranges.filter(|(from, to)| index.lost().meets(from, to)).collect();
    (!met.is_empty()).then(|| {
        let mut lost = LostRanges::clone(index.lost());
        met.iter().for_each(|(from, to)| lost.remove(from, to));
        lost
    })
}
