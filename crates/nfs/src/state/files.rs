//! Who has a file open: OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, and the share reservations between them.

use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use volume::state::StateChange;
use volume::time::Time;

use crate::state::clients::client::{Client, ClientProtocol, LockOwner, OpenOwner};
use crate::state::config::Counters;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::files::share::{Mode, Modes};
use crate::state::ids::{FileId, StateId};
use crate::state::locks::Waiter;
use crate::state::locks::ranges::Ranges;
use crate::state::record::{Key, OpenRecord};
use crate::state::shards::Shards;
use crate::state::stateids::IoMode;
use crate::state::stateids::entry::{Liveness, Open, StateEntry, StateKind};
use crate::state::{Context, DurabilityToken, SharedState, StateError};

pub(crate) mod share;

/// All state of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(super) opens: Vec<Arc<StateEntry>>,
    pub(super) lock_states: Vec<Arc<StateEntry>>,
    pub(super) delegations: Vec<Arc<StateEntry>>,
    pub(super) locks: Ranges<Arc<LockOwner>>,
    pub(super) waiters: Vec<Waiter>,
    /// When a range last became free.
    pub(super) freed: Time,
}

/// All files of which there is state.
pub(super) type Files = Shards<FileId, File>;

impl File {
    /// Whether nothing is held of it, so that it can be forgotten.
    fn is_idle(&self) -> bool {
        self.opens.is_empty()
            && self.lock_states.is_empty()
            && self.delegations.is_empty()
            && self.locks.is_empty()
    }

    /// The open of an owner.
    pub(super) fn open_of(&self, client: &Client, owner: &Arc<OpenOwner>) -> Option<&Arc<StateEntry>> {
        self.opens.iter().find(|entry| {
            entry.client.id == client.id
                && entry.as_open().is_some_and(|open| Arc::ptr_eq(&open.owner, owner))
        })
    }
}

/// The owners of what is in the way.
pub(super) enum ConflictHolders {
    /// Nobody.
    None,
    /// Clients whose leases are over: they are expired, and it is tried again.
    Expired(Vec<Arc<Client>>),
    /// Somebody who is there.
    Active,
}

impl ConflictHolders {
    /// Of the clients that hold what conflicts.
    pub(super) fn of<'a>(
        state: &SharedState,
        now: Time,
        clients: impl Iterator<Item = &'a Arc<Client>>,
    ) -> ConflictHolders {
        let mut silent: Vec<Arc<Client>> = Vec::new();
        for client in clients {
            if client.lease_idle(now) <= state.config.lease {
                return ConflictHolders::Active;
            }
            if !silent.iter().any(|known| known.id == client.id) {
                silent.push(Arc::clone(client));
            }
        }
        if silent.is_empty() { ConflictHolders::None } else { ConflictHolders::Expired(silent) }
    }
}

/// Who opens what, and how.
#[derive(Clone, Copy)]
pub(crate) struct OpenRequest<'a> {
    pub(crate) client: &'a Arc<Client>,
    pub(crate) owner: &'a Arc<OpenOwner>,
    pub(crate) mode: Mode,
}

/// A file is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) entry: Arc<StateEntry>,
    pub(crate) stateid: StateId,
    /// NFSv4.0: whether the owner must be confirmed (OPEN4_RESULT_CONFIRM).
    pub(crate) confirm: bool,
    /// What the reply waits for: a plain open for nothing, as it may be lost and done again.
    pub(crate) token: Option<DurabilityToken>,
}

/// An open of a file that does not exist yet. Its record goes into the journal entry that creates the file, for which no
/// lock is needed: nobody can have anything of a file that is not there. Then it is adopted; others may open the file
/// before that, but it is not delegated to them.
#[derive(Debug)]
pub(crate) struct PreparedOpen {
    stateid: StateId,
    modes: Modes,
    record: OpenRecord,
}

impl PreparedOpen {
    /// What to answer.
    pub(crate) fn stateid(&self) -> StateId {
        self.stateid
    }

    /// Whether the owner need not be confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.record.confirmed
    }

    /// What to journal.
    fn change(&self, file: FileId) -> StateChange {
        Key::Open(file.ino, self.stateid.other).put(&self.record)
    }
}

impl SharedState {
    /// Finds out, before anything is changed, whether [`SharedState::open`] would succeed: what an OPEN `cuts` is cut in between,
    /// which is writing, whatever it is opened for.
    ///
    /// # Errors
    /// NFS4ERR_SHARE_DENIED, NFS4ERR_DELAY while a delegation is recalled, NFS4ERR_RESOURCE or NFS4ERR_DELAY if there are
    /// too many opens.
    pub(crate) fn check_open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &OpenRequest<'_>,
        truncates: bool,
    ) -> Result<(), StateError> {
        self.check_room(opening.client)?;
        loop {
            let found = match self.files.read(&file).get(&file) {
                Some(state) => self.open_conflicts(context.now, state, opening),
                None => ConflictHolders::None,
            };
            match found {
                ConflictHolders::None => break,
                ConflictHolders::Active => return Err(StateError::ShareDenied),
                ConflictHolders::Expired(clients) => self.expire(context, &clients)?,
            }
        }
        if truncates {
            self.check_shares(context, file, IoMode::Write, None).map_err(|error| match error {
                StateError::ShareLocked => StateError::ShareDenied,
                other => other,
            })?;
        }
        let changes = truncates || opening.mode.writes() || opening.mode.denies();
        let wanted = if changes { IoMode::Write } else { IoMode::Read };
        self.recall_from_others(context, Some(opening.client), file, wanted.into())
    }

    /// What an owner has open itself is in its way too (RFC 7530 section 9.9).
    fn open_conflicts(&self, now: Time, file: &File, opening: &OpenRequest<'_>) -> ConflictHolders {
        // NLM adds to what its owner has.
        let own = match opening.client.version {
            ClientProtocol::Nlm => file.open_of(opening.client, opening.owner),
            ClientProtocol::V40 | ClientProtocol::Sessions => None,
        };
        let conflicting = file
            .opens
            .iter()
            .filter(|entry| own.is_none_or(|own| !Arc::ptr_eq(own, entry)))
            .filter(|entry| entry.mode().is_some_and(|mode| mode.conflicts(opening.mode)));
        ConflictHolders::of(self, now, conflicting.map(|entry| &entry.client))
    }

    /// Whether there is room for one more open or lock state, and for an owner of it. To be asked before an owner is made, as
    /// that takes room itself.
    ///
    /// # Errors
    /// NFS4ERR_RESOURCE, NFS4ERR_DELAY.
    pub(crate) fn check_room(&self, client: &Client) -> Result<(), StateError> {
        let entries = self.counters.entries();
        let owners = client.has_owners(self.config.owners_per_client);
        match client.version {
            _ if entries < self.config.entries && !owners => Ok(()),
            ClientProtocol::V40 | ClientProtocol::Nlm => Err(StateError::LimitReached),
            ClientProtocol::Sessions => Err(StateError::TryLater),
        }
    }

    /// Opens a file that exists. The caller has checked that it is a regular file and that the mode bits allow it.
    ///
    /// # Errors
    /// Those of [`SharedState::check_open`], and of the journal.
    pub(crate) fn open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &OpenRequest<'_>,
    ) -> Result<Opened, StateError> {
        loop {
            self.check_open(context, file, opening, false)?;
            let mut files = self.files.write(&file);
            let known = files.get(&file);
            let conflict = known.map(|known| self.open_conflicts(context.now, known, opening));
            if conflict.is_some_and(|conflict| !matches!(conflict, ConflictHolders::None))
                || known.is_some_and(|known| self.is_delegated_against(known, opening))
            {
                // Somebody came in between.
                continue;
            }
            let own = known.and_then(|known| known.open_of(opening.client, opening.owner)).cloned();
            return match own {
                Some(own) => self.merge_open(context, &own, opening),
                None => {
                    let prepared = self.prepare_open(opening);
                    let token = context.change(file.volume, &[prepared.change(file)])?;
                    let state = enter(&mut files, context, file);
                    let opened = self.insert_open(state, file, opening, &prepared, token);
                    self.leave(&mut files, context, file);
                    opened
                }
            };
        }
    }

    /// Prepares an open of a file that is about to be created.
    pub(crate) fn prepare_open(&self, opening: &OpenRequest<'_>) -> PreparedOpen {
        let modes = Modes::default().with(opening.mode);
        let stateid = StateId { seqid: 1, other: self.next_other(opening.client) };
        let confirmed =
            opening.client.version == ClientProtocol::Sessions || opening.owner.sequence.is_confirmed();
        let record = OpenRecord { owner: opening.owner.name.clone(), seqid: 1, modes: modes.0, confirmed };
        PreparedOpen { stateid, modes, record }
    }

    /// What to journal of an open, now that the file that is created has a number, but no name yet. What is returned with
    /// it is kept until the open is adopted: nobody who finds the name before that is to rely on what the open may change.
    pub(crate) fn made(
        &self,
        prepared: &PreparedOpen,
        file: FileId,
    ) -> (StateChange, InFlightModification<'_>) {
        (prepared.change(file), self.begin_modification(file))
    }

    /// The file was created, and the record of the open with it, which the reply waits for anyway.
    ///
    /// # Errors
    /// NFS4ERR_SHARE_DENIED if somebody else was faster to open it, in a way that conflicts; the record is deleted again.
    pub(crate) fn adopt_open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &OpenRequest<'_>,
        (prepared, _in_flight): (&PreparedOpen, InFlightModification<'_>),
        token: DurabilityToken,
    ) -> Result<Opened, StateError> {
        let mut files = self.files.write(&file);
        let state = enter(&mut files, context, file);
        let refused = match self.open_conflicts(context.now, state, opening) {
            ConflictHolders::None => self.insert_open(state, file, opening, prepared, token),
            ConflictHolders::Expired(_) | ConflictHolders::Active => Err(StateError::ShareDenied),
        };
        if refused.is_err() {
            context.change(file.volume, &[Key::Open(file.ino, prepared.stateid.other).deleted()])?;
        }
        self.leave(&mut files, context, file);
        refused
    }

    fn insert_open(
        &self,
        state: &mut File,
        file: FileId,
        opening: &OpenRequest<'_>,
        prepared: &PreparedOpen,
        token: DurabilityToken,
    ) -> Result<Opened, StateError> {
        let OpenRequest { client, owner, mode } = *opening;
        let entry = StateEntry::open(client, file, prepared.stateid, owner, prepared.modes, false);
        self.add(&entry)?;
        state.opens.push(Arc::clone(&entry));
        Counters::up(&self.counters.opens);
        self.count_denial(None, Some(prepared.modes));
        Ok(Opened {
            stateid: prepared.stateid,
            confirm: !prepared.record.confirmed,
            token: (mode.denies() || client.version == ClientProtocol::Nlm).then_some(token),
            entry,
        })
    }

    /// An owner opens a file that it has open: with both modes from now on.
    fn merge_open(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
        opening: &OpenRequest<'_>,
    ) -> Result<Opened, StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::TooManyRanges) };
        let modes = open.modes().with(opening.mode);
        let (stateid, token) = self.change_open(context, entry, modes)?;
        let confirm = opening.client.version == ClientProtocol::V40 && !opening.owner.sequence.is_confirmed();
        Ok(Opened {
            entry: Arc::clone(entry),
            stateid,
            confirm,
            token: (opening.mode.denies() || opening.client.version == ClientProtocol::Nlm).then_some(token),
        })
    }

    /// Changes the modes of an open, under the lock of its file.
    fn change_open(
        &self,
        context: &Context<'_>,
        entry: &StateEntry,
        modes: Modes,
    ) -> Result<(StateId, DurabilityToken), StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::BadStateId) };
        if entry.liveness() != Liveness::Live {
            // Closed a moment ago: a record of it would come back after a restart.
            return Err(StateError::BadStateId);
        }
        let seqid = entry.next_seqid();
        let confirmed =
            entry.client.version == ClientProtocol::Sessions || open.owner.sequence.is_confirmed();
        let record = OpenRecord { owner: open.owner.name.clone(), seqid, modes: modes.0, confirmed };
        let change = Key::Open(entry.file.ino, entry.other).put(&record);
        let token = context.change(entry.file.volume, &[change])?;
        self.count_denial(Some(open.modes()), Some(modes));
        open.set_modes(modes);
        entry.set_seqid(seqid);
        Ok((entry.stateid(), token))
    }

    /// OPEN_CONFIRM: the owner is confirmed (RFC 7530 section 16.18).
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID if it was before.
    pub(crate) fn confirm_open(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<StateId, StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::BadStateId) };
        let _files = self.files.write(&entry.file);
        if open.owner.sequence.is_confirmed() {
            return Err(StateError::BadStateId);
        }
        open.owner.sequence.confirm();
        self.change_open(context, entry, open.modes()).map(|(stateid, _)| stateid)
    }

    /// OPEN_DOWNGRADE: back to less (RFC 7530 section 16.19).
    ///
    /// # Errors
    /// NFS4ERR_INVAL if the file was never opened so.
    pub(crate) fn downgrade(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
        to: Mode,
    ) -> Result<(StateId, DurabilityToken), StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::BadStateId) };
        let _files = self.files.write(&entry.file);
        let modes = open.modes().downgraded(to).ok_or(StateError::NeverOpenedSo)?;
        self.change_open(context, entry, modes)
    }

    /// CLOSE: the open is no more, and neither are the locks that depend on it (RFC 7530 section 16.2.4 leaves that to
    /// the server). In NFSv4.0 the stateid can still be found, so that the request can be repeated.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID if it is closed already.
    pub(crate) fn close(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<(StateId, DurabilityToken), StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::BadStateId) };
        let file = entry.file;
        let mut files = self.files.write(&file);
        let token = self.close_held(context, &mut files, entry)?;
        drop(files);
        if entry.client.version == ClientProtocol::V40 {
            entry.client.inner.lock().entries.remove(&entry.other);
            if let Some(earlier) = open.owner.sequence.close(entry.other) {
                self.forget(&entry.client, earlier);
            }
        }
        Ok((entry.stateid(), token))
    }

    /// Closes under the lock of the file.
    pub(super) fn close_held(
        &self,
        context: &Context<'_>,
        files: &mut foldhash::HashMap<FileId, File>,
        entry: &Arc<StateEntry>,
    ) -> Result<DurabilityToken, StateError> {
        let file = entry.file;
        let state = files.get_mut(&file).ok_or(StateError::BadStateId)?;
        if !state.opens.iter().any(|other| Arc::ptr_eq(other, entry)) {
            return Err(StateError::BadStateId);
        }
        let depending: Vec<_> = state
            .lock_states
            .iter()
            .filter(|locks| locks.as_locks().is_some_and(|locks| Arc::ptr_eq(&locks.open, entry)))
            .cloned()
            .collect();
        let mut changes = vec![Key::Open(file.ino, entry.other).deleted()];
        depending.iter().for_each(|locks| changes.extend(state.lock_state_deleted(locks)));
        let token = context.change(file.volume, &changes)?;
        for locks in &depending {
            self.drop_lock_state(context, state, locks);
        }
        state.opens.retain(|other| !Arc::ptr_eq(other, entry));
        Counters::down(&self.counters.opens);
        self.count_denial(entry.as_open().map(Open::modes), None);
        entry.set_seqid(entry.next_seqid());
        entry.end();
        self.leave(files, context, file);
        if entry.client.version != ClientProtocol::V40 {
            self.forget(&entry.client, entry.other);
        }
        Ok(token)
    }

    /// Counts whether an open denies something, before and after a change.
    pub(super) fn count_denial(&self, before: Option<Modes>, after: Option<Modes>) {
        let denies = |modes: Option<Modes>| modes.and_then(Modes::union).is_some_and(Mode::denies);
        match (denies(before), denies(after)) {
            (false, true) => Counters::up(&self.counters.denials),
            (true, false) => Counters::down(&self.counters.denials),
            (false, false) | (true, true) => {}
        }
    }

    /// Whether any open denies anything.
    pub(crate) fn has_denials(&self) -> bool {
        Counters::get(&self.counters.denials) > 0
    }

    /// Whether share reservations allow what comes without a stateid. `host` is the address of a caller of NFSv3, which its
    /// own SHAREs do not bind: its READs and WRITEs do not say which process they are of.
    ///
    /// While nobody denies anything this costs one look at a counter.
    ///
    /// # Errors
    /// NFS4ERR_LOCKED.
    pub(crate) fn check_shares(
        &self,
        context: &Context<'_>,
        file: FileId,
        wanted: IoMode,
        host: Option<IpAddr>,
    ) -> Result<(), StateError> {
        if !self.has_denials() {
            return Ok(());
        }
        let own = |client: &Client| host.is_some() && client.host.map(|known| known.address) == host;
        loop {
            let found = match self.files.read(&file).get(&file) {
                None => return Ok(()),
                Some(state) => {
                    let others = state.opens.iter().filter(|entry| !own(&entry.client));
                    let denying = others.filter(|entry| {
                        entry.mode().is_some_and(|mode| match wanted {
                            IoMode::Read => mode.denies_reading(),
                            IoMode::Write => mode.denies_writing(),
                        })
                    });
                    ConflictHolders::of(self, context.now, denying.map(|entry| &entry.client))
                }
            };
            match found {
                ConflictHolders::None => return Ok(()),
                ConflictHolders::Active => return Err(StateError::ShareLocked),
                ConflictHolders::Expired(clients) => self.expire(context, &clients)?,
            }
        }
    }

    /// The open of an owner that a restart brought back and that grants at least `mode`: what may be reclaimed although
    /// there is no grace period.
    pub(crate) fn restored_open(&self, file: FileId, opening: &OpenRequest<'_>) -> Option<Arc<StateEntry>> {
        let files = self.files.read(&file);
        let entry = files.get(&file)?.open_of(opening.client, opening.owner)?;
        let covers = entry.mode().is_some_and(|mode| mode.covers(opening.mode));
        let restored = entry.as_open().is_some_and(crate::state::stateids::entry::Open::is_restored);
        (covers && restored).then(|| Arc::clone(entry))
    }

    /// Forgets a file of which nothing is held any more.
    pub(super) fn leave(
        &self,
        files: &mut foldhash::HashMap<FileId, File>,
        context: &Context<'_>,
        file: FileId,
    ) {
        if let Entry::Occupied(entry) = files.entry(file)
            && entry.get().is_idle()
        {
            entry.remove();
            context.store.release(file);
        }
    }
}

/// The state of a file; from its first on, the file is kept though its names go.
pub(super) fn enter<'a>(
    files: &'a mut foldhash::HashMap<FileId, File>,
    context: &Context<'_>,
    file: FileId,
) -> &'a mut File {
    files.entry(file).or_insert_with(|| {
        context.store.hold(file);
        File::default()
    })
}
