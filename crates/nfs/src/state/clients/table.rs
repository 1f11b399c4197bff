//! The table of clients, by name and by id.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use volume::time::Time;

use crate::state::clients::Introduction;
use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::clients::guesses::Guesses;
use crate::state::clients::proposals::Proposals;
use crate::state::ids::ClientId;
use crate::state::record::{ClientRecord, LOWEST_ADDRESS, address_bytes};
use crate::state::shares::{Held, Holder, Resource};
use crate::state::{Peer, StateError};

/// Addresses at which a name is looked for, besides that of the caller. A name is no secret, and a host can have any number of
/// addresses: those that use another one's name must not make everybody wait for the table. A client that moves to another address
/// is a new one if it has more namesakes.
pub(in crate::state) const NAMESAKES_MAX: usize = 256;

/// A client that is not confirmed yet.
#[derive(Clone, Debug)]
pub(super) struct Unconfirmed {
    pub(super) id: ClientId,
    pub(super) record: ClientRecord,
    proposed: Time,
    /// Its place in the order of proposals.
    age: u64,
    pub(super) holder: Arc<Holder>,
    _held: Arc<Held>,
}

impl Unconfirmed {
    pub(super) fn new(id: ClientId, record: ClientRecord, now: Time, holder: Arc<Holder>) -> Unconfirmed {
        let _held = Arc::new(Held::new(&holder, Resource::Unconfirmed, 1));
        Unconfirmed { id, record, proposed: now, age: 0, holder, _held }
    }

    /// Returns the peer that introduced it.
    pub(super) fn peer(&self) -> Peer {
        Peer { principal: self.record.principal, address: self.record.address() }
    }
}

/// The clients with the same name at one address.
#[derive(Debug, Default)]
struct Named {
    confirmed: Option<Arc<Client>>,
    unconfirmed: Option<Unconfirmed>,
}

/// A client's name, and the address of its introduction.
pub(super) type Name = (ClientProtocol, Box<[u8]>, IpAddr);

#[derive(Debug, Default)]
pub(super) struct Table {
    names: BTreeMap<Name, Named>,
    pub(super) confirmed: BTreeMap<ClientId, Arc<Client>>,
    unconfirmed: HashMap<ClientId, Name>,
    /// The unconfirmed clients by origin and age.
    proposals: Proposals,
    guesses: Guesses,
    /// How many namesakes were looked at.
    #[cfg(test)]
    looked_at: std::sync::atomic::AtomicUsize,
}

/// All clients.
#[derive(Debug, Default)]
pub(in crate::state) struct Clients(RwLock<Table>);

impl Table {
    pub(super) fn named(&self, name: &Name) -> (Option<Arc<Client>>, Option<&Unconfirmed>) {
        let named = self.names.get(name);
        (named.and_then(|named| named.confirmed.clone()), named.and_then(|named| named.unconfirmed.as_ref()))
    }

    /// Returns the unconfirmed client with this id, and its name.
    pub(super) fn proposed(&self, id: ClientId) -> Option<(Name, Unconfirmed)> {
        let name = self.unconfirmed.get(&id)?;
        let unconfirmed = self.names.get(name)?.unconfirmed.clone()?;
        Some((name.clone(), unconfirmed))
    }

    /// Returns the confirmed clients of a name, at many addresses, but those that are gone.
    pub(super) fn namesakes(
        &self,
        version: ClientProtocol,
        name: &[u8],
    ) -> impl Iterator<Item = &Arc<Client>> {
        self.names
            .range((version, Box::from(name), LOWEST_ADDRESS)..)
            .take_while(move |((other, known, _), _)| *other == version && **known == *name)
            .take(NAMESAKES_MAX)
            .inspect(|_| {
                #[cfg(test)]
                self.looked_at.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            })
            .filter_map(|(_, named)| named.confirmed.as_ref().filter(|client| !client.is_gone()))
    }

    /// Returns the confirmed client that is introduced again: the one with the same verifier and principal, wherever it
    /// comes from, unless `origin` has tried too many verifiers; or else the one at the same address.
    pub(super) fn known_as(
        &mut self,
        version: ClientProtocol,
        who: &Introduction<'_>,
        (origin, now): (IpAddr, Time),
    ) -> Option<Arc<Client>> {
        let there = self.names.get(&(version, Box::from(who.name), who.peer.address));
        let there = there.and_then(|named| named.confirmed.as_ref()).filter(|client| !client.is_gone());
        if let Some(same) = there.filter(|client| who.is_of(client)) {
            return Some(Arc::clone(same));
        }
        let may_try = self.guesses.may_try(origin, now);
        let (mut here, mut is_elsewhere) = (there, false);
        for client in self.namesakes(version, who.name) {
            let is_here = client.is_at(who.peer.address);
            if who.is_of(client) && (is_here || may_try) {
                return Some(Arc::clone(client));
            }
            here = here.or(is_here.then_some(client));
            is_elsewhere |= !is_here;
        }
        let here = here.cloned();
        if is_elsewhere {
            self.guesses.count(origin, now);
        }
        here
    }

    /// Makes room for an unconfirmed client of `holder`: the oldest one of its origin gives way if the origin has its
    /// share, or else one of the origin that has most.
    pub(super) fn make_room(&mut self, holder: &Holder) {
        if holder.room(Resource::Unconfirmed) > 0 {
            return;
        }
        let own = self.proposals.oldest_of(holder.origin());
        if let Some(name) = own.or_else(|| self.proposals.oldest_of_greediest()).cloned() {
            self.propose(&name, None);
        }
    }

    /// Replaces the unconfirmed client of a name.
    pub(super) fn propose(&mut self, name: &Name, proposed: Option<Unconfirmed>) {
        let named = self.names.entry(name.clone()).or_default();
        if let Some(earlier) = named.unconfirmed.take() {
            self.unconfirmed.remove(&earlier.id);
            self.proposals.remove(earlier.age);
        }
        match proposed {
            Some(proposed) => {
                let age = self.proposals.add(proposed.holder.origin(), name);
                self.unconfirmed.insert(proposed.id, name.clone());
                named.unconfirmed = Some(Unconfirmed { age, ..proposed });
            }
            None if named.confirmed.is_none() => drop(self.names.remove(name)),
            None => {}
        }
    }

    pub(super) fn confirm(&mut self, name: &Name, client: &Arc<Client>) {
        let named = self.names.entry(name.clone()).or_default();
        named.confirmed = Some(Arc::clone(client));
        if self.confirmed.insert(client.id, Arc::clone(client)).is_none() {
            client.holder.take(Resource::Clients, 1);
        }
        self.propose(name, None);
    }
}

impl Clients {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.read()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.write()
    }

    /// Returns how many namesakes were looked at.
    #[cfg(test)]
    pub(in crate::state) fn looked_at(&self) -> usize {
        self.0.read().looked_at.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the confirmed client with this id.
    pub(in crate::state) fn confirmed(&self, id: ClientId) -> Option<Arc<Client>> {
        self.0.read().confirmed.get(&id).cloned()
    }

    /// Returns the confirmed client of this name that was introduced from `address`.
    pub(in crate::state) fn of_name(
        &self,
        version: ClientProtocol,
        name: &[u8],
        address: IpAddr,
    ) -> Option<Arc<Client>> {
        self.0.read().names.get(&(version, Box::from(name), address))?.confirmed.clone()
    }

    /// Returns the confirmed client with this name at `address`, or inserts the one that `make` returns.
    ///
    /// # Errors
    /// [`StateError::LimitReached`] if there is no room for one of `holder`, and those of `make`.
    pub(in crate::state) fn enter(
        &self,
        version: ClientProtocol,
        (name, address): (&[u8], IpAddr),
        holder: &Holder,
        make: impl FnOnce() -> Result<Arc<Client>, StateError>,
    ) -> Result<Arc<Client>, StateError> {
        let name = (version, Box::from(name), address);
        let mut table = self.0.write();
        if let (Some(there), _) = table.named(&name) {
            return Ok(there);
        }
        if !holder.may_take(Resource::Clients, 1) {
            return Err(StateError::LimitReached);
        }
        let client = make()?;
        table.confirm(&name, &client);
        Ok(client)
    }

    /// Returns the NLM clients of a host: their names begin with its address.
    pub(in crate::state) fn at(&self, address: IpAddr) -> Vec<Arc<Client>> {
        let (prefix, table) = (address_bytes(address), self.0.read());
        let from = (ClientProtocol::Nlm, Box::from(&prefix[..]), LOWEST_ADDRESS);
        let names = table.names.range(from..);
        let there = names.take_while(|((_, name, _), _)| name.starts_with(&prefix));
        there.filter_map(|(_, named)| named.confirmed.clone()).collect()
    }

    /// Returns the number of NLM clients.
    pub(in crate::state) fn hosts(&self) -> usize {
        self.0.read().confirmed.values().filter(|client| client.host.is_some()).count()
    }

    /// Returns all confirmed clients.
    pub(in crate::state) fn all(&self) -> Vec<Arc<Client>> {
        self.0.read().confirmed.values().cloned().collect()
    }

    /// Returns the number of confirmed clients.
    pub(in crate::state) fn len(&self) -> usize {
        self.0.read().confirmed.len()
    }

    /// Inserts a client that a record names.
    pub(in crate::state) fn restore(&self, client: &Arc<Client>) {
        self.0.write().confirm(&name_of(client), client);
    }

    /// Removes a client.
    pub(in crate::state) fn remove(&self, client: &Client) {
        let mut table = self.0.write();
        if table.confirmed.remove(&client.id).is_some() {
            client.holder.give_back(Resource::Clients, 1);
        }
        let name = name_of(client);
        if let Some(named) = table.names.get_mut(&name) {
            if named.confirmed.as_ref().is_some_and(|known| known.id == client.id) {
                named.confirmed = None;
            }
            if named.confirmed.is_none() && named.unconfirmed.is_none() {
                table.names.remove(&name);
            }
        }
    }

    /// Drops clients that were not confirmed within a lease.
    pub(in crate::state) fn forget_unconfirmed(&self, now: Time, lease: Duration) {
        let mut table = self.0.write();
        while let Some(name) = table.proposals.oldest().cloned() {
            let oldest = table.named(&name).1;
            if oldest.is_some_and(|one| now.since(one.proposed) <= lease) {
                return;
            }
            table.propose(&name, None);
        }
    }
}

/// Returns a confirmed client's name.
pub(super) fn name_of(client: &Client) -> Name {
    (client.version, client.name.clone(), client.address)
}
