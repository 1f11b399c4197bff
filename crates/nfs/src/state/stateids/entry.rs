//! What a stateid stands for: an open, a lock owner's locks in a file, or a delegation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use volume::state::{DeferredValue, StateChange};
use volume::time::Time;

use crate::state::StateError;
use crate::state::clients::client::{Client, ClientProtocol, LockOwner, OpenOwner};
use crate::state::clients::owner_sequence::OwnerSequence;
use crate::state::config::ENTRY_BYTES;
use crate::state::files::share::{Mode, Modes};
use crate::state::ids::{FileId, Other, StateId};
use crate::state::record::{Key, OpenRecord, Record as _};
use crate::state::shares::Resource;

/// Whether state is still held. Transitions never go back.
///
/// ```text
///   Live ──CLOSE, DELEGRETURN, FREE_STATEID──────▶ Gone
///     └──not returned in time──▶ Revoked ──FREE_STATEID──▶ Gone
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It is held.
    Live,
    /// It was revoked; the client must be told.
    Revoked,
    /// It has ended. Only a repetition of an owner's last request, or an earlier lookup, still finds it.
    Gone,
}

/// The progress of a delegation's recall.
///
/// ```text
///   Held ──conflict──▶ Recalled ──DELEGRETURN──▶ (gone)
///                         └─────after a lease──▶ (revoked)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recall {
    /// Not recalled.
    Held,
    /// Recalled at this time, or later if nobody could tell the client before.
    Recalled(Time),
}

/// An owner's open of a file.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) owner: Arc<OpenOwner>,
    modes: AtomicU16,
    /// Whether a record named it, so that the client may reclaim it.
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
    /// Whether it is a write delegation.
    pub(crate) write: bool,
    /// Since when its client has had to return it, in nanoseconds; [`NEVER`] if it was not recalled.
    recalled: AtomicI64,
    /// When it was recalled, in nanoseconds.
    recalled_first: AtomicI64,
    /// Whether the client was notified of the recall, or is being notified.
    notified: AtomicBool,
}

const NEVER: i64 = i64::MIN;

/// The kinds of state.
#[derive(Debug)]
pub(crate) enum StateKind {
    Open(Open),
    Locks(Locks),
    Delegation(Delegation),
}

/// One piece of state that a client holds. It changes only under the lock of its file, but can be read without. It counts
/// as long as it exists.
#[derive(Debug)]
pub(crate) struct StateEntry {
    pub(crate) other: Other,
    pub(crate) file: FileId,
    pub(crate) client: Arc<Client>,
    seqid: AtomicU32,
    liveness: AtomicU8,
    pub(crate) kind: StateKind,
}

impl StateKind {
    /// Returns what it counts as.
    fn counted(&self) -> (Resource, u64) {
        match self {
            StateKind::Open(_) | StateKind::Locks(_) => (Resource::StateBytes, ENTRY_BYTES),
            StateKind::Delegation(_) => (Resource::Delegations, 1),
        }
    }
}

impl Drop for StateEntry {
    fn drop(&mut self) {
        let (resource, amount) = self.kind.counted();
        self.client.holder.give_back(resource, amount);
    }
}

impl StateEntry {
    fn new(client: &Arc<Client>, file: FileId, stateid: StateId, kind: StateKind) -> Arc<StateEntry> {
        let (resource, amount) = kind.counted();
        client.holder.take(resource, amount);
        Arc::new(StateEntry {
            other: stateid.other,
            file,
            client: Arc::clone(client),
            seqid: AtomicU32::new(stateid.seqid),
            liveness: AtomicU8::new(0),
            kind,
        })
    }

    /// Creates an open; `restored` if a record names it.
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

    /// Creates the lock state of `owner`, without locks.
    pub(crate) fn locks(stateid: StateId, owner: &Arc<LockOwner>, open: &Arc<StateEntry>) -> Arc<StateEntry> {
        let locks = Locks { owner: Arc::clone(owner), open: Arc::clone(open) };
        StateEntry::new(&open.client, open.file, stateid, StateKind::Locks(locks))
    }

    /// Creates a delegation.
    pub(crate) fn delegation(
        client: &Arc<Client>,
        file: FileId,
        stateid: StateId,
        write: bool,
    ) -> Arc<StateEntry> {
        let delegation = Delegation {
            write,
            recalled: AtomicI64::new(NEVER),
            notified: AtomicBool::new(false),
            recalled_first: AtomicI64::new(NEVER),
        };
        StateEntry::new(client, file, stateid, StateKind::Delegation(delegation))
    }

    /// Returns the record of an open as it is now.
    fn open_record(&self) -> Option<OpenRecord<'_>> {
        let open = self.as_open()?;
        let confirmed = self.client.version == ClientProtocol::Sessions || open.owner.sequence.is_confirmed();
        Some(OpenRecord::of(&open.owner, self.stateid().seqid, open.modes(), confirmed))
    }

    /// Returns the change that writes the record of an open that needs no confirmation.
    pub(crate) fn to_change(&self) -> Option<StateChange> {
        let open = self.as_open()?;
        let record = OpenRecord::of(&open.owner, self.stateid().seqid, open.modes(), true);
        Some(Key::Open(self.file.ino, self.other).put(&record))
    }

    /// Returns the current stateid.
    pub(crate) fn stateid(&self) -> StateId {
        StateId { seqid: self.seqid.load(Ordering::Acquire), other: self.other }
    }

    /// Returns the next seqid; never 0, which means the current one (RFC 8881 section 8.2.2).
    pub(crate) fn next_seqid(&self) -> u32 {
        self.seqid.load(Ordering::Acquire).checked_add(1).unwrap_or(1)
    }

    /// Sets the seqid after a change.
    pub(crate) fn set_seqid(&self, seqid: u32) {
        self.seqid.store(seqid, Ordering::Release);
    }

    /// Returns whether it is still held.
    pub(crate) fn liveness(&self) -> Liveness {
        match self.liveness.load(Ordering::Acquire) {
            0 => Liveness::Live,
            1 => Liveness::Revoked,
            _ => Liveness::Gone,
        }
    }

    /// Revokes it.
    pub(crate) fn revoke(&self) {
        self.liveness.store(1, Ordering::Release);
    }

    /// Ends it once its holder knows that it was revoked. Returns whether this call did.
    pub(crate) fn end_revoked(&self) -> bool {
        self.liveness.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.liveness.store(2, Ordering::Release);
    }

    /// Returns the open, if it is one.
    pub(crate) fn as_open(&self) -> Option<&Open> {
        match &self.kind {
            StateKind::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Returns the lock state, if it is one.
    pub(crate) fn as_locks(&self) -> Option<&Locks> {
        match &self.kind {
            StateKind::Locks(locks) => Some(locks),
            _ => None,
        }
    }

    /// Returns the order of its owner's requests; none for a delegation, which has no owner.
    pub(crate) fn owner_sequence(&self) -> Option<&OwnerSequence> {
        match &self.kind {
            StateKind::Open(open) => Some(&open.owner.sequence),
            StateKind::Locks(locks) => Some(&locks.owner.sequence),
            StateKind::Delegation(_) => None,
        }
    }

    /// Returns the delegation, if it is one.
    pub(crate) fn as_delegation(&self) -> Option<&Delegation> {
        match &self.kind {
            StateKind::Delegation(delegation) => Some(delegation),
            _ => None,
        }
    }

    /// Returns its holder's access to the file. Locks have that of their open.
    pub(crate) fn mode(&self) -> Option<Mode> {
        match &self.kind {
            StateKind::Open(open) => open.modes().union(),
            StateKind::Locks(locks) => locks.open.mode(),
            StateKind::Delegation(delegation) => Mode::new(if delegation.write { 3 } else { 1 }, 0),
        }
    }

    /// Compares a client's seqid with the current one. `zero_is_current` since NFSv4.1 (RFC 8881 section 8.2.2).
    ///
    /// # Errors
    /// [`StateError::OldStateId`] and [`StateError::BadStateId`].
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

/// The record of an open that is journaled later.
impl DeferredValue for StateEntry {
    fn bytes_max(&self) -> usize {
        self.open_record().map_or(0, |record| record.bytes_max())
    }

    fn make(&self) -> Arc<[u8]> {
        self.open_record().expect("only opens are deferred").to_bytes()
    }
}

impl Open {
    /// Returns the modes in which it was opened.
    pub(crate) fn modes(&self) -> Modes {
        Modes(self.modes.load(Ordering::Acquire))
    }

    /// Replaces the open modes.
    pub(crate) fn set_modes(&self, modes: Modes) {
        self.modes.store(modes.0, Ordering::Release);
    }

    /// Returns whether a record named it.
    pub(crate) fn is_restored(&self) -> bool {
        self.restored
    }
}

impl Delegation {
    /// Returns the progress of the recall.
    pub(crate) fn recall(&self) -> Recall {
        match self.recalled.load(Ordering::Acquire) {
            NEVER => Recall::Held,
            nanos => Recall::Recalled(Time::from_nanos(nanos)),
        }
    }

    /// Begins the recall. Returns false if it has begun before.
    pub(crate) fn begin_recall(&self, now: Time) -> bool {
        let exchanged =
            self.recalled.compare_exchange(NEVER, now.nanos(), Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_ok() {
            self.recalled_first.store(now.nanos(), Ordering::Release);
        }
        exchanged.is_ok()
    }

    /// Returns how long ago the recall began, however often its time limit was restarted.
    pub(crate) fn recalled_for(&self, now: Time) -> Duration {
        match self.recalled_first.load(Ordering::Acquire) {
            NEVER => Duration::ZERO,
            nanos => now.since(Time::from_nanos(nanos)),
        }
    }

    /// Restarts the time limit for its return.
    pub(crate) fn put_recall_off(&self, now: Time) {
        if self.recall() != Recall::Held {
            self.recalled.store(now.nanos(), Ordering::Release);
        }
    }

    /// Claims the notification of the client. Returns false if another call has.
    pub(crate) fn begin_notify(&self) -> bool {
        !self.notified.swap(true, Ordering::AcqRel)
    }

    /// Notes that the client could not be notified, or did not know the delegation.
    pub(crate) fn notify_failed(&self) {
        self.notified.store(false, Ordering::Release);
    }
}
