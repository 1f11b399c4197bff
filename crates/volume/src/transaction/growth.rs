//! Reserving what an operation adds to the usage of an object's owners, before it begins its transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::api::ids::VolumeNumber;
use crate::api::quotas::Owner;
use crate::api::request::{Credentials, Error, Request};
use crate::api::time::Time;
use crate::encoding::record::{InodeRecord, UsageRecord};
use crate::file::inodes::{HeldGrowth, InodeState};
use crate::limits::QUOTA_OWNERS_MIN;
use crate::planted::{Fault, is_planted};
use crate::pool::{Pool, Subject};
use crate::quotas::{Claim, Kinds, Ledger, Owners, Place, Refusal, Reservation};
use crate::tables::read_view::ReadView;
use crate::tables::usage;
use crate::tables::usage::Counter;
use crate::transaction::attempt::{Missing, Stop};
use crate::transaction::change::Change;
use crate::volume::{Volume, VolumeState};

/// What is reserved until it is kept.
#[derive(Debug)]
pub(crate) struct Growth<'v> {
    /// None if nothing is limited.
    reserved: Option<(&'v Ledger, Reservation)>,
}

impl Growth<'_> {
    /// Returns what is reserved, for [`crate::transaction::change::Change::add_growth`] or [`Growth::hold`].
    pub(crate) fn keep(mut self) -> Option<Reservation> {
        self.reserved.take().map(|(_, reservation)| reservation)
    }

    /// Whether [`Growth::hold`] may keep it with a file: not if other kinds of owners are limited since the file's older unstable data
    /// was accepted.
    pub(crate) fn fits_with(&self, held: HeldGrowth) -> bool {
        let fits = |(_, reservation): &(_, Reservation)| held.bytes == 0 || held.kinds == reservation.kinds;
        self.reserved.as_ref().is_none_or(fits)
    }

    /// Keeps bytes with a file until its unstable data is written back.
    pub(crate) fn hold(self, state: &mut InodeState) {
        debug_assert!(self.fits_with(state.growth));
        if is_planted(Fault::ReserveNothing) {
            return;
        }
        if let Some(Reservation { kinds, amount, .. }) = self.keep() {
            state.growth = HeldGrowth { bytes: state.growth.bytes + amount.bytes, kinds };
        }
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        if let Some((ledger, reservation)) = &self.reserved {
            ledger.lock().release(reservation);
        }
    }
}

/// Returns bytes that files use.
pub(crate) fn of_bytes(bytes: u64) -> UsageRecord {
    UsageRecord { bytes, inodes: 0 }
}

/// One object without data.
pub(crate) const ONE_OBJECT: UsageRecord = UsageRecord { bytes: 0, inodes: 1 };

/// Returns the kinds of owners whose limits do not bind the caller. The superuser may exceed those of persons, as everywhere, but not
/// those of trees and volumes.
fn exempt(who: &Credentials) -> Kinds {
    if who.uid == 0 { Kinds::PERSONS } else { Kinds::NONE }
}

fn claim(request: &Request<'_>, owners: Owners, amount: UsageRecord) -> Claim {
    Claim {
        owners,
        kinds: Kinds::ALL,
        exempt: exempt(request.credentials),
        amount,
        has_unstable: false,
        now: request.now,
    }
}

impl Volume {
    /// Reserves what an object of these owners will use.
    ///
    /// # Errors
    /// `NoSpace` if it exceeds the size of the volume, and `QuotaExceeded` if it exceeds a quota; `ObjectBusy` if that is known only
    /// after a flush, which was requested, or once removed files are freed. A caller that waits for one limit delays no caller that
    /// needs others.
    pub(crate) fn reserve_growth(
        &self,
        request: &Request<'_>,
        owners: Owners,
        amount: UsageRecord,
    ) -> Result<Growth<'_>, Stop> {
        self.reserve_claim(&claim(request, owners, amount))
    }

    /// Checks that files may get more mappings. Only the next checkpoint finds out which mappings in memtables replace others, so
    /// callers may take a volume to twice the limit.
    ///
    /// # Errors
    /// `NoSpace` if there are more than the size of the volume allows; `ObjectBusy` until checkpoints have freed those of files that were
    /// removed or made shorter, or counted what memtables hold.
    pub(crate) fn require_mappings(&self) -> Result<(), Error> {
        let most = self.own.ledger.mappings_max();
        if most == u64::MAX {
            return Ok(());
        }
        let indexed = self.own.mappings.load(Ordering::Relaxed);
        if indexed <= most {
            let recent = self.own.ledger.mapped_since(self.view().oldest_in_memory());
            if indexed + recent < 2 * most {
                return Ok(());
            }
            self.checkpoints.kick();
            return Err(Error::ObjectBusy);
        }
        if self.own.unmaps_since(self.view().oldest_in_memory()) {
            self.checkpoints.kick();
            return Err(Error::ObjectBusy);
        }
        Err(if self.checkpoints.is_reaping() { Error::ObjectBusy } else { Error::NoSpace })
    }

    /// Reserves a further name of an object, which counts like an object, but for the volume only.
    ///
    /// # Errors
    /// Those of [`Volume::reserve_growth`].
    pub(crate) fn reserve_name(
        &self,
        request: &Request<'_>,
        object: &InodeRecord,
    ) -> Result<Growth<'_>, Stop> {
        self.reserve_claim(&Claim { kinds: Kinds::VOLUME, ..claim(request, Owners::of(object), ONE_OBJECT) })
    }

    /// Reserves what the new owner or group of an object will use: all that the object does, and what its unstable data may. The
    /// superuser, who gives objects away, does so within the limits of whom he gives them to. Those of `exempt` kinds do not matter. The
    /// same transaction frees `freed` bytes of the file.
    pub(crate) fn reserve_for_new_owners(
        &self,
        state: &InodeState,
        (owners, exempt): (Owners, Kinds),
        freed: u64,
        now: Time,
    ) -> Result<Growth<'_>, Stop> {
        let record = state.record();
        let amount = UsageRecord { bytes: record.usage_bytes() - freed + state.growth.bytes, inodes: 1 };
        let kinds = owners.differing(Owners::of(record));
        if kinds == Kinds::NONE {
            return Ok(Growth { reserved: None });
        }
        let has_unstable = !state.dirty.is_empty();
        let claim = Claim { owners, kinds, exempt, amount, has_unstable, now };
        self.reserve_once_saved(&claim, state, (0, u64::MAX))
    }

    /// Reserves what data will use that replaces a range of a file.
    ///
    /// # Errors
    /// Those of [`Volume::reserve_growth`]; nobody is refused while there is unstable data in the range, which may be what is replaced.
    pub(crate) fn reserve_replacing(
        &self,
        request: &Request<'_>,
        state: &InodeState,
        range: (u64, u64),
        bytes: u64,
    ) -> Result<Growth<'_>, Stop> {
        self.reserve_once_saved(&claim(request, Owners::of(state.record()), of_bytes(bytes)), state, range)
    }

    /// Reserves for what concerns a range of a file. What its unstable data takes is known only once it is written back, so that is
    /// requested before a caller is refused.
    fn reserve_once_saved(
        &self,
        claim: &Claim,
        state: &InodeState,
        range: (u64, u64),
    ) -> Result<Growth<'_>, Stop> {
        self.try_reserve(claim).or_else(|refusal| {
            if matches!(refusal, Refusal::NoSpace | Refusal::Quota(..)) {
                self.require_saved(state, range)?;
            }
            Err(self.stop_after(refusal, claim))
        })
    }

    /// Has the unstable data of a range of a file written back.
    ///
    /// # Errors
    /// `ObjectBusy` if there is some.
    pub(crate) fn require_saved(&self, state: &InodeState, (start, end): (u64, u64)) -> Result<(), Error> {
        if state.dirty.overlapping(start, end).next().is_none() {
            return Ok(());
        }
        self.write_back.request(state.id);
        Err(Error::ObjectBusy)
    }

    fn reserve_claim(&self, claim: &Claim) -> Result<Growth<'_>, Stop> {
        self.try_reserve(claim).map_err(|refusal| self.stop_after(refusal, claim))
    }

    /// Returns what a caller does to whom nothing is given.
    fn stop_after(&self, refusal: Refusal, claim: &Claim) -> Stop {
        let error = match refusal {
            Refusal::Unopened(owner) => return Stop::Missing(Missing::Account(self.number(), owner)),
            Refusal::Unflushed(owner) => {
                let mut accounts = self.own.ledger.lock();
                accounts.wait_for(owner, claim.amount.bytes, self.flushed_generation(), || {
                    self.write_back.pace()
                });
                Error::ObjectBusy
            }
            Refusal::NoSpace => self.unless_files_leave(Owner::VOLUME, Error::NoSpace),
            Refusal::Quota(owner, bound) => {
                let error = self.unless_files_leave(owner, Error::QuotaExceeded);
                if error == Error::QuotaExceeded {
                    self.own.ledger.lock().count_refused(owner, bound, claim.now);
                }
                error
            }
        };
        error.into()
    }

    /// Returns the error of a caller that a limit of an owner refuses. A file that was removed while it was open counts until a
    /// background step has freed it; but nobody waits for files that make no room for him.
    fn unless_files_leave(&self, owner: Owner, error: Error) -> Error {
        if self.orphans.are_leaving(self.number(), owner) { Error::ObjectBusy } else { error }
    }

    /// Like [`Volume::reserve_growth`], but requests nothing.
    pub(crate) fn try_reserve_growth(
        &self,
        request: &Request<'_>,
        owners: Owners,
        amount: UsageRecord,
    ) -> Result<Growth<'_>, Refusal> {
        self.try_reserve(&claim(request, owners, amount))
    }

    /// Reserves what data of a file will use, to be held with it.
    ///
    /// # Errors
    /// Those of [`Volume::reserve_growth`]; `ObjectBusy` if older unstable data of the file must be written back first.
    pub(crate) fn reserve_held_growth(
        &self,
        request: &Request<'_>,
        state: &InodeState,
        bytes: u64,
    ) -> Result<Growth<'_>, Stop> {
        let growth = self.reserve_growth(request, Owners::of(state.record()), of_bytes(bytes))?;
        self.fit_held(state, growth)
    }

    /// Returns what is reserved, if it can be held with what is held already.
    ///
    /// # Errors
    /// `ObjectBusy` if older unstable data of the file must be written back first.
    pub(crate) fn fit_held<'v>(&self, state: &InodeState, growth: Growth<'v>) -> Result<Growth<'v>, Stop> {
        if growth.fits_with(state.growth) {
            return Ok(growth);
        }
        self.write_back.request(state.id);
        Err(Error::ObjectBusy.into())
    }

    fn try_reserve(&self, claim: &Claim) -> Result<Growth<'_>, Refusal> {
        let ledger = &self.own.ledger;
        if !ledger.is_limited() || claim.amount == UsageRecord::default() {
            return Ok(Growth { reserved: None });
        }
        let reservation = ledger.lock().reserve(claim, self.flushed_generation())?;
        Ok(Growth { reserved: Some((ledger, reservation)) })
    }
}

impl Pool {
    /// Requests space from background work, after an operation failed with this error for lack of it.
    pub(crate) fn request_space(&self, error: Error) {
        self.write_back.press();
        self.checkpoints.kick();
        // A caller that is refused does not wake the cleaner, which has just found nothing.
        if error.is_busy() {
            self.cleaner.kick();
        }
    }

    /// Closes idle accounts of the volume with the most, if all volumes together have as many as memory has room for: so each volume
    /// has its part.
    fn make_room_for_account(&self) {
        if !self.quota_budget.is_full() {
            return;
        }
        let volumes: Vec<Arc<VolumeState>> = self.volumes.read().values().cloned().collect();
        let counted = volumes.iter().map(|own| (own.ledger.lock().accounts_open(), own));
        if let Some((open, own)) = counted.max_by_key(|(open, _)| *open)
            && open > QUOTA_OWNERS_MIN
        {
            own.ledger.lock().close_some();
        }
    }

    /// Opens the account of an owner. Reads the usage counter; no lock is held.
    pub(crate) fn open_account(&self, volume: VolumeNumber, owner: Owner) -> Result<(), Error> {
        let counter = (volume, owner.kind, owner.id);
        let Some(own) = self.volumes.read().get(&volume).cloned() else { return Err(Error::Stale) };
        self.make_room_for_account();
        loop {
            let view = self.view();
            let stored = self.stored_usage(&view, counter)?;
            // No transaction is in progress while this is held, so no change is missed or counted twice.
            let quiet = self.view.write();
            if !Arc::ptr_eq(&quiet, &view) {
                continue;
            }
            own.ledger.lock().open(owner, quiet.usage(counter, stored));
            return Ok(());
        }
    }

    /// Returns what the index of a view has for a usage counter. Reads media.
    pub(crate) fn stored_usage(&self, view: &ReadView, counter: Counter) -> Result<UsageRecord, Error> {
        let stored = view.index.get(&usage::key_of(counter));
        let stored = stored.map_err(|error| self.index_failed(Subject::Pool, &error))?;
        stored.map_or(Ok(UsageRecord::default()), |value| {
            self.decode(Subject::Pool, UsageRecord::decode(&value))
        })
    }

    /// Releases a part of what is reserved for a file's unstable data.
    pub(crate) fn release_growth(&self, state: &mut InodeState, bytes: u64) {
        if let Some(reservation) = take_growth(state, bytes)
            && let Some(own) = self.volumes.read().get(&state.id.volume)
        {
            own.ledger.lock().release(&reservation);
        }
    }
}

/// Takes a part of what is reserved for a file's unstable data, if it is not nothing.
pub(crate) fn take_growth(state: &mut InodeState, bytes: u64) -> Option<Reservation> {
    let taken = state.growth.bytes.min(bytes);
    state.growth.bytes -= taken;
    let (owners, kinds) = (Owners::of(state.record()), state.growth.kinds);
    (taken > 0).then(|| Reservation { owners, kinds, amount: of_bytes(taken), places: [Place::NONE; 4] })
}

/// Has new owners hold what is reserved for a file's unstable data, when its usage moves to them. `growth` is what
/// [`Volume::reserve_for_new_owners`] returned for them; the record still names the old ones.
pub(crate) fn move_growth(
    change: &mut Change<'_>,
    state: &mut InodeState,
    owners: Owners,
    growth: Growth<'_>,
) {
    let before = Owners::of(state.record());
    let differing = owners.differing(before);
    let HeldGrowth { bytes, kinds } = state.growth;
    if bytes > 0 {
        let (kinds, amount) = (kinds.intersection(differing), of_bytes(bytes));
        change.add_growth(Some(Reservation { owners: before, kinds, amount, places: [Place::NONE; 4] }));
    }
    let mut reservation = growth.keep();
    let kept = reservation.map_or(Kinds::NONE, |reservation| reservation.kinds);
    // What the file uses is counted with this change.
    reservation.iter_mut().for_each(|reservation| reservation.amount.bytes -= bytes);
    change.add_growth(reservation);
    state.growth.kinds = kinds.difference(differing).union(kept);
}
