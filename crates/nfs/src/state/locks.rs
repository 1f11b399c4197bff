//! Byte-range locks: LOCK, LOCKT, LOCKU, and the queues for them.
//!
//! Locks are advisory. A blocking request (READW_LT, WRITEW_LT) that is denied enters a queue. A freed range is
//! reserved for the first waiter for a while, and clients that can be called are notified (CB_NOTIFY_LOCK). A waiter
//! that does not ask again for a lease loses its position.

use std::collections::HashSet;
use std::sync::Arc;

use volume::state::StateChange;
use volume::time::Time;

use crate::state::clients::client::{Client, ClientProtocol, LockOwner, LockOwnerId};
use crate::state::clients::owner_sequence::OwnerSequence;
use crate::state::clients::removal::{PART, Work};
use crate::state::config::Counters;
use crate::state::files::{ConflictHolders, File, enter};
use crate::state::ids::{FileId, StateId};
use crate::state::locks::parts::{WOKEN_AT_ONCE, range_changes};
use crate::state::locks::ranges::{Change, Lock, LockKind, Owner as _, Range};
use crate::state::locks::waiters::Waiter;
use crate::state::record::{Key, LockStateRecord};
use crate::state::shares::{Held, Resource, room, room_of_origin};
use crate::state::stateids::entry::{Liveness, StateEntry, StateKind};
use crate::state::{Context, DurabilityToken, SharedState, StateError};

pub(crate) mod lock_states;
pub(crate) mod parts;
pub(crate) mod ranges;
pub(crate) mod waiters;

/// A lock, or an earlier waiter, that conflicts (`LOCK4denied`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) range: Range,
    pub(crate) kind: LockKind,
    pub(crate) owner: LockOwnerId,
    /// Whether the owner is in the queue now.
    pub(crate) waits: bool,
}

/// Conflicting locks that are looked at before the silent clients among their owners are expired. Then others are looked for, as
/// there may be very many.
const CONFLICTS_AT_ONCE_MAX: usize = 256;

/// Why there is no lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockError {
    /// Another owner has a conflicting lock, or waited before.
    Denied(Denied),
    /// Another reason.
    Failed(StateError),
}

impl From<StateError> for LockError {
    fn from(error: StateError) -> LockError {
        LockError::Failed(error)
    }
}

impl From<Lock<Arc<LockOwner>>> for Denied {
    fn from(lock: Lock<Arc<LockOwner>>) -> Denied {
        Denied { range: lock.range, kind: lock.kind, owner: lock.owner.id.clone(), waits: false }
    }
}

/// The arguments of a LOCK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRequest {
    pub(crate) range: Range,
    pub(crate) kind: LockKind,
    /// Whether the owner waits if it is denied.
    pub(crate) waits: bool,
}

/// The owner of a lock, with or without state of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Locker<'a> {
    /// It may have no state yet. Its locks will depend on this open.
    New { open: &'a Arc<StateEntry>, owner: &'a Arc<LockOwner> },
    /// Its lock state.
    Known(&'a Arc<StateEntry>),
}

impl Locker<'_> {
    /// Returns whether the state that the lock depends on is still held. Constant under the lock of the file.
    fn is_held(self) -> bool {
        let (Locker::New { open: entry, .. } | Locker::Known(entry)) = self;
        entry.liveness() == Liveness::Live
    }
}

impl File {
    /// Returns the changes that delete a lock state and its ranges.
    pub(super) fn lock_state_deleted(&self, entry: &StateEntry) -> Vec<StateChange> {
        let (ino, other) = (entry.file.ino, entry.other);
        let mut changes = vec![Key::LockState(ino, other).deleted()];
        if let StateKind::Locks(locks) = &entry.kind {
            let ranges = self.locks.of(&locks.owner);
            changes.extend(ranges.map(|lock| Key::Range(ino, other, lock.range.first).deleted()));
        }
        changes
    }

    /// Changes the ranges of a client's lock owner.
    pub(super) fn apply_ranges(&mut self, client: &Client, change: &Change<Arc<LockOwner>>) {
        self.locks.apply(change);
        if let Some(lock) = change.added.first().or(change.removed.first()) {
            lock.owner.count_ranges(change.added.len(), change.removed.len());
        }
        client.holder.take(Resource::Ranges, change.added.len() as u64);
        client.holder.give_back(Resource::Ranges, change.removed.len() as u64);
    }

    /// Enters the queue, or keeps the position there. Returns false if there is no room.
    fn wait(
        &mut self,
        (open, owner): (&Arc<StateEntry>, &Arc<LockOwner>),
        wanted: &LockRequest,
        now: Time,
        max: usize,
    ) -> bool {
        if self.waiters.ask_again(owner, wanted, now) {
            return true;
        }
        if !self.has_place(&open.client, max) {
            return false;
        }
        let Some(place) = Held::within_share(&open.client.holder, Resource::Waiters, 1) else { return false };
        let LockRequest { range, kind, .. } = *wanted;
        let open = (open.client.version == ClientProtocol::Nlm).then(|| Arc::clone(open));
        let (owner, place) = (Arc::clone(owner), Arc::new(place));
        self.waiters.push(Waiter { owner, range, kind, asked: now, notified: false, open, place });
        true
    }

    /// Returns whether the queue, of at most `max` places, has one for a client. Its places are shared like all that
    /// clients share.
    fn has_place(&self, client: &Client, max: usize) -> bool {
        let of = |counts: &dyn Fn(&Waiter) -> bool| {
            self.waiters.iter().filter(|waiter| counts(waiter)).count() as u64
        };
        let all = self.waiters.iter().len() as u64;
        let origin = of(&|waiter| waiter.place.origin() == client.holder.origin());
        let own = of(&|waiter| waiter.owner.client() == client.id);
        room(room_of_origin(max as u64, all - origin, origin), own) > 0
    }
}

impl SharedState {
    /// Returns the lock owner with this name; creates it if there is room for its locks.
    ///
    /// # Errors
    /// Those of [`SharedState::check_room`].
    pub(crate) fn lock_owner(
        &self,
        client: &Client,
        name: &[u8],
        sequence: impl FnOnce() -> OwnerSequence,
    ) -> Result<Arc<LockOwner>, StateError> {
        if let Some(known) = client.known_lock_owner(name) {
            return Ok(known);
        }
        self.check_room(client, Some(name))?;
        Ok(client.lock_owner(name, sequence))
    }

    /// LOCK (RFC 7530 section 16.10). The caller has checked stateids, the seqids of NFSv4.0, and that the file is a
    /// regular one.
    ///
    /// # Errors
    /// [`LockError::Denied`]; [`StateError::OpenMode`] if the open does not allow it; [`StateError::LimitReached`],
    /// [`StateError::TryLater`] or [`StateError::TooManyRanges`] at a limit; [`StateError::Unfinished`] while it replaces more
    /// locks of the owner than one part does.
    pub(crate) fn lock(
        &self,
        context: &Context<'_>,
        locker: Locker<'_>,
        wanted: &LockRequest,
    ) -> Result<(StateId, DurabilityToken), LockError> {
        let (open, owner) = match locker {
            Locker::New { open, owner } => (open, owner),
            Locker::Known(entry) => {
                let locks = entry.as_locks().ok_or(StateError::BadStateId)?;
                (&locks.open, &locks.owner)
            }
        };
        let allowed = open.mode().is_some_and(|mode| match wanted.kind {
            LockKind::Read => mode.reads(),
            LockKind::Write => mode.writes(),
        });
        let nlm = open.client.version == ClientProtocol::Nlm;
        if !allowed && !nlm {
            return Err(StateError::OpenMode.into());
        }
        let (file, mut work) = (open.file, Work::part());
        loop {
            let mut files = self.files.write(&file);
            if !locker.is_held() {
                // The open was closed, so nothing would ever free the lock.
                return Err(StateError::BadStateId.into());
            }
            let state = enter(&mut files, context, file);
            // NLM waiters stay until they cancel, or are gone.
            let lapsed = state.waiters.remove(|waiter| match &waiter.open {
                Some(open) => open.client.is_gone(),
                None => context.now.since(waiter.asked) > self.config.lease,
            });
            self.wake(context, state, file, lapsed);
            if nlm && self.is_delegated_against_lock(state, &open.client, wanted.kind) {
                return Err(StateError::TryLater.into());
            }
            if state.is_being_merged(owner, wanted, self.merge_clock(context)) {
                return Err(StateError::TryLater.into());
            }
            match self.lock_conflicts(context, state, owner, wanted) {
                ConflictHolders::None => {
                    if let Some(part) = state.locks.part(owner, wanted.range, PART) {
                        self.lock_part(context, state, owner, (wanted, part))?;
                        return Err(StateError::Unfinished.into());
                    }
                    let locked = self.lock_free_range(context, state, (open, owner), wanted);
                    self.forget_if_idle(&mut files, context, file);
                    return locked;
                }
                ConflictHolders::Expired(clients) => {
                    drop(files);
                    self.make_way(context, file, &clients, &mut work)?;
                }
                ConflictHolders::Active => {
                    let Some(mut denied) = denied(state, owner, wanted) else {
                        return Err(StateError::TryLater.into());
                    };
                    if wanted.waits {
                        let max = self.config.waiters_per_file;
                        denied.waits = state.wait((open, owner), wanted, context.now, max);
                    }
                    return Err(LockError::Denied(denied));
                }
            }
        }
    }

    /// Returns the clients that keep `owner` from a range: holders of locks, and earlier waiters.
    fn lock_conflicts(
        &self,
        context: &Context<'_>,
        state: &File,
        owner: &Arc<LockOwner>,
        wanted: &LockRequest,
    ) -> ConflictHolders {
        let holders = state.locks.conflicts(Some(owner), wanted.range, wanted.kind);
        let holders = holders.take(CONFLICTS_AT_ONCE_MAX);
        let clients = holders.filter_map(|lock| Some(&state.lock_states.of(&lock.owner)?.client));
        match ConflictHolders::of(self, context.now, clients) {
            ConflictHolders::None
                if context.now.since(state.freed) <= self.config.turn
                    && state.waiters.earlier(owner, wanted).is_some() =>
            {
                ConflictHolders::Active
            }
            found => found,
        }
    }

    fn lock_free_range(
        &self,
        context: &Context<'_>,
        state: &mut File,
        by: (&Arc<StateEntry>, &Arc<LockOwner>),
        wanted: &LockRequest,
    ) -> Result<(StateId, DurabilityToken), LockError> {
        let (stateid, token, freed) = self.lock_range(context, state, by, wanted)?;
        // Waiters for what an earlier part turned into a shared lock were not woken then.
        let freed = Range::cover(freed, state.mergings.end(by.1, wanted.range));
        // An exclusive lock may have become a shared one, and others may have waited behind the owner.
        self.wake(context, state, by.0.file, freed);
        Ok((stateid, token))
    }

    /// Locks a free range, and gives up the owner's places in the queue for it. Also returns a range that covers the locks that
    /// are gone, so that waiters may proceed.
    fn lock_range(
        &self,
        context: &Context<'_>,
        state: &mut File,
        (open, owner): (&Arc<StateEntry>, &Arc<LockOwner>),
        wanted: &LockRequest,
    ) -> Result<(StateId, DurabilityToken, Option<Range>), LockError> {
        let known = state.lock_states.of(owner).cloned();
        let entry = match &known {
            Some(entry) => Arc::clone(entry),
            None => {
                self.check_room(&open.client, None)?;
                StateEntry::locks(StateId { seqid: 0, other: self.next_other(&open.client) }, owner, open)
            }
        };
        let change = state.locks.plan(owner, wanted.range, Some(wanted.kind));
        self.check_ranges(state, &open.client, &change)?;
        // The open of NLM locks is created and removed with them.
        let opened = (known.is_none() && open.client.version == ClientProtocol::Nlm).then_some(open);
        let token = self.journal_ranges(context, &entry, opened, &change)?;
        if let Some(open) = opened {
            self.add(open)?;
            state.opens.insert(open);
            Counters::up(&self.counters.opens);
        }
        if known.is_none() {
            self.add(&entry)?;
            state.lock_states.insert(&entry);
            Counters::up(&self.counters.lock_states);
        }
        state.apply_ranges(&open.client, &change);
        state.waiters.remove(|waiter| waiter.owner == *owner && waiter.range.overlaps(wanted.range));
        Ok((entry.stateid(), token, change.removed_range()))
    }

    /// Checks that there is room for a change of ranges, in all files and in this one. Each origin has its share in both, so that
    /// nobody who may only read a file keeps others from locking it. Unlocking the middle of a range needs room too.
    ///
    /// LOCK and LOCKU of NFSv4.1 cannot answer NFS4ERR_RESOURCE, only NFS4ERR_DELAY or NFS4ERR_SERVERFAULT (RFC 8881
    /// section 15.2). A client repeats the first for ever. That is right at the limit of all files, where idle clients
    /// give way (`expiry.rs`). At the limit of one file, the program that locks so much is likely the one that asks, so
    /// it gets the error.
    fn check_ranges(
        &self,
        state: &File,
        client: &Client,
        change: &Change<Arc<LockOwner>>,
    ) -> Result<(), StateError> {
        let growth = change.growth();
        let (bound, all) = (self.config.ranges_per_file as u64, state.locks.len() as u64);
        let held = state.locks.of_origin(client.holder.origin()) as u64;
        let fits = growth as u64 <= room_of_origin(bound, all.saturating_sub(held), held);
        match client.version {
            _ if growth == 0 => Ok(()),
            _ if fits && client.holder.may_take(Resource::Ranges, growth as u64) => Ok(()),
            ClientProtocol::V40 | ClientProtocol::Nlm => Err(StateError::LimitReached),
            ClientProtocol::Sessions if fits => Err(StateError::TryLater),
            ClientProtocol::Sessions => Err(StateError::TooManyRanges),
        }
    }

    /// Journals a change of an owner's ranges, and of its stateid, which counts changes.
    fn journal_ranges(
        &self,
        context: &Context<'_>,
        entry: &StateEntry,
        opened: Option<&Arc<StateEntry>>,
        change: &Change<Arc<LockOwner>>,
    ) -> Result<DurabilityToken, StateError> {
        let StateKind::Locks(locks) = &entry.kind else { return Err(StateError::BadStateId) };
        let seqid = entry.next_seqid();
        let record = LockStateRecord { owner: locks.owner.name().into(), open: locks.open.other, seqid };
        let mut changes: Vec<StateChange> = opened.and_then(|open| open.to_change()).into_iter().collect();
        changes.push(Key::LockState(entry.file.ino, entry.other).put(&record));
        changes.extend(range_changes(entry, change));
        let token = context.change(entry.file.volume, &changes)?;
        entry.set_seqid(seqid);
        Ok(token)
    }

    /// Returns whether an owner has a lock that overlaps a range.
    pub(crate) fn has_any_lock(&self, entry: &StateEntry, range: Range) -> bool {
        let files = self.files.read(&entry.file);
        let (Some(state), Some(locks)) = (files.get(&entry.file), entry.as_locks()) else { return false };
        state.locks.has_any(&locks.owner, range)
    }

    /// Returns the stateid of an owner's locks if they cover the range in exactly this kind.
    pub(crate) fn locked(&self, locker: Locker<'_>, wanted: &LockRequest) -> Option<StateId> {
        self.lock_state_with(locker, wanted, |kind| kind == wanted.kind)
    }

    /// Returns whether an owner's locks cover the range in this kind or a stronger one.
    pub(crate) fn has_lock(&self, locker: Locker<'_>, wanted: &LockRequest) -> bool {
        let enough = |kind| kind == wanted.kind || kind == LockKind::Write;
        self.lock_state_with(locker, wanted, enough).is_some()
    }

    fn lock_state_with(
        &self,
        locker: Locker<'_>,
        wanted: &LockRequest,
        fits: impl Fn(LockKind) -> bool,
    ) -> Option<StateId> {
        let (file, owner) = match locker {
            Locker::New { open, owner } => (open.file, owner),
            Locker::Known(entry) => (entry.file, &entry.as_locks()?.owner),
        };
        let files = self.files.read(&file);
        let state = files.get(&file)?;
        state.locks.covering(owner, wanted.range).filter(|lock| fits(lock.kind))?;
        Some(state.lock_states.of(owner)?.stateid())
    }

    /// LOCKT: reports a conflicting lock (RFC 7530 section 16.11). `owner` is none if it is unknown.
    ///
    /// # Errors
    /// [`LockError::Denied`].
    pub(crate) fn test_lock(
        &self,
        context: &Context<'_>,
        file: FileId,
        owner: Option<&Arc<LockOwner>>,
        range: Range,
        kind: LockKind,
    ) -> Result<(), LockError> {
        let mut work = Work::part();
        loop {
            let files = self.files.read(&file);
            let Some(state) = files.get(&file) else { return Ok(()) };
            let Some(lock) = state.locks.conflict(owner, range, kind) else { return Ok(()) };
            let client = state.lock_states.of(&lock.owner).map(|entry| Arc::clone(&entry.client));
            let is_over =
                |client: &Arc<Client>| client.is_gone() || client.lease_idle(context.now) > self.config.lease;
            match client.filter(is_over) {
                None => return Err(LockError::Denied(lock.into())),
                Some(silent) => {
                    drop(files);
                    self.make_way(context, file, &[silent], &mut work)?;
                }
            }
        }
    }

    /// LOCKU: frees a range (RFC 7530 section 16.12), whether it was locked or not.
    ///
    /// # Errors
    /// [`StateError::BadStateId`] if it is not a lock stateid; [`StateError::Unfinished`] while more is locked there than one part
    /// frees.
    pub(crate) fn unlock(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
        range: Range,
    ) -> Result<(StateId, DurabilityToken), StateError> {
        let locks = entry.as_locks().ok_or(StateError::BadStateId)?;
        let file = entry.file;
        let mut files = self.files.write(&file);
        if entry.liveness() != Liveness::Live {
            return Err(StateError::BadStateId);
        }
        let state = files.get_mut(&file).ok_or(StateError::BadStateId)?;
        let freed =
            state.waiters.remove(|waiter| waiter.owner == locks.owner && waiter.range.overlaps(range));
        let token = self.unlock_held(context, state, entry, range);
        self.wake(context, state, file, freed);
        Ok((entry.stateid(), token?))
    }

    /// Frees a range, under the lock of its file.
    pub(super) fn unlock_held(
        &self,
        context: &Context<'_>,
        state: &mut File,
        entry: &Arc<StateEntry>,
        range: Range,
    ) -> Result<DurabilityToken, StateError> {
        let locks = entry.as_locks().ok_or(StateError::BadStateId)?;
        if let Some(part) = state.locks.part(&locks.owner, range, PART) {
            self.unlock_part(context, state, entry, part)?;
            return Err(StateError::Unfinished);
        }
        let change = state.locks.plan(&locks.owner, range, None);
        self.check_ranges(state, &entry.client, &change)?;
        let token = self.journal_ranges(context, entry, None, &change)?;
        state.apply_ranges(&entry.client, &change);
        self.wake(context, state, entry.file, change.removed_range());
        Ok(token)
    }

    /// RELEASE_LOCKOWNER: forgets an owner (RFC 7530 section 16.37).
    ///
    /// # Errors
    /// [`StateError::LocksHeld`] if it has locks; [`StateError::Unfinished`] while it has more lock states than one part frees.
    pub(crate) fn release_lock_owner(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        name: &[u8],
    ) -> Result<(), StateError> {
        let Some(owner) = client.known_lock_owner(name) else { return Ok(()) };
        if client.forget_idle(&owner) {
            return Ok(());
        }
        if owner.has_ranges() {
            return Err(StateError::LocksHeld);
        }
        let states = owner.some_states(PART);
        for other in &states {
            let entry = self.stateids.read(other).get(other).cloned();
            entry.map_or(Ok(()), |entry| self.free_lock_state(context, &entry))?;
        }
        if states.len() == PART {
            return Err(StateError::Unfinished);
        }
        client.inner.lock().lock_owners.remove(name);
        Ok(())
    }

    /// Ends a lock state without locks.
    ///
    /// # Errors
    /// [`StateError::LocksHeld`].
    pub(crate) fn free_lock_state(
        &self,
        context: &Context<'_>,
        entry: &Arc<StateEntry>,
    ) -> Result<(), StateError> {
        let locks = entry.as_locks().ok_or(StateError::BadStateId)?;
        let file = entry.file;
        let mut files = self.files.write(&file);
        let Some(state) = files.get_mut(&file) else { return Ok(()) };
        if state.locks.of(&locks.owner).next().is_some() {
            return Err(StateError::LocksHeld);
        }
        context.change(file.volume, &state.lock_state_deleted(entry))?;
        self.drop_lock_states(context, state, std::slice::from_ref(entry), file);
        self.forget_if_idle(&mut files, context, file);
        Ok(())
    }

    /// Removes lock states of a file with their ranges; their records are deleted already.
    pub(super) fn drop_lock_states(
        &self,
        context: &Context<'_>,
        state: &mut File,
        entries: &[Arc<StateEntry>],
        file: FileId,
    ) {
        if entries.is_empty() && state.waiters.is_empty() {
            return;
        }
        let (mut freed, mut gone) = (None, HashSet::new());
        for entry in entries {
            let Some(locks) = entry.as_locks() else { continue };
            let change = state.locks.plan(&locks.owner, Range::ALL, None);
            state.apply_ranges(&entry.client, &change);
            freed = Range::cover(freed, change.removed_range());
            gone.insert(locks.owner.number());
            if state.lock_states.remove(entry) {
                Counters::down(&self.counters.lock_states);
            }
            entry.end();
            self.forget(&entry.client, entry.other);
        }
        let waited = state.waiters.remove(|waiter| gone.contains(&waiter.owner.number()));
        self.wake(context, state, file, Range::cover(freed, waited));
    }

    /// Notifies the waiters whose turn it is: those that may lock now that something within `freed` is free, and those behind
    /// places that were given up. NLM waiters get their locks. If they are very many, [`SharedState::tick`] wakes the others.
    pub(super) fn wake(&self, context: &Context<'_>, state: &mut File, file: FileId, freed: Option<Range>) {
        let mut places = state.waiters.take_turns();
        if freed.is_none() && places.is_empty() {
            return;
        }
        state.freed = context.now;
        let in_turn = |state: &File, freed: Option<Range>| freed.map(|freed| state.waiters.in_turn(freed));
        places.extend(in_turn(state, freed).into_iter().flatten());
        let mut woken = 0;
        while let Some(place) = places.pop_first() {
            if !state.may_lock(place, self.merge_clock(context)) {
                continue;
            }
            if woken == WOKEN_AT_ONCE {
                places.insert(place);
                return self.wake_later(state, file, places);
            }
            woken += 1;
            let Some(waiter) = state.waiters.at(place) else { continue };
            waiter.notified = true;
            let waiter = waiter.clone();
            match &waiter.open {
                Some(open) => {
                    // The grant removed the owner's places in the queue, and may itself have freed something.
                    let freed = self.grant_to_waiter(context, state, &waiter, open);
                    places.append(&mut state.waiters.take_turns());
                    places.extend(in_turn(state, freed).into_iter().flatten());
                }
                None => self.notify_lock(context, file, &waiter.owner),
            }
        }
    }

    /// Locks for an NLM waiter, and calls its host. Returns a range that covers the locks that are gone.
    fn grant_to_waiter(
        &self,
        context: &Context<'_>,
        state: &mut File,
        waiter: &Waiter,
        open: &Arc<StateEntry>,
    ) -> Option<Range> {
        let wanted = LockRequest { range: waiter.range, kind: waiter.kind, waits: true };
        let locked = match state.locks.part(&waiter.owner, waiter.range, PART) {
            None => self.lock_range(context, state, (open, &waiter.owner), &wanted),
            // It takes several parts.
            Some(_) => Err(StateError::Unfinished.into()),
        };
        match locked {
            Ok((_, token, freed)) => {
                self.send_granted(context, waiter, open, token);
                freed
            }
            // The waiter asks again, or is gone.
            Err(_) => {
                state.waiters.remove(|other| other.owner == waiter.owner && other.range == waiter.range);
                None
            }
        }
    }
}

/// Returns what conflicts with a request.
fn denied(state: &File, owner: &Arc<LockOwner>, wanted: &LockRequest) -> Option<Denied> {
    let held = state.locks.conflict(Some(owner), wanted.range, wanted.kind).map(Denied::from);
    held.or_else(|| {
        let waiter = state.waiters.earlier(owner, wanted)?;
        Some(Denied { range: waiter.range, kind: waiter.kind, owner: waiter.owner.id.clone(), waits: false })
    })
}
