//! Stretches of a directory in which all names are removed, so that a listing need not pass over each of them again.

use std::ops::Range;

use crate::api::ids::Cookie;

/// Most stretches that are remembered for a directory; beyond, the one that was noted first is forgotten.
const STRETCHES_MAX: usize = 8;

/// What listings of one directory found.
#[derive(Debug, Default)]
pub struct RemovedNames(Vec<Range<Cookie>>);

impl RemovedNames {
    /// Returns the first cookie from `cookie` on that may have a name, as far as is known.
    pub fn after(&self, cookie: Cookie) -> Cookie {
        self.0.iter().find(|stretch| stretch.contains(&cookie)).map_or(cookie, |stretch| stretch.end)
    }

    /// Notes that no name has a cookie of this range: nor will any have one, as cookies are never reused.
    pub fn note(&mut self, range: Range<Cookie>) {
        if let Some(known) =
            self.0.iter_mut().find(|known| known.start <= range.start && range.start <= known.end)
        {
            known.end = known.end.max(range.end);
            return;
        }
        if self.0.len() == STRETCHES_MAX {
            self.0.remove(0);
        }
        self.0.push(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_grow_and_the_oldest_gives_way() {
        let mut removed = RemovedNames::default();
        let range = |from, to| Cookie(from)..Cookie(to);
        removed.note(range(10, 20));
        removed.note(range(10, 30));
        removed.note(range(30, 40));
        assert_eq!((removed.after(Cookie(10)), removed.after(Cookie(39))), (Cookie(40), Cookie(40)));
        assert_eq!((removed.after(Cookie(9)), removed.after(Cookie(40))), (Cookie(9), Cookie(40)));
        for number in 1..=7 {
            removed.note(range(100 * number, 100 * number + 50));
        }
        assert_eq!((removed.after(Cookie(10)), removed.after(Cookie(700))), (Cookie(40), Cookie(750)));
        removed.note(range(900, 950));
        assert_eq!((removed.after(Cookie(10)), removed.after(Cookie(100))), (Cookie(10), Cookie(150)));
    }
}
