//! Limits of the engine that documents or several modules use, with their reasons. Others are at the top of their module.

/// Longest name in a directory, bytes (POSIX `NAME_MAX`, RFC 1813 section 3.3.20 `name_max`).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest symlink target, bytes (Linux `PATH_MAX` without its NUL).
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// Largest file, bytes: offsets stay positive in every client's signed 64 bits.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Most directories on the way from the root to the new place of a directory that is renamed. The way is walked, so that
/// no directory ends up below itself. It is twice what a path of 4,096 bytes (Linux `PATH_MAX`) can have, and as deep as
/// check and repair follow directories to name a path.
pub const DIRECTORY_DEPTH_MAX: usize = 4096;
/// Most names of one object other than a directory (PATHCONF `linkmax`).
pub const LINKS_MAX: u32 = 65_000;
/// Most links of a directory: 2, and one for each subdirectory. So many that nobody who makes subdirectories keeps others from it, and
/// positive in every client's signed 32 bits.
pub const DIRECTORY_LINKS_MAX: u32 = i32::MAX as u32;
/// Longest value of an extended attribute, bytes (Linux `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of all extended attributes of one file: names, values and [`XATTR_OVERHEAD_BYTES`] for each.
pub const XATTR_BYTES_PER_FILE_MAX: u32 = 128 << 10;
/// See [`XATTR_BYTES_PER_FILE_MAX`].
pub const XATTR_OVERHEAD_BYTES: usize = 32;
/// Most extended attributes of one file.
pub const XATTRS_PER_FILE_MAX: usize = XATTR_BYTES_PER_FILE_MAX as usize / (XATTR_OVERHEAD_BYTES + 1);
/// Longest key of a cached request, bytes. NFSv3: address 16, xid 4, program, version and procedure 12, checksum 8.
/// NFSv4: session 16, slot and sequence 8, or without a session the same as NFSv3; index 4, checksum 8. The sum is 44;
/// the rest is room to spare.
pub const REQUEST_KEY_BYTES_MAX: usize = 64;
/// Longest cached reply, bytes; RENAME's two `wcc_data` and a handle take less than 400.
pub const REQUEST_ANSWER_BYTES_MAX: usize = 1024;
/// Longest key of a protocol state record, bytes: a kind, a file, an owner's number and an offset. With its length, it takes four
/// words.
pub const STATE_KEY_BYTES_MAX: usize = 31;
/// Longest value of a protocol state record, bytes: an owner's opaque name of 1024, a verifier, a universal address.
pub const STATE_VALUE_BYTES_MAX: usize = 2048;
/// Most bytes of keys and values of state records in one entry. What an operation adds to its own entry stays far
/// below.
pub const STATE_BYTES_PER_ENTRY_MAX: usize = 16 << 10;
/// Largest WRITE or READ, bytes.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Most cached replies: at some 640 bytes each, 40 MiB. Small volumes cache fewer, see
/// [`crate::options::MemoryLimits`].
pub const REPLIES_MAX: usize = 65_536;
/// Fewest cached replies, however little memory there is. After a restart one connection may take seconds to come back while
/// others of the same client go on, so the cache must hold what busy clients change in that time.
pub const REPLIES_MIN: usize = 4096;
/// Largest extent, bytes: how much one partly overwritten mapping can keep from being freed.
pub const EXTENT_BYTES_MAX: usize = 128 << 10;
/// Bytes that write-back puts into segments, syncs and journals at a time, so that memory is freed early and callers
/// slow down smoothly. Also the amount of unstable data that is written back without waiting for its age.
pub const PORTION_BYTES: u64 = 32 << 20;
/// Largest write that travels in the journal. A larger one goes to a segment first and pays a second sync.
pub const INLINE_WRITE_BYTES_MAX: usize = 64 << 10;
/// Size and alignment of mappings with inline data, bytes, so that a database page replaces a whole mapping.
pub const INLINE_MAPPING_BYTES: u64 = 4096;
/// Mappings of an index map that are read at once and kept with an inode: at 40 bytes each, 2.5 KiB. Random access to a
/// long map reads no more than it needs.
pub const MAP_WINDOW_MAPPINGS: usize = 64;
/// Most runs per layer that one READ resolves, as an event loop waits for it: the longest READ of 4 KiB mappings twice over. A
/// file in smaller mappings gives shorter READs.
pub const READ_RUNS_MAX: usize = 512;
/// Most runs per layer that are counted in one step under a file's lock.
pub const COUNT_RUNS_MAX: usize = 1024;
/// Ranges up to this size, bytes, are expected to have few mappings: they are counted without keeping what was counted. It is
/// more than one WRITE or one extent of write-back replaces.
pub const COUNT_AT_ONCE_BYTES: u64 = 8 << 20;
const _: () = assert!(COUNT_AT_ONCE_BYTES > TRANSFER_BYTES_MAX as u64);
/// Most inodes recorded as changed by recent checkpoints; cached maps of all others stay valid.
pub const RECENT_VERSIONS_INODES_MAX: usize = 65_536;
/// Most ranges of unstable data of one file. A WRITE or truncation may replace all of them at once: a few milliseconds' work.
pub const DIRTY_RANGES_PER_FILE_MAX: usize = 16_384;
/// Overhead of a range of unstable data, bytes.
pub const DIRTY_RANGE_BYTES: u64 = 192;
/// Overhead of a file with unstable data, bytes.
pub const DIRTY_FILE_BYTES: u64 = 4096;
/// Alignment of CLONE offsets, bytes (`clone_blksize`, RFC 7862 section 12.2.1).
pub const CLONE_BLOCK_BYTES: u64 = 4096;
/// Most runs per layer that one CLONE or COPY shares.
pub const CLONE_RUNS_MAX: usize = 1024;
/// Most runs per layer that one step of a SEEK examines.
pub const SEEK_RUNS_MAX: usize = 1024;
/// Most bytes of data that holes made by DEALLOCATE may hide in one memtable, which bounds the checkpoint that frees
/// them: 131,072 mappings of the largest extents.
pub const HOLE_BYTES_MAX: u64 = 16 << 30;
/// Most mappings of removed and truncated files that one checkpoint looks at, so that removing a huge file delays nobody.
pub const REAPED_MAPPINGS_MAX: usize = 65_536;
/// Most extents in one journal entry of write-back or the cleaner; each row takes up to 200 bytes.
pub const EXTENTS_PER_ENTRY_MAX: usize = 256;
/// Most bytes of mappings in one journal entry: those it puts, with inline data, and the older ones it deletes.
/// [`INLINE_WRITE_BYTES_MAX`] in [`INLINE_MAPPINGS_MAX`] mappings fit; more is journaled in portions.
pub const MAP_BYTES_PER_ENTRY_MAX: u64 = 120 << 10;
/// Largest journal entry, bytes: mappings, an inode with all its pending truncations, rows of extents. A ring must be
/// able to take it.
pub const ENTRY_BYTES_MAX: u64 = 144 << 10;
/// Smallest segment, bytes: room for one extent of the largest size, the first block and padding.
pub const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// Most truncations of one file that no checkpoint has cleared; each adds 12 bytes to the inode's record.
pub const PENDING_TRUNCATIONS_MAX: usize = 256;
/// Most ranges of unstable data of a file that may travel in the journal.
pub const INLINE_MAPPINGS_MAX: usize = 1024;

/// Most bytes of the name of a volume.
pub const VOLUME_NAME_BYTES_MAX: usize = 64;

/// The first character of the names of volumes that a server keeps for itself. Users see only volumes with other names.
pub const INTERNAL_NAME: char = '.';

/// Most volumes of a pool: each freeze of a memtable looks at all of them.
pub const VOLUMES_MAX: usize = 4096;

/// Most quotas of a volume: all are in memory, in some hundred bytes each.
pub const QUOTAS_MAX: usize = 100_000;

/// Most quota trees of a volume: a new one looks at the directories above all of them.
pub const TREES_MAX: usize = 10_000;

/// Memory of an open account of a quota, bytes, with its places in tables that grow in steps.
pub const QUOTA_ACCOUNT_BYTES: u64 = 288;

/// Memory of a note since when an owner exceeds a soft limit of all others, bytes, in a tree that is half full.
pub const QUOTA_NOTE_BYTES: u64 = 288;

/// Accounts, and notes, that a volume may have in memory however many others have: so that its quotas work, and the accounts that calls
/// need at the same time do not close each other.
pub const QUOTA_OWNERS_MIN: usize = 16;
