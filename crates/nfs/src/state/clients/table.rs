//! The table of clients, by name and by id.

use std::collections::hash_map::Entry;
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
use crate::state::record::{ClientRecord, LOWEST_ADDRESS, Principal, address_bytes};
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

/// What introduces a client wherever it comes from: its name, its verifier and its principal.
type Introduced = (ClientProtocol, Box<[u8]>, [u8; 8], Principal);

#[derive(Debug, Default)]
pub(super) struct Table {
    names: BTreeMap<Name, Named>,
    pub(super) confirmed: BTreeMap<ClientId, Arc<Client>>,
    /// The confirmed clients that the same introduces, NLM's left out. The keys of its hash are secret, as verifiers are.
    introduced: HashMap<Introduced, BTreeMap<ClientId, Arc<Client>>>,
    /// The confirmed clients at their further addresses.
    further: BTreeMap<Name, Arc<Client>>,
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

    /// Returns whether confirmed clients that are not at `address` have a name, or may have it: not all are looked at.
    pub(super) fn is_named_elsewhere(&self, version: ClientProtocol, name: &[u8], address: IpAddr) -> bool {
        let named = self.names.range((version, Box::from(name), LOWEST_ADDRESS)..);
        let mut namesakes = named.take_while(|((other, known, _), _)| *other == version && **known == *name);
        let is_elsewhere = |(_, named): (&Name, &Named)| {
            #[cfg(test)]
            self.looked_at.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            named.confirmed.as_ref().is_some_and(|client| !client.is_gone() && !client.is_at(address))
        };
        namesakes.by_ref().take(NAMESAKES_MAX).any(is_elsewhere) || namesakes.next().is_some()
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
        let name = (version, Box::from(who.name), who.peer.address);
        let first = self.names.get(&name).and_then(|named| named.confirmed.as_ref());
        let here = [first, self.further.get(&name)].map(|client| client.filter(|client| !client.is_gone()));
        if let Some(same) = here.into_iter().flatten().find(|client| who.is_of(client)) {
            return Some(Arc::clone(same));
        }
        let [first, further] = here.map(|client| client.cloned());
        let introduced = (version, Box::from(who.name), who.verifier, who.peer.principal);
        let same = self.introduced.get(&introduced).into_iter().flat_map(BTreeMap::values);
        let same = same.filter(|client| !client.is_gone());
        if self.guesses.may_try(origin, now)
            && let Some(same) =
                same.clone().find(|client| client.is_at(who.peer.address)).or(same.clone().next())
        {
            return Some(Arc::clone(same));
        }
        if self.is_named_elsewhere(version, who.name, who.peer.address) {
            self.guesses.count(origin, now);
        }
        first.or(further)
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
            let same = self.introduced.entry(introduced(client)).or_default();
            same.insert(client.id, Arc::clone(client));
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
            let (version, name, _) = name_of(client);
            self.further.insert((version, name, address), Arc::clone(client));
        }
    }

    fn remove_address(&mut self, client: &Client, address: IpAddr) {
        let (version, name, _) = name_of(client);
        let place = (version, name, address);
        if self.further.get(&place).is_some_and(|known| known.id == client.id) {
            self.further.remove(&place);
        }
    }

    /// Forgets what introduces a client that is removed.
    fn forget_introduction(&mut self, client: &Client) {
        client.addresses().iter().for_each(|address| self.remove_address(client, *address));
        if let Entry::Occupied(mut same) = self.introduced.entry(introduced(client)) {
            same.get_mut().remove(&client.id);
            if same.get().is_empty() {
                same.remove();
            }
        }
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

fn introduced(client: &Client) -> Introduced {
    (client.version, client.name.clone(), client.verifier, client.principal)
}

/// Returns a confirmed client's name.
pub(super) fn name_of(client: &Client) -> Name {
    (client.version, client.name.clone(), client.address)
}
