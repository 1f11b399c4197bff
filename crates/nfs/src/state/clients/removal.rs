//! Removal of clients that restarted, were destroyed on request, or whose leases have expired.
//!
//! A client is gone at once: one change deletes its record and those of its sessions, and from then on no request of it is
//! served, nothing can be added to it, and its name is free. After a crash, what it held belongs to nobody and is deleted at
//! the start.
//!
//! A client may hold millions of opens and locks. These are freed in parts, between other calls: some with the removal,
//! the others by [`SharedState::tick`]. A request that conflicts with some of them first frees those of the same file.
//! Until then they stay in conflict, as the record of a new lock must not be durable before the old one is deleted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::state::StateChange;

use crate::state::clients::client::Client;
use crate::state::config::Counters;
use crate::state::files::File;
use crate::state::ids::FileId;
use crate::state::locks::ranges::Change;
use crate::state::record::Key;
use crate::state::stateids::entry::{Liveness, StateEntry, StateKind};
use crate::state::{Context, DurabilityToken, SharedState, StateError};

/// How much one part frees: opens, lock states, ranges, delegations and owners. Takes about a millisecond.
pub(in crate::state) const PART: usize = 256;

/// Clients that are expired in one part. Each may have 64 sessions.
const CLIENTS_PER_PART: usize = 64;

/// Why a client is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It restarted, or asked to be removed.
    Left,
    /// Its lease is over.
    Expired,
    /// It holds neither opens, locks nor delegations, and gives way to another one. One that does stays.
    Idle,
}

/// What may still be freed before others are served.
#[derive(Debug)]
pub(crate) struct Work(usize);

impl Work {
    /// Returns the work of a part.
    pub(crate) fn part() -> Work {
        Work(PART)
    }

    /// Returns whether nothing more may be freed.
    pub(in crate::state) fn is_done(&self) -> bool {
        self.0 == 0
    }

    fn note(&mut self, freed: usize) {
        self.0 = self.0.saturating_sub(freed);
    }
}

/// Clients that are being removed.
#[derive(Debug, Default)]
pub(in crate::state) struct Removals {
    /// Those that are gone and still hold something.
    gone: Mutex<VecDeque<Arc<Client>>>,
    /// Those whose leases were over when they were last looked at.
    silent: Mutex<Vec<Arc<Client>>>,
}

impl Removals {
    /// Adds clients whose leases are over.
    pub(super) fn expire_later(&self, clients: Vec<Arc<Client>>) {
        // Those that were found before are found again.
        *self.silent.lock() = clients;
    }
}

impl SharedState {
    /// Removes a client. A reply that reports the removal must wait for the returned token.
    ///
    /// # Errors
    /// Those of the journal; nothing was changed.
    pub(crate) fn remove_client(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
    ) -> Result<DurabilityToken, StateError> {
        self.remove_clients(context, std::slice::from_ref(client)).and_then(|token| {
            // There is one for each client.
            token.ok_or(StateError::UnknownClient)
        })
    }

    /// Removes clients, and frees one part of what they held. Returns what a reply that says so waits for.
    ///
    /// # Errors
    /// Those of the journal; those before are removed.
    pub(crate) fn remove_clients(
        &self,
        context: &Context<'_>,
        clients: &[Arc<Client>],
    ) -> Result<Option<DurabilityToken>, StateError> {
        let (mut token, mut work) = (None, Work::part());
        for client in clients {
            token = self.end_client(context, client, Ending::Left)?;
            self.free_soon(context, client, &mut work);
        }
        Ok(token)
    }

    /// Removes a client unless it holds opens, locks or delegations.
    ///
    /// # Errors
    /// Those of the journal.
    pub(super) fn remove_idle(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        work: &mut Work,
    ) -> Result<(), StateError> {
        if self.end_client(context, client, Ending::Idle)?.is_some() {
            self.free_soon(context, client, work);
            Counters::up(&self.counters.clients_expired);
        }
        Ok(())
    }

    /// Removes clients whose leases are over. A client that has renewed its lease stays.
    ///
    /// # Errors
    /// Those of the journal; call it again to finish.
    pub(crate) fn expire(
        &self,
        context: &Context<'_>,
        clients: &[Arc<Client>],
        work: &mut Work,
    ) -> Result<(), StateError> {
        for client in clients {
            if self.end_expired(context, client)? {
                self.free_soon(context, client, work);
            }
        }
        Ok(())
    }

    /// Frees what clients that are gone, or whose leases are over, hold of a file.
    ///
    /// # Errors
    /// [`StateError::TryLater`] if that is too much work for one call, and those of the journal.
    pub(crate) fn make_way(
        &self,
        context: &Context<'_>,
        file: FileId,
        clients: &[Arc<Client>],
        work: &mut Work,
    ) -> Result<(), StateError> {
        let mut ended = Vec::new();
        for client in clients {
            if self.end_expired(context, client)? {
                ended.push(client);
            }
            if client.is_gone() {
                work.note(1);
                self.free_in_file(context, client, file, work)?;
            }
        }
        let is_too_much = work.is_done();
        ended.iter().for_each(|client| self.free_soon(context, client, work));
        if is_too_much { Err(StateError::TryLater) } else { Ok(()) }
    }

    /// Ends a client whose lease is over. Returns whether it did.
    fn end_expired(&self, context: &Context<'_>, client: &Arc<Client>) -> Result<bool, StateError> {
        if client.is_gone() || client.idle(context.now) <= self.config.lease {
            return Ok(false);
        }
        self.end_client(context, client, Ending::Expired)?;
        Counters::up(&self.counters.clients_expired);
        Ok(true)
    }

    /// Ends a client and its sessions. Returns what a reply that says so waits for; none if the client stays.
    fn end_client(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        why: Ending,
    ) -> Result<Option<DurabilityToken>, StateError> {
        let mut held = client.inner.lock();
        if let Some(token) = client.ended.get() {
            return Ok(Some(*token));
        }
        if why == Ending::Idle && !held.entries.is_empty() {
            return Ok(None);
        }
        let sessions = held.sessions.iter().map(|id| Key::Session(*id).deleted());
        let changes: Vec<StateChange> = sessions.chain([Key::Client(client.id).deleted()]).collect();
        let token = context.change_home(&changes)?;
        client.has_expired.store(why == Ending::Expired, Ordering::Relaxed);
        let token = *client.ended.get_or_init(|| token);
        let sessions = std::mem::take(&mut held.sessions);
        drop(held);
        for id in sessions {
            let session = self.sessions.write(&id).remove(&id);
            session.iter().for_each(|session| self.unbind_all(session));
        }
        self.clients.remove(client);
        self.removals.gone.lock().push_back(Arc::clone(client));
        Ok(Some(token))
    }

    /// Frees a part of what a removed client held, and has [`SharedState::tick`] free the rest.
    fn free_soon(&self, context: &Context<'_>, client: &Arc<Client>, work: &mut Work) {
        // If the journal does not take it now, it will later.
        if !self.free_part(context, client, work).unwrap_or(false) {
            self.wake_driver();
        }
    }

    /// Frees a part of what removed clients held, and ends some whose leases are over. Returns whether more is to be
    /// done soon.
    pub(super) fn tick_removals(&self, context: &Context<'_>) -> bool {
        let mut work = Work::part();
        let ends: Vec<_> = {
            let mut silent = self.removals.silent.lock();
            let left = silent.len().saturating_sub(CLIENTS_PER_PART);
            silent.drain(left..).collect()
        };
        // If the journal is full, the next sweep finds them again.
        let is_full = self.expire(context, &ends, &mut work).is_err();
        let gone = self.removals.gone.lock().len();
        for _ in 0..gone {
            if work.is_done() {
                break;
            }
            let Some(client) = self.removals.gone.lock().pop_front() else { break };
            // If a journal does not take it, the next call tries again, after the others.
            if !self.free_part(context, &client, &mut work).unwrap_or(false) {
                self.removals.gone.lock().push_back(client);
            }
        }
        work.is_done() || !is_full && !self.removals.silent.lock().is_empty()
    }

    /// Frees a part of what a removed client held. Returns whether nothing is left.
    fn free_part(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        work: &mut Work,
    ) -> Result<bool, StateError> {
        self.end_copies(context, client)?;
        while !client.inner.lock().entries.is_empty() {
            if work.is_done() {
                return Ok(false);
            }
            let others: Vec<_> = client.inner.lock().entries.iter().take(work.0).copied().collect();
            for other in others {
                let entry = self.stateids.read(&other).get(&other).cloned();
                match entry {
                    _ if work.is_done() => return Ok(false),
                    Some(entry) => self.free_entry(context, &entry, work)?,
                    None => {
                        client.inner.lock().entries.remove(&other);
                        work.note(1);
                    }
                }
            }
        }
        Ok(self.forget_all_owners(client, work))
    }

    /// Frees what clients hold of a deleted volume, whose records are gone already. No call may add to it any more.
    pub(crate) fn free_volume(&self, context: &Context<'_>, volume: VolumeId) {
        for entry in self.stateids.select(|entry| entry.file.volume == volume) {
            let mut work = Work(usize::MAX);
            // What was freed meanwhile, by its client or with another entry, cannot be freed again.
            let _ = self.free_entry(context, &entry, &mut work);
        }
    }

    /// Frees one part of what a removed client held of a file.
    fn free_in_file(
        &self,
        context: &Context<'_>,
        client: &Client,
        file: FileId,
        work: &mut Work,
    ) -> Result<(), StateError> {
        while !work.is_done() {
            let held = self.files.read(&file).get(&file).and_then(|state| state.any_of(client).cloned());
            match held {
                Some(entry) => self.free_entry(context, &entry, work)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Frees an entry, or a part of its ranges.
    pub(in crate::state) fn free_entry(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
        work: &mut Work,
    ) -> Result<(), StateError> {
        match &entry.kind {
            StateKind::Delegation(_) => {
                self.take_delegation(context, entry)?;
                if entry.client.has_expired.load(Ordering::Relaxed) && entry.liveness() == Liveness::Live {
                    self.count_loss(context, entry);
                }
                entry.end();
                self.count_wait(context, entry);
                self.recalls.end(entry);
            }
            StateKind::Locks(_) => return self.free_locks(context, entry, work),
            StateKind::Open(_) => {
                if !self.free_locks_of_open(context, entry, work)? {
                    return Ok(());
                }
                // Any other error says that the client closed it meanwhile.
                if let Err(error @ StateError::Engine(_)) = self.close(context, entry) {
                    return Err(error);
                }
            }
        }
        self.forget(&entry.client, entry.other);
        work.note(1);
        Ok(())
    }

    /// Frees locks that depend on an open. Returns whether none are left.
    fn free_locks_of_open(
        &self,
        context: &Context<'_>,
        open: &Arc<StateEntry>,
        work: &mut Work,
    ) -> Result<bool, StateError> {
        loop {
            let locks = {
                let files = self.files.read(&open.file);
                files.get(&open.file).and_then(|state| state.lock_states.depending_on(open).next().cloned())
            };
            match locks {
                None => return Ok(true),
                Some(_) if work.is_done() => return Ok(false),
                Some(locks) => self.free_locks(context, &locks, work)?,
            }
        }
    }

    /// Frees ranges of a lock owner in a file, and its lock state once none are left.
    fn free_locks(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
        work: &mut Work,
    ) -> Result<(), StateError> {
        let (Some(locks), file) = (entry.as_locks(), entry.file) else { return Ok(()) };
        let mut files = self.files.write(&file);
        let is_same =
            |state: &File| state.lock_states.of(&locks.owner).is_some_and(|known| Arc::ptr_eq(known, entry));
        let state = files.get_mut(&file).filter(|state| is_same(state));
        let Some(state) = state else {
            drop(files);
            self.forget(&entry.client, entry.other);
            work.note(1);
            return Ok(());
        };
        self.free_locks_held(context, state, entry, work)?;
        self.forget_if_idle(&mut files, context, file);
        Ok(())
    }

    /// Does the same under the lock of the file.
    pub(in crate::state) fn free_locks_held(
        &self,
        context: &Context<'_>,
        state: &mut File,
        entry: &Arc<StateEntry>,
        work: &mut Work,
    ) -> Result<(), StateError> {
        let (Some(locks), file) = (entry.as_locks(), entry.file) else { return Ok(()) };
        let removed: Vec<_> = state.locks.of(&locks.owner).take(work.0).collect();
        let freed = removed.len();
        if freed < work.0 {
            context.change(file.volume, &state.lock_state_deleted(entry))?;
            self.drop_lock_states(context, state, std::slice::from_ref(entry), file);
        } else {
            let key = |first| Key::Range(file.ino, entry.other, first);
            let gone: Vec<_> = removed.iter().map(|lock| key(lock.range.first).deleted()).collect();
            context.change(file.volume, &gone)?;
            let change = Change { removed, added: Vec::new() };
            state.apply_ranges(&entry.client, &change);
            self.wake(context, state, file, change.removed_range());
        }
        work.note(freed + 1);
        Ok(())
    }

    /// Forgets owners of a client that is gone and holds nothing. Returns whether none are left.
    fn forget_all_owners(&self, client: &Client, work: &mut Work) -> bool {
        let mut held = client.inner.lock();
        let opening: Vec<_> = std::iter::from_fn(|| held.open_owners.pop_first()).take(work.0).collect();
        work.note(opening.len());
        let locking: Vec<_> = std::iter::from_fn(|| held.lock_owners.pop_first()).take(work.0).collect();
        work.note(locking.len());
        let none_left = held.open_owners.is_empty() && held.lock_owners.is_empty();
        drop(held);
        // No request can name the stateids that they closed last.
        let closed = opening.iter().filter_map(|(_, owner)| owner.sequence.closed());
        closed.for_each(|other| self.forget(client, other));
        drop(locking);
        none_left
    }
}
