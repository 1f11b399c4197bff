//! Options of an open volume, and its shares of memory.

use crate::file::inodes::INODE_BYTES;
use crate::limits;

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bound of the memory that the volume uses, bytes.
    pub memory: u64,
    /// Size of a segment, bytes: a multiple of 4096, sensibly at least 1 MiB.
    pub segment_bytes: u64,
    /// Seed of the hashes that decide evictions in full caches. With the same seed and requests a simulation replays
    /// exactly. `None` draws a random seed, which clients cannot know.
    pub cache_seed: Option<u64>,
}

impl Options {
    /// Returns the segment size for a device: large segments for long sequential transfers, yet small enough on a
    /// small device that the segments in reserve do not matter.
    pub fn segment_bytes_for(device_bytes: u64) -> u64 {
        (device_bytes / 128).next_power_of_two().clamp(1 << 20, 64 << 20)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options { memory: 1 << 30, segment_bytes: 64 << 20, cache_seed: None }
    }
}

/// Shares of a volume's memory, in bytes. All of them together, with their overhead, stay below the `memory` option;
/// `docs/semantics.md` explains the shares.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// A memtable of this size is frozen. There are at most two; the active one may grow beyond it while the other is
    /// checkpointed.
    pub memtable_bytes: u64,
    /// Unstable data.
    pub dirty_bytes: u64,
    /// Cached blocks of extents.
    pub block_cache_bytes: u64,
    /// Cached records.
    pub record_cache_bytes: u64,
    /// The index library's cache. Once the index is damaged, a sixteenth of it is used besides.
    pub index_cache_bytes: u64,
    /// The negative lookup filter: hashes of names, which prove other names absent.
    pub negative_lookup_bytes: u64,
    /// Names and what they refer to.
    pub name_cache_bytes: u64,
    /// Inodes in memory.
    pub inode_bytes: u64,
    /// Windows of extent maps.
    pub window_bytes: u64,
    /// What long work found out about files and directories.
    pub note_bytes: u64,
    /// Accounts of owners with quotas, and notes about them.
    pub quota_bytes: u64,
    /// Number of cached replies.
    pub duplicate_requests: usize,
}

/// Memory of a cached reply, bytes, with its key in each table of the cache.
const REPLY_BYTES: u64 = 640;

impl MemoryLimits {
    /// Returns how much unstable data is written, synced and journaled at a time, bytes.
    pub fn portion_bytes(&self) -> u64 {
        limits::PORTION_BYTES.min(self.dirty_bytes / 2)
    }

    /// Divides `memory`, for a journal ring of `ring` bytes: two memtables never hold more than a ring.
    pub fn of(memory: u64, ring: u64) -> MemoryLimits {
        MemoryLimits {
            memtable_bytes: (memory / 12).min(ring / 3).max(64 << 10),
            dirty_bytes: (memory / 12).max(256 << 10),
            block_cache_bytes: memory / 4 - memory / 64,
            record_cache_bytes: memory / 32,
            index_cache_bytes: memory / 6,
            negative_lookup_bytes: memory / 64,
            name_cache_bytes: memory / 32,
            inode_bytes: memory / 10,
            window_bytes: memory / 45,
            note_bytes: memory / 360,
            quota_bytes: memory / 64,
            duplicate_requests: usize::try_from(memory / 12 / REPLY_BYTES)
                .unwrap_or(usize::MAX)
                .clamp(limits::REPLIES_MIN, limits::REPLIES_MAX),
        }
    }

    /// Returns how many bytes of extended attribute values and link targets a memtable may hold. The index reuses the pages that a
    /// checkpoint frees only after the next one, so it grows by what two checkpoints replace.
    pub(crate) fn long_value_bytes(&self) -> u64 {
        (self.memtable_bytes / 8).max(4 * limits::XATTR_VALUE_BYTES_MAX as u64)
    }

    /// Returns the approximate number of inodes that may be in memory.
    pub(crate) fn inodes(&self) -> usize {
        usize::try_from(self.inode_bytes / INODE_BYTES).unwrap_or(usize::MAX).max(64)
    }

    /// Returns the bytes of unused extent buffers to keep, a part of the block cache's share.
    pub(crate) fn pool_bytes(&self) -> u64 {
        (self.block_cache_bytes / 16).min(crate::bytes::POOL_BYTES_MAX as u64)
    }

    /// Returns how far an index of `index_bytes` may grow in one checkpoint: by the contents of a memtable, and by
    /// one page for each record if each lies in a page of its own, but never by more pages than there are.
    pub fn checkpoint_bytes(&self, index_bytes: u64) -> u64 {
        /// The index file grows in pieces of 1 MiB.
        const PIECES_BYTES: u64 = 8 << 20;
        self.pages_bytes(self.memtable_bytes).min(index_bytes) + 2 * self.memtable_bytes + PIECES_BYTES
    }

    /// Returns the bytes of pages that a memtable of this size may touch if no two records share a page.
    pub fn pages_bytes(&self, memtable_bytes: u64) -> u64 {
        /// A page of 4 KiB, rounded up, divided by the least memory of a record in a memtable.
        const PAGES_PER_MEMTABLE_BYTE: u64 = 30;
        memtable_bytes.saturating_mul(PAGES_PER_MEMTABLE_BYTE)
    }
}
