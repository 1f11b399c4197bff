//! The seam below the engine: all that it asks of the world.
//!
//! Four things: a log and a random-access file (both [`RandomFile`]), append-only blobs for segments, and a lease that
//! fences. `store` implements them on a local directory, `sim` in memory with faults.
//!
//! # What an implementation promises
//! - A write is durable once a later `sync` of the same file returned `Ok`; before that, a crash may keep any subset of
//!   its 512-byte sectors.
//! - After `sync` failed, everything written since the sync before may be lost, whatever a later `sync` answers.
//! - Reads return what was last written by this process, or after a crash what media hold; never a page cache's memory
//!   of something that media refused.
//! - All methods may be called from many threads.

use std::io;
use std::sync::Arc;

use crate::api::ids::SegmentId;

mod aligned;
#[cfg(any(test, feature = "memory"))]
pub mod memory;

pub use aligned::AlignedBuffer;

/// Bytes that a torn write keeps or loses as one.
pub const SECTOR_BYTES: u64 = 512;

/// Block that direct I/O is aligned to: offsets and lengths of log and blob writes are multiples of it.
pub const BLOCK_BYTES: u64 = 4096;

/// A file that is read and written anywhere.
#[expect(
    clippy::len_without_is_empty,
    reason = "nobody asks: a log never is, an index is when it is created"
)]
pub trait RandomFile: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Grows (with zeros, physically allocated: fails with `StorageFull` rather than later) or shrinks the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Fills `buffer` from `offset`; reading past the end is `UnexpectedEof`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, within the length.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes every completed write durable, the length included.
    fn sync(&self) -> io::Result<()>;
    /// Keeps at least `bytes` of space physically allocated beyond the length, so that growing by as much cannot fail.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
}

/// One segment's bytes: written once from front to back, then only read.
pub trait Blob: Send + Sync {
    /// Fills `buffer` from `offset`; past the written end, within the capacity, there is
    /// anything: a blob may be made of one that was deleted.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes `bytes` at `offset`, which is where the last write ended. Offset and length are multiples of
    /// [`BLOCK_BYTES`].
    fn append(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes every completed append durable, and the blob's existence.
    fn sync(&self) -> io::Result<()>;
}

/// Room on the device below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that may still be allocated.
    pub available: u64,
}

/// Where a volume lives.
pub trait Media: Send + Sync {
    /// The log: its length was fixed when the volume was created. Reads bypass any cache that could remember what
    /// media lost.
    fn log(&self) -> Arc<dyn RandomFile>;
    /// The index file; empty at first.
    fn index(&self) -> Arc<dyn RandomFile>;
    /// Creates a blob with `capacity` bytes physically allocated; fails with `StorageFull` if there is no room, with
    /// `AlreadyExists` if there is one of that id. Durable after the blob's first `sync`.
    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>>;
    /// Opens a blob for reading.
    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>>;
    /// Deletes a blob and gives its space back; open readers keep reading. Not there is `NotFound`.
    fn delete_blob(&self, id: SegmentId) -> io::Result<()>;
    /// All blobs.
    fn list_blobs(&self) -> io::Result<Vec<SegmentId>>;
    /// Room on the device.
    fn space(&self) -> io::Result<Space>;
    /// Whether this process still holds the volume's lease; a volume whose lease is lost refuses changes.
    fn lease_held(&self) -> bool;
}
