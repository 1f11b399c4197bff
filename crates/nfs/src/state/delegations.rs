//! Delegations: granted with an open when nobody minds, recalled when somebody does, revoked when they are not returned
//! within a lease.
//!
//! Any operation that conflicts recalls them, also of NFSv4.0 and NFSv3, and is answered with NFS4ERR_DELAY or
//! NFS3ERR_JUKEBOX until they are gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use volume::time::Time;

use crate::state::clients::client::{Client, Version};
use crate::state::config::Counters;
use crate::state::delegations::in_flight::Changing;
use crate::state::files::{File, Opening};
use crate::state::ids::{FileId, StateId};
use crate::state::locks::ranges::LockKind;
use crate::state::record::{DelegationRecord, Key};
use crate::state::stateids::Use;
use crate::state::stateids::entry::{Holding, Recall, Standing, What};
use crate::state::{Caller, Context, Kept, State, StateError};

pub(crate) mod in_flight;

/// What an operation does to a file that others may have delegations of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It looks at data, size or change: only a delegation to write is in the way.
    Read,
    /// It changes data, attributes or names: all are.
    Change,
}

impl From<LockKind> for Touch {
    fn from(kind: LockKind) -> Touch {
        // With one to read a client locks by itself, shared with others; with one to write exclusively.
        match kind {
            LockKind::Read => Touch::Read,
            LockKind::Write => Touch::Change,
        }
    }
}

impl From<Use> for Touch {
    fn from(wanted: Use) -> Touch {
        match wanted {
            Use::Read => Touch::Read,
            Use::Write => Touch::Change,
        }
    }
}

/// What an OPEN says about delegations (`OPEN4_SHARE_ACCESS_WANT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
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
pub(crate) enum WhyNone {
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
    None(WhyNone),
    Read(StateId),
    Write(StateId),
}

impl State {
    /// Whether there is any.
    pub(crate) fn has_delegations(&self) -> bool {
        self.changes.sees_delegations()
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
        touch: Touch,
    ) -> Result<Changing<'_>, StateError> {
        let changing = match touch {
            Touch::Read => Changing::NOTHING,
            Touch::Change => self.changing(file),
        };
        self.recall_from_others(context, client, file, touch)?;
        Ok(changing)
    }

    /// Recalls what conflicts with a change that is done: it is of another file than was thought when delegations were looked
    /// for. Nobody waits for it any more.
    pub(crate) fn recall_late(&self, context: &Context<'_>, client: Option<&Arc<Client>>, file: FileId) {
        // An error is that it is not gone yet, or is to be tried again by the next operation that minds.
        let _late = self.recall_from_others(context, client, file, Touch::Change);
    }

    /// A file is about to be changed, and not delegated until what is returned is dropped.
    pub(crate) fn changing(&self, file: FileId) -> Changing<'_> {
        self.changes.of(file)
    }

    /// The same for what a name in `directory` stands for, as long as there are no delegations.
    pub(crate) fn changing_name(&self, directory: FileId) -> Changing<'_> {
        self.changes.of_name(directory)
    }

    pub(super) fn recall_from_others(
        &self,
        context: &Context<'_>,
        client: Option<&Arc<Client>>,
        file: FileId,
        touch: Touch,
    ) -> Result<(), StateError> {
        if !self.has_delegations() {
            return Ok(());
        }
        loop {
            let conflicting = match self.files.read(&file).get(&file) {
                Some(state) => conflicting(state, client, touch),
                None => return Ok(()),
            };
            let silent = |holding: &&Arc<Holding>| holding.client.silent(context.now) > self.config.lease;
            let expired: Vec<_> =
                conflicting.iter().filter(silent).map(|holding| Arc::clone(&holding.client)).collect();
            if conflicting.is_empty() {
                return Ok(());
            }
            if expired.is_empty() {
                conflicting.iter().for_each(|holding| self.recall(context, holding));
                return Err(StateError::TryLater);
            }
            self.expire(context, &expired)?;
        }
    }

    /// Whether somebody else has a delegation that an OPEN conflicts with.
    pub(super) fn is_delegated_against(&self, state: &File, opening: &Opening<'_>) -> bool {
        let changes = opening.mode.writes() || opening.mode.denies();
        let touch = if changes { Touch::Change } else { Touch::Read };
        !conflicting(state, Some(opening.client), touch).is_empty()
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
    fn recall(&self, context: &Context<'_>, holding: &Arc<Holding>) {
        let What::Delegation(delegation) = &holding.what else { return };
        if !delegation.ask_back(context.now) {
            return;
        }
        Counters::up(&self.counters.delegations_recalled);
        self.contend(context.now, holding.file, self.config.undelegated);
        self.recalls.lock().push(Arc::clone(holding));
        self.call_recall(context, holding);
    }

    /// Grants a delegation with an open, if nobody minds (RFC 8881 section 10.4). `created` if the OPEN made the file:
    /// it is about to be written and closed, which a delegation would only make dearer.
    ///
    /// What the reply waits for is returned with it. Of one to read that is nothing: should a crash lose it, the client is
    /// told to test what it has ([`Client::is_unsure`]). With one to write a client locks exclusively by itself, and
    /// NFSv4.0 cannot tell.
    pub(crate) fn delegate(
        &self,
        context: &Context<'_>,
        open: &Arc<Holding>,
        ask: Ask,
        created: bool,
    ) -> (Delegated, Option<Kept>) {
        let none = |why| (Delegated::None(why), None);
        let wanted = match ask {
            Ask::None => return none(WhyNone::NotWanted),
            Ask::Cancel => return none(WhyNone::Cancelled),
            Ask::NoPreference if created => return none(WhyNone::NotWanted),
            Ask::NoPreference | Ask::Any => None,
            Ask::Read => Some(false),
            Ask::Write => Some(true),
        };
        if self.changes.granted() >= self.config.delegations || !self.can_be_called(&open.client) {
            return none(WhyNone::Resource);
        }
        self.grant(context, open, wanted).unwrap_or(none(WhyNone::Contention))
    }

    /// `wanted` is whether it must be one to write.
    fn grant(
        &self,
        context: &Context<'_>,
        open: &Arc<Holding>,
        wanted: Option<bool>,
    ) -> Option<(Delegated, Option<Kept>)> {
        let (file, client) = (open.file, &open.client);
        let mut files = self.files.write(&file);
        let state = files.get_mut(&file)?;
        let mode = open.mode()?;
        let write = wanted.unwrap_or(mode.writes());
        // NFSv4.0 does not say who looks at a file, so that its holder himself would be in his own way.
        if write && client.version == Version::Zero {
            return None;
        }
        let lately = self.contended.read(&file).get(&file).is_some_and(|until| context.now < *until);
        let others_open = state.opens.iter().any(|other| {
            let locks = other.client.version == Version::Nlm;
            let minds = write || locks || other.mode().is_some_and(|mode| mode.writes() || mode.denies());
            other.client.id != client.id && minds
        });
        let delegated = |holding: &Arc<Holding>| {
            let to_write = holding.as_delegation().is_some_and(|delegation| delegation.write);
            holding.client.id == client.id || write || to_write
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
        if !self.changes.announce(file) {
            return None;
        }
        let holding = Holding::delegation(client, file, stateid, write);
        let kept = context.change(file.volume, &[put]).and_then(|kept| {
            self.add(&holding)?;
            Ok(kept)
        });
        let Ok(kept) = kept else {
            self.changes.withdraw();
            return None;
        };
        state.delegations.push(holding);
        client.delegations.fetch_add(1, Ordering::Relaxed);
        self.changes.grant();
        Counters::up(&self.counters.delegations_granted);
        let delegated = if write { Delegated::Write(stateid) } else { Delegated::Read(stateid) };
        Some((delegated, (write || client.version == Version::Zero).then_some(kept)))
    }

    /// DELEGRETURN (RFC 7530 section 16.8). NFSv4.0 has no other way to say that the loss of a revoked one is known.
    ///
    /// # Errors
    /// Those of [`State::current`]; NFS4ERR_BAD_STATEID if it is no delegation.
    pub(crate) fn return_stateid(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        stateid: StateId,
        file: FileId,
    ) -> Result<(), StateError> {
        match self.current(context, caller, stateid, file) {
            Ok(holding) => self.return_delegation(context, &holding),
            Err(StateError::Expired) => {
                let holding = self.holding(caller, stateid.other)?;
                if holding.file == file {
                    self.forget_revoked(&holding);
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
        holding: &Arc<Holding>,
    ) -> Result<(), StateError> {
        if holding.as_delegation().is_none() {
            return Err(StateError::BadStateId);
        }
        self.take_delegation(context, holding)?;
        holding.end();
        self.forget(&holding.client, holding.other);
        Ok(())
    }

    /// A delegation was not returned in time: it is taken away, and the client told when it asks.
    pub(super) fn revoke(&self, context: &Context<'_>, holding: &Arc<Holding>) -> Result<(), StateError> {
        self.take_delegation(context, holding)?;
        if holding.standing() == Standing::Live {
            holding.revoke();
            holding.client.revoked.fetch_add(1, Ordering::Relaxed);
            self.count_loss(context, holding);
        }
        Ok(())
    }

    /// The client knows that it was revoked.
    fn forget_revoked(&self, holding: &Holding) {
        if holding.end_revoked() {
            self.forget(&holding.client, holding.other);
            holding.client.revoked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A delegation is lost to a client that has not returned it.
    pub(super) fn count_loss(&self, context: &Context<'_>, holding: &Holding) {
        Counters::up(&self.counters.delegations_revoked);
        self.contend(context.now, holding.file, self.config.undelegated_after_loss);
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
        holding: &Arc<Holding>,
    ) -> Result<(), StateError> {
        let file = holding.file;
        let mut files = self.files.write(&file);
        let Some(state) = files.get_mut(&file) else { return Ok(()) };
        if !state.delegations.iter().any(|other| Arc::ptr_eq(other, holding)) {
            return Ok(());
        }
        context.change(file.volume, &[Key::Delegation(file.ino, holding.other).deleted()])?;
        state.delegations.retain(|other| !Arc::ptr_eq(other, holding));
        holding.client.delegations.fetch_sub(1, Ordering::Relaxed);
        self.changes.end();
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
        let holding = self.holding(Caller::Session(client), stateid.other)?;
        match holding.standing() {
            Standing::Revoked => {
                self.forget_revoked(&holding);
                Ok(())
            }
            Standing::Gone => Err(StateError::BadStateId),
            Standing::Live => {
                holding.verify(stateid.seqid, true)?;
                match &holding.what {
                    What::Locks(_) => self.free_lock_state(context, &holding),
                    What::Open(_) | What::Delegation(_) => Err(StateError::LocksHeld),
                }
            }
        }
    }

    /// Whether callbacks reach a client, as far as is known.
    pub(super) fn can_be_called(&self, client: &Client) -> bool {
        match client.version {
            Version::Sessions => client.back_connections.load(Ordering::Relaxed) > 0,
            Version::Zero => client.inner.lock().path == crate::state::callbacks::Path::Up,
            Version::Nlm => false,
        }
    }

    /// Whether a client that was asked for a delegation has not returned it yet.
    pub(super) fn is_recalled(holding: &Holding) -> bool {
        let recalled = holding.as_delegation().is_some_and(|delegation| delegation.recall() != Recall::Held);
        recalled && holding.standing() == Standing::Live
    }
}

/// The delegations of others that are in the way.
fn conflicting(state: &File, client: Option<&Arc<Client>>, touch: Touch) -> Vec<Arc<Holding>> {
    let others = state
        .delegations
        .iter()
        .filter(|holding| client.is_none_or(|client| client.id != holding.client.id))
        .filter(|holding| {
            let to_write = holding.as_delegation().is_some_and(|delegation| delegation.write);
            to_write || touch == Touch::Change
        });
    others.cloned().collect()
}
