//! The seam below the engine: everything it requires of the outside world.
//!
//! A log and a random-access file (both [`RandomFile`]), append-only blobs for segments, and the [`Tenure`] of this process.
//! `store` implements them on a local directory, `sim` in memory with faults.
//!
//! # What an implementation promises
//! - A write is durable once a later `sync` of the same file returned `Ok`. Before that, a crash may keep any subset
//!   of its 512-byte sectors.
//! - After `sync` failed, everything written since the previous sync may be lost, whatever a later `sync` returns.
//! - Reads return what this process last wrote or, after a crash, what media hold; never cached pages that media
//!   refused.
//! - All methods may be called from any thread.

use std::borrow::Cow;
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use crate::api::ids::SegmentId;

#[cfg(any(test, feature = "memory"))]
pub mod memory;

pub use crate::bytes::AlignedBuffer;

/// The unit that a torn write keeps or loses as a whole, bytes.
pub const SECTOR_BYTES: u64 = 512;

/// Alignment of direct I/O: offsets and lengths of log and blob writes are multiples of it.
pub const BLOCK_BYTES: u64 = crate::bytes::BLOCK as u64;

/// Replaced indexes that are kept: the newest ones.
pub const DAMAGED_INDEXES_MAX: usize = 3;

/// Returns how many of the oldest files to delete, so that at least `bytes` are freed; `None` if all are too small.
#[must_use]
pub fn oldest_with(sizes: &[u64], bytes: u64) -> Option<usize> {
    let mut freed = 0_u64;
    let last = sizes.iter().position(|size| {
        freed = freed.saturating_add(*size);
        freed >= bytes
    });
    last.map(|last| last + 1)
}

/// Returns the parts of an append in one piece, for media in memory.
#[must_use]
pub fn concat<'p>(parts: &'p [IoSlice<'p>]) -> Cow<'p, [u8]> {
    match parts {
        [one] => Cow::Borrowed(one),
        several => Cow::Owned(several.iter().map(|part| &**part).collect::<Vec<_>>().concat()),
    }
}

/// A file that is read and written at any offset.
#[expect(
    clippy::len_without_is_empty,
    reason = "nobody asks: a log never is, an index is when it is created"
)]
/// A random-access file.
pub trait RandomFile: Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Grows or shrinks the file. New bytes are zero and physically allocated: fails with `StorageFull` now rather
    /// than later.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Fills `buffer` from `offset`; reading past the end is `UnexpectedEof`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, within the length.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes every completed write durable, including the length.
    fn sync(&self) -> io::Result<()>;
    /// Keeps at least `bytes` physically allocated beyond the length, so that growing by that much cannot fail.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
}

/// One segment's bytes: written once from front to back, then only read.
pub trait Blob: Send + Sync {
    /// Fills `buffer` from `offset`. Bytes between the written end and the capacity are unspecified, as a blob may
    /// reuse the file of a deleted one.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Fills several buffers, each from its offset. Media for which each read is a call to another machine make them at once.
    fn read_all(&self, pieces: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        pieces.iter_mut().try_for_each(|(offset, buffer)| self.read_at(*offset, buffer))
    }
    /// Writes `parts`, one after the other, at `offset`, where the last write ended. Offset and lengths are multiples of
    /// [`BLOCK_BYTES`]; so are the addresses in memory, or it may cost a copy.
    fn append(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()>;
    /// Makes every completed append durable, and the existence of the blob.
    fn sync(&self) -> io::Result<()>;
}

/// Space on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that may still be allocated.
    pub available: u64,
}

/// The media of a volume.
pub trait Media: Send + Sync {
    /// Returns the log, whose length was fixed when the volume was created. Reads bypass caches that could remember
    /// what media lost.
    fn log(&self) -> Arc<dyn RandomFile>;
    /// Returns the index file, which is empty at first.
    fn index(&self) -> Arc<dyn RandomFile>;
    /// Creates an empty file that may become the index. Deletes one that was created before and did not become the
    /// index, for instance because of a crash.
    fn create_index(&self) -> io::Result<Arc<dyn RandomFile>>;
    /// Makes the file of the last [`Media::create_index`] the index, atomically and durably; it was synced. A crash
    /// leaves the old index or the new one. Open files of the old one keep reading it, and it is kept under another
    /// name, as the last [`DAMAGED_INDEXES_MAX`] of them are: returns that name, if it is kept and has one. Fails with
    /// `StorageFull` if there is no room, before anything was changed; after any other error a crash may leave either.
    fn replace_index(&self) -> io::Result<Option<PathBuf>>;
    /// Deletes the file of the last [`Media::create_index`], if it has not become the index.
    fn discard_index(&self) -> io::Result<()>;
    /// Deletes replaced indexes, the oldest first, until that frees at least `bytes`; none if all of them do not take
    /// as much. Returns the bytes freed.
    fn free_damaged_indexes(&self, bytes: u64) -> io::Result<u64>;
    /// Creates a blob with `capacity` bytes physically allocated. Fails with `StorageFull` if there is no room, with
    /// `AlreadyExists` if the id is in use. Durable after the blob's first `sync`.
    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>>;
    /// Opens a blob for reading.
    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>>;
    /// Deletes a blob and frees its space; open readers keep reading. Fails with `NotFound` if it does not exist.
    fn delete_blob(&self, id: SegmentId) -> io::Result<()>;
    /// Lists all blobs.
    fn list_blobs(&self) -> io::Result<Vec<SegmentId>>;
    /// Returns the space on the device.
    fn space(&self) -> io::Result<Space>;
    /// Returns whether this process may still use the media. A pool whose tenure is lost refuses changes.
    fn tenure(&self) -> Tenure;
}

/// Whether a process may use media that another one could take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenure {
    /// It may.
    Held,
    /// It cannot tell for now: nothing that it knows may be told to clients until it holds the media again.
    Paused,
    /// Another process has the media, or nobody.
    Lost,
}
