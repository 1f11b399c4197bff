//! The inode record: everything about a file but its names and data.

use crate::api::attributes::{Attributes, Device, FileType};
use crate::api::ids::{Cookie, Epoch, Ino};
use crate::api::time::Time;
use crate::encoding::codec::{Malformed, Reader, Write};

/// A truncation whose victims may still be in the map: hides what an older piece of the map says about offsets at and
/// beyond `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingTruncation {
    /// The size to which the file was cut, in bytes.
    pub from: u64,
    /// The file's truncation count after it: pieces born under a smaller count are hidden.
    pub count: u32,
}

/// An inode as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeRecord {
    /// Epoch of birth of this value.
    pub epoch: Epoch,
    /// File type.
    pub file_type: FileType,
    /// Low 12 bits of `st_mode`.
    pub mode: u16,
    /// Names; a directory has 2 and one for each subdirectory.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; of a directory, zero.
    pub size: u64,
    /// Bytes that the map covers.
    pub used: u64,
    /// No piece of the map reaches beyond this offset.
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
    /// Of a directory: the directory that it is in; the root is in itself. Of other files zero.
    pub parent: Ino,
    /// Of a directory: the next cookie to hand out.
    pub next_cookie: Cookie,
    /// Of a directory: how many names it has, `.` and `..` not counted.
    pub entries: u64,
    /// Quota tree that it belongs to; zero is none.
    pub tree: u64,
    /// Verifier of the exclusive CREATE that made it, until it is changed by SETATTR.
    pub create_verifier: Option<[u8; 8]>,
    /// How often it was truncated.
    pub truncations: u32,
    /// Truncations not yet cleared out of the map, oldest first; `from` and `count` both grow.
    pub pending_truncations: Vec<PendingTruncation>,
    /// How many extended attributes it has.
    pub xattrs: u32,
    /// What they count towards their limit, bytes: see [`crate::limits::XATTR_BYTES_PER_FILE_MAX`].
    pub xattr_bytes: u32,
}

/// Bytes that a name adds to the size that a directory shows.
const BYTES_PER_NAME_SHOWN: u64 = 32;

impl InodeRecord {
    /// What GETATTR shows of it.
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
            used: if self.file_type == FileType::Directory { size } else { self.used },
            device: self.device,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            change: self.change,
        }
    }

    /// Records a truncation to `from`; cuts that it makes superfluous go.
    pub fn cut(&mut self, from: u64) {
        self.truncations += 1;
        self.pending_truncations.retain(|cut| cut.from < from);
        self.pending_truncations.push(PendingTruncation { from, count: self.truncations });
    }

    /// Where a piece of the map that was born under `birth` truncations ends, at the latest.
    pub fn visible_end(&self, birth: u32) -> u64 {
        self.pending_truncations
            .iter()
            .filter(|cut| cut.count > birth)
            .map(|cut| cut.from)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        out.u32(self.epoch.0);
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

    /// Takes its bytes apart.
    pub fn decode(bytes: &[u8]) -> Result<InodeRecord, Malformed> {
        let mut reader = Reader::new(bytes, "inode record");
        let r = &mut reader;
        let epoch = Epoch(r.u32()?);
        let file_type = type_from_byte(r.u8()?).ok_or(r.malformed())?;
        let mode = r.u16()?;
        let (links, uid, gid) = (r.u32()?, r.u32()?, r.u32()?);
        let device = Device { major: r.u32()?, minor: r.u32()? };
        let truncations = r.u32()?;
        let times = [r.i64()?, r.i64()?, r.i64()?].map(Time::from_nanos);
        let mut record = InodeRecord {
            epoch,
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

/// The file type of a number.
pub(crate) fn type_from_byte(byte: u8) -> Option<FileType> {
    TYPES.get(usize::from(byte.checked_sub(1)?)).copied()
}
