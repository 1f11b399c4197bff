//! Finds what a stateid stands for, and checks whether it allows an operation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::ids::{FileId, Other, StateId};
use crate::state::stateids::entry::{Liveness, StateEntry};
use crate::state::{Caller, Context, SharedState, StateError};

pub(crate) mod entry;

/// Whether an operation reads or writes a file's data. Setting the size writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoMode {
    Read,
    Write,
}

/// What the stateid of an owner's request must stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldKind {
    Open,
    Locks,
}

impl SharedState {
    /// Returns what a stateid stands for, whatever its seqid: NFSv4.0 needs the owner before it can compare that.
    ///
    /// # Errors
    /// [`StateError::BadStateId`]; in NFSv4.0, for a client that is gone, [`StateError::Expired`] or
    /// [`StateError::StaleStateId`].
    pub(crate) fn entry(&self, caller: Caller<'_>, other: Other) -> Result<Arc<StateEntry>, StateError> {
        if other == Other::ZEROS || other == Other::ONES {
            return Err(StateError::BadStateId);
        }
        let found = self.stateids.read(&other).get(&other).cloned();
        match (found, caller) {
            (Some(entry), Caller::Session(client)) if entry.client.id == client.id => Ok(entry),
            (Some(entry), Caller::V40(peer))
                if entry.client.version == ClientProtocol::V40 && entry.client.is_at(peer.address) =>
            {
                if entry.client.is_gone() { Err(StateError::Expired) } else { Ok(entry) }
            }
            (None, Caller::V40(_)) => Err(self.unknown(other)),
            _ => Err(StateError::BadStateId),
        }
    }

    /// Returns why NFSv4.0 does not know a stateid. It is bad if its client exists; otherwise it expired, or predates
    /// everything that is known.
    fn unknown(&self, other: Other) -> StateError {
        let expired = |(client, _)| self.is_of_known_instance(client);
        if self.client_of(other).is_some() {
            StateError::BadStateId
        } else if self.keys.clients_of_other(other).any(expired) {
            StateError::Expired
        } else {
            StateError::StaleStateId
        }
    }

    /// Returns the client that a stateid was given to, if it is known, and the stateid's number.
    pub(crate) fn client_of(&self, other: Other) -> Option<(Arc<Client>, u32)> {
        self.keys.clients_of_other(other).find_map(|(id, number)| Some((self.clients.confirmed(id)?, number)))
    }

    /// Returns whether a stateid was given to `client`, however long ago.
    pub(crate) fn was_given_to(&self, client: &Client, other: Other) -> bool {
        self.keys.clients_of_other(other).any(|(id, _)| id == client.id)
    }

    /// Returns whether an id was handed out since the oldest known instance.
    pub(crate) fn is_of_known_instance(&self, client: crate::state::ids::ClientId) -> bool {
        let newest = self.newest_instance();
        let known = self.oldest.load(Ordering::Relaxed)..=newest;
        newest != 0 && self.keys.instances(client).any(|instance| known.contains(&instance))
    }

    /// Checks that the state is still held, and that the client's stateid is the current one.
    ///
    /// # Errors
    /// [`StateError::BadStateId`], [`StateError::OldStateId`]; for revoked state [`StateError::Expired`] in NFSv4.0,
    /// else [`StateError::Revoked`].
    pub(crate) fn verify(&self, entry: &StateEntry, stateid: StateId) -> Result<(), StateError> {
        let sessions = entry.client.version == ClientProtocol::Sessions;
        match entry.liveness() {
            Liveness::Live => entry.verify(stateid.seqid, sessions),
            Liveness::Revoked if sessions => Err(StateError::Revoked),
            Liveness::Revoked => Err(StateError::Expired),
            Liveness::Gone => Err(StateError::BadStateId),
        }
    }

    /// Returns what a current stateid of `file` stands for. In NFSv4.0, this renews the lease.
    ///
    /// # Errors
    /// Those of [`SharedState::entry`] and [`SharedState::verify`].
    pub(crate) fn current(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
    ) -> Result<Arc<StateEntry>, StateError> {
        let entry = self.entry(caller, stateid.other)?;
        self.verify(&entry, stateid)?;
        if entry.file != file {
            return Err(StateError::BadStateId);
        }
        entry.client.renew(context.now);
        Ok(entry)
    }

    /// Returns the open of `file`, or the locks there, that a stateid stands for, whatever its seqid. In NFSv4.0 an open may
    /// be closed, so that a CLOSE can be repeated. Renews the lease (RFC 7530 section 9.5).
    ///
    /// # Errors
    /// Those of [`SharedState::entry`]; [`StateError::BadStateId`] if it is of another file, kind or principal.
    pub(crate) fn held(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        (file, stateid): (FileId, StateId),
        kind: HeldKind,
    ) -> Result<Arc<StateEntry>, StateError> {
        let entry = self.entry(caller, stateid.other)?;
        let is_of_kind = match kind {
            HeldKind::Open => entry.as_open().is_some(),
            HeldKind::Locks => entry.as_locks().is_some(),
        };
        if entry.file != file || !is_of_kind || !is_of_owner(caller, &entry) {
            return Err(StateError::BadStateId);
        }
        entry.client.renew(context.now);
        Ok(entry)
    }

    /// Checks that `stateid` allows its holder to read or write `file`. Hold what is returned until the data is
    /// changed. This is on the path of every READ and WRITE: it takes the read lock of one shard of stateids, or
    /// without state that of the file's shard.
    ///
    /// I/O without state must respect share reservations (RFC 7530 section 9.1.4.3) and delegations of others.
    ///
    /// # Errors
    /// Those of [`SharedState::current`]; [`StateError::OpenMode`]; [`StateError::ShareLocked`];
    /// [`StateError::TryLater`] while a delegation is recalled.
    pub(crate) fn check_io(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
        wanted: IoMode,
    ) -> Result<InFlightModification<'_>, StateError> {
        if stateid.is_without_state() {
            self.check_shares(context, file, wanted, None)?;
            return self.check_delegations(context, caller.client(), file, wanted.into());
        }
        let in_flight = self.using(file, wanted);
        let entry = self.current(context, caller, stateid, file)?;
        let mode = entry.mode().ok_or(StateError::BadStateId)?;
        // Write access implies reading: a client reads the rest of a page that it writes (RFC 7530 section 9.1.4.3
        // allows it).
        if wanted == IoMode::Write && !mode.writes() {
            return Err(StateError::OpenMode);
        }
        Ok(in_flight)
    }

    /// Checks I/O of a copy that continues after its reply. Renews no lease. The seqid does not matter, and a stateid
    /// that was returned meanwhile counts as none.
    ///
    /// # Errors
    /// [`StateError::OpenMode`], [`StateError::ShareLocked`]; [`StateError::TryLater`] while a delegation is recalled.
    pub(crate) fn check_lasting_io(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        stateid: StateId,
        file: FileId,
        wanted: IoMode,
    ) -> Result<InFlightModification<'_>, StateError> {
        let caller = Caller::Session(client);
        let in_flight = self.using(file, wanted);
        let entry = self.entry(caller, stateid.other).ok();
        let held = entry.filter(|entry| entry.liveness() == Liveness::Live && entry.file == file);
        match held.and_then(|entry| entry.mode()) {
            Some(mode) if wanted == IoMode::Read || mode.writes() => Ok(in_flight),
            Some(_) => Err(StateError::OpenMode),
            None => self.check_io(context, caller, StateId::ANONYMOUS, file, wanted),
        }
    }

    /// Begins the modification before state is looked up: before the data is changed, the holder of an open or a
    /// delegation may expire or return it, and the file may be delegated to another client.
    fn using(&self, file: FileId, wanted: IoMode) -> InFlightModification<'_> {
        match wanted {
            IoMode::Read => InFlightModification::NONE,
            IoMode::Write => self.begin_modification(file),
        }
    }

    /// TEST_STATEID for one stateid (RFC 8881 section 18.48).
    ///
    /// # Errors
    /// Those of [`SharedState::entry`] and [`SharedState::verify`].
    pub(crate) fn test_stateid(&self, client: &Arc<Client>, stateid: StateId) -> Result<(), StateError> {
        let entry = self.entry(Caller::Session(client), stateid.other)?;
        self.verify(&entry, stateid)
    }

    /// Returns the `other` of a new stateid of a client.
    pub(super) fn next_other(&self, client: &Client) -> Other {
        let mask = client.stateid_mask(|| self.keys.stateid_mask(client.id));
        loop {
            // Numbers wrap around after 2^32, but those of state that still exists are not used again. Far fewer are.
            let other = self.keys.other(client.id, mask, client.next_number());
            let special = other == Other::ZEROS || other == Other::ONES;
            let used = || self.stateids.read(&other).contains_key(&other) || self.copies.has(&other);
            if !special && !used() {
                return other;
            }
        }
    }

    /// Registers a stateid, or refuses it if its client is gone: a removal of the client either finds it or came first.
    ///
    /// # Errors
    /// [`StateError::Expired`] or [`StateError::UnknownSession`] if its client is gone.
    pub(super) fn add(&self, entry: &Arc<StateEntry>) -> Result<(), StateError> {
        let mut known = self.stateids.write(&entry.other);
        let mut held = entry.client.inner.lock();
        if entry.client.is_gone() {
            return Err(match entry.client.version {
                ClientProtocol::V40 | ClientProtocol::Nlm => StateError::Expired,
                ClientProtocol::Sessions => StateError::UnknownSession,
            });
        }
        held.entries.insert(entry.other);
        known.insert(entry.other, Arc::clone(entry));
        Ok(())
    }

    /// Forgets a stateid.
    pub(super) fn forget(&self, client: &Client, other: Other) {
        self.stateids.write(&other).remove(&other);
        client.inner.lock().entries.remove(&other);
    }
}

/// Returns whether a request may change this open, or these locks. In NFSv4.0 only the principal of the open may; later
/// versions would say so with EXCHGID4_FLAG_BIND_PRINC_STATEID.
fn is_of_owner(caller: Caller<'_>, entry: &StateEntry) -> bool {
    let Caller::V40(peer) = caller else { return true };
    let open = entry.as_locks().map_or(entry, |locks| &locks.open).as_open();
    open.is_none_or(|open| open.owner.is_of(peer.principal))
}
