//! The lock states of a file: each owner has one, which depends on an open.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;

use crate::state::clients::client::LockOwner;
use crate::state::ids::Other;
use crate::state::locks::ranges::Owner as _;
use crate::state::stateids::entry::StateEntry;

/// Lock states, found by their owner and by the open that they depend on, however many there are.
/// Most files have none, so the tables are boxed.
#[derive(Debug, Default)]
pub(crate) struct LockStates(Option<Box<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    by_owner: HashMap<u64, Arc<StateEntry>>,
    /// Opens, and numbers of the owners.
    by_open: BTreeSet<(Other, u64)>,
}

impl LockStates {
    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the state of an owner.
    pub(crate) fn of(&self, owner: &Arc<LockOwner>) -> Option<&Arc<StateEntry>> {
        self.0.as_ref()?.by_owner.get(&owner.number())
    }

    /// Returns the states that depend on an open.
    pub(crate) fn depending_on(&self, open: &StateEntry) -> Vec<Arc<StateEntry>> {
        let Some(tables) = &self.0 else { return Vec::new() };
        let depending = tables.by_open.range((open.other, 0)..=(open.other, u64::MAX));
        depending.filter_map(|(_, owner)| tables.by_owner.get(owner).cloned()).collect()
    }

    /// Adds a state; other entries are ignored.
    pub(crate) fn insert(&mut self, entry: &Arc<StateEntry>) {
        if let Some(locks) = entry.as_locks() {
            let tables = self.0.get_or_insert_default();
            tables.by_owner.insert(locks.owner.number(), Arc::clone(entry));
            tables.by_open.insert((locks.open.other, locks.owner.number()));
            locks.owner.states.lock().insert(entry.other);
        }
    }

    /// Removes a state. Returns whether it was there.
    pub(crate) fn remove(&mut self, entry: &StateEntry) -> bool {
        let (Some(locks), Some(tables)) = (entry.as_locks(), &mut self.0) else { return false };
        tables.by_open.remove(&(locks.open.other, locks.owner.number()));
        locks.owner.states.lock().remove(&entry.other);
        let was_there = tables.by_owner.remove(&locks.owner.number()).is_some();
        if tables.by_owner.is_empty() {
            self.0 = None;
        }
        was_there
    }
}
