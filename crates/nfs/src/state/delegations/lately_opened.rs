//! The files that clients opened lately: a client that opens a file again is likely to do so once more.
//!
//! A delegation costs its holder one call to return it, and saves the OPEN and CLOSE of each further open. So a file that
//! is opened once had better not be delegated. This is a guess, and forgetting costs nothing but a delegation: each
//! file has one place, which the next file that hashes to it takes.

use std::sync::atomic::Ordering;

use crate::state::delegations::places::Places;
use crate::state::ids::{ClientId, FileId};

/// A place that no open has taken.
const EMPTY: u32 = 0;

/// Marks of opens, each at the place of its client and file.
#[derive(Debug)]
pub(crate) struct LatelyOpened {
    marks: Places,
}

impl LatelyOpened {
    /// Makes places for a server that grants up to this many delegations.
    pub(crate) fn new(delegations: u64) -> LatelyOpened {
        LatelyOpened { marks: Places::new(delegations) }
    }

    /// Notes that a client opens a file. Returns whether it opened it before, as far as is remembered.
    pub(crate) fn note(&self, client: ClientId, file: FileId) -> bool {
        let (place, hash) = self.marks.of((client, file));
        let mark = u32::try_from(hash >> 32).unwrap_or(EMPTY).max(EMPTY + 1);
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
        assert!(!(0..10_000).any(|ino| opened.note(ClientId(1), file(ino))));
        let again = (0..10_000).filter(|ino| opened.note(ClientId(1), file(*ino))).count();
        assert!(again <= 16, "{again}");
    }
}
