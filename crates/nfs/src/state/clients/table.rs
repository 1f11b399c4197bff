//! The table of clients, by name and by id.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use volume::time::Time;

use crate::state::clients::Introduction;
use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::ids::ClientId;
use crate::state::record::{ClientRecord, LOWEST_ADDRESS};
use crate::state::shares::{Held, Holder, Resource};
use crate::state::{Peer, StateError};

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
    /// The unconfirmed clients of each origin, the oldest first.
    ages: BTreeMap<(IpAddr, u64), Name>,
    /// The age of the next one.
    next_age: u64,
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

    /// Returns the confirmed clients of a name, at all addresses.
    pub(super) fn namesakes(
        &self,
        version: ClientProtocol,
        name: &[u8],
    ) -> impl Iterator<Item = &Arc<Client>> {
        self.names
            .range((version, Box::from(name), LOWEST_ADDRESS)..)
            .take_while(move |((other, known, _), _)| *other == version && **known == *name)
            .filter_map(|(_, named)| named.confirmed.as_ref())
    }

    /// Returns the confirmed client that is introduced again: the one with the same verifier and principal, wherever it
    /// comes from, or else the one at the same address.
    pub(super) fn known_as(&self, version: ClientProtocol, who: &Introduction<'_>) -> Option<Arc<Client>> {
        let mut namesakes = self.namesakes(version, who.name);
        let same = namesakes.find(|client| who.is_of(client));
        let there = || self.namesakes(version, who.name).find(|client| client.is_at(who.peer.address));
        same.or_else(there).cloned()
    }

    /// Makes room for an unconfirmed client of `holder`: the oldest one of its origin gives way if the origin has its
    /// share, or else one of the origin that has most.
    pub(super) fn make_room(&mut self, holder: &Holder) {
        if holder.room(Resource::Unconfirmed) > 0 {
            return;
        }
        let own = holder.origin();
        let oldest_of = |origin: IpAddr| self.ages.range((origin, 0)..=(origin, u64::MAX)).next();
        let oldest = oldest_of(own).or_else(|| oldest_of(self.greediest()?));
        if let Some(name) = oldest.map(|(_, name)| name.clone()) {
            self.propose(&name, None);
        }
    }

    /// Returns the origin with most unconfirmed clients.
    fn greediest(&self) -> Option<IpAddr> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.ages.keys().for_each(|(origin, _)| *counts.entry(*origin).or_default() += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(origin, _)| origin)
    }

    /// Replaces the unconfirmed client of a name.
    pub(super) fn propose(&mut self, name: &Name, proposed: Option<Unconfirmed>) {
        let named = self.names.entry(name.clone()).or_default();
        if let Some(earlier) = named.unconfirmed.take() {
            self.unconfirmed.remove(&earlier.id);
            self.ages.remove(&(earlier.holder.origin(), earlier.age));
        }
        match proposed {
            Some(proposed) => {
                let age = self.next_age;
                self.next_age += 1;
                self.unconfirmed.insert(proposed.id, name.clone());
                self.ages.insert((proposed.holder.origin(), age), name.clone());
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

    /// Returns the NLM clients of a host.
    pub(in crate::state) fn at(&self, address: IpAddr) -> Vec<Arc<Client>> {
        let there = |client: &&Arc<Client>| client.host.is_some_and(|host| host.address == address);
        self.0.read().confirmed.values().filter(there).cloned().collect()
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
        let late =
            |named: &Named| named.unconfirmed.as_ref().is_some_and(|one| now.since(one.proposed) > lease);
        let names: Vec<Name> =
            table.names.iter().filter(|(_, named)| late(named)).map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| table.propose(name, None));
    }
}

/// Returns a confirmed client's name.
pub(super) fn name_of(client: &Client) -> Name {
    (client.version, client.name.clone(), client.address)
}
