//! Every limit of the engine, with its reason.

/// Longest name in a directory, bytes (POSIX `NAME_MAX`, RFC 1813 section 3.3.20 `name_max`).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest symlink target, bytes (Linux `PATH_MAX` without its NUL).
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// Largest file, bytes: offsets stay positive in every client's signed 64 bits.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Most names that one object can have (PATHCONF `linkmax`).
pub const LINKS_MAX: u32 = 65_000;
/// Longest value of an extended attribute, bytes (Linux `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of all extended attributes of one file: names, values and [`XATTR_OVERHEAD_BYTES`] for each.
pub const XATTR_BYTES_PER_FILE_MAX: u32 = 128 << 10;
/// See [`XATTR_BYTES_PER_FILE_MAX`].
pub const XATTR_OVERHEAD_BYTES: usize = 32;
/// Longest key of a remembered request, bytes: address 16, xid 4, program, version and procedure 12, checksum 8.
pub const REQUEST_KEY_BYTES_MAX: usize = 64;
/// Longest remembered answer, bytes; RENAME's two `wcc_data` and a handle take less than 400.
pub const REQUEST_ANSWER_BYTES_MAX: usize = 1024;
/// Longest key of a record of protocol state, bytes: a kind, a file and an owner's number, with room to spare.
pub const STATE_KEY_BYTES_MAX: usize = 64;
/// Longest value of one, bytes: an owner's opaque name of 1024, a verifier, a universal address.
pub const STATE_VALUE_BYTES_MAX: usize = 2048;
/// Bytes of keys and values of such records in one entry; what an operation adds to its own entry is never so much.
pub const STATE_BYTES_PER_ENTRY_MAX: usize = 16 << 10;
/// Most bytes of one WRITE or READ.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Most remembered answers; at some 640 bytes each, 40 MiB. With little memory there are fewer, see
/// [`crate::options::MemoryLimits`].
pub const REPLIES_MAX: usize = 65_536;
/// Least remembered answers, however little memory there is.
pub const REPLIES_MIN: usize = 4096;
/// Most remembered answers of one client. After a restart a connection may need seconds to come back while others of the
/// same client go on, so it must hold what a busy client changes in that time.
pub const REPLIES_PER_CLIENT_MAX: usize = 16_384;
/// Largest extent, bytes: what one partly overwritten piece can keep from being freed.
pub const EXTENT_BYTES_MAX: usize = 128 << 10;
/// Bytes that write-back puts into segments, syncs and journals at a time, so that their memory comes back soon and callers
/// are slowed smoothly; also how much unstable data there is before it is written back without waiting for its age.
pub const PORTION_BYTES: u64 = 32 << 20;
/// Largest write that travels in the journal; a larger one goes to a segment first and pays a second sync.
pub const INLINE_WRITE_BYTES_MAX: usize = 64 << 10;
/// Size and alignment of pieces of inline data, bytes, so that a database's page overwrites a whole piece.
pub const INLINE_MAPPING_BYTES: u64 = 4096;
/// Pieces of an index map that are read at once and kept with an inode: at 40 bytes each, 2.5 KiB.
pub const MAP_WINDOW_MAPPINGS: usize = 64;
/// The same, for somebody who reads here and there in a long map.
pub const MAP_WINDOW_MAPPINGS_RANDOM: usize = 8;
/// Runs of a file in one layer that one READ goes through: the data of 4 KiB pieces sixteen times over. A file in smaller
/// pieces gives shorter READs.
pub const READ_RUNS_MAX: usize = 4096;
/// Parts of a map whose bytes are counted under the file's lock, each of [`MAP_WINDOW_MAPPINGS`]; more are counted without.
pub const COUNT_LOCKED_WINDOWS_MAX: usize = 32;
/// Inodes of whom it is remembered that a checkpoint changed their maps, so that others need not be read again.
pub const RECENT_VERSIONS_INODES_MAX: usize = 65_536;
/// What a piece of unstable data takes beside its bytes, and a file with such data beside its pieces; bytes.
pub const DIRTY_RANGE_BYTES: u64 = 192;
/// See [`DIRTY_RANGE_BYTES`].
pub const DIRTY_FILE_BYTES: u64 = 4096;
/// What offsets of CLONE are multiples of, bytes (`clone_blksize`, RFC 7862 section 12.2.1).
pub const CLONE_BLOCK_BYTES: u64 = 4096;
/// Runs of a file in one layer that one CLONE or COPY takes over.
pub const CLONE_RUNS_MAX: usize = 1024;
/// Runs of a file in one layer that one part of a SEEK goes through.
pub const SEEK_RUNS_MAX: usize = 1024;
/// Bytes of data that holes made by DEALLOCATE may hide in one memtable, so that the checkpoint that frees them is bounded: in
/// the largest extents 131,072 pieces.
pub const HOLE_BYTES_MAX: u64 = 16 << 30;
/// Pieces of removed files' maps that one checkpoint frees, so that removing a huge file stops nobody.
pub const REAPED_MAPPINGS_MAX: usize = 65_536;
/// Extents in one journal entry of a write-back or of the cleaner; each row takes up to 200 bytes.
pub const EXTENTS_PER_ENTRY_MAX: usize = 256;
/// What one journal entry may say of maps, bytes: the pieces that it puts with their inline data, and the older ones that
/// it takes away. [`INLINE_WRITE_BYTES_MAX`] in [`INLINE_MAPPINGS_MAX`] pieces fit; more is journaled in portions.
pub const MAP_BYTES_PER_ENTRY_MAX: u64 = 120 << 10;
/// Largest journal entry, bytes: maps, an inode with all its cuts, rows of extents. A ring must take it at once.
pub const ENTRY_BYTES_MAX: u64 = 144 << 10;
/// Smallest segment, bytes: it takes at least one of the largest extents beside its first block and a padded one.
pub const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// Truncations of one file whose victims no checkpoint has cleared yet; each makes the inode's record 12 bytes longer.
pub const PENDING_TRUNCATIONS_MAX: usize = 256;
/// Most pieces of unstable data that a file may have for them to travel in the journal.
pub const INLINE_MAPPINGS_MAX: usize = 1024;
