use super::*;
use crate::api::quotas::{Bound, Exceeded, Limit};
use crate::limits::{QUOTA_NOTE_BYTES, QUOTA_OWNERS_MIN};

const NOW: Time = Time::from_nanos(1_000_000_000);
const SOFT: u64 = 10;

fn user(id: u64) -> Owner {
    Owner::new(QuotaKind::User, id)
}

/// Limits users softly.
fn soft_for_all_users() -> (Owner, QuotaRecord) {
    let inodes = Limit { soft: Some(SOFT), hard: None };
    let limits = Limits { inodes, ..Limits::default() };
    (Owner::others(QuotaKind::User), QuotaRecord { limits: Some(limits), ..QuotaRecord::default() })
}

/// Has an open account use so many inodes more or fewer. Returns the quotas that change with it.
fn used(accounts: &mut Accounts, owner: Owner, inodes: i64) -> Vec<(Owner, QuotaRecord)> {
    accounts.settle(&[UsageDelta { kind: owner.kind, id: owner.id, bytes: 0, inodes }], &[])
}

/// Returns room for this many accounts, and as many notes.
fn budget(each: usize) -> Arc<Budget> {
    Arc::new(Budget::new(2 * each as u64 * QUOTA_NOTE_BYTES))
}

/// Opens a ledger that shares its budget with no other.
fn ledger<const N: usize>(records: [(Owner, QuotaRecord); N]) -> Ledger {
    Ledger::new(None, records.into(), &budget(1000))
}

/// Returns a note that more inodes are used than a soft limit allows.
fn noted_since(time: Time) -> QuotaRecord {
    QuotaRecord { exceeded: Exceeded { bytes: None, inodes: Some(time) }, ..QuotaRecord::default() }
}

/// Claims an inode for a user.
fn one_inode(uid: u32, now: Time) -> Claim {
    let amount = UsageRecord { bytes: 0, inodes: 1 };
    let owners = Owners::new(0, uid, 0);
    Claim { owners, kinds: Kinds::ALL, exempt: Kinds::NONE, amount, has_unstable: false, now }
}

/// Opens the account of a user who uses as much as the soft limit allows, and an inode more. Returns what is noted.
fn exceed(accounts: &mut Accounts, owner: Owner) -> Vec<(Owner, QuotaRecord)> {
    accounts.open(owner, UsageRecord { bytes: 0, inodes: SOFT });
    used(accounts, owner, 1)
}

#[test]
fn notes_of_exceeded_soft_limits_are_bounded() {
    const MAX: usize = 1600;
    let budget = budget(MAX);
    let new = || Ledger::new(None, [soft_for_all_users()].into(), &budget);
    let ledgers = [new(), new(), new()];
    let noted = ledgers.each_ref().map(|ledger| {
        let accounts = &mut *ledger.lock();
        accounts.now = NOW;
        (1..=2000).filter(|id| !exceed(accounts, user(*id)).is_empty()).count()
    });
    assert_eq!(noted, [MAX * 3 / 4, MAX * 3 / 16, MAX * 3 / 64], "each leaves a quarter of what is free");
    assert_eq!(budget.notes(), (noted.iter().sum(), MAX));
    // However many others have, each may have some.
    let notes = (1..=MAX as u64 / 64).map(|id| (user(id), noted_since(NOW)));
    let full = Ledger::new(None, notes.collect(), &budget);
    assert_eq!(budget.notes(), (MAX, MAX));
    let last = Ledger::new(None, [soft_for_all_users()].into(), &budget);
    let accounts = &mut *last.lock();
    let noted = (1..=1000).filter(|id| !exceed(accounts, user(*id)).is_empty()).count();
    assert_eq!(noted, QUOTA_OWNERS_MIN);
    drop((ledgers, full));
    assert_eq!(budget.notes(), (QUOTA_OWNERS_MIN, MAX), "volumes that are gone have none");
    accounts.forget();
    assert_eq!(budget.notes(), (0, MAX));
}

#[test]
fn a_time_without_a_note_counts_as_long_as_the_account_is_open() {
    let (budget, one, other) = (budget(4 * QUOTA_OWNERS_MIN), user(1), user(1 << 20));
    let noted = noted_since(NOW);
    let notes = (1..=4 * QUOTA_OWNERS_MIN as u64).map(|id| (user(id), noted));
    let ledger = Ledger::new(None, notes.chain([soft_for_all_users()]).collect(), &budget);
    let accounts = &mut *ledger.lock();
    accounts.now = NOW;
    accounts.open(one, UsageRecord { bytes: 0, inodes: SOFT + 1 });
    assert!(exceed(accounts, other).is_empty());
    assert_eq!(accounts.record(other), QuotaRecord::default());
    let refused = Refusal::Quota(other, Bound::Soft);
    let later = NOW.plus(accounts.grace(QuotaKind::User).inodes);
    assert_eq!(accounts.reserve(&one_inode(1 << 20, later), 0).unwrap_err(), refused);
    // Accounts that are closed for others are those without such a time; and who sets limits does not forget it.
    for id in 1..=10_000 {
        accounts.open(user(2 << 20 | id), UsageRecord::default());
    }
    let (others, record) = soft_for_all_users();
    ledger.set(accounts, others, record, 0);
    assert_eq!(accounts.reserve(&one_inode(1 << 20, later), 0).unwrap_err(), refused);
    // When others cease to exceed, there is room for a note, which is made with the next change.
    for id in 0..=QUOTA_OWNERS_MIN as u64 {
        let id = user(1 + id);
        accounts.open(id, UsageRecord { bytes: 0, inodes: SOFT + 1 });
        assert_eq!(used(accounts, id, -1), [(id, QuotaRecord::default())]);
    }
    assert_eq!(used(accounts, other, 1), [(other, noted)]);
    assert_eq!(used(accounts, other, 1), []);
    assert_eq!(used(accounts, other, -3), [(other, QuotaRecord::default())]);
}

#[test]
fn objects_are_counted_in_all_open_accounts() {
    let ledger = ledger([soft_for_all_users()]);
    let accounts = &mut *ledger.lock();
    let group = Owner::new(QuotaKind::Group, 7);
    accounts.open(user(1), UsageRecord::default());
    let amount = UsageRecord { bytes: 0, inodes: 1 };
    let claim = Claim {
        owners: Owners::new(0, 1, 7),
        kinds: Kinds::ALL,
        exempt: Kinds::NONE,
        amount,
        has_unstable: false,
        now: NOW,
    };
    let deltas =
        [user(1), group].map(|owner| UsageDelta { kind: owner.kind, id: owner.id, bytes: 0, inodes: 1 });
    for number in 0..2 * SOFT {
        if number == 3 {
            accounts.open(group, UsageRecord { bytes: 0, inodes: 3 });
        }
        let is_counted = accounts.count_object(claim.owners);
        // A search comes first; later an account of a kind without limits is open.
        assert_eq!(is_counted, (1..3).contains(&number), "{number}");
        if !is_counted {
            let reserved = accounts.reserve(&claim, 0).unwrap();
            let changed = accounts.settle(&deltas, &[reserved]);
            assert_eq!(changed.len(), usize::from(number == SOFT), "{number}");
        }
    }
    for owner in [user(1), group] {
        assert_eq!(accounts.used(owner).unwrap().inodes, 2 * SOFT);
        assert_eq!(accounts.reserved(owner), UsageRecord::default());
    }
    // What is not done is given back.
    let reserved = accounts.reserve(&claim, 0).unwrap();
    accounts.release(&reserved);
    assert_eq!(accounts.reserved(user(1)), UsageRecord::default());
}

#[test]
fn what_one_limit_refuses_is_reserved_of_no_other() {
    let hard =
        |inodes| Some(Limits { inodes: Limit { soft: None, hard: Some(inodes) }, ..Limits::default() });
    let of = |owner, inodes| (owner, QuotaRecord { limits: hard(inodes), ..QuotaRecord::default() });
    let owners = [Owner::VOLUME, Owner::new(QuotaKind::Tree, 5), user(1), Owner::new(QuotaKind::Group, 7)];
    for full in owners {
        let limits = owners.map(|owner| of(owner, if owner == full { 2 } else { 3 }));
        let ledger = ledger(limits);
        let accounts = &mut *ledger.lock();
        owners.iter().for_each(|owner| accounts.open(*owner, UsageRecord::default()));
        let amount = UsageRecord { bytes: 0, inodes: 1 };
        let claim = Claim {
            owners: Owners::new(5, 1, 7),
            kinds: Kinds::ALL,
            exempt: Kinds::NONE,
            amount,
            has_unstable: false,
            now: NOW,
        };
        for _ in 0..2 {
            accounts.reserve(&claim, 0).unwrap();
        }
        assert_eq!(accounts.reserve(&claim, 0).unwrap_err(), Refusal::Quota(full, Bound::Hard));
        assert!(!accounts.count_object(claim.owners));
        for owner in owners {
            assert_eq!(accounts.reserved(owner).inodes, 2, "{owner:?}");
        }
    }
}

#[test]
fn setting_a_quota_leaves_the_accounts_of_others_alone() {
    let ledger = ledger([soft_for_all_users()]);
    let accounts = &mut *ledger.lock();
    let waiting = [user(2), Owner::new(QuotaKind::Group, 2)];
    accounts.open(user(1), UsageRecord::default());
    waiting.iter().for_each(|owner| accounts.open(*owner, UsageRecord::default()));
    waiting.iter().for_each(|owner| accounts.wait_for(*owner, 1, 0, || 1));
    let waits = |accounts: &Accounts| waiting.map(|owner| accounts.open.get(owner).unwrap().is_remembering());
    let (others, record) = soft_for_all_users();
    ledger.set(accounts, user(1), record, 0);
    assert_eq!(waits(accounts), [true, true], "limits that change have whoever waits begin anew");
    ledger.set(accounts, others, record, 0);
    assert_eq!(waits(accounts), [false, true]);
    ledger.set(accounts, user(1), QuotaRecord::default(), 0);
    ledger.set(accounts, others, QuotaRecord::default(), 0);
    assert!(!accounts.quotas.has_soft() && accounts.limited == Kinds::NONE);
}
