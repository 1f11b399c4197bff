//! Delegations: granted with an open if nothing conflicts and it is worth the call to return it, recalled on a conflict,
//! revoked if they are not returned within a lease.
//!
//! Any conflicting operation recalls them, of NFSv4.0 and NFSv3 too, and is answered NFS4ERR_DELAY or NFS3ERR_JUKEBOX
//! until they are gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::time::Time;

use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::clients::removal::Work;
use crate::state::config::{Config, Counters};
use crate::state::delegations::costly_volumes::Wait;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::files::opens::OpenKind;
use crate::state::files::{File, OpenRequest};
use crate::state::ids::{FileId, StateId};
use crate::state::locks::ranges::LockKind;
use crate::state::record::{DelegationRecord, Key};
use crate::state::shares::Resource;
use crate::state::stateids::IoMode;
use crate::state::stateids::entry::{Liveness, Recall, StateEntry, StateKind};
use crate::state::{Caller, Context, DurabilityToken, SharedState, StateError};

pub(crate) mod contended;
pub(crate) mod costly_volumes;
pub(crate) mod in_flight;
pub(crate) mod lately_opened;
pub(crate) mod of_file;
pub(crate) mod places;
pub(super) mod recalls;

/// Holders of delegations that make way at once.
const HOLDERS_MAX: usize = 64;

/// How an operation on a file conflicts with delegations of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictKind {
    /// It reads data, size or change: only write delegations conflict.
    Read,
    /// It modifies data, attributes or names: all delegations conflict.
    Modify,
}

impl From<LockKind> for ConflictKind {
    fn from(kind: LockKind) -> ConflictKind {
        // The holder of a read delegation grants itself shared locks, that of a write delegation exclusive ones.
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

/// The delegation that an OPEN asks for (`OPEN4_SHARE_ACCESS_WANT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelegationWant {
    /// Nothing: the server decides.
    NoPreference,
    /// A read delegation.
    Read,
    /// A write delegation.
    Write,
    /// Either.
    Any,
    /// None.
    None,
    /// None, and an earlier request is cancelled.
    Cancel,
}

/// Why there is no delegation (`why_no_delegation4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoDelegationReason {
    /// It was not wanted.
    NotWanted,
    /// The request is cancelled.
    Cancelled,
    /// Others use the file, or did recently.
    Contention,
    /// There are too many, or the client cannot be called.
    Resource,
}

/// The delegation that an OPEN got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delegated {
    None(NoDelegationReason),
    Read(StateId),
    Write(StateId),
}

impl SharedState {
    /// Returns whether there are any delegations.
    pub(crate) fn has_delegations(&self) -> bool {
        self.modifications.has_delegations()
    }

    /// Recalls delegations that conflict with an operation of `client`. Call it before every operation that reads or
    /// modifies a file without an open that did so already. Hold the guard until a change is done.
    ///
    /// # Errors
    /// [`StateError::TryLater`] until they are gone.
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

    /// Recalls delegations that conflict with a change that is done already: it met another file than the one that was
    /// checked. No reply is delayed.
    pub(crate) fn recall_late(&self, context: &Context<'_>, client: Option<&Arc<Client>>, file: FileId) {
        // An error is ignored: the recall goes on, or the next conflicting operation repeats it.
        let _late = self.recall_from_others(context, client, file, ConflictKind::Modify);
    }

    /// Keeps a file from being delegated until the guard is dropped.
    pub(crate) fn begin_modification(&self, file: FileId) -> InFlightModification<'_> {
        self.modifications.of(file)
    }

    /// Does the same for the object of a name in `directory`, as long as there are no delegations.
    pub(crate) fn begin_modification_of_name(&self, directory: FileId) -> InFlightModification<'_> {
        self.modifications.of_name(directory)
    }

    /// Returns whether another client than `client` has a delegation that conflicts.
    pub(crate) fn is_delegated_to_others(
        &self,
        client: Option<&Arc<Client>>,
        file: FileId,
        conflict: ConflictKind,
    ) -> bool {
        let own = client.map(|client| client.id);
        let is_any = |state: &File| state.delegations.conflicting(own, conflict, None).next().is_some();
        self.has_delegations() && self.files.read(&file).get(&file).is_some_and(is_any)
    }

    /// Recalls delegations of other clients that conflict with an operation.
    ///
    /// # Errors
    /// [`StateError::TryLater`] until they are gone.
    pub(crate) fn recall_from_others(
        &self,
        context: &Context<'_>,
        client: Option<&Arc<Client>>,
        file: FileId,
        conflict: ConflictKind,
    ) -> Result<(), StateError> {
        if !self.has_delegations() {
            return Ok(());
        }
        let (own, mut work) = (client.map(|client| client.id), Work::part());
        let is_over =
            |client: &Client| client.is_gone() || client.lease_idle(context.now) > self.config.lease;
        loop {
            let (first, expired) = match self.files.read(&file).get(&file) {
                Some(state) => {
                    let others = state.delegations.conflicting(own, conflict, None);
                    let first: Vec<_> = others.take(recalls::PART).cloned().collect();
                    let silent = first.iter().map(|entry| &entry.client).filter(|client| is_over(client));
                    let expired: Vec<_> = silent.take(HOLDERS_MAX).cloned().collect();
                    (first, expired)
                }
                None => return Ok(()),
            };
            if first.is_empty() {
                return Ok(());
            }
            if expired.is_empty() {
                self.recall_all_of_file(context, (file, own), &first);
                first.iter().take(1).for_each(|entry| self.count_wait(context, entry));
                return Err(StateError::TryLater);
            }
            self.make_way(context, file, &expired, &mut work)?;
        }
    }

    /// Returns whether another client has a delegation that conflicts with an OPEN.
    pub(super) fn is_delegated_against(&self, state: &File, opening: &OpenRequest<'_>) -> bool {
        let changes = opening.mode.writes() || opening.mode.denies();
        let conflict = if changes { ConflictKind::Modify } else { ConflictKind::Read };
        state.delegations.conflicting(Some(opening.client.id), conflict, None).next().is_some()
    }

    /// Returns whether a client has a delegation that conflicts with a lock of another protocol.
    pub(super) fn is_delegated_against_lock(
        &self,
        state: &File,
        client: &Arc<Client>,
        kind: LockKind,
    ) -> bool {
        state.delegations.conflicting(Some(client.id), kind.into(), None).next().is_some()
    }

    /// Grants a delegation with an open if nothing conflicts (RFC 8881 section 10.4), and if it is likely to save more
    /// calls than it costs, unless the OPEN asks for it. `created` says that the OPEN created the file.
    ///
    /// Also returns the durability that the reply waits for. A read delegation need not be durable: if a crash loses
    /// it, the client is told to test its delegations ([`Client::may_have_lost_delegations`]). A write delegation
    /// must be, since its holder grants itself exclusive locks, and so must those of NFSv4.0 clients, which cannot be
    /// told.
    pub(crate) fn delegate(
        &self,
        context: &Context<'_>,
        open: &Arc<StateEntry>,
        want: DelegationWant,
        created: bool,
    ) -> (Delegated, Option<DurabilityToken>) {
        let none = |why| (Delegated::None(why), None);
        if open.client.version == ClientProtocol::V40 {
            // Most clients open a file more than once before they get a delegation: the server knows by then whether it can call them.
            self.probe(context, &open.client);
        }
        let wanted = match want {
            DelegationWant::None => return none(NoDelegationReason::NotWanted),
            DelegationWant::Cancel => return none(NoDelegationReason::Cancelled),
            DelegationWant::NoPreference if created || !self.is_worth_a_delegation(open) => {
                return none(NoDelegationReason::NotWanted);
            }
            DelegationWant::NoPreference | DelegationWant::Any => None,
            DelegationWant::Read => Some(false),
            DelegationWant::Write => Some(true),
        };
        let fits = open.client.holder.room(Resource::Delegations) > 0;
        let returns = open.client.holder.returns_delegations(context.now);
        if !fits || !returns || !self.can_be_called(&open.client) {
            return none(NoDelegationReason::Resource);
        }
        self.grant(context, open, wanted).unwrap_or(none(NoDelegationReason::Contention))
    }

    /// Returns whether a delegation is likely to save more calls than its return costs. Most files are opened, read or
    /// written, and closed once. For a file that its client has open, or opened lately, it saves the next OPEN and CLOSE. A
    /// file that is opened to read and to write is often a database, whose locks a holder grants itself.
    fn is_worth_a_delegation(&self, open: &StateEntry) -> bool {
        let opened_lately = self.lately_opened.note(open.client.id, open.file);
        let was_open = open.stateid().seqid > 1;
        opened_lately || was_open || open.mode().is_some_and(|mode| mode.reads() && mode.writes())
    }

    /// `wanted` says whether it must be a write delegation, if that matters.
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
        // NFSv4.0 does not identify the client of a GETATTR, so a holder would recall its own delegation.
        if write && client.version == ClientProtocol::V40 {
            return None;
        }
        let is_contended = self.contended.has(context.now, file)
            || !self.costly_volumes.can_delegate(context.now, file.volume);
        let minds = move |kind: OpenKind| {
            write || kind.is_nlm || kind.mode.is_some_and(|mode| mode.writes() || mode.denies())
        };
        let others_open = state.opens.clients(None, minds).any(|other| other.id != client.id);
        let held = &state.delegations;
        let delegated = held.has_any_to_write() || write && !held.is_empty();
        let delegated = delegated || held.are_recalled() || held.of_client(client).is_some();
        // A read delegation for a client that writes would promise that nothing changes.
        let contradicts = if write { !mode.writes() } else { mode.writes() };
        // The holder of a delegation grants itself locks, so it would overtake the waiters.
        let waited_for = !state.waiters.is_empty();
        if is_contended || others_open || contradicts || waited_for || delegated {
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
        state.delegations.insert(entry);
        client.delegations.fetch_add(1, Ordering::Relaxed);
        self.modifications.grant();
        Counters::up(&self.counters.delegations_granted);
        let delegated = if write { Delegated::Write(stateid) } else { Delegated::Read(stateid) };
        Some((delegated, (write || client.version == ClientProtocol::V40).then_some(token)))
    }

    /// DELEGRETURN (RFC 7530 section 16.8). For NFSv4.0 this is the only way to acknowledge a revocation.
    ///
    /// # Errors
    /// Those of [`SharedState::current`]; [`StateError::BadStateId`] if it is no delegation.
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

    /// Ends a delegation that was returned. If it was recalled, the file is not delegated for a while from now on, so that
    /// whoever waits for it finds it free, however late it was returned.
    ///
    /// # Errors
    /// [`StateError::BadStateId`] if it is no delegation.
    pub(crate) fn return_delegation(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<(), StateError> {
        let Some(delegation) = entry.as_delegation() else { return Err(StateError::BadStateId) };
        self.count_wait(context, entry);
        if let Recall::Recalled(since) = delegation.recall() {
            // Whoever has written can take long to write it back; a reader has nothing to do. A late return for which nobody waits costs
            // nobody anything.
            let is_late = !delegation.write
                && entry.client.holder.is_awaited(since, entry.other)
                && context.now.since(since) > self.config.prompt_return;
            if is_late {
                self.distrust(context, &entry.client);
            }
            let Config { undelegated, undelegated_after_loss, .. } = self.config;
            let time = if is_late { undelegated_after_loss } else { undelegated };
            self.contended.mark(context.now, entry.file, time);
        }
        self.take_delegation(context, entry)?;
        entry.end();
        self.recalls.end(entry);
        self.forget(&entry.client, entry.other);
        Ok(())
    }

    /// Revokes a delegation that was not returned in time. The client learns of it when it asks. If it could have returned
    /// it, as it renewed its lease, those of its whole origin are recalled too, so that nobody waits a lease for each of them,
    /// and for a while the origin gets no new ones.
    pub(super) fn revoke(&self, context: &Context<'_>, entry: &Arc<StateEntry>) -> Result<(), StateError> {
        let was_held = entry.liveness() == Liveness::Live;
        self.revoke_without_distrust(context, entry)?;
        if was_held && entry.client.lease_idle(context.now) <= self.config.lease {
            self.distrust(context, &entry.client);
        }
        Ok(())
    }

    /// Revokes a delegation that its client may have been unable to return.
    pub(super) fn revoke_without_distrust(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<(), StateError> {
        self.take_delegation(context, entry)?;
        if entry.liveness() == Liveness::Live {
            entry.revoke();
            entry.client.revoked.fetch_add(1, Ordering::Relaxed);
            self.count_loss(context, entry);
        }
        self.count_wait(context, entry);
        self.recalls.end(entry);
        Ok(())
    }

    /// Adds the time that others have waited for an origin's delegations, while one of them is recalled, or when it has just ended.
    /// Beyond the budget, the origin is not trusted for a while: it may be returning each one just in time. Beyond the budget of the
    /// volume, its files are not delegated for a while. A client that has been silent since the recall may have been cut off; its
    /// wait is counted when the delegation ends.
    pub(super) fn count_wait(&self, context: &Context<'_>, entry: &StateEntry) {
        let Some(Recall::Recalled(since)) = entry.as_delegation().map(|delegation| delegation.recall())
        else {
            return;
        };
        let client = &entry.client;
        let is_silent = client.lease_idle(context.now) >= context.now.since(since);
        if is_silent && entry.liveness() == Liveness::Live {
            return;
        }
        let costs_volume = self.count_wait_of_volume(context, entry, since);
        if client.holder.count_recalls(context.now, is_silent) {
            self.distrust(context, client);
        }
        if costs_volume {
            self.recall_all_of_volume(context, entry.file.volume);
        }
    }

    /// Does the same for the volume of a delegation that was recalled at `since`. Returns whether its budget is exceeded.
    fn count_wait_of_volume(&self, context: &Context<'_>, entry: &StateEntry, since: Time) -> bool {
        let (holder, delegation) = (&entry.client.holder, entry.as_delegation());
        let Some(delegation) = delegation.filter(|_| holder.is_awaited(since, entry.other)) else {
            return false;
        };
        let wait = Wait {
            volume: entry.file.volume,
            origin: holder.origin(),
            duration: delegation.recalled_for(context.now),
        };
        self.costly_volumes.count(context.now, &wait, &self.config)
    }

    /// Recalls all delegations of an origin that made others wait too long, and grants it no others for a while. A host can
    /// have any number of clients.
    fn distrust(&self, context: &Context<'_>, client: &Client) {
        let returned_before = client.holder.returns_delegations(context.now);
        client.holder.delegate_from(context.now.plus(self.config.undelegated_after_loss));
        if returned_before {
            self.recall_all_of_origin(context, client.holder.origin());
        }
    }

    /// Forgets a revoked delegation once its client knows.
    fn forget_revoked(&self, entry: &StateEntry) {
        if entry.end_revoked() {
            self.forget(&entry.client, entry.other);
            entry.client.revoked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts a delegation that a client lost without returning it.
    pub(super) fn count_loss(&self, context: &Context<'_>, entry: &StateEntry) {
        Counters::up(&self.counters.delegations_revoked);
        self.contended.mark(context.now, entry.file, self.config.undelegated_after_loss);
    }

    /// Removes a delegation from its file, with its record.
    pub(super) fn take_delegation(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<(), StateError> {
        let file = entry.file;
        let mut files = self.files.write(&file);
        let Some(state) = files.get_mut(&file) else { return Ok(()) };
        if !state.delegations.contains(entry) {
            return Ok(());
        }
        context.change(file.volume, &[Key::Delegation(file.ino, entry.other).deleted()])?;
        state.delegations.remove(entry);
        entry.client.delegations.fetch_sub(1, Ordering::Relaxed);
        self.modifications.end();
        self.forget_if_idle(&mut files, context, file);
        Ok(())
    }

    /// FREE_STATEID (RFC 8881 section 18.38): the client knows that this was revoked, or no longer uses it.
    ///
    /// # Errors
    /// [`StateError::LocksHeld`] if it is still held; [`StateError::BadStateId`], [`StateError::OldStateId`].
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

    /// Returns whether callbacks reach a client, as far as is known.
    pub(super) fn can_be_called(&self, client: &Client) -> bool {
        match client.version {
            ClientProtocol::Sessions => client.back_connections.load(Ordering::Relaxed) > 0,
            ClientProtocol::V40 => client.inner.lock().path == crate::state::callbacks::CallbackPath::Up,
            ClientProtocol::Nlm => false,
        }
    }
}
