//! What the connections of each origin hold in one event loop.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use slab::Slab;

use crate::limits::STANDING_REMEMBERED;

/// Names an origin of a loop while it has connections, calls or replies there, or was slow lately. Calls may outlive that:
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

/// What is known of the pace of an origin. The least is given memory first, the greatest gives way first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It completed a large record fast, or moved much.
    Fast,
    #[default]
    Unknown,
    /// One of its connections was closed for being slow.
    Slow,
}

/// How soon an origin is given memory: by its standing, then by what it holds.
pub(crate) type Rank = (Standing, usize);

#[derive(Debug)]
struct Origin {
    address: IpAddr,
    generation: u32,
    connections: usize,
    held: Held,
    standing: Standing,
    /// When its standing was last confirmed.
    confirmed: Instant,
}

/// Bytes that an origin holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Records that are arriving, and calls that wait.
    pub(crate) requests: usize,
    /// Replies that are being made, wait or are unsent.
    pub(crate) replies: usize,
}

/// The origins of a loop.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    origins: Slab<Origin>,
    by_address: HashMap<IpAddr, usize>,
    next_generation: u32,
}

impl Origins {
    /// Adds a connection of this origin.
    pub(crate) fn join(&mut self, address: IpAddr) -> OriginKey {
        let (origins, generation) = (&mut self.origins, &mut self.next_generation);
        let index = *self.by_address.entry(address).or_insert_with(|| {
            *generation = generation.wrapping_add(1);
            origins.insert(Origin {
                address,
                generation: *generation,
                connections: 0,
                held: Held::default(),
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

    /// Changes what an origin holds.
    pub(crate) fn count(&mut self, key: OriginKey, change: impl FnOnce(&mut Held)) {
        if let Some(origin) = self.get_mut(key) {
            change(&mut origin.held);
            if origin.connections == 0 {
                self.forget_if_unused(key.place());
            }
        }
    }

    /// Notes the pace of one of an origin's connections. One that was slow is not redeemed by others that are fast.
    pub(crate) fn note(&mut self, key: OriginKey, standing: Standing, now: Instant) {
        let Some(origin) = self.get_mut(key) else { return };
        if standing >= origin.standing || origin.standing == Standing::Unknown {
            (origin.standing, origin.confirmed) = (standing, now);
        }
    }

    pub(crate) fn standing(&self, key: OriginKey) -> Standing {
        self.get(key).map_or_else(Standing::default, |origin| origin.standing)
    }

    /// Returns an origin's place in the order.
    pub(crate) fn rank(&self, key: OriginKey) -> Rank {
        let Held { requests, replies } = self.held(key);
        (self.standing(key), requests + replies)
    }

    /// Forgets the pace of origins that was not confirmed for some time.
    pub(crate) fn forget_paces(&mut self, now: Instant) {
        let mut forgotten = Vec::new();
        for (index, origin) in &mut self.origins {
            let is_over = now.saturating_duration_since(origin.confirmed) >= STANDING_REMEMBERED;
            if origin.standing != Standing::Unknown && is_over {
                origin.standing = Standing::Unknown;
                forgotten.push(index);
            }
        }
        forgotten.into_iter().for_each(|index| self.forget_if_unused(index));
    }

    fn get(&self, key: OriginKey) -> Option<&Origin> {
        self.origins.get(key.place()).filter(|origin| origin.generation == key.generation)
    }

    fn get_mut(&mut self, key: OriginKey) -> Option<&mut Origin> {
        self.origins.get_mut(key.place()).filter(|origin| origin.generation == key.generation)
    }

    fn forget_if_unused(&mut self, index: usize) {
        let origin = &self.origins[index];
        if origin.connections == 0 && origin.held == Held::default() && origin.standing != Standing::Slow {
            self.by_address.remove(&origin.address);
            self.origins.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_known_while_something_is_counted_for_it() {
        let mut origins = Origins::default();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let key = origins.join(one);
        assert_eq!(origins.join(one), key);
        assert_ne!(origins.join(other), key);
        origins.count(key, |held| held.replies += 5);
        origins.leave(key);
        origins.leave(key);
        assert_eq!(origins.rank(key), (Standing::Unknown, 5));
        let now = Instant::now();
        for (noted, standing) in [
            (Standing::Fast, Standing::Fast),
            (Standing::Slow, Standing::Slow),
            (Standing::Fast, Standing::Slow),
        ] {
            origins.note(key, noted, now);
            assert_eq!(origins.standing(key), standing);
        }
        origins.count(key, |held| held.replies -= 5);
        assert_eq!(origins.rank(key), (Standing::Slow, 0));
        origins.forget_paces(now);
        assert_eq!(origins.join(one), key, "its pace is not forgotten yet");
        origins.leave(key);
        origins.forget_paces(now + STANDING_REMEMBERED);
        assert_eq!((origins.origins.len(), origins.by_address.len()), (1, 1));
    }

    #[test]
    fn an_origin_that_is_gone_holds_nothing_and_its_name_is_not_used_again() {
        let mut origins = Origins::default();
        let gone = origins.join("192.0.2.1".parse().unwrap());
        origins.leave(gone);
        let other = origins.join("192.0.2.2".parse().unwrap());
        assert_ne!(gone, other);
        origins.count(gone, |held| held.requests += 1);
        origins.note(gone, Standing::Slow, Instant::now());
        origins.leave(gone);
        assert_eq!(
            (origins.rank(gone), origins.rank(other)),
            ((Standing::Unknown, 0), (Standing::Unknown, 0))
        );
        assert_eq!(origins.held(other), Held::default());
    }
}
