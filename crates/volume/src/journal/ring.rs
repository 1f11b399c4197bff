//! The ring: batches appended to a log of fixed length.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::ids::{Generation, Seq};
use crate::api::time::Time;
use crate::encoding::anchor::Anchor;
use crate::journal::format::{self, BLOCK, BatchHeader, RingHeader, block_usize};
use crate::journal::recovery::{self, RecoverError, Recovered};
use crate::journal::{Apply, Visit};
use crate::media::RandomFile;

/// Bytes read or zeroed at a time.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Largest batch in the ring, with header and padding: bounds the memory of a replay.
pub(super) const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Smallest ring.
const RING_BYTES_MIN: u64 = 64 << 10;

/// Entries to append.
#[derive(Debug)]
pub struct Batch<'a, E> {
    /// Open-generation of the writer; never decreases from batch to batch.
    pub generation: Generation,
    /// Sequence of the first entry: one above the last appended.
    pub first_seq: Seq,
    /// The entries, opaque; at least one.
    pub entries: &'a [E],
    /// Last sequence known durable: a `sync` after its `append` returned `Ok`.
    pub durable: Seq,
    /// No later time was handed out.
    pub time_ceiling: Time,
}

/// Why a batch was not appended.
#[derive(Debug)]
pub enum AppendError {
    /// No room before the oldest batch that no checkpoint covers. Nothing was written; trim, then retry.
    Full,
    /// Writing failed now or earlier, or the batch exceeds [`Ring::largest_batch_bytes`]; the ring accepts no more.
    Io(io::Error),
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::Full => f.write_str("the journal is full"),
            AppendError::Io(error) => write!(f, "the journal could not be written: {error}"),
        }
    }
}

impl std::error::Error for AppendError {}

/// A batch that no checkpoint has freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) last_seq: Seq,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) checksum: u32,
}

/// The journal of an open volume.
pub struct Ring {
    log: Arc<dyn RandomFile>,
    journal: [u8; 16],
    /// Bytes of the ring, header block included.
    length: u64,
    /// The anchor's batch and all later ones, in order; never empty.
    links: VecDeque<Link>,
    generation: Generation,
    /// The last entry that the index covers.
    covered: Seq,
    /// The encoded batch; kept to reuse its memory.
    encoded: Vec<u8>,
    failed: AtomicBool,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("length", &self.length)
            .field("head", self.head())
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Formats all of `log` as a new journal and returns its anchor. Writes every byte once, so that no later write
    /// allocates space. A crash before this returns leaves no journal; the caller starts again.
    pub fn format(log: &dyn RandomFile, journal: [u8; 16]) -> io::Result<Anchor> {
        let length = usable_length(log)?;
        let zeros = vec![0; PIECE_BYTES];
        let mut position = 0;
        while position < length {
            let piece = zeros.len().min(usize::try_from(length - position).unwrap_or(usize::MAX));
            log.write_at(position, &zeros[..piece])?;
            position += piece as u64;
        }
        log.write_at(0, &RingHeader { journal, length }.encode())?;
        log.sync()?;
        Ok(Anchor { journal, seq: Seq(0), start: BLOCK, position: BLOCK, checksum: 0 })
    }

    /// Opens the journal that belongs to `anchor`: passes every later entry to `apply`, in order; refuses damage;
    /// cuts a torn tail; and makes what survives durable before it returns.
    pub fn recover(
        log: Arc<dyn RandomFile>,
        anchor: &Anchor,
        apply: Apply<'_>,
    ) -> Result<(Ring, Recovered), RecoverError> {
        recovery::recover(log, anchor, apply)
    }

    /// Reads the journal as [`Ring::recover`] does, without changing it: for `check` and `dump`.
    pub fn inspect(
        log: &dyn RandomFile,
        anchor: &Anchor,
        visit: Visit<'_>,
    ) -> Result<Recovered, RecoverError> {
        recovery::inspect(log, anchor, visit)
    }

    /// Returns the ring of a recovered journal.
    pub(super) fn recovered(
        log: Arc<dyn RandomFile>,
        anchor: &Anchor,
        length: u64,
        generation: Generation,
        links: VecDeque<Link>,
    ) -> Ring {
        let (encoded, failed) = (Vec::new(), AtomicBool::new(false));
        let (journal, covered) = (anchor.journal, anchor.seq);
        Ring { log, journal, length, links, generation, covered, encoded, failed }
    }

    /// Writes a batch after the last one, in one write. It is durable only after [`Ring::sync`].
    ///
    /// # Panics
    /// If the batch is empty or does not continue the last one: the caller's state is corrupt.
    pub fn append<E: AsRef<[u8]>>(&mut self, batch: &Batch<'_, E>) -> Result<(), AppendError> {
        let head = *self.head();
        assert!(!batch.entries.is_empty(), "a batch has entries");
        assert_eq!(batch.first_seq.0, head.last_seq.0 + 1, "a batch goes on where the last one ended");
        assert!(batch.durable < batch.first_seq, "what is not written is not durable");
        assert!(batch.generation >= self.generation, "generations only grow");
        self.check_usable().map_err(AppendError::Io)?;
        let payload = format::payload_bytes(batch.entries);
        if payload > self.largest_batch_bytes() {
            let text = format!("a batch of {payload} bytes is too large for the ring");
            return Err(AppendError::Io(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let position = self.place(format::stored_bytes(payload)).ok_or(AppendError::Full)?;
        let mut encoded = std::mem::take(&mut self.encoded);
        let header = BatchHeader {
            journal: self.journal,
            position,
            generation: batch.generation,
            first_seq: batch.first_seq,
            durable: batch.durable,
            time_ceiling: batch.time_ceiling,
            covered: self.covered,
            predecessor: head.checksum,
            count: 0,
            payload_bytes: 0,
            payload_checksum: 0,
            checksum: 0,
        };
        let checksum = format::encode_batch(header, batch.entries, &mut encoded);
        let written = self.log.write_at(position, &encoded);
        let end = position + encoded.len() as u64;
        self.encoded = encoded;
        self.note_failure(written).map_err(AppendError::Io)?;
        self.generation = batch.generation;
        let last_seq = Seq(batch.first_seq.0 + batch.entries.len() as u64 - 1);
        self.links.push_back(Link { last_seq, start: position, end, checksum });
        Ok(())
    }

    /// Makes every appended batch durable. A failure is final: whatever was not durable may be lost, even if a later
    /// sync would succeed.
    pub fn sync(&self) -> io::Result<()> {
        self.check_usable()?;
        self.note_failure(self.log.sync())
    }

    /// Returns the anchor of a checkpoint that covers everything up to `seq`; `None` unless a batch in the ring ends
    /// there.
    pub fn anchor_at(&self, seq: Seq) -> Option<Anchor> {
        let at = self.links.binary_search_by_key(&seq, |link| link.last_seq).ok()?;
        let link = self.links[at];
        Some(Anchor {
            journal: self.journal,
            seq,
            start: link.start,
            position: link.end,
            checksum: link.checksum,
        })
    }

    /// Frees everything before the anchor's batch. The checkpoint that holds the anchor must be durable.
    pub fn trim(&mut self, anchor: &Anchor) {
        self.covered = self.covered.max(anchor.seq);
        // The anchor's batch itself stays. If a new batch overwrote it and a crash tore that batch, a journal with a
        // torn tail could not be distinguished from one that never belonged to the index.
        while self.links.len() > 1 && self.links[0].last_seq < anchor.seq {
            self.links.pop_front();
        }
    }

    /// Returns the bytes from the oldest batch to the end of the newest, including the unused end of the ring.
    pub fn used_bytes(&self) -> u64 {
        let (tail, head) = (self.links[0].start, self.head().end);
        if self.is_wrapped() { self.length - tail + head - BLOCK } else { head - tail }
    }

    /// Returns the bytes that the ring has for batches.
    pub fn capacity_bytes(&self) -> u64 {
        self.length - BLOCK
    }

    /// Returns [`Ring::largest_batch_bytes`] for a log of this length.
    pub fn largest_batch_of(log_bytes: u64) -> u64 {
        largest_stored_bytes((log_bytes / BLOCK * BLOCK).max(BLOCK))
            .saturating_sub(format::HEADER_BYTES as u64)
    }

    /// Returns the largest payload of a batch: the entries and 4 bytes for the length of each. A ring trimmed to its
    /// last batch has room for it, wherever that batch lies.
    pub fn largest_batch_bytes(&self) -> u64 {
        largest_stored_bytes(self.length) - format::HEADER_BYTES as u64
    }

    /// Returns the last entry appended or replayed.
    pub fn last_seq(&self) -> Seq {
        self.head().last_seq
    }

    fn head(&self) -> &Link {
        self.links.back().expect("the anchor's batch is always there")
    }

    /// Whether the newest batch precedes the oldest in the ring.
    fn is_wrapped(&self) -> bool {
        self.head().start < self.links[0].start
    }

    /// Returns the position for a batch of `stored` bytes, if there is room.
    fn place(&self, stored: u64) -> Option<u64> {
        let (tail, head) = (self.links[0].start, self.head().end);
        if self.is_wrapped() {
            return (stored <= tail - head).then_some(head);
        }
        if stored <= self.length - head {
            return Some(head);
        }
        (stored <= tail - BLOCK).then_some(BLOCK)
    }

    fn check_usable(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier write or sync of the journal failed"));
        }
        Ok(())
    }

    fn note_failure<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }
}

/// Returns the length of the ring in `log`: whole blocks.
pub(super) fn usable_length(log: &dyn RandomFile) -> io::Result<u64> {
    let length = log.len()? / BLOCK * BLOCK;
    if length < RING_BYTES_MIN {
        let text = format!("a journal of {length} bytes is too small; it needs at least {RING_BYTES_MIN}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(length)
}

/// Returns the largest stored batch in a ring of `length` bytes. With only the anchor's batch kept, which is no
/// larger, the free space is at most two ranges, so one of them holds a third of the ring.
pub(super) fn largest_stored_bytes(length: u64) -> u64 {
    ((length - BLOCK) / 3 / BLOCK * BLOCK).min(BATCH_BYTES_MAX)
}

/// Zeroes the block at `position`.
pub(super) fn erase_block(log: &dyn RandomFile, position: u64) -> io::Result<()> {
    log.write_at(position, &vec![0; block_usize()])
}

#[cfg(test)]
mod tests;
