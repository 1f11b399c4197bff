//! The connections of a loop. A connection that is being served is taken out of its place, which stays reserved.

use std::collections::HashMap;

use mio::net::TcpStream;
use nfs::service::{Connection as Ends, ConnectionId};
use slab::Slab;

use crate::admission::ConnectionKey;
use crate::net::connection::Connection;

#[derive(Default)]
pub(crate) struct ConnectionTable {
    places: Slab<Option<Box<Connection>>>,
    /// For callbacks, which name a connection by its id.
    by_id: HashMap<ConnectionId, usize>,
    generation: u64,
}

impl ConnectionTable {
    /// Returns the place of the next connection.
    pub(crate) fn next_index(&self) -> usize {
        self.places.vacant_key()
    }

    /// Reserves a place for a new connection.
    pub(crate) fn reserve(&mut self, stream: TcpStream, ends: Ends) -> Box<Connection> {
        self.generation += 1;
        let key = ConnectionKey { index: self.places.insert(None), generation: self.generation };
        self.by_id.insert(ends.id, key.index);
        Box::new(Connection::new(stream, ends, key))
    }

    /// Frees the place of a connection that was taken out.
    pub(crate) fn remove(&mut self, connection: &Connection) {
        self.places.remove(connection.key.index);
        self.by_id.remove(&connection.ends.id);
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

    /// Puts a connection back.
    pub(crate) fn put(&mut self, connection: Box<Connection>) {
        let index = connection.key.index;
        self.places[index] = Some(connection);
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Connection> {
        self.places.get(index)?.as_deref()
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
