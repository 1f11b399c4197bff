//! Reading a journal after a crash, and telling a torn tail from damage.
//!
//! Recovery follows the chain of batches from the anchor to the *break*: the first batch that is absent or does not
//! verify. The missing part is either the tail that a crash tore, which was never promised, or damage to something
//! promised. Every batch states the last sequence that was durable when it was written. A batch of this journal with
//! a higher sequence that states the missing entry durable is a *witness* of damage: the journal is not opened.
//! Without a witness, and unless damage is as large as a window of the search, nothing that was acknowledged is
//! missing.
//!
//! # Where a witness lies
//! Not all of the ring is searched, only [`SEARCH_BYTES`] from the break and as much from the ring's start:
//!
//! - The missing batch begins at the break or, if it did not fit before the ring's end, at the ring's start.
//! - One batch is in flight: a batch is written only after a sync of the one before it. So if the missing batch was
//!   durable and anything was written later, its successor was written first and is a witness. If the successor's
//!   header did not reach media, the crash came before the successor was durable, and nothing later was written.
//! - The successor begins where the missing batch ends or, likewise, at the ring's start. A batch takes at most
//!   [`BATCH_BYTES_MAX`]. So the successor begins within that distance of the break or of the ring's start, whichever of
//!   the two batches wrapped: a batch that wraps leaves the distance from the ring's start no longer than those of
//!   the batches since.
//!
//! By the same argument the n-th batch after the missing one begins within n times that distance. Damage is taken for
//! a torn tail only if it hits the header of every batch in both windows: all of [`SEARCH_BYTES`] of the ring after
//! the break, as when several files of the log were replaced by older ones. And a crash leaves no more than one torn
//! batch, the missing one itself, so all that recovery must erase lies there too.
//!
//! Batches of earlier laps do no harm: a checkpoint covers their sequences, which are below every one in the chain. A
//! torn batch that an earlier recovery cut was erased, durably, before another with the same sequence was written.
//!
//! # What is made durable first
//! - The last batches of the chain, which may have been written but not synced when the crash came: a reply could
//!   show them, and the next crash lose them. They are written again with the same bytes, so a crash meanwhile tears
//!   nothing.
//! - The erasure of what was cut: a batch whose predecessor is gone must not be found by a later recovery, after new
//!   batches.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::format::{self, BLOCK, BatchHeader, DecodedBatch, HEADER_BYTES, RingHeader, block_usize};
use super::ring::{
    BATCH_BYTES_MAX, Link, PIECE_BYTES, Ring, erase_block, largest_stored_bytes, usable_length,
};
use super::{Apply, Visit};
use crate::api::ids::{Generation, Seq};
use crate::api::time::Time;
use crate::encoding::anchor::Anchor;
use crate::media::RandomFile;

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The last entry that survived: the anchor's if nothing follows it.
    pub last_seq: Seq,
    /// Highest open-generation of the batches found; zero if there are none.
    pub generation: Generation,
    /// Highest time ceiling of the batches found; [`Time::EPOCH`] if there are none.
    pub time_ceiling: Time,
    /// Number of entries after the anchor.
    pub entries: u64,
    /// Bytes of these entries.
    pub bytes: u64,
    /// Bytes of torn batches that were found and cut.
    pub cut_bytes: u64,
}

/// Why a journal cannot be opened.
#[derive(Debug)]
pub enum RecoverError {
    /// Reading or writing it failed.
    Io(io::Error),
    /// The header block is damaged or missing.
    Missing(format::FormatError),
    /// The journal belongs to another volume, or its length has changed since its creation.
    Foreign,
    /// A checkpoint later than the index's is in the journal: the index is an old copy.
    IndexStale {
        /// The last entry that the index covers.
        seq: Seq,
        /// The last entry that it once covered.
        covered: Seq,
    },
    /// The journal lacks what the index refers to: the journal is an old copy, or from another copy of the volume.
    Stale {
        /// The last entry that the index covers.
        seq: Seq,
        /// Where in the journal it should be.
        position: u64,
    },
    /// A durable entry is lost.
    Damaged {
        /// The first missing entry.
        seq: Seq,
        /// Where in the journal its batch should be.
        position: u64,
        /// Position of the batch that states it durable.
        witness: u64,
    },
    /// The engine refused an entry that verified.
    Refused {
        /// The entry.
        seq: Seq,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::Io(error) => write!(f, "the journal could not be read: {error}"),
            RecoverError::Missing(error) => write!(
                f,
                "the journal is missing or damaged: its header block {error}; is this the right journal directory?"
            ),
            RecoverError::Foreign => f.write_str(
                "the journal belongs to another volume or was resized; start with the journal directory of this volume",
            ),
            RecoverError::Stale { seq, position } => write!(
                f,
                "journal and index do not belong together: entry {seq}, which the index covers, is not at position \
                 {position} of the journal; the journal is an old copy, or from another copy of this pool; restore \
                 the whole pool from one backup"
            ),
            RecoverError::IndexStale { seq, covered } => write!(
                f,
                "journal and index do not belong together: the index covers entry {seq} at most, but the journal \
                 says that it covered entry {covered}; the index is an old copy; restore the whole pool from one \
                 backup"
            ),
            RecoverError::Damaged { seq, position, witness } => write!(
                f,
                "the journal is damaged: entry {seq} at position {position} was durable (the batch at position \
                 {witness} says so) but does not verify; restore the journal from the device or a backup"
            ),
            RecoverError::Refused { seq, reason } => write!(f, "journal entry {seq} is refused: {reason}"),
        }
    }
}

impl std::error::Error for RecoverError {}

impl From<io::Error> for RecoverError {
    fn from(error: io::Error) -> RecoverError {
        RecoverError::Io(error)
    }
}

pub(super) fn recover(
    log: Arc<dyn RandomFile>,
    anchor: &Anchor,
    apply: Apply<'_>,
) -> Result<(Ring, Recovered), RecoverError> {
    let found = read(&*log, anchor, &mut |header, seq, entry| apply(seq, header.generation, entry))?;
    let mut reader = Reader::new(&*log, found.length);
    for link in found.links.iter().skip(1).filter(|link| link.last_seq > found.chain.durable) {
        let bytes = reader.fetch(link.start, link.end - link.start)?;
        // It verified a moment ago; rewriting something else would turn a bad read into damage.
        match format::decode_batch(bytes) {
            Ok(batch) if batch.header.checksum == link.checksum => log.write_at(link.start, bytes)?,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "it changes while it is read").into()),
        }
    }
    for torn in &found.torn {
        erase_block(&*log, torn.position)?;
    }
    log.sync()?;
    let ring = Ring::recovered(log, anchor, found.length, found.chain.generation, found.links);
    Ok((ring, found.summary))
}

pub(super) fn inspect(
    log: &dyn RandomFile,
    anchor: &Anchor,
    visit: Visit<'_>,
) -> Result<Recovered, RecoverError> {
    read(log, anchor, visit).map(|found| found.summary)
}

/// What recovery reads before it changes anything; it decides from this alone.
struct Found {
    length: u64,
    links: VecDeque<Link>,
    chain: Chain,
    torn: Vec<BatchHeader>,
    summary: Recovered,
}

/// Combined statements of the batches in the chain.
#[derive(Default)]
struct Chain {
    /// Highest sequence stated durable, by a batch or by the checkpoint.
    durable: Seq,
    /// Highest sequence that the index is stated to cover.
    covered: Seq,
    generation: Generation,
    time_ceiling: Option<Time>,
}

impl Chain {
    fn note(&mut self, header: &BatchHeader) {
        self.durable = self.durable.max(header.durable);
        self.covered = self.covered.max(header.covered);
        self.generation = self.generation.max(header.generation);
        self.time_ceiling = self.time_ceiling.max(Some(header.time_ceiling));
    }
}

fn read(log: &dyn RandomFile, anchor: &Anchor, visit: Visit<'_>) -> Result<Found, RecoverError> {
    let length = usable_length(log)?;
    let mut reader = Reader::new(log, length);
    let header = RingHeader::decode(reader.fetch(0, BLOCK)?).map_err(RecoverError::Missing)?;
    if header.journal != anchor.journal || header.length != length || anchor.position > length {
        return Err(RecoverError::Foreign);
    }
    let mut chain = Chain { durable: anchor.seq, ..Chain::default() };
    let at_anchor = anchor_batch(&mut reader, anchor)?;
    if let AnchorBatch::There(header) = &at_anchor {
        chain.note(header);
    }
    let first =
        Link { last_seq: anchor.seq, start: anchor.start, end: anchor.position, checksum: anchor.checksum };
    let mut links = VecDeque::from([first]);
    let (mut entries, mut bytes) = (0, 0);
    let mut last = first;
    while let Some(batch) = successor(&mut reader, anchor, &last, chain.generation)? {
        let header = batch.header;
        for (seq, entry) in batch.entries() {
            visit(&header, seq, entry).map_err(|reason| RecoverError::Refused { seq, reason })?;
            entries += 1;
            bytes += entry.len() as u64;
        }
        chain.note(&header);
        last = Link {
            last_seq: header.last_seq(),
            start: header.position,
            end: header.position + header.stored_bytes(),
            checksum: header.checksum,
        };
        links.push_back(last);
    }
    let missing = Seq(last.last_seq.0 + 1);
    let torn = search(log, length, &links, anchor.journal, last.last_seq)?;
    // A batch states a checkpoint only after it is durable, so the right index contains it.
    let covered = torn.iter().map(|header| header.covered).fold(chain.covered, Seq::max);
    if covered > anchor.seq {
        return Err(RecoverError::IndexStale { seq: anchor.seq, covered });
    }
    let stale = RecoverError::Stale { seq: anchor.seq, position: anchor.start };
    if matches!(at_anchor, AnchorBatch::Other) {
        return Err(stale);
    }
    if let Some(witness) = torn.iter().find(|header| header.durable >= missing) {
        return Err(RecoverError::Damaged { seq: missing, position: last.end, witness: witness.position });
    }
    if links.len() == 1 && matches!(at_anchor, AnchorBatch::Missing) {
        return Err(stale);
    }
    let summary = Recovered {
        last_seq: last.last_seq,
        generation: chain.generation,
        time_ceiling: chain.time_ceiling.unwrap_or(Time::EPOCH),
        entries,
        bytes,
        cut_bytes: torn.iter().map(BatchHeader::stored_bytes).sum(),
    };
    Ok(Found { length, links, chain, torn, summary })
}

/// What lies where the index says that the anchor's batch is.
enum AnchorBatch {
    /// A new journal has none.
    None,
    /// That batch.
    There(BatchHeader),
    /// Another batch of this journal, which never overwrites the anchor's.
    Other,
    /// No batch.
    Missing,
}

/// Looks for the header of the anchor's batch. Its entries are not needed.
fn anchor_batch(reader: &mut Reader<'_>, anchor: &Anchor) -> io::Result<AnchorBatch> {
    if anchor.start == anchor.position {
        return Ok(if anchor.seq == Seq(0) { AnchorBatch::None } else { AnchorBatch::Missing });
    }
    let here = |header: &BatchHeader| header.journal == anchor.journal && header.position == anchor.start;
    let header = BatchHeader::decode(reader.fetch(anchor.start, BLOCK)?).ok().filter(here);
    Ok(match header {
        Some(header)
            if header.last_seq() == anchor.seq
                && header.checksum == anchor.checksum
                && header.stored_bytes() == anchor.position - anchor.start =>
        {
            AnchorBatch::There(header)
        }
        Some(_) => AnchorBatch::Other,
        None => AnchorBatch::Missing,
    })
}

/// Returns the batch that follows `last`: right after it, or at the start of the ring. Only the successor has the
/// next sequence, the checksum of `last` and valid checksums.
fn successor<'r>(
    reader: &'r mut Reader<'_>,
    anchor: &Anchor,
    last: &Link,
    generation: Generation,
) -> io::Result<Option<DecodedBatch<'r>>> {
    let mut place = None;
    for position in [last.end, BLOCK] {
        if position >= reader.length {
            continue;
        }
        let Ok(header) = BatchHeader::decode(reader.fetch(position, BLOCK)?) else { continue };
        let follows = header.journal == anchor.journal
            && header.position == position
            && header.first_seq.0 == last.last_seq.0 + 1
            && header.predecessor == last.checksum
            && header.generation >= generation
            && fits(&header, reader.length);
        if follows && format::decode_batch(reader.fetch(position, header.stored_bytes())?).is_ok() {
            place = Some((position, header.stored_bytes()));
            break;
        }
    }
    let Some((position, length)) = place else { return Ok(None) };
    Ok(format::decode_batch(reader.fetch(position, length)?).ok())
}

/// Checks that a batch lies within the ring and is no larger than `append` makes them.
fn fits(header: &BatchHeader, length: u64) -> bool {
    let stored = header.stored_bytes();
    stored <= largest_stored_bytes(length)
        && header.position.checked_add(stored).is_some_and(|end| end <= length)
}

/// Bytes that are searched for a witness, from the break and from the ring's start: see the module's documentation.
const SEARCH_BYTES: u64 = 4 * BATCH_BYTES_MAX;

/// Finds the headers of batches with sequences above `cut`, the last of the chain `links`, near the break and near the
/// ring's start. Bytes that the chain occupies are skipped.
fn search(
    log: &dyn RandomFile,
    length: u64,
    links: &VecDeque<Link>,
    journal: [u8; 16],
    cut: Seq,
) -> io::Result<Vec<BatchHeader>> {
    let mut chain: Vec<(u64, u64)> = links.iter().map(|link| (link.start, link.end)).collect();
    chain.sort_unstable();
    chain.push((length, length));
    let end = links.back().map_or(BLOCK, |last| last.end);
    let is_near = |position: u64| {
        position < BLOCK + SEARCH_BYTES || (end..end.saturating_add(SEARCH_BYTES)).contains(&position)
    };
    let mut found = Vec::new();
    let mut reader = Reader::new(log, length);
    let mut position = BLOCK;
    for (start, end) in chain {
        for position in (position..start).step_by(block_usize()).filter(|position| is_near(*position)) {
            let header = BatchHeader::decode(&reader.fetch(position, BLOCK)?[..HEADER_BYTES]).ok();
            found.extend(header.filter(|header| {
                header.journal == journal && header.position == position && header.last_seq() > cut
            }));
        }
        position = position.max(end);
    }
    Ok(found)
}

/// Reads the ring in bounded pieces.
struct Reader<'a> {
    log: &'a dyn RandomFile,
    length: u64,
    start: u64,
    piece: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(log: &'a dyn RandomFile, length: u64) -> Reader<'a> {
        Reader { log, length, start: 0, piece: Vec::new() }
    }

    /// Returns `bytes` bytes from `position`, a multiple of [`BLOCK`]; they must lie within the ring.
    fn fetch(&mut self, position: u64, bytes: u64) -> io::Result<&[u8]> {
        let end = self.start + self.piece.len() as u64;
        if position < self.start || position + bytes > end {
            let left = self.length.saturating_sub(position);
            let wanted = left.min(bytes.max(PIECE_BYTES as u64));
            let wanted = usize::try_from(wanted).expect("a batch fits memory");
            // If the read fails, the old bytes must not be taken for the new piece.
            self.piece.clear();
            self.start = position;
            let mut piece = std::mem::take(&mut self.piece);
            piece.resize(wanted, 0);
            self.log.read_at(position, &mut piece)?;
            self.piece = piece;
        }
        let from = usize::try_from(position - self.start).expect("within the piece");
        let count = usize::try_from(bytes).expect("within the piece");
        self.piece
            .get(from..from + count)
            .ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the journal ends within a batch"))
    }
}

#[cfg(test)]
mod tests;
