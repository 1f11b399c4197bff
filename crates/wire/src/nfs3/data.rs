//! READ, WRITE and COMMIT (RFC 1813 sections 3.3.6, 3.3.7 and 3.3.21).

use super::{Fattr3, FileHandle3, NfsStat3, PostOpAttr, Res3, WccData};
use crate::limits::{DATA_BYTES_MAX, VERIFIER_BYTES};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, block, length_u32, padding};

xdr_struct! {
    /// The arguments of READ (RFC 1813 section 3.3.6).
    pub struct ReadArgs<'a> {
        /// The file.
        pub file: FileHandle3<'a>,
        /// Where to begin, in bytes.
        pub offset: u64,
        /// How much is wanted, in bytes.
        pub count: u32,
    }
}

/// READ succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// The attributes of the file.
    pub file_attributes: PostOpAttr,
    /// How much was read, in bytes; the length of `data`.
    pub count: u32,
    /// Whether the file ends where the data does.
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

/// Builds a successful result of READ in place: the data is appended straight to the reply, and what is known
/// only after it (the attributes, the length, the end of the file) is filled in at the end.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ReadEncoder<'b> {
    out: Encoder<'b>,
    start: usize,
}

impl<'b> ReadEncoder<'b> {
    /// What stands before the data: status, attributes, count, eof, length.
    pub const HEADER_BYTES: usize = 4 + 4 + Fattr3::BYTES + 4 + 4 + 4;

    /// Begins a result; `count` is how many bytes of data are expected at most, and only a hint.
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

    /// Appends zeros, for a hole.
    pub fn push_zeros(&mut self, count: usize) {
        let length = self.out.position() + count;
        self.out.buffer().resize(length, 0);
    }

    /// The reply itself, for those who append data in place. They must not touch what is in it.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.buffer()
    }

    /// How much data was appended, in bytes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.out.position() - self.start - Self::HEADER_BYTES
    }

    /// Fills in the rest.
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

    /// Fills in the rest of a result whose data, `count` bytes, is not in the reply's buffer but leaves right behind it.
    ///
    /// # Panics
    /// If data was appended, or needs padding.
    pub fn finish_without_data(mut self, file_attributes: &Fattr3, eof: bool, count: usize) {
        assert!(self.count() == 0 && padding(count) == 0, "data that leaves by itself needs no padding");
        self.fill_in(file_attributes, eof, count);
    }

    /// Takes everything back; the caller writes a failure instead.
    pub fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}

xdr_enum! {
    /// How stable a WRITE is to be, or was (RFC 1813 section 3.3.7, stable_how).
    pub enum StableHow {
        /// In memory will do.
        Unstable = 0,
        /// The data, and what is needed to find it.
        DataSync = 1,
        /// Data and all attributes.
        FileSync = 2,
    }
}

/// Changes when unstable data may have been lost (RFC 1813 section 2.5, writeverf3).
pub type WriteVerf3 = [u8; VERIFIER_BYTES];

/// The arguments of WRITE (RFC 1813 section 3.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The file.
    pub file: FileHandle3<'a>,
    /// Where to begin, in bytes.
    pub offset: u64,
    /// How much to write, in bytes. The client should have made it the length of `data`; the server decides what
    /// to answer if it did not.
    pub count: u32,
    /// How stable it must be before the reply.
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
        /// How much was written, in bytes.
        pub count: u32,
        /// How stable it is; never less than asked for.
        pub committed: StableHow,
        /// The verifier that was in force when the data was accepted.
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
        /// Where to begin, in bytes.
        pub offset: u64,
        /// How much, in bytes; 0 is everything from `offset` on.
        pub count: u32,
    }
}

xdr_struct! {
    /// COMMIT succeeded.
    pub struct CommitOk {
        /// The file before and after.
        pub file_wcc: WccData,
        /// The verifier to compare with those of the writes.
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
