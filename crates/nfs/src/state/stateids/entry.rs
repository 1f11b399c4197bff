//! What a stateid stands for: an open, a lock owner's locks in a file, or a delegation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, Ordering};

use volume::state::StateChange;
use volume::time::Time;

use crate::state::StateError;
use crate::state::clients::client::{Client, LockOwner, OpenOwner};
use crate::state::files::share::{Mode, Modes};
use crate::state::ids::{FileId, Other, StateId};
use crate::state::record::{Key, OpenRecord};

/// Whether it is still held. Nothing comes back from the right.
///
/// ```text
///   Live ──CLOSE, DELEGRETURN, FREE_STATEID──────▶ Gone
///     └──not returned in time──▶ Revoked ──FREE_STATEID──▶ Gone
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It is held.
    Live,
    /// It was taken away; the client is to be told.
    Revoked,
    /// It is no more. Found only by who repeats the last request of an owner, or looked it up a moment ago.
    Gone,
}

/// How far the recall of a delegation has come.
///
/// ```text
///   Held ──conflict──▶ Recalled ──DELEGRETURN──▶ (gone)
///                         └─────after a lease──▶ (revoked)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recall {
    /// Nobody minds it.
    Held,
    /// It was asked back then.
    Recalled(Time),
}

/// A file that an owner has open.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) owner: Arc<OpenOwner>,
    modes: AtomicU16,
    /// Whether it came from a record, so that a client that reclaims it is right.
    restored: bool,
}

/// The locks of an owner in a file.
#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) owner: Arc<LockOwner>,
    /// The open that they depend on.
    pub(crate) open: Arc<StateEntry>,
}

/// A delegation.
#[derive(Debug)]
pub(crate) struct Delegation {
    /// Whether it is one to write.
    pub(crate) write: bool,
    /// When it was recalled, in nanoseconds; [`NEVER`] if it was not.
    recalled: AtomicI64,
    /// Whether the client was told of that, or is being told.
    told: AtomicBool,
}

const NEVER: i64 = i64::MIN;

/// The three kinds.
#[derive(Debug)]
pub(crate) enum StateKind {
    Open(Open),
    Locks(Locks),
    Delegation(Delegation),
}

/// Something that a client holds. What changes does so only under the lock of its file; it can be read without.
#[derive(Debug)]
pub(crate) struct StateEntry {
    pub(crate) other: Other,
    pub(crate) file: FileId,
    pub(crate) client: Arc<Client>,
    seqid: AtomicU32,
    liveness: AtomicU8,
    pub(crate) kind: StateKind,
}

impl StateEntry {
    fn new(client: &Arc<Client>, file: FileId, stateid: StateId, kind: StateKind) -> Arc<StateEntry> {
        Arc::new(StateEntry {
            other: stateid.other,
            file,
            client: Arc::clone(client),
            seqid: AtomicU32::new(stateid.seqid),
            liveness: AtomicU8::new(0),
            kind,
        })
    }

    /// An open; `restored` if a record names it.
    pub(crate) fn open(
        client: &Arc<Client>,
        file: FileId,
        stateid: StateId,
        owner: &Arc<OpenOwner>,
        modes: Modes,
        restored: bool,
    ) -> Arc<StateEntry> {
        let open = Open { owner: Arc::clone(owner), modes: AtomicU16::new(modes.0), restored };
        StateEntry::new(client, file, stateid, StateKind::Open(open))
    }

    /// The locks of `owner`, none yet.
    pub(crate) fn locks(stateid: StateId, owner: &Arc<LockOwner>, open: &Arc<StateEntry>) -> Arc<StateEntry> {
        let locks = Locks { owner: Arc::clone(owner), open: Arc::clone(open) };
        StateEntry::new(&open.client, open.file, stateid, StateKind::Locks(locks))
    }

    /// A delegation.
    pub(crate) fn delegation(
        client: &Arc<Client>,
        file: FileId,
        stateid: StateId,
        write: bool,
    ) -> Arc<StateEntry> {
        let delegation = Delegation { write, recalled: AtomicI64::new(NEVER), told: AtomicBool::new(false) };
        StateEntry::new(client, file, stateid, StateKind::Delegation(delegation))
    }

    /// The change that puts the record of an open that needs no confirmation.
    pub(crate) fn to_change(&self) -> Option<StateChange> {
        let open = self.as_open()?;
        let (owner, seqid) = (open.owner.name.clone(), self.stateid().seqid);
        let record = OpenRecord { owner, seqid, modes: open.modes().0, confirmed: true };
        Some(Key::Open(self.file.ino, self.other).put(&record))
    }

    /// The stateid as it is now.
    pub(crate) fn stateid(&self) -> StateId {
        StateId { seqid: self.seqid.load(Ordering::Acquire), other: self.other }
    }

    /// The seqid after the current one; never 0, which means "whatever it is" (RFC 8881 section 8.2.2).
    pub(crate) fn next_seqid(&self) -> u32 {
        self.seqid.load(Ordering::Acquire).checked_add(1).unwrap_or(1)
    }

    /// It has changed.
    pub(crate) fn set_seqid(&self, seqid: u32) {
        self.seqid.store(seqid, Ordering::Release);
    }

    /// Whether it is still held.
    pub(crate) fn liveness(&self) -> Liveness {
        match self.liveness.load(Ordering::Acquire) {
            0 => Liveness::Live,
            1 => Liveness::Revoked,
            _ => Liveness::Gone,
        }
    }

    /// It was taken away.
    pub(crate) fn revoke(&self) {
        self.liveness.store(1, Ordering::Release);
    }

    /// Its holder knows that it was taken away. Whether nobody else said so before.
    pub(crate) fn end_revoked(&self) -> bool {
        self.liveness.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// It is no more.
    pub(crate) fn end(&self) {
        self.liveness.store(2, Ordering::Release);
    }

    /// The open, if it is one.
    pub(crate) fn as_open(&self) -> Option<&Open> {
        match &self.kind {
            StateKind::Open(open) => Some(open),
            _ => None,
        }
    }

    /// The locks, if it is some.
    pub(crate) fn as_locks(&self) -> Option<&Locks> {
        match &self.kind {
            StateKind::Locks(locks) => Some(locks),
            _ => None,
        }
    }

    /// The delegation, if it is one.
    pub(crate) fn as_delegation(&self) -> Option<&Delegation> {
        match &self.kind {
            StateKind::Delegation(delegation) => Some(delegation),
            _ => None,
        }
    }

    /// What its holder may do with the file: of locks, what their open allows.
    pub(crate) fn mode(&self) -> Option<Mode> {
        match &self.kind {
            StateKind::Open(open) => open.modes().union(),
            StateKind::Locks(locks) => locks.open.mode(),
            StateKind::Delegation(delegation) => Mode::new(if delegation.write { 3 } else { 1 }, 0),
        }
    }

    /// Compares a stateid that a client sent with the current one. `zero_is_current` in NFSv4.1 (RFC 8881 section 8.2.2).
    ///
    /// # Errors
    /// NFS4ERR_OLD_STATEID and NFS4ERR_BAD_STATEID.
    pub(crate) fn verify(&self, seqid: u32, zero_is_current: bool) -> Result<(), StateError> {
        let current = self.seqid.load(Ordering::Acquire);
        match current.wrapping_sub(seqid) {
            0 => Ok(()),
            _ if seqid == 0 && zero_is_current => Ok(()),
            behind if behind < 1 << 31 => Err(StateError::OldStateId),
            _ => Err(StateError::BadStateId),
        }
    }
}

impl Open {
    /// How it was opened.
    pub(crate) fn modes(&self) -> Modes {
        Modes(self.modes.load(Ordering::Acquire))
    }

    /// It is open otherwise now.
    pub(crate) fn set_modes(&self, modes: Modes) {
        self.modes.store(modes.0, Ordering::Release);
    }

    /// Whether a record named it.
    pub(crate) fn is_restored(&self) -> bool {
        self.restored
    }
}

impl Delegation {
    /// How far its recall has come.
    pub(crate) fn recall(&self) -> Recall {
        match self.recalled.load(Ordering::Acquire) {
            NEVER => Recall::Held,
            nanos => Recall::Recalled(Time::from_nanos(nanos)),
        }
    }

    /// It is asked back. False if it was already.
    pub(crate) fn begin_recall(&self, now: Time) -> bool {
        let exchanged =
            self.recalled.compare_exchange(NEVER, now.nanos(), Ordering::AcqRel, Ordering::Acquire);
        exchanged.is_ok()
    }

    /// The client is to be told. False if it was, or is being told.
    pub(crate) fn begin_notify(&self) -> bool {
        !self.told.swap(true, Ordering::AcqRel)
    }

    /// It could not be told, or did not know what it was told of.
    pub(crate) fn notify_failed(&self) {
        self.told.store(false, Ordering::Release);
    }
}
