//! What happens as time passes: leases expire, unused owners are forgotten.

use std::sync::atomic::Ordering;
use std::time::Duration;

use volume::time::Time;

use crate::state::shares::Resource;
use crate::state::{Context, SharedState};

/// The longest interval between calls of [`SharedState::tick`].
const TICK: Duration = Duration::from_secs(1);
/// The same while clients or very many owners are removed, very many are woken or told to return something, or many grants are
/// forgotten, in parts of about that long, so that half a processor is left to others.
const PAUSE: Duration = Duration::from_millis(1);

impl SharedState {
    /// Does what is due. Returns how long to wait before the next call.
    pub(crate) fn tick(&self, context: &Context<'_>) -> Duration {
        context.store.journal_deferred();
        self.tick_callbacks(context);
        self.tick_copies(context);
        let soon = self.tick_nlm(context);
        let is_forgetting = self.hosts.grants.forget_old(context.now, self.config.lease);
        let is_recalling = self.tick_recalls(context);
        let last = Time::from_nanos(i64::try_from(self.swept.load(Ordering::Relaxed)).unwrap_or(i64::MAX));
        let is_due = context.now.since(last) >= self.config.lease / 4;
        if is_due {
            self.swept.store(u64::try_from(context.now.nanos()).unwrap_or(0), Ordering::Relaxed);
            self.find_silent(context);
        }
        let is_removing = self.tick_removals(context);
        let is_excluding = self.tick_excluded(context);
        let is_sweeping = self.tick_owners(context.now);
        let is_waking = self.tick_waiters(context);
        if is_due {
            self.ask_hosts(context);
            self.shares.forget_idle(context.now);
        }
        let goes_on =
            is_forgetting || is_removing || is_excluding || is_recalling || is_sweeping || is_waking;
        soon.min(if goes_on { PAUSE } else { TICK })
    }

    /// Finds clients that have been idle beyond courtesy, and those whose leases are over if there is little room for others, or if their
    /// origin was refused something. They are removed in parts, and so are unused owners of the others.
    fn find_silent(&self, context: &Context<'_>) {
        let resources = [Resource::StateBytes, Resource::Ranges, Resource::Clients, Resource::SessionBytes];
        let is_short = resources.into_iter().any(|resource| self.shares.is_short(resource));
        self.clients.forget_unconfirmed(context.now, self.config.lease);
        let (mut silent, mut others) = (Vec::new(), Vec::new());
        for client in self.clients.all() {
            let needed = is_short || client.holder.was_refused();
            let patience = if needed { self.config.lease } else { self.config.courtesy };
            let nothing = !client.has_state();
            let idle = client.idle(context.now);
            let over = client.lease_idle(context.now) > patience || (nothing && idle > 4 * self.config.lease);
            if over { &mut silent } else { &mut others }.push(client);
        }
        self.removals.expire_later(silent);
        self.owner_sweep.begin(others);
    }
}
