//! CLONE and COPY (RFC 7862 sections 15.13 and 15.2): two files share extents.
//!
//! A mapping of the target names an extent that the source's map shows. While that is journaled both files are
//! locked, and the source shows the extent in a layer that no later checkpoint removes without also seeing the new
//! mapping. So no checkpoint finds the extent without references in between.

use crate::api::attributes::{FileType, Wcc};
use crate::api::ids::{Ino, ObjectId};
use crate::api::request::{Answer, Error, Promised, Request};
use crate::api::results::Cloned;
use crate::encoding::record::{ExtentMapping, InodeRecord, Source};
use crate::file::extent_map::{
    INLINE_ENTRY_BYTES, Location, MAPPING_ENTRY_BYTES, MAPPINGS_LOST, Run, replaceable, resolve_some,
};
use crate::file::inodes::InodeState;
use crate::limits::{
    CLONE_BLOCK_BYTES, CLONE_RUNS_MAX, FILE_BYTES_MAX, HOLE_BYTES_MAX, MAP_BYTES_PER_ENTRY_MAX,
};
use crate::pool::Subject;
use crate::segments::space::EXTENT_OVERHEAD_BYTES;
use crate::transaction::attempt::{Attempt, LockedInodes, Stop};
use crate::transaction::map_update::inline_mappings;
use crate::transaction::objects::signed;
use crate::transaction::permission::check_read;
use crate::volume::Volume;

/// Mappings of a part above which it takes only half of a memtable.
const MANY_MAPPINGS: usize = 64;

/// The range to share: `count` bytes from an offset of one file, at an offset of the same or another file.
#[derive(Clone, Copy)]
struct Share {
    from: (ObjectId, u64),
    to: (ObjectId, u64),
    count: u64,
}

/// A part of it, as mappings of the target.
struct Part<'r> {
    /// Bytes of the range, holes counted.
    length: u64,
    mappings: Vec<(u64, ExtentMapping<&'r [u8]>)>,
    /// Bytes of data in it.
    data: u64,
}

impl Volume {
    /// Makes a range of one file the content of a range of another or the same, without copying what is in segments.
    /// Offsets are multiples of [`CLONE_BLOCK_BYTES`], and so is `count`, unless the range ends at the end of the
    /// source; zero means up to that end.
    ///
    /// One call makes one journal entry, and may share less than was asked for; the caller continues after that with
    /// [`Volume::copy_range`], as a part may end between two multiples.
    /// Unstable data of the source is made stable first; if that takes a flush, the result is `ObjectBusy`.
    ///
    /// # Errors
    /// `Invalid` beyond the end of the source, for other offsets, and for overlapping ranges of one file.
    pub fn clone_range(
        &self,
        request: &Request<'_>,
        from: (Ino, u64),
        to: (Ino, u64),
        count: u64,
    ) -> Answer<Cloned> {
        let from = (self.object(from.0), from.1);
        let to = (self.object(to.0), to.1);
        self.share(request, Share { from, to, count }, CLONE_BLOCK_BYTES)
    }

    /// Like [`Volume::clone_range`] at any offset: mappings begin and end at any byte.
    ///
    /// # Errors
    /// The errors of [`Volume::clone_range`], except those about offsets.
    pub fn copy_range(
        &self,
        request: &Request<'_>,
        from: (Ino, u64),
        to: (Ino, u64),
        count: u64,
    ) -> Answer<Cloned> {
        let from = (self.object(from.0), from.1);
        let to = (self.object(to.0), to.1);
        self.share(request, Share { from, to, count }, 1)
    }

    fn share(&self, request: &Request<'_>, share: Share, unit: u64) -> Answer<Cloned> {
        self.run(request.access, |attempt| {
            let mut held = attempt.lock_all(&[share.from.0, share.to.0])?;
            let count = match self.check_share(request, &mut held, share, unit) {
                Ok(count) => count,
                Err(error) => return Err(held.fail(error)),
            };
            let share = Share { count, ..share };
            if count == 0 {
                let file = held.get(share.to.0).attributes().unchanged();
                return Ok(Promised { value: Cloned { count, file }, after: held.durability() });
            }
            self.make_stable(attempt, held.get(share.from.0), (share.from.1, share.from.1 + count))?;
            let cloned = self.share_part(request, attempt, &mut held, share)?;
            Ok(Promised { value: cloned, after: held.durability() })
        })
    }

    /// Checks the arguments and permissions, and returns the number of bytes.
    fn check_share(
        &self,
        request: &Request<'_>,
        held: &mut LockedInodes,
        share: Share,
        unit: u64,
    ) -> Result<u64, Error> {
        let (offset, at) = (share.from.1, share.to.1);
        let source = held.get(share.from.0);
        match source.record().file_type {
            FileType::Regular => check_read(request.credentials, source.record())?,
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid),
        }
        let size = source.size();
        self.check_write(request, held.get(share.to.0), at, 0)?;
        let rest = size.checked_sub(offset).ok_or(Error::Invalid)?;
        let count = if share.count == 0 { rest } else { share.count };
        let is_whole = count.is_multiple_of(unit) || count == rest;
        if count > rest || !is_whole || !offset.is_multiple_of(unit) || !at.is_multiple_of(unit) {
            return Err(Error::Invalid);
        }
        let end = at.checked_add(count).filter(|end| *end <= FILE_BYTES_MAX).ok_or(Error::FileTooLarge)?;
        if share.from.0 == share.to.0 && at < offset + count && offset < end {
            return Err(Error::Invalid);
        }
        Ok(count)
    }

    /// Makes sure that a locked file has no unstable data in a range.
    fn make_stable(
        &self,
        attempt: &Attempt<'_>,
        state: &mut InodeState,
        (from, to): (u64, u64),
    ) -> Result<(), Stop> {
        if state.dirty.overlapping(from, to).next().is_none() {
            return Ok(());
        }
        if self.fits_an_entry(state) {
            return self.save_inline(attempt, state).map(drop);
        }
        self.write_back.request(state.id);
        Err(Error::ObjectBusy.into())
    }

    /// Shares as much as one entry takes.
    fn share_part(
        &self,
        request: &Request<'_>,
        attempt: &Attempt<'_>,
        held: &mut LockedInodes,
        share: Share,
    ) -> Result<Cloned, Stop> {
        let view = self.view();
        let (start, end) = (share.from.1, share.from.1 + share.count);
        let mut windows = |state: &mut InodeState, range| attempt.window(&view, state, range);
        let source = held.get(share.from.0);
        let (runs, end) = resolve_some(&view, source, (start, end), false, CLONE_RUNS_MAX, &mut windows)?;
        if runs.iter().any(|run| matches!(run.location, Location::Lost)) {
            return Err(self.report(Subject::Object(share.from.0), &MAPPINGS_LOST).into());
        }
        let (id, at) = share.to;
        let target = held.get(id);
        let whole = part(&runs, (start, end), at, target.record());
        let limit = (at, at + whole.length);
        let (reached, _) = replaceable(&view.active, id, limit, MAP_BYTES_PER_ENTRY_MAX / 2);
        drop(view);
        let (reached, replaced) = attempt.mapped_some(target, (at, reached), HOLE_BYTES_MAX)?;
        let part = if reached < limit.1 {
            self::part(&runs, (start, start + (reached - at)), at, target.record())
        } else {
            whole
        };
        self.put_part(request, target, at, &part, replaced)
    }

    fn put_part(
        &self,
        request: &Request<'_>,
        target: &mut InodeState,
        at: u64,
        part: &Part<'_>,
        replaced: u64,
    ) -> Result<Cloned, Stop> {
        if part.mappings.len() > MANY_MAPPINGS && self.memtables_are_half_full() {
            self.checkpoints.kick();
            return Err(Error::ObjectBusy.into());
        }
        if !part.mappings.is_empty() {
            self.require_mappings()?;
        }
        let inline = part.mappings.iter().filter(|(_, mapping)| matches!(mapping.source, Source::Inline(_)));
        let reserved = inline.map(|(end, mapping)| end - mapping.start + EXTENT_OVERHEAD_BYTES).sum();
        let more = part.data.saturating_sub(replaced);
        let growth = self.reserve_replacing(request, target, (at, at + part.length), more)?;
        self.reserve(reserved)?;
        let mut change = self.begin().inspect_err(|_| self.space.release(reserved))?;
        // A hole over data counts as one of DEALLOCATE.
        let freed = replaced.saturating_sub(part.data);
        let holes = change.view().active.hole_bytes();
        if holes > 0 && freed > 0 && holes + freed > HOLE_BYTES_MAX {
            drop(change);
            self.space.release(reserved);
            self.checkpoints.kick();
            return Err(Error::ObjectBusy.into());
        }
        change.view().active.add_hole(freed);
        change.add_inline(reserved);
        let before = target.attributes().before();
        let (stamp, _) = self.committer.stamp(request.now);
        let mut record = self.written_record(request, target.record(), stamp);
        let end = at + part.length;
        record.size = record.size.max(end);
        record.used = record.used - replaced + part.data;
        let data = part.mappings.iter().rev().find(|(_, mapping)| mapping.source != Source::Hole);
        record.mapped_end = record.mapped_end.max(data.map_or(0, |(end, _)| *end));
        change.map(target.id, &part.mappings);
        target.note_mapped(at, end, signed(part.data) - signed(replaced));
        change.add_usage(&record, signed(part.data) - signed(replaced), 0);
        change.add_growth(growth.keep());
        *target.record_mut() = record;
        target.dirty.remove(at, end);
        self.account_dirty(target);
        change.put_inode(target.id, target.record());
        target.journaled(change.commit());
        Ok(Cloned { count: part.length, file: Wcc { before, after: target.attributes() } })
    }
}

/// Returns the mappings of the target, from offset `at` on, that share a range of the source with these runs, as far
/// as one entry takes them.
fn part<'r>(runs: &'r [Run], (start, end): (u64, u64), at: u64, target: &InodeRecord) -> Part<'r> {
    let moved = |offset: u64| at + (offset - start);
    let mut part = Part { length: 0, mappings: Vec::new(), data: 0 };
    let mut left = MAP_BYTES_PER_ENTRY_MAX / 2;
    let mut cursor = start;
    for run in runs.iter().take_while(|run| run.start < end) {
        let bytes = run.end.min(end) - run.start;
        let taken = match &run.location {
            Location::Inline(..) => bytes + 2 * INLINE_ENTRY_BYTES,
            _ => MAPPING_ENTRY_BYTES,
        } + MAPPING_ENTRY_BYTES;
        if taken > left {
            part.length = cursor - start;
            return part;
        }
        left -= taken;
        put_hole(&mut part, (moved(cursor), moved(run.start)), target);
        put_run(&mut part, run, (moved(run.start), bytes), target);
        cursor = run.start + bytes;
    }
    put_hole(&mut part, (moved(cursor), moved(end)), target);
    part.length = end - start;
    part
}

/// Adds a hole, as far as the target may have data beneath it.
fn put_hole(part: &mut Part<'_>, (from, to): (u64, u64), target: &InodeRecord) {
    let to = to.min(target.mapped_end);
    if from < to {
        let birth = target.truncations;
        part.mappings.push((to, ExtentMapping { start: from, birth, source: Source::Hole }));
    }
}

/// Adds the first bytes of a run.
fn put_run<'r>(part: &mut Part<'r>, run: &'r Run, (at, bytes): (u64, u64), target: &InodeRecord) {
    let birth = target.truncations;
    part.data += bytes;
    match &run.location {
        Location::Inline(data, from) => {
            let length = usize::try_from(bytes).expect("inline data is far below 4 GiB");
            inline_mappings(target, at, &data[*from..from + length], &mut part.mappings);
        }
        Location::Extent(id, offset) => {
            let source = Source::Extent { id: *id, offset: *offset };
            part.mappings.push((at + bytes, ExtentMapping { start: at, birth, source }));
        }
        Location::Dirty(_) | Location::Hole | Location::Lost => {
            unreachable!("only what is stable was asked for, and nothing is lost")
        }
    }
}
