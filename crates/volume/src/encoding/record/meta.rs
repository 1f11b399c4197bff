//! Records about the whole: the family, usage, cached replies.

use std::sync::Arc;

use crate::api::ids::{Epoch, ExtentId, Generation, Ino, SegmentId, Seq, VolumeId};
use crate::api::time::Time;
use crate::encoding::anchor::Anchor;
use crate::encoding::codec::{Malformed, Reader, Write};

/// The one record about a family: what a checkpoint covered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaRecord {
    /// Format of all records: from [`MetaRecord::FORMAT_FIRST`] to [`MetaRecord::FORMAT`].
    pub format: u32,
    /// Identity of the volume.
    pub volume: VolumeId,
    /// Key of its handles.
    pub handle_secret: [u8; 16],
    /// Current epoch.
    pub epoch: Epoch,
    /// Generation in which the checkpoint was made.
    pub generation: Generation,
    /// Next inode number.
    pub next_ino: Ino,
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
    /// The format of a new volume, which every release knows.
    pub const FORMAT_FIRST: u32 = 1;
    /// The format of a volume that has held state of clients or orphans; formerly also extended attributes.
    const FORMAT_2: u32 = 2;
    /// The format of a volume whose index has lost ranges: other releases would take their records for absent.
    pub const FORMAT_LOST: u32 = 3;
    /// The format of a volume whose usage counters include its extended attributes; in older formats they may not. Only
    /// volumes that have held such attributes have it.
    pub const FORMAT_XATTRS_COUNTED: u32 = 4;
    /// The newest format that this release reads and writes. A volume never returns to an older format.
    pub const FORMAT: u32 = MetaRecord::FORMAT_XATTRS_COUNTED;

    /// Returns the least format of a volume with records of this table. A release that does not know the table would
    /// ignore the records, and let them become inconsistent with what it changes.
    pub fn format_of(table: crate::encoding::key::Table) -> u32 {
        match table {
            crate::encoding::key::Table::Xattr => MetaRecord::FORMAT_XATTRS_COUNTED,
            crate::encoding::key::Table::State | crate::encoding::key::Table::Orphan => MetaRecord::FORMAT_2,
            _ => MetaRecord::FORMAT_FIRST,
        }
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.u32(self.format);
        out.u64(self.volume.0);
        out.bytes(&self.handle_secret);
        out.u32(self.epoch.0);
        out.u32(self.generation.0);
        out.u64(self.next_ino.0);
        out.u64(self.next_extent.0);
        out.u64(self.next_segment.0);
        out.i64(self.time_ceiling.nanos());
        out.bytes(&self.anchor.to_bytes());
        out
    }

    /// Decodes a record; another format is refused by its number, whatever follows.
    pub fn decode(bytes: &[u8]) -> Result<MetaRecord, Malformed> {
        let mut r = Reader::new(bytes, "meta record");
        let format = r.u32()?;
        if !(MetaRecord::FORMAT_FIRST..=MetaRecord::FORMAT).contains(&format) {
            return Err(Malformed("meta record: a format of another release"));
        }
        Ok(MetaRecord {
            format,
            volume: VolumeId(r.u64()?),
            handle_secret: r.array()?,
            epoch: Epoch(r.u32()?),
            generation: Generation(r.u32()?),
            next_ino: Ino(r.u64()?),
            next_extent: ExtentId(r.u64()?),
            next_segment: SegmentId(r.u64()?),
            time_ceiling: Time::from_nanos(r.i64()?),
            anchor: Anchor::from_bytes(r.rest()).ok_or(Malformed("journal anchor"))?,
        })
    }
}

/// Whose usage is counted. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UsageKind {
    /// The volume; its id is 0.
    Volume,
    /// A quota tree.
    Tree,
    /// A user.
    User,
    /// A group.
    Group,
}

impl UsageKind {
    /// Returns the number of the kind.
    pub fn byte(self) -> u8 {
        match self {
            UsageKind::Volume => 0,
            UsageKind::Tree => 1,
            UsageKind::User => 2,
            UsageKind::Group => 3,
        }
    }

    /// Returns the kind of a number.
    pub fn from_byte(byte: u8) -> Option<UsageKind> {
        [UsageKind::Volume, UsageKind::Tree, UsageKind::User, UsageKind::Group]
            .get(usize::from(byte))
            .copied()
    }
}

/// The usage of one owner of a [`UsageKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageRecord {
    /// Bytes of file data, not counting holes, and of extended attributes.
    pub bytes: u64,
    /// Objects.
    pub inodes: u64,
}

impl UsageRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20);
        out.u32(0);
        out.u64(self.bytes);
        out.u64(self.inodes);
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<UsageRecord, Malformed> {
        let mut r = Reader::new(bytes, "usage record");
        r.u32()?;
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
