//! Finding what a stateid stands for, and whether it allows what is to be done.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::ids::{FileId, Other, StateId};
use crate::state::stateids::entry::{Liveness, StateEntry};
use crate::state::{Caller, Context, SharedState, StateError};

pub(crate) mod entry;

/// What READ, WRITE, SETATTR of the size, and their like do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoMode {
    Read,
    Write,
}

impl SharedState {
    /// What a stateid stands for, whatever its seqid: NFSv4.0 must know the owner before it can compare that.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, and of a client that is not there any more NFS4ERR_EXPIRED or NFS4ERR_STALE_STATEID.
    pub(crate) fn entry(&self, caller: Caller<'_>, other: Other) -> Result<Arc<StateEntry>, StateError> {
        if other == Other::ZEROS || other == Other::ONES {
            return Err(StateError::BadStateId);
        }
        let found = self.stateids.read(&other).get(&other).cloned();
        match (found, caller) {
            (Some(entry), Caller::Session(client)) if entry.client.id == client.id => Ok(entry),
            (Some(entry), Caller::V40) if entry.client.version == ClientProtocol::V40 => Ok(entry),
            (None, Caller::V40) => Err(self.unknown(other)),
            _ => Err(StateError::BadStateId),
        }
    }

    /// Why NFSv4.0 does not know a stateid: of a client that is there it is no stateid, of one that is not it was
    /// forgotten, by this server or before all it knows.
    fn unknown(&self, other: Other) -> StateError {
        let client = other.client();
        if self.clients.confirmed(client).is_some() {
            StateError::BadStateId
        } else if self.is_of_known_instance(client) {
            StateError::Expired
        } else {
            StateError::StaleStateId
        }
    }

    /// Whether an id was given out since the oldest thing that is known.
    pub(crate) fn is_of_known_instance(&self, client: crate::state::ids::ClientId) -> bool {
        // After a restart an instance begins with the first id that it gives out.
        let known = || self.newest_known.load(Ordering::Relaxed);
        let newest = self.instance.get().copied().unwrap_or_else(known);
        (self.oldest.load(Ordering::Relaxed)..=newest).contains(&client.instance()) && newest != 0
    }

    /// Whether it is still held, and the stateid that was sent is the current one.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, and for what was revoked NFS4ERR_EXPIRED or NFS4ERR_DELEG_REVOKED.
    pub(crate) fn verify(&self, entry: &StateEntry, stateid: StateId) -> Result<(), StateError> {
        let sessions = entry.client.version == ClientProtocol::Sessions;
        match entry.liveness() {
            Liveness::Live => entry.verify(stateid.seqid, sessions),
            Liveness::Revoked if sessions => Err(StateError::Revoked),
            Liveness::Revoked => Err(StateError::Expired),
            Liveness::Gone => Err(StateError::BadStateId),
        }
    }

    /// What a stateid stands for, if it is current and of `file`. NFSv4.0 thereby renews the lease.
    ///
    /// # Errors
    /// Those of [`SharedState::holding`] and [`SharedState::verify`].
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

    /// The open of `file` that a stateid stands for, whatever its seqid. In NFSv4.0 it may be closed, so that a CLOSE can
    /// be repeated. Renews the lease (RFC 7530 section 9.5).
    ///
    /// # Errors
    /// Those of [`SharedState::holding`].
    pub(crate) fn open_of(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
    ) -> Result<Arc<StateEntry>, StateError> {
        let entry = self.entry(caller, stateid.other)?;
        let fits = entry.file == file && entry.as_open().is_some();
        entry.client.renew(context.now);
        if fits { Ok(entry) } else { Err(StateError::BadStateId) }
    }

    /// The same for the locks of an owner.
    ///
    /// # Errors
    /// Those of [`SharedState::holding`].
    pub(crate) fn locks_of(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
    ) -> Result<Arc<StateEntry>, StateError> {
        let entry = self.entry(caller, stateid.other)?;
        let fits = entry.file == file && entry.as_locks().is_some();
        entry.client.renew(context.now);
        if fits { Ok(entry) } else { Err(StateError::BadStateId) }
    }

    /// Whether `stateid` allows its holder to read or write `file`. On the path of every READ and WRITE: takes the read
    /// lock of one shard of stateids; without state, that of the file's shard. What is returned is kept until the data is
    /// changed.
    ///
    /// A stateid without state is held up by share reservations (RFC 7530 section 9.1.4.3) and by delegations of others.
    ///
    /// # Errors
    /// Those of [`SharedState::current`]; NFS4ERR_OPENMODE; NFS4ERR_LOCKED for a share reservation; NFS4ERR_DELAY while a
    /// delegation is recalled.
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
        // Who may write may read: a client reads the rest of a page that it writes (RFC 7530 section 9.1.4.3 allows it).
        if wanted == IoMode::Write && !mode.writes() {
            return Err(StateError::OpenMode);
        }
        Ok(in_flight)
    }

    /// The same for what goes on by itself and so renews no lease: a stateid that was given back meanwhile is as none, and
    /// its seqid does not matter.
    ///
    /// # Errors
    /// NFS4ERR_OPENMODE, NFS4ERR_LOCKED; NFS4ERR_DELAY while a delegation is recalled.
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

    /// To be taken before it is looked who holds what: the holder may be expired, or give back what it has, and the file be
    /// delegated to somebody else, before the data is changed.
    fn using(&self, file: FileId, wanted: IoMode) -> InFlightModification<'_> {
        match wanted {
            IoMode::Read => InFlightModification::NONE,
            IoMode::Write => self.begin_modification(file),
        }
    }

    /// What TEST_STATEID answers for a stateid (RFC 8881 section 18.48).
    pub(crate) fn test_stateid(&self, client: &Arc<Client>, stateid: StateId) -> Result<(), StateError> {
        let entry = self.entry(Caller::Session(client), stateid.other)?;
        self.verify(&entry, stateid)
    }

    /// The `other` of a new stateid of a client.
    pub(super) fn next_other(&self, client: &Client) -> Other {
        loop {
            // Numbers come round after 2^32; there are far fewer in use.
            let other = client.next_other();
            if !self.stateids.read(&other).contains_key(&other) {
                return other;
            }
        }
    }

    /// A stateid can be found from now on. Fails if its client is gone meanwhile.
    pub(super) fn add(&self, entry: &Arc<StateEntry>) -> Result<(), StateError> {
        let mut held = entry.client.inner.lock();
        if held.gone {
            return Err(match entry.client.version {
                ClientProtocol::V40 | ClientProtocol::Nlm => StateError::Expired,
                ClientProtocol::Sessions => StateError::UnknownSession,
            });
        }
        held.entries.insert(entry.other, entry.file);
        drop(held);
        self.stateids.write(&entry.other).insert(entry.other, Arc::clone(entry));
        Ok(())
    }

    /// A stateid cannot be found any more.
    pub(super) fn forget(&self, client: &Client, other: Other) {
        self.stateids.write(&other).remove(&other);
        client.inner.lock().entries.remove(&other);
    }
}
