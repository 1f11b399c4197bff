//! Record marking (RFC 5531 section 11): on a stream, each fragment of a record follows four bytes that hold its
//! length and, in the top bit, whether it is the last one of its record.
//!
//! Two ways to read: [`peek`] looks at a buffer that the caller fills and never copies; [`RecordReader`] is fed
//! pieces of any size and copies only what arrives in pieces. Both refuse a record over its limit as soon as a
//! record mark announces it, before a byte is allocated for it.

use std::fmt;

use crate::limits::{EMPTY_FRAGMENTS_MAX, FRAGMENTS_MAX};
use crate::xdr::{Encoder, length_u32};

#[cfg(test)]
mod tests;

/// The bytes of a record mark.
pub const MARK_BYTES: usize = 4;

const LAST_FRAGMENT: u32 = 1 << 31;

/// The least that is received into the place where it stays, bytes: less comes along with other records in one system call.
const SPACE_BYTES_MIN: usize = 64 << 10;

/// Why a stream cannot be read any further. The connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// A record mark makes the record longer than its limit.
    TooLong {
        /// What the record would measure at least, in bytes.
        length: u64,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The record has too many fragments, or too many empty ones.
    TooManyFragments,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { length, limit } => {
                write!(f, "a record of {length} bytes is over the limit of {limit}")
            }
            Self::TooManyFragments => write!(f, "a record comes in too many fragments"),
        }
    }
}

impl std::error::Error for RecordError {}

#[derive(Clone, Copy, Debug)]
struct Mark {
    length: u32,
    last: bool,
}

impl Mark {
    fn from_bytes(bytes: [u8; MARK_BYTES]) -> Self {
        let word = u32::from_be_bytes(bytes);
        Self { length: word & !LAST_FRAGMENT, last: word & LAST_FRAGMENT != 0 }
    }

    /// The length, if a record that has `before` bytes already may have that many more.
    fn length_within(self, before: usize, limit: usize) -> Result<usize, RecordError> {
        let too_long =
            RecordError::TooLong { length: u64::from(self.length).saturating_add(before as u64), limit };
        let length = usize::try_from(self.length).map_err(|_| too_long)?;
        if length > limit.saturating_sub(before) { Err(too_long) } else { Ok(length) }
    }
}

/// What stands at the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'a> {
    /// A record in one fragment, the usual case. The next one starts `used` bytes further on.
    Complete {
        /// The record without its mark.
        record: &'a [u8],
        /// The record with its mark, in bytes.
        used: usize,
    },
    /// The front of such a record; the buffer needs to hold `needed` bytes in all before it is worth looking again.
    Incomplete {
        /// In bytes, the mark included.
        needed: usize,
    },
    /// A record in several fragments: a [`RecordReader`] has to put it together, from the front of this buffer.
    Fragmented,
}

/// Looks at the front of a buffer, for a record of at most `limit` bytes.
///
/// # Errors
/// [`RecordError::TooLong`].
pub fn peek(buffer: &[u8], limit: usize) -> Result<Peek<'_>, RecordError> {
    let Some((mark, rest)) = buffer.split_first_chunk() else {
        return Ok(Peek::Incomplete { needed: MARK_BYTES });
    };
    let mark = Mark::from_bytes(*mark);
    let length = mark.length_within(0, limit)?;
    if !mark.last {
        return Ok(Peek::Fragmented);
    }
    let used = MARK_BYTES + length;
    Ok(match rest.get(..length) {
        Some(record) => Peek::Complete { record, used },
        None => Peek::Incomplete { needed: used },
    })
}

/// Puts records together from a stream that arrives in pieces of any size.
///
/// Between calls it holds the front of at most one record; the buffer it uses for that grows with what has
/// arrived, not with what was announced, and never past the limit for records.
#[derive(Debug)]
pub struct RecordReader {
    limit: usize,
    /// The bytes of a record mark that was split by the end of a piece.
    mark: [u8; MARK_BYTES],
    mark_bytes: usize,
    /// Its first `filled` bytes are the fragments, whole or not, of the record that is being put together; the rest is
    /// memory for more.
    record: Vec<u8>,
    filled: usize,
    /// What is still missing of the fragment that was begun.
    fragment: Option<Fragment>,
    fragments: u32,
    empty_fragments: u32,
    /// `record` was handed out by the call before and is to be forgotten.
    yielded: bool,
}

#[derive(Clone, Copy, Debug)]
struct Fragment {
    missing: usize,
    last: bool,
}

impl RecordReader {
    /// Reads records of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            mark: [0; MARK_BYTES],
            mark_bytes: 0,
            record: Vec::new(),
            filled: 0,
            fragment: None,
            fragments: 0,
            empty_fragments: 0,
            yielded: false,
        }
    }

    /// Takes bytes from the front of `input` until a record is complete. `None` means that all of `input` was
    /// taken and more is needed.
    ///
    /// A record in one fragment that is whole in `input` is handed out from there, without a copy.
    ///
    /// # Errors
    /// See [`RecordError`]; the stream is lost, and every call after it reads nonsense.
    pub fn next<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Option<&'r [u8]>, RecordError> {
        if self.yielded {
            self.begin_record();
        }
        loop {
            let Some(fragment) = self.fragment else {
                if !self.begin_fragment(input)? {
                    return Ok(None);
                }
                continue;
            };
            if fragment.last
                && self.filled == 0
                && let Some((record, rest)) = input.split_at_checked(fragment.missing)
            {
                *input = rest;
                self.begin_record();
                return Ok(Some(record));
            }
            let missing = self.take(fragment, input);
            if missing > 0 {
                self.fragment = Some(Fragment { missing, ..fragment });
                return Ok(None);
            }
            self.fragment = None;
            if fragment.last {
                self.yielded = true;
                return Ok(self.record.get(..self.filled));
            }
        }
    }

    /// Whether the stream may end here without cutting a record.
    #[must_use]
    pub fn is_between_records(&self) -> bool {
        self.yielded || (self.mark_bytes == 0 && self.fragments == 0)
    }

    /// Bytes that the fragment that was begun is missing; zero between fragments.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.fragment.map_or(0, |fragment| fragment.missing)
    }

    /// Memory for a part of what the fragment that was begun is missing, to receive into without a copy; empty where that is
    /// not worth it. [`RecordReader::received`] says how much came.
    pub fn space(&mut self) -> &mut [u8] {
        let missing = self.missing();
        if missing < SPACE_BYTES_MIN {
            return &mut [];
        }
        if self.filled == self.record.len() {
            self.grow(self.filled);
        }
        let end = self.record.len().min(self.filled + missing);
        self.record.get_mut(self.filled..end).unwrap_or_default()
    }

    /// Notes that so many bytes were put into [`RecordReader::space`].
    ///
    /// # Panics
    /// If they do not fit there.
    pub fn received(&mut self, bytes: usize) {
        let fragment = self.fragment.as_mut().filter(|fragment| bytes <= fragment.missing);
        fragment.expect("there is space only within a fragment").missing -= bytes;
        self.filled += bytes;
        assert!(self.filled <= self.record.len(), "what was received is in the buffer");
    }

    /// Whether [`RecordReader::next`] goes on without input: a fragment was completed by [`RecordReader::received`].
    #[must_use]
    pub fn has_completed(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.missing == 0)
    }

    /// The memory that is held, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.record.capacity()
    }

    /// Gives back memory that holds no part of a record, for a connection that has become idle.
    pub fn release(&mut self) {
        if self.yielded {
            self.begin_record();
        }
        self.record.truncate(self.filled);
        self.record.shrink_to_fit();
    }

    fn begin_record(&mut self) {
        self.filled = 0;
        self.fragment = None;
        self.fragments = 0;
        self.empty_fragments = 0;
        self.yielded = false;
    }

    /// Reads a record mark; says whether it was complete.
    fn begin_fragment(&mut self, input: &mut &[u8]) -> Result<bool, RecordError> {
        for slot in self.mark.iter_mut().skip(self.mark_bytes) {
            let Some((byte, rest)) = input.split_first() else { return Ok(false) };
            *slot = *byte;
            *input = rest;
            self.mark_bytes += 1;
        }
        self.mark_bytes = 0;
        let mark = Mark::from_bytes(self.mark);
        let missing = mark.length_within(self.filled, self.limit)?;
        self.fragments += 1;
        self.empty_fragments += u32::from(missing == 0);
        if self.fragments > FRAGMENTS_MAX || self.empty_fragments > EMPTY_FRAGMENTS_MAX {
            return Err(RecordError::TooManyFragments);
        }
        self.fragment = Some(Fragment { missing, last: mark.last });
        Ok(true)
    }

    /// Copies what `input` has of a fragment; returns what is still missing.
    fn take(&mut self, fragment: Fragment, input: &mut &[u8]) -> usize {
        let (bytes, rest) = input.split_at_checked(fragment.missing).unwrap_or((input, &[]));
        let length = self.filled + bytes.len();
        if length > self.record.len() {
            self.grow(length);
        }
        self.record.get_mut(self.filled..length).expect("it was grown to this length").copy_from_slice(bytes);
        self.filled = length;
        *input = rest;
        fragment.missing - bytes.len()
    }

    /// Makes room for more than `length` bytes, if the limit allows more.
    fn grow(&mut self, length: usize) {
        // Twice what has arrived keeps the copies few; the limit keeps the last step from overshooting.
        let capacity = length.saturating_mul(2).min(self.limit);
        self.record.reserve_exact(capacity - self.record.len());
        self.record.resize(capacity, 0);
    }
}

/// A record being written into a buffer: the place of its mark.
#[derive(Debug)]
#[must_use = "the record has no length until it is sealed"]
pub struct OpenRecord {
    start: usize,
}

impl OpenRecord {
    /// Leaves room for a mark at the end of `out`; the record is what is appended from now on.
    pub fn begin(out: &mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; MARK_BYTES]);
        Self { start }
    }

    /// Ends the record: writes its mark, as one fragment.
    ///
    /// # Panics
    /// If the record is of 2 GiB or more, or `out` was cut below its start.
    pub fn seal(self, out: &mut Vec<u8>) {
        self.seal_with(out, 0);
    }

    /// The same for a record of which the last `more` bytes are not in `out` but leave right behind it.
    ///
    /// # Panics
    /// As [`OpenRecord::seal`].
    pub fn seal_with(self, out: &mut Vec<u8>, more: usize) {
        let length = out
            .len()
            .checked_sub(self.start + MARK_BYTES)
            .map(|length| length + more)
            .map(length_u32)
            .filter(|length| *length < LAST_FRAGMENT)
            .expect("a record that is written is within the limit for records");
        Encoder::new(out).patch(self.start, &(length | LAST_FRAGMENT).to_be_bytes());
    }

    /// Gives the record up: `out` is again what it was before.
    pub fn abandon(self, out: &mut Vec<u8>) {
        out.truncate(self.start);
    }
}

/// Appends one whole record that `write` writes.
pub fn write_record(out: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_>)) {
    let record = OpenRecord::begin(out);
    write(&mut Encoder::new(out));
    record.seal(out);
}
