//! The queue for ranges of a file, in the order in which owners asked.
//!
//! Each place counts those before it that conflict with it: it has its turn when there is none. So freeing a range does not
//! compare all waiters with each other. Taking a place or giving one up takes a step for each other place.

use std::collections::BTreeSet;
use std::sync::Arc;

use volume::time::Time;

use crate::state::clients::client::LockOwner;
use crate::state::locks::LockRequest;
use crate::state::locks::ranges::{LockKind, Owner as _, Range};
use crate::state::shares::Held;
use crate::state::stateids::entry::StateEntry;

/// An owner that waits for a range.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(in crate::state) owner: Arc<LockOwner>,
    pub(in crate::state) range: Range,
    pub(in crate::state) kind: LockKind,
    /// When the owner last asked.
    pub(in crate::state) asked: Time,
    /// Whether the owner was notified that it may lock now.
    pub(in crate::state) notified: bool,
    /// For NLM, which gets the lock at its turn: the open that the lock will depend on.
    pub(in crate::state) open: Option<Arc<StateEntry>>,
    /// Counts the place.
    pub(in crate::state) place: Arc<Held>,
}

/// What decides whether places conflict.
#[derive(Clone, Copy)]
struct Claim {
    owner: u64,
    range: Range,
    kind: LockKind,
}

impl Claim {
    fn conflicts(self, other: Claim) -> bool {
        self.owner != other.owner && self.range.overlaps(other.range) && self.kind.conflicts(other.kind)
    }
}

/// The number of a place, larger than those of all places before it.
pub(in crate::state) type Place = u64;

/// A waiter at its place.
#[derive(Debug)]
pub(in crate::state) struct Queued {
    place: Place,
    waiter: Waiter,
    /// The conflicting places before this one.
    ahead: usize,
}

impl Queued {
    fn claim(&self) -> Claim {
        let Waiter { ref owner, range, kind, .. } = self.waiter;
        Claim { owner: owner.number(), range, kind }
    }
}

/// The queue of a file.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queue: Vec<Queued>,
    next: Place,
    /// The places whose turn came since this was last asked.
    turns: BTreeSet<Place>,
    /// Whether a later call asks for them.
    put_off: bool,
}

impl Waiters {
    /// Returns whether nobody waits.
    pub(in crate::state) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Iterates over the places, the first one first.
    pub(in crate::state) fn iter(&self) -> impl ExactSizeIterator<Item = &Waiter> {
        self.queue.iter().map(|queued| &queued.waiter)
    }

    /// Adds a place.
    pub(in crate::state) fn push(&mut self, waiter: Waiter) {
        let mut queued = Queued { place: self.next, waiter, ahead: 0 };
        let claim = queued.claim();
        queued.ahead = self.queue.iter().filter(|earlier| earlier.claim().conflicts(claim)).count();
        self.queue.push(queued);
        self.next += 1;
    }

    /// Notes that an owner that waits for exactly this range asks again. Returns false if it has no such place.
    pub(in crate::state) fn ask_again(&mut self, owner: &LockOwner, wanted: &LockRequest, now: Time) -> bool {
        let same = |queued: &Queued| queued.waiter.range == wanted.range && *queued.waiter.owner == *owner;
        let Some(index) = self.queue.iter().position(same) else { return false };
        let (before, rest) = self.queue.split_at_mut(index);
        let Some((queued, after)) = rest.split_first_mut() else { return false };
        let old = queued.claim();
        (queued.waiter.asked, queued.waiter.notified) = (now, false);
        if old.kind != wanted.kind {
            queued.waiter.kind = wanted.kind;
            let new = queued.claim();
            queued.ahead = before.iter().filter(|earlier| earlier.claim().conflicts(new)).count();
            for later in after {
                let claim = later.claim();
                later.ahead += usize::from(new.conflicts(claim));
                later.leave_behind(usize::from(old.conflicts(claim)), &mut self.turns);
            }
        }
        true
    }

    /// Removes places. Returns a range that covers what they waited for, as they may have kept others waiting; none if there were
    /// none.
    pub(in crate::state) fn remove(&mut self, goes: impl Fn(&Waiter) -> bool) -> Option<Range> {
        let (mut freed, mut gone) = (None, Vec::new());
        let turns = &mut self.turns;
        self.queue.retain_mut(|queued| {
            let claim = queued.claim();
            if goes(&queued.waiter) {
                freed = Range::cover(freed, Some(claim.range));
                gone.push(claim);
                return false;
            }
            if !gone.is_empty() {
                let before = gone.iter().filter(|earlier| earlier.conflicts(claim)).count();
                queued.leave_behind(before, turns);
            }
            true
        });
        freed
    }

    /// Returns an earlier waiter for a range that conflicts: before the owner's own place if it waits for a part of it.
    pub(in crate::state) fn earlier(&self, owner: &LockOwner, wanted: &LockRequest) -> Option<&Waiter> {
        self.iter()
            .take_while(|waiter| *waiter.owner != *owner || !waiter.range.overlaps(wanted.range))
            .filter(|waiter| *waiter.owner != *owner)
            .find(|waiter| waiter.range.overlaps(wanted.range) && waiter.kind.conflicts(wanted.kind))
    }

    /// Returns the places in the queue for something in `freed` that have their turn and were not notified.
    pub(in crate::state) fn in_turn(&self, freed: Range) -> BTreeSet<Place> {
        let in_turn = |queued: &&Queued| {
            queued.ahead == 0 && !queued.waiter.notified && queued.waiter.range.overlaps(freed)
        };
        self.queue.iter().filter(in_turn).map(|queued| queued.place).collect()
    }

    /// Takes the places whose turn came since this was last called; some may be gone.
    pub(in crate::state) fn take_turns(&mut self) -> BTreeSet<Place> {
        std::mem::take(&mut self.turns)
    }

    /// Puts places back that were taken, until a later call asks for them. Returns whether none was to be made before.
    pub(in crate::state) fn put_off(&mut self, places: BTreeSet<Place>) -> bool {
        self.turns.extend(places);
        !std::mem::replace(&mut self.put_off, true)
    }

    /// Notes that the later call comes now.
    pub(in crate::state) fn no_longer_put_off(&mut self) {
        self.put_off = false;
    }

    /// Returns the waiter at a place, if it is still there.
    pub(in crate::state) fn at(&mut self, place: Place) -> Option<&mut Waiter> {
        let index = self.queue.binary_search_by_key(&place, |queued| queued.place).ok()?;
        self.queue.get_mut(index).map(|queued| &mut queued.waiter)
    }
}

impl Queued {
    /// Subtracts the conflicting places before this one that were removed.
    fn leave_behind(&mut self, gone: usize, turns: &mut BTreeSet<Place>) {
        self.ahead -= gone;
        if gone > 0 && self.ahead == 0 {
            turns.insert(self.place);
        }
    }
}

#[cfg(test)]
impl Waiters {
    /// Checks that each place counts the conflicting ones before it.
    pub(in crate::state) fn check(&self, seed: u64) {
        for (index, queued) in self.queue.iter().enumerate() {
            let (before, _) = self.queue.split_at(index);
            let claim = queued.claim();
            let conflicting = before.iter().filter(|earlier| earlier.claim().conflicts(claim));
            assert_eq!(queued.ahead, conflicting.count(), "seed {seed}");
            assert!(before.last().is_none_or(|last| last.place < queued.place), "seed {seed}");
        }
    }
}
