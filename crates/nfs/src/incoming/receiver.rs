//! Assembles the records of a connection. The payload of a large WRITE is received into the memory where it stays, as soon as
//! the header before it has arrived; fragmented and small records, and all other calls, are assembled whole.

use std::io::IoSliceMut;

use wire::record::{RecordError, RecordReader};

use super::payload::{ArrivingPayload, ReceivedPayload};
use crate::limits::{CALL_START_BYTES_MAX, PAYLOAD_BYTES_MIN};

/// The records of a connection, of which at most one is under way.
#[derive(Debug)]
pub struct Receiver {
    reader: RecordReader,
    /// The payload of the record that is under way.
    payload: Option<ArrivingPayload>,
    /// That record has no payload to be received apart.
    is_plain: bool,
}

/// A record that has arrived, without its mark.
#[derive(Debug)]
pub struct Arrived<'r> {
    /// The record without its payload, if that lies elsewhere.
    pub bytes: &'r [u8],
    /// That payload.
    pub payload: Option<ReceivedPayload>,
}

impl Receiver {
    /// Returns a receiver for records of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Receiver {
        Receiver { reader: RecordReader::new(limit), payload: None, is_plain: false }
    }

    /// Consumes `input` until a record is complete. `None` means that all of `input` was consumed and more is needed.
    ///
    /// `arriving` is called with the start of a large record and the length of the whole. It returns where to receive the
    /// payload, if there is one and its place is in this start: see [`crate::service::Service::arriving`].
    ///
    /// # Errors
    /// See [`RecordError`]. The stream cannot be read after an error.
    #[inline]
    pub fn next<'r, 'i: 'r>(
        &'r mut self,
        input: &mut &'i [u8],
        arriving: impl FnOnce(&[u8], usize) -> Option<ArrivingPayload>,
    ) -> Result<Option<Arrived<'r>>, RecordError> {
        self.reader.begin(input)?;
        if let Some(length) = self.reader.whole_length()
            && length >= PAYLOAD_BYTES_MIN
            && !self.is_payload_past(length, input, arriving)
        {
            return Ok(None);
        }
        let Some(bytes) = self.reader.next(input)? else { return Ok(None) };
        self.is_plain = false;
        Ok(Some(Arrived { bytes, payload: self.payload.take().map(ReceivedPayload::from) }))
    }

    /// Receives what `input` has of a payload. Returns whether the rest of the record is for its reader.
    #[cold]
    fn is_payload_past(
        &mut self,
        length: usize,
        input: &mut &[u8],
        arriving: impl FnOnce(&[u8], usize) -> Option<ArrivingPayload>,
    ) -> bool {
        if self.is_undecided() && input.len() < self.reader.missing() {
            self.look(length, input, arriving);
        }
        let Some(payload) = &mut self.payload else { return true };
        let (bytes, rest) = input.split_at_checked(payload.data.missing()).unwrap_or((input, &[]));
        payload.data.take(bytes);
        self.reader.passed(bytes.len());
        *input = rest;
        payload.data.missing() == 0
    }

    /// Looks for a payload in what has arrived of a record.
    fn look(
        &mut self,
        length: usize,
        input: &mut &[u8],
        arriving: impl FnOnce(&[u8], usize) -> Option<ArrivingPayload>,
    ) {
        let start = self.reader.take_start(input, CALL_START_BYTES_MAX);
        let Some(mut payload) = arriving(start, length) else {
            self.is_plain = start.len() >= CALL_START_BYTES_MAX;
            return;
        };
        let bytes = payload.data.missing();
        payload.data.take(start.get(payload.at..).unwrap_or_default());
        self.reader.cut_out(payload.at, bytes);
        self.payload = Some(payload);
    }

    /// Returns memory to receive a part of a large record in place, at most about `max` bytes; empty if too little is missing, or
    /// if the start of the record has yet to say where it belongs. [`Receiver::received`] must follow.
    pub fn spaces(&mut self, max: usize) -> Vec<IoSliceMut<'_>> {
        if !self.has_spaces() {
            return Vec::new();
        }
        if let Some(payload) = &mut self.payload {
            return payload.data.spaces(max);
        }
        let space = self.reader.space();
        let length = space.len().min(max);
        space.get_mut(..length).map(IoSliceMut::new).into_iter().collect()
    }

    /// Records that `bytes` were received into [`Receiver::spaces`].
    ///
    /// # Panics
    /// If they exceed it.
    pub fn received(&mut self, bytes: usize) {
        match &mut self.payload {
            Some(payload) if payload.data.missing() > 0 => {
                payload.data.received(bytes);
                self.reader.passed(bytes);
            }
            _ => self.reader.received(bytes),
        }
    }

    /// Whether memory for the missing bytes is at hand, see [`Receiver::spaces`].
    #[must_use]
    pub fn has_spaces(&self) -> bool {
        self.missing_payload() > 0 || (self.reader.has_space() && !self.is_undecided())
    }

    /// Whether a record has begun that may have a payload to be received apart, so that a short read suffices.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        let length = self.reader.whole_length().unwrap_or(0);
        length >= PAYLOAD_BYTES_MIN && self.payload.is_none() && !self.is_plain
    }

    /// Returns the missing bytes of a payload that is received apart.
    #[must_use]
    pub fn missing_payload(&self) -> usize {
        self.payload.as_ref().map_or(0, |payload| payload.data.missing())
    }

    /// See [`RecordReader::missing`].
    #[must_use]
    pub fn missing(&self) -> usize {
        self.reader.missing()
    }

    /// See [`RecordReader::has_completed`].
    #[must_use]
    pub fn has_completed(&self) -> bool {
        self.reader.has_completed()
    }

    /// See [`RecordReader::is_between_records`].
    #[must_use]
    pub fn is_between_records(&self) -> bool {
        self.reader.is_between_records()
    }

    /// See [`RecordReader::record_bytes_max`].
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.reader.record_bytes_max()
    }

    /// Returns its memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.reader.capacity() + self.payload.as_ref().map_or(0, |payload| payload.data.memory_bytes())
    }

    /// See [`RecordReader::release`].
    pub fn release(&mut self) {
        self.reader.release();
    }
}
