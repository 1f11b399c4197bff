//! Copies a pool that is not open to the media of a new one, byte for byte: `holdfast pool copy`.
//!
//! The index, the log and the segments that records name are copied unchanged. So the copy has the identity of the original: handles,
//! quotas, remembered replies and the state of clients are valid in it. The index's anchor refers to a position in the ring, and records
//! refer to positions in segments by their ids; all of these stay the same. If the pool was not closed, the copy replays the same
//! journal when it is opened. The source is only read.
//!
//! First the source is checked with all its data, as [`check`](crate::check::check) does. A pool with faults is refused before
//! anything is written: a copy that is found to be damaged later would not tell whether the original was. After the copy all of it is
//! read again on both sides, and compared.
//!
//! Media have no names, so this does not make the copy visible: the creator of the pool does, once [`Source::copy_to`] has returned `Ok`
//! and everything is durable.
//!
//! # Memory
//! That of a check, then two buffers of [`PIECE_BYTES`].

use std::io::{self, IoSlice};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::check::findings::Findings;
use super::check::view::View;
use super::check::{CheckOptions, Report, Summary, check};
use crate::api::ids::SegmentId;
use crate::encoding::key::{self, POOL, Table};
use crate::encoding::record::SegmentRecord;
use crate::media::{AlignedBuffer, BLOCK_BYTES, Blob, Media, RandomFile};
use crate::open::OpenError;

#[cfg(test)]
mod tests;

/// Bytes that are read, written or compared at a time: what an object of a Ceph cluster holds.
pub const PIECE_BYTES: usize = 4 << 20;

/// Most faults of the source that its refusal names.
const FAULTS_MAX: usize = 5;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The bytes are written.
    Copy,
    /// They are read again on both sides.
    Compare,
}

/// Told before each piece: the stage, and how many bytes of all it has done. Ends the copy by [`ControlFlow::Break`].
pub type Observer<'a> = &'a mut dyn FnMut(Stage, u64) -> ControlFlow<()>;

/// The bytes of a pool, by its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// The index.
    pub index: u64,
    /// The log.
    pub journal: u64,
    /// All segments that records name.
    pub segments: u64,
}

impl Bytes {
    /// Returns all of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.index.saturating_add(self.journal).saturating_add(self.segments)
    }
}

/// A pool without faults that is to be copied. Nobody may change it meanwhile.
pub struct Source {
    media: Arc<dyn Media>,
    summary: Summary,
    volumes: Vec<String>,
    /// The segments that records name, with their capacities in whole blocks.
    segments: Vec<(SegmentId, u64)>,
    bytes: Bytes,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("summary", &self.summary)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Checks a pool with all its data, and finds out what belongs to it.
    ///
    /// # Errors
    /// It has faults, or cannot be read.
    pub fn open(media: Arc<dyn Media>) -> Result<Source, OpenError> {
        let report = check(&media, &CheckOptions { read_data: true, faults_max: FAULTS_MAX })?;
        if !report.is_clean() {
            return Err(OpenError(refusal(&report)));
        }
        let mut view = View::open(media.as_ref())?;
        view.replay(media.log().as_ref(), &mut Findings::new(0), &mut Summary::default());
        let segments = segments_of(&view)?;
        let bytes = Bytes {
            index: media.index().len()?,
            journal: media.log().len()?,
            segments: segments.iter().map(|(_, capacity)| capacity).sum(),
        };
        let shown = view.volumes.into_values().filter(|record| !record.is_deleted && record.is_of_users());
        let mut volumes: Vec<String> = shown.map(|record| record.name).collect();
        volumes.sort();
        Ok(Source { media, summary: report.summary, volumes, segments, bytes })
    }

    /// Returns what the check found in it.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Returns the names of its volumes, sorted.
    #[must_use]
    pub fn volumes(&self) -> &[String] {
        &self.volumes
    }

    /// Returns how many segments it has.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns how large it is.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Copies it to the empty media of a new pool with a log of the same length, and compares the two. When this returns `Ok`, the
    /// copy is complete and durable.
    ///
    /// # Errors
    /// Media failed, are too small or returned other bytes than were written; or `observer` ended it. What was written is useless then.
    pub fn copy_to(&self, target: &dyn Media, observer: Observer<'_>) -> Result<(), OpenError> {
        self.require_room(target)?;
        self.write(target, &mut Run::new(Stage::Copy, observer))?;
        self.compare(target, &mut Run::new(Stage::Compare, observer))
    }

    /// Refuses media that cannot take it.
    fn require_room(&self, target: &dyn Media) -> Result<(), OpenError> {
        let length = target.log().len()?;
        if length != self.bytes.journal {
            let text =
                format!("a journal of {} bytes cannot be copied to one of {length}", self.bytes.journal);
            return Err(OpenError(text));
        }
        // The log of the new pool has its space already.
        let (needed, available) = (self.bytes.total() - length, target.space()?.available);
        if needed <= available {
            return Ok(());
        }
        Err(OpenError(format!(
            "its index and its segments need {} MiB besides the journal, and the target has {} MiB left; free some space there",
            needed.div_ceil(1 << 20),
            available >> 20
        )))
    }

    fn write(&self, target: &dyn Media, run: &mut Run<'_>) -> Result<(), OpenError> {
        // Segments first: most of the space is theirs, so it shows early if there is too little.
        for (id, capacity) in &self.segments {
            let failed = Part::Segment(*id).failed("copied");
            let from = self.media.open_blob(*id).map_err(Stop::Failed).map_err(&failed)?;
            let to = target.create_blob(*id, *capacity).map_err(Stop::Failed).map_err(&failed)?;
            run.copy_blob(&*from, &*to, *capacity).map_err(&failed)?;
        }
        let failed = Part::Index.failed("copied");
        let to = target.index();
        to.set_len(self.bytes.index).map_err(Stop::Failed).map_err(&failed)?;
        run.copy_file(&*self.media.index(), &*to, self.bytes.index).map_err(&failed)?;
        let failed = Part::Journal.failed("copied");
        run.copy_file(&*self.media.log(), &*target.log(), self.bytes.journal).map_err(&failed)
    }

    fn compare(&self, target: &dyn Media, run: &mut Run<'_>) -> Result<(), OpenError> {
        for (id, capacity) in &self.segments {
            let failed = Part::Segment(*id).failed("verified");
            let one = self.media.open_blob(*id).map_err(Stop::Failed).map_err(&failed)?;
            let other = target.open_blob(*id).map_err(Stop::Failed).map_err(&failed)?;
            let (one, other) = (
                |at, bytes: &mut [u8]| one.read_at(at, bytes),
                |at, bytes: &mut [u8]| other.read_at(at, bytes),
            );
            run.compare(*capacity, &one, &other).map_err(&failed)?;
        }
        let index = (Part::Index, self.media.index(), target.index(), self.bytes.index);
        let journal = (Part::Journal, self.media.log(), target.log(), self.bytes.journal);
        for (part, one, other, length) in [index, journal] {
            let failed = part.failed("verified");
            let found = other.len().map_err(Stop::Failed).map_err(&failed)?;
            if found != length {
                return Err(failed(differs(found.min(length))));
            }
            let (one, other) = (
                |at, bytes: &mut [u8]| one.read_at(at, bytes),
                |at, bytes: &mut [u8]| other.read_at(at, bytes),
            );
            run.compare(length, &one, &other).map_err(&failed)?;
        }
        Ok(())
    }
}

/// Returns the segments that records name. The files of others are deleted when the pool is opened.
fn segments_of(view: &View) -> Result<Vec<(SegmentId, u64)>, OpenError> {
    let mut segments = Vec::new();
    view.each(POOL, Table::Segment, &mut |fields, value| {
        if let (Some(id), Ok(record)) = (key::number(fields), SegmentRecord::decode(value)) {
            // That of a segment whose record was lost is where its last extent ends.
            segments.push((SegmentId(id), record.capacity.next_multiple_of(BLOCK_BYTES)));
        }
    })?;
    Ok(segments)
}

/// Says what is wrong with a source.
fn refusal(report: &Report) -> String {
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    let more = match report.more_faults {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("it has faults: {}{more}", faults.join("; "))
}

/// A part of a pool.
#[derive(Clone, Copy)]
enum Part {
    Segment(SegmentId),
    Index,
    Journal,
}

impl Part {
    /// Returns what makes a sentence of the reason why this part could not be `done` (a participle).
    fn failed(self, done: &'static str) -> impl Fn(Stop) -> OpenError {
        move |stop| {
            let what = match self {
                Part::Segment(id) => format!("segment {id}"),
                Part::Index => "the index".to_owned(),
                Part::Journal => "the journal".to_owned(),
            };
            OpenError(match stop {
                Stop::Interrupted => "it was interrupted".to_owned(),
                Stop::Failed(error) => format!("{what} cannot be {done}: {error}"),
            })
        }
    }
}

/// Why a stage ended early.
enum Stop {
    /// The observer wanted it.
    Interrupted,
    /// Media failed.
    Failed(io::Error),
}

fn differs(at: u64) -> Stop {
    let text = format!("at byte {at} it is not what was written: the media of the copy are faulty");
    Stop::Failed(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// A stage under way.
struct Run<'a> {
    stage: Stage,
    observer: Observer<'a>,
    done: u64,
    first: AlignedBuffer,
    second: AlignedBuffer,
}

/// Reads the original or the copy.
type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> io::Result<()>;

impl<'a> Run<'a> {
    fn new(stage: Stage, observer: Observer<'a>) -> Run<'a> {
        let [first, second] = [(); 2].map(|()| AlignedBuffer::new(PIECE_BYTES));
        Run { stage, observer, done: 0, first, second }
    }

    /// Returns the bytes of the piece at `at`; none at the end.
    fn next(&mut self, at: u64, end: u64) -> Result<Option<usize>, Stop> {
        if at == end {
            return Ok(None);
        }
        if (self.observer)(self.stage, self.done).is_break() {
            return Err(Stop::Interrupted);
        }
        let bytes = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        self.done += bytes as u64;
        Ok(Some(bytes))
    }

    /// Copies a segment. All of it, as only its extents tell where they end.
    fn copy_blob(&mut self, from: &dyn Blob, to: &dyn Blob, capacity: u64) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(bytes) = self.next(at, capacity)? {
            let piece = self.first.first_mut(bytes);
            from.read_at(at, piece).map_err(Stop::Failed)?;
            to.append(at, &[IoSlice::new(piece)]).map_err(Stop::Failed)?;
            at += bytes as u64;
        }
        to.sync().map_err(Stop::Failed)
    }

    /// Copies a file to one that is all zeros.
    fn copy_file(&mut self, from: &dyn RandomFile, to: &dyn RandomFile, length: u64) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(bytes) = self.next(at, length)? {
            let piece = self.first.first_mut(bytes);
            from.read_at(at, piece).map_err(Stop::Failed)?;
            // A ring that has not wrapped around is mostly zeros, with which the new one was written in full.
            if piece.iter().any(|byte| *byte != 0) {
                to.write_at(at, piece).map_err(Stop::Failed)?;
            }
            at += bytes as u64;
        }
        to.sync().map_err(Stop::Failed)
    }

    fn compare(&mut self, length: u64, one: Read<'_>, other: Read<'_>) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(bytes) = self.next(at, length)? {
            let (first, second) = (self.first.first_mut(bytes), self.second.first_mut(bytes));
            one(at, first).and_then(|()| other(at, second)).map_err(Stop::Failed)?;
            if first != second {
                let same = first.iter().zip(&*second).take_while(|(one, other)| one == other).count();
                return Err(differs(at + same as u64));
            }
            at += bytes as u64;
        }
        Ok(())
    }
}
