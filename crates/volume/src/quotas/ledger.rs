//! The accounts of a volume: what is used of each limit, and what is reserved.
//!
//! A limit is checked and room is reserved under one lock for all owners of an object, so that calls on many connections never exceed
//! it together. Accounts are opened at their first use: only then is the usage counter read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::api::ids::Layer;
use crate::api::quotas::{
    Bound, Exceeded, Grace, Limits, Owner, QuotaCounts, QuotaKind, QuotaNotice, QuotaRoom,
};
use crate::api::time::Time;
use crate::encoding::entry::UsageDelta;
use crate::encoding::record::{InodeRecord, QuotaRecord, UsageRecord};

use crate::planted::{Fault, is_planted};

use super::account::{Account, Shortage, plus, still_exceeded};
use super::budget::Budget;
use super::notices::Notices;
use super::open::{OpenAccounts, Place};
use super::recent::Recent;
use super::records::Quotas;

/// The part of a volume's size that stands for one object. Names, symbolic links and attributes use no bytes of the size, but
/// space of the pool: for the longest ones about as much as this.
const SIZE_PER_OBJECT: u64 = 4096;

/// The least number of objects that a volume with a size may hold.
const OBJECTS_MIN: u64 = 1024;

/// Returns the most objects that a volume with a size may hold: one for each [`SIZE_PER_OBJECT`], at least [`OBJECTS_MIN`]. Each name
/// of an object beyond its first counts like an object.
pub(crate) fn objects_max(size: u64) -> u64 {
    (size / SIZE_PER_OBJECT).max(OBJECTS_MIN)
}

/// The part of a volume's size that stands for one mapping. Files of which every part is written in multiples of it never have more.
/// A mapping takes about a quarter of this in the index.
const SIZE_PER_MAPPING: u64 = 512;

/// The least number of mappings that a volume with a size may have.
const MAPPINGS_MIN: u64 = 8192;

/// Returns the most mappings that the index may have of a volume with a size: one for each [`SIZE_PER_MAPPING`], at least
/// [`MAPPINGS_MIN`].
pub(crate) fn mappings_max(size: u64) -> u64 {
    (size / SIZE_PER_MAPPING).max(MAPPINGS_MIN)
}

/// Of the accounts of the volume with the most, one part of so many is closed at once, as far as they are idle.
const CLOSED_PARTS: usize = 16;

/// Most accounts that are closed at once: their volume waits for that.
const CLOSED_AT_ONCE_MAX: usize = 16;

/// The owners of an object, as far as they may be limited: the volume first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owners {
    pub(super) tree: u64,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Owners {
    pub(crate) fn new(tree: u64, uid: u32, gid: u32) -> Owners {
        Owners { tree, uid, gid }
    }

    pub(crate) fn of(record: &InodeRecord) -> Owners {
        Owners { tree: record.tree, uid: record.uid, gid: record.gid }
    }

    /// Returns the owners of all kinds.
    pub(crate) fn each(self) -> impl Iterator<Item = Owner> {
        QuotaKind::ALL.into_iter().map(move |kind| self.of_kind(kind))
    }

    /// Returns the owner of a kind.
    fn of_kind(self, kind: QuotaKind) -> Owner {
        let id = match kind {
            QuotaKind::Volume => 0,
            QuotaKind::Tree => self.tree,
            QuotaKind::User => u64::from(self.uid),
            QuotaKind::Group => u64::from(self.gid),
        };
        Owner::new(kind, id)
    }

    /// Returns the kinds of which both have different owners.
    pub(crate) fn differing(self, other: Owners) -> Kinds {
        let differs = |kind: &QuotaKind| self.of_kind(*kind) != other.of_kind(*kind);
        QuotaKind::ALL.into_iter().filter(differs).fold(Kinds::NONE, Kinds::with)
    }
}

/// A set of kinds of owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const NONE: Kinds = Kinds(0);
    pub(crate) const ALL: Kinds = Kinds(15);
    pub(crate) const VOLUME: Kinds = Kinds(1);
    /// Those whose limits do not bind the superuser.
    pub(crate) const PERSONS: Kinds = Kinds(12);

    pub(super) fn with(self, kind: QuotaKind) -> Kinds {
        Kinds(self.0 | kind.bit())
    }

    pub(crate) fn intersection(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    pub(crate) fn union(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    pub(crate) fn difference(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    fn has(self, kind: QuotaKind) -> bool {
        self.0 & kind.bit() != 0
    }

    fn each(self) -> impl Iterator<Item = QuotaKind> {
        QuotaKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }

    /// Returns which of these places are those of its kinds.
    #[inline]
    fn among(self, places: &[Place; 4]) -> impl Iterator<Item = Place> {
        (0..4).filter(move |kind| self.0 & 1 << kind != 0).map(|kind| places[kind])
    }
}

/// What is reserved, and in the accounts of which owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) owners: Owners,
    /// The kinds of owners in whose accounts it is.
    pub(crate) kinds: Kinds,
    pub(crate) amount: UsageRecord,
    /// Where these accounts are, by kind, as far as that is known.
    pub(crate) places: [Place; 4],
}

impl Reservation {
    /// Returns where the account of a kind is, if that is known.
    fn place(&self, kind: QuotaKind) -> Option<Place> {
        Some(self.places[usize::from(kind.byte())]).filter(|place| self.kinds.has(kind) && place.is_known())
    }
}

/// Who wants to reserve, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) owners: Owners,
    /// The kinds of owners whose usage grows.
    pub(crate) kinds: Kinds,
    /// Those of them whose limits do not matter.
    pub(crate) exempt: Kinds,
    pub(crate) amount: UsageRecord,
    /// Whether there is unstable data besides, which may have been accepted before anything was limited.
    pub(crate) has_unstable: bool,
    pub(crate) now: Time,
}

/// Why nothing was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The account of this owner must be opened first.
    Unopened(Owner),
    /// A flush may leave less reserved for this owner.
    Unflushed(Owner),
    /// The size of the volume is used up.
    NoSpace,
    /// A limit of this owner's quota is used up.
    Quota(Owner, Bound),
}

/// The accounts of a volume.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Whether anything is limited. Read without the lock, so that no limits cost nothing.
    is_limited: AtomicBool,
    /// Whether accounts may be open: from the first limit on.
    has_accounts: AtomicBool,
    /// See [`mappings_max`]. Read without the lock.
    mappings_max: AtomicU64,
    /// Mappings put into the active memtable, and into the one before it.
    mapped: Mutex<[Mapped; 2]>,
    accounts: Mutex<Accounts>,
}

/// The accounts, locked.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// The size of the volume, if there is a limit.
    size: Option<u64>,
    quotas: Quotas,
    /// Callers that a soft and a hard limit refused, by the kind of quota.
    refused: [(u64, u64); QuotaKind::ALL.len()],
    notices: Notices,
    /// The kinds of which any owner has a limit.
    limited: Kinds,
    /// The flush after which all unstable data is reserved for: what was accepted before the newest limit may not be.
    complete_after: u64,
    open: OpenAccounts,
    /// The accounts of owners that something was reserved for lately.
    recent: Recent,
    /// The time of the newest call that reserved something.
    now: Time,
}

/// The number of mappings put into a memtable, including those that replaced others.
#[derive(Clone, Copy, Debug, Default)]
struct Mapped {
    layer: Layer,
    mappings: u64,
}

impl Ledger {
    /// Opens the ledger of a volume with this size and these quotas. What it has in memory is part of `budget`.
    pub(crate) fn new(
        size: Option<u64>,
        quotas: BTreeMap<Owner, QuotaRecord>,
        budget: &Arc<Budget>,
    ) -> Ledger {
        let accounts = Accounts::new(size, quotas, budget);
        let ledger = Ledger {
            is_limited: AtomicBool::new(false),
            has_accounts: AtomicBool::new(false),
            mappings_max: AtomicU64::new(u64::MAX),
            mapped: Mutex::default(),
            accounts: Mutex::new(accounts),
        };
        ledger.note_limited(&mut ledger.accounts.lock());
        ledger
    }

    /// Whether anything is limited.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Acquire)
    }

    /// Returns the most mappings that the index may have of the volume.
    #[inline]
    pub(crate) fn mappings_max(&self) -> u64 {
        self.mappings_max.load(Ordering::Relaxed)
    }

    /// Counts mappings put into the active memtable. Returns true once, when they reach half of the limit, so that a checkpoint
    /// counts those in the index.
    pub(crate) fn note_mapped(&self, active: Layer, mappings: u64) -> bool {
        let most = self.mappings_max();
        if mappings == 0 || most == u64::MAX {
            return false;
        }
        let mut mapped = self.mapped.lock();
        if mapped[0].layer != active {
            *mapped = [Mapped { layer: active, mappings: 0 }, mapped[0]];
        }
        let before = mapped[0].mappings;
        mapped[0].mappings += mappings;
        before < most / 2 && before + mappings >= most / 2
    }

    /// Returns the number of mappings put into memtables from this layer on.
    pub(crate) fn mapped_since(&self, oldest: Layer) -> u64 {
        let mapped = self.mapped.lock();
        mapped.iter().filter(|mapped| mapped.layer >= oldest).map(|mapped| mapped.mappings).sum()
    }

    /// Whether transactions must tell accounts what they change.
    #[inline]
    pub(crate) fn has_accounts(&self) -> bool {
        self.has_accounts.load(Ordering::Acquire)
    }

    /// Has transactions that begin from now on tell accounts what they change. Called before the first account is opened, so that it
    /// misses none.
    pub(crate) fn expect_accounts(&self) {
        self.has_accounts.store(true, Ordering::Release);
    }

    /// Locks the accounts.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock()
    }

    fn note_limited(&self, accounts: &mut Accounts) {
        let has_size = |kind| kind == QuotaKind::Volume && accounts.size.is_some();
        let is_limited = |kind: &QuotaKind| has_size(*kind) || accounts.quotas.has_limits(*kind);
        accounts.limited = QuotaKind::ALL.into_iter().filter(is_limited).fold(Kinds::NONE, Kinds::with);
        if accounts.limited != Kinds::NONE {
            self.expect_accounts();
        }
        self.mappings_max.store(accounts.size.map_or(u64::MAX, mappings_max), Ordering::Relaxed);
        self.is_limited.store(accounts.limited != Kinds::NONE, Ordering::Release);
    }

    /// Sets the size of the volume. `flush` is one that writes back everything accepted so far.
    pub(crate) fn resize(&self, size: Option<u64>, flush: u64) {
        let mut accounts = self.accounts.lock();
        if accounts.size.is_none() {
            accounts.complete_after = flush;
        }
        accounts.size = size;
        self.limits_changed(&mut accounts, Owner::VOLUME);
    }

    /// Sets or removes a quota, and returns its record: of what was exceeded, it has what is exceeded still. `flush` is one that writes
    /// back everything accepted so far.
    pub(crate) fn set(
        &self,
        accounts: &mut Accounts,
        owner: Owner,
        record: QuotaRecord,
        flush: u64,
    ) -> QuotaRecord {
        if accounts.limits_of(owner).is_none() && record.limits.is_some() {
            accounts.complete_after = flush;
        }
        let exceeded = match record.limits.zip(accounts.used(owner)) {
            Some((limits, used)) => still_exceeded(&limits, used, record.exceeded),
            None => record.exceeded,
        };
        let record = QuotaRecord { exceeded, ..record };
        accounts.quotas.put(owner, record);
        self.limits_changed(accounts, owner);
        record
    }

    /// Applies changed limits to the open account of an owner, or of every owner of its kind if they are those of all others.
    fn limits_changed(&self, accounts: &mut Accounts, owner: Owner) {
        self.note_limited(accounts);
        accounts.recent.clear();
        if !owner.is_others() {
            return accounts.apply_limits(owner);
        }
        let of_kind: Vec<Owner> = accounts.open.owners().filter(|one| one.kind == owner.kind).collect();
        of_kind.into_iter().for_each(|owner| accounts.apply_limits(owner));
    }
}

impl Accounts {
    fn new(size: Option<u64>, quotas: BTreeMap<Owner, QuotaRecord>, budget: &Arc<Budget>) -> Accounts {
        Accounts {
            size,
            quotas: Quotas::new(quotas, Arc::clone(budget)),
            refused: Default::default(),
            notices: Notices::default(),
            limited: Kinds::NONE,
            complete_after: 0,
            open: OpenAccounts::new(Arc::clone(budget)),
            recent: Recent::default(),
            now: Time::default(),
        }
    }

    /// Returns the size of the volume, if there is a limit.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Returns the quotas.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Replaces all quotas, without a journal.
    #[cfg(test)]
    pub(crate) fn replace_quotas(&mut self, records: BTreeMap<Owner, QuotaRecord>) {
        self.quotas.replace(records);
    }

    /// Counts a caller that a limit of this owner's quota refuses.
    pub(crate) fn count_refused(&mut self, owner: Owner, bound: Bound, now: Time) {
        let (by_soft, by_hard) = &mut self.refused[usize::from(owner.kind.byte())];
        *(if bound == Bound::Soft { by_soft } else { by_hard }) += 1;
        self.notices.add(owner, QuotaNotice::Refused, now);
    }

    /// Returns what happened to quotas since this was called before, and how much more that was not kept.
    pub(crate) fn take_notices(&mut self) -> (Vec<(Owner, QuotaNotice)>, u64) {
        self.notices.take()
    }

    /// Returns what quotas of each kind have done.
    pub(crate) fn counts(&self) -> [QuotaCounts; QuotaKind::ALL.len()] {
        let exceeding = self.quotas.exceeding();
        std::array::from_fn(|kind| {
            let (refused_by_soft, refused_by_hard) = self.refused[kind];
            QuotaCounts { exceeding: exceeding[kind] as u64, refused_by_soft, refused_by_hard }
        })
    }

    /// Returns the record of a quota.
    pub(crate) fn record(&self, owner: Owner) -> QuotaRecord {
        self.quotas.record(owner)
    }

    /// Returns the limits of an owner, unless nothing limits it, and whether they are those of all others of its kind.
    pub(crate) fn quota_of(&self, owner: Owner) -> Option<(Limits, bool)> {
        if !owner.may_be_limited() {
            return None;
        }
        let own = self.record(owner).limits.map(|limits| (limits, false));
        let has_others = owner.kind != QuotaKind::Volume;
        let limits = own.or_else(|| {
            self.record(Owner::others(owner.kind)).limits.filter(|_| has_others).map(|limits| (limits, true))
        });
        limits.filter(|(limits, _)| !limits.is_none())
    }

    /// Returns how long owners of a kind may exceed their soft limits.
    pub(crate) fn grace(&self, kind: QuotaKind) -> Grace {
        self.record(Owner::others(kind)).grace.unwrap_or_default()
    }

    /// Returns what limits an owner, the size of the volume included.
    pub(crate) fn limits_of(&self, owner: Owner) -> Option<Limits> {
        let quota = self.quota_of(owner).map(|(limits, _)| limits);
        let Some(size) = self.size.filter(|_| owner == Owner::VOLUME) else { return quota };
        let mut limits = quota.unwrap_or_default();
        let least = |limit: Option<u64>, most: u64| Some(limit.map_or(most, |limit| limit.min(most)));
        limits.bytes.hard = least(limits.bytes.hard, size);
        limits.inodes.hard = least(limits.inodes.hard, objects_max(size));
        Some(limits)
    }

    /// Returns since when an owner exceeds soft limits that it has, according to its record.
    pub(crate) fn exceeded(&self, owner: Owner) -> Exceeded {
        self.quotas.exceeded(owner)
    }

    fn apply_limits(&mut self, owner: Owner) {
        let (limits, grace) = (self.limits_of(owner), self.grace(owner.kind));
        let Some(account) = self.open.get_mut(owner) else { return };
        let noted = account.unnoted().unwrap_or(self.quotas.record(owner).exceeded);
        let exceeded = self.quotas.valid_exceeded(owner, noted);
        account.limit(limits.unwrap_or_default(), grace, exceeded);
    }

    /// Opens the account of an owner that uses so much now. No transaction may be in progress.
    pub(crate) fn open(&mut self, owner: Owner, used: UsageRecord) {
        self.recent.clear();
        if self.open.add(owner, Account::new(used)) {
            self.apply_limits(owner);
        }
    }

    /// Returns how many accounts are open.
    pub(crate) fn accounts_open(&self) -> usize {
        self.open.len()
    }

    /// Closes a part of the idle accounts, so that other volumes may open some. Changes may be in progress.
    pub(crate) fn close_some(&mut self) {
        self.recent.clear();
        self.open.close_idle((self.open.len() / CLOSED_PARTS).clamp(1, CLOSED_AT_ONCE_MAX));
    }

    /// Forgets what a deleted volume does not need.
    pub(crate) fn forget(&mut self) {
        self.recent.clear();
        self.open.close_idle(usize::MAX);
        self.quotas.replace(BTreeMap::new());
    }

    /// Returns what an owner uses, if its account is open.
    pub(crate) fn used(&self, owner: Owner) -> Option<UsageRecord> {
        self.open.get(owner).map(Account::used)
    }

    /// Returns everything that is reserved of an owner's limits.
    pub(crate) fn reserved(&self, owner: Owner) -> UsageRecord {
        self.open.get(owner).map_or(UsageRecord::default(), Account::reserved)
    }

    /// Reserves for all owners, or for none; `flushed` is the last flush done.
    pub(crate) fn reserve(&mut self, claim: &Claim, flushed: u64) -> Result<Reservation, Refusal> {
        self.now = self.now.max(claim.now);
        let Claim { owners, amount, .. } = *claim;
        let (all, places) = match self.recent.get(owners) {
            Some(found) => found,
            None => self.find(owners)?,
        };
        let kinds = claim.kinds.intersection(all);
        self.reserve_by_limits(claim, flushed, kinds, &places)?;
        Ok(Reservation { owners, kinds, amount, places })
    }

    /// Finds the open accounts of owners.
    #[cold]
    fn find(&mut self, owners: Owners) -> Result<(Kinds, [Place; 4]), Refusal> {
        let (mut kinds, mut places) = (Kinds::NONE, [Place::NONE; 4]);
        for kind in self.limited.each() {
            let owner = owners.of_kind(kind);
            if let Some(place) = self.open.place(owner) {
                kinds = kinds.with(kind);
                places[usize::from(kind.byte())] = place;
            } else if self.limits_of(owner).is_some() {
                return Err(Refusal::Unopened(owner));
            }
        }
        self.recent.put(owners, kinds, places);
        Ok((kinds, places))
    }

    /// Reserves in the accounts of these kinds, if all limits allow that.
    fn reserve_by_limits(
        &mut self,
        claim: &Claim,
        flushed: u64,
        kinds: Kinds,
        places: &[Place; 4],
    ) -> Result<(), Refusal> {
        for kind in kinds.difference(claim.exempt).each() {
            let (owner, place) = (claim.owners.of_kind(kind), places[usize::from(kind.byte())]);
            let mut checked = self.open.at(place).check(claim.amount, flushed, claim.now);
            let adds_bytes = claim.amount.bytes > 0 || claim.has_unstable;
            if checked.is_ok() && adds_bytes && flushed < self.complete_after {
                checked = Err(Shortage::Unflushed);
            }
            match checked {
                Ok(()) => {}
                Err(Shortage::Unflushed) => return Err(Refusal::Unflushed(owner)),
                Err(Shortage::Full(bound)) => return Err(self.refusal(owner, bound, claim.amount)),
            }
        }
        kinds.among(places).for_each(|place| self.open.at(place).reserve(claim.amount));
        Ok(())
    }

    /// Returns whether the size of the volume or a quota refuses this.
    fn refusal(&self, owner: Owner, bound: Bound, amount: UsageRecord) -> Refusal {
        let (Some(size), Some(account)) =
            (self.size.filter(|_| owner == Owner::VOLUME), self.open.get(owner))
        else {
            return Refusal::Quota(owner, bound);
        };
        let used = account.used();
        let over_size = amount.bytes > 0
            && used.bytes.saturating_add(amount.bytes) > size.saturating_sub(account.reserved().bytes);
        let over_objects =
            amount.inodes > 0 && used.inodes + account.reserved().inodes + amount.inodes > objects_max(size);
        if over_size || over_objects { Refusal::NoSpace } else { Refusal::Quota(owner, bound) }
    }

    /// Returns what limits of these kinds leave to the owners of an object, and what is used of the hard one that leaves least.
    ///
    /// # Errors
    /// The owner whose account must be opened first.
    pub(crate) fn room(
        &self,
        owners: Owners,
        is_shown: impl Fn(QuotaKind) -> bool,
    ) -> Result<QuotaRoom, Owner> {
        let mut room = QuotaRoom::default();
        for kind in self.limited.each().filter(|kind| is_shown(*kind)) {
            let owner = owners.of_kind(kind);
            let Some(Limits { bytes, .. }) = self.limits_of(owner) else { continue };
            let account = self.open.get(owner).ok_or(owner)?;
            let taken = plus(account.used(), account.reserved()).bytes;
            let left = |most: Option<u64>| most.map(|most| most.saturating_sub(taken));
            let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
            if let Some(hard) = left(bytes.hard)
                && room.hard.is_none_or(|least| hard < least)
            {
                room.used = account.used().bytes;
            }
            room.hard = least(room.hard, left(bytes.hard));
            room.soft = least(room.soft, left(bytes.soft));
        }
        Ok(room)
    }

    /// Notes that a caller who needs so many bytes of an owner's limit waits for a flush.
    pub(crate) fn wait_for(&mut self, owner: Owner, bytes: u64, flushed: u64, request: impl FnOnce() -> u64) {
        if let Some(account) = self.open.get_mut(owner) {
            account.wait_for(bytes, flushed, request);
        }
    }

    /// Releases a reservation.
    pub(crate) fn release(&mut self, reservation: &Reservation) {
        if is_planted(Fault::ForgetRefund) {
            return;
        }
        for kind in reservation.kinds.each() {
            let place = reservation.place(kind).or_else(|| self.open.place(reservation.owners.of_kind(kind)));
            if let Some(place) = place {
                self.open.at(place).release(reservation.amount);
            }
        }
    }

    /// Counts a new object, if no limit matters to it. Returns whether that is so; otherwise, nothing is counted.
    #[inline]
    pub(crate) fn count_object(&mut self, owners: Owners) -> bool {
        let Some((kinds, places)) = self.recent.get(owners) else { return false };
        // Accounts of other kinds may be open too.
        if self.open.kinds().difference(kinds) != Kinds::NONE {
            return false;
        }
        for (kind, place) in places.iter().enumerate() {
            if kinds.0 & 1 << kind != 0 && !self.open.at(*place).count_object() {
                let counted = Kinds(kinds.0 & ((1 << kind) - 1));
                counted.among(&places).for_each(|place| self.open.at(place).change(0, -1));
                return false;
            }
        }
        true
    }

    /// Counts what a transaction changes, and releases what was reserved for it. Returns the quotas whose soft limits begin or cease
    /// to be exceeded by it.
    pub(crate) fn settle(
        &mut self,
        deltas: &[UsageDelta],
        reservations: &[Reservation],
    ) -> Vec<(Owner, QuotaRecord)> {
        let kinds = self.open.kinds();
        for delta in deltas.iter().filter(|delta| kinds.has(delta.kind)) {
            let owner = Owner::new(delta.kind, delta.id);
            let reserved =
                reservations.iter().find(|reservation| reservation.owners.of_kind(delta.kind) == owner);
            let place = reserved.and_then(|reservation| reservation.place(delta.kind));
            if let Some(place) = place.or_else(|| self.open.place(owner)) {
                self.open.at(place).change(delta.bytes, delta.inodes);
            }
        }
        let changed = self.note_all_exceeded(deltas);
        // Last, as an account stays in its place while something is reserved in it.
        for reservation in reservations {
            self.release(reservation);
        }
        changed
    }

    /// Notes which soft limits are exceeded after these changes. Returns the quotas that change with that.
    fn note_all_exceeded(&mut self, deltas: &[UsageDelta]) -> Vec<(Owner, QuotaRecord)> {
        if !self.quotas.has_soft() {
            return Vec::new();
        }
        let owners = deltas.iter().map(|delta| Owner::new(delta.kind, delta.id));
        owners.filter_map(|owner| self.note_exceeded(owner, self.now)).collect()
    }

    /// Notes which soft limits of an owner are exceeded. Returns its quota if that changed. When there is no room for a note, only the
    /// open account knows, and it is tried again with the next change: as anybody can use many numbers of users, memory must not grow
    /// with them.
    pub(crate) fn note_exceeded(&mut self, owner: Owner, now: Time) -> Option<(Owner, QuotaRecord)> {
        let account = self.open.get_mut(owner).filter(|account| account.limits().has_soft())?;
        let exceeded = account.note_exceeded(now)?;
        if exceeded.bytes == Some(now) || exceeded.inodes == Some(now) {
            self.notices.add(owner, QuotaNotice::SoftExceeded, now);
        }
        let before = self.quotas.record(owner);
        let is_unnoted = before.is_empty() && !self.quotas.can_take_note();
        account.set_unnoted(is_unnoted && exceeded != Exceeded::default());
        if is_unnoted || before.exceeded == exceeded {
            return None;
        }
        let record = QuotaRecord { exceeded, ..before };
        self.quotas.put(owner, record);
        Some((owner, record))
    }
}

#[cfg(test)]
mod tests;
