//! The accounts that are open.
//!
//! One that is opened while all volumes together have too many takes the place of an idle one: of the volume with the most, which
//! [`crate::pool::Pool::open_account`] asks for that, or else of its own. These give way in turn: an operation needs an account for each
//! kind of owner, and goes on only when all of them are open at once, so none may close the one that was opened before it.
//!
//! An account stays in its place while it is not idle. What is closed leaves a hole, which the next account fills, or the last one
//! once it is idle: so the table becomes shorter, and its memory is given back.

use std::sync::Arc;

use foldhash::HashMap;

use crate::api::quotas::{Owner, QuotaKind};
use crate::limits::QUOTA_OWNERS_MIN;

use super::account::Account;
use super::budget::Budget;
use super::ledger::Kinds;

/// Most places that are searched for an idle account. If there is none, there is one account more, so that a search never takes long
/// while operations wait for it.
const SEARCH_MAX: usize = 64;

/// The part of all places that is searched at most, so that searches for all accounts that an operation needs never come back to the
/// first of them.
const SEARCH_PARTS: usize = QuotaKind::ALL.len();
const _: () = assert!(QUOTA_OWNERS_MIN >= SEARCH_PARTS);

/// The tables grow by one part of so many, and are made shorter once less than half of them is in use.
const GROWTH_PARTS: usize = 8;

/// Whose account a hole is: nobody's.
const NOBODY: Owner = Owner { kind: QuotaKind::Volume, id: u64::MAX };

/// Where an account is, for as long as something is reserved in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// Stands for no place.
    pub(crate) const NONE: Place = Place(u32::MAX);

    pub(super) fn is_known(self) -> bool {
        self != Place::NONE
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The open accounts, found by their owners, or without a search by their places.
#[derive(Debug)]
pub(super) struct OpenAccounts {
    /// By the number that stands for an owner.
    places: HashMap<u64, Place>,
    accounts: Vec<(Owner, Account)>,
    /// Where the holes are, and where there were some.
    holes: Vec<Place>,
    /// Where the next search for an idle account begins.
    next: usize,
    /// The kinds of which there was one.
    kinds: Kinds,
    /// Counts the accounts of all volumes.
    budget: Arc<Budget>,
}

impl Drop for OpenAccounts {
    fn drop(&mut self) {
        self.budget.accounts_closed(self.len());
    }
}

/// Returns a number that no other owner has: ids of users and groups have 32 bits, and trees are numbered from 1.
fn number(owner: Owner) -> u64 {
    owner.id << 2 | u64::from(owner.kind.byte())
}

impl OpenAccounts {
    pub(super) fn new(budget: Arc<Budget>) -> OpenAccounts {
        OpenAccounts {
            places: HashMap::default(),
            accounts: Vec::new(),
            holes: Vec::new(),
            next: 0,
            kinds: Kinds::NONE,
            budget,
        }
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

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
        &mut self.accounts[place.index()].1
    }

    pub(super) fn get(&self, owner: Owner) -> Option<&Account> {
        self.place(owner).map(|place| &self.accounts[place.index()].1)
    }

    pub(super) fn get_mut(&mut self, owner: Owner) -> Option<&mut Account> {
        self.place(owner).map(|place| self.at(place))
    }

    /// Returns the owners.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.accounts.iter().map(|(owner, _)| *owner).filter(|owner| *owner != NOBODY)
    }

    /// Adds an account, unless it is open already; returns whether it was not. If all volumes together have too many, an idle one of
    /// these is closed.
    pub(super) fn add(&mut self, owner: Owner, account: Account) -> bool {
        if self.places.contains_key(&number(owner)) {
            return false;
        }
        self.kinds = self.kinds.with(owner.kind);
        if self.budget.is_full() && self.len() >= QUOTA_OWNERS_MIN {
            self.close_one();
        }
        let place = self.hole().unwrap_or_else(|| self.one_more());
        self.accounts[place.index()] = (owner, account);
        if self.places.len() == self.places.capacity() {
            self.places.reserve(step(self.places.len()));
        }
        self.places.insert(number(owner), place);
        self.budget.account_opened();
        true
    }

    /// Returns a hole that there is.
    fn hole(&mut self) -> Option<Place> {
        while let Some(place) = self.holes.pop() {
            if self.accounts.get(place.index()).is_some_and(|(owner, _)| *owner == NOBODY) {
                return Some(place);
            }
        }
        None
    }

    /// Adds a hole.
    fn one_more(&mut self) -> Place {
        let place = self.accounts.len();
        if place == self.accounts.capacity() {
            self.accounts.reserve_exact(step(place));
        }
        self.accounts.push((NOBODY, Account::default()));
        Place(u32::try_from(place).expect("accounts are bounded by what is in memory"))
    }

    /// Closes up to `most` idle accounts, and gives memory back.
    pub(super) fn close_idle(&mut self, most: usize) {
        let mut left = most;
        while left > 0 && self.close_one() {
            left -= 1;
        }
        self.shorten();
    }

    /// Closes an idle account. Returns whether it found one.
    fn close_one(&mut self) -> bool {
        let Some(place) = self.next_idle() else { return false };
        let (owner, account) = &mut self.accounts[place.index()];
        self.places.remove(&number(*owner));
        (*owner, *account) = (NOBODY, Account::default());
        self.holes.push(place);
        self.budget.accounts_closed(1);
        true
    }

    /// Returns an idle account among the next places: one that remembers something only if there is no other.
    fn next_idle(&mut self) -> Option<Place> {
        let mut last_choice = None;
        let searched = (self.accounts.len() / SEARCH_PARTS).clamp(1, SEARCH_MAX);
        for _ in 0..searched.min(self.accounts.len()) {
            let index = self.next % self.accounts.len();
            self.next = index + 1;
            let (owner, account) = &self.accounts[index];
            if *owner == NOBODY || !account.is_idle() {
                continue;
            }
            let place = Some(Place(u32::try_from(index).expect("as that of each account")));
            if !account.is_remembering() {
                return place;
            }
            last_choice = last_choice.or(place);
        }
        last_choice
    }

    /// Moves idle accounts at the end to holes, as far as there are, and gives back what is not needed then.
    fn shorten(&mut self) {
        while let Some((owner, account)) = self.accounts.last() {
            if *owner != NOBODY {
                let hole = if account.is_idle() { self.hole() } else { None };
                let Some(hole) = hole else { break };
                let end = self.accounts.len() - 1;
                self.places.insert(number(self.accounts[end].0), hole);
                self.accounts.swap(hole.index(), end);
            }
            self.accounts.pop();
        }
        let needed = self.accounts.len() + step(self.accounts.len());
        if self.accounts.capacity() / 2 > needed {
            let length = self.accounts.len();
            self.holes.retain(|place| place.index() < length);
            self.accounts.shrink_to(needed);
            self.places.shrink_to(self.places.len());
            self.holes.shrink_to(self.holes.len());
        }
    }
}

/// Returns by how much tables of this length grow.
fn step(length: usize) -> usize {
    (length / GROWTH_PARTS).max(QUOTA_OWNERS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::record::UsageRecord;
    use crate::limits::QUOTA_ACCOUNT_BYTES;

    const ONE: UsageRecord = UsageRecord { bytes: 1, inodes: 0 };

    fn user(id: u64) -> Owner {
        Owner::new(QuotaKind::User, id)
    }

    /// Accounts of all volumes in these tests.
    const MAX: usize = 200;

    fn budget() -> Arc<Budget> {
        Arc::new(Budget::new(2 * MAX as u64 * QUOTA_ACCOUNT_BYTES))
    }

    /// Returns as many accounts as there may be.
    fn full() -> OpenAccounts {
        let mut open = OpenAccounts::new(budget());
        (1..=MAX as u64).for_each(|id| open_account(&mut open, user(id)));
        assert_eq!(open.budget.accounts(), (MAX, MAX));
        open
    }

    fn open_account(open: &mut OpenAccounts, owner: Owner) {
        open.add(owner, Account::new(UsageRecord::default()));
    }

    #[test]
    fn idle_accounts_give_way_and_others_stay_where_they_are() {
        let mut open = full();
        for id in 1..=MAX as u64 {
            open.get_mut(user(id)).unwrap().reserve(ONE);
        }
        let place = open.place(user(5)).unwrap();
        open.get_mut(user(7)).unwrap().release(ONE);
        open_account(&mut open, user(1 << 20));
        assert!(open.get(user(7)).is_none() && open.get(user(1 << 20)).is_some());
        assert_eq!((open.owners().count(), open.place(user(5))), (MAX, Some(place)));
        open_account(&mut open, user(9999999));
        assert_eq!(open.owners().count(), MAX + 1, "what is reserved is never lost");
    }

    #[test]
    fn accounts_that_one_call_needs_do_not_close_each_other() {
        // All are idle, or all but one.
        let (mut idle, mut busy) = (full(), full());
        for id in 2..=MAX as u64 {
            busy.get_mut(user(id)).unwrap().reserve(ONE);
        }
        assert_all_stay(&mut idle);
        assert_all_stay(&mut busy);
    }

    fn assert_all_stay(open: &mut OpenAccounts) {
        let needed = QuotaKind::ALL.map(|kind| Owner::new(kind, 1 << 20));
        needed.iter().for_each(|owner| open_account(open, *owner));
        assert!(needed.iter().all(|owner| open.get(*owner).is_some()));
    }

    #[test]
    fn a_volume_opens_accounts_while_others_have_all() {
        let first = full();
        let mut second = OpenAccounts::new(Arc::clone(&first.budget));
        (1..=2 * MAX as u64).for_each(|id| open_account(&mut second, user(id)));
        assert_eq!((second.len(), first.budget.accounts().0), (QUOTA_OWNERS_MIN, MAX + QUOTA_OWNERS_MIN));
        let budget = Arc::clone(&first.budget);
        drop(first);
        assert_eq!(budget.accounts().0, QUOTA_OWNERS_MIN, "a volume that is gone has none");
    }

    #[test]
    fn accounts_that_remember_something_are_closed_last() {
        let mut open = full();
        (1..MAX as u64).for_each(|id| open.get_mut(user(id)).unwrap().wait_for(1, 0, || 1));
        // Wherever it is, the searches get there.
        for closed in 1..=2 * SEARCH_PARTS {
            open.close_idle(1);
            assert_eq!(open.len(), MAX - closed);
        }
        assert!(open.get(user(MAX as u64)).is_none());
    }

    #[test]
    fn accounts_that_one_call_needs_stay_beside_those_that_remember_something() {
        for count in [QUOTA_OWNERS_MIN, 17, 18, 19, 64, MAX] {
            let mut open = OpenAccounts::new(Arc::new(Budget::new(2 * count as u64 * QUOTA_ACCOUNT_BYTES)));
            (1..=count as u64).for_each(|id| open_account(&mut open, user(id)));
            (1..=count as u64).for_each(|id| open.get_mut(user(id)).unwrap().wait_for(1, 0, || 1));
            (0..20).for_each(|_| assert_all_stay(&mut open));
            assert_eq!(open.len(), count);
        }
    }

    #[test]
    fn what_is_closed_gives_its_memory_back() {
        let mut random = crate::media::memory::Random::new(3);
        let mut open = OpenAccounts::new(Arc::new(Budget::new(1 << 30)));
        let mut reserved: std::collections::BTreeMap<u64, Place> = [].into();
        for round in 0..20 {
            for _ in 0..1000 {
                let id = 1 + random.below(5000);
                open_account(&mut open, user(id));
                if random.below(4) == 0 && !reserved.contains_key(&id) {
                    let place = open.place(user(id)).unwrap();
                    open.at(place).reserve(ONE);
                    reserved.insert(id, place);
                } else if random.below(4) == 0 {
                    open.close_idle(random.index(3));
                }
            }
            open.close_idle(usize::MAX);
            assert!(open.owners().count() == open.len() && open.budget.accounts().0 == open.len());
            for (id, place) in &reserved {
                assert_eq!(
                    (open.place(user(*id)), open.at(*place).reserved()),
                    (Some(*place), ONE),
                    "{round}"
                );
            }
            // Whatever is the last one becomes idle once.
            for (id, place) in std::mem::take(&mut reserved) {
                if random.below(8) == 0 {
                    reserved.insert(id, place);
                } else {
                    open.at(place).release(ONE);
                }
            }
        }
        reserved.values().for_each(|place| open.at(*place).release(ONE));
        open.close_idle(usize::MAX);
        assert_eq!((open.len(), open.accounts.len()), (0, 0));
        let most = 2 * QUOTA_OWNERS_MIN + 2;
        assert!(
            open.accounts.capacity() <= most
                && open.places.capacity() <= most
                && open.holes.capacity() <= most
        );
    }

    #[test]
    fn an_account_takes_as_much_as_is_counted_for_it() {
        // In a table that has just grown, with a number, its place and a byte at the least load of the other table.
        let bytes = size_of::<(Owner, Account)>();
        let with_places = bytes + bytes / GROWTH_PARTS + 2 * (size_of::<(u64, Place)>() + 1);
        assert!(with_places as u64 <= QUOTA_ACCOUNT_BYTES, "{bytes}, {with_places}");
    }
}
