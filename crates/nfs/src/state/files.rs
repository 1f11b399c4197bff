//! Who has a file open: OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, and the share reservations between them.

use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use volume::state::StateChange;
use volume::time::Time;

use crate::state::clients::client::{Client, LockOwner, OpenOwner, Version};
use crate::state::config::Counters;
use crate::state::delegations::in_flight::Changing;
use crate::state::files::share::{Mode, Modes};
use crate::state::ids::{FileId, StateId};
use crate::state::locks::Waiter;
use crate::state::locks::ranges::Ranges;
use crate::state::record::{Key, OpenRecord};
use crate::state::shards::Shards;
use crate::state::stateids::Use;
use crate::state::stateids::entry::{Holding, Open, Standing, What};
use crate::state::{Context, Kept, State, StateError};

pub(crate) mod share;

/// All state of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(super) opens: Vec<Arc<Holding>>,
    pub(super) lock_states: Vec<Arc<Holding>>,
    pub(super) delegations: Vec<Arc<Holding>>,
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
    pub(super) fn open_of(&self, client: &Client, owner: &Arc<OpenOwner>) -> Option<&Arc<Holding>> {
        self.opens.iter().find(|holding| {
            holding.client.id == client.id
                && holding.as_open().is_some_and(|open| Arc::ptr_eq(&open.owner, owner))
        })
    }
}

/// The owners of what is in the way.
pub(super) enum InTheWay {
    /// Nobody.
    Nobody,
    /// Clients whose leases are over: they are expired, and it is tried again.
    Silent(Vec<Arc<Client>>),
    /// Somebody who is there.
    Somebody,
}

impl InTheWay {
    /// Of the clients that hold what conflicts.
    pub(super) fn of<'a>(
        state: &State,
        now: Time,
        clients: impl Iterator<Item = &'a Arc<Client>>,
    ) -> InTheWay {
        let mut silent: Vec<Arc<Client>> = Vec::new();
        for client in clients {
            if client.silent(now) <= state.config.lease {
                return InTheWay::Somebody;
            }
            if !silent.iter().any(|known| known.id == client.id) {
                silent.push(Arc::clone(client));
            }
        }
        if silent.is_empty() { InTheWay::Nobody } else { InTheWay::Silent(silent) }
    }
}

/// Who opens what, and how.
#[derive(Clone, Copy)]
pub(crate) struct Opening<'a> {
    pub(crate) client: &'a Arc<Client>,
    pub(crate) owner: &'a Arc<OpenOwner>,
    pub(crate) mode: Mode,
}

/// A file is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) holding: Arc<Holding>,
    pub(crate) stateid: StateId,
    /// NFSv4.0: whether the owner must be confirmed (OPEN4_RESULT_CONFIRM).
    pub(crate) confirm: bool,
    /// What the reply waits for: a plain open for nothing, as it may be lost and done again.
    pub(crate) kept: Option<Kept>,
}

/// An open of a file that does not exist yet. Its record goes into the journal entry that creates the file, for which no
/// lock is needed: nobody can have anything of a file that is not there. Then it is adopted; others may open the file
/// before that, but it is not delegated to them.
#[derive(Debug)]
pub(crate) struct Prepared {
    stateid: StateId,
    modes: Modes,
    record: OpenRecord,
}

impl Prepared {
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

impl State {
    /// Finds out, before anything is changed, whether [`State::open`] would succeed: what an OPEN `cuts` is cut in between,
    /// which is writing, whatever it is opened for.
    ///
    /// # Errors
    /// NFS4ERR_SHARE_DENIED, NFS4ERR_DELAY while a delegation is recalled, NFS4ERR_RESOURCE or NFS4ERR_DELAY if there are
    /// too many opens.
    pub(crate) fn check_open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &Opening<'_>,
        cuts: bool,
    ) -> Result<(), StateError> {
        self.check_room(opening.client)?;
        loop {
            let found = match self.files.read(&file).get(&file) {
                Some(state) => self.open_conflicts(context.now, state, opening),
                None => InTheWay::Nobody,
            };
            match found {
                InTheWay::Nobody => break,
                InTheWay::Somebody => return Err(StateError::ShareDenied),
                InTheWay::Silent(clients) => self.expire(context, &clients)?,
            }
        }
        if cuts {
            self.check_shares(context, file, Use::Write, None).map_err(|error| match error {
                StateError::ShareLocked => StateError::ShareDenied,
                other => other,
            })?;
        }
        let changes = cuts || opening.mode.writes() || opening.mode.denies();
        let wanted = if changes { Use::Write } else { Use::Read };
        self.recall_from_others(context, Some(opening.client), file, wanted.into())
    }

    /// What an owner has open itself is in its way too (RFC 7530 section 9.9).
    fn open_conflicts(&self, now: Time, file: &File, opening: &Opening<'_>) -> InTheWay {
        // NLM adds to what its owner has.
        let own = match opening.client.version {
            Version::Nlm => file.open_of(opening.client, opening.owner),
            Version::Zero | Version::Sessions => None,
        };
        let conflicting = file
            .opens
            .iter()
            .filter(|holding| own.is_none_or(|own| !Arc::ptr_eq(own, holding)))
            .filter(|holding| holding.mode().is_some_and(|mode| mode.conflicts(opening.mode)));
        InTheWay::of(self, now, conflicting.map(|holding| &holding.client))
    }

    /// Whether there is room for one more open or lock state, and for an owner of it. To be asked before an owner is made, as
    /// that takes room itself.
    ///
    /// # Errors
    /// NFS4ERR_RESOURCE, NFS4ERR_DELAY.
    pub(crate) fn check_room(&self, client: &Client) -> Result<(), StateError> {
        let holdings = self.counters.holdings();
        let owners = client.has_owners(self.config.owners_per_client);
        match client.version {
            _ if holdings < self.config.holdings && !owners => Ok(()),
            Version::Zero | Version::Nlm => Err(StateError::LimitReached),
            Version::Sessions => Err(StateError::TryLater),
        }
    }

    /// Opens a file that exists. The caller has checked that it is a regular file and that the mode bits allow it.
    ///
    /// # Errors
    /// Those of [`State::check_open`], and of the journal.
    pub(crate) fn open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &Opening<'_>,
    ) -> Result<Opened, StateError> {
        loop {
            self.check_open(context, file, opening, false)?;
            let mut files = self.files.write(&file);
            let known = files.get(&file);
            let conflict = known.map(|known| self.open_conflicts(context.now, known, opening));
            if conflict.is_some_and(|conflict| !matches!(conflict, InTheWay::Nobody))
                || known.is_some_and(|known| self.is_delegated_against(known, opening))
            {
                // Somebody came in between.
                continue;
            }
            let own = known.and_then(|known| known.open_of(opening.client, opening.owner)).cloned();
            return match own {
                Some(own) => self.open_again(context, &own, opening),
                None => {
                    let prepared = self.prepare_open(opening);
                    let kept = context.change(file.volume, &[prepared.change(file)])?;
                    let state = enter(&mut files, context, file);
                    let opened = self.insert_open(state, file, opening, &prepared, kept);
                    self.leave(&mut files, context, file);
                    opened
                }
            };
        }
    }

    /// Prepares an open of a file that is about to be created.
    pub(crate) fn prepare_open(&self, opening: &Opening<'_>) -> Prepared {
        let modes = Modes::default().with(opening.mode);
        let stateid = StateId { seqid: 1, other: self.next_other(opening.client) };
        let confirmed = opening.client.version == Version::Sessions || opening.owner.turns.is_confirmed();
        let record = OpenRecord { owner: opening.owner.name.clone(), seqid: 1, modes: modes.0, confirmed };
        Prepared { stateid, modes, record }
    }

    /// What to journal of an open, now that the file that is created has a number, but no name yet. What is returned with
    /// it is kept until the open is adopted: nobody who finds the name before that is to rely on what the open may change.
    pub(crate) fn made(&self, prepared: &Prepared, file: FileId) -> (StateChange, Changing<'_>) {
        (prepared.change(file), self.changing(file))
    }

    /// The file was created, and the record of the open with it, which the reply waits for anyway.
    ///
    /// # Errors
    /// NFS4ERR_SHARE_DENIED if somebody else was faster to open it, in a way that conflicts; the record is deleted again.
    pub(crate) fn adopt_open(
        &self,
        context: &Context<'_>,
        file: FileId,
        opening: &Opening<'_>,
        (prepared, _changing): (&Prepared, Changing<'_>),
        kept: Kept,
    ) -> Result<Opened, StateError> {
        let mut files = self.files.write(&file);
        let state = enter(&mut files, context, file);
        let refused = match self.open_conflicts(context.now, state, opening) {
            InTheWay::Nobody => self.insert_open(state, file, opening, prepared, kept),
            InTheWay::Silent(_) | InTheWay::Somebody => Err(StateError::ShareDenied),
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
        opening: &Opening<'_>,
        prepared: &Prepared,
        kept: Kept,
    ) -> Result<Opened, StateError> {
        let Opening { client, owner, mode } = *opening;
        let holding = Holding::open(client, file, prepared.stateid, owner, prepared.modes, false);
        self.add(&holding)?;
        state.opens.push(Arc::clone(&holding));
        Counters::up(&self.counters.opens);
        self.count_denial(None, Some(prepared.modes));
        Ok(Opened {
            stateid: prepared.stateid,
            confirm: !prepared.record.confirmed,
            kept: (mode.denies() || client.version == Version::Nlm).then_some(kept),
            holding,
        })
    }

    /// An owner opens a file that it has open: with both modes from now on.
    fn open_again(
        &self,
        context: &Context<'_>,
        holding: &Arc<Holding>,
        opening: &Opening<'_>,
    ) -> Result<Opened, StateError> {
        let What::Open(open) = &holding.what else { return Err(StateError::TooManyRanges) };
        let modes = open.modes().with(opening.mode);
        let (stateid, kept) = self.change_open(context, holding, modes)?;
        let confirm = opening.client.version == Version::Zero && !opening.owner.turns.is_confirmed();
        Ok(Opened {
            holding: Arc::clone(holding),
            stateid,
            confirm,
            kept: (opening.mode.denies() || opening.client.version == Version::Nlm).then_some(kept),
        })
    }

    /// Changes the modes of an open, under the lock of its file.
    fn change_open(
        &self,
        context: &Context<'_>,
        holding: &Holding,
        modes: Modes,
    ) -> Result<(StateId, Kept), StateError> {
        let What::Open(open) = &holding.what else { return Err(StateError::BadStateId) };
        if holding.standing() != Standing::Live {
            // Closed a moment ago: a record of it would come back after a restart.
            return Err(StateError::BadStateId);
        }
        let seqid = holding.next_seqid();
        let confirmed = holding.client.version == Version::Sessions || open.owner.turns.is_confirmed();
        let record = OpenRecord { owner: open.owner.name.clone(), seqid, modes: modes.0, confirmed };
        let change = Key::Open(holding.file.ino, holding.other).put(&record);
        let kept = context.change(holding.file.volume, &[change])?;
        self.count_denial(Some(open.modes()), Some(modes));
        open.set_modes(modes);
        holding.set_seqid(seqid);
        Ok((holding.stateid(), kept))
    }

    /// OPEN_CONFIRM: the owner is confirmed (RFC 7530 section 16.18).
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID if it was before.
    pub(crate) fn confirm_open(
        &self,
        context: &Context<'_>,
        holding: &Arc<Holding>,
    ) -> Result<StateId, StateError> {
        let What::Open(open) = &holding.what else { return Err(StateError::BadStateId) };
        let _files = self.files.write(&holding.file);
        if open.owner.turns.is_confirmed() {
            return Err(StateError::BadStateId);
        }
        open.owner.turns.confirm();
        self.change_open(context, holding, open.modes()).map(|(stateid, _)| stateid)
    }

    /// OPEN_DOWNGRADE: back to less (RFC 7530 section 16.19).
    ///
    /// # Errors
    /// NFS4ERR_INVAL if the file was never opened so.
    pub(crate) fn downgrade(
        &self,
        context: &Context<'_>,
        holding: &Arc<Holding>,
        to: Mode,
    ) -> Result<(StateId, Kept), StateError> {
        let What::Open(open) = &holding.what else { return Err(StateError::BadStateId) };
        let _files = self.files.write(&holding.file);
        let modes = open.modes().downgraded(to).ok_or(StateError::NeverOpenedSo)?;
        self.change_open(context, holding, modes)
    }

    /// CLOSE: the open is no more, and neither are the locks that depend on it (RFC 7530 section 16.2.4 leaves that to
    /// the server). In NFSv4.0 the stateid can still be found, so that the request can be repeated.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID if it is closed already.
    pub(crate) fn close(
        &self,
        context: &Context<'_>,
        holding: &Arc<Holding>,
    ) -> Result<(StateId, Kept), StateError> {
        let What::Open(open) = &holding.what else { return Err(StateError::BadStateId) };
        let file = holding.file;
        let mut files = self.files.write(&file);
        let kept = self.close_held(context, &mut files, holding)?;
        drop(files);
        if holding.client.version == Version::Zero {
            holding.client.inner.lock().holdings.remove(&holding.other);
            if let Some(earlier) = open.owner.turns.close(holding.other) {
                self.forget(&holding.client, earlier);
            }
        }
        Ok((holding.stateid(), kept))
    }

    /// Closes under the lock of the file.
    pub(super) fn close_held(
        &self,
        context: &Context<'_>,
        files: &mut foldhash::HashMap<FileId, File>,
        holding: &Arc<Holding>,
    ) -> Result<Kept, StateError> {
        let file = holding.file;
        let state = files.get_mut(&file).ok_or(StateError::BadStateId)?;
        if !state.opens.iter().any(|other| Arc::ptr_eq(other, holding)) {
            return Err(StateError::BadStateId);
        }
        let depending: Vec<_> = state
            .lock_states
            .iter()
            .filter(|locks| locks.as_locks().is_some_and(|locks| Arc::ptr_eq(&locks.open, holding)))
            .cloned()
            .collect();
        let mut changes = vec![Key::Open(file.ino, holding.other).deleted()];
        depending.iter().for_each(|locks| changes.extend(state.lock_state_deleted(locks)));
        let kept = context.change(file.volume, &changes)?;
        for locks in &depending {
            self.drop_lock_state(context, state, locks);
        }
        state.opens.retain(|other| !Arc::ptr_eq(other, holding));
        Counters::down(&self.counters.opens);
        self.count_denial(holding.as_open().map(Open::modes), None);
        holding.set_seqid(holding.next_seqid());
        holding.end();
        self.leave(files, context, file);
        if holding.client.version != Version::Zero {
            self.forget(&holding.client, holding.other);
        }
        Ok(kept)
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
        wanted: Use,
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
                    let others = state.opens.iter().filter(|holding| !own(&holding.client));
                    let denying = others.filter(|holding| {
                        holding.mode().is_some_and(|mode| match wanted {
                            Use::Read => mode.denies_reading(),
                            Use::Write => mode.denies_writing(),
                        })
                    });
                    InTheWay::of(self, context.now, denying.map(|holding| &holding.client))
                }
            };
            match found {
                InTheWay::Nobody => return Ok(()),
                InTheWay::Somebody => return Err(StateError::ShareLocked),
                InTheWay::Silent(clients) => self.expire(context, &clients)?,
            }
        }
    }

    /// The open of an owner that a restart brought back and that grants at least `mode`: what may be reclaimed although
    /// there is no grace period.
    pub(crate) fn restored_open(&self, file: FileId, opening: &Opening<'_>) -> Option<Arc<Holding>> {
        let files = self.files.read(&file);
        let holding = files.get(&file)?.open_of(opening.client, opening.owner)?;
        let covers = holding.mode().is_some_and(|mode| mode.covers(opening.mode));
        let restored = holding.as_open().is_some_and(crate::state::stateids::entry::Open::is_restored);
        (covers && restored).then(|| Arc::clone(holding))
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
            context.keep.release(file);
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
        context.keep.hold(file);
        File::default()
    })
}
