//! Results of operations, one type per shape of RFC 1813's results.

use std::sync::Arc;

use crate::api::attributes::{Attributes, FileType, SetAttributes, Wcc};
use crate::api::ids::{Cookie, Ino, VolumeId, VolumeNumber};
use crate::api::request::Error;
use crate::bytes::{Bytes, Slice};

/// A LOOKUP's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub attributes: Attributes,
    /// The directory it was looked up in.
    pub directory: Attributes,
}

/// The held object of a name that is about to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundHeld {
    /// The object, and what the caller may do with it.
    pub object: Accessible,
    /// The directory it was looked up in.
    pub directory: Attributes,
}

/// Result of CREATE, MKDIR, SYMLINK and MKNOD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The new object, or the existing one of an unchecked or repeated exclusive create.
    pub attributes: Attributes,
    /// Its directory, before and after.
    pub directory: Wcc,
    /// Whether this call made it.
    pub is_new: bool,
}

/// Result of REMOVE and RMDIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The directory, before and after.
    pub directory: Wcc,
    /// The object that lost its name.
    pub object: Ino,
}

/// Result of RENAME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The source directory.
    pub from: Wcc,
    /// The target directory; the same as `from` for a rename within one.
    pub to: Wcc,
    /// The renamed object.
    pub object: Ino,
    /// The object that lost this name.
    pub replaced: Option<Ino>,
}

/// Result of LINK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The object with its new link count.
    pub attributes: Attributes,
    /// The directory of the new name.
    pub directory: Wcc,
}

/// Result of READLINK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    /// Where the link points; any bytes but NUL.
    pub target: Arc<[u8]>,
    /// The link.
    pub attributes: Attributes,
}

/// A run of bytes that READ returns, in file order.
#[derive(Clone, Debug)]
pub enum Piece {
    /// `bytes[start..end]`, verified when it came from media.
    Data {
        /// A buffer that holds them, shared with a cache.
        bytes: Bytes,
        /// Where the run begins in it.
        start: usize,
        /// Where it ends.
        end: usize,
    },
    /// A hole: this many zeros.
    Zeros(usize),
}

impl ReadData {
    /// Whether the bytes have no holes, and are in pieces of at least `bytes` on average.
    pub fn is_in_long_pieces(&self, bytes: usize) -> bool {
        let is_data = |piece: &Piece| matches!(piece, Piece::Data { .. });
        self.pieces.len().saturating_mul(bytes) <= self.count + bytes && self.pieces.iter().all(is_data)
    }
}

impl Piece {
    /// Bytes in this piece.
    pub fn len(&self) -> usize {
        match self {
            Piece::Data { start, end, .. } => end - start,
            Piece::Zeros(length) => *length,
        }
    }

    /// Whether the piece has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes; `None` for a hole. If they are less than half of their buffer, they are copied, since a slice keeps all of its
    /// buffer in memory until a client has taken it.
    pub fn into_slice(self) -> Option<Slice> {
        match self {
            Piece::Data { bytes, start, end } if bytes.len() > 2 * (end - start) => {
                Some(Bytes::from(&bytes[start..end]).into())
            }
            Piece::Data { bytes, start, end } => Some(Slice::new(bytes, start..end)),
            Piece::Zeros(_) => None,
        }
    }
}

/// Result of READ.
#[derive(Clone, Debug)]
pub struct ReadData {
    /// The bytes.
    pub pieces: Vec<Piece>,
    /// Bytes in all pieces.
    pub count: usize,
    /// Whether they end at the end of the file.
    pub eof: bool,
    /// The file.
    pub attributes: Attributes,
}

/// How stable a WRITE is to be, or was made (RFC 1813 section 3.3.7 `stable_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// In memory; a COMMIT makes it stable.
    Unstable,
    /// Data, and the metadata to find it, on stable media. This engine makes it the same as `FileSync`.
    DataSync,
    /// Data and all metadata on stable media.
    FileSync,
}

/// Tells a client whether unstable data may have been lost: it changes whenever that may have happened (RFC 1813
/// section 3.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteVerifier(pub [u8; 8]);

/// Result of WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes written: always all that were offered.
    pub count: u32,
    /// How stable they are when the reply leaves.
    pub committed: Stability,
    /// The verifier in force when the data was accepted.
    pub verifier: WriteVerifier,
    /// The file, before and after.
    pub file: Wcc,
}

/// Result of CLONE and COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cloned {
    /// Bytes shared, from the start of the range; may be fewer than asked for.
    pub count: u64,
    /// The target file, before and after.
    pub file: Wcc,
}

/// Whether setting an extended attribute requires that it exists (RFC 8276 section 8.4.2 `setxattr_option4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    /// Creates or replaces it.
    Either,
    /// Fails if it exists.
    Create,
    /// Fails unless it exists.
    Replace,
}

/// Result of LISTXATTRS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrNames {
    /// Names, without the prefix `user.`.
    pub names: Vec<Box<[u8]>>,
    /// Whether the last of them is the last of the file.
    pub end: bool,
}

/// What SEEK looks for (RFC 7862 section 11.11 `data_content4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoughtContent {
    /// A range with data.
    Data,
    /// A range without data.
    Hole,
}

/// Result of SEEK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// The offset at which it begins. The end of the file counts as the start of a hole.
    At(u64),
    /// Not before this offset, which is beyond the one asked for. The caller continues there.
    NotBefore(u64),
    /// None up to the end of the file.
    End,
    /// The search began at or beyond the end of the file (NFS4ERR_NXIO).
    Beyond,
}

/// Result of DEALLOCATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punched {
    /// Bytes of the range, from its start, that are a hole now. The caller continues after them.
    pub count: u64,
    /// The file.
    pub file: Wcc,
}

/// Result of COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The verifier in force.
    pub verifier: WriteVerifier,
    /// The file; a COMMIT changes nothing that shows.
    pub file: Wcc,
}

/// How CREATE creates (RFC 1813 section 3.3.8 `createhow3`), and OPEN (RFC 8881 section 18.16 `createhow4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// Accepts an existing file, and sets only its size, if one is given.
    Unchecked(SetAttributes),
    /// The same, provided the name still refers to the given object (`None`: to nothing). Otherwise nothing changes
    /// and the result is [`Error::ObjectBusy`](crate::api::request::Error::ObjectBusy): look the name up again.
    UncheckedIf(SetAttributes, Option<Ino>),
    /// Fails if the name exists.
    Guarded(SetAttributes),
    /// Fails if the name exists, unless it was created with the same verifier.
    Exclusive([u8; 8]),
    /// The same, with attributes (EXCLUSIVE4_1 of RFC 8881 section 18.16). They are set when the file is created; a
    /// repetition finds them set.
    ExclusiveWith([u8; 8], SetAttributes),
}

/// The kind of node that MKNOD makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Block device.
    Block(crate::api::attributes::Device),
    /// Character device.
    Character(crate::api::attributes::Device),
    /// UNIX-domain socket.
    Socket,
    /// Named pipe.
    Fifo,
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it names.
    pub ino: Ino,
    /// READDIR continues after it with this.
    pub cookie: Cookie,
    /// The name: 1 to 255 bytes, no `/` and no NUL; `.` and `..` come first.
    pub name: Arc<[u8]>,
    /// Attributes, when they were asked for, the object is still there, and its record can be read.
    pub attributes: Option<Attributes>,
    /// Why attributes that were asked for are not given: `Io` if they cannot be read, `AccessDenied` if the caller may not search
    /// the directory.
    pub withheld: Option<Error>,
}

impl Entry {
    /// Returns a name, without attributes.
    pub(crate) fn new(ino: Ino, cookie: Cookie, name: Arc<[u8]>) -> Entry {
        Entry { ino, cookie, name, attributes: None, withheld: None }
    }
}

/// Result of READDIR and READDIRPLUS.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Names in cookie order.
    pub entries: Vec<Entry>,
    /// Whether the last of them is the last of the directory.
    pub end: bool,
    /// Whether the caller may look the names up.
    pub may_search: bool,
    /// The directory.
    pub directory: Attributes,
}

/// Permissions that ACCESS asks about, as bits of RFC 1813 section 3.3.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessMask(pub u32);

impl AccessMask {
    /// Read data, or list a directory.
    pub const READ: u32 = 0x01;
    /// Look up a name in a directory.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite existing data or names.
    pub const MODIFY: u32 = 0x04;
    /// Add data or names.
    pub const EXTEND: u32 = 0x08;
    /// Remove a name from a directory.
    pub const DELETE: u32 = 0x10;
    /// Execute a file.
    pub const EXECUTE: u32 = 0x20;
}

/// Result of ACCESS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessible {
    /// The bits that are granted, of those asked.
    pub granted: AccessMask,
    /// The object.
    pub attributes: Attributes,
}

/// Result of FSSTAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Bytes in all.
    pub bytes_total: u64,
    /// Bytes free.
    pub bytes_free: u64,
    /// Objects that there can be.
    pub inodes_total: u64,
    /// Of these, not used.
    pub inodes_free: u64,
    /// Bytes of data in files, holes left out.
    pub bytes_used: u64,
    /// Objects.
    pub inodes_used: u64,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// Its type; none if its record cannot be read.
    pub file_type: Option<FileType>,
    /// Its path from the root directory, `/`; none if it is not known. Names may have any bytes but NUL and `/`.
    pub path: Option<Arc<[u8]>>,
}

/// A volume in the list of its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeListing {
    /// Its name, unique among those that are not being deleted.
    pub name: String,
    /// Its number in the pool.
    pub number: VolumeNumber,
    /// Its identity.
    pub id: VolumeId,
    /// Most bytes that its files may use, if there is a limit.
    pub size: Option<u64>,
    /// Bytes that they use.
    pub bytes_used: u64,
    /// Objects.
    pub objects: u64,
    /// Whether it was deleted, and its space is being freed.
    pub is_being_deleted: bool,
}
