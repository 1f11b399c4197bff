//! Delegations: granted with an open when nobody minds, recalled when somebody does, revoked when they are not returned
//! within a lease.
//!
//! Any operation that conflicts recalls them, also of NFSv4.0 and NFSv3, and is answered with NFS4ERR_DELAY or
//! NFS3ERR_JUKEBOX until they are gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use volume::time::Time;

use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::config::Counters;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::files::{File, OpenRequest};
use crate::state::ids::{FileId, StateId};
use crate::state::locks::ranges::LockKind;
use crate::state::record::{DelegationRecord, Key};
use crate::state::stateids::IoMode;
use crate::state::stateids::entry::{Liveness, Recall, StateEntry, StateKind};
use crate::state::{Caller, Context, DurabilityToken, SharedState, StateError};

pub(crate) mod in_flight;

/// What an operation does to a file that others may have delegations of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictKind {
    /// It looks at data, size or change: only a delegation to write is in the way.
    Read,
    /// It changes data, attributes or names: all are.
    Modify,
}

impl From<LockKind> for ConflictKind {
    fn from(kind: LockKind) -> ConflictKind {
        // With one to read a client locks by itself, shared with others; with one to write exclusively.
        match kind {
            LockKind::Read => ConflictKind::Read,
            LockKind::Write => ConflictKind::Modify,
        }
    }
}

impl From<IoMode> for ConflictKind {
    fn from(wanted: IoMode) -> ConflictKind {
        match wanted {
            IoMode::Read => ConflictKind::Read,
            IoMode::Write => ConflictKind::Modify,
        }
    }
}

/// What an OPEN says about delegations (`OPEN4_SHARE_ACCESS_WANT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelegationWant {
    /// Nothing: as the server likes.
    NoPreference,
    /// One to read.
    Read,
    /// One to write.
    Write,
    /// Either.
    Any,
    /// None.
    None,
    /// None, and what was asked before is taken back.
    Cancel,
}

/// Why there is no delegation (`why_no_delegation4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoDelegationReason {
    /// It was not wanted.
    NotWanted,
    /// What was asked is taken back.
    Cancelled,
    /// Others use the file, or did a moment ago.
    Contention,
    /// There are too many, or the client cannot be called.
    Resource,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delegated {
    None(NoDelegationReason),
    Read(StateId),
    Write(StateId),
}

impl SharedState {
    /// Whether there is any.
    pub(crate) fn has_delegations(&self) -> bool {
        self.modifications.sees_delegations()
    }

    /// Recalls what conflicts with an operation by whoever asks. To be called before every operation that
    /// looks at or changes a file without an open that did so already. What is returned is kept until a change is done.
    ///
    /// # Errors
    /// NFS4ERR_DELAY until it is gone.
    pub(crate) fn check_delegations(
        &self,
        context: &Context<'_>,
        client: Option<&Arc<Client>>,
        file: FileId,
        conflict: ConflictKind,
    ) -> Result<InFlightModification<'_>, StateError> {
        let in_flight = match conflict {
            ConflictKind::Read => InFlightModification::NONE,
            ConflictKind::Modify => self.begin_modification(file),
        };
        self.recall_from_others(context, client, file, conflict)?;
        Ok(in_flight)
    }

    /// Recalls what conflicts with a change that is done: it is of another file than was thought when delegations were looked
    /// for. Nobody waits for it any more.
    pub(crate) fn recall_late(&self, context: &Context<'_>, client: Option<&Arc<Client>>, file: FileId) {
        // An error is that it is not gone yet, or is to be tried again by the next operation that minds.
        let _late = self.recall_from_others(context, client, file, ConflictKind::Modify);
    }

    /// A file is about to be changed, and not delegated until what is returned is dropped.
    pub(crate) fn begin_modification(&self, file: FileId) -> InFlightModification<'_> {
        self.modifications.of(file)
    }

    /// The same for what a name in `directory` stands for, as long as there are no delegations.
    pub(crate) fn begin_modification_of_name(&self, directory: FileId) -> InFlightModification<'_> {
        self.modifications.of_name(directory)
    }

    pub(super) fn recall_from_others(
        &self,
        context: &Context<'_>,
        client: Option<&Arc<Client>>,
        file: FileId,
        conflict: ConflictKind,
    ) -> Result<(), StateError> {
        if !self.has_delegations() {
            return Ok(());
        }
        loop {
            let conflicting = match self.files.read(&file).get(&file) {
                Some(state) => conflicting(state, client, conflict),
                None => return Ok(()),
            };
            let silent = |entry: &&Arc<StateEntry>| entry.client.lease_idle(context.now) > self.config.lease;
            let expired: Vec<_> =
                conflicting.iter().filter(silent).map(|entry| Arc::clone(&entry.client)).collect();
            if conflicting.is_empty() {
                return Ok(());
            }
            if expired.is_empty() {
                conflicting.iter().for_each(|entry| self.recall(context, entry));
                return Err(StateError::TryLater);
            }
            self.expire(context, &expired)?;
        }
    }

    /// Whether somebody else has a delegation that an OPEN conflicts with.
    pub(super) fn is_delegated_against(&self, state: &File, opening: &OpenRequest<'_>) -> bool {
        let changes = opening.mode.writes() || opening.mode.denies();
        let conflict = if changes { ConflictKind::Modify } else { ConflictKind::Read };
        !conflicting(state, Some(opening.client), conflict).is_empty()
    }

    /// Whether somebody has a delegation with which a lock of another protocol conflicts.
    pub(super) fn is_delegated_against_lock(
        &self,
        state: &File,
        client: &Arc<Client>,
        kind: LockKind,
    ) -> bool {
        !conflicting(state, Some(client), kind.into()).is_empty()
    }

    /// Asks a delegation back, once; it is asked again from time to time, see `expiry.rs`.
    fn recall(&self, context: &Context<'_>, entry: &Arc<StateEntry>) {
        let StateKind::Delegation(delegation) = &entry.kind else { return };
        if !delegation.begin_recall(context.now) {
            return;
        }
        Counters::up(&self.counters.delegations_recalled);
        self.contend(context.now, entry.file, self.config.undelegated);
        self.recalls.lock().push(Arc::clone(entry));
        self.call_recall(context, entry);
    }

    /// Grants a delegation with an open, if nobody minds (RFC 8881 section 10.4). `created` if the OPEN made the file:
    /// it is about to be written and closed, which a delegation would only make dearer.
    ///
    /// What the reply waits for is returned with it. Of one to read that is nothing: should a crash lose it, the client is
    /// told to test what it has ([`Client::may_have_lost_delegations`]). With one to write a client locks exclusively by itself, and
    /// NFSv4.0 cannot tell.
    pub(crate) fn delegate(
        &self,
        context: &Context<'_>,
        open: &Arc<StateEntry>,
        want: DelegationWant,
        created: bool,
    ) -> (Delegated, Option<DurabilityToken>) {
        let none = |why| (Delegated::None(why), None);
        let wanted = match want {
            DelegationWant::None => return none(NoDelegationReason::NotWanted),
            DelegationWant::Cancel => return none(NoDelegationReason::Cancelled),
            DelegationWant::NoPreference if created => return none(NoDelegationReason::NotWanted),
            DelegationWant::NoPreference | DelegationWant::Any => None,
            DelegationWant::Read => Some(false),
            DelegationWant::Write => Some(true),
        };
        if self.modifications.granted() >= self.config.delegations || !self.can_be_called(&open.client) {
            return none(NoDelegationReason::Resource);
        }
        self.grant(context, open, wanted).unwrap_or(none(NoDelegationReason::Contention))
    }

    /// `wanted` is whether it must be one to write.
    fn grant(
        &self,
        context: &Context<'_>,
        open: &Arc<StateEntry>,
        wanted: Option<bool>,
    ) -> Option<(Delegated, Option<DurabilityToken>)> {
        let (file, client) = (open.file, &open.client);
        let mut files = self.files.write(&file);
        let state = files.get_mut(&file)?;
        let mode = open.mode()?;
        let write = wanted.unwrap_or(mode.writes());
        // NFSv4.0 does not say who looks at a file, so that its holder himself would be in his own way.
        if write && client.version == ClientProtocol::V40 {
            return None;
        }
        let lately = self.contended.read(&file).get(&file).is_some_and(|until| context.now < *until);
        let others_open = state.opens.iter().any(|other| {
            let locks = other.client.version == ClientProtocol::Nlm;
            let minds = write || locks || other.mode().is_some_and(|mode| mode.writes() || mode.denies());
            other.client.id != client.id && minds
        });
        let delegated = |entry: &Arc<StateEntry>| {
            let to_write = entry.as_delegation().is_some_and(|delegation| delegation.write);
            entry.client.id == client.id || write || to_write
        };
        // One to read while the client itself writes would promise that nothing changes.
        let contradicts = if write { !mode.writes() } else { mode.writes() };
        // With a delegation a client locks by itself.
        let waited_for = !state.waiters.is_empty();
        if lately || others_open || contradicts || waited_for || state.delegations.iter().any(delegated) {
            return None;
        }
        let stateid = StateId { seqid: 1, other: self.next_other(client) };
        let record = DelegationRecord { write, seqid: 1 };
        let put = Key::Delegation(file.ino, stateid.other).put(&record);
        if !self.modifications.announce(file) {
            return None;
        }
        let entry = StateEntry::delegation(client, file, stateid, write);
        let token = context.change(file.volume, &[put]).and_then(|token| {
            self.add(&entry)?;
            Ok(token)
        });
        let Ok(token) = token else {
            self.modifications.withdraw();
            return None;
        };
        state.delegations.push(entry);
        client.delegations.fetch_add(1, Ordering::Relaxed);
        self.modifications.grant();
        Counters::up(&self.counters.delegations_granted);
        let delegated = if write { Delegated::Write(stateid) } else { Delegated::Read(stateid) };
        Some((delegated, (write || client.version == ClientProtocol::V40).then_some(token)))
    }

    /// DELEGRETURN (RFC 7530 section 16.8). NFSv4.0 has no other way to say that the loss of a revoked one is known.
    ///
    /// # Errors
    /// Those of [`SharedState::current`]; NFS4ERR_BAD_STATEID if it is no delegation.
    pub(crate) fn return_stateid(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
    ) -> Result<(), StateError> {
        match self.current(context, caller, stateid, file) {
            Ok(entry) => self.return_delegation(context, &entry),
            Err(StateError::Expired) => {
                let entry = self.entry(caller, stateid.other)?;
                if entry.file == file {
                    self.forget_revoked(&entry);
                }
                Err(StateError::Expired)
            }
            Err(error) => Err(error),
        }
    }

    /// It is given back.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID if it is no delegation.
    pub(crate) fn return_delegation(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<(), StateError> {
        if entry.as_delegation().is_none() {
            return Err(StateError::BadStateId);
        }
        self.take_delegation(context, entry)?;
        entry.end();
        self.forget(&entry.client, entry.other);
        Ok(())
    }

    /// A delegation was not returned in time: it is taken away, and the client told when it asks.
    pub(super) fn revoke(&self, context: &Context<'_>, entry: &Arc<StateEntry>) -> Result<(), StateError> {
        self.take_delegation(context, entry)?;
        if entry.liveness() == Liveness::Live {
            entry.revoke();
            entry.client.revoked.fetch_add(1, Ordering::Relaxed);
            self.count_loss(context, entry);
        }
        Ok(())
    }

    /// The client knows that it was revoked.
    fn forget_revoked(&self, entry: &StateEntry) {
        if entry.end_revoked() {
            self.forget(&entry.client, entry.other);
            entry.client.revoked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A delegation is lost to a client that has not returned it.
    pub(super) fn count_loss(&self, context: &Context<'_>, entry: &StateEntry) {
        Counters::up(&self.counters.delegations_revoked);
        self.contend(context.now, entry.file, self.config.undelegated_after_loss);
    }

    /// Notes that several want a file: for so long it is not delegated.
    fn contend(&self, now: Time, file: FileId, time: Duration) {
        let mut contended = self.contended.write(&file);
        if contended.len() < self.config.contended || contended.contains_key(&file) {
            let until = contended.entry(file).or_insert(Time::EPOCH);
            *until = now.plus(time).max(*until);
        }
    }

    /// Takes a delegation from its file, and its record away.
    pub(super) fn take_delegation(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<(), StateError> {
        let file = entry.file;
        let mut files = self.files.write(&file);
        let Some(state) = files.get_mut(&file) else { return Ok(()) };
        if !state.delegations.iter().any(|other| Arc::ptr_eq(other, entry)) {
            return Ok(());
        }
        context.change(file.volume, &[Key::Delegation(file.ino, entry.other).deleted()])?;
        state.delegations.retain(|other| !Arc::ptr_eq(other, entry));
        entry.client.delegations.fetch_sub(1, Ordering::Relaxed);
        self.modifications.end();
        self.leave(&mut files, context, file);
        Ok(())
    }

    /// FREE_STATEID (RFC 8881 section 18.38): the client knows that this is no more, or does not use it any more.
    ///
    /// # Errors
    /// NFS4ERR_LOCKS_HELD if it is still held; NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
    pub(crate) fn free_stateid(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        stateid: StateId,
    ) -> Result<(), StateError> {
        let entry = self.entry(Caller::Session(client), stateid.other)?;
        match entry.liveness() {
            Liveness::Revoked => {
                self.forget_revoked(&entry);
                Ok(())
            }
            Liveness::Gone => Err(StateError::BadStateId),
            Liveness::Live => {
                entry.verify(stateid.seqid, true)?;
                match &entry.kind {
                    StateKind::Locks(_) => self.free_lock_state(context, &entry),
                    StateKind::Open(_) | StateKind::Delegation(_) => Err(StateError::LocksHeld),
                }
            }
        }
    }

    /// Whether callbacks reach a client, as far as is known.
    pub(super) fn can_be_called(&self, client: &Client) -> bool {
        match client.version {
            ClientProtocol::Sessions => client.back_connections.load(Ordering::Relaxed) > 0,
            ClientProtocol::V40 => client.inner.lock().path == crate::state::callbacks::CallbackPath::Up,
            ClientProtocol::Nlm => false,
        }
    }

    /// Whether a client that was asked for a delegation has not returned it yet.
    pub(super) fn is_recalled(entry: &StateEntry) -> bool {
        let recalled = entry.as_delegation().is_some_and(|delegation| delegation.recall() != Recall::Held);
        recalled && entry.liveness() == Liveness::Live
    }
}

/// The delegations of others that are in the way.
fn conflicting(state: &File, client: Option<&Arc<Client>>, conflict: ConflictKind) -> Vec<Arc<StateEntry>> {
    let others = state
        .delegations
        .iter()
        .filter(|entry| client.is_none_or(|client| client.id != entry.client.id))
        .filter(|entry| {
            let to_write = entry.as_delegation().is_some_and(|delegation| delegation.write);
            to_write || conflict == ConflictKind::Modify
        });
    others.cloned().collect()
}
