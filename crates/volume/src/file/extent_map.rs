//! Where the bytes of a file are: unstable data over the active memtable, over the frozen one, over the index.

use std::ops::ControlFlow;

use crate::api::ids::{ExtentId, ObjectId};
use crate::bytes::Value;
use crate::encoding::key;
use crate::encoding::record::{ExtentMapping, InodeRecord, Source};
use crate::file::dirty::DirtyRange;
use crate::file::inodes::{IndexMapping, InodeState, MapWindow};
use crate::limits::INLINE_MAPPING_BYTES;
use crate::tables::memtable::Memtable;
use crate::tables::read_view::ReadView;

/// Where a run of bytes is.
#[derive(Clone, Debug)]
pub enum Location {
    /// Unstable, in memory.
    Dirty(DirtyRange),
    /// In a memtable: a buffer, and the offset of the run in it.
    Inline(Value, usize),
    /// In an extent, from this offset on.
    Extent(ExtentId, u32),
    /// Unknown: the mappings that the index had here are lost.
    Lost,
    /// A hole that hides older mappings. Not among the runs that are returned.
    Hole,
}

/// What is logged when a file cannot be read for lack of mappings.
pub const MAPPINGS_LOST: &str = "the index has lost where bytes of a file are";

/// A run of a file's bytes. Gaps between runs are holes.
#[derive(Clone, Debug)]
pub struct Run {
    /// First offset in the file.
    pub start: u64,
    /// Offset after the last.
    pub end: u64,
    /// Where the bytes are.
    pub location: Location,
}

impl Run {
    /// Returns the part within `[start, end)`.
    fn clipped(&self, start: u64, end: u64) -> Run {
        let (start, end) = (start.max(self.start), end.min(self.end));
        let skip = start - self.start;
        let skip_bytes = usize::try_from(skip).expect("a run is no longer than its buffer");
        let location = match &self.location {
            Location::Dirty(mapping) => Location::Dirty(mapping.clipped(start, end)),
            Location::Inline(bytes, from) => Location::Inline(bytes.clone(), from + skip_bytes),
            Location::Hole => Location::Hole,
            Location::Lost => Location::Lost,
            Location::Extent(id, offset) => {
                Location::Extent(*id, offset + u32::try_from(skip).expect("an extent is far below 4 GiB"))
            }
        };
        Run { start, end, location }
    }
}

/// Fills gaps with runs, from the newest layer to the oldest.
struct Cover {
    gaps: Vec<(u64, u64)>,
    runs: Vec<Run>,
}

impl Cover {
    /// Fills gaps with the runs of `layer`, which are in file order and do not overlap: one pass over both.
    fn location(&mut self, layer: &[Run]) {
        let mut left = Vec::with_capacity(self.gaps.len());
        let mut first = 0;
        for (start, end) in std::mem::take(&mut self.gaps) {
            let mut cursor = start;
            while layer.get(first).is_some_and(|run| run.end <= start) {
                steps::take();
                first += 1;
            }
            for run in layer[first..].iter().take_while(|run| run.start < end) {
                steps::take();
                if run.start > cursor {
                    left.push((cursor, run.start));
                }
                let clipped = run.clipped(cursor, end);
                cursor = clipped.end;
                self.runs.push(clipped);
            }
            if cursor < end {
                left.push((cursor, end));
            }
        }
        self.gaps = left;
    }

    /// Fills gaps before `to` with mappings of the index, the oldest layer, and returns the end of the range that was
    /// examined: it stops after about `max` mappings. The gaps and the windows of the map are both in file order, so each window
    /// is fetched once.
    fn of_index<E>(
        &mut self,
        state: &mut InodeState,
        to: u64,
        max: usize,
        windows: Windows<'_, E>,
    ) -> Result<u64, E> {
        let end_of_map = state.record().mapped_end.min(to);
        let (mut examined, mut known) = (0, None::<MapWindow>);
        for (start, end) in std::mem::take(&mut self.gaps) {
            let end = end.min(end_of_map);
            let mut offset = start;
            while offset < end {
                if examined >= max {
                    return Ok(offset);
                }
                let window = match known.take().filter(|window| (window.from..window.to).contains(&offset)) {
                    Some(window) => window,
                    // As far as all gaps reach, since the search begins again after each window that is read.
                    None => windows(state, (offset, end_of_map))?,
                };
                let bound = window.to.min(end);
                let mappings = overlapping(&window.mappings, (offset, bound));
                examined += mappings.len().max(1);
                for run in visible_runs(mappings, state.record()) {
                    steps::take();
                    // A truncation may have left nothing of it here.
                    if run.end > offset {
                        self.runs.push(run.clipped(offset, bound));
                    }
                }
                known = Some(window);
                offset = bound;
            }
        }
        Ok(to)
    }
}

/// The steps that a thread took in looking for data, which tests count.
pub(crate) mod steps {
    #[cfg(test)]
    thread_local! {
        static TAKEN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Takes one.
    #[inline]
    pub(super) fn take() {
        #[cfg(test)]
        TAKEN.with(|taken| taken.set(taken.get() + 1));
    }

    /// Returns how many were taken since the last call.
    #[cfg(test)]
    pub fn taken() -> usize {
        TAKEN.with(std::cell::Cell::take)
    }
}

/// Returns a window of the index's map that covers the first offset of a range. The range may need further windows.
pub type Windows<'a, E> = &'a mut dyn FnMut(&mut InodeState, (u64, u64)) -> Result<MapWindow, E>;

/// Returns the runs of the beginning of `[from, to)` of a locked file, in file order, and the end of the range that they
/// cover completely. It stops once about `max` mappings of a layer were examined, visible or not. That range is empty only
/// if `range` is. `windows` returns the window of the index's map around an offset.
pub fn resolve_some<E>(
    view: &ReadView,
    state: &mut InodeState,
    range: (u64, u64),
    with_dirty: bool,
    max: usize,
    windows: Windows<'_, E>,
) -> Result<(Vec<Run>, u64), E> {
    let (from, mut to) = range;
    let mut cover = Cover { gaps: vec![(from, to)], runs: Vec::new() };
    if from >= to {
        return Ok((cover.runs, to));
    }
    let bound = |runs: &[Run], to: u64| match runs.last() {
        Some(last) if runs.len() >= max => to.min(last.end),
        _ => to,
    };
    if with_dirty {
        let runs: Vec<Run> = state
            .dirty
            .overlapping(from, to)
            .take(max)
            .map(|mapping| Run {
                start: mapping.start,
                end: mapping.end,
                location: Location::Dirty(mapping.clone()),
            })
            .collect();
        to = bound(&runs, to);
        cover.location(&runs);
    }
    let id = state.id;
    for memtable in std::iter::once(&view.active).chain(&view.frozen) {
        let (runs, examined_to) = memtable_runs(memtable, id, state.record(), (from, to), max);
        to = to.min(examined_to);
        cover.location(&runs);
    }
    to = cover.of_index(state, to, max, windows)?;
    let is_data = |run: &Run| run.start < to && !matches!(run.location, Location::Hole);
    let mut runs: Vec<Run> = cover.runs.into_iter().filter(is_data).collect();
    runs.sort_unstable_by_key(|run| run.start);
    if let Some(last) = runs.last_mut() {
        *last = last.clipped(from, last.end.min(to));
    }
    Ok((runs, to))
}

/// Returns the runs of the first `max` mappings of a memtable in `range`, and the offset up to which they are all.
fn memtable_runs(
    memtable: &Memtable,
    id: ObjectId,
    record: &InodeRecord,
    range: (u64, u64),
    max: usize,
) -> (Vec<Run>, u64) {
    let (mut runs, mut examined, mut examined_to) = (Vec::new(), 0, u64::MAX);
    mappings_while(memtable, id, range, &mut |mapping_end, mapping, value| {
        let end = mapping_end.min(record.visible_end(mapping.birth));
        if mapping.start < end {
            let location = match mapping.source {
                Source::Inline(bytes) => Location::Inline(value.clone(), value.len() - bytes.len()),
                Source::Extent { id, offset } => Location::Extent(id, offset),
                Source::Hole => Location::Hole,
                Source::Lost => Location::Lost,
            };
            runs.push(Run { start: mapping.start, end, location });
        }
        examined += 1;
        if examined < max {
            return ControlFlow::Continue(());
        }
        examined_to = mapping_end;
        ControlFlow::Break(())
    });
    (runs, examined_to)
}

/// Visits the mappings in a memtable that touch `range`, including hidden ones: `visit(start, end, value)`, with the
/// encoded [`ExtentMapping`].
pub fn memtable_mappings(
    memtable: &Memtable,
    id: ObjectId,
    range: (u64, u64),
    visit: &mut dyn FnMut(u64, u64, &Value),
) {
    encoded_while(memtable, id, range, &mut |start, end, value| {
        visit(start, end, value);
        ControlFlow::Continue(())
    });
}

/// Decodes a mapping in a memtable.
pub fn decode_verified(value: &[u8]) -> ExtentMapping {
    ExtentMapping::decode(value).expect("a memtable holds only what this process encoded, or replay verified")
}

fn mappings_while(
    memtable: &Memtable,
    id: ObjectId,
    range: (u64, u64),
    visit: &mut dyn FnMut(u64, ExtentMapping<&[u8]>, &Value) -> ControlFlow<()>,
) {
    encoded_while(memtable, id, range, &mut |_, end, value| {
        let mapping = ExtentMapping::borrow(value);
        visit(
            end,
            mapping.expect("a memtable holds only what this process encoded, or replay verified"),
            value,
        )
    });
}

/// The same for encoded mappings; does not read inline data.
fn encoded_while(
    memtable: &Memtable,
    id: ObjectId,
    range: (u64, u64),
    visit: &mut dyn FnMut(u64, u64, &Value) -> ControlFlow<()>,
) {
    let (from, to) = (key::map(id, range.0.saturating_add(1)), key::map(id, u64::MAX));
    memtable.scan(&from, &to, &mut |key, slot| {
        let Some(value) = slot else { return ControlFlow::Continue(()) };
        let (start, end) = ends_of(key, value);
        if start >= range.1 { ControlFlow::Break(()) } else { visit(start, end, value) }
    });
}

/// Returns start and end of a mapping in a memtable.
fn ends_of(key: &[u8], value: &Value) -> (u64, u64) {
    let end = key::parse(key).and_then(|(_, _, fields)| key::second_number(fields));
    let start = end.and_then(|end| ExtentMapping::start_of(end, value));
    start.zip(end).expect("a memtable holds only what this process encoded, or replay verified")
}

/// Overhead of an inline mapping in a journal entry, bytes: tag, key, lengths, head of the value.
pub const INLINE_ENTRY_BYTES: u64 = 48;

/// Bytes of an extent's mapping in a journal entry.
pub const MAPPING_ENTRY_BYTES: u64 = 60;

/// Bytes of a deleted mapping in a journal entry.
const DELETE_ENTRY_BYTES: u64 = 24;

/// Most bytes that journaling [`INLINE_MAPPING_BYTES`] takes: they span two mappings and replace at most one mapping
/// per byte, of which the first and the last are clipped.
pub const REPLACED_ENTRY_BYTES_MAX: u64 = INLINE_MAPPING_BYTES
    + 2 * INLINE_ENTRY_BYTES
    + INLINE_MAPPING_BYTES * DELETE_ENTRY_BYTES
    + 2 * (2 * MAPPING_ENTRY_BYTES + MAPPING_ENTRY_BYTES + INLINE_MAPPING_BYTES);

/// Returns how much of `range` can be replaced before the journaled changes to older mappings in the memtable reach
/// `max` bytes: the end of that part, and the bytes. The part is never empty, and ends with an older mapping unless
/// it is all.
pub fn replaceable(memtable: &Memtable, id: ObjectId, range: (u64, u64), max: u64) -> (u64, u64) {
    let (start, end) = range;
    let (mut reached, mut bytes) = (end, 0);
    encoded_while(memtable, id, range, &mut |old_start, old_end, value| {
        bytes += DELETE_ENTRY_BYTES;
        if old_start < start || old_end > end {
            // The parts that remain on either side are put again.
            bytes += 2 * MAPPING_ENTRY_BYTES + value.len() as u64;
        }
        if bytes >= max && old_end < end {
            reached = old_end;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    (reached, bytes)
}

/// Returns the mappings that touch `range`.
fn overlapping(mappings: &[IndexMapping], range: (u64, u64)) -> &[IndexMapping] {
    let first = mappings.partition_point(|mapping| mapping.end <= range.0);
    let rest = &mappings[first..];
    &rest[..rest.partition_point(|mapping| mapping.start < range.1)]
}

/// Returns what truncations have left of mappings.
fn visible_runs(mappings: &[IndexMapping], record: &InodeRecord) -> impl Iterator<Item = Run> {
    mappings.iter().filter_map(|mapping| {
        let end = mapping.end.min(record.visible_end(mapping.birth));
        let location = match mapping.is_lost() {
            true => Location::Lost,
            false => Location::Extent(mapping.extent, mapping.offset),
        };
        (mapping.start < end).then_some(Run { start: mapping.start, end, location })
    })
}

/// Returns the number of bytes that runs cover.
pub fn covered(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.end - run.start).sum()
}

#[cfg(test)]
mod tests;
