//! What owners use at most, whatever the calls under way have done already. A call that is refused although all that it needed
//! fitted beside that, all the time, was refused with room.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The room of what nothing limits.
pub(super) const UNLIMITED_ROOM: i128 = i128::MAX;

/// Whose usage is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Volume,
    Tree,
    User(u32),
    Group(u32),
}

/// Bytes and objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

impl Amount {
    /// Stands for no limit.
    pub(super) const UNLIMITED: Amount = Amount { bytes: u64::MAX, inodes: u64::MAX };
    pub(super) const OBJECT: Amount = Amount { bytes: 0, inodes: 1 };

    pub(super) fn of_bytes(bytes: u64) -> Amount {
        Amount { bytes, inodes: 0 }
    }

    fn plus(self, other: Amount) -> Amount {
        Amount { bytes: self.bytes + other.bytes, inodes: self.inodes + other.inodes }
    }

    fn minus(self, other: Amount) -> Amount {
        Amount { bytes: self.bytes - other.bytes, inodes: self.inodes - other.inodes }
    }

    fn greater(self, other: Amount) -> Amount {
        Amount { bytes: self.bytes.max(other.bytes), inodes: self.inodes.max(other.inodes) }
    }
}

/// An owner's account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub(super) limit: Amount,
    /// What it uses if all calls under way have been executed.
    pub(super) most: Amount,
}

/// A call under way that may add something.
#[derive(Debug)]
struct Call {
    owners: Vec<Owner>,
    adds: Amount,
    /// The most that each owner may have used since the call began, without it.
    peaks: Vec<Amount>,
}

#[derive(Debug, Default)]
struct State {
    accounts: BTreeMap<Owner, Account>,
    calls: BTreeMap<u64, Call>,
    begun: u64,
}

/// The accounts of all owners.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
}

/// Names a call under way.
#[derive(Debug)]
pub(super) struct Ticket(u64);

impl Ledger {
    pub(super) fn new(accounts: BTreeMap<Owner, Account>) -> Ledger {
        Ledger { state: Mutex::new(State { accounts, ..State::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A writer that panics ends the scenario.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each owner uses, once no call is under way.
    pub(super) fn accounts(&self) -> BTreeMap<Owner, Account> {
        self.lock().accounts.clone()
    }

    /// Notes that a call begins which may add so much to each of these owners.
    pub(super) fn begin(&self, owners: &[Owner], adds: Amount) -> Ticket {
        let mut state = self.lock();
        let State { accounts, calls, begun } = &mut *state;
        let mut peaks = Vec::new();
        for owner in owners {
            let account = accounts.entry(*owner).or_default();
            peaks.push(account.most);
            account.most = account.most.plus(adds);
            for call in calls.values_mut() {
                for (of, peak) in call.owners.iter().zip(&mut call.peaks) {
                    if of == owner {
                        *peak = peak.greater(account.most.minus(call.adds));
                    }
                }
            }
        }
        *begun += 1;
        calls.insert(*begun, Call { owners: owners.to_vec(), adds, peaks });
        Ticket(*begun)
    }

    /// Notes that a call has added so much.
    pub(super) fn succeed(&self, Ticket(number): Ticket, added: Amount) {
        let mut state = self.lock();
        let call = state.calls.remove(&number).expect("each call ends once");
        for owner in &call.owners {
            let account = state.accounts.get_mut(owner).expect("it was there when the call began");
            account.most = account.most.minus(call.adds.minus(added));
        }
    }

    /// Notes that a call was refused. Returns how much more would have fitted beside it all the time: a negative number if it may have
    /// been refused rightly, [`UNLIMITED_ROOM`] if nothing limits what it adds.
    pub(super) fn refuse(&self, Ticket(number): Ticket) -> i128 {
        let mut state = self.lock();
        let call = state.calls.remove(&number).expect("each call ends once");
        let mut room = UNLIMITED_ROOM;
        for (owner, peak) in call.owners.iter().zip(&call.peaks) {
            let account = state.accounts.get_mut(owner).expect("it was there when the call began");
            account.most = account.most.minus(call.adds);
            let left = |limit: u64, peak: u64, adds: u64| {
                if adds > 0 && limit != u64::MAX {
                    i128::from(limit) - i128::from(peak) - i128::from(adds)
                } else {
                    UNLIMITED_ROOM
                }
            };
            room = room.min(left(account.limit.bytes, peak.bytes, call.adds.bytes));
            room = room.min(left(account.limit.inodes, peak.inodes, call.adds.inodes));
        }
        room
    }

    /// Notes that so much is no longer used, once the reply says so.
    pub(super) fn free(&self, owners: &[Owner], amount: Amount) {
        let mut state = self.lock();
        for owner in owners {
            let account = state.accounts.get_mut(owner).expect("only what was counted is freed");
            account.most = account.most.minus(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, Amount, BTreeMap, Ledger, Owner};

    fn ledger() -> Ledger {
        let account = Account { limit: Amount { bytes: 100, inodes: u64::MAX }, most: Amount::default() };
        Ledger::new(BTreeMap::from([(Owner::Volume, account)]))
    }

    #[test]
    fn refusals_are_judged_by_the_most_that_was_used_meanwhile() {
        let (ledger, volume) = (ledger(), [Owner::Volume]);
        let filled = ledger.begin(&volume, Amount::of_bytes(60));
        ledger.succeed(filled, Amount::of_bytes(50));
        let small = ledger.begin(&volume, Amount::of_bytes(40));
        assert_eq!(ledger.refuse(small), 10, "50 were used");
        let small = ledger.begin(&volume, Amount::of_bytes(40));
        let other = ledger.begin(&volume, Amount::of_bytes(30));
        assert!(ledger.refuse(other) < 0, "the first may have been executed");
        assert!(ledger.refuse(small) < 0, "so may the second");
        ledger.free(&volume, Amount::of_bytes(50));
        assert_eq!(ledger.accounts()[&Owner::Volume].most, Amount::default());
    }

    #[test]
    fn what_adds_nothing_always_has_room() {
        let (ledger, volume) = (ledger(), [Owner::Volume]);
        let full = ledger.begin(&volume, Amount::of_bytes(100));
        ledger.succeed(full, Amount::of_bytes(100));
        let rewrite = ledger.begin(&volume, Amount::default());
        assert!(ledger.refuse(rewrite) >= 0);
    }
}
