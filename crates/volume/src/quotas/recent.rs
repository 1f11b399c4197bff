//! Where the accounts of owners are that something was reserved for lately: found at once, instead of by a search for each of them.

use super::ledger::{Kinds, Owners};
use super::open::Place;

/// Places in the table, a power of two: directories in which objects are made at the same time.
const PLACES: usize = 64;

/// Owners with the kinds of those whose accounts are open, and where these are.
#[derive(Clone, Copy, Debug)]
struct Entry {
    owners: Owners,
    kinds: Kinds,
    places: [Place; 4],
}

/// A table in which owners have one place each.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Empty until something is reserved.
    entries: Vec<Option<Entry>>,
}

/// Returns the place of owners in the table.
#[inline]
fn place(owners: Owners) -> usize {
    let persons = u64::from(owners.uid) << 32 | u64::from(owners.gid);
    let mixed = (persons ^ owners.tree.rotate_left(16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 32).expect("32 bits") % PLACES
}

impl Recent {
    /// Returns what was put for these owners, if nothing took its place.
    #[inline]
    pub(super) fn get(&self, owners: Owners) -> Option<(Kinds, [Place; 4])> {
        let entry = self.entries.get(place(owners))?.as_ref().filter(|entry| entry.owners == owners)?;
        Some((entry.kinds, entry.places))
    }

    pub(super) fn put(&mut self, owners: Owners, kinds: Kinds, places: [Place; 4]) {
        self.entries.resize(PLACES, None);
        self.entries[place(owners)] = Some(Entry { owners, kinds, places });
    }

    /// Forgets everything, as accounts are opened or closed, or limits change.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}
