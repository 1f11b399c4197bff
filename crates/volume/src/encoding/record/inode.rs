//! The inode record: everything about a file but its names and data.

use crate::api::attributes::{Attributes, Device, FileType};
use crate::api::ids::{Cookie, Ino};
use crate::api::time::Time;
use crate::encoding::codec::{Malformed, Reader, Write};

/// A truncation whose dead mappings may still be in the map: it hides older mappings at and after offset `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingTruncation {
    /// The size that the file was truncated to, bytes.
    pub from: u64,
    /// The file's truncation count after it: mappings born under a smaller count are hidden.
    pub count: u32,
}

/// An inode as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeRecord {
    /// File type.
    pub file_type: FileType,
    /// Low 12 bits of `st_mode`.
    pub mode: u16,
    /// Link count; a directory has 2 and one for each subdirectory.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; of a directory, zero.
    pub size: u64,
    /// Mapped bytes.
    pub used: u64,
    /// No mapping extends beyond this offset.
    pub mapped_end: u64,
    /// Device numbers.
    pub device: Device,
    /// Last read.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change at all.
    pub ctime: Time,
    /// Version.
    pub change: u64,
    /// For a directory: its parent; the root is its own. Zero for other objects.
    pub parent: Ino,
    /// For a directory: the next cookie to hand out.
    pub next_cookie: Cookie,
    /// For a directory: the number of its names, not counting `.` and `..`.
    pub entries: u64,
    /// Quota tree that it belongs to; zero is none.
    pub tree: u64,
    /// Verifier of the exclusive CREATE that made it, until it is changed by SETATTR.
    pub create_verifier: Option<[u8; 8]>,
    /// Number of truncations.
    pub truncations: u32,
    /// Truncations not yet cleared out of the map, oldest first; both `from` and `count` increase.
    pub pending_truncations: Vec<PendingTruncation>,
    /// Number of extended attributes.
    pub xattrs: u32,
    /// Bytes of them that count towards [`crate::limits::XATTR_BYTES_PER_FILE_MAX`].
    pub xattr_bytes: u32,
}

/// Bytes that each name adds to the visible size of a directory.
const BYTES_PER_NAME_SHOWN: u64 = 32;

impl InodeRecord {
    /// Returns the bytes that count as usage of the volume and of its owners: mapped bytes, and extended attributes.
    pub fn usage_bytes(&self) -> u64 {
        self.used.saturating_add(self.xattr_bytes.into())
    }

    /// Returns how many objects it counts as in the usage of its volume: one, and one for each name beyond the first.
    pub fn usage_objects(&self) -> u64 {
        match self.file_type {
            FileType::Directory => 1,
            _ => u64::from(self.links.max(1)),
        }
    }

    /// Returns the attributes that GETATTR shows.
    pub fn attributes(&self, ino: Ino) -> Attributes {
        let size = match self.file_type {
            FileType::Directory => self.entries.saturating_add(2).saturating_mul(BYTES_PER_NAME_SHOWN),
            _ => self.size,
        };
        Attributes {
            ino,
            file_type: self.file_type,
            mode: self.mode,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            size,
            used: if self.file_type == FileType::Directory {
                size.saturating_add(self.xattr_bytes.into())
            } else {
                self.usage_bytes()
            },
            device: self.device,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            change: self.change,
        }
    }

    /// Whether another truncation can be told from all before it. After 2^32 - 1 of them it cannot.
    pub fn can_be_truncated(&self) -> bool {
        self.truncations < u32::MAX
    }

    /// Records a truncation to `from`, and drops pending ones that it makes superfluous. The caller has checked that it
    /// [can be truncated](InodeRecord::can_be_truncated).
    pub fn truncate(&mut self, from: u64) {
        debug_assert!(self.can_be_truncated(), "it hides nothing that the one before does not");
        self.truncations = self.truncations.saturating_add(1);
        self.pending_truncations.retain(|cut| cut.from < from);
        self.pending_truncations.push(PendingTruncation { from, count: self.truncations });
    }

    /// Returns the upper bound of the visible end of a mapping born under `birth` truncations.
    pub fn visible_end(&self, birth: u32) -> u64 {
        // Later ones hide less.
        let first = self.pending_truncations.partition_point(|cut| cut.count <= birth);
        self.pending_truncations.get(first).map_or(u64::MAX, |cut| cut.from)
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        out.u8(type_byte(self.file_type));
        out.u16(self.mode);
        for word in [self.links, self.uid, self.gid, self.device.major, self.device.minor, self.truncations] {
            out.u32(word);
        }
        for time in [self.atime, self.mtime, self.ctime] {
            out.i64(time.nanos());
        }
        for word in [self.size, self.used, self.mapped_end, self.change] {
            out.u64(word);
        }
        for word in [self.parent.0, self.next_cookie.0, self.entries, self.tree] {
            out.u64(word);
        }
        out.u8(u8::from(self.create_verifier.is_some()));
        out.bytes(&self.create_verifier.unwrap_or_default());
        out.u16(
            u16::try_from(self.pending_truncations.len())
                .expect("a cut removes those that it dominates, checkpoints the others"),
        );
        for cut in &self.pending_truncations {
            out.u64(cut.from);
            out.u32(cut.count);
        }
        if self.xattrs > 0 {
            out.u32(self.xattrs);
            out.u32(self.xattr_bytes);
        }
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<InodeRecord, Malformed> {
        let mut reader = Reader::new(bytes, "inode record");
        let r = &mut reader;
        let file_type = type_from_byte(r.u8()?).ok_or(r.malformed())?;
        let mode = r.u16()?;
        let (links, uid, gid) = (r.u32()?, r.u32()?, r.u32()?);
        let device = Device { major: r.u32()?, minor: r.u32()? };
        let truncations = r.u32()?;
        let times = [r.i64()?, r.i64()?, r.i64()?].map(Time::from_nanos);
        let mut record = InodeRecord {
            file_type,
            mode,
            links,
            uid,
            gid,
            device,
            truncations,
            atime: times[0],
            mtime: times[1],
            ctime: times[2],
            size: r.u64()?,
            used: r.u64()?,
            mapped_end: r.u64()?,
            change: r.u64()?,
            parent: Ino(r.u64()?),
            next_cookie: Cookie(r.u64()?),
            entries: r.u64()?,
            tree: r.u64()?,
            create_verifier: decode_verifier(r)?,
            pending_truncations: decode_pending_truncations(r)?,
            xattrs: 0,
            xattr_bytes: 0,
        };
        if !r.is_at_end() {
            (record.xattrs, record.xattr_bytes) = (r.u32()?, r.u32()?);
            if record.xattrs == 0 {
                return Err(r.malformed());
            }
        }
        reader.finish()?;
        Ok(record)
    }
}

fn decode_verifier(reader: &mut Reader<'_>) -> Result<Option<[u8; 8]>, Malformed> {
    let present = reader.u8()?;
    let bytes = reader.array::<8>()?;
    match present {
        0 => Ok(None),
        1 => Ok(Some(bytes)),
        _ => Err(reader.malformed()),
    }
}

fn decode_pending_truncations(reader: &mut Reader<'_>) -> Result<Vec<PendingTruncation>, Malformed> {
    let count = reader.u16()?;
    (0..count).map(|_| Ok(PendingTruncation { from: reader.u64()?, count: reader.u32()? })).collect()
}

const TYPES: [FileType; 7] = [
    FileType::Regular,
    FileType::Directory,
    FileType::Block,
    FileType::Character,
    FileType::Symlink,
    FileType::Socket,
    FileType::Fifo,
];

/// Numbers of file types in records: those of `ftype3`.
pub(crate) fn type_byte(file_type: FileType) -> u8 {
    match file_type {
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::Block => 3,
        FileType::Character => 4,
        FileType::Symlink => 5,
        FileType::Socket => 6,
        FileType::Fifo => 7,
    }
}

/// Returns the file type of a number.
pub(crate) fn type_from_byte(byte: u8) -> Option<FileType> {
    TYPES.get(usize::from(byte.checked_sub(1)?)).copied()
}

/// How far a checkpoint has come in freeing what truncations of a file hid; of a removed file it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReapRecord {
    /// Before this offset the map holds nothing that is hidden,
    pub offset: u64,
    /// by truncations up to this count.
    pub truncations: u32,
}

impl ReapRecord {
    /// Returns the offset from which the map of a file must be looked at.
    pub fn resume(&self, record: &InodeRecord) -> u64 {
        let cuts = record.pending_truncations.iter();
        let from =
            cuts.map(|cut| if cut.count <= self.truncations { cut.from.max(self.offset) } else { cut.from });
        from.min().unwrap_or(u64::MAX)
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        out.u64(self.offset);
        out.u32(self.truncations);
        out
    }

    /// Decodes a record; an empty one is that of a file that no checkpoint has looked at.
    ///
    /// # Errors
    /// Damage, or another release's format.
    pub fn decode(bytes: &[u8]) -> Result<ReapRecord, Malformed> {
        if bytes.is_empty() {
            return Ok(ReapRecord::default());
        }
        let mut r = Reader::new(bytes, "reap record");
        let record = ReapRecord { offset: r.u64()?, truncations: r.u32()? };
        r.finish()?;
        Ok(record)
    }
}
