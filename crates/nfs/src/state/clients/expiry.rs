//! What happens as time passes: leases expire, recalls time out, unused owners are forgotten.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use volume::time::Time;

use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::config::Counters;
use crate::state::record::Key;
use crate::state::sessions::Session;
use crate::state::shares::Resource;
use crate::state::stateids::entry::{Liveness, Recall, StateEntry, StateKind};
use crate::state::{Context, DurabilityToken, SharedState, StateError};

/// The longest interval between calls of [`SharedState::tick`].
const TICK: Duration = Duration::from_secs(1);

impl SharedState {
    /// Does what is due. Returns how long to wait before the next call.
    pub(crate) fn tick(&self, context: &Context<'_>) -> Duration {
        context.store.journal_deferred();
        self.tick_callbacks(context);
        self.tick_copies(context);
        let soon = self.tick_nlm(context);
        self.revoke_overdue(context);
        let last = Time::from_nanos(i64::try_from(self.swept.load(Ordering::Relaxed)).unwrap_or(i64::MAX));
        if context.now.since(last) >= self.config.lease / 4 {
            self.swept.store(u64::try_from(context.now.nanos()).unwrap_or(0), Ordering::Relaxed);
            self.sweep(context);
        }
        soon.min(TICK)
    }

    /// Revokes delegations that were recalled a lease ago, and repeats the other recalls.
    fn revoke_overdue(&self, context: &Context<'_>) {
        let mut recalls = std::mem::take(&mut *self.recalls.lock());
        recalls.retain(|entry| {
            if !SharedState::is_recalled(entry) {
                return false;
            }
            let Some(Recall::Recalled(since)) =
                entry.as_delegation().map(crate::state::stateids::entry::Delegation::recall)
            else {
                return false;
            };
            if self.can_be_called(&entry.client) {
                self.call_recall(context, entry);
            }
            // If the journal is full, the next tick tries again.
            context.now.since(since) <= self.config.lease || self.revoke(context, entry).is_err()
        });
        self.recalls.lock().append(&mut recalls);
    }

    /// Removes clients that have been idle beyond courtesy, forgets unused owners, and removes clients whose leases are over
    /// if memory is short, or if their origin was refused something.
    fn sweep(&self, context: &Context<'_>) {
        let short = [Resource::StateBytes, Resource::Ranges].iter().any(|of| self.shares.is_short(*of));
        self.contended.retain(|until| context.now < *until);
        self.clients.forget_unconfirmed(context.now, self.config.lease);
        let mut silent = Vec::new();
        for client in self.clients.all() {
            let needed = short || client.holder.was_refused();
            let patience = if needed { self.config.lease } else { self.config.courtesy };
            let nothing = !client.has_state();
            let idle = client.idle(context.now);
            let over = client.lease_idle(context.now) > patience || (nothing && idle > 4 * self.config.lease);
            // A full journal interrupted the removal of a client that is gone.
            if over || client.is_gone() {
                silent.push(client);
            } else {
                self.forget_owners(&client, context.now);
            }
        }
        // If the journal is full, the next sweep tries again.
        let _ = self.expire(context, &silent);
        self.ask_hosts(context);
        drop(silent);
        self.shares.forget_idle(context.now);
    }

    /// Forgets owners that hold nothing and have been unused for a lease.
    fn forget_owners(&self, client: &Client, now: Time) {
        let mut held = client.inner.lock();
        let lease = self.config.lease;
        let unused = |last: Time| client.version != ClientProtocol::V40 || now.since(last) > lease;
        let mut closed = Vec::new();
        held.open_owners.retain(|_, owner| {
            // One reference is the map's; every open has another.
            let keep = Arc::strong_count(owner) > 1 || !unused(owner.sequence.used());
            if !keep {
                closed.extend(owner.sequence.closed());
            }
            keep
        });
        held.lock_owners.retain(|_, owner| Arc::strong_count(owner) > 1 || !unused(owner.sequence.used()));
        drop(held);
        closed.into_iter().for_each(|other| self.forget(client, other));
    }

    /// Expires clients: frees all that they hold. A client that has renewed its lease stays.
    ///
    /// # Errors
    /// Those of the journal; call it again to finish.
    pub(crate) fn expire(&self, context: &Context<'_>, clients: &[Arc<Client>]) -> Result<(), StateError> {
        for client in clients {
            if client.idle(context.now) <= self.config.lease && !client.is_gone() {
                continue;
            }
            let delegations = self.delegations_of(client);
            self.remove_client(context, client)?;
            delegations.iter().for_each(|entry| self.count_loss(context, entry));
            Counters::up(&self.counters.clients_expired);
        }
        Ok(())
    }

    /// Returns the delegations that a client holds.
    pub(crate) fn delegations_of(&self, client: &Client) -> Vec<Arc<StateEntry>> {
        let entries: Vec<_> = client.inner.lock().stateids();
        let found = entries.iter().filter_map(|other| self.stateids.read(other).get(other).cloned());
        found.filter(|entry| entry.as_delegation().is_some() && entry.liveness() == Liveness::Live).collect()
    }

    /// Removes a client with everything that it holds: sessions first, so that nothing is added, then its state, then
    /// its record. After a crash in between, what remains belongs to a client with less state, or to none, and is
    /// deleted at the start.
    ///
    /// # Errors
    /// Those of the journal; call it again to finish.
    pub(crate) fn remove_client(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
    ) -> Result<DurabilityToken, StateError> {
        let (entries, sessions) = {
            let mut held = client.inner.lock();
            held.gone = true;
            (held.stateids(), held.sessions.clone())
        };
        for id in sessions {
            let session: Option<Arc<Session>> = self.sessions.read(&id).get(&id).cloned();
            if let Some(session) = session {
                self.end_session(context, &session)?;
            }
        }
        self.end_copies(context, client)?;
        let found: Vec<Arc<StateEntry>> =
            entries.iter().filter_map(|other| self.stateids.read(other).get(other).cloned()).collect();
        for entry in &found {
            match &entry.kind {
                StateKind::Delegation(_) => {
                    self.take_delegation(context, entry)?;
                    entry.end();
                    self.forget(client, entry.other);
                }
                // Closing it also frees its locks.
                StateKind::Open(_) => match self.close(context, entry) {
                    Err(error @ StateError::Engine(_)) => return Err(error),
                    Ok(_) | Err(_) => self.forget(client, entry.other),
                },
                StateKind::Locks(_) => {}
            }
        }
        let token = context.change_home(&[Key::Client(client.id).deleted()])?;
        self.clients.remove(client);
        // No request can name the stateids that its owners closed last.
        let owners: Vec<_> = client.inner.lock().open_owners.drain().map(|(_, owner)| owner).collect();
        owners
            .iter()
            .filter_map(|owner| owner.sequence.closed())
            .for_each(|other| self.forget(client, other));
        Ok(token)
    }
}
