//! Where the bytes of a file are: unstable data over the active memtable, over the frozen one, over the index.

use std::ops::ControlFlow;

use crate::api::ids::{ExtentId, Ino};
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
    /// In a memtable: a buffer and where in it the run begins.
    Inline(Value, usize),
    /// In an extent, from that many bytes into it.
    Extent(ExtentId, u32),
    /// Nowhere: a hole that hides what older layers say. Not among the runs that are returned.
    Hole,
}

/// A run of a file's bytes; what lies between runs is a hole.
#[derive(Clone, Debug)]
pub struct Run {
    /// First offset in the file.
    pub start: u64,
    /// Offset behind the last.
    pub end: u64,
    /// Where it is.
    pub location: Location,
}

impl Run {
    /// The part of this run within `[start, end)`.
    fn clipped(&self, start: u64, end: u64) -> Run {
        let (start, end) = (start.max(self.start), end.min(self.end));
        let skip = start - self.start;
        let skip_bytes = usize::try_from(skip).expect("a run is no longer than its buffer");
        let location = match &self.location {
            Location::Dirty(mapping) => Location::Dirty(mapping.clipped(start, end)),
            Location::Inline(bytes, from) => Location::Inline(bytes.clone(), from + skip_bytes),
            Location::Hole => Location::Hole,
            Location::Extent(id, offset) => {
                Location::Extent(*id, offset + u32::try_from(skip).expect("an extent is far below 4 GiB"))
            }
        };
        Run { start, end, location }
    }
}

/// Fills gaps with runs, layer by layer from the newest.
struct Cover {
    gaps: Vec<(u64, u64)>,
    runs: Vec<Run>,
}

impl Cover {
    /// Lets `layer` (in file order, not overlapping) fill what is still a gap.
    fn location(&mut self, layer: &[Run]) {
        let mut left = Vec::with_capacity(self.gaps.len());
        for (start, end) in std::mem::take(&mut self.gaps) {
            let mut cursor = start;
            let first = layer.partition_point(|run| run.end <= start);
            for run in layer[first..].iter().take_while(|run| run.start < end) {
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
}

/// The runs of `[from, to)` of a locked file, in file order. `windows` gives the part of the index's map around an offset.
pub fn resolve<E>(
    view: &ReadView,
    state: &mut InodeState,
    range: (u64, u64),
    with_dirty: bool,
    windows: Windows<'_, E>,
) -> Result<Vec<Run>, E> {
    Ok(resolve_some(view, state, range, with_dirty, usize::MAX, windows)?.0)
}

/// Gives the part of the index's map around an offset.
pub type Windows<'a, E> = &'a mut dyn FnMut(&mut InodeState, u64) -> Result<MapWindow, E>;

/// The same, but only as far as each layer has about `max` runs: the runs, and where the part ends that they are all of.
/// It is never empty unless `range` is.
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
    let ino = state.ino;
    for memtable in std::iter::once(&view.active).chain(&view.frozen) {
        let runs = memtable_runs(memtable, ino, state.record(), (from, to), max);
        to = bound(&runs, to);
        cover.location(&runs);
    }
    let mapped_end = state.record().mapped_end;
    let mut of_index = 0;
    'gaps: for (start, end) in cover.gaps.clone() {
        let end = end.min(mapped_end).min(to);
        let mut offset = start;
        while offset < end {
            if of_index >= max {
                to = offset;
                break 'gaps;
            }
            let window = windows(state, offset)?;
            let bound = window.to.min(end);
            let runs = window_runs(&window.mappings, state.record(), (offset, bound));
            of_index += runs.len();
            cover.location(&runs);
            offset = bound;
        }
    }
    let is_data = |run: &Run| run.start < to && !matches!(run.location, Location::Hole);
    let mut runs: Vec<Run> = cover.runs.into_iter().filter(is_data).collect();
    runs.sort_unstable_by_key(|run| run.start);
    if let Some(last) = runs.last_mut() {
        *last = last.clipped(from, last.end.min(to));
    }
    Ok((runs, to))
}

/// What a memtable says of `range` of a file: the first `max` runs.
fn memtable_runs(
    memtable: &Memtable,
    ino: Ino,
    record: &InodeRecord,
    range: (u64, u64),
    max: usize,
) -> Vec<Run> {
    let mut runs = Vec::new();
    mappings_while(memtable, ino, range, &mut |end, mapping, value| {
        let end = end.min(record.visible_end(mapping.birth));
        if mapping.start < end {
            let location = match mapping.source {
                Source::Inline(bytes) => Location::Inline(value.clone(), value.len() - bytes.len()),
                Source::Extent { id, offset } => Location::Extent(id, offset),
                Source::Hole => Location::Hole,
            };
            runs.push(Run { start: mapping.start, end, location });
        }
        if runs.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    runs
}

/// The pieces in a memtable that touch `range`, hidden ones too: `visit(start, end, value)`, with the encoded
/// [`ExtentMapping`].
pub fn memtable_mappings(
    memtable: &Memtable,
    ino: Ino,
    range: (u64, u64),
    visit: &mut dyn FnMut(u64, u64, &Value),
) {
    encoded_while(memtable, ino, range, &mut |start, end, value| {
        visit(start, end, value);
        ControlFlow::Continue(())
    });
}

/// A piece that a memtable holds.
pub fn decode_verified(value: &[u8]) -> ExtentMapping {
    ExtentMapping::decode(value).expect("a memtable holds only what this process encoded, or replay verified")
}

fn mappings_while(
    memtable: &Memtable,
    ino: Ino,
    range: (u64, u64),
    visit: &mut dyn FnMut(u64, ExtentMapping<&[u8]>, &Value) -> ControlFlow<()>,
) {
    encoded_while(memtable, ino, range, &mut |_, end, value| {
        let mapping = ExtentMapping::borrow(value);
        visit(
            end,
            mapping.expect("a memtable holds only what this process encoded, or replay verified"),
            value,
        )
    });
}

/// The same as they are encoded; of inline data nothing is looked at.
fn encoded_while(
    memtable: &Memtable,
    ino: Ino,
    range: (u64, u64),
    visit: &mut dyn FnMut(u64, u64, &Value) -> ControlFlow<()>,
) {
    let (from, to) = (key::map(ino, range.0.saturating_add(1)), key::map(ino, u64::MAX));
    memtable.scan(&from, &to, &mut |key, slot| {
        let Some(value) = slot else { return ControlFlow::Continue(()) };
        let (start, end) = ends_of(key, value);
        if start >= range.1 { ControlFlow::Break(()) } else { visit(start, end, value) }
    });
}

/// Where a piece that a memtable holds begins and ends.
fn ends_of(key: &[u8], value: &Value) -> (u64, u64) {
    let end = key::parse(key).and_then(|(_, _, fields)| key::second_number(fields));
    let start = end.and_then(|end| ExtentMapping::start_of(end, value));
    start.zip(end).expect("a memtable holds only what this process encoded, or replay verified")
}

/// What an inline piece of a map takes in a journal entry beside its data, bytes: tag, key, lengths, head of the value.
pub const INLINE_ENTRY_BYTES: u64 = 48;

/// What a piece in an extent takes there.
pub const MAPPING_ENTRY_BYTES: u64 = 60;

/// What taking a piece away takes there.
const DELETE_ENTRY_BYTES: u64 = 24;

/// What journaling as many bytes as one piece may hold takes at most: they lie over two pieces, and what they
/// replace over as many as there are bytes, of which the first and the last are cut.
pub const REPLACED_ENTRY_BYTES_MAX: u64 = INLINE_MAPPING_BYTES
    + 2 * INLINE_ENTRY_BYTES
    + INLINE_MAPPING_BYTES * DELETE_ENTRY_BYTES
    + 2 * (2 * MAPPING_ENTRY_BYTES + MAPPING_ENTRY_BYTES + INLINE_MAPPING_BYTES);

/// How much of `range` of a file can be replaced until what is journaled of older pieces in the memtable reaches `max`
/// bytes: the end of that part, and the bytes. It is never empty, and ends with an older piece unless it is all.
pub fn replaceable(memtable: &Memtable, ino: Ino, range: (u64, u64), max: u64) -> (u64, u64) {
    let (start, end) = range;
    let (mut reached, mut bytes) = (end, 0);
    encoded_while(memtable, ino, range, &mut |old_start, old_end, value| {
        bytes += DELETE_ENTRY_BYTES;
        if old_start < start || old_end > end {
            // What is left of it at either side is put again.
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

/// Where the first piece in a memtable that ends behind `from` begins.
pub fn next_mapping(memtable: &Memtable, ino: Ino, from: u64) -> Option<u64> {
    let (from, to) = (key::map(ino, from.saturating_add(1)), key::map(ino, u64::MAX));
    let mut found = None;
    memtable.scan(&from, &to, &mut |key, slot| {
        found = slot.as_ref().map(|value| ends_of(key, value).0);
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found
}

fn window_runs(mappings: &[IndexMapping], record: &InodeRecord, range: (u64, u64)) -> Vec<Run> {
    let first = mappings.partition_point(|mapping| mapping.end <= range.0);
    mappings[first..]
        .iter()
        .take_while(|mapping| mapping.start < range.1)
        .filter_map(|mapping| {
            let end = mapping.end.min(record.visible_end(mapping.birth));
            (mapping.start < end).then_some(Run {
                start: mapping.start,
                end,
                location: Location::Extent(mapping.extent, mapping.offset),
            })
        })
        .collect()
}

/// Bytes that runs cover.
pub fn covered(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.end - run.start).sum()
}

#[cfg(test)]
mod tests;
