//! What the connections of each origin hold in one event loop.

use std::collections::HashMap;
use std::time::Instant;

use slab::Slab;

use super::Short;
use crate::connection_origin::ConnectionOrigin;
use crate::limits::{STANDING_REMEMBERED, THROTTLED_REMEMBERED};

/// Names an origin of a loop while it has connections, calls or replies there, or was not fast lately. Calls may outlive that:
/// for a name that is not in use any more nothing is held, and nothing is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OriginKey {
    index: u32,
    /// Which of the origins that used the place over time.
    generation: u32,
}

impl OriginKey {
    /// Returns a number that is less than the number of origins that there were at once.
    pub(super) fn place(self) -> usize {
        self.index as usize
    }
}

/// What is known of the pace of an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// One of its peers kept [`crate::limits::FAST_PACE_MIN`] lately.
    Fast,
    /// It is taken to be fast until the contrary is seen.
    #[default]
    Unknown,
    /// One of its peers did not.
    Steady,
    /// Rate limits held one of its calls: it keeps its memory for long, however fast its peers are.
    Throttled,
    /// One of its connections was closed because it did not keep [`crate::limits::PACE_MIN`] either.
    Slow,
}

impl Standing {
    pub(crate) fn half(self) -> Half {
        match self {
            Self::Fast | Self::Unknown => Half::Fast,
            Self::Steady | Self::Throttled | Self::Slow => Half::Steady,
        }
    }
}

/// A half of the memory, and the origins that are sure of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// Of those that are fast, or taken to be.
    Fast,
    /// Of all others.
    Steady,
}

impl Half {
    pub(crate) const BOTH: [Half; 2] = [Half::Fast, Half::Steady];

    /// Returns its place in a pair.
    pub(crate) fn index(self) -> usize {
        usize::from(self == Self::Steady)
    }

    pub(crate) fn other(self) -> Half {
        match self {
            Self::Fast => Self::Steady,
            Self::Steady => Self::Fast,
        }
    }
}

#[derive(Debug)]
struct Origin {
    name: ConnectionOrigin,
    generation: u32,
    connections: usize,
    held: Held,
    /// Bytes that were lent to it.
    lent: usize,
    standing: Standing,
    /// When its standing was last confirmed.
    confirmed: Instant,
}

/// Bytes that are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Records that are arriving, and calls that wait.
    pub(crate) requests: usize,
    /// Of these, small calls that were not answered at once.
    pub(crate) kept_calls: usize,
    /// Of these, input that was read and is not taken in before calls ahead of it are answered.
    pub(crate) rests: usize,
    /// Replies that are being made, wait or are unsent.
    pub(crate) replies: usize,
    /// Of these, the short ones of calls that were not answered at once: room for them, or the replies themselves.
    pub(crate) kept_short: usize,
}

impl Held {
    pub(crate) fn of(self, short: Short) -> usize {
        match short {
            Short::Requests => self.requests,
            Short::Replies => self.replies,
        }
    }

    /// Returns the part of it that calls keep which were not answered at once: small calls, or short replies.
    pub(crate) fn kept(self, short: Short) -> usize {
        match short {
            Short::Requests => self.kept_calls,
            Short::Replies => self.kept_short,
        }
    }

    /// Puts `after` in the place of `before`, which is a part of it.
    pub(crate) fn exchange(&mut self, before: Held, after: Held) {
        self.requests = self.requests - before.requests + after.requests;
        self.kept_calls = self.kept_calls - before.kept_calls + after.kept_calls;
        self.rests = self.rests - before.rests + after.rests;
        self.replies = self.replies - before.replies + after.replies;
        self.kept_short = self.kept_short - before.kept_short + after.kept_short;
    }
}

/// The origins of a loop.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    origins: Slab<Origin>,
    by_name: HashMap<ConnectionOrigin, usize>,
    next_generation: u32,
    /// The sum of what those hold that are not fast.
    held_by_steady: Held,
}

impl Origins {
    /// Adds a connection of this origin.
    pub(crate) fn join(&mut self, name: ConnectionOrigin) -> OriginKey {
        let (origins, generation) = (&mut self.origins, &mut self.next_generation);
        let index = *self.by_name.entry(name).or_insert_with(|| {
            *generation = generation.wrapping_add(1);
            origins.insert(Origin {
                name,
                generation: *generation,
                connections: 0,
                held: Held::default(),
                lent: 0,
                standing: Standing::Unknown,
                confirmed: Instant::now(),
            })
        });
        let origin = &mut origins[index];
        origin.connections += 1;
        let index = u32::try_from(index).expect("there are fewer connections");
        OriginKey { index, generation: origin.generation }
    }

    /// Removes a connection. What it held may still be counted.
    pub(crate) fn leave(&mut self, key: OriginKey) {
        if let Some(origin) = self.get_mut(key) {
            origin.connections -= 1;
            self.forget_if_unused(key.place());
        }
    }

    pub(crate) fn held(&self, key: OriginKey) -> Held {
        self.get(key).map_or_else(Held::default, |origin| origin.held)
    }

    /// Returns what the origins of a half hold, of `total` bytes that all hold.
    pub(crate) fn held_by(&self, half: Half, total: Held) -> Held {
        let steady = self.held_by_steady;
        match half {
            Half::Steady => steady,
            Half::Fast => {
                let mut fast = total;
                fast.exchange(steady, Held::default());
                fast
            }
        }
    }

    /// Changes what an origin holds: `after` in place of `before`.
    pub(crate) fn count(&mut self, key: OriginKey, before: Held, after: Held) {
        let Some(origin) = self.get_mut(key) else { return };
        origin.held.exchange(before, after);
        let (standing, is_unused) = (origin.standing, origin.connections == 0);
        if standing.half() == Half::Steady {
            self.held_by_steady.exchange(before, after);
        }
        if is_unused {
            self.forget_if_unused(key.place());
        }
    }

    pub(crate) fn lent(&self, key: OriginKey) -> usize {
        self.get(key).map_or(0, |origin| origin.lent)
    }

    /// Changes what is lent to an origin, which has a connection or holds something.
    pub(crate) fn count_lent(&mut self, key: OriginKey, before: usize, after: usize) {
        if let Some(origin) = self.get_mut(key) {
            origin.lent = origin.lent - before + after;
        }
    }

    /// Notes the pace of one of an origin's connections, or that it was throttled. One that was slow is not redeemed by others
    /// that are fast, and pace says nothing of one that was throttled a moment ago.
    pub(crate) fn note(&mut self, key: OriginKey, standing: Standing, now: Instant) {
        let changes = |origin: &Origin| match origin.standing {
            Standing::Slow => standing == Standing::Slow,
            Standing::Throttled => {
                matches!(standing, Standing::Slow | Standing::Throttled)
                    || now.saturating_duration_since(origin.confirmed) >= THROTTLED_REMEMBERED
            }
            Standing::Fast | Standing::Unknown | Standing::Steady => true,
        };
        if self.get(key).is_some_and(changes) {
            self.set_standing(key.place(), standing);
            self.origins[key.place()].confirmed = now;
        }
    }

    fn set_standing(&mut self, index: usize, standing: Standing) {
        let origin = &mut self.origins[index];
        let (before, held) = (std::mem::replace(&mut origin.standing, standing).half(), origin.held);
        let counted = |half| if half == Half::Steady { held } else { Held::default() };
        self.held_by_steady.exchange(counted(before), counted(standing.half()));
    }

    pub(crate) fn standing(&self, key: OriginKey) -> Standing {
        self.get(key).map_or_else(Standing::default, |origin| origin.standing)
    }

    /// Forgets the pace of origins that was not confirmed for some time.
    pub(crate) fn forget_paces(&mut self, now: Instant) {
        let is_over = |origin: &Origin| {
            let age = now.saturating_duration_since(origin.confirmed);
            origin.standing != Standing::Unknown && age >= STANDING_REMEMBERED
        };
        let forgotten = self.origins.iter().filter(|(_, origin)| is_over(origin)).map(|(index, _)| index);
        for index in forgotten.collect::<Vec<_>>() {
            self.set_standing(index, Standing::Unknown);
            self.forget_if_unused(index);
        }
    }

    fn get(&self, key: OriginKey) -> Option<&Origin> {
        self.origins.get(key.place()).filter(|origin| origin.generation == key.generation)
    }

    fn get_mut(&mut self, key: OriginKey) -> Option<&mut Origin> {
        self.origins.get_mut(key.place()).filter(|origin| origin.generation == key.generation)
    }

    fn forget_if_unused(&mut self, index: usize) {
        let origin = &self.origins[index];
        let is_remembered = origin.standing.half() == Half::Steady;
        if origin.connections == 0 && origin.held == Held::default() && !is_remembered {
            self.by_name.remove(&origin.name);
            self.origins.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    impl std::str::FromStr for ConnectionOrigin {
        type Err = std::net::AddrParseError;

        fn from_str(address: &str) -> Result<ConnectionOrigin, Self::Err> {
            address.parse::<IpAddr>().map(ConnectionOrigin::from)
        }
    }

    #[test]
    fn users_of_a_host_count_apart_from_its_superuser() {
        let of = |peer: &str| ConnectionOrigin::of(peer.parse().unwrap());
        assert_eq!(of("192.0.2.1:1023"), of("[::ffff:192.0.2.1]:700"));
        assert_ne!(of("192.0.2.1:1023"), of("192.0.2.1:1024"));
        assert_eq!(of("[2001:db8::1]:50000"), of("[2001:db8::2]:40000"));
    }

    fn replies(replies: usize) -> Held {
        Held { replies, ..Held::default() }
    }

    #[test]
    fn an_origin_is_known_while_something_is_counted_for_it() {
        let mut origins = Origins::default();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let key = origins.join(one);
        assert_eq!(origins.join(one), key);
        assert_ne!(origins.join(other), key);
        origins.count(key, Held::default(), replies(5));
        origins.leave(key);
        origins.leave(key);
        assert_eq!((origins.standing(key), origins.held(key)), (Standing::Unknown, replies(5)));
        let now = Instant::now();
        for (noted, standing) in [
            (Standing::Steady, Standing::Steady),
            (Standing::Fast, Standing::Fast),
            (Standing::Slow, Standing::Slow),
            (Standing::Fast, Standing::Slow),
            (Standing::Steady, Standing::Slow),
        ] {
            origins.note(key, noted, now);
            assert_eq!(origins.standing(key), standing);
            let held = if standing == Standing::Fast { 0 } else { 5 };
            assert_eq!(origins.held_by(Half::Steady, replies(7)), replies(held));
            assert_eq!(origins.held_by(Half::Fast, replies(7)), replies(7 - held));
        }
        origins.count(key, replies(5), Held::default());
        origins.forget_paces(now);
        assert_eq!((origins.join(one), origins.standing(key)), (key, Standing::Slow), "it is remembered");
        origins.leave(key);
        origins.forget_paces(now + STANDING_REMEMBERED);
        assert_eq!((origins.origins.len(), origins.by_name.len()), (1, 1));
        assert_eq!(origins.held_by_steady, Held::default());
    }

    #[test]
    fn pace_says_nothing_of_one_that_is_throttled() {
        let mut origins = Origins::default();
        let key = origins.join("192.0.2.1".parse().unwrap());
        let now = Instant::now();
        origins.count(key, Held::default(), replies(5));
        origins.note(key, Standing::Throttled, now);
        origins.note(key, Standing::Fast, now);
        assert_eq!((origins.standing(key), origins.held_by_steady), (Standing::Throttled, replies(5)));
        origins.note(key, Standing::Fast, now + THROTTLED_REMEMBERED);
        assert_eq!((origins.standing(key), origins.held_by_steady), (Standing::Fast, replies(0)));
        origins.note(key, Standing::Throttled, now);
        origins.note(key, Standing::Slow, now);
        origins.note(key, Standing::Throttled, now);
        assert_eq!(origins.standing(key), Standing::Slow);
    }

    #[test]
    fn an_origin_that_is_gone_holds_nothing_and_its_name_is_not_used_again() {
        let mut origins = Origins::default();
        let gone = origins.join("192.0.2.1".parse().unwrap());
        origins.leave(gone);
        let other = origins.join("192.0.2.2".parse().unwrap());
        assert_ne!(gone, other);
        origins.count(gone, Held::default(), replies(1));
        origins.note(gone, Standing::Slow, Instant::now());
        origins.leave(gone);
        for key in [gone, other] {
            assert_eq!((origins.standing(key), origins.held(key)), (Standing::Unknown, Held::default()));
        }
    }
}
