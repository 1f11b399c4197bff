//! READ, WRITE and COMMIT (RFC 1813 sections 3.3.6, 3.3.7 and 3.3.21).

use super::{Fattr3, FileHandle3, NfsStat3, PostOpAttr, Res3, WccData};
use crate::limits::{DATA_BYTES_MAX, VERIFIER_BYTES};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, block, length_u32, padding};

xdr_struct! {
    /// The arguments of READ (RFC 1813 section 3.3.6).
    pub struct ReadArgs<'a> {
        /// The file.
        pub file: FileHandle3<'a>,
        /// The offset in bytes.
        pub offset: u64,
        /// The number of bytes requested.
        pub count: u32,
    }
}

/// READ succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// The attributes of the file.
    pub file_attributes: PostOpAttr,
    /// The number of bytes read, which is the length of `data`.
    pub count: u32,
    /// Whether the data reaches the end of the file.
    pub eof: bool,
    /// The data, at most [`DATA_BYTES_MAX`] bytes.
    pub data: &'a [u8],
}

impl Encode for ReadOk<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        self.file_attributes.encode(out);
        out.u32(self.count);
        out.bool(self.eof);
        out.opaque(self.data);
    }
}

impl<'a> Decode<'a> for ReadOk<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            file_attributes: PostOpAttr::decode(input)?,
            count: input.u32()?,
            eof: input.bool()?,
            data: input.opaque(DATA_BYTES_MAX)?,
        })
    }
}

xdr_struct! {
    /// READ failed.
    pub struct ReadFail {
        /// The attributes of the file.
        pub file_attributes: PostOpAttr,
    }
}

/// The result of READ.
pub type ReadRes<'a> = Res3<ReadOk<'a>, ReadFail>;

/// Builds a successful result of READ in place: the data is appended to the reply, then the attributes, the length and eof
/// are filled in.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ReadEncoder<'b> {
    out: Encoder<'b>,
    start: usize,
}

impl<'b> ReadEncoder<'b> {
    /// The bytes before the data: status, attributes, count, eof, length.
    pub const HEADER_BYTES: usize = 4 + 4 + Fattr3::BYTES + 4 + 4 + 4;

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
    pub fn finish(mut self, file_attributes: &Fattr3, eof: bool) {
        let count = self.count();
        self.out.pad(count);
        self.fill_in(file_attributes, eof, count);
    }

    fn fill_in(&mut self, file_attributes: &Fattr3, eof: bool, count: usize) {
        let attributes = 4 + 4 + Fattr3::BYTES;
        self.out.patch(self.start, &NfsStat3::Ok.code().to_be_bytes());
        self.out.patch(self.start + 4, &file_attributes.to_post_op_bytes());
        let lengths = block::<12>(|fields| {
            fields.u32(length_u32(count));
            fields.u32(u32::from(eof));
            fields.u32(length_u32(count));
        });
        self.out.patch(self.start + attributes, &lengths);
    }

    /// Completes a result whose data, `count` bytes, is not in the buffer but is sent right after it.
    ///
    /// # Panics
    /// If data was appended, or if it needs padding.
    pub fn finish_without_data(mut self, file_attributes: &Fattr3, eof: bool, count: usize) {
        assert!(self.count() == 0 && padding(count) == 0, "data that leaves by itself needs no padding");
        self.fill_in(file_attributes, eof, count);
    }

    /// Removes the result again. The caller writes a failure instead.
    pub fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}

xdr_enum! {
    /// The stability of a WRITE (RFC 1813 section 3.3.7, stable_how).
    pub enum StableHow {
        /// Memory is sufficient.
        Unstable = 0,
        /// The data and the metadata to find it are stable.
        DataSync = 1,
        /// The data and all metadata are stable.
        FileSync = 2,
    }
}

/// The write verifier, which changes when unstable data may have been lost (RFC 1813 section 2.5, writeverf3).
pub type WriteVerf3 = [u8; VERIFIER_BYTES];

/// The arguments of WRITE (RFC 1813 section 3.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The file.
    pub file: FileHandle3<'a>,
    /// The offset in bytes.
    pub offset: u64,
    /// The number of bytes to write. It should be the length of `data`; the server decides what to answer if it is not.
    pub count: u32,
    /// The stability required before the reply.
    pub stable: StableHow,
    /// The data, at most [`DATA_BYTES_MAX`] bytes.
    pub data: &'a [u8],
}

impl Encode for WriteArgs<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        self.file.encode(out);
        out.u64(self.offset);
        out.u32(self.count);
        self.stable.encode(out);
        out.opaque(self.data);
    }
}

impl<'a> Decode<'a> for WriteArgs<'a> {
    #[inline]
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            file: FileHandle3::decode(input)?,
            offset: input.u64()?,
            count: input.u32()?,
            stable: StableHow::decode(input)?,
            data: input.opaque(DATA_BYTES_MAX)?,
        })
    }
}

xdr_struct! {
    /// WRITE succeeded.
    pub struct WriteOk {
        /// The file before and after.
        pub file_wcc: WccData,
        /// The number of bytes written.
        pub count: u32,
        /// The stability reached, at least the one requested.
        pub committed: StableHow,
        /// The write verifier at the time the data was accepted.
        pub verf: WriteVerf3,
    }
}

xdr_struct! {
    /// WRITE failed.
    pub struct WriteFail {
        /// The file before and after.
        pub file_wcc: WccData,
    }
}

/// The result of WRITE.
pub type WriteRes = Res3<WriteOk, WriteFail>;

xdr_struct! {
    /// The arguments of COMMIT (RFC 1813 section 3.3.21).
    pub struct CommitArgs<'a> {
        /// The file.
        pub file: FileHandle3<'a>,
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes; 0 means everything from `offset` on.
        pub count: u32,
    }
}

xdr_struct! {
    /// COMMIT succeeded.
    pub struct CommitOk {
        /// The file before and after.
        pub file_wcc: WccData,
        /// The write verifier, to be compared with those of the writes.
        pub verf: WriteVerf3,
    }
}

xdr_struct! {
    /// COMMIT failed.
    pub struct CommitFail {
        /// The file before and after.
        pub file_wcc: WccData,
    }
}

/// The result of COMMIT.
pub type CommitRes = Res3<CommitOk, CommitFail>;

#[cfg(test)]
mod samples {
    use super::{ReadOk, WriteArgs};
    use crate::sample::{Rng, Sample};

    impl Sample for ReadOk<'_> {
        fn sample(rng: &mut Rng) -> Self {
            Self {
                file_attributes: Sample::sample(rng),
                count: Sample::sample(rng),
                eof: Sample::sample(rng),
                data: rng.bytes(200),
            }
        }
    }

    impl Sample for WriteArgs<'_> {
        fn sample(rng: &mut Rng) -> Self {
            Self {
                file: Sample::sample(rng),
                offset: Sample::sample(rng),
                count: Sample::sample(rng),
                stable: Sample::sample(rng),
                data: rng.bytes(200),
            }
        }
    }
}
