//! WRITE (RFC 1813 section 3.3.7).

use std::sync::Arc;

use super::check_regular;
use crate::api::attributes::Wcc;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Durability, Error, Failure, FlushWait, Promised, Request};
use crate::api::results::{Stability, Written};
use crate::api::time::Time;
use crate::bytes::{Arriving, WriteData};
use crate::encoding::record::InodeRecord;
use crate::file::extent_map::REPLACED_ENTRY_BYTES_MAX;
use crate::file::inodes::{InodeState, LockedInode};
use crate::limits::{
    DIRTY_RANGES_PER_FILE_MAX, EXTENT_BYTES_MAX, FILE_BYTES_MAX, INLINE_MAPPING_BYTES,
    INLINE_WRITE_BYTES_MAX, MAP_BYTES_PER_ENTRY_MAX, PORTION_BYTES, TRANSFER_BYTES_MAX,
};
use crate::quotas::Owners;
use crate::segments::space::{EXTENT_OVERHEAD_BYTES, SPARES_SET_ASIDE, footprint};
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::growth::{Growth, of_bytes};
use crate::transaction::map_update::{Filled, inline_mappings, is_dense};
use crate::transaction::permission::{check_write, without_privilege_bits};
use crate::volume::Volume;

const _: () = assert!(REPLACED_ENTRY_BYTES_MAX <= MAP_BYTES_PER_ENTRY_MAX);

/// Most gaps between unstable data in which one WRITE near a limit looks for holes.
const GAPS_COUNTED_MAX: usize = 16;

impl Volume {
    /// Prepares to receive `length` bytes of a WRITE at `offset`. Checks nothing: that is left to [`Volume::write`].
    pub fn arriving(&self, offset: u64, length: usize) -> Arriving {
        Arriving::new(self.segments.pool(), offset, length)
    }

    /// Writes `data`, at most [`TRANSFER_BYTES_MAX`], at `offset`. A small stable write travels in the journal. A
    /// large one, or one that replaces very many mappings, stays unstable until the next flush makes it stable; its
    /// reply waits for that. Data received for this offset is not copied.
    pub fn write<'d>(
        &self,
        request: &Request<'_>,
        ino: Ino,
        offset: u64,
        data: impl Into<WriteData<'d>>,
        stability: Stability,
    ) -> Answer<Written> {
        let ino = self.object(ino);
        let data = data.into();
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let after = state.durability();
            self.check_write(request, &state, offset, data.len())
                .map_err(|error| Stop::Failed(Failure { error, after }))?;
            let verifier = self.write_verifier();
            let before = state.attributes().before();
            let is_stable = stability != Stability::Unstable;
            let after = if data.is_empty() {
                after
            } else if is_stable && self.fits_inline(&state, offset, data.len()) {
                self.write_inline(request, attempt, &mut state, offset, &data.contiguous())?
            } else {
                self.write_unstable(request, attempt, &mut state, offset, data, is_stable)?
            };
            let written = Written {
                count: u32::try_from(data.len()).expect("a WRITE is below 4 GiB"),
                committed: if is_stable { Stability::FileSync } else { Stability::Unstable },
                verifier,
                file: Wcc { before, after: state.attributes() },
            };
            Ok(Promised { value: written, after })
        })
    }

    pub(super) fn check_write(
        &self,
        request: &Request<'_>,
        state: &InodeState,
        offset: u64,
        length: usize,
    ) -> Result<(), Error> {
        check_regular(state.record())?;
        check_write(request.credentials, state.record())?;
        if length > TRANSFER_BYTES_MAX as usize {
            return Err(Error::Invalid);
        }
        if offset.checked_add(length as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(Error::FileTooLarge);
        }
        if self.refuses_changes().is_some() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Returns the record of a file whose content changes.
    pub(super) fn written_record(
        &self,
        request: &Request<'_>,
        record: &InodeRecord,
        stamp: Time,
    ) -> InodeRecord {
        let mut record = record.clone();
        self.touch(&mut record, stamp, true);
        if request.credentials.uid != 0 {
            record.mode = without_privilege_bits(&record);
        }
        record
    }

    /// Whether the data, with the changes to the mappings that it replaces, fits one journal entry: always for a
    /// database page.
    fn fits_inline(&self, state: &LockedInode, offset: u64, length: usize) -> bool {
        let range = (offset, offset + length as u64);
        length as u64 <= INLINE_MAPPING_BYTES
            || length <= INLINE_WRITE_BYTES_MAX
                && self.inline_entry_bytes(&self.view(), state.id, range, MAP_BYTES_PER_ENTRY_MAX).is_some()
    }

    fn write_inline(
        &self,
        request: &Request<'_>,
        attempt: &Attempt<'_>,
        state: &mut LockedInode,
        offset: u64,
        data: &[u8],
    ) -> Result<Durability, Stop> {
        let end = offset + data.len() as u64;
        let new_bytes = end - offset - attempt.mapped_bytes(state, offset, end)?;
        let filled = [Filled { start: offset, end, new_bytes }];
        self.require_mappings()?;
        let growth = self.reserve_replacing(request, state, (offset, end), new_bytes)?;
        let growth = self.fit_held(state, growth)?;
        let mut pieces = Vec::new();
        inline_mappings(state.record(), offset, data, &mut pieces);
        let reserved = data.len() as u64 + pieces.len() as u64 * EXTENT_OVERHEAD_BYTES;
        self.reserve(reserved)?;
        let mut change = self.begin().inspect_err(|_| self.space.release(reserved))?;
        change.add_inline(reserved);
        growth.hold(state);
        let (stamp, _) = self.committer.stamp(request.now);
        *state.record_mut() = self.written_record(request, state.record(), stamp);
        self.put_mappings(&mut change, state, &pieces, &filled);
        state.dirty.remove(offset, end);
        self.account_dirty(state);
        change.put_inode(state.id, state.record());
        state.journaled(change.commit());
        Ok(state.durability())
    }

    /// Accepts data that the next write-back puts into segments. Large writes start it early, while their bytes are
    /// in the processor's cache: unlike small ones they are rarely overwritten soon.
    fn write_unstable(
        &self,
        request: &Request<'_>,
        attempt: &Attempt<'_>,
        state: &mut LockedInode,
        offset: u64,
        data: WriteData<'_>,
        is_stable: bool,
    ) -> Result<Durability, Stop> {
        if state.is_set_aside {
            return Err(Error::ObjectBusy.into());
        }
        let limit = self.limits.dirty_bytes;
        let held = self.write_back.dirty_bytes();
        let is_large = data.len() >= EXTENT_BYTES_MAX;
        let portion = if is_large { PORTION_BYTES / 4 } else { PORTION_BYTES };
        if held + data.len() as u64 > portion.min(limit / 2) {
            self.write_back.press();
        }
        // With a full journal, not even the time of the change could be covered.
        if held > 0 && held + data.len() as u64 > limit || self.committer.is_full() {
            return Err(Error::Busy.into());
        }
        self.bound_ranges(state)?;
        let end = offset + data.len() as u64;
        let pieces = (end - 1) / EXTENT_BYTES_MAX as u64 - offset / EXTENT_BYTES_MAX as u64 + 1;
        let reserved = footprint(data.len() as u64, pieces);
        self.require_mappings()?;
        let growth = self.reserve_unstable_growth(request, attempt, state, (offset, end))?;
        self.reserve(reserved)?;
        growth.hold(state);
        let (stamp, ceiling) = self.committer.stamp(request.now);
        let record = self.written_record(request, state.record(), stamp);
        let mode_changed = record.mode != state.record().mode;
        *state.record_mut() = record;
        state.reserved_bytes += reserved;
        state.unstable_size = Some(state.size().max(end));
        let write = self.write_back.new_write();
        data.for_each_piece(self.segments.pool(), offset, |start, piece| {
            state.dirty.insert(start, piece, write);
        });
        self.account_dirty(state);
        state.unsaved = true;
        // Replies that show the new times wait until they are below a durable ceiling.
        state.seq = state.seq.max(ceiling);
        let cell = Arc::clone(LockedInode::mutex(state));
        self.write_back.enter(state, &cell, request.now);
        if mode_changed {
            self.save_record(state)?;
        }
        if is_stable {
            state.flush_generation = self.write_back.request(state.id);
        }
        // A delayed reply slows its client smoothly, long before memory is exhausted and calls have to be retried.
        let waits = is_large && held + data.len() as u64 > (2 * PORTION_BYTES).min(limit / 2);
        let shown = state.durability();
        let generation = if waits && shown.flush.generation <= self.flushed_generation() {
            self.write_back.pace()
        } else {
            0
        };
        Ok(shown.and(Durability { seq: ceiling, flush: FlushWait { generation, file: None } }))
    }

    /// Has a file with many ranges of unstable data written back, early enough that its writers seldom have to wait.
    ///
    /// # Errors
    /// `ObjectBusy` if it may have no more.
    fn bound_ranges(&self, state: &InodeState) -> Result<(), Error> {
        let ranges = state.dirty.count();
        if ranges >= DIRTY_RANGES_PER_FILE_MAX / 2 {
            self.write_back.request(state.id);
        }
        if ranges >= DIRTY_RANGES_PER_FILE_MAX { Err(Error::ObjectBusy) } else { Ok(()) }
    }

    /// Reserves room for unstable data in a range of a locked file, as far as there is none yet: what fills holes, or all of
    /// it if that is not known at once and there is room.
    fn reserve_unstable_growth(
        &self,
        request: &Request<'_>,
        attempt: &Attempt<'_>,
        state: &mut InodeState,
        (offset, end): (u64, u64),
    ) -> Result<Growth<'_>, Stop> {
        if !self.own.ledger.is_limited() {
            return self.reserve_held_growth(request, state, 0);
        }
        let fresh = state.dirty.gaps(offset, end);
        if !is_dense(state.record()) {
            let most = fresh.iter().map(|(from, to)| to - from).sum();
            let owners = Owners::of(state.record());
            if let Ok(growth) = self.try_reserve_growth(request, owners, of_bytes(most))
                && growth.fits_with(state.growth)
            {
                return Ok(growth);
            }
        }
        // Each may take a long search, which no turn ends. Once the unstable data is written back, there is one.
        if fresh.len() > GAPS_COUNTED_MAX {
            self.write_back.request(state.id);
            return Err(Error::ObjectBusy.into());
        }
        let mut holes = 0;
        for (from, to) in fresh {
            holes += to - from - attempt.mapped_bytes(state, from, to)?;
        }
        self.reserve_held_growth(request, state, holes)
    }

    /// Journals a file's record by itself: a change of its mode is stable, even if unstable data caused it.
    fn save_record(&self, state: &mut LockedInode) -> Result<(), Stop> {
        let mut change = self.begin_background(self.number())?;
        change.put_inode(state.id, state.record());
        state.seq = change.commit();
        Ok(())
    }

    /// Reserves segment space, and requests more if there is none.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let spares = (self.segments.spares() as u64).saturating_sub(SPARES_SET_ASIDE);
        let reserved = self.space.reserve(bytes, spares * self.segments.usable_bytes());
        reserved.inspect_err(|error| self.request_space(*error))
    }
}
