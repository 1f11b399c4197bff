//! The files that clients opened lately: a client that opens a file again is likely to do so once more.
//!
//! A delegation costs its holder one call to return it, and saves the OPEN and CLOSE of each further open. So a file that
//! is opened once had better not be delegated. This is a guess, and forgetting costs nothing but a delegation: each
//! file has one place, which the next file that hashes to it takes.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU32, Ordering};

use foldhash::fast::RandomState;

use crate::state::ids::{ClientId, FileId};

/// Opens that are remembered for each delegation that there may be: most are not repeated.
const PLACES_PER_DELEGATION: u64 = 8;
/// Opens that are remembered at most, in a mebibyte.
const PLACES_MAX: usize = 256 << 10;
/// Memory of the opens remembered for each delegation that there may be.
pub(crate) const BYTES_PER_DELEGATION: u64 = PLACES_PER_DELEGATION * size_of::<AtomicU32>() as u64;
/// A place that no open has taken.
const EMPTY: u32 = 0;

/// Marks of opens, each at the place of its client and file.
#[derive(Debug)]
pub(crate) struct LatelyOpened {
    places: Box<[AtomicU32]>,
    hasher: RandomState,
}

impl LatelyOpened {
    /// Makes room for what leads to so many delegations.
    pub(crate) fn new(delegations: u64) -> LatelyOpened {
        let places = delegations.saturating_mul(PLACES_PER_DELEGATION);
        let places = usize::try_from(places).unwrap_or(usize::MAX).clamp(1, PLACES_MAX);
        LatelyOpened {
            places: std::iter::repeat_with(|| AtomicU32::new(EMPTY)).take(places).collect(),
            hasher: RandomState::default(),
        }
    }

    /// Notes that a client opens a file. Returns whether it opened it before, as far as is remembered.
    pub(crate) fn note(&self, client: ClientId, file: FileId) -> bool {
        let hash = self.hasher.hash_one((client, file));
        let mark = u32::try_from(hash >> 32).unwrap_or(EMPTY).max(EMPTY + 1);
        let place = usize::try_from(hash % self.places.len() as u64).unwrap_or(0);
        let place = self.places.get(place).expect("a remainder of their number");
        place.swap(mark, Ordering::Relaxed) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::file;

    #[test]
    fn only_repeated_opens_by_the_same_client_are_remembered() {
        let opened = LatelyOpened::new(1 << 20);
        let first = (0..100).filter(|ino| opened.note(ClientId(1), file(*ino))).count();
        let other = (0..100).filter(|ino| opened.note(ClientId(2), file(*ino))).count();
        let again = (0..100).filter(|ino| opened.note(ClientId(1), file(*ino))).count();
        assert_eq!((first, other), (0, 0));
        assert!(again > 90, "{again} of 100: places are rarely shared");
    }

    #[test]
    fn later_opens_take_the_places_of_earlier_ones() {
        let opened = LatelyOpened::new(2);
        assert_eq!(opened.places.len(), 16);
        assert!(!(0..10_000).any(|ino| opened.note(ClientId(1), file(ino))));
        let again = (0..10_000).filter(|ino| opened.note(ClientId(1), file(*ino))).count();
        assert!(again <= 16, "{again}");
    }
}
