//! Files that protocols hold open, and files without a name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::api::ids::{Ino, ObjectId, VolumeNumber};
use crate::api::quotas::Owner;
use crate::quotas::Owners;

/// Held files, and files without a name.
#[derive(Debug, Default)]
pub struct Orphans {
    state: Mutex<Holds>,
}

#[derive(Debug, Default)]
struct Holds {
    /// Number of holders of each file.
    held: HashMap<ObjectId, u64>,
    /// Files without a name, and their owners, if they lost it since the start.
    orphans: BTreeMap<ObjectId, Option<Owners>>,
    /// Orphans that are to be removed.
    leaving: BTreeSet<ObjectId>,
    /// How many of them each owner has; none stands for owners that are not known.
    leaving_of: HashMap<(VolumeNumber, Option<Owner>), u64>,
}

impl Holds {
    fn begin_leaving(&mut self, id: ObjectId) {
        if let Some(owners) = self.orphans.get(&id)
            && self.leaving.insert(id)
        {
            for owner in counted(*owners) {
                *self.leaving_of.entry((id.volume, owner)).or_default() += 1;
            }
        }
    }

    /// Undoes [`Holds::begin_leaving`]. Returns whether the orphan was leaving.
    fn end_leaving(&mut self, id: ObjectId) -> bool {
        let was_leaving = self.leaving.remove(&id);
        if was_leaving && let Some(owners) = self.orphans.get(&id) {
            for owner in counted(*owners) {
                let counter = (id.volume, owner);
                let left = self.leaving_of.get(&counter).map_or(0, |count| count - 1);
                if left == 0 {
                    self.leaving_of.remove(&counter);
                } else {
                    self.leaving_of.insert(counter, left);
                }
            }
        }
        was_leaving
    }
}

/// Returns the owners for whom an orphan is counted.
fn counted(owners: Option<Owners>) -> impl Iterator<Item = Option<Owner>> {
    let unknown = owners.is_none().then_some(None);
    owners.into_iter().flat_map(|owners| owners.each().map(Some)).chain(unknown)
}

impl Orphans {
    /// Returns the orphans of a volume that is opened: they stay until [`Orphans::release_unheld`] is called.
    pub fn new(orphans: BTreeSet<ObjectId>) -> Orphans {
        let orphans = orphans.into_iter().map(|id| (id, None)).collect();
        Orphans { state: Mutex::new(Holds { orphans, ..Holds::default() }) }
    }

    /// Whether a file has holders.
    pub fn is_held(&self, id: ObjectId) -> bool {
        self.state.lock().held.contains_key(&id)
    }

    /// Adds a held file that lost its last name. Its holder may have released it meanwhile.
    pub(crate) fn add(&self, id: ObjectId, owners: Owners) {
        let mut state = self.state.lock();
        state.orphans.insert(id, Some(owners));
        if !state.held.contains_key(&id) {
            state.begin_leaving(id);
        }
    }

    /// Notes the new owners of a file, if it is an orphan.
    pub(crate) fn change_owners(&self, id: ObjectId, owners: Owners) {
        let mut state = self.state.lock();
        let was_leaving = state.end_leaving(id);
        state.orphans.entry(id).and_modify(|known| *known = Some(owners));
        if was_leaving {
            state.begin_leaving(id);
        }
    }

    /// Forgets a removed orphan.
    pub fn remove(&self, id: ObjectId) {
        let mut state = self.state.lock();
        state.end_leaving(id);
        state.orphans.remove(&id);
    }

    /// Forgets everything about a deleted volume.
    pub fn forget_volume(&self, volume: VolumeNumber) {
        let mut state = self.state.lock();
        state.held.retain(|id, _| id.volume != volume);
        state.orphans.retain(|id, _| id.volume != volume);
        state.leaving.retain(|id| id.volume != volume);
        state.leaving_of.retain(|(of, _), _| *of != volume);
    }

    /// Adds a holder of a file.
    pub fn hold(&self, id: ObjectId) {
        let mut state = self.state.lock();
        *state.held.entry(id).or_default() += 1;
        state.end_leaving(id);
    }

    /// Removes a holder of a file; an orphan without holders is to be removed.
    pub fn release(&self, id: ObjectId) {
        let mut state = self.state.lock();
        let Some(times) = state.held.get_mut(&id) else { return };
        *times -= 1;
        if *times == 0 {
            state.held.remove(&id);
            state.begin_leaving(id);
        }
    }

    /// Returns the orphans of a volume, by number.
    pub fn list(&self, volume: VolumeNumber) -> Vec<Ino> {
        self.state.lock().orphans.range(all_of(volume)).map(|(id, _)| id.ino).collect()
    }

    /// Marks the orphans of a volume without holders for removal.
    pub fn release_unheld(&self, volume: VolumeNumber) {
        let mut state = self.state.lock();
        let orphans = state.orphans.range(all_of(volume)).map(|(id, _)| *id);
        let unheld: Vec<ObjectId> = orphans.filter(|id| !state.held.contains_key(id)).collect();
        unheld.into_iter().for_each(|id| state.begin_leaving(id));
    }

    /// Returns the next orphan to remove.
    pub fn next_to_remove(&self) -> Option<ObjectId> {
        self.state.lock().leaving.first().copied()
    }

    /// Whether files are to be removed that count for an owner, or may do so.
    pub fn are_leaving(&self, volume: VolumeNumber, owner: Owner) -> bool {
        let state = self.state.lock();
        [Some(owner), None].iter().any(|owner| state.leaving_of.contains_key(&(volume, *owner)))
    }

    /// Leaves an orphan for the next start.
    pub fn give_up(&self, id: ObjectId) {
        self.state.lock().end_leaving(id);
    }

    /// Returns the number of orphans.
    pub fn len(&self) -> usize {
        self.state.lock().orphans.len()
    }
}

/// Returns the range of all objects of a volume.
fn all_of(volume: VolumeNumber) -> RangeInclusive<ObjectId> {
    volume.object(Ino(0))..=volume.object(Ino(u64::MAX))
}
