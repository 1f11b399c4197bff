//! Extents and segments: where file data lies on media, and its checksums.

use super::sectors::{Kept, References, sectors};
use crate::api::ids::{ExtentId, SegmentId};
use crate::encoding::codec::{Malformed, Reader, Write};

pub use crate::bytes::BLOCK;

/// An extent: an immutable run of file data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentRecord {
    /// The segment that contains it.
    pub segment: SegmentId,
    /// Offset of its bytes in that segment.
    pub offset: u64,
    /// Stored bytes.
    pub stored: u32,
    /// Bytes of file data; equal to `stored` unless it is transformed or not stored as a whole.
    pub length: u32,
    /// 0: stored as is. Other numbers are reserved for compression and encryption.
    pub transform: u8,
    /// 0: on the volume's own media. Other numbers are reserved for colder tiers.
    pub tier: u8,
    /// The mappings that refer to it. Only checkpoints know; in the journal they are as in [`ExtentRecord::new`].
    pub references: References,
    /// Which parts are stored.
    pub kept: Kept,
    /// CRC32C of each [`BLOCK`] of stored bytes (the last may be shorter), continued over segment and offset.
    pub checksums: Vec<u32>,
}

impl ExtentRecord {
    /// Returns the checksum of a block of an extent: over its bytes and its location, so that misplaced writes and
    /// reads are detected.
    pub fn checksum(block: &[u8], segment: SegmentId, offset: u64) -> u32 {
        placed(crc32c::crc32c(block), segment, offset)
    }

    /// Returns the record of `bytes`, stored as is.
    pub fn of(bytes: &[u8], segment: SegmentId, offset: u64) -> ExtentRecord {
        let blocks: Vec<u32> = bytes.chunks(BLOCK).map(crc32c::crc32c).collect();
        ExtentRecord::new(&blocks, bytes.len(), segment, offset)
    }

    /// Returns the record of bytes stored as is, given the CRC32C of each [`BLOCK`] of them.
    pub fn new(blocks: &[u32], length: usize, segment: SegmentId, offset: u64) -> ExtentRecord {
        let length = u32::try_from(length).expect("extents are far below 4 GiB");
        let places = (offset..).step_by(BLOCK);
        let checksums = blocks.iter().zip(places).map(|(crc, place)| placed(*crc, segment, place)).collect();
        ExtentRecord {
            segment,
            offset,
            stored: length,
            length,
            transform: 0,
            tier: 0,
            references: References::Each(1),
            kept: Kept::Whole,
            checksums,
        }
    }

    /// Returns the record of an extent of `length` bytes that stores only the parts in `kept`, at the location that `self` gives.
    pub fn keeping(self, kept: Kept, length: u32) -> ExtentRecord {
        debug_assert_eq!(kept.bytes(length), self.stored);
        ExtentRecord { kept, length, ..self }
    }

    /// Returns the stored bytes that mappings name with these references; all, if that is unknown.
    pub fn live_bytes(&self, references: &References) -> u32 {
        match references {
            References::Each(0) => 0,
            References::Each(_) | References::Unknown => self.stored,
            References::Runs(_) => {
                let runs = references.runs(sectors(self.length)).filter(|(_, count)| *count > 0);
                runs.map(|(span, _)| span.length(self.length)).sum()
            }
        }
    }

    /// Returns what is stored of bytes `[from, to)` of the extent, in their order.
    pub fn pieces(&self, from: u32, to: u32) -> impl Iterator<Item = Piece> + '_ {
        let mut next = 0;
        let stored = self.kept.spans(self.length).map(move |span| {
            let bytes = span.bytes(self.length);
            let at = next;
            next += span.length(self.length);
            (bytes, at)
        });
        stored.filter_map(move |(bytes, at)| {
            let (start, end) = (bytes.start.max(from), bytes.end.min(to));
            let piece = || Piece { start, end, stored: at + (start - bytes.start) };
            (start < end).then(piece)
        })
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(38 + 4 * self.checksums.len());
        self.encode_into(&self.references, &mut out);
        out
    }

    /// Appends the encoded record, with these references.
    pub fn encode_into(&self, references: &References, out: &mut Vec<u8>) {
        out.u64(self.segment.0);
        out.u64(self.offset);
        out.u32(self.stored);
        out.u32(self.length);
        out.u8(self.transform);
        out.u8(self.tier);
        references.encode_into(out);
        self.kept.encode_into(out);
        for checksum in &self.checksums {
            out.u32(*checksum);
        }
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<ExtentRecord, Malformed> {
        let mut r = Reader::new(bytes, "extent record");
        let (segment, offset, stored, length) = (SegmentId(r.u64()?), r.u64()?, r.u32()?, r.u32()?);
        let (transform, tier) = (r.u8()?, r.u8()?);
        let references = References::decode(&mut r, length)?;
        let kept = Kept::decode(&mut r, length)?;
        let mut checksums = Vec::with_capacity(bytes.len() / size_of::<u32>());
        while !r.is_at_end() {
            checksums.push(r.u32()?);
        }
        let blocks = u64::from(stored).div_ceil(BLOCK as u64);
        if checksums.len() as u64 != blocks || transform != 0 || tier != 0 {
            return Err(r.malformed());
        }
        if stored != kept.bytes(length) || offset.checked_add(u64::from(stored)).is_none() {
            return Err(r.malformed());
        }
        Ok(ExtentRecord { segment, offset, stored, length, transform, tier, references, kept, checksums })
    }
}

/// A stored part of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its first byte in the extent.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
    /// Where its first byte is among the stored bytes.
    pub stored: u32,
}

/// Continues the CRC32C of a block over its location.
fn placed(crc: u32, segment: SegmentId, offset: u64) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&segment.0.to_be_bytes());
    place[8..].copy_from_slice(&offset.to_be_bytes());
    crc32c::crc32c_append(crc, &place)
}

/// A segment, as of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentRecord {
    /// Allocated bytes.
    pub capacity: u64,
    /// Stored bytes of its extents in the extent table that mappings name.
    pub live: u64,
}

impl SegmentRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        out.u64(self.capacity);
        out.u64(self.live);
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<SegmentRecord, Malformed> {
        let mut r = Reader::new(bytes, "segment record");
        let record = SegmentRecord { capacity: r.u64()?, live: r.u64()? };
        r.finish()?;
        Ok(record)
    }
}

/// Precedes each extent in its segment, so that a segment can be read without the index: 24 bytes, magic, extent id,
/// length and a CRC32C of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentHeader {
    /// The extent that follows.
    pub id: ExtentId,
    /// Its stored bytes.
    pub length: u32,
}

impl ExtentHeader {
    /// Bytes of a header.
    pub const BYTES: usize = 24;
    const MAGIC: [u8; 8] = *b"HfExtent";

    /// Encodes the header.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = Vec::with_capacity(Self::BYTES);
        out.bytes(&Self::MAGIC);
        out.u64(self.id.0);
        out.u32(self.length);
        out.u32(crc32c::crc32c(&out));
        out.try_into().expect("the fields above are 24 bytes")
    }

    /// Decodes a header; `None` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Option<ExtentHeader> {
        let bytes = bytes.get(..Self::BYTES)?;
        let mut r = Reader::new(bytes, "extent header");
        if r.array::<8>().ok()? != Self::MAGIC {
            return None;
        }
        let header = ExtentHeader { id: ExtentId(r.u64().ok()?), length: r.u32().ok()? };
        (r.u32().ok()? == crc32c::crc32c(&bytes[..Self::BYTES - 4])).then_some(header)
    }
}
