//! Changes of a file's extent map, and their effect on its size and usage.

use crate::api::ids::ObjectId;
use crate::encoding::record::{ExtentMapping, InodeRecord, Source};
use crate::file::coverage::{Coverage, Known};
use crate::file::extent_map::{INLINE_ENTRY_BYTES, covered, replaceable, resolve_some};
use crate::file::inodes::InodeState;
use crate::limits::{COUNT_AT_ONCE_BYTES, COUNT_RUNS_MAX, INLINE_MAPPING_BYTES, MAP_BYTES_PER_ENTRY_MAX};
use crate::pool::Pool;
use crate::tables::read_view::ReadView;
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::change::Change;
use crate::transaction::growth::take_growth;
use crate::transaction::objects::signed;

/// Whether a file has no holes before the end of its map.
pub fn is_dense(record: &InodeRecord) -> bool {
    record.used == record.mapped_end
}

/// A range that a change maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// First offset in the file.
    pub start: u64,
    /// Offset after the last.
    pub end: u64,
    /// Bytes of it that were holes.
    pub new_bytes: u64,
}

/// How much of the beginning of a range is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPart {
    /// The offset after the part that was looked at. The part is empty only if the range is.
    pub end: u64,
    /// Mapped bytes in it.
    pub bytes: u64,
    /// The visible mappings that were counted, if it took that.
    pub counted: Option<usize>,
}

impl Attempt<'_> {
    /// Returns the bytes of `[from, to)` of a locked file that are mapped, not counting unstable data. Where mappings
    /// are lost, all are taken for mapped, as far as the file's usage allows.
    ///
    /// # Errors
    /// [`Stop::NextStep`] and [`Stop::TurnOver`] if there are very many mappings; another attempt or call goes on with the
    /// count.
    pub fn mapped_bytes(&self, state: &mut InodeState, from: u64, to: u64) -> Result<u64, Stop> {
        let used = state.record().used;
        let to = to.min(state.record().mapped_end);
        if from >= to {
            return Ok(0);
        }
        if is_dense(state.record()) {
            return Ok((to - from).min(used));
        }
        if from == 0 && to == state.record().mapped_end {
            return Ok(used);
        }
        let is_short = to - from <= COUNT_AT_ONCE_BYTES;
        let known = state.notes.as_ref().map(|notes| notes.coverage.known(from, to));
        let is_begun = matches!(known, Some(Known::Part { .. }));
        if is_short
            && !is_begun
            && let (reached, bytes) = self.mapped_some(state, (from, to), u64::MAX)?
            && reached == to
        {
            return Ok(bytes);
        }
        let mut coverage = std::mem::take(&mut state.notes.get_or_insert_default().coverage);
        let counted = self.count(&mut coverage, state, (from, to));
        state.notes.get_or_insert_default().coverage = coverage;
        self.pool.inodes.count_notes(state);
        self.note_counted(state.id);
        Ok(counted?.min(used))
    }

    /// Returns the end of the beginning of a range of a locked file in which a moment suffices to count what is mapped, and
    /// the bytes: at most `max`. It is empty only if the range is.
    pub fn mapped_some(
        &self,
        state: &mut InodeState,
        range: (u64, u64),
        max: u64,
    ) -> Result<(u64, u64), Stop> {
        self.mapped_part(state, range, max).map(|part| (part.end, part.bytes))
    }

    /// Returns how much is mapped in the beginning of a range of a locked file in which a moment suffices to count it, at most
    /// `max` bytes.
    pub fn mapped_part(
        &self,
        state: &mut InodeState,
        (from, to): (u64, u64),
        max: u64,
    ) -> Result<MappedPart, Stop> {
        let record = state.record();
        let (used, mapped_end) = (record.used, record.mapped_end);
        if is_dense(record) || from >= mapped_end {
            let bytes = to.min(mapped_end).saturating_sub(from);
            let (end, bytes) = if bytes > max { (from + max, max) } else { (to, bytes.min(used)) };
            return Ok(MappedPart { end, bytes, counted: None });
        }
        let view = self.pool.view();
        let mut windows = |state: &mut InodeState, range| self.window(&view, state, range);
        let (runs, reached) = resolve_some(&view, state, (from, to), false, COUNT_RUNS_MAX, &mut windows)?;
        let (mut bytes, counted) = (0, Some(runs.len()));
        for run in &runs {
            let of_run = run.end - run.start;
            if of_run > max - bytes {
                // As long as this only where mappings are lost.
                return Ok(MappedPart { end: run.start + (max - bytes), bytes: max.min(used), counted });
            }
            bytes += of_run;
        }
        Ok(MappedPart { end: reached, bytes: bytes.min(used), counted })
    }

    /// Counts what is mapped in a range of a locked file, as far as it is not known yet: one step of it.
    fn count(
        &self,
        coverage: &mut Coverage,
        state: &mut InodeState,
        (from, to): (u64, u64),
    ) -> Result<u64, Stop> {
        let (mut at, mut bytes, mut is_step_taken) = (from, 0, false);
        while at < to {
            match coverage.known(at, to) {
                Known::Part { end, bytes: of_part } => {
                    bytes += of_part;
                    at = end;
                }
                Known::Not(start, end) => {
                    if is_step_taken {
                        return Err(Stop::NextStep);
                    }
                    self.take_count_step()?;
                    is_step_taken = true;
                    let view = self.pool.view();
                    let mut windows =
                        |state: &mut InodeState, (offset, _)| self.count_window(&view, state, offset);
                    let (runs, reached) =
                        resolve_some(&view, state, (start, end), false, COUNT_RUNS_MAX, &mut windows)?;
                    coverage.note(start, reached, covered(&runs));
                    #[cfg(test)]
                    self.pool.hooks.reach(crate::hooks::Point::MappingsCounted);
                }
            }
        }
        Ok(bytes)
    }
}

impl Pool {
    /// Accounts for unstable data after it changed: in the pool's sum, in reserved space and in reserved growth.
    pub(crate) fn account_dirty(&self, state: &mut InodeState) {
        let (bytes, footprint) = (state.dirty.memory_bytes(), state.dirty.footprint());
        self.write_back.count(state.counted_bytes, bytes);
        state.counted_bytes = bytes;
        if footprint > state.reserved_bytes {
            self.space.extend(footprint - state.reserved_bytes);
        } else {
            self.space.release(state.reserved_bytes - footprint);
        }
        state.reserved_bytes = footprint;
        if state.growth.bytes > state.dirty.bytes() {
            let unneeded = state.growth.bytes - state.dirty.bytes();
            self.release_growth(state, unneeded);
        }
        if state.dirty.is_empty() {
            let size = state.size();
            state.record_mut().size = size;
            state.unstable_size = None;
            state.is_set_aside = false;
        }
    }

    /// Whether all unstable data of a locked file fits one journal entry, with the changes to the mappings that it
    /// replaces.
    pub(crate) fn fits_an_entry(&self, state: &InodeState) -> bool {
        let view = self.view();
        let mut left = MAP_BYTES_PER_ENTRY_MAX;
        state.dirty.is_small()
            && state.dirty.ranges().all(|mapping| {
                let taken = self.inline_entry_bytes(&view, state.id, (mapping.start, mapping.end), left);
                left = left.saturating_sub(taken.unwrap_or(u64::MAX));
                taken.is_some()
            })
    }

    /// Returns the bytes of an entry that journals `range` of a file inline, unless they exceed `max`.
    pub(crate) fn inline_entry_bytes(
        &self,
        view: &ReadView,
        ino: ObjectId,
        range: (u64, u64),
        max: u64,
    ) -> Option<u64> {
        let length = range.1 - range.0;
        let own = length + (length / INLINE_MAPPING_BYTES + 1) * INLINE_ENTRY_BYTES;
        let (reached, older) = replaceable(&view.active, ino, range, max.saturating_sub(own));
        (reached == range.1 && own + older <= max).then_some(own + older)
    }

    /// Adds mappings to a locked file: the records, its size and its usage. They fill these ranges.
    pub(crate) fn put_mappings<B: AsRef<[u8]>>(
        &self,
        change: &mut Change<'_>,
        state: &mut InodeState,
        mappings: &[(u64, ExtentMapping<B>)],
        filled: &[Filled],
    ) {
        let Some((end, _)) = mappings.last() else { return };
        change.map(state.id, mappings);
        for range in filled {
            state.note_mapped(range.start, range.end, signed(range.new_bytes));
        }
        let new_bytes = new_bytes(filled);
        change.add_growth(take_growth(state, new_bytes));
        let record = state.record_mut();
        record.size = record.size.max(*end);
        record.mapped_end = record.mapped_end.max(*end);
        record.used += new_bytes;
        change.add_usage(state.record(), signed(new_bytes), 0);
    }
}

/// Returns the bytes of ranges that were holes.
pub fn new_bytes(filled: &[Filled]) -> u64 {
    filled.iter().map(|range| range.new_bytes).sum()
}

/// Splits `bytes` at `offset` into inline mappings at multiples of [`INLINE_MAPPING_BYTES`]: `(end, mapping)`.
pub fn inline_mappings<'b>(
    record: &InodeRecord,
    offset: u64,
    bytes: &'b [u8],
    into: &mut Vec<(u64, ExtentMapping<&'b [u8]>)>,
) {
    let mut start = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = INLINE_MAPPING_BYTES - start % INLINE_MAPPING_BYTES;
        let (mapping, after) =
            rest.split_at(rest.len().min(usize::try_from(room).expect("a piece is small")));
        let end = start + mapping.len() as u64;
        let source = Source::Inline(mapping);
        into.push((end, ExtentMapping { start, birth: record.truncations, source }));
        start = end;
        rest = after;
    }
}
