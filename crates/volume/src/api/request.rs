//! What an operation is told about its caller, and what it answers besides its result.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::api::ids::{ObjectId, Seq, VolumeNumber};
use crate::api::state::StateChange;
use crate::api::time::Time;

/// Who asks: POSIX credentials after the export's squash rules were applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User; 0 may do everything that POSIX lets a superuser do.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// The superuser.
    pub fn root() -> Credentials {
        Credentials { uid: 0, gid: 0, groups: Vec::new() }
    }

    /// Checks whether the caller belongs to `gid`.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// Whether an operation may wait for media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Memory only: what is not cached fails with [`Error::WouldBlock`].
    Cached,
    /// The calling thread may read media.
    Blocking,
}

/// A client, or what clients are counted by.
pub type Caller = [u8; 16];

/// Identifies a non-idempotent request, so that a retransmission gets the first answer again. At most
/// [`crate::limits::REQUEST_KEY_BYTES_MAX`] bytes: client address without port, xid, program, version, procedure and
/// a checksum of the arguments. A volume remembers only answers to its own requests: of other volumes the same key is another.
///
/// The origin does not belong to the key: it is not stored, and keys with different ones may be equal.
#[derive(Clone, Debug)]
pub struct RequestKey {
    bytes: Arc<[u8]>,
    origin: Caller,
    /// The volume that answers it, once that is known.
    volume: VolumeNumber,
}

impl RequestKey {
    /// Returns the key of these bytes. The first of them, 16, are those of the client, by which its answers are counted.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> RequestKey {
        let bytes = bytes.into();
        let origin = client_of(&bytes);
        RequestKey { bytes, origin, volume: VolumeNumber::default() }
    }

    /// Counts the answer by `origin`, which several clients may have in common.
    #[must_use]
    pub fn from_origin(self, origin: Caller) -> RequestKey {
        RequestKey { origin, ..self }
    }

    /// Returns the key of a request to this volume.
    #[must_use]
    pub(crate) fn for_volume(self, volume: VolumeNumber) -> RequestKey {
        RequestKey { volume, ..self }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the volume that answers it.
    pub(crate) fn volume(&self) -> VolumeNumber {
        self.volume
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> Caller {
        client_of(&self.bytes)
    }

    /// Returns what its answer is counted by.
    pub(crate) fn origin(&self) -> Caller {
        self.origin
    }
}

/// Returns the beginning of a key, with zeros after a shorter one.
fn client_of(key: &[u8]) -> Caller {
    let mut client = Caller::default();
    client.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    client
}

impl PartialEq for RequestKey {
    fn eq(&self, other: &RequestKey) -> bool {
        (self.volume, &self.bytes) == (other.volume, &other.bytes)
    }
}

impl Eq for RequestKey {}

impl Hash for RequestKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.volume, &self.bytes).hash(state);
    }
}

impl PartialOrd for RequestKey {
    fn partial_cmp(&self, other: &RequestKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RequestKey {
    fn cmp(&self, other: &RequestKey) -> Ordering {
        (self.volume, &self.bytes).cmp(&(other.volume, &other.bytes))
    }
}

/// What an operation is told about its caller.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who asks.
    pub credentials: &'a Credentials,
    /// The wall clock.
    pub now: Time,
    /// Whether it may wait for media.
    pub access: Access,
    /// Set for a non-idempotent request: its answer is journaled with its effect.
    pub key: Option<&'a RequestKey>,
}

/// What a protocol journals together with the effect of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journaled {
    /// The encoded result. Longer than [`crate::limits::REQUEST_ANSWER_BYTES_MAX`], it is not cached.
    pub answer: Arc<[u8]>,
    /// Protocol state records; together at most [`crate::limits::STATE_BYTES_PER_ENTRY_MAX`].
    pub state: Vec<StateChange>,
}

impl From<Arc<[u8]>> for Journaled {
    fn from(answer: Arc<[u8]>) -> Journaled {
        Journaled { answer, state: Vec::new() }
    }
}

/// Encodes a result for the journal. Called at most once, under the operation's locks, and only if the request has a
/// key and the operation changes something.
pub type Encode<'a, T> = &'a mut dyn FnMut(&T) -> Journaled;

/// What must be on stable media before a reply may leave. Merge with [`Durability::and`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// Every journal entry up to this one.
    pub seq: Seq,
    /// A flush.
    pub flush: FlushWait,
}

/// A flush that something waits for: until it is done, or has saved the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushWait {
    /// Every flush generation up to this one must be done; 0 is done from the beginning.
    pub generation: u64,
    /// The file that this one, or a later one, must have saved; `None` stands for all files that it was asked to save.
    pub file: Option<ObjectId>,
}

impl Durability {
    /// Nothing to wait for.
    pub const NOW: Durability = Durability::of(Seq(0));

    /// Waits for this journal entry.
    pub const fn of(seq: Seq) -> Durability {
        Durability { seq, flush: FlushWait { generation: 0, file: None } }
    }

    /// Waits for both: for the later entry, and for the later flush generation. A flush may save one file before an earlier flush
    /// has saved another, so waits for different files become one for all files of the later generation.
    ///
    /// Of two flushes the earlier may fail and the later succeed; the reply then leaves, and rightly so. Data that a
    /// flush failed to make stable stays unstable data: still in memory, reported by a new verifier, and shown to
    /// later readers without waiting. So a reply that *shows* it need not fail. A reply that *promises stability*, of
    /// WRITE or COMMIT, waits for the flush of that one file only; a later flush of the same file includes everything
    /// still unstable.
    #[must_use]
    pub fn and(self, other: Durability) -> Durability {
        let flush = match (self.flush, other.flush) {
            (one, FlushWait { generation: 0, .. }) | (FlushWait { generation: 0, .. }, one) => one,
            (one, other) => FlushWait {
                generation: one.generation.max(other.generation),
                file: one.file.filter(|_| one.file == other.file),
            },
        };
        Durability { seq: self.seq.max(other.seq), flush }
    }
}

/// Whether a [`Durability`] is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// The reply may leave.
    Yes,
    /// It must wait.
    NotYet,
    /// It never will be: the reply must be an I/O error.
    Failed,
}

/// A result, and what must be durable before it may be shown.
#[derive(Clone, Debug)]
pub struct Promised<T> {
    /// The result.
    pub value: T,
    /// What its reply waits for.
    pub after: Durability,
}

/// Why an operation failed, and what must be durable before that may be shown (a NOENT may reveal a remove).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub error: Error,
    /// What its reply waits for.
    pub after: Durability,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, after: Durability::NOW }
    }
}

/// The answer of an operation.
pub type Answer<T> = Result<Promised<T>, Failure>;

/// Why an operation failed. Names follow POSIX errno and `nfsstat3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// Not the owner, and not the superuser.
    NotPermitted,
    /// No such name.
    NoEntry,
    /// Media failed, or stored data did not verify.
    Io,
    /// Permission denied by the mode bits.
    AccessDenied,
    /// The name exists.
    Exists,
    /// Not a directory.
    NotDirectory,
    /// Is a directory.
    IsDirectory,
    /// An invalid argument.
    Invalid,
    /// The size or range exceeds the largest file.
    FileTooLarge,
    /// No space left.
    NoSpace,
    /// A quota of the volume, a tree, the owner or the group is used up.
    QuotaExceeded,
    /// The volume refuses changes: read-only, or after a failure of its journal.
    ReadOnly,
    /// Too many links.
    TooManyLinks,
    /// The pool has as many volumes as there may be. Only changes of volumes fail like that.
    TooManyVolumes,
    /// The volume has as many quotas as there may be. Only changes of quotas fail like that.
    TooManyQuotas,
    /// The name is longer than 255 bytes.
    NameTooLong,
    /// The directory is not empty.
    NotEmpty,
    /// The handle's object no longer exists.
    Stale,
    /// The bytes are not a handle of this volume.
    BadHandle,
    /// The guard time of SETATTR did not match (NFS3ERR_NOT_SYNC).
    NotSync,
    /// The cookie was never handed out (NFS3ERR_BAD_COOKIE).
    BadCookie,
    /// A type that cannot be created this way (NFS3ERR_BADTYPE).
    BadType,
    /// Across two volumes or two quota trees.
    CrossDevice,
    /// With [`Access::Cached`], something needed is not in memory. Nothing changed; retry with [`Access::Blocking`].
    WouldBlock,
    /// A temporary limit is reached that all changes share: the journal, the memtables, unstable data, space. Nothing changed;
    /// retry in a moment. Until that succeeds, other changes will most likely fail too.
    Busy,
    /// Something must be done for an object first, or it changed while it was looked at. Nothing changed; retry in a moment.
    /// This says nothing about changes to other objects.
    ObjectBusy,
}

impl Error {
    /// Whether the same operation may succeed in a moment, once other work has been done.
    #[must_use]
    pub fn is_busy(self) -> bool {
        matches!(self, Error::Busy | Error::ObjectBusy)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::NotPermitted => "operation not permitted",
            Error::NoEntry => "no such name",
            Error::Io => "input/output error",
            Error::AccessDenied => "permission denied",
            Error::Exists => "the name exists",
            Error::NotDirectory => "not a directory",
            Error::IsDirectory => "is a directory",
            Error::Invalid => "invalid argument",
            Error::FileTooLarge => "file too large",
            Error::NoSpace => "no space left",
            Error::QuotaExceeded => "a quota is used up",
            Error::ReadOnly => "the volume refuses changes",
            Error::TooManyLinks => "too many links",
            Error::TooManyVolumes => "the pool has as many volumes as there may be, 4096",
            Error::TooManyQuotas => "it has as many quotas as there may be, 100000",
            Error::NameTooLong => "name too long",
            Error::NotEmpty => "directory not empty",
            Error::Stale => "the object no longer exists",
            Error::BadHandle => "not a file handle of this volume",
            Error::NotSync => "the change time differs from the guard",
            Error::BadCookie => "the cookie was never handed out",
            Error::BadType => "objects of this type cannot be created this way",
            Error::CrossDevice => "across two volumes or quota trees",
            Error::WouldBlock => "data is not in memory",
            Error::Busy => "a temporary limit is reached",
            Error::ObjectBusy => "the object is not ready",
        })
    }
}
