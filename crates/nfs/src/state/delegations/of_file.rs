//! The delegations of a file: nearly always one, but thousands of clients may hold some that only read.

use std::sync::Arc;

use crate::state::clients::client::Client;
use crate::state::delegations::ConflictKind;
use crate::state::ids::{ClientId, Other};
use crate::state::stateids::entry::{Recall, StateEntry};

/// The place of a delegation among those of its file.
pub(in crate::state) type Place = (ClientId, Other);

/// The delegations of a file, in the order of their clients. A conflict finds the first ones at once.
#[derive(Debug, Default)]
pub(crate) struct Delegations {
    /// At most one, unless records are damaged.
    to_write: Vec<Arc<StateEntry>>,
    to_read: Vec<Arc<StateEntry>>,
}

/// Returns the place of a delegation.
pub(in crate::state) fn place(entry: &StateEntry) -> Place {
    (entry.client.id, entry.other)
}

impl Delegations {
    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.to_write.is_empty() && self.to_read.is_empty()
    }

    /// Returns whether one allows its holder to write.
    pub(crate) fn has_any_to_write(&self) -> bool {
        !self.to_write.is_empty()
    }

    /// Returns whether the first delegation is being recalled, as all are once a conflict begins.
    pub(crate) fn are_recalled(&self) -> bool {
        let first = self.to_write.first().or(self.to_read.first()).and_then(|entry| entry.as_delegation());
        first.is_some_and(|delegation| delegation.recall() != Recall::Held)
    }

    /// Returns one of a client.
    pub(crate) fn of_client(&self, client: &Client) -> Option<&Arc<StateEntry>> {
        let mut lists = [&self.to_write, &self.to_read].into_iter();
        lists.find_map(|list| {
            let index = list.partition_point(|entry| entry.client.id < client.id);
            list.get(index).filter(|entry| entry.client.id == client.id)
        })
    }

    /// Returns whether this one is among them.
    pub(crate) fn contains(&self, entry: &StateEntry) -> bool {
        self.list(entry).binary_search_by_key(&place(entry), |other| place(other)).is_ok()
    }

    /// Adds one.
    pub(crate) fn insert(&mut self, entry: Arc<StateEntry>) {
        let list = self.list_mut(&entry);
        if let Err(index) = list.binary_search_by_key(&place(&entry), |other| place(other)) {
            list.insert(index, entry);
        }
    }

    /// Removes one.
    pub(crate) fn remove(&mut self, entry: &StateEntry) {
        let list = self.list_mut(entry);
        if let Ok(index) = list.binary_search_by_key(&place(entry), |other| place(other)) {
            list.remove(index);
        }
    }

    /// Iterates over those that conflict, of clients other than `own`, by their places after `after` if it is given.
    pub(crate) fn conflicting(
        &self,
        own: Option<ClientId>,
        conflict: ConflictKind,
        after: Option<Place>,
    ) -> impl Iterator<Item = &Arc<StateEntry>> {
        let to_read = match conflict {
            ConflictKind::Read => &[][..],
            ConflictKind::Modify => &self.to_read,
        };
        let from = |list: &[Arc<StateEntry>]| {
            after.map_or(0, |after| list.partition_point(|entry| place(entry) <= after))
        };
        // There are few write delegations: the first part contained them all.
        let to_write = if after.is_some() { &[][..] } else { &self.to_write };
        let to_read = to_read.get(from(to_read)..).unwrap_or_default();
        to_write.iter().chain(to_read).filter(move |entry| own != Some(entry.client.id))
    }

    fn list(&self, entry: &StateEntry) -> &Vec<Arc<StateEntry>> {
        if writes(entry) { &self.to_write } else { &self.to_read }
    }

    fn list_mut(&mut self, entry: &StateEntry) -> &mut Vec<Arc<StateEntry>> {
        if writes(entry) { &mut self.to_write } else { &mut self.to_read }
    }
}

fn writes(entry: &StateEntry) -> bool {
    entry.as_delegation().is_some_and(|delegation| delegation.write)
}
