//! The accounts that are open.
//!
//! One that is opened while there are too many takes the place of an idle one. These give way in turn: an operation needs an account
//! for each kind of owner, and goes on only when all of them are open at once, so none may close the one that was opened before it.

use foldhash::HashMap;

use crate::api::quotas::Owner;
use crate::limits::ACCOUNTS_MAX;

use super::account::Account;
use super::ledger::Kinds;

/// Most places that are searched for an idle account. If there is none, there is one account more, so that a search never takes long
/// while operations wait for it, and never comes back to an account that was just opened.
const SEARCH_MAX: usize = 64;

/// Where an account is, for as long as something is reserved in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// Stands for no place.
    pub(crate) const NONE: Place = Place(u32::MAX);

    pub(super) fn is_known(self) -> bool {
        self != Place::NONE
    }
}

/// The open accounts, found by their owners, or without a search by their places.
#[derive(Debug, Default)]
pub(super) struct OpenAccounts {
    /// By the number that stands for an owner.
    places: HashMap<u64, Place>,
    accounts: Vec<(Owner, Account)>,
    /// Where the next search for an idle account begins.
    next: usize,
    /// The kinds of which there was one.
    kinds: Kinds,
}

/// Returns a number that no other owner has: ids of users and groups have 32 bits, and trees are numbered from 1.
fn number(owner: Owner) -> u64 {
    owner.id << 2 | u64::from(owner.kind.byte())
}

impl OpenAccounts {
    /// Returns where the account of an owner is, if it is open.
    pub(super) fn place(&self, owner: Owner) -> Option<Place> {
        self.places.get(&number(owner)).copied()
    }

    /// Returns the kinds of owners whose accounts may be open.
    #[inline]
    pub(super) fn kinds(&self) -> Kinds {
        self.kinds
    }

    #[inline]
    pub(super) fn at(&mut self, place: Place) -> &mut Account {
        &mut self.accounts[place.0 as usize].1
    }

    pub(super) fn get(&self, owner: Owner) -> Option<&Account> {
        self.place(owner).map(|place| &self.accounts[place.0 as usize].1)
    }

    pub(super) fn get_mut(&mut self, owner: Owner) -> Option<&mut Account> {
        self.place(owner).map(|place| self.at(place))
    }

    /// Returns the owners.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.accounts.iter().map(|(owner, _)| *owner)
    }

    /// Adds an account, unless it is open already. Of too many, one that is idle is closed.
    pub(super) fn add(&mut self, owner: Owner, account: Account) {
        if self.places.contains_key(&number(owner)) {
            return;
        }
        self.kinds = self.kinds.with(owner.kind);
        let idle = if self.accounts.len() < ACCOUNTS_MAX { None } else { self.next_idle() };
        let place = idle.unwrap_or(self.accounts.len());
        if let Some((before, closed)) = self.accounts.get_mut(place) {
            self.places.remove(&number(*before));
            (*before, *closed) = (owner, account);
        } else {
            self.accounts.push((owner, account));
        }
        let place = Place(u32::try_from(place).expect("accounts are bounded by what is in memory"));
        self.places.insert(number(owner), place);
    }

    /// Returns the next idle account among [`SEARCH_MAX`].
    fn next_idle(&mut self) -> Option<usize> {
        for _ in 0..SEARCH_MAX {
            let place = self.next % self.accounts.len();
            self.next = place + 1;
            if self.accounts[place].1.is_idle() {
                return Some(place);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::quotas::QuotaKind;
    use crate::encoding::record::UsageRecord;

    const ONE: UsageRecord = UsageRecord { bytes: 1, inodes: 0 };

    fn user(id: u64) -> Owner {
        Owner::new(QuotaKind::User, id)
    }

    /// Returns as many accounts as there may be.
    fn full() -> OpenAccounts {
        let mut open = OpenAccounts::default();
        for id in 1..=ACCOUNTS_MAX as u64 {
            open.add(user(id), Account::new(UsageRecord::default()));
        }
        open
    }

    #[test]
    fn idle_accounts_give_way_and_others_stay_where_they_are() {
        let mut open = full();
        for id in 1..=ACCOUNTS_MAX as u64 {
            open.get_mut(user(id)).unwrap().reserve(ONE);
        }
        let place = open.place(user(5)).unwrap();
        open.get_mut(user(7)).unwrap().release(ONE);
        open.add(user(1 << 20), Account::new(UsageRecord::default()));
        assert!(open.get(user(7)).is_none() && open.get(user(1 << 20)).is_some());
        assert_eq!((open.owners().count(), open.place(user(5))), (ACCOUNTS_MAX, Some(place)));
        open.add(user(9999999), Account::new(UsageRecord::default()));
        assert_eq!(open.owners().count(), ACCOUNTS_MAX + 1, "what is reserved is never lost");
    }

    #[test]
    fn accounts_that_one_call_needs_do_not_close_each_other() {
        // All are idle, or all but one.
        let (mut idle, mut busy) = (full(), full());
        for id in 2..=ACCOUNTS_MAX as u64 {
            busy.get_mut(user(id)).unwrap().reserve(ONE);
        }
        assert_all_stay(&mut idle);
        assert_all_stay(&mut busy);
    }

    fn assert_all_stay(open: &mut OpenAccounts) {
        let needed = QuotaKind::ALL.map(|kind| Owner::new(kind, 1 << 20));
        needed.iter().for_each(|owner| open.add(*owner, Account::new(UsageRecord::default())));
        assert!(needed.iter().all(|owner| open.get(*owner).is_some()));
    }
}
