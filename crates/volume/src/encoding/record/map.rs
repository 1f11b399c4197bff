//! Extent mappings: which bytes of a file lie where. The key holds the end of the range, so that the mapping that
//! covers an offset is the first one whose key is greater.

use std::sync::Arc;

use crate::api::ids::ExtentId;
use crate::bytes::Value;
use crate::encoding::codec::{Malformed, Reader, Write};

/// Where the bytes of a mapping are. Inline bytes are owned, or borrowed as `&[u8]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<B = Arc<[u8]>> {
    /// In this record, until a checkpoint moves them to a segment.
    Inline(B),
    /// In an extent, from `offset` bytes into it.
    Extent {
        /// Which extent.
        id: ExtentId,
        /// Where in the extent the mapping begins.
        offset: u32,
    },
    /// Nowhere: the mapping hides what older layers have there, until a checkpoint removes both from the index.
    Hole,
    /// Unknown for ever: the range had data, or may have had, and a repair found no record of where it lay.
    Lost,
}

/// A mapping of a range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentMapping<B = Arc<[u8]>> {
    /// Offset in the file at which it begins.
    pub start: u64,
    /// The file's truncation count when it was written.
    pub birth: u32,
    /// Where the bytes are.
    pub source: Source<B>,
}

/// Bytes of a record before its source.
const HEAD_BYTES: usize = 13;

/// Bytes of an extent's id and an offset in it.
const PLACE_BYTES: usize = 12;

impl<B: AsRef<[u8]>> ExtentMapping<B> {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_bytes());
        self.encode_into(&mut out);
        out
    }

    /// Returns the length of the encoded record.
    pub fn encoded_bytes(&self) -> usize {
        HEAD_BYTES
            + match &self.source {
                Source::Inline(bytes) => bytes.as_ref().len(),
                Source::Extent { .. } => PLACE_BYTES,
                Source::Hole | Source::Lost => 0,
            }
    }

    /// Appends the encoded record.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.u64(self.start);
        out.u32(self.birth);
        match &self.source {
            Source::Inline(bytes) => {
                out.u8(0);
                out.bytes(bytes.as_ref());
            }
            Source::Extent { id, offset } => {
                out.u8(1);
                out.u64(id.0);
                out.u32(*offset);
            }
            Source::Hole => out.u8(2),
            Source::Lost => out.u8(3),
        }
    }

    /// Returns the same mapping with owned inline data.
    pub fn to_owned(&self) -> ExtentMapping {
        let source = match &self.source {
            Source::Inline(bytes) => Source::Inline(bytes.as_ref().into()),
            Source::Extent { id, offset } => Source::Extent { id: *id, offset: *offset },
            Source::Hole => Source::Hole,
            Source::Lost => Source::Lost,
        };
        ExtentMapping { start: self.start, birth: self.birth, source }
    }
}

impl ExtentMapping {
    /// Returns the start of an encoded mapping that ends at `end`, without decoding the rest. Only a mapping with
    /// inline data exceeds the length of the others, and then its length gives the start: its data, which may have
    /// left the processor's cache, is not read.
    pub fn start_of(end: u64, value: &Value) -> Option<u64> {
        if value.length() > HEAD_BYTES + PLACE_BYTES {
            return end.checked_sub((value.length() - HEAD_BYTES) as u64);
        }
        Some(u64::from_be_bytes(*value.first_chunk::<8>()?))
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<ExtentMapping, Malformed> {
        Ok(ExtentMapping::borrow(bytes)?.to_owned())
    }
}

impl<'a> ExtentMapping<&'a [u8]> {
    /// Decodes a record without copying inline data, which is the end of `bytes`.
    pub fn borrow(bytes: &'a [u8]) -> Result<ExtentMapping<&'a [u8]>, Malformed> {
        let mut r = Reader::new(bytes, "map record");
        let (start, birth) = (r.u64()?, r.u32()?);
        let source = match r.u8()? {
            0 => Source::Inline(r.rest()),
            1 => Source::Extent { id: ExtentId(r.u64()?), offset: r.u32()? },
            2 => Source::Hole,
            3 => Source::Lost,
            _ => return Err(r.malformed()),
        };
        r.finish()?;
        Ok(ExtentMapping { start, birth, source })
    }
}

/// How many mappings of a volume's files the index has, those of removed files included that are not freed yet. Only checkpoints
/// write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapCountRecord {
    /// Their number.
    pub mappings: u64,
}

impl MapCountRecord {
    /// Encodes the record.
    pub fn encode(&self) -> [u8; 8] {
        self.mappings.to_be_bytes()
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// Damage, or another release's format.
    pub fn decode(bytes: &[u8]) -> Result<MapCountRecord, Malformed> {
        let mappings = bytes.try_into().map_err(|_| Malformed("map count record"))?;
        Ok(MapCountRecord { mappings: u64::from_be_bytes(mappings) })
    }
}
