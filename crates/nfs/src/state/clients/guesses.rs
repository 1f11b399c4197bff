//! How often hosts introduce themselves by the name of a client elsewhere, with a verifier that is not the client's.
//!
//! The verifier proves that an address belongs to a client. But most of its 64 bits can be known: Linux uses the time at which it
//! started. So each origin has few tries.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use volume::time::Time;

/// Wrong verifiers of an origin in a [`WINDOW`]; beyond that, its introductions prove nothing until the window ends. Hosts that
/// share a name have as many, each for its own start.
pub(in crate::state) const WRONG_VERIFIERS_MAX: u32 = 16;

/// How long wrong verifiers are counted, from the first one.
pub(in crate::state) const WINDOW: Duration = Duration::from_secs(60);

/// Origins whose wrong verifiers are counted separately. While there are this many, further origins are counted in groups, and each
/// group has as many tries as an origin. The grouping is secret, so a few origins cannot use up the tries of all.
const ORIGINS_MAX: usize = 4096;

/// The wrong verifiers of each origin, or of several.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    by_origin: HashMap<IpAddr, Tries>,
    /// The origins in the order in which their windows began.
    began: VecDeque<(Time, IpAddr)>,
    groups: HashMap<u8, Tries>,
    /// Chooses the group of an origin.
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Tries {
    began: Time,
    wrong: u32,
}

impl Default for Tries {
    fn default() -> Tries {
        Tries { began: Time::EPOCH, wrong: 0 }
    }
}

impl Tries {
    fn wrong(&self, now: Time) -> u32 {
        if now.since(self.began) > WINDOW { 0 } else { self.wrong }
    }

    fn count(&mut self, now: Time) {
        let wrong = self.wrong(now).saturating_add(1);
        if wrong == 1 {
            self.began = now;
        }
        self.wrong = wrong;
    }
}

impl Guesses {
    /// Returns whether a verifier from `origin` may be compared with those of clients elsewhere.
    pub(super) fn may_try(&self, origin: IpAddr, now: Time) -> bool {
        match self.by_origin.get(&origin) {
            Some(tries) => tries.wrong(now) < WRONG_VERIFIERS_MAX,
            None if self.by_origin.len() < ORIGINS_MAX || self.is_first_over(now) => true,
            None => {
                let group = self.groups.get(&self.group(origin));
                group.is_none_or(|tries| tries.wrong(now) < WRONG_VERIFIERS_MAX)
            }
        }
    }

    /// Returns the group in which an origin counts that is not counted by itself.
    fn group(&self, origin: IpAddr) -> u8 {
        let [group, ..] = self.hasher.hash_one(origin).to_be_bytes();
        group
    }

    /// Counts a wrong verifier.
    pub(super) fn count(&mut self, origin: IpAddr, now: Time) {
        while self.is_first_over(now) {
            let first = self.began.pop_front();
            first.map(|(_, origin)| self.by_origin.remove(&origin));
        }
        if let Some(tries) = self.by_origin.get_mut(&origin) {
            tries.count(now);
        } else if self.by_origin.len() < ORIGINS_MAX {
            self.by_origin.insert(origin, Tries { began: now, wrong: 1 });
            self.began.push_back((now, origin));
        } else {
            self.groups.entry(self.group(origin)).or_default().count(now);
        }
    }

    /// Whether the window that began first is over.
    fn is_first_over(&self, now: Time) -> bool {
        self.began.front().is_some_and(|(began, _)| now.since(*began) > WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(1_000_000_000_000).plus(Duration::from_secs(seconds))
    }

    fn origin(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn an_origin_has_few_tries_in_a_window() {
        let mut guesses = Guesses::default();
        (0..WRONG_VERIFIERS_MAX).for_each(|_| guesses.count(origin(1), at(0)));
        assert!(!guesses.may_try(origin(1), at(60)) && guesses.may_try(origin(2), at(0)));
        assert!(guesses.may_try(origin(1), at(61)));
    }

    #[test]
    fn very_many_origins_leave_others_tries_and_are_forgotten_with_their_windows() {
        let mut guesses = Guesses::default();
        (0..5000).for_each(|number| guesses.count(origin(number), at(0)));
        (0..WRONG_VERIFIERS_MAX).for_each(|_| guesses.count(origin(6000), at(1)));
        assert!(!guesses.may_try(origin(6000), at(1)), "no more than the others");
        let left = (7000..8000).filter(|number| guesses.may_try(origin(*number), at(1))).count();
        assert!(left > 900, "only those of its group have none: {left}");
        assert!(guesses.may_try(origin(6000), at(61)));
        guesses.count(origin(6000), at(62));
        assert_eq!((guesses.by_origin.len(), guesses.began.len()), (1, 1));
    }
}
