//! Every limit of the wire, with its reason. Bytes unless the name says otherwise.
//!
//! A length over its limit is [`crate::xdr::DecodeError::TooLong`] or [`crate::record::RecordError`]; it is
//! refused before anything is allocated for it.

/// File data in one READ or WRITE. 1 MiB is what the Linux client asks for at most.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// Everything in a record that is not file data: headers, handles, names, padding.
pub const OVERHEAD_BYTES_MAX: usize = 32 << 10;

/// One RPC record, all fragments together, without the record marks.
pub const RECORD_BYTES_MAX: usize = DATA_BYTES_MAX + OVERHEAD_BYTES_MAX;

/// Fragments in one record. The RPC library of libtirpc cuts a record every 4,000 to 9,000 bytes and old ones
/// every 400, which makes 2,700 of our largest record.
pub const FRAGMENTS_MAX: u32 = 4096;

/// Fragments without a byte in one record. They carry nothing, so a few are a quirk and many are an attack.
pub const EMPTY_FRAGMENTS_MAX: u32 = 16;

/// The body of a credential or verifier (RFC 5531 section 8.2).
pub const AUTH_BODY_BYTES_MAX: usize = 400;

/// The machine name in AUTH_SYS (RFC 5531 appendix A).
pub const MACHINE_NAME_BYTES_MAX: usize = 255;

/// Supplementary groups in AUTH_SYS (RFC 5531 appendix A).
pub const GROUPS_MAX: usize = 16;

/// A file handle of NFSv3 (RFC 1813 section 2.4, NFS3_FHSIZE).
pub const HANDLE_BYTES_MAX: usize = 64;

/// A cookie, create or write verifier (RFC 1813 section 2.4).
pub const VERIFIER_BYTES: usize = 8;

/// A file name while it is decoded. Servers allow less (255); decoding more lets them answer NAMETOOLONG where
/// a decoding error would close the connection.
pub const NAME_BYTES_MAX: usize = 4096;

/// The text of a symbolic link while it is decoded. Servers allow less (4,096, Linux' PATH_MAX); see
/// [`NAME_BYTES_MAX`].
pub const PATH_BYTES_MAX: usize = 8192;

/// A path in MOUNT (RFC 1813 appendix I, MNTPATHLEN).
pub const MOUNT_PATH_BYTES_MAX: usize = 1024;

/// A host or group name in MOUNT (RFC 1813 appendix I, MNTNAMLEN).
pub const MOUNT_NAME_BYTES_MAX: usize = 255;

/// Authentication flavors in the answer to MNT. The RFC sets no limit; no more than a handful exist.
pub const AUTH_FLAVORS_MAX: usize = 32;

/// A network id, universal address or owner in rpcbind. RFC 1833 sets no limit; the longest in use is an IPv6
/// address with a scope.
pub const RPCBIND_STRING_BYTES_MAX: usize = 256;

/// The largest header of an RPC call: six integers, then credential and verifier with flavor and length.
pub const CALL_HEADER_BYTES_MAX: usize = 6 * 4 + 2 * (8 + AUTH_BODY_BYTES_MAX);

// A name that is too long for the server must still be decoded to be refused.
const _: () = assert!(NAME_BYTES_MAX > 255 && PATH_BYTES_MAX > 4096);
// The largest calls fit a record: WRITE by its data, RENAME and SYMLINK by their names.
const _: () = assert!(CALL_HEADER_BYTES_MAX + (4 + HANDLE_BYTES_MAX) + 8 + 4 + 4 + 4 <= OVERHEAD_BYTES_MAX);
const _: () =
    assert!(CALL_HEADER_BYTES_MAX + 2 * (8 + HANDLE_BYTES_MAX + NAME_BYTES_MAX) <= OVERHEAD_BYTES_MAX);
const _: () = assert!(
    CALL_HEADER_BYTES_MAX + (8 + HANDLE_BYTES_MAX + NAME_BYTES_MAX) + 64 + (4 + PATH_BYTES_MAX)
        <= OVERHEAD_BYTES_MAX
);
// The largest AUTH_SYS credential fits a credential.
const _: () = assert!(4 + (4 + MACHINE_NAME_BYTES_MAX + 1) + 8 + (4 + 4 * GROUPS_MAX) <= AUTH_BODY_BYTES_MAX);
// A record's length leaves the top bit of the record mark alone.
const _: () = assert!(RECORD_BYTES_MAX < 1 << 31);
// Every record of full fragments of 400 bytes is within the number of fragments.
const _: () = assert!(RECORD_BYTES_MAX / 400 < FRAGMENTS_MAX as usize);
// Lengths that are multiples of four need no padding, which other sizes here rely on.
const _: () = assert!(HANDLE_BYTES_MAX.is_multiple_of(4) && VERIFIER_BYTES.is_multiple_of(4));
