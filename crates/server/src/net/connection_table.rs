//! The connections of a loop. A connection that is being served is taken out of its place, which stays reserved.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use nfs::service::ConnectionId;
use slab::Slab;

use crate::admission::ConnectionKey;
use crate::admission::origins::OriginKey;
use crate::connection_origin::ConnectionOrigin;
use crate::counters::operations::Counted;
use crate::limits::GIVE_WAY_CHOICES_MAX;
use crate::net::connection::{Connection, Newcomer};

#[derive(Default)]
pub(crate) struct ConnectionTable {
    places: Slab<Option<Box<Connection>>>,
    /// For callbacks, which name a connection by its id.
    by_id: HashMap<ConnectionId, usize>,
    by_origin: HashMap<ConnectionOrigin, OfOrigin>,
    generation: u64,
}

/// The connections of an origin.
#[derive(Default)]
struct OfOrigin {
    places: BTreeSet<usize>,
    /// Where the next choice among them begins.
    next: usize,
}

impl ConnectionTable {
    /// Returns the place of the next connection.
    pub(crate) fn next_index(&self) -> usize {
        self.places.vacant_key()
    }

    /// Reserves a place for a new connection.
    pub(crate) fn reserve(
        &mut self,
        newcomer: Newcomer,
        origin: OriginKey,
        counted: Counted,
    ) -> Box<Connection> {
        self.generation += 1;
        let key = ConnectionKey { index: self.places.insert(None), generation: self.generation, origin };
        self.by_id.insert(newcomer.ends.id, key.index);
        self.by_origin.entry(newcomer.place.origin).or_default().places.insert(key.index);
        Box::new(Connection::new(newcomer, key, counted))
    }

    /// Frees the place of a connection that was taken out.
    pub(crate) fn remove(&mut self, connection: &Connection) {
        self.places.remove(connection.key.index);
        self.by_id.remove(&connection.ends.id);
        if let Entry::Occupied(mut entry) = self.by_origin.entry(connection.place.origin) {
            entry.get_mut().places.remove(&connection.key.index);
            if entry.get().places.is_empty() {
                entry.remove();
            }
        }
    }

    /// Takes a connection out of its place.
    pub(crate) fn take(&mut self, index: usize) -> Option<Box<Connection>> {
        self.places.get_mut(index)?.take()
    }

    /// Takes a connection out of its place, unless another one has taken the place.
    pub(crate) fn take_owner(&mut self, owner: ConnectionKey) -> Option<Box<Connection>> {
        self.get_owner(owner)?;
        self.take(owner.index)
    }

    /// Takes the connection with this id out of its place.
    pub(crate) fn take_id(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        let index = *self.by_id.get(&id)?;
        self.take(index)
    }

    /// Takes out, of some connections of an origin, the one that has been silent longest. If it must be idle, those with
    /// calls or a part of a record are left alone.
    pub(crate) fn take_idlest(
        &mut self,
        origin: ConnectionOrigin,
        must_be_idle: bool,
    ) -> Option<Box<Connection>> {
        let OfOrigin { places, next } = self.by_origin.get_mut(&origin)?;
        let choices = places.range(*next..).chain(places.range(..*next)).take(GIVE_WAY_CHOICES_MAX);
        let (mut idlest, mut last): (Option<(Instant, usize)>, usize) = (None, 0);
        for index in choices {
            last = *index;
            let connection = self.places.get(*index).and_then(Option::as_deref);
            if let Some(connection) = connection.filter(|found| !must_be_idle || found.is_idle()) {
                let found = (connection.moved(), *index);
                idlest = Some(idlest.map_or(found, |idlest| idlest.min(found)));
            }
        }
        *next = last + 1;
        self.take(idlest?.1)
    }

    /// Puts a connection back.
    pub(crate) fn put(&mut self, connection: Box<Connection>) {
        let index = connection.key.index;
        self.places[index] = Some(connection);
    }

    /// Returns a connection, unless another one has taken its place.
    pub(crate) fn get_owner(&mut self, owner: ConnectionKey) -> Option<&mut Connection> {
        self.places.get_mut(owner.index)?.as_deref_mut().filter(|connection| connection.key == owner)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the places in use.
    pub(crate) fn indexes(&self) -> Vec<usize> {
        self.places.iter().map(|(index, _)| index).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.places.iter().filter_map(|(_, connection)| connection.as_deref())
    }
}
