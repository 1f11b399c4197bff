//! The callback program of clients (RFC 7530 section 18, RFC 8881 section 20, RFC 7862 section 16), with the operations
//! that servers of Holdfast send.
//!
//! A server encodes a call with [`CbCompoundArgsEncoder`] after a [`CallHeader`](crate::rpc::CallHeader) and decodes the
//! result with [`CbCompoundResReader`](super::compound::CbCompoundResReader).

use super::compound::{OpArray, ResArray};
use super::{
    Failure, FileHandle4, NfsStat4, Outcome, Res4, SequenceId4, SessionId4, SlotId4, StateOwner4, Stateid4,
    Utf8Str4, WriteResponse4,
};
use crate::array::Array;
use crate::limits::{COMPOUND_OPS_MAX, REFERRING_CALLS_MAX, REFERRING_LISTS_MAX};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The version of the program. The client chooses its number in SETCLIENTID or CREATE_SESSION.
pub const CALLBACK_VERSION: u32 = 1;

xdr! {
    /// The procedures of the callback program. CB_NULL has no arguments and no results.
    pub enum CbProcedure {
        /// Do nothing.
        Null = 0,
        /// Execute operations in order until one fails.
        Compound = 1,
    }

    /// The arguments of CB_RECALL (RFC 8881 section 20.2).
    pub struct CbRecallArgs<'a> {
        /// The delegation.
        pub stateid: Stateid4,
        /// Whether the file will be truncated, so that the client need not write data back.
        pub truncate: bool,
        /// The file.
        pub fh: FileHandle4<'a>,
    }

    /// A request to which a callback refers (RFC 8881 section 20.9, referring_call4).
    pub struct ReferringCall4 {
        /// Its sequence id.
        pub sequenceid: SequenceId4,
        /// Its slot.
        pub slotid: SlotId4,
    }

    /// The requests of one session to which a callback refers (RFC 8881 section 20.9, referring_call_list4).
    pub struct ReferringCallList4<'a> {
        /// The session.
        pub sessionid: SessionId4,
        /// The requests.
        pub referring_calls: Array<'a, ReferringCall4, REFERRING_CALLS_MAX>,
    }

    /// The arguments of CB_SEQUENCE (RFC 8881 section 20.9).
    pub struct CbSequenceArgs<'a> {
        /// The session.
        pub sessionid: SessionId4,
        /// The next sequence id of the slot, or the last one for a retransmission.
        pub sequenceid: SequenceId4,
        /// The slot.
        pub slotid: SlotId4,
        /// The highest slot that the server currently uses.
        pub highest_slotid: SlotId4,
        /// Whether the client must cache the reply.
        pub cachethis: bool,
        /// Requests whose replies should arrive before the callback is executed.
        pub referring_call_lists: Array<'a, ReferringCallList4<'a>, REFERRING_LISTS_MAX>,
    }

    /// CB_SEQUENCE succeeded.
    pub struct CbSequenceOk {
        /// As in the arguments.
        pub sessionid: SessionId4,
        /// As in the arguments.
        pub sequenceid: SequenceId4,
        /// As in the arguments.
        pub slotid: SlotId4,
        /// The highest slot that the client accepts.
        pub highest_slotid: SlotId4,
        /// The highest slot that the client wants the server to use.
        pub target_highest_slotid: SlotId4,
    }

    /// The arguments of CB_NOTIFY_LOCK (RFC 8881 section 20.11).
    pub struct CbNotifyLockArgs<'a> {
        /// The file.
        pub fh: FileHandle4<'a>,
        /// The lock owner that was denied a lock and can try again.
        pub lock_owner: StateOwner4<'a>,
    }
}

/// A copy that failed (RFC 7862 section 16.1, offload_info4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadFail {
    /// The status; never [`NfsStat4::Ok`].
    pub status: NfsStat4,
    /// The number of bytes copied.
    pub bytes_copied: u64,
}

impl<'a> Failure<'a> for OffloadFail {
    fn status(&self) -> NfsStat4 {
        self.status
    }

    fn encode_body(&self, out: &mut Encoder<'_>) {
        out.u64(self.bytes_copied);
    }

    fn decode_body(status: NfsStat4, input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { status, bytes_copied: input.u64()? })
    }
}

xdr! {
    /// The arguments of CB_OFFLOAD (RFC 7862 section 16.1).
    pub struct CbOffloadArgs<'a> {
        /// The destination.
        pub fh: FileHandle4<'a>,
        /// The copy.
        pub stateid: Stateid4,
        /// The status.
        pub offload_info: Res4<WriteResponse4, OffloadFail>,
    }
}

operations! {
    /// The callback operations (nfs_cb_opnum4).
    enum CbOpNum4;
    /// A callback operation with its arguments (nfs_cb_argop4).
    enum CbArgOp4<'a>;
    /// A callback operation with its result (nfs_cb_resop4).
    enum CbResOp4;

    4 "CB_RECALL" 0 Recall(args: CbRecallArgs<'a>) -> CbRecallRes = Res4<()>;
    11 "CB_SEQUENCE" 1 Sequence(args: CbSequenceArgs<'a>) -> CbSequenceRes = Res4<CbSequenceOk>;
    13 "CB_NOTIFY_LOCK" 1 NotifyLock(args: CbNotifyLockArgs<'a>) -> CbNotifyLockRes = Res4<()>;
    15 "CB_OFFLOAD" 2 Offload(args: CbOffloadArgs<'a>) -> CbOffloadRes = Res4<()>;
    10044 "CB_ILLEGAL" 0 Illegal -> CbIllegalRes = Res4<()>; // always NFS4ERR_OP_ILLEGAL
}

/// Encodes the arguments of a CB_COMPOUND, one operation at a time (CB_COMPOUND4args).
#[derive(Debug)]
#[must_use = "the arguments are not complete until they are finished"]
pub struct CbCompoundArgsEncoder<'b> {
    ops: OpArray<'b>,
}

impl<'b> CbCompoundArgsEncoder<'b> {
    /// Encodes the header before the operations. `callback_ident` is the identifier from SETCLIENTID, unused since NFSv4.1.
    pub fn begin(
        out: &'b mut Encoder<'_>,
        tag: Utf8Str4<'_>,
        minorversion: u32,
        callback_ident: u32,
    ) -> Self {
        let mut out = out.reborrow();
        tag.encode(&mut out);
        out.u32(minorversion);
        out.u32(callback_ident);
        Self { ops: OpArray::begin(out) }
    }

    /// Appends an operation.
    pub fn push(&mut self, op: &CbArgOp4<'_>) {
        self.ops.push(op);
    }

    /// Fills in the number of operations.
    pub fn finish(mut self) {
        self.ops.finish();
    }
}

/// The arguments of a CB_COMPOUND, decoded one operation at a time.
#[derive(Clone, Debug)]
pub struct CbCompoundReader<'a> {
    tag: Utf8Str4<'a>,
    minorversion: u32,
    callback_ident: u32,
    left: usize,
    input: Decoder<'a>,
}

impl<'a> CbCompoundReader<'a> {
    /// Decodes the header before the operations.
    ///
    /// # Errors
    /// If the bytes do not decode.
    pub fn new(mut input: Decoder<'a>) -> Result<Self, DecodeError> {
        let tag = Utf8Str4::decode(&mut input)?;
        let minorversion = input.u32()?;
        let callback_ident = input.u32()?;
        let left = input.length(COMPOUND_OPS_MAX as usize)?;
        Ok(Self { tag, minorversion, callback_ident, left, input })
    }

    /// Returns the server's tag, which the result repeats.
    #[must_use]
    pub fn tag(&self) -> Utf8Str4<'a> {
        self.tag
    }

    /// Returns the minor version.
    #[must_use]
    pub fn minorversion(&self) -> u32 {
        self.minorversion
    }

    /// Returns the identifier from SETCLIENTID.
    #[must_use]
    pub fn callback_ident(&self) -> u32 {
        self.callback_ident
    }

    /// Checks that no bytes follow the operations.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes remain.
    pub fn finish(&self) -> Result<(), DecodeError> {
        self.input.finish()
    }
}

/// Iterates over the operations. An error ends the iteration.
impl<'a> Iterator for CbCompoundReader<'a> {
    type Item = Result<CbArgOp4<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let op = CbArgOp4::decode(&mut self.input);
        if op.is_err() {
            self.left = 0;
        }
        Some(op)
    }
}

/// Encodes the result of a CB_COMPOUND, one operation at a time (CB_COMPOUND4res). The status of the last operation is that
/// of the CB_COMPOUND.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct CbCompoundEncoder<'b> {
    results: ResArray<'b>,
}

impl<'b> CbCompoundEncoder<'b> {
    /// Encodes the header before the results.
    pub fn begin(out: &'b mut Encoder<'_>, tag: Utf8Str4<'_>) -> Self {
        Self { results: ResArray::begin(out.reborrow(), tag) }
    }

    /// Appends a result.
    pub fn push(&mut self, res: &CbResOp4) {
        self.results.push_with(|out| {
            res.encode(out);
            res.status()
        });
    }

    /// Completes the result with the number of results and the status of the last one.
    pub fn finish(self) {
        let status = self.results.status;
        self.results.finish(status);
    }
}

#[cfg(test)]
mod samples {
    use super::{NfsStat4, OffloadFail};
    use crate::nfs4::outcome::SampleFailure;
    use crate::sample::Rng;

    impl SampleFailure for OffloadFail {
        fn sample_failure(rng: &mut Rng) -> Self {
            Self { status: NfsStat4::sample_failure(rng), bytes_copied: rng.next() }
        }
    }
}
