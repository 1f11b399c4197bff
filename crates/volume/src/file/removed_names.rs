//! Stretches of a directory in which all names are removed, so that a listing need not pass over each of them again.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::api::ids::Cookie;

/// Most stretches that are remembered for a directory; beyond, the shortest is forgotten. Each stands for thousands of
/// removed names that no checkpoint has taken out of the index yet, of which there are no more than two memtables hold.
const STRETCHES_MAX: usize = 1024;

/// Memory of a stretch, bytes.
const STRETCH_BYTES: u64 = 32;

/// What all listings of one directory found: stretches that do not touch each other, by their first cookie.
#[derive(Debug, Default)]
pub struct RemovedNames(BTreeMap<Cookie, Cookie>);

impl RemovedNames {
    /// Returns the first cookie from `cookie` on that may have a name, as far as is known.
    pub fn after(&self, cookie: Cookie) -> Cookie {
        self.0.range(..=cookie).next_back().map_or(cookie, |(_, end)| cookie.max(*end))
    }

    /// Notes that no name has a cookie of this range: nor will any have one, as cookies are never reused. Stretches that
    /// touch become one, wherever in them the listings began.
    pub fn note(&mut self, mut range: Range<Cookie>) {
        while let Some((start, end)) =
            self.0.range(..=range.end).next_back().map(|(start, end)| (*start, *end))
            && end >= range.start
        {
            self.0.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        if self.0.len() >= STRETCHES_MAX {
            let shortest = self.0.iter().min_by_key(|(start, end)| end.0 - start.0).map(|(start, _)| *start);
            shortest.and_then(|start| self.0.remove(&start));
        }
        self.0.insert(range.start, range.end);
    }

    /// Returns the memory of the stretches, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.0.len() as u64 * STRETCH_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64) -> Range<Cookie> {
        Cookie(from)..Cookie(to)
    }

    #[test]
    fn stretches_that_touch_become_one() {
        let mut removed = RemovedNames::default();
        removed.note(range(10, 20));
        removed.note(range(10, 30));
        removed.note(range(30, 40));
        removed.note(range(50, 60));
        assert_eq!((removed.after(Cookie(10)), removed.after(Cookie(39))), (Cookie(40), Cookie(40)));
        assert_eq!((removed.after(Cookie(9)), removed.after(Cookie(40))), (Cookie(9), Cookie(40)));
        removed.note(range(5, 55));
        assert_eq!((removed.after(Cookie(5)), removed.0.len()), (Cookie(60), 1));
    }

    #[test]
    fn listings_that_begin_anywhere_help_each_other() {
        let mut removed = RemovedNames::default();
        // Each passes over 100 names at a time; one after the other, from the last to the first.
        let mut listings: Vec<u64> = (0..50).rev().map(|listing| 3 * listing + 1).collect();
        for _ in 0..100 {
            for at in &mut listings {
                let from = removed.after(Cookie(*at)).0;
                removed.note(range(*at, from + 100));
                *at = from + 100;
            }
        }
        assert_eq!(removed.0.len(), 1);
        assert!(removed.after(Cookie(1)) > Cookie(99 * 50 * 100), "no two of them did the same");
    }

    #[test]
    fn the_shortest_of_too_many_is_forgotten() {
        let mut removed = RemovedNames::default();
        for number in 0..=STRETCHES_MAX as u64 {
            removed.note(range(1000 * number, 1000 * number + if number == 7 { 50 } else { 100 }));
        }
        assert_eq!(removed.0.len(), STRETCHES_MAX);
        assert_eq!((removed.after(Cookie(0)), removed.after(Cookie(7000))), (Cookie(100), Cookie(7000)));
        assert_eq!(removed.memory_bytes(), STRETCHES_MAX as u64 * STRETCH_BYTES);
    }
}
