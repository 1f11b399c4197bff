//! ALLOCATE and DEALLOCATE (RFC 7862 sections 15.1 and 15.4).

use crate::api::attributes::Wcc;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Error, Failure, Promised, Request};
use crate::api::results::Punched;
use crate::encoding::record::{ExtentMapping, Source};
use crate::file::extent_map::replaceable;
use crate::file::inodes::LockedInode;
use crate::limits::{FILE_BYTES_MAX, HOLE_BYTES_MAX, MAP_BYTES_PER_ENTRY_MAX, PENDING_TRUNCATIONS_MAX};
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::change::Change;
use crate::transaction::objects::signed;
use crate::volume::Volume;

/// The least bytes of data whose removal is worth the place of one mapping more in the index, when there is no room for more.
const FREED_MIN: u64 = 64 << 10;

impl Volume {
    /// Makes a range of a file usable: the file grows to its end, and the device has room for its holes at this
    /// moment. That room is not reserved, as segments have no place for data before it is written. The range reads as
    /// before, with zeros where there was nothing.
    pub fn allocate(&self, request: &Request<'_>, ino: Ino, offset: u64, length: u64) -> Answer<Wcc> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let after = state.durability();
            let fail = |error| Stop::Failed(Failure { error, after });
            let end = self.check_range(request, &state, offset, length).map_err(fail)?;
            // Holes are counted only if it matters how many of the bytes they are.
            let free = self.status(request)?.value.bytes_free;
            let is_room_sure = length <= free && !self.own.ledger.is_limited();
            if !is_room_sure {
                let least = length.saturating_sub(state.record().used);
                let holes = if least <= free {
                    length - attempt.mapped_bytes(&mut state, offset, end)?
                } else {
                    least
                };
                // As for the device, the room of limits is there, but not reserved. A quota is named as the reason if there is one.
                drop(self.reserve_replacing(request, &state, (offset, end), holes)?);
                if holes > free {
                    self.require_saved(&state, (offset, end))?;
                    return Err(fail(Error::NoSpace));
                }
            }
            let before = state.attributes().before();
            let mut change = self.begin()?;
            let (stamp, _) = self.committer.stamp(request.now);
            let mut record = self.written_record(request, state.record(), stamp);
            record.size = record.size.max(end);
            *state.record_mut() = record;
            change.put_inode(ino, state.record());
            state.journaled(change.commit());
            Ok(Promised { value: Wcc { before, after: state.attributes() }, after: state.durability() })
        })
    }

    /// Makes a range of a file a hole, which reads as zeros and takes no space. The size stays.
    ///
    /// One call makes one journal entry, and may do less than was asked for; the caller continues after that. After a crash
    /// each part is done or not.
    pub fn deallocate(&self, request: &Request<'_>, ino: Ino, offset: u64, length: u64) -> Answer<Punched> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let after = state.durability();
            let end = self
                .check_range(request, &state, offset, length)
                .map_err(|error| Stop::Failed(Failure { error, after }))?;
            let before = state.attributes().before();
            let reached = self.punch(request, attempt, &mut state, (offset, end))?;
            let file = Wcc { before, after: state.attributes() };
            Ok(Promised { value: Punched { count: reached - offset, file }, after: state.durability() })
        })
    }

    /// Returns the end of a range of a file that the caller may change.
    fn check_range(
        &self,
        request: &Request<'_>,
        state: &LockedInode,
        offset: u64,
        length: u64,
    ) -> Result<u64, Error> {
        self.check_write(request, state, offset, 0)?;
        if length == 0 {
            return Err(Error::Invalid);
        }
        offset.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX).ok_or(Error::FileTooLarge)
    }

    /// Makes a hole at the start of a range of a locked file, as far as one entry takes it; returns the end of the
    /// hole.
    fn punch(
        &self,
        request: &Request<'_>,
        attempt: &Attempt<'_>,
        state: &mut LockedInode,
        (from, to): (u64, u64),
    ) -> Result<u64, Stop> {
        let mapped_end = state.record().mapped_end;
        let is_tail = to >= mapped_end;
        if is_tail && from < mapped_end && !state.record().can_be_truncated() {
            return Err(Error::NoSpace.into());
        }
        let (end, freed) = if is_tail {
            (to, attempt.mapped_bytes(state, from, mapped_end)?)
        } else {
            let (end, _) = replaceable(&self.view().active, state.id, (from, to), MAP_BYTES_PER_ENTRY_MAX);
            attempt.mapped_some(state, (from, end), HOLE_BYTES_MAX)?
        };
        let cuts_are_full = is_tail
            && from < mapped_end
            && state.record().pending_truncations.len() >= PENDING_TRUNCATIONS_MAX;
        // A hole between data takes one mapping more.
        let frees = is_tail || freed >= FREED_MIN;
        let change = if frees {
            self.begin_freeing()?
        } else {
            self.require_mappings()?;
            self.begin()?
        };
        let holes = change.view().active.hole_bytes();
        if cuts_are_full || (!is_tail && holes > 0 && freed > 0 && holes + freed > HOLE_BYTES_MAX) {
            drop(change);
            self.checkpoints.kick();
            return Err(Error::ObjectBusy.into());
        }
        self.put_hole(request, change, state, (from, end), is_tail, freed);
        Ok(end)
    }

    fn put_hole(
        &self,
        request: &Request<'_>,
        mut change: Change<'_>,
        state: &mut LockedInode,
        (from, end): (u64, u64),
        is_tail: bool,
        freed: u64,
    ) {
        let (stamp, _) = self.committer.stamp(request.now);
        let mut record = self.written_record(request, state.record(), stamp);
        record.used -= freed;
        if is_tail {
            // Does the same as a truncation, except for the size.
            if from < record.mapped_end {
                record.truncate(from);
                self.own.note_unmapped(change.view().active.layer);
                record.mapped_end = from;
            }
        } else {
            let birth = record.truncations;
            let hole: ExtentMapping = ExtentMapping { start: from, birth, source: Source::Hole };
            change.map(state.id, &[(end, hole)]);
            change.view().active.add_hole(freed);
        }
        state.note_mapped(from, if is_tail { u64::MAX } else { end }, -signed(freed));
        *state.record_mut() = record;
        change.add_usage(state.record(), -signed(freed), 0);
        state.dirty.remove(from, end);
        self.account_dirty(state);
        change.put_inode(state.id, state.record());
        state.journaled(change.commit());
        if freed > 0 {
            self.space.removed();
        }
    }
}
