//! Room for newcomers. A client that holds neither opens, locks nor delegations loses nothing when it is forgotten: its next
//! request tells it, and it introduces itself again (RFC 8881 section 2.4.2). So it gives way to a newcomer, at once
//! if its origin holds more than the newcomer's would.
//!
//! Origins that hold equally little could so displace each other without end. An origin without anything may do that, but
//! only once in [`SWAP_AGAIN`]. A client that opens a file meanwhile stays.
//!
//! Those of the greediest origin give way first, and of these the ones that came within a lease: silent ones, then those
//! that have had time to open a file, then the others. So older clients are left alone while many come and go. What an origin holds
//! within its least is not taken from older ones at all while their leases run.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;
use volume::time::Time;

use crate::state::clients::client::Client;
use crate::state::clients::removal::Work;
use crate::state::shares::{Holder, Resource};
use crate::state::{Context, SharedState, StateError};

/// How long a client must have been silent to give way to another one of its own origin. Shorter than the interval at
/// which clients renew their leases; a client that is about to open a file is not silent.
const SILENT: Duration = Duration::from_secs(3);

/// How long a newcomer has for its next request, and to open a file, before others give way no sooner than it does.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the order in which clients give way is used. Finding it takes time.
const IN_ORDER: Duration = Duration::from_secs(1);

/// The clients that can give way, those first that do so first, since they were last lined up.
///
/// Its lock is held until the newcomer has taken the room, so that nobody else takes it.
#[derive(Debug, Default)]
pub(crate) struct GivingWay {
    line: VecDeque<Arc<Client>>,
    /// The length of the line at first.
    length: usize,
    lined_up: Option<Time>,
}

impl GivingWay {
    /// Returns whether the order is old, or half of those in it have given way: the newest clients are not in it, and
    /// those at its end should not give way.
    fn is_stale(&self, now: Time) -> bool {
        let is_old = |since: Time| now < since || now.since(since) >= IN_ORDER;
        self.lined_up.is_none_or(is_old) || self.line.len() < self.length.div_ceil(2)
    }
}

/// Room that a newcomer needs.
#[derive(Clone, Copy)]
struct Need<'a> {
    newcomer: &'a Holder,
    resource: Resource,
    amount: u64,
    /// Whether its origin, which has nothing, may displace others that have no more than it wants.
    may_swap: bool,
}

impl Need<'_> {
    fn is_met(&self) -> bool {
        self.newcomer.room(self.resource) >= self.amount
    }
}

impl Client {
    /// Returns the place of a client among those of its origin that give way.
    fn order_of_leaving(&self, now: Time, lease: Duration) -> (u8, i128) {
        let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        let (age, idle) = (self.age(now), self.idle(now));
        match () {
            () if self.lease_idle(now) > lease => (0, -nanos(idle)),
            () if age > lease => (4, nanos(age)),
            () if idle > PAUSE => (1, -nanos(idle)),
            () if age > PAUSE => (2, nanos(age)),
            () => (3, -nanos(age)),
        }
    }
}

impl SharedState {
    /// If there is no room for what a new client needs, removes others until there is. Hold what is returned until it is
    /// taken.
    ///
    /// # Errors
    /// Those of the journal.
    pub(crate) fn make_room<const N: usize>(
        &self,
        context: &Context<'_>,
        newcomer: &Holder,
        needs: [(Resource, u64); N],
    ) -> Result<MutexGuard<'_, GivingWay>, StateError> {
        let mut giving_way = self.giving_way.lock();
        let may_swap = newcomer.may_swap(context.now);
        for (resource, amount) in needs {
            if newcomer.room(resource) >= amount {
                continue;
            }
            let has_nothing = newcomer.held_by_origin(resource) == 0;
            if has_nothing || newcomer.may_look(context.now) {
                let need = Need { newcomer, resource, amount, may_swap: may_swap && has_nothing };
                self.displace(context, &mut giving_way, need)?;
                if has_nothing && need.is_met() {
                    newcomer.note_swap(context.now);
                }
            }
        }
        Ok(giving_way)
    }

    /// Removes clients until a need is met, or no further one gives way.
    fn displace(
        &self,
        context: &Context<'_>,
        giving_way: &mut GivingWay,
        need: Need<'_>,
    ) -> Result<(), StateError> {
        if giving_way.is_stale(context.now) {
            self.line_up(context, giving_way);
        }
        let mut staying = Vec::new();
        let (mut result, mut work) = (Ok(()), Work::part());
        while result.is_ok()
            && !need.is_met()
            && let Some(client) = giving_way.line.pop_front()
        {
            if self.gives_way(context, &client, need) {
                let is_over = client.lease_idle(context.now) > self.config.lease;
                result = if is_over {
                    self.expire(context, &[client], &mut work)
                } else {
                    self.remove_idle(context, &client, &mut work)
                };
            } else if self.can_give_way(context, &client) {
                staying.push(client);
            }
        }
        staying.into_iter().rev().for_each(|client| giving_way.line.push_front(client));
        result
    }

    /// Lines up the clients that can give way: always the next one of the origin that would have most then.
    fn line_up(&self, context: &Context<'_>, giving_way: &mut GivingWay) {
        let mut origins: BTreeMap<IpAddr, Vec<Arc<Client>>> = BTreeMap::new();
        for client in self.clients.all() {
            if self.can_give_way(context, &client) {
                origins.entry(client.holder.origin()).or_default().push(client);
            }
        }
        let order = |client: &Arc<Client>| client.order_of_leaving(context.now, self.config.lease);
        let mut line = Vec::new();
        for mut clients in origins.into_values() {
            clients.sort_by_cached_key(|client| (order(client), client.id));
            let held = clients.first().map_or(0, |one| one.holder.held_by_origin(Resource::Clients));
            line.extend((0..held).rev().zip(clients));
        }
        line.sort_by_cached_key(|(left, client)| (std::cmp::Reverse(*left), order(client), client.id));
        giving_way.length = line.len();
        giving_way.line = line.into_iter().map(|(_, client)| client).collect();
        giving_way.lined_up = Some(context.now);
    }

    /// Returns whether a client can give way to anybody.
    fn can_give_way(&self, context: &Context<'_>, client: &Client) -> bool {
        client.lease_idle(context.now) > self.config.lease || self.holds_nothing(client)
    }

    /// Returns whether a client gives way to a newcomer.
    fn gives_way(&self, context: &Context<'_>, client: &Client, need: Need<'_>) -> bool {
        let Need { newcomer, resource, amount, may_swap } = need;
        let own = client.holder.held(resource);
        if own == 0 || std::ptr::eq(Arc::as_ptr(&client.holder), newcomer) {
            return false;
        }
        let (theirs, ours) = (client.holder.held_by_origin(resource), newcomer.held_by_origin(resource));
        let is_neighbour = client.holder.origin() == newcomer.origin();
        if client.lease_idle(context.now) > self.config.lease {
            // What an origin holds within its least leaves room to others only if nothing else is free.
            let is_of_use = theirs > self.shares.least(resource) || self.shares.free(resource) < amount;
            let is_used_up = self.shares.unreserved(resource) < amount;
            return is_neighbour || (is_of_use && (theirs > ours || is_used_up));
        }
        let would_still_have_as_much = theirs.saturating_sub(own) >= ours + amount;
        // Others could use the place of an established client to hold something, and then not give way when it comes back.
        let is_established = client.age(context.now) > self.config.lease;
        let keeps_its_least = is_established && theirs <= self.shares.least(resource);
        let allowed = if is_neighbour {
            client.idle(context.now) > SILENT
        } else {
            !keeps_its_least && (may_swap || would_still_have_as_much)
        };
        allowed && self.holds_nothing(client)
    }

    /// Returns whether a client holds nothing besides sessions, and waits for no lock.
    fn holds_nothing(&self, client: &Client) -> bool {
        client.holder.held(Resource::Waiters) == 0
            && client.inner.lock().entries.is_empty()
            && !self.has_copies(client)
    }
}
