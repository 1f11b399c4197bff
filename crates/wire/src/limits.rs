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

/// A file handle of NFSv4 (RFC 8881 section 3.1, NFS4_FHSIZE).
pub const HANDLE4_BYTES_MAX: usize = 128;

/// A name that a client of NFSv4 gives itself or an owner, and the tag of a COMPOUND (RFC 8881 section 3.1,
/// NFS4_OPAQUE_LIMIT; for tags the RFC sets no limit).
pub const OPAQUE4_BYTES_MAX: usize = 1024;

/// Operations in one COMPOUND. Linux sends at most 17; those who probe for the limit send thousands.
pub const COMPOUND_OPS_MAX: u32 = 128;

/// Words of a bitmap of NFSv4. Three are in use; more are decoded, because a client may ask for attributes that
/// nobody knows, and must be told so.
pub const BITMAP_WORDS_MAX: usize = 64;

/// The values of all attributes of one object. The largest is an ACL.
pub const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Access control entries in one ACL. POSIX systems store a few dozen; Linux refuses more than 170 (one page).
pub const ACES_MAX: usize = 1024;

/// Servers, paths or addresses in one list of them.
pub const LOCATIONS_MAX: usize = 64;

/// Components in one path name of fs_locations.
pub const COMPONENTS_MAX: usize = 64;

/// Stateids in one TEST_STATEID.
pub const TEST_STATEIDS_MAX: usize = 1024;

/// Ways to authenticate, in the answer to SECINFO and in the parameters of a callback channel. Each pair of a
/// GSS mechanism and a service is one.
pub const SECURITY_FLAVORS_MAX: usize = 32;

/// Everything that is opaque to NFSv4 itself and small: GSS handles and object identifiers, bodies of layouts.
pub const BODY4_BYTES_MAX: usize = 4096;

/// The value of an extended attribute (RFC 8276). Linux allows 64 KiB, XATTR_SIZE_MAX.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;

/// Names in one answer to LISTXATTRS. Linux allows 64 KiB of names, XATTR_LIST_MAX; each takes 8 bytes at least.
pub const XATTR_NAMES_MAX: usize = 8 << 10;

/// Segments in one answer to READ_PLUS: as many as a 1 MiB read of alternating 4 KiB pieces has.
pub const READ_PLUS_SEGMENTS_MAX: usize = 256;

/// Sessions, and requests of each, that a callback says it is about. A server names the one request that granted what
/// is recalled.
pub const REFERRING_LISTS_MAX: usize = 16;

/// See [`REFERRING_LISTS_MAX`].
pub const REFERRING_CALLS_MAX: usize = 64;

/// A cookie, handle or lock owner of NLM (XNFS chapter 10, MAXNETOBJ_SZ).
pub const NETOBJ_BYTES_MAX: usize = 1024;

/// The name of a host in NLM and NSM (XNFS chapters 10 and 11, LM_MAXSTRLEN and SM_MAXSTRLEN).
pub const NLM_STRING_BYTES_MAX: usize = 1024;

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
