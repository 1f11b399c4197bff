//! The lock states of a file: each owner has one, which depends on an open.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;

use crate::state::clients::client::LockOwner;
use crate::state::ids::Other;
use crate::state::locks::ranges::Owner as _;
use crate::state::stateids::entry::StateEntry;

/// Lock states that are looked through one by one. Most files that have any have fewer.
const FEW_MAX: usize = 8;
/// With so few, tables become a list again.
const FEW_AGAIN: usize = 6;

/// Lock states, found by their owner and by the open that they depend on, however many there are.
/// Most files have none, so this is boxed.
#[derive(Debug, Default)]
pub(crate) struct LockStates(Option<Box<States>>);

#[derive(Debug)]
enum States {
    /// At most [`FEW_MAX`].
    Few(Vec<Arc<StateEntry>>),
    /// More than [`FEW_AGAIN`].
    Many(Box<Tables>),
}

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

    /// Returns the states as a list or as tables.
    fn parts(&self) -> (&[Arc<StateEntry>], Option<&Tables>) {
        match self.0.as_deref() {
            None => (&[], None),
            Some(States::Few(few)) => (few, None),
            Some(States::Many(tables)) => (&[], Some(tables)),
        }
    }

    /// Returns the state of an owner.
    pub(crate) fn of(&self, owner: &Arc<LockOwner>) -> Option<&Arc<StateEntry>> {
        let (few, many) = self.parts();
        let listed = few.iter().find(|entry| owner_of(entry) == Some(owner.number()));
        listed.or_else(|| many?.by_owner.get(&owner.number()))
    }

    /// Returns the states that depend on an open.
    pub(crate) fn depending_on(&self, open: &StateEntry) -> impl Iterator<Item = &Arc<StateEntry>> {
        let (other, (few, many)) = (open.other, self.parts());
        let listed =
            few.iter().filter(move |entry| entry.as_locks().is_some_and(|locks| locks.open.other == other));
        let tabled = many.into_iter().flat_map(move |tables| {
            let depending = tables.by_open.range((other, 0)..=(other, u64::MAX));
            depending.filter_map(|(_, owner)| tables.by_owner.get(owner))
        });
        listed.chain(tabled)
    }

    /// Adds a state; other entries are ignored.
    pub(crate) fn insert(&mut self, entry: &Arc<StateEntry>) {
        let Some(locks) = entry.as_locks() else { return };
        locks.owner.note_state(entry);
        let states = self.0.get_or_insert_with(|| Box::new(States::Few(Vec::new())));
        match states.as_mut() {
            States::Few(few) if few.len() < FEW_MAX => few.push(Arc::clone(entry)),
            States::Few(few) => {
                let mut tables = Tables::default();
                few.iter().chain([entry]).for_each(|entry| tables.insert(entry));
                **states = States::Many(Box::new(tables));
            }
            States::Many(tables) => tables.insert(entry),
        }
    }

    /// Removes a state. Returns whether it was there.
    pub(crate) fn remove(&mut self, entry: &StateEntry) -> bool {
        let (Some(locks), Some(states)) = (entry.as_locks(), &mut self.0) else { return false };
        locks.owner.forget_state(entry);
        let number = locks.owner.number();
        let (was_there, left) = match states.as_mut() {
            States::Few(few) => {
                let before = few.len();
                few.retain(|other| owner_of(other) != Some(number));
                (few.len() < before, few.len())
            }
            States::Many(tables) => {
                tables.by_open.remove(&(locks.open.other, number));
                let was_there = tables.by_owner.remove(&number).is_some();
                let left = tables.by_owner.len();
                if left <= FEW_AGAIN {
                    **states = States::Few(tables.to_list());
                }
                (was_there, left)
            }
        };
        if left == 0 {
            self.0 = None;
        }
        was_there
    }
}

impl Tables {
    fn insert(&mut self, entry: &Arc<StateEntry>) {
        if let Some(locks) = entry.as_locks() {
            self.by_owner.insert(locks.owner.number(), Arc::clone(entry));
            self.by_open.insert((locks.open.other, locks.owner.number()));
        }
    }

    fn to_list(&self) -> Vec<Arc<StateEntry>> {
        self.by_open.iter().filter_map(|(_, owner)| self.by_owner.get(owner).cloned()).collect()
    }
}

/// Returns the number of the owner of a lock state.
fn owner_of(entry: &StateEntry) -> Option<u64> {
    entry.as_locks().map(|locks| locks.owner.number())
}
