//! Record marking (RFC 5531 section 11): four bytes precede each fragment of a record and hold its length and, in the top
//! bit, whether it is the last fragment.
//!
//! There are two ways to read: [`peek`] examines a buffer of the caller and never copies; [`RecordReader`] takes input of
//! any size and copies only records that arrive in parts. Both refuse a record over the limit at its mark, before any
//! allocation.

use std::fmt;

use crate::limits::{EMPTY_FRAGMENTS_MAX, FRAGMENTS_MAX};
use crate::xdr::{Encoder, length_u32};

#[cfg(test)]
mod tests;

/// The size of a record mark in bytes.
pub const MARK_BYTES: usize = 4;

const LAST_FRAGMENT: u32 = 1 << 31;

/// The fewest missing bytes that are received in place. Smaller rests arrive in one system call with other records.
const SPACE_BYTES_MIN: usize = 64 << 10;

/// An error of the stream, after which the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// A mark makes the record longer than its limit.
    TooLong {
        /// The minimum length of the record in bytes.
        length: u64,
        /// The limit in bytes.
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
            Self::TooManyFragments => write!(f, "a record has too many fragments"),
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

    /// Returns the length if a record of `before` bytes can grow by it.
    fn length_within(self, before: usize, limit: usize) -> Result<usize, RecordError> {
        let too_long =
            RecordError::TooLong { length: u64::from(self.length).saturating_add(before as u64), limit };
        let length = usize::try_from(self.length).map_err(|_| too_long)?;
        if length > limit.saturating_sub(before) { Err(too_long) } else { Ok(length) }
    }
}

/// The record at the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'a> {
    /// A complete record in one fragment, the usual case. The next record starts `used` bytes later.
    Complete {
        /// The record without its mark.
        record: &'a [u8],
        /// The length of the record with its mark, in bytes.
        used: usize,
    },
    /// The start of such a record, which is complete when the buffer holds `needed` bytes.
    Incomplete {
        /// The number of bytes with the mark.
        needed: usize,
    },
    /// A record in several fragments, which a [`RecordReader`] must assemble from the start of the buffer.
    Fragmented,
}

/// Examines the start of a buffer for a record of at most `limit` bytes.
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

/// Assembles records from a stream that arrives in parts of any size.
///
/// Between calls it holds the start of at most one record. Its buffer grows with the received bytes, not with the announced
/// ones, and never beyond the limit for records.
#[derive(Debug)]
pub struct RecordReader {
    limit: usize,
    /// The bytes of an incomplete record mark.
    mark: [u8; MARK_BYTES],
    mark_bytes: usize,
    /// The first `filled` bytes are the received part of the current record. The rest is spare memory.
    record: Vec<u8>,
    filled: usize,
    /// The missing part of the current fragment.
    fragment: Option<Fragment>,
    fragments: u32,
    empty_fragments: u32,
    /// The part of the record that the caller receives elsewhere.
    cut: Option<Cut>,
    /// The previous call returned `record`, which can be overwritten.
    yielded: bool,
}

/// A part of a record that goes past its reader.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Its length in bytes.
    length: usize,
    /// Those that have not arrived.
    missing: usize,
}

#[derive(Clone, Copy, Debug)]
struct Fragment {
    missing: usize,
    last: bool,
}

impl RecordReader {
    /// Returns a reader for records of at most `limit` bytes.
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
            cut: None,
            yielded: false,
        }
    }

    /// Consumes `input` until a record is complete. `None` means that all of `input` was consumed and more is needed.
    ///
    /// A record in one fragment that `input` holds completely is returned from there without a copy.
    ///
    /// # Errors
    /// See [`RecordError`]. The stream cannot be read after an error.
    ///
    /// # Panics
    /// If a part that was cut out has not passed.
    pub fn next<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Option<&'r [u8]>, RecordError> {
        if self.yielded {
            self.begin_record();
        }
        assert!(self.cut.is_none_or(|cut| cut.missing == 0), "the caller receives what was cut out");
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

    /// Reads the mark of the next record, unless a record has begun.
    ///
    /// # Errors
    /// Those of [`RecordReader::next`].
    pub fn begin(&mut self, input: &mut &[u8]) -> Result<(), RecordError> {
        if self.yielded {
            self.begin_record();
        }
        if self.fragments == 0 {
            self.begin_fragment(input)?;
        }
        Ok(())
    }

    /// Returns the length in bytes of a record that has begun and comes in one fragment.
    #[must_use]
    pub fn whole_length(&self) -> Option<usize> {
        let whole = self.fragment.filter(|fragment| fragment.last && self.fragments == 1);
        whole.map(|_| self.record_bytes_max())
    }

    /// Copies from `input` until `bytes` of the fragment have arrived, or all of `input`. Returns what has arrived of the record.
    pub fn take_start(&mut self, input: &mut &[u8], bytes: usize) -> &[u8] {
        if let Some(fragment) = self.fragment {
            let wanted = bytes.saturating_sub(self.filled).min(input.len());
            let mut start = input.get(..wanted).unwrap_or_default();
            let missing = self.take(fragment, &mut start);
            *input = input.get(wanted - start.len()..).unwrap_or_default();
            self.fragment = Some(Fragment { missing, ..fragment });
        }
        self.record.get(..self.filled).unwrap_or_default()
    }

    /// Cuts `length` bytes out of a record in one fragment, behind its first `at`. What has arrived of them is dropped; the
    /// caller receives the rest and reports it ([`RecordReader::passed`]). The record is complete without them.
    ///
    /// # Panics
    /// If they are not a part of the record, or not all before them has arrived.
    pub fn cut_out(&mut self, at: usize, length: usize) {
        let arrived = self.filled.checked_sub(at).expect("the record has arrived as far as what is cut out");
        let missing = length.checked_sub(arrived).filter(|missing| *missing <= self.missing());
        let missing = missing.expect("what is cut out ends within the record");
        self.cut = Some(Cut { length, missing });
        self.filled = at;
    }

    /// Records that `bytes` of what was cut out have arrived.
    ///
    /// # Panics
    /// If fewer were missing.
    pub fn passed(&mut self, bytes: usize) {
        let cut = self.cut.as_mut().filter(|cut| bytes <= cut.missing);
        cut.expect("no more passes than was cut out").missing -= bytes;
        self.fragment.as_mut().expect("what is cut out is a part of a fragment").missing -= bytes;
    }

    /// Whether the stream is at the end of a record.
    #[must_use]
    pub fn is_between_records(&self) -> bool {
        self.yielded || (self.mark_bytes == 0 && self.fragments == 0)
    }

    /// Returns the missing bytes of the current fragment; zero between fragments.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.fragment.map_or(0, |fragment| fragment.missing)
    }

    /// Returns the length in bytes of the record that has begun, once it is complete: the limit while only some of its
    /// fragments are known, and zero between records and before the first mark is complete.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        let passed = self.cut.map_or(0, |cut| cut.length - cut.missing);
        match self.fragment {
            _ if self.yielded || self.fragments == 0 => 0,
            Some(fragment) if fragment.last => self.filled + passed + fragment.missing,
            _ => self.limit,
        }
    }

    /// Whether so many bytes of the current fragment are missing that they are received in place.
    #[must_use]
    pub fn has_space(&self) -> bool {
        self.missing() >= SPACE_BYTES_MIN && self.cut.is_none()
    }

    /// Returns memory to receive the missing bytes of the current fragment in place; empty if too few are missing.
    /// [`RecordReader::received`] must follow.
    pub fn space(&mut self) -> &mut [u8] {
        if !self.has_space() {
            return &mut [];
        }
        let missing = self.missing();
        if self.filled == self.record.len() {
            self.grow(self.filled);
        }
        let end = self.record.len().min(self.filled + missing);
        self.record.get_mut(self.filled..end).unwrap_or_default()
    }

    /// Records that `bytes` were received into [`RecordReader::space`].
    ///
    /// # Panics
    /// If they exceed it.
    pub fn received(&mut self, bytes: usize) {
        let fragment = self.fragment.as_mut().filter(|fragment| bytes <= fragment.missing);
        fragment.expect("there is space only within a fragment").missing -= bytes;
        self.filled += bytes;
        assert!(self.filled <= self.record.len(), "what was received is in the buffer");
    }

    /// Whether [`RecordReader::received`] completed a fragment, so that [`RecordReader::next`] needs no input.
    #[must_use]
    pub fn has_completed(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.missing == 0)
    }

    /// Returns the memory of the reader in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.record.capacity()
    }

    /// Frees memory that holds no part of a record, for an idle connection.
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
        self.cut = None;
        self.yielded = false;
    }

    /// Reads a record mark. Returns whether it was complete.
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

    /// Copies the fragment's bytes in `input`; returns the number still missing.
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
        // Doubling keeps copies few; the limit bounds the last step.
        let capacity = length.saturating_mul(2).min(self.limit);
        self.record.reserve_exact(capacity - self.record.len());
        self.record.resize(capacity, 0);
    }
}

/// A record under construction in a buffer.
#[derive(Debug)]
#[must_use = "the record has no length until it is sealed"]
pub struct OpenRecord {
    start: usize,
}

impl OpenRecord {
    /// Appends room for a mark to `out`. All bytes appended later belong to the record.
    pub fn begin(out: &mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; MARK_BYTES]);
        Self { start }
    }

    /// Ends the record: writes its mark, as one fragment.
    ///
    /// # Panics
    /// If the record has 2 GiB or more, or `out` was truncated below its start.
    pub fn seal(self, out: &mut Vec<u8>) {
        self.seal_with(out, 0);
    }

    /// The same for a record whose last `more` bytes are not in `out` but are sent right after it.
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

    /// Removes the record from `out`.
    pub fn abandon(self, out: &mut Vec<u8>) {
        out.truncate(self.start);
    }
}

/// Appends a record that `write` encodes.
pub fn write_record(out: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_>)) {
    let record = OpenRecord::begin(out);
    write(&mut Encoder::new(out));
    record.seal(out);
}
