//! Every limit of the protocol servers, with its reason.

/// Mounts that DUMP remembers. It only informs, so the oldest give way; their paths are at most 1 MiB.
pub const MOUNTS: usize = 1024;

/// Parts of the set of calls in progress, so that threads rarely meet at one lock.
pub const IN_PROGRESS_SHARDS: usize = 16;

/// Non-idempotent calls in progress in one shard. A call is there only while a thread executes it, so that reaching this
/// takes as many threads; then callers are asked to try again.
pub const IN_PROGRESS_PER_SHARD: usize = 64;

/// Most bytes of one READDIR or READDIRPLUS, whatever the client allows: the same as one READ.
pub const DIRECTORY_BYTES: u32 = volume::limits::TRANSFER_BYTES_MAX;

/// Bytes of a READDIR that FSINFO recommends: some thousand names, without making an event loop wait.
pub const DIRECTORY_BYTES_PREFERRED: u32 = 64 << 10;

/// The cookie verifier of every listing. Cookies never expire, so no client has to send it back (RFC 1813 section 3.3.16,
/// RFC 8881 section 18.23.3).
pub(crate) const COOKIE_VERIFIER: [u8; wire::limits::VERIFIER_BYTES] = [0; wire::limits::VERIFIER_BYTES];

/// Most names that the engine is asked for at once, so that what it returns stays within some 100 KiB.
pub const NAMES_AT_ONCE: usize = 512;

/// READ and WRITE offsets and counts that are multiples of this are served best: the engine's pieces.
pub const TRANSFER_MULTIPLE: u32 = 4096;

/// Most bytes of a reply beside the file data or names in it, with its record mark; the longest is that of READLINK.
pub const SMALL_REPLY_BYTES: usize = 8 << 10;

/// What is reserved for the result of one operation of a COMPOUND, beside file data and names. All of them together may
/// have [`SMALL_REPLY_BYTES`] besides.
pub const SMALL_RESULT_BYTES: usize = 512;

/// Most bytes of the result of a COMPOUND: one READ with all that surrounds it.
pub const COMPOUND_REPLY_BYTES: usize = volume::limits::TRANSFER_BYTES_MAX as usize + SMALL_REPLY_BYTES;

/// The first port that any user of a client may use.
pub const UNPRIVILEGED_PORT: u16 = 1024;

/// Whether a range of bytes ends within the largest possible file.
pub(crate) fn fits_a_file(offset: u64, length: u64) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= volume::limits::FILE_BYTES_MAX)
}

// A WRITE that could be decoded is never larger than what the engine takes at once.
const _: () = assert!(wire::limits::DATA_BYTES_MAX == volume::limits::TRANSFER_BYTES_MAX as usize);
// The engine's handles are handles of NFSv3.
const _: () = assert!(volume::handle::HANDLE_BYTES <= wire::limits::HANDLE_BYTES_MAX);
// Names and targets that the engine would refuse as too long can be decoded, so that it does refuse them.
const _: () = assert!(wire::limits::NAME_BYTES_MAX > volume::limits::NAME_BYTES_MAX);
const _: () = assert!(wire::limits::PATH_BYTES_MAX > volume::limits::SYMLINK_BYTES_MAX);
const _: () = assert!(volume::handle::HANDLE_BYTES <= wire::limits::HANDLE4_BYTES_MAX);
const _: () = assert!(COMPOUND_REPLY_BYTES + 64 <= wire::limits::RECORD_BYTES_MAX);
// READLINK's text, attributes and header fit a small reply.
const _: () = assert!(SMALL_REPLY_BYTES > volume::limits::SYMLINK_BYTES_MAX + 1024);
