//! Every limit of the engine, with its reason.

/// Longest name in a directory, bytes (POSIX `NAME_MAX`, RFC 1813 section 3.3.20 `name_max`).
pub const NAME_BYTES: usize = 255;
/// Longest symlink target, bytes (Linux `PATH_MAX` without its NUL).
pub const SYMLINK_BYTES: usize = 4095;
/// Largest file, bytes: offsets stay positive in every client's signed 64 bits.
pub const FILE_BYTES: u64 = i64::MAX as u64;
/// Most names that one object can have (PATHCONF `linkmax`).
pub const LINKS: u32 = 65_000;
/// Longest key of a remembered request, bytes: address 16, xid 4, program, version and procedure 12, checksum 8.
pub const REQUEST_KEY_BYTES: usize = 64;
/// Longest remembered answer, bytes; RENAME's two `wcc_data` and a handle take less than 400.
pub const REQUEST_ANSWER_BYTES: usize = 1024;
/// Most bytes of one WRITE or READ.
pub const TRANSFER_BYTES: u32 = 1 << 20;
