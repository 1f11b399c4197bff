//! Finding what a stateid stands for, and whether it allows what is to be done.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::state::clients::client::{Client, Version};
use crate::state::delegations::in_flight::Changing;
use crate::state::ids::{FileId, Other, StateId};
use crate::state::stateids::entry::{Holding, Standing};
use crate::state::{Caller, Context, State, StateError};

pub(crate) mod entry;

/// What READ, WRITE, SETATTR of the size, and their like do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

impl State {
    /// What a stateid stands for, whatever its seqid: NFSv4.0 must know the owner before it can compare that.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, and of a client that is not there any more NFS4ERR_EXPIRED or NFS4ERR_STALE_STATEID.
    pub(crate) fn holding(&self, caller: Caller<'_>, other: Other) -> Result<Arc<Holding>, StateError> {
        if other == Other::ZEROS || other == Other::ONES {
            return Err(StateError::BadStateId);
        }
        let found = self.stateids.read(&other).get(&other).cloned();
        match (found, caller) {
            (Some(holding), Caller::Session(client)) if holding.client.id == client.id => Ok(holding),
            (Some(holding), Caller::Zero) if holding.client.version == Version::Zero => Ok(holding),
            (None, Caller::Zero) => Err(self.unknown(other)),
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
    pub(crate) fn verify(&self, holding: &Holding, stateid: StateId) -> Result<(), StateError> {
        let sessions = holding.client.version == Version::Sessions;
        match holding.standing() {
            Standing::Live => holding.verify(stateid.seqid, sessions),
            Standing::Revoked if sessions => Err(StateError::Revoked),
            Standing::Revoked => Err(StateError::Expired),
            Standing::Gone => Err(StateError::BadStateId),
        }
    }

    /// What a stateid stands for, if it is current and of `file`. NFSv4.0 thereby renews the lease.
    ///
    /// # Errors
    /// Those of [`State::holding`] and [`State::verify`].
    pub(crate) fn current(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
    ) -> Result<Arc<Holding>, StateError> {
        let holding = self.holding(caller, stateid.other)?;
        self.verify(&holding, stateid)?;
        if holding.file != file {
            return Err(StateError::BadStateId);
        }
        holding.client.renew(context.now);
        Ok(holding)
    }

    /// The open of `file` that a stateid stands for, whatever its seqid. In NFSv4.0 it may be closed, so that a CLOSE can
    /// be repeated. Renews the lease (RFC 7530 section 9.5).
    ///
    /// # Errors
    /// Those of [`State::holding`].
    pub(crate) fn open_of(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
    ) -> Result<Arc<Holding>, StateError> {
        let holding = self.holding(caller, stateid.other)?;
        let fits = holding.file == file && holding.as_open().is_some();
        holding.client.renew(context.now);
        if fits { Ok(holding) } else { Err(StateError::BadStateId) }
    }

    /// The same for the locks of an owner.
    ///
    /// # Errors
    /// Those of [`State::holding`].
    pub(crate) fn locks_of(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
    ) -> Result<Arc<Holding>, StateError> {
        let holding = self.holding(caller, stateid.other)?;
        let fits = holding.file == file && holding.as_locks().is_some();
        holding.client.renew(context.now);
        if fits { Ok(holding) } else { Err(StateError::BadStateId) }
    }

    /// Whether `stateid` allows its holder to read or write `file`. On the path of every READ and WRITE: takes the read
    /// lock of one shard of stateids; without state, that of the file's shard. What is returned is kept until the data is
    /// changed.
    ///
    /// A stateid without state is held up by share reservations (RFC 7530 section 9.1.4.3) and by delegations of others.
    ///
    /// # Errors
    /// Those of [`State::current`]; NFS4ERR_OPENMODE; NFS4ERR_LOCKED for a share reservation; NFS4ERR_DELAY while a
    /// delegation is recalled.
    pub(crate) fn check_io(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
        wanted: Use,
    ) -> Result<Changing<'_>, StateError> {
        if stateid.is_without_state() {
            self.check_shares(context, file, wanted, None)?;
            return self.check_delegations(context, caller.client(), file, wanted.into());
        }
        let changing = self.using(file, wanted);
        let holding = self.current(context, caller, stateid, file)?;
        let mode = holding.mode().ok_or(StateError::BadStateId)?;
        // Who may write may read: a client reads the rest of a page that it writes (RFC 7530 section 9.1.4.3 allows it).
        if wanted == Use::Write && !mode.writes() {
            return Err(StateError::OpenMode);
        }
        Ok(changing)
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
        wanted: Use,
    ) -> Result<Changing<'_>, StateError> {
        let caller = Caller::Session(client);
        let changing = self.using(file, wanted);
        let holding = self.holding(caller, stateid.other).ok();
        let held = holding.filter(|holding| holding.standing() == Standing::Live && holding.file == file);
        match held.and_then(|holding| holding.mode()) {
            Some(mode) if wanted == Use::Read || mode.writes() => Ok(changing),
            Some(_) => Err(StateError::OpenMode),
            None => self.check_io(context, caller, StateId::ANONYMOUS, file, wanted),
        }
    }

    /// To be taken before it is looked who holds what: the holder may be expired, or give back what it has, and the file be
    /// delegated to somebody else, before the data is changed.
    fn using(&self, file: FileId, wanted: Use) -> Changing<'_> {
        match wanted {
            Use::Read => Changing::NOTHING,
            Use::Write => self.changing(file),
        }
    }

    /// What TEST_STATEID answers for a stateid (RFC 8881 section 18.48).
    pub(crate) fn test_stateid(&self, client: &Arc<Client>, stateid: StateId) -> Result<(), StateError> {
        let holding = self.holding(Caller::Session(client), stateid.other)?;
        self.verify(&holding, stateid)
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
    pub(super) fn add(&self, holding: &Arc<Holding>) -> Result<(), StateError> {
        let mut held = holding.client.inner.lock();
        if held.gone {
            return Err(match holding.client.version {
                Version::Zero | Version::Nlm => StateError::Expired,
                Version::Sessions => StateError::UnknownSession,
            });
        }
        held.holdings.insert(holding.other, holding.file);
        drop(held);
        self.stateids.write(&holding.other).insert(holding.other, Arc::clone(holding));
        Ok(())
    }

    /// A stateid cannot be found any more.
    pub(super) fn forget(&self, client: &Client, other: Other) {
        self.stateids.write(&other).remove(&other);
        client.inner.lock().holdings.remove(&other);
    }
}
