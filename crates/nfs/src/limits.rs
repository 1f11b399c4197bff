//! The limits of the protocol servers, with their reasons.

/// Mounts that DUMP remembers. The list only informs, so those of the origin that has the most give way. With the longest
/// paths and addresses, the list is still shorter than a record may be.
pub const MOUNTS_MAX: usize = 900;

/// Shards of the set of calls in progress, so that threads rarely contend for a lock.
pub const IN_PROGRESS_SHARDS: usize = 16;

/// Non-idempotent calls in progress in one shard. A call is there only while a thread executes it, so reaching
/// the limit takes that many threads; further calls are then run again.
pub const IN_PROGRESS_PER_SHARD_MAX: usize = 64;

/// Bytes of one READDIR or READDIRPLUS, whatever the client allows: the same as one READ.
pub const DIRECTORY_BYTES_MAX: u32 = volume::limits::TRANSFER_BYTES_MAX;

/// Data of a READ of this length and more is not copied into the reply, bytes. Below it, a copy costs less than one more entry in
/// the vector of a system call.
pub const IN_PARTS_BYTES_MIN: usize = 16 << 10;

/// The same for the average piece of such data.
pub const PIECE_BYTES_MIN: usize = 8 << 10;

/// Bytes of a READDIR that FSINFO recommends: some thousand names, which do not delay an event loop.
pub const DIRECTORY_BYTES_PREFERRED: u32 = 64 << 10;

/// The cookie verifier of every listing. Cookies never expire, so no client has to send it back (RFC 1813 section 3.3.16,
/// RFC 8881 section 18.23.3).
pub(crate) const COOKIE_VERIFIER: [u8; wire::limits::VERIFIER_BYTES] = [0; wire::limits::VERIFIER_BYTES];

/// Names requested from the engine at once, so that its result stays within some 100 KiB.
pub const NAMES_AT_ONCE_MAX: usize = 512;

/// The largest number of names in one reply to READDIR or READDIRPLUS. With attributes, this many take 2 ms of an event loop; a
/// longer listing takes one more call for each 2,048 names, at a hundredth of that cost.
pub const NAMES_MAX: usize = 2048;

/// READ and WRITE offsets and counts that are multiples of this are served best: the engine's blocks.
pub const TRANSFER_MULTIPLE: u32 = 4096;

/// Bytes of a reply besides file data and names, with its record mark. The longest is that of READLINK.
pub const SMALL_REPLY_BYTES_MAX: usize = 8 << 10;

/// Bytes expected of the result of a call, or of an operation of a COMPOUND, besides file data and names.
pub const SMALL_RESULT_BYTES: usize = 512;

/// Bytes of the result of a COMPOUND: one READ with all that surrounds it.
pub const COMPOUND_REPLY_BYTES_MAX: usize =
    volume::limits::TRANSFER_BYTES_MAX as usize + SMALL_REPLY_BYTES_MAX;

/// The smallest record, and the smallest payload in one, bytes, whose payload is received into the memory where it stays. Less
/// may travel in the journal, and arrives in one read with its header.
pub const PAYLOAD_BYTES_MIN: usize = volume::limits::INLINE_WRITE_BYTES_MAX + 1;

/// Bytes of the start of a large record in which the payload of a WRITE must begin to be received apart. Those of the Linux
/// client begin after 150 to 400.
pub const CALL_START_BYTES_MAX: usize = 2 << 10;

/// The first port that users other than the superuser may use.
pub const UNPRIVILEGED_PORT: u16 = 1024;

/// Whether a range of bytes ends within the largest possible file.
pub(crate) fn fits_a_file(offset: u64, length: u64) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= volume::limits::FILE_BYTES_MAX)
}

const _: () = assert!(NAMES_AT_ONCE_MAX < NAMES_MAX);
// A WRITE that can be decoded is never larger than what the engine takes at once.
const _: () = assert!(wire::limits::DATA_BYTES_MAX == volume::limits::TRANSFER_BYTES_MAX as usize);
// The engine's handles fit those of NFSv3.
const _: () = assert!(volume::handle::HANDLE_BYTES <= wire::limits::HANDLE_BYTES_MAX);
// Names and symlink targets that are too long for the engine can be decoded, so that the engine refuses them.
const _: () = assert!(wire::limits::NAME_BYTES_MAX > volume::limits::NAME_BYTES_MAX);
const _: () = assert!(wire::limits::PATH_BYTES_MAX > volume::limits::SYMLINK_BYTES_MAX);
const _: () = assert!(volume::handle::HANDLE_BYTES <= wire::limits::HANDLE4_BYTES_MAX);
const _: () = assert!(COMPOUND_REPLY_BYTES_MAX + 64 <= wire::limits::RECORD_BYTES_MAX);
// READLINK's text, attributes and header fit a small reply.
const _: () = assert!(SMALL_REPLY_BYTES_MAX > volume::limits::SYMLINK_BYTES_MAX + 1024);
