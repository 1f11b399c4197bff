//! Records about the whole: the pool, usage, cached replies.

use std::sync::Arc;

use crate::api::ids::{ExtentId, Generation, PoolId, SegmentId, Seq, VolumeNumber};
use crate::api::time::Time;
use crate::encoding::anchor::Anchor;
use crate::encoding::codec::{Malformed, Reader, Write};

/// The one record about a pool: what a checkpoint covered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaRecord {
    /// Identity of the pool.
    pub pool: PoolId,
    /// Generation in which the checkpoint was made.
    pub generation: Generation,
    /// Number of the next volume.
    pub next_volume: VolumeNumber,
    /// Next extent.
    pub next_extent: ExtentId,
    /// Next segment.
    pub next_segment: SegmentId,
    /// No later time was handed out before the checkpoint.
    pub time_ceiling: Time,
    /// Where the journal continues after this checkpoint.
    pub anchor: Anchor,
}

impl MetaRecord {
    /// The format of records that this release reads and writes.
    pub const FORMAT: u32 = 11;

    /// Returns the format of a stored record, whatever follows; `None` if it is too short.
    pub fn format_of(bytes: &[u8]) -> Option<u32> {
        Some(u32::from_be_bytes(*bytes.first_chunk()?))
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.u32(MetaRecord::FORMAT);
        out.u64(self.pool.0);
        out.u32(self.generation.0);
        out.u32(self.next_volume.0);
        out.u64(self.next_extent.0);
        out.u64(self.next_segment.0);
        out.i64(self.time_ceiling.nanos());
        out.bytes(&self.anchor.to_bytes());
        out
    }

    /// Decodes a record; another format is refused by its number, whatever follows.
    pub fn decode(bytes: &[u8]) -> Result<MetaRecord, Malformed> {
        let mut r = Reader::new(bytes, "meta record");
        if r.u32()? != MetaRecord::FORMAT {
            return Err(Malformed("meta record: a format of another release"));
        }
        Ok(MetaRecord {
            pool: PoolId(r.u64()?),
            generation: Generation(r.u32()?),
            next_volume: VolumeNumber(r.u32()?),
            next_extent: ExtentId(r.u64()?),
            next_segment: SegmentId(r.u64()?),
            time_ceiling: Time::from_nanos(r.i64()?),
            anchor: Anchor::from_bytes(r.rest()).ok_or(Malformed("journal anchor"))?,
        })
    }
}

/// The usage of one owner of a [`QuotaKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageRecord {
    /// Bytes of file data, not counting holes, and of extended attributes.
    pub bytes: u64,
    /// Objects.
    pub inodes: u64,
}

impl UsageRecord {
    /// Returns it after a change; it stays within what there can be.
    pub fn changed(self, bytes: i64, inodes: i64) -> UsageRecord {
        UsageRecord {
            bytes: self.bytes.saturating_add_signed(bytes),
            inodes: self.inodes.saturating_add_signed(inodes),
        }
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        out.u64(self.bytes);
        out.u64(self.inodes);
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<UsageRecord, Malformed> {
        let mut r = Reader::new(bytes, "usage record");
        let record = UsageRecord { bytes: r.u64()?, inodes: r.u64()? };
        r.finish()?;
        Ok(record)
    }
}

/// A cached reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyRecord {
    /// When it was given.
    pub time: Time,
    /// Sequence of the entry with the request's effect.
    pub seq: Seq,
    /// The encoded result.
    pub answer: Arc<[u8]>,
}

impl ReplyRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.answer.len());
        out.i64(self.time.nanos());
        out.u64(self.seq.0);
        out.bytes(&self.answer);
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<ReplyRecord, Malformed> {
        let mut r = Reader::new(bytes, "reply record");
        Ok(ReplyRecord { time: Time::from_nanos(r.i64()?), seq: Seq(r.u64()?), answer: r.rest().into() })
    }
}
