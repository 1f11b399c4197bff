//! COMPOUND (RFC 7530 section 15.2, RFC 8881 section 16.2).
//!
//! A server decodes operations one at a time with [`CompoundReader`], so that those before a malformed one are executed, and
//! appends their results with [`CompoundEncoder`]. It may ask for the number of the next operation and then for arguments of
//! the type that belongs to it, which decodes them where they are used, or iterate. A client appends operations with
//! [`CompoundArgsEncoder`] and decodes their results with [`CompoundResReader`].

use std::fmt;
use std::marker::PhantomData;

use super::callback::CbResOp4;
use super::{ArgOp4, NfsStat4, OpNum4, Outcome, ResOp4, Utf8Str4};
use crate::limits::COMPOUND_OPS_MAX;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, length_u32};

/// The arguments of a COMPOUND, decoded one operation at a time (COMPOUND4args).
#[derive(Clone, Debug)]
pub struct CompoundReader<'a> {
    tag: Utf8Str4<'a>,
    minorversion: u32,
    announced: u32,
    index: u32,
    input: Decoder<'a>,
}

/// Why the next operation cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpError {
    /// The limit of [`COMPOUND_OPS_MAX`] operations is exceeded: NFS4ERR_RESOURCE, or NFS4ERR_TOO_MANY_OPS since NFSv4.1.
    TooMany(OpNum4),
    /// The minor version defines no operation of this number: NFS4ERR_OP_ILLEGAL, as the result of [`OpNum4::Illegal`].
    Illegal(u32),
    /// The arguments do not decode: NFS4ERR_BADXDR.
    BadXdr(OpNum4, DecodeError),
}

impl OpError {
    /// Returns the operation of the result.
    #[must_use]
    pub const fn num(&self) -> OpNum4 {
        match self {
            Self::TooMany(num) | Self::BadXdr(num, _) => *num,
            Self::Illegal(_) => OpNum4::Illegal,
        }
    }

    /// Returns the status of the result in this minor version.
    #[must_use]
    pub const fn status(&self, minorversion: u32) -> NfsStat4 {
        match (self, minorversion) {
            (Self::TooMany(_), 0) => NfsStat4::Resource,
            (Self::TooMany(_), _) => NfsStat4::TooManyOps,
            (Self::Illegal(_), _) => NfsStat4::OpIllegal,
            (Self::BadXdr(..), _) => NfsStat4::BadXdr,
        }
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(_) => write!(f, "more than {COMPOUND_OPS_MAX} operations"),
            Self::Illegal(code) => write!(f, "{code} is not an operation"),
            Self::BadXdr(num, error) => write!(f, "the arguments of {}: {error}", num.name()),
        }
    }
}

impl std::error::Error for OpError {}

impl<'a> CompoundReader<'a> {
    /// Decodes the header before the operations.
    ///
    /// # Errors
    /// If the bytes do not decode. The call is answered with [`GarbageArgs`](crate::rpc::AcceptStat::GarbageArgs).
    #[inline]
    pub fn new(mut input: Decoder<'a>) -> Result<Self, DecodeError> {
        let tag = Utf8Str4::decode(&mut input)?;
        let minorversion = input.u32()?;
        let announced = input.u32()?;
        Ok(Self { tag, minorversion, announced, index: 0, input })
    }

    /// Returns the client's tag, which the result repeats.
    #[must_use]
    pub fn tag(&self) -> Utf8Str4<'a> {
        self.tag
    }

    /// Returns the minor version.
    #[must_use]
    pub fn minorversion(&self) -> u32 {
        self.minorversion
    }

    /// Returns the announced number of operations, of which at most [`COMPOUND_OPS_MAX`] are decoded.
    #[must_use]
    pub fn announced(&self) -> u32 {
        self.announced
    }

    /// Returns the number of operations decoded so far.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the bytes of the remaining operations.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.input.rest()
    }

    /// See [`Decoder::rest_around_payload`].
    #[must_use]
    #[inline]
    pub fn rest_around_payload(&self) -> (&'a [u8], Option<&'a [u8]>) {
        self.input.rest_around_payload()
    }

    /// Returns the number of the next operation, if there is a valid one.
    #[must_use]
    pub fn peek(&self) -> Option<OpNum4> {
        self.clone().next_number().and_then(Result::ok)
    }

    /// Decodes the arguments of the operation whose number was read last.
    ///
    /// # Errors
    /// If the bytes do not decode: NFS4ERR_BADXDR. Nothing more can be decoded.
    #[inline]
    pub fn arguments<T: Decode<'a>>(&mut self) -> Result<T, DecodeError> {
        T::decode(&mut self.input)
    }

    /// Decodes the arguments of `operation`, whose number was read last.
    ///
    /// # Errors
    /// Those of [`Self::arguments`].
    pub fn arguments_of(&mut self, operation: OpNum4) -> Result<ArgOp4<'a>, DecodeError> {
        ArgOp4::decode_args(operation, &mut self.input)
    }

    /// Decodes the number of the next operation; none at the end. Its arguments must be decoded before the next number.
    ///
    /// # Errors
    /// Any but [`OpError::BadXdr`] of arguments. Nothing more can be decoded.
    #[inline(always)]
    pub fn next_number(&mut self) -> Option<Result<OpNum4, OpError>> {
        if self.index >= self.announced {
            return None;
        }
        self.index += 1;
        let Ok(code) = self.input.u32() else {
            return Some(Err(OpError::BadXdr(OpNum4::Illegal, DecodeError::Truncated)));
        };
        Some(match OpNum4::in_minor(code, self.minorversion) {
            Some(num) if self.index > COMPOUND_OPS_MAX => Err(OpError::TooMany(num)),
            Some(num) => Ok(num),
            None => Err(OpError::Illegal(code)),
        })
    }
}

/// Iterates over the operations. An error ends the iteration.
impl<'a> Iterator for CompoundReader<'a> {
    type Item = Result<ArgOp4<'a>, OpError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let op = self
            .next_number()?
            .and_then(|num| self.arguments_of(num).map_err(|error| OpError::BadXdr(num, error)));
        if op.is_err() {
            self.index = self.announced;
        }
        Some(op)
    }
}

/// Appends operations after their count, which is filled in at the end.
#[derive(Debug)]
pub(super) struct OpArray<'b> {
    out: Encoder<'b>,
    count_at: usize,
    count: usize,
}

impl<'b> OpArray<'b> {
    pub(super) fn begin(mut out: Encoder<'b>) -> Self {
        let count_at = out.position();
        out.u32(0);
        Self { out, count_at, count: 0 }
    }

    pub(super) fn push(&mut self, op: &impl Encode) {
        op.encode(&mut self.out);
        self.count += 1;
    }

    pub(super) fn finish(&mut self) {
        self.out.patch(self.count_at, &length_u32(self.count).to_be_bytes());
    }
}

/// Appends results after the status of the last one, the tag and their count.
#[derive(Debug)]
pub(super) struct ResArray<'b> {
    status_at: usize,
    /// The status of the last result.
    pub(super) status: NfsStat4,
    ops: OpArray<'b>,
}

impl<'b> ResArray<'b> {
    pub(super) fn begin(mut out: Encoder<'b>, tag: Utf8Str4<'_>) -> Self {
        let status_at = out.position();
        NfsStat4::Ok.encode(&mut out);
        tag.encode(&mut out);
        Self { status_at, status: NfsStat4::Ok, ops: OpArray::begin(out) }
    }

    pub(super) fn push_with(&mut self, write: impl FnOnce(&mut Encoder<'_>) -> NfsStat4) {
        self.status = write(&mut self.ops.out);
        self.ops.count += 1;
    }

    pub(super) fn finish(mut self, status: NfsStat4) {
        self.ops.finish();
        self.ops.out.patch(self.status_at, &status.code().to_be_bytes());
    }
}

/// Encodes the arguments of a COMPOUND, one operation at a time.
#[derive(Debug)]
#[must_use = "the arguments are not complete until they are finished"]
pub struct CompoundArgsEncoder<'b> {
    ops: OpArray<'b>,
}

impl<'b> CompoundArgsEncoder<'b> {
    /// Encodes the header before the operations.
    pub fn begin(out: &'b mut Encoder<'_>, tag: Utf8Str4<'_>, minorversion: u32) -> Self {
        let mut out = out.reborrow();
        tag.encode(&mut out);
        out.u32(minorversion);
        Self { ops: OpArray::begin(out) }
    }

    /// Appends an operation.
    pub fn push(&mut self, op: &ArgOp4<'_>) {
        self.ops.push(op);
    }

    /// Fills in the number of operations.
    pub fn finish(mut self) {
        self.ops.finish();
    }
}

/// Encodes the result of a COMPOUND, one operation at a time (COMPOUND4res). The status of the last operation is that of the
/// COMPOUND.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct CompoundEncoder<'b> {
    results: ResArray<'b>,
}

impl<'b> CompoundEncoder<'b> {
    /// Encodes the header before the results.
    pub fn begin(out: &'b mut Encoder<'_>, tag: Utf8Str4<'_>) -> Self {
        Self { results: ResArray::begin(out.reborrow(), tag) }
    }

    /// Appends the result of an operation.
    pub fn push(&mut self, num: OpNum4, res: &(impl Encode + Outcome)) {
        self.push_with(num, |out| {
            res.encode(out);
            res.status()
        });
    }

    /// Appends the result of an operation, which `write` encodes in place with its status first; it returns the status.
    pub fn push_with(&mut self, num: OpNum4, write: impl FnOnce(&mut Encoder<'_>) -> NfsStat4) {
        self.results.push_with(|out| {
            num.encode(out);
            write(out)
        });
    }

    /// Returns the position of the next result in the buffer.
    #[must_use]
    pub fn position(&self) -> usize {
        self.results.ops.out.position()
    }

    /// Returns the number of results.
    #[must_use]
    pub fn count(&self) -> usize {
        self.results.ops.count
    }

    /// The status of the last result.
    #[must_use]
    pub fn status(&self) -> NfsStat4 {
        self.results.status
    }

    /// Completes the result with the number of results and the status of the last one.
    pub fn finish(self) {
        let status = self.status();
        self.finish_with(status);
    }

    /// Completes the result with the number of results and another status, for an unknown minor version.
    pub fn finish_with(self, status: NfsStat4) {
        self.results.finish(status);
    }
}

/// The result of a COMPOUND, decoded one operation at a time (COMPOUND4res).
pub type CompoundResReader<'a> = ResReader<'a, ResOp4<'a>>;

/// The result of a CB_COMPOUND, decoded one operation at a time (CB_COMPOUND4res).
pub type CbCompoundResReader<'a> = ResReader<'a, CbResOp4>;

/// The result of a COMPOUND of either program, decoded one operation at a time.
#[derive(Clone, Debug)]
pub struct ResReader<'a, R> {
    status: NfsStat4,
    tag: Utf8Str4<'a>,
    left: usize,
    input: Decoder<'a>,
    of: PhantomData<R>,
}

impl<'a, R> ResReader<'a, R> {
    /// Decodes the header before the results.
    ///
    /// # Errors
    /// If the bytes do not decode.
    pub fn new(mut input: Decoder<'a>) -> Result<Self, DecodeError> {
        let status = NfsStat4::decode(&mut input)?;
        let tag = Utf8Str4::decode(&mut input)?;
        let left = input.length(COMPOUND_OPS_MAX as usize)?;
        Ok(Self { status, tag, left, input, of: PhantomData })
    }

    /// The status of the last result.
    #[must_use]
    pub fn status(&self) -> NfsStat4 {
        self.status
    }

    /// Returns the tag of the arguments.
    #[must_use]
    pub fn tag(&self) -> Utf8Str4<'a> {
        self.tag
    }

    /// Returns the number of remaining results.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Checks that no bytes follow the results.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes remain.
    pub fn finish(&self) -> Result<(), DecodeError> {
        self.input.finish()
    }
}

/// Iterates over the results. An error ends the iteration.
impl<'a, R: Decode<'a>> Iterator for ResReader<'a, R> {
    type Item = Result<R, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let op = R::decode(&mut self.input);
        if op.is_err() {
            self.left = 0;
        }
        Some(op)
    }
}
