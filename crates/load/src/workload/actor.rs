//! The state machine of a virtual thread: it chooses the next call and interprets replies.

use std::fmt;

use wire::nfs3::{NfsStat3, Procedure};
use wire::xdr::{Decode, DecodeError, Decoder};

use crate::client::outbox::Outbox;

/// A virtual thread. It has one lane per operation in flight; a stage begins on all lanes.
pub(crate) trait Actor: Send {
    /// Enters a stage. No operation is in flight.
    fn enter(&mut self, stage: usize);

    /// Begins the next operation on a free lane: sends its first calls.
    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun;

    /// Handles a reply to a call of the lane's operation. May send more calls; the operation ends when none is in
    /// flight. Returns the bytes of file data that the call moved.
    fn reply(
        &mut self,
        lane: usize,
        part: u32,
        reply: &Reply<'_>,
        out: &mut Outbox<'_>,
    ) -> Result<u64, Cause>;

    /// Ends the operation. Returns how it counts if it succeeded.
    fn ended(&mut self, lane: usize, succeeded: bool) -> OperationCount;
}

/// The outcome of [`Actor::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// An operation began.
    Started,
    /// Another operation of this thread has to end first.
    Wait,
    /// The stage has no more operations.
    Exhausted,
}

/// How an operation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationCount {
    /// The number of operations; 0 for auxiliary work such as a COMMIT after a pass.
    pub(crate) operations: u64,
    /// The phase that the operation belongs to.
    pub(crate) phase: Option<u8>,
}

impl OperationCount {
    /// One operation of a workload without phases.
    pub(crate) const ONE: Self = Self { operations: 1, phase: None };
}

/// The results of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'r> {
    /// The kept prefix of the results.
    pub(crate) results: &'r [u8],
    /// The number of dropped bytes.
    pub(crate) cut: usize,
}

impl<'r> Reply<'r> {
    /// Decodes the results of any procedure except READ.
    #[inline]
    pub(crate) fn decode<T: Decode<'r>>(&self, procedure: Procedure) -> Result<T, Cause> {
        if self.cut > 0 {
            return Err(Cause::Malformed(procedure, DecodeError::Trailing(self.cut)));
        }
        wire::xdr::decode_all(self.results).map_err(|error| Cause::Malformed(procedure, error))
    }

    /// Decodes the results of READ, whose data may have been dropped.
    #[inline]
    pub(crate) fn read(&self) -> Result<ReadHead<'r>, Cause> {
        let mut input = Decoder::new(self.results);
        ReadHead::decode(&mut input, self.cut).map_err(|error| Cause::Malformed(Procedure::Read, error))?
    }
}

/// The results of READ, with the kept prefix of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadHead<'r> {
    pub(crate) count: u32,
    pub(crate) eof: bool,
    /// The prefix of the data, and padding.
    pub(crate) data: &'r [u8],
}

impl<'r> ReadHead<'r> {
    fn decode(input: &mut Decoder<'r>, cut: usize) -> Result<Result<Self, Cause>, DecodeError> {
        let status = NfsStat3::decode(input)?;
        if input.bool()? {
            input.array::<{ wire::nfs3::Fattr3::BYTES }>()?;
        }
        if status != NfsStat3::Ok {
            return Ok(Err(Cause::Status(Procedure::Read, status)));
        }
        let (count, eof, length) = (input.u32()?, input.bool()?, input.length(wire::limits::DATA_BYTES_MAX)?);
        let there = input.rest().len() + cut;
        if length != count as usize || there != length + wire::xdr::padding(length) {
            return Ok(Err(Cause::Wrong("READ: count, length of the data and length of the reply differ")));
        }
        Ok(Ok(Self { count, eof, data: input.rest() }))
    }
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The server returned this status.
    Status(Procedure, NfsStat3),
    /// The server did not execute the procedure.
    Rpc(String),
    /// The results cannot be decoded.
    Malformed(Procedure, DecodeError),
    /// The results are well-formed but wrong.
    Wrong(&'static str),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(procedure, status) => write!(f, "{}: {status}", procedure.name()),
            Self::Rpc(words) => f.write_str(words),
            Self::Malformed(procedure, error) => write!(f, "reply to {}: {error}", procedure.name()),
            Self::Wrong(words) => f.write_str(words),
        }
    }
}

/// Returns the body of a successful result, or the failure as a cause.
#[inline]
pub(crate) fn ok<O, F>(procedure: Procedure, result: wire::nfs3::Res3<O, F>) -> Result<O, Cause> {
    result.map_err(|failed| Cause::Status(procedure, failed.status))
}
