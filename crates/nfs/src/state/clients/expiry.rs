//! What time does: clients that are silent for too long, delegations that are not returned, owners that nobody uses.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use volume::time::Time;

use crate::state::clients::client::{Client, Version};
use crate::state::config::Counters;
use crate::state::record::Key;
use crate::state::sessions::Session;
use crate::state::stateids::entry::{Holding, Recall, Standing, What};
use crate::state::{Context, Kept, State, StateError};

/// The longest until [`State::tick`] is to be called again.
const TICK: Duration = Duration::from_secs(1);

impl State {
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
        recalls.retain(|holding| {
            if !State::is_recalled(holding) {
                return false;
            }
            let Some(Recall::Recalled(since)) =
                holding.as_delegation().map(crate::state::stateids::entry::Delegation::recall)
            else {
                return false;
            };
            if self.can_be_called(&holding.client) {
                self.call_recall(context, holding);
            }
            // What the journal does not take now it takes at the next tick.
            context.now.since(since) <= self.config.lease || self.revoke(context, holding).is_err()
        });
        self.recalls.lock().append(&mut recalls);
    }

    /// Looks at everybody: who has been silent beyond courtesy goes, owners that nobody uses are forgotten, and if memory
    /// is short, those that are silent go too.
    fn sweep(&self, context: &Context<'_>) {
        let holdings = self.counters.holdings();
        let ranges = Counters::get(&self.counters.ranges);
        let short = holdings > self.config.holdings / 8 * 7 || ranges > self.config.ranges / 8 * 7;
        let patience = if short { self.config.lease } else { self.config.courtesy };
        self.contended.retain(|until| context.now < *until);
        self.clients.forget_unconfirmed(context.now, self.config.lease);
        let mut silent = Vec::new();
        for client in self.clients.all() {
            let nothing = !client.has_state();
            let unheard = client.unheard(context.now);
            let over = client.silent(context.now) > patience || (nothing && unheard > 4 * self.config.lease);
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
        silent.retain(|client| client.silent(context.now) > self.config.lease);
        self.expire(context, &silent)
    }

    /// Forgets owners that have nothing and have not been used for a lease.
    fn forget_owners(&self, client: &Client, now: Time) {
        let mut held = client.inner.lock();
        let lease = self.config.lease;
        let unused = |last: Time| client.version != Version::Zero || now.since(last) > lease;
        let mut closed = Vec::new();
        held.open_owners.retain(|_, owner| {
            // One reference is the map's; every open has another.
            let keep = Arc::strong_count(owner) > 1 || !unused(owner.turns.used());
            if !keep {
                closed.extend(owner.turns.closed());
            }
            keep
        });
        held.lock_owners.retain(|_, owner| Arc::strong_count(owner) > 1 || !unused(owner.turns.used()));
        drop(held);
        closed.into_iter().for_each(|other| self.forget(client, other));
    }

    /// Expires clients: all that they hold is free. Who was heard of since it was found silent stays.
    ///
    /// # Errors
    /// Those of the journal; what was not done is done when it is tried again.
    pub(crate) fn expire(&self, context: &Context<'_>, clients: &[Arc<Client>]) -> Result<(), StateError> {
        for client in clients {
            if client.unheard(context.now) <= self.config.lease && !client.is_gone() {
                continue;
            }
            let delegations = self.delegations_of(client);
            self.remove_client(context, client)?;
            delegations.iter().for_each(|holding| self.count_loss(context, holding));
            Counters::up(&self.counters.clients_expired);
        }
        Ok(())
    }

    fn delegations_of(&self, client: &Client) -> Vec<Arc<Holding>> {
        let holdings: Vec<_> = client.inner.lock().stateids();
        let found = holdings.iter().filter_map(|other| self.stateids.read(other).get(other).cloned());
        found
            .filter(|holding| holding.as_delegation().is_some() && holding.standing() == Standing::Live)
            .collect()
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
    ) -> Result<Kept, StateError> {
        let (holdings, sessions) = {
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
        let found: Vec<Arc<Holding>> =
            holdings.iter().filter_map(|other| self.stateids.read(other).get(other).cloned()).collect();
        for holding in &found {
            match &holding.what {
                What::Delegation(_) => {
                    self.take_delegation(context, holding)?;
                    holding.end();
                    self.forget(client, holding.other);
                }
                // Its locks go with it.
                What::Open(_) => match self.close(context, holding) {
                    Err(error @ StateError::Engine(_)) => return Err(error),
                    Ok(_) | Err(_) => self.forget(client, holding.other),
                },
                What::Locks(_) => {}
            }
        }
        let kept = context.change_home(&[Key::Client(client.id).deleted()])?;
        self.clients.remove(client);
        // What owners closed last can be asked for no more.
        let owners: Vec<_> = client.inner.lock().open_owners.drain().map(|(_, owner)| owner).collect();
        owners.iter().filter_map(|owner| owner.turns.closed()).for_each(|other| self.forget(client, other));
        Ok(kept)
    }
}
