//! Files that protocols hold open, and files without a name.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::api::ids::{Ino, ObjectId, VolumeNumber};

/// Held files, and files without a name.
#[derive(Debug, Default)]
pub struct Orphans {
    state: Mutex<Holds>,
}

#[derive(Debug, Default)]
struct Holds {
    /// Number of holders of each file.
    held: HashMap<ObjectId, u64>,
    /// Files without a name.
    orphans: BTreeSet<ObjectId>,
    /// Orphans that are to be removed.
    leaving: BTreeSet<ObjectId>,
}

impl Orphans {
    /// Returns the orphans of a volume that is opened: they stay until [`Orphans::release_unheld`] is called.
    pub fn new(orphans: BTreeSet<ObjectId>) -> Orphans {
        Orphans { state: Mutex::new(Holds { orphans, ..Holds::default() }) }
    }

    /// Whether a file has holders.
    pub fn is_held(&self, id: ObjectId) -> bool {
        self.state.lock().held.contains_key(&id)
    }

    /// Adds a held file that lost its last name. Its holder may have released it meanwhile.
    pub fn add(&self, id: ObjectId) {
        let mut state = self.state.lock();
        state.orphans.insert(id);
        if !state.held.contains_key(&id) {
            state.leaving.insert(id);
        }
    }

    /// Forgets a removed orphan.
    pub fn remove(&self, id: ObjectId) {
        let mut state = self.state.lock();
        state.orphans.remove(&id);
        state.leaving.remove(&id);
    }

    /// Adds a holder of a file.
    pub fn hold(&self, id: ObjectId) {
        let mut state = self.state.lock();
        *state.held.entry(id).or_default() += 1;
        state.leaving.remove(&id);
    }

    /// Removes a holder of a file; an orphan without holders is to be removed.
    pub fn release(&self, id: ObjectId) {
        let mut state = self.state.lock();
        let Some(times) = state.held.get_mut(&id) else { return };
        *times -= 1;
        if *times == 0 {
            state.held.remove(&id);
            if state.orphans.contains(&id) {
                state.leaving.insert(id);
            }
        }
    }

    /// Returns the orphans of a volume, by number.
    pub fn list(&self, volume: VolumeNumber) -> Vec<Ino> {
        self.state.lock().orphans.range(all_of(volume)).map(|id| id.ino).collect()
    }

    /// Marks the orphans of a volume without holders for removal.
    pub fn release_unheld(&self, volume: VolumeNumber) {
        let mut state = self.state.lock();
        let Holds { held, orphans, leaving } = &mut *state;
        leaving.extend(orphans.range(all_of(volume)).filter(|id| !held.contains_key(id)));
    }

    /// Returns the next orphan to remove.
    pub fn next_to_remove(&self) -> Option<ObjectId> {
        self.state.lock().leaving.first().copied()
    }

    /// Whether orphans of a volume are to be removed.
    pub fn are_leaving(&self, volume: VolumeNumber) -> bool {
        self.state.lock().leaving.range(all_of(volume)).next().is_some()
    }

    /// Leaves an orphan for the next start.
    pub fn give_up(&self, id: ObjectId) {
        self.state.lock().leaving.remove(&id);
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
