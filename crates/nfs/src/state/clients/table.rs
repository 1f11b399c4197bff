//! The table of clients, by name and by id.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
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

/// Namesakes that are looked at to find out whether a client elsewhere has a name. A name is no secret, and a host can have any
/// number of addresses: those that use another one's name must not make everybody wait for the table.
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
    /// The confirmed NFSv4 clients, by a hash of what introduces them. It has a secret key, since verifiers are secret.
    introduced: BTreeMap<(u64, ClientId), Arc<Client>>,
    hash: RandomState,
    /// The confirmed clients at their further addresses.
    further: BTreeMap<(IpAddr, ClientId), Arc<Client>>,
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

    /// Returns whether a confirmed client elsewhere than at `address` has a name. If too many have it to look at all, the answer is
    /// yes.
    pub(super) fn is_named_elsewhere(&self, version: ClientProtocol, name: &[u8], address: IpAddr) -> bool {
        let named = self.names.range((version, Box::from(name), LOWEST_ADDRESS)..);
        let mut namesakes = named.take_while(|((other, known, _), _)| *other == version && **known == *name);
        let is_elsewhere = |(_, named): (&Name, &Named)| {
            self.note_look();
            named.confirmed.as_ref().is_some_and(|client| !client.is_gone() && !client.is_at(address))
        };
        namesakes.by_ref().take(NAMESAKES_MAX).any(is_elsewhere) || namesakes.next().is_some()
    }

    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "counted in tests"))]
    fn note_look(&self) {
        #[cfg(test)]
        self.looked_at.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns the confirmed client that is introduced again: the one with the same verifier and principal, wherever it
    /// comes from, unless `origin` has tried too many verifiers; or else the one at the same address. However many others have the
    /// name, these are found.
    pub(super) fn known_as(
        &mut self,
        version: ClientProtocol,
        who: &Introduction<'_>,
        (origin, now): (IpAddr, Time),
    ) -> Option<Arc<Client>> {
        let address = who.peer.address;
        let is_meant = |client: &&Arc<Client>| {
            client.version == version && *client.name == *who.name && !client.is_gone()
        };
        let first = self.names.get(&(version, Box::from(who.name), address));
        let first = first.and_then(|named| named.confirmed.as_ref());
        let further = self.further.range((address, ClientId(0))..=(address, ClientId(u64::MAX)));
        let further = further.take(NAMESAKES_MAX).map(|(_, client)| client);
        let mut here = first.into_iter().chain(further).inspect(|_| self.note_look()).filter(is_meant);
        if let Some(same) = here.clone().find(|client| who.is_of(client)) {
            return Some(Arc::clone(same));
        }
        let there = here.next().cloned();
        let hash = self.hash.hash_one((version, who.name, who.verifier, who.peer.principal));
        let same = self.introduced.range((hash, ClientId(0))..=(hash, ClientId(u64::MAX)));
        let same = same.take(NAMESAKES_MAX).map(|(_, client)| client).inspect(|_| self.note_look());
        let same = same.filter(is_meant).find(|client| who.is_of(client)).cloned();
        if same.is_some() && self.guesses.may_try(origin, now) {
            return same;
        }
        if self.is_named_elsewhere(version, who.name, address) {
            self.guesses.count(origin, now);
        }
        there
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
        if client.host.is_none() {
            self.introduced.insert((self.hash_of(client), client.id), Arc::clone(client));
            client.addresses().iter().for_each(|address| self.add_address(client, *address));
        }
        if self.confirmed.insert(client.id, Arc::clone(client)).is_none() {
            client.holder.take(Resource::Clients, 1);
        }
        self.propose(name, None);
    }

    /// Replaces the addresses of a confirmed client besides the first.
    pub(super) fn set_addresses(&mut self, client: &Arc<Client>, addresses: &[IpAddr]) {
        client.addresses().iter().for_each(|address| self.remove_address(client, *address));
        client.set_addresses(addresses);
        addresses.iter().for_each(|address| self.add_address(client, *address));
    }

    fn add_address(&mut self, client: &Arc<Client>, address: IpAddr) {
        if address != client.address {
            self.further.insert((address, client.id), Arc::clone(client));
        }
    }

    fn remove_address(&mut self, client: &Client, address: IpAddr) {
        self.further.remove(&(address, client.id));
    }

    /// Forgets what introduces a client that is removed.
    fn forget_introduction(&mut self, client: &Client) {
        client.addresses().iter().for_each(|address| self.remove_address(client, *address));
        self.introduced.remove(&(self.hash_of(client), client.id));
    }

    fn hash_of(&self, client: &Client) -> u64 {
        self.hash.hash_one((client.version, &*client.name, client.verifier, client.principal))
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
        table.forget_introduction(client);
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
