//! What is cached of the index and of segments: bounded in bytes, and verified on its way in.

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::api::ids::ExtentId;
use crate::bytes::{Bytes, Value};
use crate::encoding::entry::Slot;
use crate::encoding::key::Key;
use crate::encoding::record::BLOCK;

/// Checksummed blocks that are read and cached together: the unit of the block cache is 16 KiB.
pub const GROUP_BLOCKS: u32 = 4;

/// Bytes of a cached group of blocks.
pub const GROUP_BYTES: usize = BLOCK * GROUP_BLOCKS as usize;

/// Number of the group that stands for a whole extent.
pub const WHOLE_EXTENT: u32 = u32::MAX;

/// Reads of at least so many bytes of an extent take all of it from media, and look for all of it in the cache first: who
/// reads so much at once reads files from front to back.
pub const WHOLE_EXTENT_BYTES_MIN: usize = 4 * GROUP_BYTES;

/// What an entry costs beyond key and value, bytes.
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

/// What decides which entries of a cache share a place, and so what gives way to what.
pub type Hasher = SeedableRandomState;

/// Of a seed; one that nobody knows, if `None`, so that no client can choose names that drive out each other.
pub fn hasher(seed: Option<u64>) -> Hasher {
    seed.map_or_else(Hasher::random, |seed| Hasher::with_seed(seed, SharedSeed::global_fixed()))
}

/// Records as the index holds them; consulted only for keys that no memtable knows.
pub type RecordCache = Cache<Key, Slot, RecordWeight, Hasher>;

/// Groups of blocks of extents, by extent and number of the group, and whole extents by [`WHOLE_EXTENT`]. Extents never change, so
/// neither do these.
pub type BlockCache = Cache<(ExtentId, u32), Bytes, BlockWeight, Hasher>;

/// A record cache of so many bytes.
pub fn records(bytes: u64, hasher: Hasher) -> RecordCache {
    let items = usize::try_from(bytes / 256).unwrap_or(usize::MAX).max(64);
    Cache::with(items, bytes, RecordWeight, hasher, DefaultLifecycle::default())
}

/// A block cache of so many bytes.
pub fn blocks(bytes: u64, hasher: Hasher) -> BlockCache {
    let items = usize::try_from(bytes).unwrap_or(usize::MAX) / GROUP_BYTES;
    Cache::with(items.max(16), bytes, BlockWeight, hasher, DefaultLifecycle::default())
}
