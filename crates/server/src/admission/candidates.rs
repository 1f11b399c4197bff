//! The connections that may give way to others, in the order in which they do so.
//!
//! Candidates are collected once per turn, so finding the next one takes few steps, however many connections there are. What an
//! origin acquires during the turn counts from the next turn on.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::time::Instant;

use super::eviction::{Holder, Reason};
use super::line::Waiter;
use super::origins::{Half, OriginKey};
use super::{Admission, ConnectionKey, Short};

/// An origin's place in the order, by the connection of it that gives way first. The greatest does so first.
type Rank = (Reason, usize, Reverse<Option<Instant>>);

/// Connections that hold a part of memory.
pub(crate) struct Candidates {
    pub(super) short: Short,
    pub(super) now: Instant,
    /// The connections of each origin; the last one gives way first.
    by_origin: BTreeMap<OriginKey, Vec<Holder>>,
    /// The origins of each half. An entry may be out of date, and an origin may have several.
    ranked: [BinaryHeap<(Rank, OriginKey)>; 2],
    /// Connections that went on since, by place and generation: they hold something else now.
    went_on: HashSet<(usize, u64)>,
    /// Entries that were looked at.
    #[cfg(test)]
    pub(crate) looked_at: usize,
}

impl Candidates {
    /// Notes that connections went on.
    pub(crate) fn went_on(&mut self, keys: impl IntoIterator<Item = ConnectionKey>) {
        self.went_on.extend(keys.into_iter().map(|key| (key.index, key.generation)));
    }

    /// Returns the connections of an origin.
    pub(super) fn of_origin(&self, origin: OriginKey) -> &[Holder] {
        self.by_origin.get(&origin).map_or(&[], Vec::as_slice)
    }

    /// Sorts the connections of an origin, which is in this half.
    pub(super) fn sort(&mut self, origin: OriginKey, half: Half) {
        if let Some(holders) = self.by_origin.get_mut(&origin) {
            let now = self.now;
            holders.sort_by_key(|holder| (holder.reason(half, now), Reverse(holder.behind_since())));
        }
    }

    /// Returns the place among its origin's of the connection that gives way first, but not `except`.
    fn first(&mut self, origin: OriginKey, except: Option<ConnectionKey>) -> Option<usize> {
        let holders = self.by_origin.get_mut(&origin)?;
        while holders.last().is_some_and(|last| self.went_on.contains(&(last.key.index, last.key.generation)))
        {
            holders.pop();
        }
        holders.iter().rposition(|holder| Some(holder.key) != except)
    }

    /// Removes the connection of an origin that gives way first, but not `except`.
    pub(super) fn take(&mut self, origin: OriginKey, except: ConnectionKey) -> Option<Holder> {
        let place = self.first(origin, Some(except))?;
        Some(self.by_origin.get_mut(&origin)?.remove(place))
    }

    /// Makes room for a connection in the share of its origin: removes the other one that stopped first, if one has. That harmed
    /// nobody else, so the origin keeps its standing.
    pub(crate) fn take_stopped(&mut self, waiter: &Waiter) -> Option<ConnectionKey> {
        let now = self.now;
        let holders = self.by_origin.get_mut(&waiter.key.origin)?;
        let gives_way = |holder: &Holder| holder.key != waiter.key && holder.has_stopped(now);
        let stopped = holders.iter().enumerate().filter(|(_, holder)| gives_way(holder));
        let (place, _) = stopped.min_by_key(|(_, holder)| holder.behind_since())?;
        Some(holders.remove(place).key)
    }

    /// Removes these connections, which are of one origin.
    pub(super) fn remove(&mut self, origin: OriginKey, closed: &[ConnectionKey]) {
        self.went_on(closed.iter().copied());
        let went_on = &self.went_on;
        if let Some(holders) = self.by_origin.get_mut(&origin) {
            holders.retain(|holder| !went_on.contains(&(holder.key.index, holder.key.generation)));
        }
    }
}

impl Admission {
    /// Puts `holders` of a part of memory in order.
    pub(crate) fn candidates(
        &self,
        short: Short,
        holders: impl Iterator<Item = Holder>,
        now: Instant,
    ) -> Candidates {
        let mut by_origin: BTreeMap<OriginKey, Vec<Holder>> = BTreeMap::new();
        for holder in holders {
            by_origin.entry(holder.key.origin).or_default().push(holder);
        }
        let origins: Vec<OriginKey> = by_origin.keys().copied().collect();
        let mut candidates = Candidates {
            short,
            now,
            by_origin,
            ranked: Default::default(),
            went_on: HashSet::new(),
            #[cfg(test)]
            looked_at: 0,
        };
        for origin in origins {
            candidates.sort(origin, self.half(origin));
            self.rank_again(&mut candidates, origin);
        }
        candidates
    }

    /// Gives an origin its place in the order of its half.
    pub(super) fn rank_again(&self, candidates: &mut Candidates, origin: OriginKey) {
        if let Some(rank) = self.rank(candidates, origin, None) {
            candidates.ranked[self.half(origin).index()].push((rank, origin));
        }
    }

    /// Returns the origin in a half whose connection is closed first, and why. The origin of `except` is skipped.
    pub(super) fn first_of(
        &self,
        candidates: &mut Candidates,
        half: Half,
        except: ConnectionKey,
    ) -> Option<(Reason, OriginKey)> {
        let mut first = None;
        while let Some((rank, origin)) = candidates.ranked[half.index()].pop() {
            #[cfg(test)]
            {
                candidates.looked_at += 1;
            }
            if self.half(origin) != half || origin == except.origin {
                continue;
            }
            match self.rank(candidates, origin, None) {
                Some(current) if current == rank => {
                    candidates.ranked[half.index()].push((rank, origin));
                    first = Some((rank, origin));
                    break;
                }
                Some(current) => candidates.ranked[half.index()].push((current, origin)),
                None => {}
            }
        }
        let own = self.half(except.origin) == half;
        let own = own.then(|| self.rank(candidates, except.origin, Some(except))).flatten();
        // It was passed over.
        self.rank_again(candidates, except.origin);
        let own = own.map(|rank| (rank, except.origin));
        first.max(own).map(|((reason, ..), origin)| (reason, origin))
    }

    fn rank(
        &self,
        candidates: &mut Candidates,
        origin: OriginKey,
        except: Option<ConnectionKey>,
    ) -> Option<Rank> {
        let place = candidates.first(origin, except)?;
        let holder = &candidates.of_origin(origin)[place];
        let reason = holder.reason(self.half(origin), candidates.now);
        Some((reason, self.held(origin, candidates.short), Reverse(holder.behind_since())))
    }
}
