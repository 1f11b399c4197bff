//! Changes of a file's extent map, and their effect on its size and usage.

use std::convert::Infallible;

use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::encoding::record::{ExtentMapping, InodeRecord, Source};
use crate::file::extent_map::{INLINE_ENTRY_BYTES, covered, next_mapping, replaceable, resolve};
use crate::file::inodes::{InodeState, Presence};
use crate::limits::{
    COUNT_LOCKED_WINDOWS_MAX, INLINE_MAPPING_BYTES, MAP_BYTES_PER_ENTRY_MAX, MAP_WINDOW_MAPPINGS,
};
use crate::tables::read_view::ReadView;
use crate::transaction::attempt::{Attempt, Coverage, Missing, Stop};
use crate::transaction::change::Change;
use crate::volume::Volume;

/// Ranges up to this size are counted under the file's lock; larger ones without it.
const COUNT_LOCKED_BYTES: u64 = 8 << 20;

/// Step in which a large range is counted, bytes.
const COUNT_STEP_BYTES: u64 = 256 << 20;

/// Whether a file has no holes before the end of its map.
pub fn is_dense(record: &InodeRecord) -> bool {
    record.used == record.mapped_end
}

impl Attempt<'_> {
    /// Returns the bytes of `[from, to)` of a locked file that are mapped, not counting unstable data. Where mappings
    /// are lost, all are taken for mapped, as far as the file's usage allows.
    pub fn mapped_bytes(&self, state: &mut InodeState, from: u64, to: u64) -> Result<u64, Stop> {
        let bytes = self.count_mapped(state, from, to)?;
        Ok(bytes.min(state.record().used))
    }

    fn count_mapped(&self, state: &mut InodeState, from: u64, to: u64) -> Result<u64, Stop> {
        let record = state.record();
        let to = to.min(record.mapped_end);
        if from >= to {
            return Ok(0);
        }
        if is_dense(record) {
            return Ok(to - from);
        }
        let view = self.volume.view();
        if to - from <= COUNT_LOCKED_BYTES && self.windows_of(state.ino) < COUNT_LOCKED_WINDOWS_MAX {
            let mut windows = |state: &mut InodeState, range| self.window(&view, state, range);
            return Ok(covered(&resolve(&view, state, (from, to), false, &mut windows)?));
        }
        let wanted = (state.ino, (from, to), view.version, state.map_changes);
        let is_wanted =
            |known: &&Coverage| (known.ino, known.range, known.version, known.map_changes) == wanted;
        match self.coverage.iter().find(is_wanted) {
            Some(known) => Ok(known.bytes),
            None => Err(Stop::Missing(Missing::Coverage(state.ino, from, to))),
        }
    }
}

impl Volume {
    /// Counts the mapped bytes of a large range without holding the file's lock while reading. Returns `None` if the
    /// file is gone or not in memory: the next attempt will find out.
    pub(crate) fn read_coverage(
        &self,
        view: &ReadView,
        ino: Ino,
        from: u64,
        to: u64,
    ) -> Result<Option<Coverage>, Error> {
        let Some(cell) = self.inodes.peek(ino) else { return Ok(None) };
        let mut copy = {
            let state = cell.lock();
            let Presence::Present(record) = &state.presence else { return Ok(None) };
            let mut copy = InodeState::new(ino);
            copy.presence = Presence::Present(record.clone());
            copy.map_changes = state.map_changes;
            copy
        };
        let mut bytes = 0;
        let mut start = from;
        // The caller needs no more than the file uses, and what is lost may be the whole of a huge sparse file.
        while start < to && bytes < copy.record().used {
            let next = self.next_mapped(view, ino, start)?.filter(|mapping| *mapping < to);
            let Some(mapping) = next else { break };
            start = mapping.max(start);
            // Reads at most one window of the index, however many mappings lie there.
            let window = self.read_window(view, ino, (start, u64::MAX), MAP_WINDOW_MAPPINGS)?;
            let end = to.min(start.saturating_add(COUNT_STEP_BYTES)).min(window.to);
            let mut windows = |_: &mut InodeState, _| Ok::<_, Infallible>(window.clone());
            let Ok(runs) = resolve(view, &mut copy, (start, end), false, &mut windows);
            bytes += covered(&runs);
            start = end;
        }
        // The memtables may have changed meanwhile; then the count of map changes differs.
        Ok(Some(Coverage {
            ino,
            range: (from, to),
            version: view.version,
            map_changes: copy.map_changes,
            bytes,
        }))
    }

    /// Returns the start of the first mapping in any layer that ends after `from`. What lies between is a hole,
    /// possibly a huge one.
    fn next_mapped(&self, view: &ReadView, ino: Ino, from: u64) -> Result<Option<u64>, Error> {
        let in_index =
            self.read_window(view, ino, (from, u64::MAX), 1)?.mappings.first().map(|mapping| mapping.start);
        let memtables = std::iter::once(&view.active).chain(&view.frozen);
        let in_memory = memtables.filter_map(|memtable| next_mapping(memtable, ino, from));
        Ok(in_memory.chain(in_index).min())
    }

    /// Accounts for unstable data after it changed: in the volume's sum, and in reserved space.
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
        if state.dirty.is_empty() {
            let size = state.size();
            state.record_mut().size = size;
            state.unstable_size = None;
        }
    }

    /// Whether all unstable data of a locked file fits one journal entry, with the changes to the mappings that it
    /// replaces.
    pub(crate) fn fits_an_entry(&self, state: &InodeState) -> bool {
        let view = self.view();
        let mut left = MAP_BYTES_PER_ENTRY_MAX;
        state.dirty.is_small()
            && state.dirty.ranges().all(|mapping| {
                let taken = self.inline_entry_bytes(&view, state.ino, (mapping.start, mapping.end), left);
                left = left.saturating_sub(taken.unwrap_or(u64::MAX));
                taken.is_some()
            })
    }

    /// Returns the bytes of an entry that journals `range` of a file inline, unless they exceed `max`.
    pub(crate) fn inline_entry_bytes(
        &self,
        view: &ReadView,
        ino: Ino,
        range: (u64, u64),
        max: u64,
    ) -> Option<u64> {
        let length = range.1 - range.0;
        let own = length + (length / INLINE_MAPPING_BYTES + 1) * INLINE_ENTRY_BYTES;
        let (reached, older) = replaceable(&view.active, ino, range, max.saturating_sub(own));
        (reached == range.1 && own + older <= max).then_some(own + older)
    }

    /// Adds mappings to a locked file: the records, its size and its usage. `new_bytes` of them were holes.
    pub(crate) fn put_mappings<B: AsRef<[u8]>>(
        &self,
        change: &mut Change<'_>,
        state: &mut InodeState,
        mappings: &[(u64, ExtentMapping<B>)],
        new_bytes: u64,
    ) {
        let Some((end, _)) = mappings.last() else { return };
        change.map(state.ino, mappings);
        state.map_changes += 1;
        let record = state.record_mut();
        record.size = record.size.max(*end);
        record.mapped_end = record.mapped_end.max(*end);
        record.used += new_bytes;
        let new_bytes = i64::try_from(new_bytes).expect("a file is below 2^63 bytes");
        change.add_usage(state.record(), new_bytes, 0);
    }
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
        into.push((end, ExtentMapping { epoch: record.epoch, start, birth: record.truncations, source }));
        start = end;
        rest = after;
    }
}
