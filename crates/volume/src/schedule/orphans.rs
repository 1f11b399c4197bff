//! Files that protocols hold open, and files without a name.

use std::collections::BTreeSet;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::api::ids::Ino;

/// Held files, and files without a name.
#[derive(Debug, Default)]
pub struct Orphans {
    state: Mutex<Holds>,
}

#[derive(Debug, Default)]
struct Holds {
    /// Number of holders of each file.
    held: HashMap<Ino, u64>,
    /// Files without a name.
    orphans: BTreeSet<Ino>,
    /// Orphans that are to be removed.
    leaving: BTreeSet<Ino>,
}

impl Orphans {
    /// Returns the orphans of a volume that is opened: they stay until [`Orphans::release_unheld`] is called.
    pub fn new(orphans: BTreeSet<Ino>) -> Orphans {
        Orphans { state: Mutex::new(Holds { orphans, ..Holds::default() }) }
    }

    /// Whether a file has holders.
    pub fn is_held(&self, ino: Ino) -> bool {
        self.state.lock().held.contains_key(&ino)
    }

    /// Adds a held file that lost its last name. Its holder may have released it meanwhile.
    pub fn add(&self, ino: Ino) {
        let mut state = self.state.lock();
        state.orphans.insert(ino);
        if !state.held.contains_key(&ino) {
            state.leaving.insert(ino);
        }
    }

    /// Forgets a removed orphan.
    pub fn remove(&self, ino: Ino) {
        let mut state = self.state.lock();
        state.orphans.remove(&ino);
        state.leaving.remove(&ino);
    }

    /// Adds a holder of a file.
    pub fn hold(&self, ino: Ino) {
        let mut state = self.state.lock();
        *state.held.entry(ino).or_default() += 1;
        state.leaving.remove(&ino);
    }

    /// Removes a holder of a file; an orphan without holders is to be removed.
    pub fn release(&self, ino: Ino) {
        let mut state = self.state.lock();
        let Some(times) = state.held.get_mut(&ino) else { return };
        *times -= 1;
        if *times == 0 {
            state.held.remove(&ino);
            if state.orphans.contains(&ino) {
                state.leaving.insert(ino);
            }
        }
    }

    /// Returns all orphans, by number.
    pub fn list(&self) -> Vec<Ino> {
        self.state.lock().orphans.iter().copied().collect()
    }

    /// Marks all orphans without holders for removal.
    pub fn release_unheld(&self) {
        let mut state = self.state.lock();
        let Holds { held, orphans, leaving } = &mut *state;
        leaving.extend(orphans.iter().filter(|ino| !held.contains_key(ino)));
    }

    /// Returns the next orphan to remove.
    pub fn next_to_remove(&self) -> Option<Ino> {
        self.state.lock().leaving.first().copied()
    }

    /// Leaves an orphan for the next start.
    pub fn give_up(&self, ino: Ino) {
        self.state.lock().leaving.remove(&ino);
    }

    /// Returns the number of orphans.
    pub fn len(&self) -> usize {
        self.state.lock().orphans.len()
    }
}
