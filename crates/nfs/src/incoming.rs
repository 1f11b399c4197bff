//! Records that arrive by a connection, with their RPC headers decoded once, and the replies to them.
//!
//! The payload of a large WRITE need not be a part of its record: it may have been received into the memory where it stays
//! ([`Receiver`]). The record is then decoded around it.

use volume::bytes::Slice;
use volume::request::Access;
use wire::rpc::{CallError, CallHeader, decode_call, decode_call_in};
use wire::xdr::Decoder;

use crate::clocks::ClockReading;
use crate::connection::Connection;

mod payload;
mod receiver;

pub(crate) use payload::place_of;
pub use payload::{ArrivingPayload, ReceivedPayload};
pub use receiver::{Arrived, Receiver};

/// A record whose RPC header is decoded; it need not be a call. The mark is not part of it.
#[derive(Debug)]
pub struct IncomingRecord<'r> {
    bytes: &'r [u8],
    payload: Option<&'r ReceivedPayload>,
    /// The header and the arguments of a call. Kept as they were decoded, since copying them costs as much as decoding.
    call: Result<(CallHeader<'r>, Decoder<'r>), CallError>,
}

impl<'r> IncomingRecord<'r> {
    /// Decodes the header.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &'r [u8]) -> IncomingRecord<'r> {
        IncomingRecord { bytes, payload: None, call: decode_call(bytes) }
    }

    /// Decodes the header of a record whose payload, if any, is not among its `bytes`.
    #[inline]
    #[must_use]
    pub fn decode_around(bytes: &'r [u8], payload: Option<&'r ReceivedPayload>) -> IncomingRecord<'r> {
        match payload {
            None => IncomingRecord::decode(bytes),
            Some(received) => {
                let call = decode_call_in(Decoder::around(bytes, received.at, received.data.len()));
                IncomingRecord { bytes, payload, call }
            }
        }
    }

    /// Returns the record without its payload, if that lies elsewhere.
    #[must_use]
    pub fn bytes(&self) -> &'r [u8] {
        self.bytes
    }

    /// Returns the payload that lies elsewhere.
    #[must_use]
    pub fn payload(&self) -> Option<&'r ReceivedPayload> {
        self.payload
    }

    /// Returns the length of the whole record, bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes.len() + self.payload.map_or(0, |payload| payload.data.len())
    }

    /// Returns the header and the arguments of a call.
    ///
    /// # Errors
    /// Why the record is not a call.
    #[inline]
    pub fn call(&self) -> Result<(&CallHeader<'r>, &Decoder<'r>), CallError> {
        match &self.call {
            Ok((header, arguments)) => Ok((header, arguments)),
            Err(error) => Err(*error),
        }
    }

    /// Returns what identifies the procedure and the reply of a call.
    #[must_use]
    pub fn id(&self) -> Option<CallId> {
        let (header, _) = self.call().ok()?;
        let CallHeader { xid, program, version, procedure, .. } = *header;
        Some(CallId { xid, program, version, procedure })
    }

    /// Returns a copy of the record, for a call that cannot be answered at once.
    #[must_use]
    pub fn to_kept(&self) -> KeptRecord {
        KeptRecord { bytes: self.bytes.to_vec(), payload: self.payload.cloned() }
    }
}

/// A record that is kept until its call can be answered.
#[derive(Clone, Debug)]
pub struct KeptRecord {
    bytes: Vec<u8>,
    payload: Option<ReceivedPayload>,
}

impl KeptRecord {
    /// Decodes the header again.
    #[must_use]
    pub fn decode(&self) -> IncomingRecord<'_> {
        IncomingRecord::decode_around(&self.bytes, self.payload.as_ref())
    }

    /// Returns its memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.payload.as_ref().map_or(0, |payload| payload.data.len())
    }
}

/// The transaction id of a call, and the procedure it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId {
    /// The reply has the same.
    pub xid: u32,
    /// The RPC program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure of the program.
    pub procedure: u32,
}

/// How much a COPY may copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyTerms {
    /// As much as it wants: no rate limit counts what it writes.
    Free,
    /// Before its reply, no more than it was charged for. What is copied after it is charged part by part.
    Charged,
    /// No more than it was charged for at all: limits of a target count it, and what is copied after a reply passes no target.
    ChargedByTarget,
}

/// A record and the circumstances under which it is executed.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'r> {
    /// The record.
    pub record: &'r IncomingRecord<'r>,
    /// The connection it came by.
    pub connection: Connection,
    /// What the clocks show.
    pub now: ClockReading,
    /// Whether media may be read.
    pub access: Access,
    /// How much a COPY may copy.
    pub copy_terms: CopyTerms,
}

/// A buffer for replies: bytes, and file data that is sent directly after them without being copied.
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    /// Replies with their record marks; earlier ones may precede.
    pub bytes: Vec<u8>,
    /// Data that ends the last reply.
    pub tail: Vec<Slice>,
}

impl ReplyBuffer {
    /// Returns the length of the tail.
    #[must_use]
    pub fn tail_bytes(&self) -> usize {
        self.tail.iter().map(|slice| slice.len()).sum()
    }

    /// Appends the tail to the bytes, and returns them.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.tail.iter().for_each(|slice| self.bytes.extend_from_slice(slice));
        self.bytes
    }
}
