//! Copies that continue after the reply to COPY (RFC 7862 section 4), and CB_OFFLOAD.
//!
//! `v4/copies.rs` does the copying; here a copy has a stateid, a record and an end. The record says that a client
//! waits: if the server stops before it reported the end, it tells the client after the restart to ask again.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use volume::request::{Credentials, Durability};
use volume::time::Time;
use wire::limits::VERIFIER_BYTES;

use crate::exports::Export;
use crate::state::callbacks::Notify;
use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::config::Counters;
use crate::state::ids::{FileId, Other, StateId};
use crate::state::record::{CopyRecord, Key};
use crate::state::shards::Shards;
use crate::state::shares::{Held, Resource};
use crate::state::{Context, DurabilityToken, SharedState, StateError};

/// The minor version that introduced COPY and CB_OFFLOAD.
const MINOR: u32 = 2;

/// One side of a copy: a range of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopySide {
    pub(crate) file: FileId,
    /// The stateid with which the client accesses it.
    pub(crate) stateid: StateId,
    /// The start of the range, in bytes.
    pub(crate) offset: u64,
}

/// What to copy, and on whose behalf.
#[derive(Clone, Debug)]
pub(crate) struct CopyRequest {
    pub(crate) from: CopySide,
    pub(crate) to: CopySide,
    /// The bytes to copy in all.
    pub(crate) count: u64,
    pub(crate) credentials: Credentials,
    /// Where the client asked for it.
    pub(crate) peer: SocketAddr,
    /// The rules by which it may read the one file and write the other. It ends when others are in force.
    pub(crate) rules: [Export; 2],
}

/// The phase of a copy.
///
/// ```text
///   Running ──all is copied, or no more can be──▶ Syncing ──durable──▶ Ended ──CB_OFFLOAD was answered──▶ Gone
///      └────────┴──────── OFFLOAD_CANCEL, its client is gone ────────────┴───────────────────────────────▶ ▲
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Parts are being copied.
    Running,
    /// Nothing more is copied, but not all of it is durable yet.
    Syncing,
    /// It is over, and the client is told how it ended.
    Ended(CopyEnd),
    /// No client waits for it.
    Gone,
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyEnd {
    /// All that was copied is durable.
    Complete,
    /// Nothing could be copied, or the copied data is lost.
    Failed,
    /// The volume is no longer served.
    NotServed,
    /// The server restarted; the client has to ask again.
    Interrupted,
}

/// The phase of a copy, and how much of it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyProgress {
    pub(crate) phase: Phase,
    /// Bytes from the start.
    pub(crate) done: u64,
    /// When they are durable.
    pub(crate) after: Durability,
    /// When the last of them were copied after the reply.
    pub(crate) copied_at: Time,
    /// When its origin may copy more: a journal that is filled too fast wants pauses.
    pub(crate) rests_until: Time,
    /// The verifier of the destination's volume, once it ended.
    pub(crate) verifier: [u8; VERIFIER_BYTES],
}

impl CopyProgress {
    fn new(phase: Phase, done: u64, after: Durability) -> CopyProgress {
        let (copied_at, rests_until) = (Time::EPOCH, Time::EPOCH);
        CopyProgress { phase, done, after, copied_at, rests_until, verifier: Default::default() }
    }
}

/// A copy that continues after its reply.
#[derive(Debug)]
pub(crate) struct CopyJob {
    pub(crate) other: Other,
    pub(crate) client: Arc<Client>,
    /// The destination.
    pub(crate) file: FileId,
    /// None if a restart interrupted it.
    pub(crate) order: Option<CopyRequest>,
    /// Whether CB_OFFLOAD is being sent.
    notifying: AtomicBool,
    progress: Mutex<CopyProgress>,
    /// Held while a part is copied.
    working: Mutex<()>,
    /// Counts the copy.
    _held: Held,
}

impl CopyJob {
    /// Returns its stateid, which never changes.
    pub(crate) fn stateid(&self) -> StateId {
        StateId { seqid: 1, other: self.other }
    }

    /// Returns its progress.
    pub(crate) fn progress(&self) -> CopyProgress {
        *self.progress.lock()
    }

    /// Locks the copy against cancellation while a part is copied. None if the copy is not running.
    pub(crate) fn work(&self) -> Option<MutexGuard<'_, ()>> {
        let working = self.working.lock();
        (self.progress().phase == Phase::Running).then_some(working)
    }

    /// Adds a part that was copied now, durable with `after`. The next one may follow after a pause.
    pub(crate) fn copied(&self, count: u64, after: Durability, now: Time, pause: Duration) {
        let mut progress = self.progress.lock();
        progress.done += count;
        progress.copied_at = now;
        progress.rests_until = now.plus(pause);
        progress.after = progress.after.and(after);
        let all = self.order.as_ref().is_none_or(|order| progress.done >= order.count);
        if all && progress.phase == Phase::Running {
            progress.phase = Phase::Syncing;
        }
    }

    /// Notes that no more can be copied.
    pub(crate) fn stop(&self) {
        let mut progress = self.progress.lock();
        if progress.phase == Phase::Running {
            progress.phase = Phase::Syncing;
        }
    }

    /// Notes that CB_OFFLOAD could not be sent, or was not understood. The next tick sends it again.
    pub(super) fn notify_failed(&self) {
        self.notifying.store(false, Ordering::Release);
    }
}

/// All copies. Their lock is taken before those of shards and clients.
#[derive(Default)]
pub(super) struct CopyJobs {
    all: Mutex<BTreeMap<Other, Arc<CopyJob>>>,
    /// Their stateids, which no other state may have.
    others: Shards<Other, ()>,
    /// Called when there is something to copy.
    notify: RwLock<Option<Notify>>,
}

impl fmt::Debug for CopyJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.lock().fmt(f)
    }
}

impl CopyJobs {
    /// Returns whether this is the stateid of a copy. Takes no lock but that of a shard.
    pub(super) fn has(&self, other: &Other) -> bool {
        self.others.read(other).contains_key(other)
    }

    /// Returns the number of copies that run, or whose end is not reported.
    pub(super) fn len(&self) -> usize {
        self.all.lock().len()
    }
}

impl SharedState {
    /// Continues a copy asynchronously after its first `done` bytes. Returns none if it must be answered now: there
    /// are too many copies, or its client cannot be called.
    ///
    /// # Errors
    /// Those of the journal.
    pub(crate) fn begin_copy(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        order: CopyRequest,
        (done, after): (u64, Durability),
    ) -> Result<Option<(StateId, DurabilityToken)>, StateError> {
        let mut copies = self.copies.all.lock();
        let own = copies.values().filter(|copy| copy.client.id == client.id).count();
        let room = own < self.config.copies_per_client && client.holder.room(Resource::Copies) > 0;
        let notified =
            client.version == ClientProtocol::Sessions && client.minor >= MINOR && self.can_be_called(client);
        if !room || !notified {
            return Ok(None);
        }
        let (other, file) = (self.next_other(client), order.to.file);
        let token = context.change(file.volume, &[Key::Copy(file.ino, other).put(&CopyRecord)])?;
        [order.from.file, file].iter().for_each(|file| context.store.hold(*file));
        let progress = CopyProgress::new(Phase::Running, done, after);
        let copy = Arc::new(CopyJob {
            other,
            client: Arc::clone(client),
            file,
            order: Some(order),
            notifying: AtomicBool::new(false),
            progress: Mutex::new(progress),
            working: Mutex::default(),
            _held: Held::new(&client.holder, Resource::Copies, 1),
        });
        let stateid = copy.stateid();
        copies.insert(other, copy);
        self.copies.others.write(&other).insert(other, ());
        drop(copies);
        Counters::up(&self.counters.copies_begun);
        // Removing a client first marks it gone, then ends its copies. So either the removal sees this copy, or this
        // check sees the mark.
        if client.is_gone() {
            self.end_copies(context, client)?;
            return Err(StateError::UnknownSession);
        }
        if let Some(notify) = &*self.copies.notify.read() {
            notify();
        }
        Ok(Some((stateid, token)))
    }

    /// Returns whether a client's lease is over. The client may come back, so its copies wait.
    pub(crate) fn is_lease_expired(&self, client: &Client, now: Time) -> bool {
        client.lease_idle(now) > self.config.lease
    }

    /// Sets the function to call when there is something to copy.
    pub(crate) fn on_copies(&self, notify: Notify) {
        *self.copies.notify.write() = Some(notify);
    }

    /// Restores a copy that a restart interrupted. It is over, and its client must be told.
    pub(super) fn restore_copy(&self, file: FileId, other: Other) -> bool {
        let Some((client, number)) = self.client_of(other) else { return false };
        client.known(number);
        // The client repeats the whole copy.
        let phase = Phase::Ended(CopyEnd::Interrupted);
        let progress = CopyProgress::new(phase, 0, Durability::NOW);
        let copy = CopyJob {
            other,
            _held: Held::new(&client.holder, Resource::Copies, 1),
            client,
            file,
            order: None,
            notifying: AtomicBool::new(false),
            progress: Mutex::new(progress),
            working: Mutex::default(),
        };
        self.copies.all.lock().insert(other, Arc::new(copy));
        self.copies.others.write(&other).insert(other, ());
        true
    }

    /// Returns the copies that are not over.
    pub(crate) fn copies_to_do(&self) -> Vec<Arc<CopyJob>> {
        let copies = self.copies.all.lock();
        let going = |copy: &&Arc<CopyJob>| matches!(copy.progress().phase, Phase::Running | Phase::Syncing);
        copies.values().filter(going).cloned().collect()
    }

    /// Ends a copy once all of it is durable, or never will be, and tells the client.
    pub(crate) fn end_copy(
        &self,
        context: &Context<'_>,
        copy: &Arc<CopyJob>,
        end: CopyEnd,
        verifier: [u8; VERIFIER_BYTES],
    ) {
        let mut progress = copy.progress.lock();
        if progress.phase != Phase::Syncing {
            return;
        }
        (progress.phase, progress.verifier) = (Phase::Ended(end), verifier);
        drop(progress);
        self.notify_copy(context, copy);
    }

    fn notify_copy(&self, context: &Context<'_>, copy: &Arc<CopyJob>) {
        if !copy.notifying.swap(true, Ordering::AcqRel) {
            self.call_offload(context, copy);
        }
    }

    /// Forgets a copy whose client was told.
    pub(super) fn forget_notified_copy(&self, context: &Context<'_>, copy: &Arc<CopyJob>) {
        if self.forget_copy(context, copy).is_err() {
            copy.notify_failed();
        }
    }

    /// Tells clients that could not be told before.
    pub(super) fn tick_copies(&self, context: &Context<'_>) {
        let copies: Vec<_> = self.copies.all.lock().values().cloned().collect();
        for copy in copies {
            let ended = matches!(copy.progress().phase, Phase::Ended(_));
            if ended && self.can_be_called(&copy.client) {
                self.notify_copy(context, &copy);
            }
        }
    }

    /// Returns a client's copy by its stateid and destination.
    fn copy(&self, client: &Arc<Client>, stateid: StateId, file: FileId) -> Result<Arc<CopyJob>, StateError> {
        let found = self.copies.all.lock().get(&stateid.other).cloned();
        found
            .filter(|copy| copy.client.id == client.id && copy.file == file)
            .filter(|copy| copy.stateid() == stateid)
            .ok_or(StateError::BadStateId)
    }

    /// OFFLOAD_STATUS (RFC 7862 section 15.9).
    ///
    /// # Errors
    /// [`StateError::BadStateId`].
    pub(crate) fn copy_progress(
        &self,
        client: &Arc<Client>,
        stateid: StateId,
        file: FileId,
    ) -> Result<CopyProgress, StateError> {
        self.copy(client, stateid, file).map(|copy| copy.progress())
    }

    /// OFFLOAD_CANCEL (RFC 7862 section 15.8): copies no more, and reports nothing.
    ///
    /// # Errors
    /// [`StateError::BadStateId`]; [`StateError::TryLater`] while a part is copied; those of the journal.
    pub(crate) fn cancel_copy(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        stateid: StateId,
        file: FileId,
    ) -> Result<DurabilityToken, StateError> {
        let copy = self.copy(client, stateid, file)?;
        let _idle = copy.working.try_lock().ok_or(StateError::TryLater)?;
        self.forget_copy(context, &copy)
    }

    /// Ends the copies of a client that is gone. A part that is being copied is the last one.
    pub(super) fn end_copies(&self, context: &Context<'_>, client: &Client) -> Result<(), StateError> {
        let copies = self.copies.all.lock();
        let own = copies.values().filter(|copy| copy.client.id == client.id);
        let own: Vec<_> = own.cloned().collect();
        drop(copies);
        own.iter().try_for_each(|copy| self.forget_copy(context, copy).map(drop))
    }

    /// Returns whether a client has copies.
    pub(super) fn has_copies(&self, client: &Client) -> bool {
        self.copies.all.lock().values().any(|copy| copy.client.id == client.id)
    }

    fn forget_copy(&self, context: &Context<'_>, copy: &Arc<CopyJob>) -> Result<DurabilityToken, StateError> {
        let mut copies = self.copies.all.lock();
        if !copies.contains_key(&copy.other) {
            return Err(StateError::BadStateId);
        }
        let file = copy.file;
        let token = context.change(file.volume, &[Key::Copy(file.ino, copy.other).deleted()])?;
        copies.remove(&copy.other);
        self.copies.others.write(&copy.other).remove(&copy.other);
        copy.progress.lock().phase = Phase::Gone;
        if let Some(order) = &copy.order {
            [order.from.file, file].iter().for_each(|file| context.store.release(*file));
        }
        Ok(token)
    }
}
