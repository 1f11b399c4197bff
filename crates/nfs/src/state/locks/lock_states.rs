//! The lock states of a file: each owner has one, which depends on an open.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;

use crate::state::clients::client::LockOwner;
use crate::state::ids::Other;
use crate::state::locks::ranges::Owner as _;
use crate::state::stateids::entry::StateEntry;

/// Lock states, found by their owner and by the open that they depend on, however many there are.
#[derive(Debug, Default)]
pub(crate) struct LockStates {
    by_owner: HashMap<u64, Arc<StateEntry>>,
    /// Opens, and numbers of the owners.
    by_open: BTreeSet<(Other, u64)>,
}

impl LockStates {
    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    /// Returns the state of an owner.
    pub(crate) fn of(&self, owner: &Arc<LockOwner>) -> Option<&Arc<StateEntry>> {
        self.by_owner.get(&owner.number())
    }

    /// Returns the states that depend on an open.
    pub(crate) fn depending_on(&self, open: &StateEntry) -> Vec<Arc<StateEntry>> {
        let depending = self.by_open.range((open.other, 0)..=(open.other, u64::MAX));
        depending.filter_map(|(_, owner)| self.by_owner.get(owner).cloned()).collect()
    }

    /// Adds a state; other entries are ignored.
    pub(crate) fn insert(&mut self, entry: &Arc<StateEntry>) {
        if let Some(locks) = entry.as_locks() {
            self.by_owner.insert(locks.owner.number(), Arc::clone(entry));
            self.by_open.insert((locks.open.other, locks.owner.number()));
            locks.owner.states.lock().insert(entry.other);
        }
    }

    /// Removes a state. Returns whether it was there.
    pub(crate) fn remove(&mut self, entry: &StateEntry) -> bool {
        let Some(locks) = entry.as_locks() else { return false };
        self.by_open.remove(&(locks.open.other, locks.owner.number()));
        locks.owner.states.lock().remove(&entry.other);
        self.by_owner.remove(&locks.owner.number()).is_some()
    }
}
