//! How a volume is opened, and how its memory is shared out.

use crate::file::inodes::INODE_BYTES;
use crate::limits;

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bound of the memory that this volume uses, in bytes.
    pub memory: u64,
    /// Bytes of one segment, a multiple of 4096; at least 1 MiB makes sense.
    pub segment_bytes: u64,
    /// What gives way to what in full caches: the same for the same seed and the same requests, so that a simulation replays
    /// exactly. `None` draws one that no client knows.
    pub cache_seed: Option<u64>,
}

impl Options {
    /// The size of segments for a device of so many bytes: large ones for long runs of reading and writing, yet so many
    /// on a small device that those in reserve do not matter.
    pub fn segment_bytes_for(device_bytes: u64) -> u64 {
        (device_bytes / 128).next_power_of_two().clamp(1 << 20, 64 << 20)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options { memory: 1 << 30, segment_bytes: 64 << 20, cache_seed: None }
    }
}

/// How the memory of a volume is shared out, in bytes. The parts and what they are made of together stay below the
/// `memory` option; `docs/semantics.md` explains the shares.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// A memtable that reaches this is frozen; there are at most two, and one may overshoot while the other is
    /// checkpointed.
    pub memtable_bytes: u64,
    /// Unstable data.
    pub dirty_bytes: u64,
    /// Cached blocks of extents.
    pub block_cache_bytes: u64,
    /// Cached records.
    pub record_cache_bytes: u64,
    /// The index library's cache.
    pub index_cache_bytes: u64,
    /// Hashes of the names of directories.
    pub names_bytes: u64,
    /// Names with what they name.
    pub name_cache_bytes: u64,
    /// Inodes in memory.
    pub inode_bytes: u64,
    /// Parts of their maps.
    pub window_bytes: u64,
    /// Remembered answers, a number.
    pub duplicate_requests: usize,
}

/// What a remembered answer takes, bytes: itself, and its key in each of the tables that find and forget it.
const REPLY_BYTES: u64 = 640;

impl MemoryLimits {
    /// Shares `memory` out, for a journal ring of `ring` bytes: two memtables never hold more than a ring.
    pub fn of(memory: u64, ring: u64) -> MemoryLimits {
        MemoryLimits {
            memtable_bytes: (memory / 12).min(ring / 3).max(64 << 10),
            dirty_bytes: (memory / 12).max(256 << 10),
            block_cache_bytes: memory / 4,
            record_cache_bytes: memory / 32,
            index_cache_bytes: memory / 6,
            names_bytes: memory / 64,
            name_cache_bytes: memory / 32,
            inode_bytes: memory / 10,
            window_bytes: memory / 40,
            duplicate_requests: usize::try_from(memory / 12 / REPLY_BYTES)
                .unwrap_or(usize::MAX)
                .clamp(limits::REPLIES_MIN, limits::REPLIES_MAX),
        }
    }

    /// About how many inodes may be in memory.
    pub(crate) fn inodes(&self) -> usize {
        usize::try_from(self.inode_bytes / INODE_BYTES).unwrap_or(usize::MAX).max(64)
    }

    /// Memory for file data that is kept while nobody uses it, a part of the share of cached blocks.
    pub(crate) fn pool_bytes(&self) -> u64 {
        (self.block_cache_bytes / 16).min(crate::bytes::POOL_BYTES_MAX as u64)
    }

    /// Bytes by which an index of `index_bytes` may grow in one checkpoint: what the memtable holds, and a page for each
    /// record if they are spread over as many, but never more pages than there are.
    pub fn checkpoint_bytes(&self, index_bytes: u64) -> u64 {
        /// The index file grows in pieces of 1 MiB.
        const PIECES_BYTES: u64 = 8 << 20;
        self.pages_bytes(self.memtable_bytes).min(index_bytes) + 2 * self.memtable_bytes + PIECES_BYTES
    }

    /// Bytes of pages that so many bytes of memtable may touch, if no two records share one.
    pub fn pages_bytes(&self, memtable_bytes: u64) -> u64 {
        /// Pages of 4 KiB and a little, over the least that a record takes in a memtable.
        const PAGES_PER_MEMTABLE_BYTE: u64 = 30;
        memtable_bytes.saturating_mul(PAGES_PER_MEMTABLE_BYTE)
    }
}
