//! The bytes of files: what the journal's mappings and the index's say together, read and verified.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::check::view::{Found, View};
use crate::api::ids::{ExtentId, Ino, SegmentId};
use crate::encoding::key;
use crate::encoding::record::{BLOCK, ExtentMapping, ExtentRecord, InodeRecord, Piece, Source};
use crate::limits::EXTENT_BYTES_MAX;
use crate::media::{Blob, Media};
use crate::tables::index::IndexError;

/// Where the bytes of a run are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the journal: these bytes, from this one on.
    Inline(Arc<[u8]>, usize),
    /// In an extent, from this offset on.
    Extent(ExtentId, u32),
    /// Unknown: the records that would say so are lost. Some of the run may be a hole.
    Unknown,
    /// A hole in the journal, which hides what the index has there. Runs that are visited have none.
    Hole,
}

/// A run of a file's bytes. Gaps between runs are holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) place: Place,
}

impl Run {
    /// Returns the visible part of a mapping; `None` if truncations hide all of it.
    fn of(end: u64, mapping: ExtentMapping, inode: Option<&InodeRecord>) -> Option<Run> {
        let visible = inode.map_or(u64::MAX, |inode| inode.visible_end(mapping.birth));
        let (start, end) = (mapping.start, end.min(visible));
        let place = match mapping.source {
            Source::Inline(bytes) => Place::Inline(bytes, 0),
            Source::Extent { id, offset } => Place::Extent(id, offset),
            Source::Hole => Place::Hole,
            Source::Lost => Place::Unknown,
        };
        (start < end).then_some(Run { start, end, place })
    }

    /// Returns the part within `[start, end)`, which overlaps it.
    pub(crate) fn clipped(&self, start: u64, end: u64) -> Run {
        let (start, end) = (start.max(self.start), end.min(self.end));
        let skip = start - self.start;
        let place = match &self.place {
            Place::Inline(bytes, from) => Place::Inline(
                Arc::clone(bytes),
                from.saturating_add(usize::try_from(skip).unwrap_or(usize::MAX)),
            ),
            Place::Extent(id, from) => {
                Place::Extent(*id, from.saturating_add(u32::try_from(skip).unwrap_or(u32::MAX)))
            }
            other => other.clone(),
        };
        Run { start, end, place }
    }

    fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// Receives the runs of a file, in order; breaks to end.
pub(crate) type VisitRun<'a> = &'a mut dyn FnMut(Run) -> ControlFlow<()>;

/// Visits the runs of a file. `inode` is its record, if that can be read; without it truncations that are still
/// pending are unknown, and what they hide is visited too.
pub(crate) fn runs(
    view: &View,
    ino: Ino,
    inode: Option<&InodeRecord>,
    visit: VisitRun<'_>,
) -> Result<(), IndexError> {
    // Whether bytes are missing is known from the file's count of bytes, so a lost range that covers its place in the
    // index but held nothing of it does not count. Changes made after an earlier loss were counted without knowing what
    // was there, so then every gap may be a loss.
    let (from, to) = (key::map(view.volume.object(ino), 0), key::map(view.volume.object(ino), u64::MAX));
    let mut tells_unknown = view.has_lost(&from, &to);
    if let Some(inode) = inode.filter(|_| tells_unknown && !view.has_recorded(&from, &to)) {
        let mut known = 0;
        merged(view, ino, Some(inode), false, &mut |run| {
            known += run.length();
            ControlFlow::Continue(())
        })?;
        tells_unknown = known < inode.used;
    }
    merged(view, ino, inode, tells_unknown, visit)
}

fn merged(
    view: &View,
    ino: Ino,
    inode: Option<&InodeRecord>,
    tells_unknown: bool,
    visit: VisitRun<'_>,
) -> Result<(), IndexError> {
    let mut merge =
        Merge { recent: recent_runs(view, ino, inode), next: 0, cursor: 0, visit, stopped: false };
    // Where the last mapping of the index ended, and whether records were lost since.
    let (mut last_end, mut lost) = (0, false);
    let mut bound = inode.map_or(0, |inode| inode.mapped_end);
    let (from, to) =
        (key::map(view.volume.object(ino), 0), key::map(view.volume.object(ino), u64::MAX).successor());
    view.each_in_index(&from, &to, &mut |found| {
        let mapping = match found {
            Found::Record(key, value) => decode(key, value),
            Found::Lost(_) => None,
        };
        let Some((end, mapping)) = mapping else {
            lost = true;
            return ControlFlow::Continue(());
        };
        if lost && tells_unknown {
            merge.add(&Run { start: last_end, end: mapping.start, place: Place::Unknown });
        }
        (last_end, lost) = (end, false);
        bound = bound.max(end);
        if let Some(run) = Run::of(end, mapping, inode) {
            merge.add(&run);
        }
        merge.flow()
    })?;
    if lost && tells_unknown {
        merge.add(&Run { start: last_end, end: bound, place: Place::Unknown });
    }
    merge.finish();
    Ok(())
}

fn decode(key: &[u8], value: &[u8]) -> Option<(u64, ExtentMapping)> {
    let (_, _, fields) = key::parse(key)?;
    Some((key::second_number(fields)?, ExtentMapping::decode(value).ok()?))
}

/// Lays the journal's runs over those of the index.
struct Merge<'a> {
    recent: Vec<Run>,
    next: usize,
    cursor: u64,
    visit: VisitRun<'a>,
    stopped: bool,
}

impl Merge<'_> {
    /// Adds the next run of the index: the parts of it that the journal does not hide, and what precedes them.
    fn add(&mut self, run: &Run) {
        self.cursor = self.cursor.max(run.start);
        while self.recent.get(self.next).is_some_and(|recent| recent.start < run.end) {
            let recent = self.recent[self.next].clone();
            self.next += 1;
            if self.cursor < recent.start {
                self.emit(run.clipped(self.cursor, recent.start));
            }
            self.cursor = self.cursor.max(recent.end);
            self.emit(recent);
        }
        if self.cursor < run.end {
            self.emit(run.clipped(self.cursor, run.end));
            self.cursor = run.end;
        }
    }

    fn finish(&mut self) {
        while let Some(recent) = self.recent.get(self.next).cloned() {
            self.next += 1;
            self.emit(recent);
        }
    }

    fn emit(&mut self, run: Run) {
        if !self.stopped && run.place != Place::Hole {
            self.stopped = (self.visit)(run).is_break();
        }
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Returns the runs of the journal's mappings, in order. They do not overlap: replay cuts back older ones.
fn recent_runs(view: &View, ino: Ino, inode: Option<&InodeRecord>) -> Vec<Run> {
    view.recent_of_map(ino)
        .filter_map(|(fields, slot)| {
            let mapping = ExtentMapping::decode(slot.as_deref()?).ok()?;
            Run::of(key::second_number(fields)?, mapping, inode)
        })
        .collect()
}

/// Reads extents.
pub(crate) struct Extents<'m> {
    media: &'m dyn Media,
    /// The last segment that was read: files lie in few segments.
    open: Option<(SegmentId, Arc<dyn Blob>)>,
}

/// Part of a file's content.
#[derive(Debug)]
pub enum Part<'p> {
    /// Bytes at an offset.
    Data(u64, &'p [u8]),
    /// The bytes from one offset to another cannot be read: why.
    Lost(u64, u64, &'p str),
}

/// Receives the parts of a file, in order; breaks to end.
pub type VisitPart<'a> = &'a mut dyn FnMut(Part<'_>) -> ControlFlow<()>;

impl<'m> Extents<'m> {
    pub(crate) fn new(media: &'m dyn Media) -> Extents<'m> {
        Extents { media, open: None }
    }

    /// Reads a run, and visits its parts.
    pub(crate) fn read(&mut self, view: &View, run: &Run, visit: VisitPart<'_>) -> ControlFlow<()> {
        match &run.place {
            Place::Hole => ControlFlow::Continue(()),
            Place::Unknown => {
                visit(Part::Lost(run.start, run.end, "the records that say where they lie are lost"))
            }
            Place::Inline(bytes, from) => {
                let length = usize::try_from(run.length()).unwrap_or(usize::MAX);
                match bytes.get(*from..from.saturating_add(length)) {
                    Some(bytes) => visit(Part::Data(run.start, bytes)),
                    None => visit(Part::Lost(run.start, run.end, "their journal entry contradicts itself")),
                }
            }
            Place::Extent(id, from) => match self.record(view, *id) {
                Ok(record) => self.read_extent(*id, &record, (run, *from), visit),
                Err(why) => visit(Part::Lost(run.start, run.end, &why)),
            },
        }
    }

    fn record(&self, view: &View, id: ExtentId) -> Result<ExtentRecord, String> {
        let key = key::extent(id);
        let value = view.get(&key).map_err(|error| error.to_string())?;
        let Some(value) = value else {
            let why = if view.is_lost(&key) { "is lost" } else { "does not exist" };
            return Err(format!("the record of extent {id} {why}"));
        };
        ExtentRecord::decode(&value).map_err(|error| format!("extent {id} has a {error}"))
    }

    fn blob(&mut self, id: SegmentId) -> std::io::Result<Arc<dyn Blob>> {
        if let Some((open, blob)) = &self.open
            && *open == id
        {
            return Ok(Arc::clone(blob));
        }
        let blob = self.media.open_blob(id)?;
        self.open = Some((id, Arc::clone(&blob)));
        Ok(blob)
    }

    /// Reads the part of an extent that `run` shows, which begins `from` bytes into it.
    fn read_extent(
        &mut self,
        id: ExtentId,
        record: &ExtentRecord,
        (run, from): (&Run, u32),
        visit: VisitPart<'_>,
    ) -> ControlFlow<()> {
        let (from, length) = (u64::from(from), run.length());
        let to = from.saturating_add(length);
        let (Ok(first), Ok(last), true) = (
            u32::try_from(from),
            u32::try_from(to),
            to <= u64::from(record.length) && record.stored as usize <= EXTENT_BYTES_MAX,
        ) else {
            let why = format!("extent {id} is shorter than the file's map says");
            return visit(Part::Lost(run.start, run.end, &why));
        };
        let blob = match self.blob(record.segment) {
            Ok(blob) => blob,
            Err(error) => {
                let why = format!("segment {} cannot be opened: {error}", record.segment);
                return visit(Part::Lost(run.start, run.end, &why));
            }
        };
        let mut at = run.start;
        for piece in record.pieces(first, last) {
            let start = run.start + u64::from(piece.start) - from;
            if start > at {
                visit(Part::Lost(at, start, NOT_STORED))?;
            }
            at = start + u64::from(piece.end - piece.start);
            read_piece(blob.as_ref(), record, (piece, start), visit)?;
        }
        if at < run.end { visit(Part::Lost(at, run.end, NOT_STORED)) } else { ControlFlow::Continue(()) }
    }
}

/// Why a part of an extent that a map names cannot be read.
const NOT_STORED: &str = "their segment has only another part of their extent";

/// Reads a stored part of an extent, which begins at byte `start` of the file.
fn read_piece(
    blob: &dyn Blob,
    record: &ExtentRecord,
    (piece, start): (Piece, u64),
    visit: VisitPart<'_>,
) -> ControlFlow<()> {
    let from = u64::from(piece.stored);
    let to = from + u64::from(piece.end - piece.start);
    let blocks = Blocks::read(blob, record, from, to);
    // Where a stored byte is in the file.
    let shown = |at: u64| start + at.clamp(from, to) - from;
    let mut at = blocks.first;
    for group in blocks.bad.chunk_by(|bad, next| bad == next) {
        let end = (at + (group.len() * BLOCK) as u64).min(to);
        match &group[0] {
            Some(why) => visit(Part::Lost(shown(at), shown(end), why))?,
            None => visit(Part::Data(shown(at), blocks.bytes(at.max(from), end)))?,
        }
        at = end;
    }
    ControlFlow::Continue(())
}

/// Blocks of an extent.
struct Blocks {
    /// Offset among the stored bytes of the first.
    first: u64,
    bytes: Vec<u8>,
    /// For each block, why it cannot be used, if so.
    bad: Vec<Option<String>>,
}

impl Blocks {
    /// Reads the blocks that hold stored bytes `[from, to)` of an extent.
    fn read(blob: &dyn Blob, record: &ExtentRecord, from: u64, to: u64) -> Blocks {
        let block = BLOCK as u64;
        let first = from / block * block;
        let last = to.next_multiple_of(block).min(u64::from(record.stored));
        let mut bytes = vec![0; usize::try_from(last - first).unwrap_or(0)];
        let all_read = blob.read_at(record.offset + first, &mut bytes).is_ok();
        let mut bad = Vec::with_capacity(bytes.len().div_ceil(BLOCK));
        for (number, data) in (first / block..).zip(bytes.chunks_mut(BLOCK)) {
            let place = record.offset + number * block;
            // If the whole cannot be read, single blocks may be.
            let read = if all_read { Ok(()) } else { blob.read_at(place, data) };
            bad.push(match read {
                Err(error) => Some(format!("segment {} cannot be read: {error}", record.segment)),
                Ok(()) => {
                    let stored = usize::try_from(number).ok().and_then(|at| record.checksums.get(at));
                    let verifies = stored == Some(&ExtentRecord::checksum(data, record.segment, place));
                    let what = || format!("they do not match their checksums in segment {}", record.segment);
                    (!verifies).then(what)
                }
            });
        }
        Blocks { first, bytes, bad }
    }

    /// Returns stored bytes `[from, to)`, which were read.
    fn bytes(&self, from: u64, to: u64) -> &[u8] {
        let place = |at: u64| usize::try_from(at - self.first).unwrap_or(usize::MAX);
        self.bytes.get(place(from)..place(to)).unwrap_or(&[])
    }
}
