//! The basic data types (RFC 7530 section 2, RFC 8881 section 3).

use crate::array::Array;
use crate::limits::{
    BODY4_BYTES_MAX, COMPONENTS_MAX, HANDLE4_BYTES_MAX, NAME_BYTES_MAX, OPAQUE4_BYTES_MAX, PATH_BYTES_MAX,
};

xdr! {
    /// The type of a file (RFC 8881 section 3.2, nfs_ftype4).
    pub enum NfsFtype4 {
        /// A regular file.
        Reg = 1,
        /// A directory.
        Dir = 2,
        /// A block device.
        Blk = 3,
        /// A character device.
        Chr = 4,
        /// A symbolic link.
        Lnk = 5,
        /// A socket.
        Sock = 6,
        /// A named pipe.
        Fifo = 7,
        /// A directory of named attributes.
        AttrDir = 8,
        /// A named attribute.
        NamedAttr = 9,
    }

    /// A file handle (RFC 8881 section 3.2, nfs_fh4): opaque, at most [`HANDLE4_BYTES_MAX`] bytes.
    pub handle FileHandle4 max HANDLE4_BYTES_MAX;

    /// The name of a file in its directory (RFC 8881 section 3.2, component4). The server checks that it is UTF-8, and has a
    /// lower limit.
    pub opaque Component4 max NAME_BYTES_MAX;

    /// The text of a symbolic link (RFC 8881 section 3.2, linktext4). The server has a lower limit.
    pub opaque Linktext4 max PATH_BYTES_MAX;

    /// Text for people, or the name of a user, group, domain or host (RFC 8881 section 3.2, utf8string and its kinds). Not
    /// checked to be UTF-8.
    pub opaque Utf8Str4 max OPAQUE4_BYTES_MAX;

    /// The name of a client or of one of its owners, chosen by the client (RFC 8881 section 3.1, NFS4_OPAQUE_LIMIT).
    pub opaque OwnerId4 max OPAQUE4_BYTES_MAX;

    /// Data of another protocol: a GSS handle, a layout.
    pub opaque Opaque4 max BODY4_BYTES_MAX;

    /// A path as a sequence of components (RFC 8881 section 3.2, pathname4).
    pub type Pathname4<'a> = Array<'a, Component4<'a>, COMPONENTS_MAX>;

    /// A verifier, which changes with what it verifies (RFC 8881 section 3.2, verifier4).
    pub type Verifier4 = [u8; 8];

    /// Counts the requests of an owner or of a stateid (RFC 8881 section 3.2, seqid4).
    pub type Seqid4 = u32;

    /// Counts the requests of a slot or of a client (RFC 8881 section 3.2, sequenceid4).
    pub type SequenceId4 = u32;

    /// A slot of a session (RFC 8881 section 3.2, slotid4).
    pub type SlotId4 = u32;

    /// A device of pNFS (RFC 8881 section 3.3.14, deviceid4).
    pub type DeviceId4 = [u8; 16];

    /// The number by which a server identifies a client (RFC 8881 section 3.2, clientid4).
    #[derive(Default)]
    pub struct ClientId4(u64);

    /// A session (RFC 8881 section 3.2, sessionid4).
    #[derive(Default)]
    pub struct SessionId4([u8; 16]);

    /// Identifies state: an open, a lock, a delegation, a layout or a copy (RFC 8881 section 3.3.12, stateid4).
    #[derive(Hash, PartialOrd, Ord, Default)]
    pub struct Stateid4 {
        /// Counts the changes of the state.
        pub seqid: Seqid4,
        /// Identifies the state.
        pub other: [u8; 12],
    }
}

impl Stateid4 {
    /// No state (RFC 8881 section 8.2.3), for I/O without a share reservation or lock.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// The current stateid of the COMPOUND (RFC 8881 section 16.2.3.1.2).
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// Never valid (RFC 8881 section 8.2.3).
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };
}

xdr! {
    /// A time since 1970 (RFC 8881 section 3.3.1, nfstime4).
    #[derive(PartialOrd, Ord, Hash, Default)]
    pub struct NfsTime4 {
        /// Seconds.
        pub seconds: i64,
        /// Nanoseconds; not checked to be below 10^9.
        pub nseconds: u32,
    }

    /// The numbers of a device (RFC 8881 section 3.3.8, specdata4).
    pub struct SpecData4 {
        /// The major number.
        pub major: u32,
        /// The minor number.
        pub minor: u32,
    }

    /// The change attribute of a directory before and after an operation (RFC 8881 section 3.3.4, change_info4).
    pub struct ChangeInfo4 {
        /// Whether both were read atomically with the operation.
        pub atomic: bool,
        /// The change attribute before.
        pub before: u64,
        /// The change attribute after.
        pub after: u64,
    }

    /// A network address (RFC 8881 section 3.3.9, netaddr4; RFC 5665).
    pub struct Netaddr4<'a> {
        /// The network id, for example `tcp6`.
        pub netid: Utf8Str4<'a>,
        /// The universal address, see [`crate::portmap::parse_universal_address`].
        pub addr: Utf8Str4<'a>,
    }

    /// An open owner or lock owner of a client (RFC 8881 section 3.3.11, state_owner4; open_owner4 and lock_owner4).
    pub struct StateOwner4<'a> {
        /// The client. Ignored since NFSv4.1, where the session implies it.
        pub clientid: ClientId4,
        /// The owner.
        pub owner: OwnerId4<'a>,
    }

    /// An implementation of NFS (RFC 8881 section 3.3.10, nfs_impl_id4).
    pub struct NfsImplId4<'a> {
        /// The domain of its vendor.
        pub domain: Utf8Str4<'a>,
        /// Its name.
        pub name: Utf8Str4<'a>,
        /// The time of its build.
        pub date: NfsTime4,
    }

    /// The stability of a WRITE (RFC 8881 section 18.32, stable_how4).
    pub enum StableHow4 {
        /// Memory is sufficient.
        Unstable = 0,
        /// The data and the metadata to find it are stable.
        DataSync = 1,
        /// The data and all metadata are stable.
        FileSync = 2,
    }
}
