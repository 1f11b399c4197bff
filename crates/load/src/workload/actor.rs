//! The state machine of a virtual thread: which call comes next, and what a reply means.

use std::fmt;

use wire::nfs3::{NfsStat3, Procedure};
use wire::xdr::{Decode, DecodeError, Decoder};

use crate::client::outbox::Outbox;

/// A virtual thread. It has lanes, one for each operation that it has in flight; a stage begins on all of them.
pub(crate) trait Actor: Send {
    /// A stage begins; no operation is in flight.
    fn enter(&mut self, stage: usize);

    /// Begins the next operation on a lane that has none: sends its first calls.
    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun;

    /// Takes a reply to a call of the lane's operation, and sends more calls if it needs them. The operation ends
    /// when none is in flight. Returns how many bytes of file data the call moved.
    fn reply(
        &mut self,
        lane: usize,
        part: u32,
        reply: &Reply<'_>,
        out: &mut Outbox<'_>,
    ) -> Result<u64, Cause>;

    /// The operation is over. Says as what it counts, if it succeeded.
    fn ended(&mut self, lane: usize, succeeded: bool) -> OperationCount;
}

/// What became of the wish for another operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is on its way.
    Started,
    /// Another operation of this thread has to end first.
    Wait,
    /// The stage has no more.
    Exhausted,
}

/// As what an operation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationCount {
    /// So many operations; 0 for what belongs to the work but is none, as a COMMIT after a pass.
    pub(crate) operations: u64,
    /// The phase that it is part of.
    pub(crate) phase: Option<u8>,
}

impl OperationCount {
    /// One operation of a workload that has no phases.
    pub(crate) const ONE: Self = Self { operations: 1, phase: None };
}

/// The results of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'r> {
    /// What there is of the results.
    pub(crate) results: &'r [u8],
    /// How many bytes of them nobody wanted.
    pub(crate) cut: usize,
}

impl<'r> Reply<'r> {
    /// The results of any procedure but READ.
    #[inline]
    pub(crate) fn decode<T: Decode<'r>>(&self, procedure: Procedure) -> Result<T, Cause> {
        if self.cut > 0 {
            return Err(Cause::Malformed(procedure, DecodeError::Trailing(self.cut)));
        }
        wire::xdr::decode_all(self.results).map_err(|error| Cause::Malformed(procedure, error))
    }

    /// The results of READ, whose data may be cut.
    #[inline]
    pub(crate) fn read(&self) -> Result<ReadHead<'r>, Cause> {
        let mut input = Decoder::new(self.results);
        ReadHead::decode(&mut input, self.cut).map_err(|error| Cause::Malformed(Procedure::Read, error))?
    }
}

/// The results of a READ, with as much of the data as is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadHead<'r> {
    pub(crate) count: u32,
    pub(crate) eof: bool,
    /// The front of the data, and padding.
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
    /// The server says so.
    Status(Procedure, NfsStat3),
    /// The server did not run the procedure.
    Rpc(String),
    /// The reply is not what the procedure's results look like.
    Malformed(Procedure, DecodeError),
    /// The reply is well formed and says what cannot be.
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

/// The body of a successful result, or the failure as a cause.
#[inline]
pub(crate) fn ok<O, F>(procedure: Procedure, result: wire::nfs3::Res3<O, F>) -> Result<O, Cause> {
    result.map_err(|failed| Cause::Status(procedure, failed.status))
}
