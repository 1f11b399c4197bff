//! Calls that a limit of a volume keeps waiting, in the order in which they came, over all event loops.
//!
//! A call that finds no room joins the line of what it needs (a volume's journal, say). Only the first in a line is tried
//! again; a newcomer that needs the same joins without a try, so it never overtakes. The loops hold the calls; here are
//! their numbers only. Nothing of this is touched while nobody waits, but one counter that is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::net::mailbox::Mailbox;

/// A place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Which line.
    pub(crate) line: usize,
    /// A number that grows with time.
    pub(crate) number: u64,
}

/// One line.
#[derive(Default)]
struct Line {
    /// Of those that wait, by number: their loop.
    waiting: Mutex<BTreeMap<u64, usize>>,
    length: AtomicUsize,
}

/// All lines.
pub(crate) struct Lines {
    lines: Vec<Line>,
    next: AtomicU64,
    /// Calls in all lines.
    length: AtomicUsize,
    mailboxes: Vec<Arc<Mailbox>>,
}

impl Lines {
    /// So many lines, for loops with these mailboxes.
    pub(crate) fn new(count: usize, mailboxes: Vec<Arc<Mailbox>>) -> Lines {
        let lines = std::iter::repeat_with(Line::default).take(count).collect();
        Lines { lines, next: AtomicU64::new(0), length: AtomicUsize::new(0), mailboxes }
    }

    /// Calls that wait.
    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Whether anybody waits in a line.
    pub(crate) fn is_waiting(&self, line: usize) -> bool {
        self.lines[line].length.load(Ordering::Acquire) > 0
    }

    /// Takes the last place for a call of a loop; one that had a place gets it back.
    pub(crate) fn join(&self, line: usize, place: Option<Place>, loop_number: usize) -> Place {
        let mut waiting = self.lines[line].waiting.lock();
        // The number is drawn under the lock, so that numbers of one line grow with its length.
        let place =
            place.unwrap_or_else(|| Place { line, number: self.next.fetch_add(1, Ordering::Relaxed) });
        if waiting.insert(place.number, loop_number).is_none() {
            self.lines[line].length.fetch_add(1, Ordering::Release);
            self.length.fetch_add(1, Ordering::Relaxed);
        }
        place
    }

    /// Whether it is this one's turn.
    pub(crate) fn is_first(&self, place: Place) -> bool {
        self.lines[place.line].waiting.lock().keys().next() == Some(&place.number)
    }

    /// Gives a place up.
    pub(crate) fn leave(&self, place: Place) {
        let line = &self.lines[place.line];
        if line.waiting.lock().remove(&place.number).is_some() {
            line.length.fetch_sub(1, Ordering::Release);
            self.length.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Tells the loop of the first in a line that it is its turn, unless that is the loop that asks.
    pub(crate) fn call_first(&self, line: usize, loop_number: usize) {
        let first = self.lines[line].waiting.lock().values().next().copied();
        if let Some(first) = first.filter(|first| *first != loop_number) {
            self.mailboxes[first].announce_progress();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_first_is_first() {
        let lines = Lines::new(2, Vec::new());
        let places: Vec<Place> = (0..3).map(|_| lines.join(1, None, 0)).collect();
        assert!(lines.is_waiting(1) && !lines.is_waiting(0));
        assert_eq!(
            places.iter().map(|place| lines.is_first(*place)).collect::<Vec<_>>(),
            [true, false, false]
        );
        lines.leave(places[0]);
        assert!(lines.is_first(places[1]));
        assert_eq!(lines.join(1, Some(places[0]), 0), places[0], "who tried in vain is first again");
        assert!(lines.is_first(places[0]));
        for place in places {
            lines.leave(place);
            lines.leave(place);
        }
        assert_eq!((lines.len(), lines.is_waiting(1)), (0, false));
    }
}
