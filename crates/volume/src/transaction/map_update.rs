//! Changes of a file's map, and what they mean for its size and for the bytes that it uses.

use std::convert::Infallible;

use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::encoding::record::{InodeRecord, MapRecord, Source};
use crate::file::extent_map::{INLINE_ENTRY_BYTES, covered, next_piece, replaceable, resolve};
use crate::file::inodes::{InodeState, Load};
use crate::limits::{COUNT_LOCKED_WINDOWS, INLINE_PIECE_BYTES, MAP_BYTES_PER_ENTRY, MAP_WINDOW_PIECES};
use crate::tables::read_view::Layers;
use crate::transaction::attempt::{Attempt, Coverage, Missing, Stop};
use crate::transaction::change::Change;
use crate::volume::Volume;

/// Ranges up to this are counted piece by piece under the file's lock; larger ones without it.
const COUNT_LOCKED_BYTES: u64 = 8 << 20;

/// Step in which a large range is counted, bytes.
const COUNT_STEP_BYTES: u64 = 256 << 20;

/// Whether all of a file up to the end of its map is mapped.
pub fn is_dense(record: &InodeRecord) -> bool {
    record.used == record.mapped_end
}

impl Attempt<'_> {
    /// Bytes of `[from, to)` of a locked file that are mapped, unstable data left out.
    pub fn mapped_bytes(&self, state: &mut InodeState, from: u64, to: u64) -> Result<u64, Stop> {
        let record = state.record();
        let to = to.min(record.mapped_end);
        if from >= to {
            return Ok(0);
        }
        if is_dense(record) {
            return Ok(to - from);
        }
        let layers = self.volume.layers();
        if to - from <= COUNT_LOCKED_BYTES && self.windows_of(state.ino) < COUNT_LOCKED_WINDOWS {
            let mut windows = |state: &mut InodeState, offset| self.window(&layers, state, offset);
            return Ok(covered(&resolve(&layers, state, (from, to), false, &mut windows)?));
        }
        let wanted = (state.ino, (from, to), layers.version, state.map_changes);
        let is_wanted =
            |known: &&Coverage| (known.ino, known.range, known.version, known.map_changes) == wanted;
        match self.coverage.iter().find(is_wanted) {
            Some(known) => Ok(known.bytes),
            None => Err(Stop::Missing(Missing::Coverage(state.ino, from, to))),
        }
    }
}

impl Volume {
    /// Counts the mapped bytes of a large range without holding the file's lock while reading. `None` if the file is
    /// gone or not in memory: the next try will find out.
    pub(crate) fn read_coverage(
        &self,
        layers: &Layers,
        ino: Ino,
        from: u64,
        to: u64,
    ) -> Result<Option<Coverage>, Error> {
        let Some(cell) = self.inodes.peek(ino) else { return Ok(None) };
        let mut copy = {
            let state = cell.lock();
            let Load::Present(record) = &state.load else { return Ok(None) };
            let mut copy = InodeState::new(ino);
            copy.load = Load::Present(record.clone());
            copy.map_changes = state.map_changes;
            copy
        };
        let mut bytes = 0;
        let mut start = from;
        while start < to {
            let next = self.next_mapped(layers, ino, start)?.filter(|piece| *piece < to);
            let Some(piece) = next else { break };
            start = piece.max(start);
            // No more of the index than one window, whatever lies in it.
            let window = self.read_window(layers, ino, start, MAP_WINDOW_PIECES)?;
            let end = to.min(start.saturating_add(COUNT_STEP_BYTES)).min(window.to);
            let mut windows = |_: &mut InodeState, _| Ok::<_, Infallible>(window.clone());
            let Ok(runs) = resolve(layers, &mut copy, (start, end), false, &mut windows);
            bytes += covered(&runs);
            start = end;
        }
        // The memtables may have changed while they were read; then the count of map changes tells.
        Ok(Some(Coverage {
            ino,
            range: (from, to),
            version: layers.version,
            map_changes: copy.map_changes,
            bytes,
        }))
    }

    /// Where the first piece that ends behind `from` begins, in any layer: what lies between is a hole, and may be as large
    /// as a file can be.
    fn next_mapped(&self, layers: &Layers, ino: Ino, from: u64) -> Result<Option<u64>, Error> {
        let in_index = self.read_window(layers, ino, from, 1)?.pieces.first().map(|piece| piece.start);
        let memtables = std::iter::once(&layers.active).chain(&layers.frozen);
        let in_memory = memtables.filter_map(|memtable| next_piece(memtable, ino, from));
        Ok(in_memory.chain(in_index).min())
    }

    /// Accounts for unstable data after it changed: in the volume's sum, and in reserved space.
    pub(crate) fn settle_dirty(&self, state: &mut InodeState) {
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

    /// Whether all unstable data of a locked file is little enough to travel in one journal entry, with what that entry has
    /// to say of the pieces that it replaces.
    pub(crate) fn fits_an_entry(&self, state: &InodeState) -> bool {
        let layers = self.layers();
        let mut left = MAP_BYTES_PER_ENTRY;
        state.dirty.is_small()
            && state.dirty.pieces().all(|piece| {
                let taken = self.inline_entry_bytes(&layers, state.ino, (piece.start, piece.end), left);
                left = left.saturating_sub(taken.unwrap_or(u64::MAX));
                taken.is_some()
            })
    }

    /// What journaling `range` of a file inline takes in an entry, unless that is more than `most` bytes.
    pub(crate) fn inline_entry_bytes(
        &self,
        layers: &Layers,
        ino: Ino,
        range: (u64, u64),
        most: u64,
    ) -> Option<u64> {
        let length = range.1 - range.0;
        let own = length + (length / INLINE_PIECE_BYTES + 1) * INLINE_ENTRY_BYTES;
        let (reached, older) = replaceable(&layers.active, ino, range, most.saturating_sub(own));
        (reached == range.1 && own + older <= most).then_some(own + older)
    }

    /// Puts pieces into a locked file's map: the records, its size and its usage. `new_bytes` of them were holes.
    pub(crate) fn put_pieces<B: AsRef<[u8]>>(
        &self,
        change: &mut Change<'_>,
        state: &mut InodeState,
        pieces: &[(u64, MapRecord<B>)],
        new_bytes: u64,
    ) {
        let Some((end, _)) = pieces.last() else { return };
        change.map(state.ino, pieces);
        state.map_changes += 1;
        let record = state.record_mut();
        record.size = record.size.max(*end);
        record.mapped_end = record.mapped_end.max(*end);
        record.used += new_bytes;
        let new_bytes = i64::try_from(new_bytes).expect("a file is below 2^63 bytes");
        change.add_usage(state.record(), new_bytes, 0);
    }
}

/// Inline pieces of `bytes` at `offset`, split at multiples of [`INLINE_PIECE_BYTES`]: `(end, piece)`.
pub fn inline_pieces<'b>(
    record: &InodeRecord,
    offset: u64,
    bytes: &'b [u8],
    into: &mut Vec<(u64, MapRecord<&'b [u8]>)>,
) {
    let mut start = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = INLINE_PIECE_BYTES - start % INLINE_PIECE_BYTES;
        let (piece, after) = rest.split_at(rest.len().min(usize::try_from(room).expect("a piece is small")));
        let end = start + piece.len() as u64;
        let source = Source::Inline(piece);
        into.push((end, MapRecord { epoch: record.epoch, start, birth: record.truncations, source }));
        start = end;
        rest = after;
    }
}
