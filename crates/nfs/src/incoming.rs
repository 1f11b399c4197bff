//! Records that arrive by a connection, with their RPC headers decoded once, and the replies to them.

use volume::bytes::Slice;
use volume::request::Access;
use volume::time::Time;
use wire::rpc::{CallError, CallHeader, decode_call};
use wire::xdr::Decoder;

use crate::connection::Connection;

/// A record whose RPC header is decoded; it need not be a call. The mark is not part of it.
#[derive(Debug)]
pub struct IncomingRecord<'r> {
    bytes: &'r [u8],
    /// The header and the arguments of a call. Kept as they were decoded, since copying them costs as much as decoding.
    call: Result<(CallHeader<'r>, Decoder<'r>), CallError>,
}

impl<'r> IncomingRecord<'r> {
    /// Decodes the header.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &'r [u8]) -> IncomingRecord<'r> {
        IncomingRecord { bytes, call: decode_call(bytes) }
    }

    /// Returns the whole record.
    #[must_use]
    pub fn bytes(&self) -> &'r [u8] {
        self.bytes
    }

    /// Returns the header and the arguments of a call.
    ///
    /// # Errors
    /// Why the record is not a call.
    #[inline]
    pub fn call(&self) -> Result<(&CallHeader<'r>, &'r [u8]), CallError> {
        match &self.call {
            Ok((header, arguments)) => Ok((header, arguments.rest())),
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

/// A record and the circumstances under which it is executed.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'r> {
    /// The record.
    pub record: &'r IncomingRecord<'r>,
    /// The connection it came by.
    pub connection: Connection,
    /// The wall clock.
    pub now: Time,
    /// Whether media may be read.
    pub access: Access,
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
