//! Open files: OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, and their share reservations.

use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use volume::state::{DeferredValue, StateChange};
use volume::time::Time;

#[cfg(doc)]
use crate::state::StateStore;
use crate::state::clients::client::{Client, ClientProtocol, LockOwner, OpenOwner};
use crate::state::clients::removal::Work;
use crate::state::config::{Counters, ENTRY_BYTES};
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::delegations::of_file::Delegations;
use crate::state::files::opens::{OpenKind, Opens};
use crate::state::files::share::{Mode, Modes};
use crate::state::ids::{FileId, StateId};
use crate::state::locks::lock_states::LockStates;
use crate::state::locks::parts::Mergings;
use crate::state::locks::ranges::Ranges;
use crate::state::locks::waiters::{Waiter, Waiters};
use crate::state::record::{Key, OpenRecord};
use crate::state::shards::Shards;
use crate::state::shares::Resource;
use crate::state::stateids::IoMode;
use crate::state::stateids::entry::{Liveness, Open, StateEntry, StateKind};
use crate::state::{Context, DurabilityToken, SharedState, StateError};

pub(crate) mod opens;
pub(crate) mod share;

/// All state of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(super) opens: Opens,
    pub(super) lock_states: LockStates,
    pub(super) delegations: Delegations,
    pub(super) locks: Ranges<Arc<LockOwner>>,
    pub(super) waiters: Waiters,
    /// Locks that are made in parts, as each replaces very many.
    pub(super) mergings: Mergings,
    /// When a range was last freed.
    pub(super) freed: Time,
}

/// All files that have state.
pub(super) type Files = Shards<FileId, File>;

impl File {
    /// Returns whether the file has no state left.
    fn is_idle(&self) -> bool {
        self.opens.is_empty()
            && self.lock_states.is_empty()
            && self.delegations.is_empty()
            && self.locks.is_empty()
    }

    /// Returns something that a client holds. Its locks depend on its opens.
    pub(super) fn any_of(&self, client: &Client) -> Option<&Arc<StateEntry>> {
        self.opens.of_client(client).or_else(|| self.delegations.of_client(client))
    }
}

/// Clients with conflicting state that are looked at before they make way.
const HOLDERS_MAX: usize = 64;

/// The clients whose state conflicts with a request.
pub(super) enum ConflictHolders {
    /// Nothing conflicts.
    None,
    /// Only clients whose leases are over, or which are gone. Have them make way and try again.
    Expired(Vec<Arc<Client>>),
    /// A client whose lease runs.
    Active,
}

impl ConflictHolders {
    /// Classifies the clients that hold conflicting state. If there are very many, the first of them are looked at.
    pub(super) fn of<'a>(
        state: &SharedState,
        now: Time,
        clients: impl Iterator<Item = &'a Arc<Client>>,
    ) -> ConflictHolders {
        let mut silent: Vec<Arc<Client>> = Vec::new();
        for client in clients.take(HOLDERS_MAX) {
            if client.lease_idle(now) <= state.config.lease && !client.is_gone() {
                return ConflictHolders::Active;
            }
            if !silent.iter().any(|known| known.id == client.id) {
                silent.push(Arc::clone(client));
            }
        }
        if silent.is_empty() { ConflictHolders::None } else { ConflictHolders::Expired(silent) }
    }
}

/// A request to open a file.
#[derive(Clone, Copy)]
pub(crate) struct OpenRequest<'a> {
    pub(crate) client: &'a Arc<Client>,
    pub(crate) owner: &'a Arc<OpenOwner>,
    pub(crate) mode: Mode,
}

impl OpenRequest<'_> {
    /// Returns whether the reply waits for the open's record: the open denies something to others, or belongs to a host that
    /// uses NLM, which would not repeat it. Any other open may be lost and repeated.
    fn is_waited_for(&self) -> bool {
        self.mode.denies() || self.client.version == ClientProtocol::Nlm
    }
}

/// The result of an open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) entry: Arc<StateEntry>,
    pub(crate) stateid: StateId,
    /// NFSv4.0: whether the owner must be confirmed (OPEN4_RESULT_CONFIRM).
    pub(crate) confirm: bool,
    /// What the reply waits for, see [`OpenRequest::is_waited_for`].
    pub(crate) token: Option<DurabilityToken>,
    /// Whether the file had no state: the caller's hold of it ([`StateStore::hold`]) is now that of the state.
    pub(crate) took_hold: bool,
}

/// An open of a file that does not exist yet. Its record goes into the journal entry that creates the file, which needs
/// no lock: a file that does not exist has no other state. Then it is adopted. Others may open the file before that,
/// but get no delegation of it.
#[derive(Debug)]
pub(crate) struct PreparedOpen {
    stateid: StateId,
    modes: Modes,
    owner: Arc<OpenOwner>,
    confirmed: bool,
}

impl PreparedOpen {
    /// Returns the stateid to answer.
    pub(crate) fn stateid(&self) -> StateId {
        self.stateid
    }

    /// Returns whether the owner needs no confirmation.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Returns the change to journal.
    fn change(&self, file: FileId) -> StateChange {
        self.key(file).put(&self.record())
    }

    /// Returns the key of its record.
    fn key(&self, file: FileId) -> Key {
        Key::Open(file.ino, self.stateid.other)
    }

    fn record(&self) -> OpenRecord<'_> {
        OpenRecord::of(&self.owner, self.stateid.seqid, self.modes, self.confirmed)
    }

    /// Returns the open of the file, which the caller adds.
    fn entry(&self, client: &Arc<Client>, file: FileId) -> Arc<StateEntry> {
        StateEntry::open(client, file, self.stateid, &self.owner, self.modes, false)
    }
}

impl SharedState {
    /// Checks, before anything is changed, that [`SharedState::open`] would succeed. An open that `truncates` the file
    /// writes to it, in whatever mode it opens.
    ///
    /// # Errors
    /// [`StateError::ShareDenied`]; [`StateError::TryLater`] while a delegation is recalled or a client removed;
    /// [`StateError::LimitReached`] or [`StateError::TryLater`] if there are too many opens.
    pub(crate) fn check_open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &OpenRequest<'_>,
        truncates: bool,
    ) -> Result<(), StateError> {
        self.check_room(opening.client, None)?;
        let mut work = Work::part();
        loop {
            let found = match self.files.read(&file).get(&file) {
                Some(state) => self.open_conflicts(context.now, state, opening),
                None => ConflictHolders::None,
            };
            match found {
                ConflictHolders::None => break,
                ConflictHolders::Active => return Err(StateError::ShareDenied),
                ConflictHolders::Expired(clients) => self.make_way(context, file, &clients, &mut work)?,
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

    /// Returns the clients whose opens conflict. An owner's own open of the file conflicts too (RFC 7530 section 9.9).
    fn open_conflicts(&self, now: Time, file: &File, opening: &OpenRequest<'_>) -> ConflictHolders {
        // In NLM, a share extends the open of its owner.
        let own = match opening.client.version {
            ClientProtocol::Nlm => file.opens.of_owner(opening.client, opening.owner),
            ClientProtocol::V40 | ClientProtocol::Sessions => None,
        };
        let wanted = opening.mode;
        let conflicts = move |kind: OpenKind| kind.mode.is_some_and(|mode| mode.conflicts(wanted));
        ConflictHolders::of(self, now, file.opens.clients(own, conflicts))
    }

    /// Checks that there is room for one more open or lock state, and for its owner with this name if that is new. Call it before the
    /// owner is created.
    ///
    /// # Errors
    /// [`StateError::LimitReached`], or [`StateError::TryLater`] for clients with sessions.
    pub(crate) fn check_room(&self, client: &Client, new_owner: Option<&[u8]>) -> Result<(), StateError> {
        let bytes = ENTRY_BYTES + new_owner.map_or(0, |name| client.bytes_of_new_owner(name));
        match client.version {
            _ if client.holder.may_take(Resource::StateBytes, bytes) => Ok(()),
            ClientProtocol::V40 | ClientProtocol::Nlm => Err(StateError::LimitReached),
            ClientProtocol::Sessions => Err(StateError::TryLater),
        }
    }

    /// Opens an existing file, which the caller holds ([`StateStore::hold`]). The caller has checked that it is a regular file and
    /// that its permissions allow it.
    ///
    /// # Errors
    /// Those of [`SharedState::check_open`], and of the journal.
    pub(crate) fn open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &OpenRequest<'_>,
    ) -> Result<Opened, StateError> {
        self.check_room(opening.client, None)?;
        loop {
            if let Some(opened) = self.open_without_conflict(context, file, opening)? {
                return Ok(opened);
            }
            self.check_open(context, file, opening, false)?;
        }
    }

    /// Opens an existing file that the caller does not hold.
    ///
    /// # Errors
    /// Those of [`SharedState::open`].
    pub(crate) fn hold_and_open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &OpenRequest<'_>,
    ) -> Result<Opened, StateError> {
        context.store.hold(file);
        let opened = self.open(context, file, opening);
        if !opened.as_ref().is_ok_and(|opened| opened.took_hold) {
            context.store.release(file);
        }
        opened
    }

    /// Opens an existing file; returns none if anything conflicts.
    fn open_without_conflict(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &OpenRequest<'_>,
    ) -> Result<Option<Opened>, StateError> {
        let mut files = self.files.write(&file);
        if let Some(known) = files.get_mut(&file) {
            if !matches!(self.open_conflicts(context.now, known, opening), ConflictHolders::None)
                || self.is_delegated_against(known, opening)
            {
                return Ok(None);
            }
            if let Some(own) = known.opens.of_owner(opening.client, opening.owner).cloned() {
                return self.merge_open(context, known, &own, opening).map(Some);
            }
        }
        let prepared = self.prepare_open(opening);
        let entry = prepared.entry(opening.client, file);
        let token = if opening.is_waited_for() {
            Some(context.change(file.volume, &[prepared.change(file)])?)
        } else {
            // Until the record is journaled, the open is as it was prepared: each change of it journals something.
            let record: Arc<dyn DeferredValue> = Arc::<StateEntry>::clone(&entry);
            context.store.defer(file.volume, prepared.key(file).to_bytes(), record)?;
            None
        };
        let mut took_hold = false;
        let state = files.entry(file).or_insert_with(|| {
            took_hold = true;
            File::default()
        });
        let opened = self.insert_open(state, entry, &prepared, token);
        if took_hold && opened.is_err() {
            files.remove(&file);
        }
        opened.map(|opened| Some(Opened { took_hold, ..opened }))
    }

    /// Prepares an open of a file that is about to be created.
    pub(crate) fn prepare_open(&self, opening: &OpenRequest<'_>) -> PreparedOpen {
        let modes = Modes::default().with(opening.mode);
        let stateid = StateId { seqid: 1, other: self.next_other(opening.client) };
        let confirmed =
            opening.client.version == ClientProtocol::Sessions || opening.owner.sequence.is_confirmed();
        PreparedOpen { stateid, modes, owner: Arc::clone(opening.owner), confirmed }
    }

    /// Returns the record of an open for the journal entry that creates its file: the file has an inode number, but
    /// no name yet. Hold the modification until the open is adopted, so that no client that finds the name first gets
    /// a delegation of the file.
    pub(crate) fn record_of_created(
        &self,
        prepared: &PreparedOpen,
        file: FileId,
    ) -> (StateChange, InFlightModification<'_>) {
        (prepared.change(file), self.begin_modification(file))
    }

    /// Adopts the open of a file that was created together with the open's record. The reply waits for that anyway.
    ///
    /// # Errors
    /// [`StateError::ShareDenied`] if a conflicting open came first; the record is deleted again.
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
            ConflictHolders::None => {
                let token = opening.is_waited_for().then_some(token);
                self.insert_open(state, prepared.entry(opening.client, file), prepared, token)
            }
            ConflictHolders::Expired(_) | ConflictHolders::Active => Err(StateError::ShareDenied),
        };
        if refused.is_err() {
            context.change(file.volume, &[Key::Open(file.ino, prepared.stateid.other).deleted()])?;
        }
        self.forget_if_idle(&mut files, context, file);
        refused
    }

    fn insert_open(
        &self,
        state: &mut File,
        entry: Arc<StateEntry>,
        prepared: &PreparedOpen,
        token: Option<DurabilityToken>,
    ) -> Result<Opened, StateError> {
        self.add(&entry)?;
        state.opens.insert(&entry);
        Counters::up(&self.counters.opens);
        self.count_denial(None, Some(prepared.modes));
        let confirm = !prepared.confirmed;
        Ok(Opened { stateid: prepared.stateid, confirm, token, entry, took_hold: false })
    }

    /// Adds modes to an owner's open.
    fn merge_open(
        &self,
        context: &Context<'_>,
        state: &mut File,
        entry: &Arc<StateEntry>,
        opening: &OpenRequest<'_>,
    ) -> Result<Opened, StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::TooManyRanges) };
        let modes = open.modes().with(opening.mode);
        let (stateid, token) = self.change_open(context, state, entry, modes)?;
        let confirm = opening.client.version == ClientProtocol::V40 && !opening.owner.sequence.is_confirmed();
        Ok(Opened {
            entry: Arc::clone(entry),
            stateid,
            confirm,
            token: opening.is_waited_for().then_some(token),
            took_hold: false,
        })
    }

    /// Changes the modes of an open, under the lock of its file.
    fn change_open(
        &self,
        context: &Context<'_>,
        state: &mut File,
        entry: &Arc<StateEntry>,
        modes: Modes,
    ) -> Result<(StateId, DurabilityToken), StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::BadStateId) };
        if entry.liveness() != Liveness::Live {
            // It has been closed: a record would bring it back after a restart.
            return Err(StateError::BadStateId);
        }
        let seqid = entry.next_seqid();
        let confirmed =
            entry.client.version == ClientProtocol::Sessions || open.owner.sequence.is_confirmed();
        let record = OpenRecord::of(&open.owner, seqid, modes, confirmed);
        let change = Key::Open(entry.file.ino, entry.other).put(&record);
        let token = context.change(entry.file.volume, &[change])?;
        self.count_denial(Some(open.modes()), Some(modes));
        state.opens.set_modes(entry, modes);
        entry.set_seqid(seqid);
        Ok((entry.stateid(), token))
    }

    /// OPEN_CONFIRM: confirms the owner (RFC 7530 section 16.18).
    ///
    /// # Errors
    /// [`StateError::BadStateId`] if it was confirmed before.
    pub(crate) fn confirm_open(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<StateId, StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::BadStateId) };
        let mut files = self.files.write(&entry.file);
        let state = files.get_mut(&entry.file).ok_or(StateError::BadStateId)?;
        if open.owner.sequence.is_confirmed() {
            return Err(StateError::BadStateId);
        }
        open.owner.sequence.confirm();
        self.change_open(context, state, entry, open.modes()).map(|(stateid, _)| stateid)
    }

    /// OPEN_DOWNGRADE: reduces the modes of an open (RFC 7530 section 16.19).
    ///
    /// # Errors
    /// [`StateError::ModeNeverOpened`] if `to` is not a union of access modes that this owner opened.
    pub(crate) fn downgrade(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
        to: Mode,
    ) -> Result<(StateId, DurabilityToken), StateError> {
        let StateKind::Open(open) = &entry.kind else { return Err(StateError::BadStateId) };
        let mut files = self.files.write(&entry.file);
        let state = files.get_mut(&entry.file).ok_or(StateError::BadStateId)?;
        let modes = open.modes().downgraded(to).ok_or(StateError::ModeNeverOpened)?;
        self.change_open(context, state, entry, modes)
    }

    /// CLOSE: ends an open and the locks that depend on it (RFC 7530 section 16.2.4 leaves the locks to the server). In
    /// NFSv4.0 the stateid can still be found, so that the request can be repeated.
    ///
    /// # Errors
    /// [`StateError::BadStateId`] if it is closed already; [`StateError::Unfinished`] while more depends on it than one part
    /// frees.
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
            if entry.client.is_gone() {
                // Nobody can repeat the request, and its owner may have been forgotten.
                self.forget(&entry.client, entry.other);
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
        if !state.opens.contains(entry) {
            return Err(StateError::BadStateId);
        }
        if state.has_much_depending_on(entry) {
            self.free_part_of_depending(context, state, entry)?;
            return Err(StateError::Unfinished);
        }
        let closed = Key::Open(file.ino, entry.other).deleted();
        let depending: Vec<_> = state.lock_states.depending_on(entry).cloned().collect();
        let token = if depending.is_empty() {
            context.change(file.volume, &[closed])?
        } else {
            let mut changes = vec![closed];
            depending.iter().for_each(|locks| changes.extend(state.lock_state_deleted(locks)));
            context.change(file.volume, &changes)?
        };
        self.drop_lock_states(context, state, &depending, file);
        state.opens.remove(entry);
        Counters::down(&self.counters.opens);
        if !state.waiters.is_empty() && state.opens.of_client(&entry.client).is_none() {
            // Without an open, its lock owners can lock nothing, and those without lock states lead to no place. NLM waits on.
            let own = |waiter: &Waiter| waiter.open.is_none() && waiter.owner.client() == entry.client.id;
            let waited = state.waiters.remove(own);
            self.wake(context, state, file, waited);
        }
        self.count_denial(entry.as_open().map(Open::modes), None);
        entry.set_seqid(entry.next_seqid());
        entry.end();
        self.forget_if_idle(files, context, file);
        if entry.client.version != ClientProtocol::V40 {
            self.forget(&entry.client, entry.other);
        }
        Ok(token)
    }

    /// Counts opens that deny something as an open changes.
    pub(super) fn count_denial(&self, before: Option<Modes>, after: Option<Modes>) {
        let denies = |modes: Option<Modes>| modes.and_then(Modes::union).is_some_and(Mode::denies);
        match (denies(before), denies(after)) {
            (false, true) => Counters::up(&self.counters.denials),
            (true, false) => Counters::down(&self.counters.denials),
            (false, false) | (true, true) => {}
        }
    }

    /// Returns whether a client has a file open.
    pub(crate) fn has_open(&self, client: &Client, file: FileId) -> bool {
        self.files.read(&file).get(&file).is_some_and(|state| state.opens.of_client(client).is_some())
    }

    /// Returns whether any open denies anything.
    pub(crate) fn has_denials(&self) -> bool {
        Counters::get(&self.counters.denials) > 0
    }

    /// Checks that share reservations allow I/O without a stateid. `host` is the address of an NFSv3 caller. The host's
    /// own SHAREs do not bind it: its READs and WRITEs do not name their process.
    ///
    /// Costs the load of one counter while no share denies anything.
    ///
    /// # Errors
    /// [`StateError::ShareLocked`]; [`StateError::TryLater`] while a client that held much is removed.
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
        let mut work = Work::part();
        let own = |client: &Client| host.is_some() && client.host.map(|known| known.address) == host;
        loop {
            let found = match self.files.read(&file).get(&file) {
                None => return Ok(()),
                Some(state) => {
                    let denies = move |kind: OpenKind| {
                        kind.mode.is_some_and(|mode| match wanted {
                            IoMode::Read => mode.denies_reading(),
                            IoMode::Write => mode.denies_writing(),
                        })
                    };
                    let denying = state.opens.clients(None, denies);
                    ConflictHolders::of(self, context.now, denying.filter(|client| !own(client)))
                }
            };
            match found {
                ConflictHolders::None => return Ok(()),
                ConflictHolders::Active => return Err(StateError::ShareLocked),
                ConflictHolders::Expired(clients) => self.make_way(context, file, &clients, &mut work)?,
            }
        }
    }

    /// Returns an owner's open that a restart restored and that covers the requested mode: it may be reclaimed although
    /// there is no grace period.
    pub(crate) fn restored_open(&self, file: FileId, opening: &OpenRequest<'_>) -> Option<Arc<StateEntry>> {
        let files = self.files.read(&file);
        let entry = files.get(&file)?.opens.of_owner(opening.client, opening.owner)?;
        let covers = entry.mode().is_some_and(|mode| mode.covers(opening.mode));
        let restored = entry.as_open().is_some_and(crate::state::stateids::entry::Open::is_restored);
        (covers && restored).then(|| Arc::clone(entry))
    }

    /// Forgets a file without state.
    pub(super) fn forget_if_idle(
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

/// Returns the state of a file, creating it. While a file has state, it is kept without names.
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
