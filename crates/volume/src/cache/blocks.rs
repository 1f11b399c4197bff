//! Caches of index records and of extents, bounded in bytes. Contents are verified before they enter.

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::api::ids::ExtentId;
use crate::bytes::{Bytes, Value};
use crate::encoding::entry::Slot;
use crate::encoding::key::Key;
use crate::encoding::record::BLOCK;

/// Blocks that are read and cached together: the unit of the block cache is 16 KiB.
pub const GROUP_BLOCKS: u32 = 4;

/// Bytes of a cached group of blocks.
pub const GROUP_BYTES: usize = BLOCK * GROUP_BLOCKS as usize;

/// Group number that stands for a whole extent.
pub const WHOLE_EXTENT: u32 = u32::MAX;

/// Reads of at least this many bytes of an extent fetch all of it, and look for the whole extent in the cache first:
/// such reads are mostly sequential.
pub const WHOLE_EXTENT_BYTES_MIN: usize = 4 * GROUP_BYTES;

/// Memory of a cache entry beyond key and value, bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 96;

/// Weighs cached records.
#[derive(Clone, Debug)]
pub struct RecordWeight;

impl Weighter<Key, Slot> for RecordWeight {
    fn weight(&self, key: &Key, slot: &Slot) -> u64 {
        (key.len() + slot.as_ref().map_or(0, Value::memory_bytes)) as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// Weighs cached blocks.
#[derive(Clone, Debug)]
pub struct BlockWeight;

impl Weighter<(ExtentId, u32), Bytes> for BlockWeight {
    fn weight(&self, _: &(ExtentId, u32), bytes: &Bytes) -> u64 {
        bytes.len() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// The hash function that decides which entries of a cache compete, and so evictions.
pub type Hasher = SeedableRandomState;

/// Returns a hasher with this seed; `None` draws a random one, so that no client can choose names that evict each
/// other.
pub fn hasher(seed: Option<u64>) -> Hasher {
    seed.map_or_else(Hasher::random, |seed| Hasher::with_seed(seed, SharedSeed::global_fixed()))
}

/// Records of the index; consulted only for keys that no memtable holds.
pub type RecordCache = Cache<Key, Slot, RecordWeight, Hasher>;

/// Groups of blocks by extent and group number, and whole extents by [`WHOLE_EXTENT`]. Extents are immutable, so
/// entries never become stale.
pub type BlockCache = Cache<(ExtentId, u32), Bytes, BlockWeight, Hasher>;

/// Returns a record cache of `bytes`.
pub fn records(bytes: u64, hasher: Hasher) -> RecordCache {
    let items = usize::try_from(bytes / 256).unwrap_or(usize::MAX).max(64);
    Cache::with(items, bytes, RecordWeight, hasher, DefaultLifecycle::default())
}

/// Returns a block cache of `bytes`.
pub fn blocks(bytes: u64, hasher: Hasher) -> BlockCache {
    let items = usize::try_from(bytes).unwrap_or(usize::MAX) / GROUP_BYTES;
    Cache::with(items.max(16), bytes, BlockWeight, hasher, DefaultLifecycle::default())
}
