//! Holes and hints (RFC 7862): ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, WRITE_SAME, IO_ADVISE.

use super::{Bitmap4, NfsStat4, Opaque4, StableHow4, Stateid4};
use crate::array::Array;
use crate::limits::{DATA_BYTES_MAX, READ_PLUS_SEGMENTS_MAX};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, length_u32};

xdr! {
    /// The arguments of ALLOCATE (RFC 7862 section 15.1).
    pub struct AllocateArgs {
        /// The stateid to write with.
        pub stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes.
        pub length: u64,
    }

    /// The arguments of DEALLOCATE (RFC 7862 section 15.4).
    pub struct DeallocateArgs {
        /// The stateid to write with.
        pub stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes.
        pub length: u64,
    }

    /// The content of a part of a file (RFC 7862 section 15.11, data_content4).
    pub enum DataContent4 {
        /// Data.
        Data = 0,
        /// A hole.
        Hole = 1,
    }

    /// The arguments of SEEK (RFC 7862 section 15.11).
    pub struct SeekArgs {
        /// The stateid to read with.
        pub stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The content to find, a number of [`DataContent4`]. Others are NFS4ERR_UNION_NOTSUPP.
        pub what: u32,
    }

    /// SEEK succeeded.
    pub struct SeekOk {
        /// Whether the file ends before any such content.
        pub eof: bool,
        /// The offset in bytes.
        pub offset: u64,
    }

    /// The arguments of READ_PLUS (RFC 7862 section 15.10).
    pub struct ReadPlusArgs {
        /// The stateid to read with.
        pub stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The most bytes to read.
        pub count: u32,
    }
}

/// A part of a file (RFC 7862 section 15.10, read_plus_content).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPlusContent<'a> {
    /// Data (data4).
    Data {
        /// The offset in bytes.
        offset: u64,
        /// The data, at most [`DATA_BYTES_MAX`] bytes.
        data: &'a [u8],
    },
    /// A hole (data_info4).
    Hole {
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        length: u64,
    },
}

impl Encode for ReadPlusContent<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        match *self {
            Self::Data { offset, data } => {
                DataContent4::Data.encode(out);
                out.u64(offset);
                out.opaque(data);
            }
            Self::Hole { offset, length } => {
                DataContent4::Hole.encode(out);
                out.u64(offset);
                out.u64(length);
            }
        }
    }
}

impl<'a> Decode<'a> for ReadPlusContent<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match DataContent4::decode(input)? {
            DataContent4::Data => Self::Data { offset: input.u64()?, data: input.opaque(DATA_BYTES_MAX)? },
            DataContent4::Hole => Self::Hole { offset: input.u64()?, length: input.u64()? },
        })
    }
}

xdr! {
    /// READ_PLUS succeeded.
    pub struct ReadPlusOk<'a> {
        /// Whether the contents reach the end of the file.
        pub eof: bool,
        /// The contiguous contents of the range.
        pub contents: Array<'a, ReadPlusContent<'a>, READ_PLUS_SEGMENTS_MAX>,
    }
}

/// Builds a successful result of READ_PLUS in place: data is appended to the reply.
#[derive(Debug)]
#[must_use = "the result is not complete until it is finished"]
pub struct ReadPlusEncoder<'b> {
    out: Encoder<'b>,
    start: usize,
    segments: usize,
}

impl<'b> ReadPlusEncoder<'b> {
    /// Status, eof, the number of segments.
    const HEADER_BYTES: usize = 4 + 4 + 4;

    /// Begins a result.
    pub fn begin(out: &'b mut Encoder<'_>) -> Self {
        let mut out = out.reborrow();
        let start = out.position();
        out.raw(&[0; Self::HEADER_BYTES]);
        Self { out, start, segments: 0 }
    }

    /// Whether another segment is allowed.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.segments < READ_PLUS_SEGMENTS_MAX
    }

    /// Appends a segment of data, which `write` appends to the reply without changing its contents.
    pub fn push_data(&mut self, offset: u64, write: impl FnOnce(&mut Vec<u8>)) {
        DataContent4::Data.encode(&mut self.out);
        self.out.u64(offset);
        let length_at = self.out.position();
        self.out.u32(0);
        write(self.out.buffer());
        let length = self.out.position() - length_at - 4;
        self.out.pad(length);
        self.out.patch(length_at, &length_u32(length).to_be_bytes());
        self.segments += 1;
    }

    /// Appends a hole; its length is in bytes.
    pub fn push_hole(&mut self, offset: u64, length: u64) {
        ReadPlusContent::Hole { offset, length }.encode(&mut self.out);
        self.segments += 1;
    }

    /// Completes the result.
    pub fn finish(mut self, eof: bool) {
        self.out.patch(self.start, &NfsStat4::Ok.code().to_be_bytes());
        self.out.patch(self.start + 4, &u32::from(eof).to_be_bytes());
        self.out.patch(self.start + 8, &length_u32(self.segments).to_be_bytes());
    }

    /// Removes the result again. The caller writes a failure instead.
    pub fn abandon(mut self) {
        self.out.rewind(self.start);
    }
}

xdr! {
    /// Blocks that differ only in a number (RFC 7862 section 8.1, app_data_block4).
    pub struct AppDataBlock4<'a> {
        /// The offset of the first block in bytes.
        pub offset: u64,
        /// The size of a block in bytes.
        pub block_size: u64,
        /// The number of blocks.
        pub block_count: u64,
        /// The offset of the number in a block in bytes.
        pub reloff_blocknum: u64,
        /// The number of the first block.
        pub block_num: u32,
        /// The offset of the pattern in a block in bytes.
        pub reloff_pattern: u64,
        /// The pattern.
        pub pattern: Opaque4<'a>,
    }

    /// The arguments of WRITE_SAME (RFC 7862 section 15.12).
    pub struct WriteSameArgs<'a> {
        /// The stateid to write with.
        pub stateid: Stateid4,
        /// The stability required before the reply.
        pub stable: StableHow4,
        /// The blocks to write.
        pub adb: AppDataBlock4<'a>,
    }

    /// The arguments of IO_ADVISE (RFC 7862 section 15.5).
    pub struct IoAdviseArgs {
        /// The open.
        pub stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes; 0 means up to the end of the file.
        pub count: u64,
        /// Numbers of hints (IO_ADVISE_type4).
        pub hints: Bitmap4,
    }

    /// IO_ADVISE succeeded.
    pub struct IoAdviseOk {
        /// The hints that the server follows.
        pub hints: Bitmap4,
    }
}

#[cfg(test)]
impl crate::sample::Sample for ReadPlusContent<'_> {
    fn sample(rng: &mut crate::sample::Rng) -> Self {
        match rng.below(2) {
            0 => Self::Data { offset: rng.next(), data: rng.bytes(100) },
            _ => Self::Hole { offset: rng.next(), length: rng.next() },
        }
    }
}
