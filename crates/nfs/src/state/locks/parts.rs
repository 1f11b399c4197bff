//! Requests that change very many ranges or lock states are done in parts, between which others are served.
//!
//! An owner may have tens of thousands of ranges in a file, or lock states under one open. A part changes as many as a millisecond
//! allows, and is journaled. The request is refused with [`StateError::Unfinished`], and runs again until one part suffices: that
//! one counts the change of the stateid. What is freed is free at once; what is locked stays locked throughout.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use volume::state::StateChange;
use volume::time::Time;

use crate::state::clients::client::LockOwner;
use crate::state::clients::removal::{PART, Work};
use crate::state::files::File;
use crate::state::ids::FileId;
use crate::state::locks::LockRequest;
use crate::state::locks::ranges::{Change, LockKind, Owner as _, Range};
use crate::state::locks::waiters::Place;
use crate::state::record::{Key, RangeRecord};
use crate::state::shares::room_of_origin;
use crate::state::stateids::entry::StateEntry;
use crate::state::{Context, SharedState, StateError};

/// Waiters of a file that are woken at once. Each may get a lock, which is journaled.
pub(in crate::state) const WOKEN_AT_ONCE: usize = 128;

/// The time, and how long a lock that is made in parts is waited for before its request counts as given up.
pub(super) type Clock = (Time, Duration);

/// Locks of a file that are made in parts at a time, each of another owner. Further ones wait. Each origin has its share, so that one
/// cannot keep others waiting.
const MERGINGS_MAX: u64 = 32;

/// A lock that replaces very many ranges of its owner, in parts. No other owner can lock what conflicts with it meanwhile, so it
/// cannot fail after its first part.
#[derive(Debug)]
pub(in crate::state) struct Merging {
    owner: Arc<LockOwner>,
    range: Range,
    kind: LockKind,
    /// When the last part was made.
    last: Time,
}

impl Merging {
    /// Whether its next part is awaited.
    fn is_going_on(&self, (now, patience): Clock) -> bool {
        now.since(self.last) <= patience
    }

    fn conflicts(&self, range: Range, kind: LockKind) -> bool {
        self.range.overlaps(range) && self.kind.conflicts(kind)
    }
}

/// The locks of a file that are made in parts.
#[derive(Debug, Default)]
pub(in crate::state) struct Mergings(Vec<Merging>);

impl Mergings {
    /// Returns whether one that another owner is making keeps `owner` from a range.
    fn keep(&self, owner: &LockOwner, wanted: &LockRequest, clock: Clock) -> bool {
        let mut of_others =
            self.0.iter().filter(|merging| *merging.owner != *owner && merging.is_going_on(clock));
        of_others.any(|merging| merging.conflicts(wanted.range, wanted.kind))
    }

    /// Forgets what was given up, and what `owner` was making, whose place it keeps. Returns whether it has a place.
    fn has_room(&mut self, owner: &Arc<LockOwner>, clock: Clock) -> bool {
        self.0.retain(|merging| merging.is_going_on(clock));
        let all = self.0.len();
        self.0.retain(|merging| *merging.owner != **owner);
        if self.0.len() < all {
            return true;
        }
        let of_origin = |merging: &&Merging| merging.owner.origin() == owner.origin();
        let of_origin = self.0.iter().filter(of_origin).count() as u64;
        room_of_origin(MERGINGS_MAX, self.0.len() as u64 - of_origin, of_origin) > 0
    }

    /// Ends the one that `owner` asked for. Returns its range.
    pub(super) fn end(&mut self, owner: &LockOwner, range: Range) -> Option<Range> {
        let place = self.0.iter().position(|merging| *merging.owner == *owner && merging.range == range)?;
        Some(self.0.swap_remove(place).range)
    }
}

impl File {
    /// Returns whether a lock that another owner is making in parts keeps `owner` from a range.
    pub(super) fn is_being_merged(&self, owner: &LockOwner, wanted: &LockRequest, clock: Clock) -> bool {
        self.mergings.keep(owner, wanted, clock)
    }

    /// Returns whether the waiter at a place may lock now and was not notified.
    pub(super) fn may_lock(&mut self, place: Place, clock: Clock) -> bool {
        let Some(waiter) = self.waiters.at(place).filter(|waiter| !waiter.notified) else { return false };
        let (owner, range, kind) = (Arc::clone(&waiter.owner), waiter.range, waiter.kind);
        let wanted = LockRequest { range, kind, waits: true };
        let is_free = self.locks.conflict(Some(&owner), range, kind).is_none();
        is_free && !self.is_being_merged(&owner, &wanted, clock)
    }

    /// Returns whether more depends on an open than one part frees: lock states and ranges.
    #[inline]
    pub(in crate::state) fn has_much_depending_on(&self, open: &StateEntry) -> bool {
        !self.lock_states.is_empty() && self.has_many_locks_of(open)
    }

    fn has_many_locks_of(&self, open: &StateEntry) -> bool {
        let depending = self.lock_states.depending_on(open).filter_map(|entry| entry.as_locks());
        let mut all = depending.flat_map(|locks| self.locks.of(&locks.owner).map(drop).chain([()]));
        all.nth(PART).is_some()
    }
}

impl SharedState {
    /// Returns the time, and how long a lock that is made in parts is waited for.
    pub(super) fn merge_clock(&self, context: &Context<'_>) -> Clock {
        (context.now, self.config.turn)
    }

    /// Locks the first part of a range that is free for its owner, who holds very many ranges there.
    ///
    /// # Errors
    /// [`StateError::TryLater`] while locks of very many other owners are made in parts; those of the journal.
    pub(super) fn lock_part(
        &self,
        context: &Context<'_>,
        state: &mut File,
        owner: &Arc<LockOwner>,
        (wanted, part): (&LockRequest, Range),
    ) -> Result<(), StateError> {
        if !state.mergings.has_room(owner, self.merge_clock(context)) {
            return Err(StateError::TryLater);
        }
        let entry = state.lock_states.of(owner).cloned().ok_or(StateError::BadStateId)?;
        let change = state.locks.plan(owner, part, Some(wanted.kind));
        context.change(entry.file.volume, &range_changes(&entry, &change))?;
        state.apply_ranges(&entry.client, &change);
        let LockRequest { range, kind, .. } = *wanted;
        state.mergings.0.push(Merging { owner: Arc::clone(owner), range, kind, last: context.now });
        Ok(())
    }

    /// Frees the first part of a range in which an owner has much locked.
    pub(super) fn unlock_part(
        &self,
        context: &Context<'_>,
        state: &mut File,
        entry: &Arc<StateEntry>,
        part: Range,
    ) -> Result<(), StateError> {
        let locks = entry.as_locks().ok_or(StateError::BadStateId)?;
        let change = state.locks.plan(&locks.owner, part, None);
        context.change(entry.file.volume, &range_changes(entry, &change))?;
        state.apply_ranges(&entry.client, &change);
        self.wake(context, state, entry.file, change.removed_range());
        Ok(())
    }

    /// Frees one part of what depends on an open, under the lock of the file.
    pub(in crate::state) fn free_part_of_depending(
        &self,
        context: &Context<'_>,
        state: &mut File,
        open: &StateEntry,
    ) -> Result<(), StateError> {
        let mut work = Work::part();
        while !work.is_done() {
            let Some(entry) = state.lock_states.depending_on(open).next().cloned() else { break };
            self.free_locks_held(context, state, &entry, &mut work)?;
        }
        Ok(())
    }

    /// Has waiters woken by [`SharedState::tick_waiters`].
    pub(super) fn wake_later(&self, state: &mut File, file: FileId, places: BTreeSet<Place>) {
        if state.waiters.put_off(places) {
            self.waking.lock().push_back(file);
            self.wake_driver();
        }
    }

    /// Wakes waiters of a file that were to be woken later. Returns whether there are more.
    pub(in crate::state) fn tick_waiters(&self, context: &Context<'_>) -> bool {
        let Some(file) = self.waking.lock().pop_front() else { return false };
        if let Some(state) = self.files.write(&file).get_mut(&file) {
            state.waiters.no_longer_put_off();
            self.wake(context, state, file, None);
        }
        !self.waking.lock().is_empty()
    }
}

/// Returns the changes of records that change an owner's ranges.
pub(super) fn range_changes(entry: &StateEntry, change: &Change<Arc<LockOwner>>) -> Vec<StateChange> {
    let key = |first| Key::Range(entry.file.ino, entry.other, first);
    // A crash may keep only the first of many changes. Bytes locked before and after must stay locked throughout.
    let added = change.added.iter().map(|lock| {
        let record = RangeRecord { last: lock.range.last, kind: lock.kind };
        key(lock.range.first).put(&record)
    });
    let put: HashSet<u64> = change.added.iter().map(|lock| lock.range.first).collect();
    let gone = change.removed.iter().map(|lock| lock.range.first).filter(|first| !put.contains(first));
    added.chain(gone.map(|first| key(first).deleted())).collect()
}
