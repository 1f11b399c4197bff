//! READ, WRITE and COMMIT.

use super::{NfsStat4, Res4, StableHow4, Stateid4, Verifier4};
use crate::limits::DATA_BYTES_MAX;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, block, length_u32, padding};

xdr_struct! {
    /// The arguments of READ (RFC 8881 section 18.22).
    pub struct ReadArgs {
        /// The stateid to read with.
        pub stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The most bytes to read.
        pub count: u32,
    }
}

/// READ succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// Whether the data reaches the end of the file.
    pub eof: bool,
    /// The data, at most [`DATA_BYTES_MAX`] bytes.
    pub data: &'a [u8],
}

impl Encode for ReadOk<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bool(self.eof);
        out.opaque(self.data);
    }
}

impl<'a> Decode<'a> for ReadOk<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { eof: input.bool()?, data: input.opaque(DATA_BYTES_MAX)? })
    }
}

/// The result of READ.
pub type ReadRes<'a> = Res4<ReadOk<'a>>;

/// Builds a successful result of READ in place: the data is appended to the reply, then its length and eof are filled in.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ReadEncoder<'b> {
    out: Encoder<'b>,
    start: usize,
}

impl<'b> ReadEncoder<'b> {
    /// The bytes before the data: status, eof, length.
    pub const HEADER_BYTES: usize = 4 + 4 + 4;

    /// Begins a result. `count`, the expected number of data bytes, is a hint.
    pub fn begin(out: &'b mut Encoder<'_>, count: usize) -> Self {
        let mut out = out.reborrow();
        let start = out.position();
        out.reserve(Self::HEADER_BYTES + count + 3);
        out.raw(&[0; Self::HEADER_BYTES]);
        Self { out, start }
    }

    /// Appends data.
    pub fn push(&mut self, data: &[u8]) {
        self.out.raw(data);
    }

    /// Appends zeros for a hole.
    pub fn push_zeros(&mut self, count: usize) {
        let length = self.out.position() + count;
        self.out.buffer().resize(length, 0);
    }

    /// Returns the reply, to append data in place. Its contents must not change.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.buffer()
    }

    /// Returns the number of data bytes appended.
    #[must_use]
    pub fn count(&self) -> usize {
        self.out.position() - self.start - Self::HEADER_BYTES
    }

    /// Completes the result.
    pub fn finish(mut self, eof: bool) {
        let count = self.count();
        self.out.pad(count);
        self.fill_in(eof, count);
    }

    /// Completes a result whose data, `count` bytes, is not in the buffer but is sent right after it.
    /// No result of another operation may follow.
    ///
    /// # Panics
    /// If data was appended, or if it needs padding.
    pub fn finish_without_data(mut self, eof: bool, count: usize) {
        assert!(self.count() == 0 && padding(count) == 0, "data that leaves by itself needs no padding");
        self.fill_in(eof, count);
    }

    fn fill_in(&mut self, eof: bool, count: usize) {
        let header = block::<12>(|fields| {
            fields.u32(NfsStat4::Ok.code());
            fields.u32(u32::from(eof));
            fields.u32(length_u32(count));
        });
        self.out.patch(self.start, &header);
    }

    /// Removes the result again. The caller writes a failure instead.
    pub fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}

/// The arguments of WRITE (RFC 8881 section 18.32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The stateid to write with.
    pub stateid: Stateid4,
    /// The offset in bytes.
    pub offset: u64,
    /// The stability required before the reply.
    pub stable: StableHow4,
    /// The data, at most [`DATA_BYTES_MAX`] bytes.
    pub data: &'a [u8],
}

impl Encode for WriteArgs<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        self.stateid.encode(out);
        out.u64(self.offset);
        self.stable.encode(out);
        out.opaque(self.data);
    }
}

impl<'a> Decode<'a> for WriteArgs<'a> {
    #[inline]
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stateid: Stateid4::decode(input)?,
            offset: input.u64()?,
            stable: StableHow4::decode(input)?,
            data: input.opaque(DATA_BYTES_MAX)?,
        })
    }
}

xdr_struct! {
    /// WRITE succeeded.
    pub struct WriteOk {
        /// The number of bytes written.
        pub count: u32,
        /// The stability reached, at least the one requested.
        pub committed: StableHow4,
        /// The write verifier at the time the data was accepted.
        pub writeverf: Verifier4,
    }
}

/// The result of WRITE.
pub type WriteRes = Res4<WriteOk>;

xdr_struct! {
    /// The arguments of COMMIT (RFC 8881 section 18.3).
    pub struct CommitArgs {
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes; 0 means everything from `offset` on.
        pub count: u32,
    }
}

xdr_struct! {
    /// COMMIT succeeded.
    pub struct CommitOk {
        /// The write verifier, to be compared with those of the writes.
        pub writeverf: Verifier4,
    }
}

/// The result of COMMIT.
pub type CommitRes = Res4<CommitOk>;

#[cfg(test)]
mod samples {
    use super::{ReadOk, WriteArgs};
    use crate::sample::{Rng, Sample};

    impl Sample for ReadOk<'_> {
        fn sample(rng: &mut Rng) -> Self {
            Self { eof: Sample::sample(rng), data: rng.bytes(200) }
        }
    }

    impl Sample for WriteArgs<'_> {
        fn sample(rng: &mut Rng) -> Self {
            Self {
                stateid: Sample::sample(rng),
                offset: Sample::sample(rng),
                stable: Sample::sample(rng),
                data: rng.bytes(200),
            }
        }
    }
}
