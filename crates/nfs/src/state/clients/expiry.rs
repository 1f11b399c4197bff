//! What time does: clients that are silent for too long, delegations that are not returned, owners that nobody uses.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use volume::time::Time;

use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::config::Counters;
use crate::state::record::Key;
use crate::state::sessions::Session;
use crate::state::stateids::entry::{Liveness, Recall, StateEntry, StateKind};
use crate::state::{Context, DurabilityToken, SharedState, StateError};

/// The longest until [`SharedState::tick`] is to be called again.
const TICK: Duration = Duration::from_secs(1);

impl SharedState {
    /// Does what is due by time. Returns when to call it again.
    pub(crate) fn tick(&self, context: &Context<'_>) -> Duration {
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

    /// Revokes delegations that were recalled a lease ago, and recalls again those that were not yet.
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
            // What the journal does not take now it takes at the next tick.
            context.now.since(since) <= self.config.lease || self.revoke(context, entry).is_err()
        });
        self.recalls.lock().append(&mut recalls);
    }

    /// Looks at everybody: who has been silent beyond courtesy goes, owners that nobody uses are forgotten, and if memory
    /// is short, those that are silent go too.
    fn sweep(&self, context: &Context<'_>) {
        let entries = self.counters.entries();
        let ranges = Counters::get(&self.counters.ranges);
        let short = entries > self.config.entries / 8 * 7 || ranges > self.config.ranges / 8 * 7;
        let patience = if short { self.config.lease } else { self.config.courtesy };
        self.contended.retain(|until| context.now < *until);
        self.clients.forget_unconfirmed(context.now, self.config.lease);
        let mut silent = Vec::new();
        for client in self.clients.all() {
            let nothing = !client.has_state();
            let idle = client.idle(context.now);
            let over = client.lease_idle(context.now) > patience || (nothing && idle > 4 * self.config.lease);
            // One that is gone was half removed when the journal was full.
            if over || client.is_gone() {
                silent.push(client);
            } else {
                self.forget_owners(&client, context.now);
            }
        }
        // What the journal does not take now it takes at the next sweep.
        let _ = self.expire(context, &silent);
    }

    /// If there are as many clients as may be, those that are silent go.
    ///
    /// # Errors
    /// Those of the journal.
    pub(crate) fn make_room_for_client(&self, context: &Context<'_>) -> Result<(), StateError> {
        if self.clients.total() < self.config.clients {
            return Ok(());
        }
        let mut silent = self.clients.all();
        silent.retain(|client| client.lease_idle(context.now) > self.config.lease);
        self.expire(context, &silent)
    }

    /// Forgets owners that have nothing and have not been used for a lease.
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

    /// Expires clients: all that they hold is free. Who was heard of since it was found silent stays.
    ///
    /// # Errors
    /// Those of the journal; what was not done is done when it is tried again.
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

    fn delegations_of(&self, client: &Client) -> Vec<Arc<StateEntry>> {
        let entries: Vec<_> = client.inner.lock().stateids();
        let found = entries.iter().filter_map(|other| self.stateids.read(other).get(other).cloned());
        found.filter(|entry| entry.as_delegation().is_some() && entry.liveness() == Liveness::Live).collect()
    }

    /// A client is no more, and nothing that it held; it is so after a crash when its record is gone: its sessions first, so that nothing is added, then what it held,
    /// then its record. After a crash in between the rest belongs to a client that has fewer things, or to none, and is
    /// deleted at the start.
    ///
    /// # Errors
    /// Those of the journal; the rest goes when it is tried again.
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
                // Its locks go with it.
                StateKind::Open(_) => match self.close(context, entry) {
                    Err(error @ StateError::Engine(_)) => return Err(error),
                    Ok(_) | Err(_) => self.forget(client, entry.other),
                },
                StateKind::Locks(_) => {}
            }
        }
        let token = context.change_home(&[Key::Client(client.id).deleted()])?;
        self.clients.remove(client);
        // What owners closed last can be asked for no more.
        let owners: Vec<_> = client.inner.lock().open_owners.drain().map(|(_, owner)| owner).collect();
        owners
            .iter()
            .filter_map(|owner| owner.sequence.closed())
            .for_each(|other| self.forget(client, other));
        Ok(token)
    }
}
