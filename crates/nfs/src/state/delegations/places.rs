//! A fixed number of places, each with a number, that keys share by their hash.

use std::hash::{BuildHasher as _, Hash};
use std::sync::atomic::AtomicU32;

// The keys that share a place are the same in each run of a test.
#[cfg(test)]
use foldhash::fast::FixedState as Hasher;
#[cfg(not(test))]
use foldhash::fast::RandomState as Hasher;

/// Places for each delegation that there may be.
const PLACES_PER_DELEGATION: u64 = 8;
/// Places at most, in a mebibyte.
const PLACES_MAX: usize = 256 << 10;
/// Memory of the places for each delegation that there may be.
pub(crate) const BYTES_PER_DELEGATION: u64 = PLACES_PER_DELEGATION * size_of::<AtomicU32>() as u64;

/// The places. Clients cannot know which keys share one.
#[derive(Debug)]
pub(super) struct Places {
    places: Box<[AtomicU32]>,
    hasher: Hasher,
}

impl Places {
    /// Makes places for a server that grants up to this many delegations.
    pub(super) fn new(delegations: u64) -> Places {
        let places = delegations.saturating_mul(PLACES_PER_DELEGATION);
        let places = usize::try_from(places).unwrap_or(usize::MAX).clamp(1, PLACES_MAX);
        Places {
            places: std::iter::repeat_with(AtomicU32::default).take(places).collect(),
            hasher: Hasher::default(),
        }
    }

    /// Returns the place of a key, and its hash.
    pub(super) fn of(&self, key: impl Hash) -> (&AtomicU32, u64) {
        let hash = self.hasher.hash_one(key);
        let place = usize::try_from(hash % self.places.len() as u64).unwrap_or(0);
        (self.places.get(place).expect("a remainder of their number"), hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_places_as_delegations_need_within_a_mebibyte() {
        let count = |delegations| Places::new(delegations).places.len();
        assert_eq!((count(0), count(2), count(u64::MAX)), (1, 16, PLACES_MAX));
    }
}
