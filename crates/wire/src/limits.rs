//! The limits of this crate, with their reasons. Units are bytes unless the name says otherwise.
//!
//! A length over its limit is [`crate::xdr::DecodeError::TooLong`] or [`crate::record::RecordError`], before any allocation.

/// File data in one READ or WRITE. The Linux client uses at most 1 MiB.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// All parts of a record but file data: headers, handles, names, padding.
pub const OVERHEAD_BYTES_MAX: usize = 32 << 10;

/// One RPC record: all fragments without their marks.
pub const RECORD_BYTES_MAX: usize = DATA_BYTES_MAX + OVERHEAD_BYTES_MAX;

/// Fragments in one record. libtirpc splits records every 4,000 to 9,000 bytes; older libraries do every 400, which makes
/// 2,700 fragments of the largest record.
pub const FRAGMENTS_MAX: u32 = 4096;

/// Empty fragments in one record. A few are a quirk, many are an attack.
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

/// A file name in decoding. Servers allow less (255), but can answer NAMETOOLONG only to what decodes; a decoding error
/// closes the connection.
pub const NAME_BYTES_MAX: usize = 4096;

/// The text of a symbolic link in decoding. Servers allow less (4,096, PATH_MAX of Linux); see [`NAME_BYTES_MAX`].
pub const PATH_BYTES_MAX: usize = 8192;

/// A file handle of NFSv4 (RFC 8881 section 3.1, NFS4_FHSIZE).
pub const HANDLE4_BYTES_MAX: usize = 128;

/// The id of a client or an owner in NFSv4 (RFC 8881 section 3.1, NFS4_OPAQUE_LIMIT), and the tag of a COMPOUND, for which
/// the RFC has no limit.
pub const OPAQUE4_BYTES_MAX: usize = 1024;

/// Operations in one COMPOUND. Linux sends at most 17; tests that probe the limit send thousands.
pub const COMPOUND_OPS_MAX: u32 = 128;

/// Words of a bitmap in NFSv4. Three are in use. More are decoded, since requests for unknown attributes must be answered.
pub const BITMAP_WORDS_MAX: usize = 64;

/// The values of all attributes of an object. The largest is an ACL.
pub const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Entries in one ACL. POSIX systems store a few dozen; Linux refuses more than 170 (one page).
pub const ACES_MAX: usize = 1024;

/// Servers, paths or addresses in one list.
pub const LOCATIONS_MAX: usize = 64;

/// Components of a path in fs_locations.
pub const COMPONENTS_MAX: usize = 64;

/// Stateids in one TEST_STATEID.
pub const TEST_STATEIDS_MAX: usize = 1024;

/// Security flavors in the result of SECINFO and in the parameters of a callback channel. Each pair of a GSS mechanism and a
/// service counts as one.
pub const SECURITY_FLAVORS_MAX: usize = 32;

/// Small data that is opaque to NFSv4: GSS handles, object identifiers, bodies of layouts.
pub const BODY4_BYTES_MAX: usize = 4096;

/// The value of an extended attribute (RFC 8276). Linux allows 64 KiB, XATTR_SIZE_MAX.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;

/// Names in one result of LISTXATTRS. Linux allows 64 KiB, XATTR_LIST_MAX; each name takes at least 8 bytes.
pub const XATTR_NAMES_MAX: usize = 8 << 10;

/// Segments in one result of READ_PLUS: those of 1 MiB in which data and holes of 4 KiB alternate.
pub const READ_PLUS_SEGMENTS_MAX: usize = 256;

/// Sessions to which a callback refers. A server names the one request that granted the recalled state.
pub const REFERRING_LISTS_MAX: usize = 16;

/// Requests of each session to which a callback refers; see [`REFERRING_LISTS_MAX`].
pub const REFERRING_CALLS_MAX: usize = 64;

/// A cookie, handle or lock owner of NLM (XNFS chapter 10, MAXNETOBJ_SZ).
pub const NETOBJ_BYTES_MAX: usize = 1024;

/// The name of a host in NLM and NSM (XNFS chapters 10 and 11, LM_MAXSTRLEN and SM_MAXSTRLEN).
pub const NLM_STRING_BYTES_MAX: usize = 1024;

/// A path in MOUNT (RFC 1813 appendix I, MNTPATHLEN).
pub const MOUNT_PATH_BYTES_MAX: usize = 1024;

/// A host or group name in MOUNT (RFC 1813 appendix I, MNTNAMLEN).
pub const MOUNT_NAME_BYTES_MAX: usize = 255;

/// Authentication flavors in the result of MNT. The RFC has no limit; only a handful exist.
pub const AUTH_FLAVORS_MAX: usize = 32;

/// A network id, universal address or owner in rpcbind. RFC 1833 has no limit; the longest in use is an IPv6 address with a
/// scope.
pub const RPCBIND_STRING_BYTES_MAX: usize = 256;

/// The largest header of an RPC call: six integers, then the credential and the verifier with flavor and length.
pub const CALL_HEADER_BYTES_MAX: usize = 6 * 4 + 2 * (8 + AUTH_BODY_BYTES_MAX);

// A name that the server refuses as too long must decode.
const _: () = assert!(NAME_BYTES_MAX > 255 && PATH_BYTES_MAX > 4096);
// The largest calls fit a record: WRITE for its data, RENAME and SYMLINK for their names.
const _: () = assert!(CALL_HEADER_BYTES_MAX + (4 + HANDLE_BYTES_MAX) + 8 + 4 + 4 + 4 <= OVERHEAD_BYTES_MAX);
const _: () =
    assert!(CALL_HEADER_BYTES_MAX + 2 * (8 + HANDLE_BYTES_MAX + NAME_BYTES_MAX) <= OVERHEAD_BYTES_MAX);
const _: () = assert!(
    CALL_HEADER_BYTES_MAX + (8 + HANDLE_BYTES_MAX + NAME_BYTES_MAX) + 64 + (4 + PATH_BYTES_MAX)
        <= OVERHEAD_BYTES_MAX
);
// The largest AUTH_SYS credential fits a credential.
const _: () = assert!(4 + (4 + MACHINE_NAME_BYTES_MAX + 1) + 8 + (4 + 4 * GROUPS_MAX) <= AUTH_BODY_BYTES_MAX);
// A record's length does not use the top bit of the record mark.
const _: () = assert!(RECORD_BYTES_MAX < 1 << 31);
// A record in fragments of 400 bytes stays within the limit of fragments.
const _: () = assert!(RECORD_BYTES_MAX / 400 < FRAGMENTS_MAX as usize);
// These lengths need no padding, on which other sizes rely.
const _: () = assert!(HANDLE_BYTES_MAX.is_multiple_of(4) && VERIFIER_BYTES.is_multiple_of(4));
