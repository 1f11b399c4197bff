use super::*;
use crate::api::quotas::{Bound, Exceeded, Limit};

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

#[test]
fn notes_of_exceeded_soft_limits_are_bounded() {
    let noted =
        QuotaRecord { exceeded: Exceeded { bytes: None, inodes: Some(NOW) }, ..QuotaRecord::default() };
    let notes = (1..=QUOTA_NOTES_MAX as u64).map(|id| (user(id), noted));
    let ledger = Ledger::new(None, notes.chain([soft_for_all_users()]).collect());
    let accounts = &mut *ledger.lock();
    let (one, other) = (user(1), user(1 << 20));
    for owner in [one, other] {
        accounts.open(owner, UsageRecord { bytes: 0, inodes: SOFT + u64::from(owner == one) });
    }
    // It is kept in the account only, which bounds the owner as long as it is open.
    assert!(used(accounts, other, 1).is_empty());
    assert_eq!(
        (accounts.quotas().notes(), accounts.record(other)),
        (QUOTA_NOTES_MAX, QuotaRecord::default())
    );
    let later = NOW.plus(accounts.grace(QuotaKind::User).inodes);
    let owners = Owners::new(0, 1 << 20, 0);
    let amount = UsageRecord { bytes: 0, inodes: 1 };
    let claim =
        Claim { owners, kinds: Kinds::ALL, exempt: Kinds::NONE, amount, has_unstable: false, now: later };
    assert_eq!(accounts.reserve(&claim, 0).unwrap_err(), Refusal::Quota(other, Bound::Soft));
    // When another one ceases to exceed, there is room for a note.
    assert_eq!(used(accounts, one, -1), [(one, QuotaRecord::default())]);
    used(accounts, other, -1);
    assert_eq!(used(accounts, other, 1).len(), 1);
    assert_eq!(accounts.quotas().notes(), QUOTA_NOTES_MAX);
}

#[test]
fn objects_are_counted_in_all_open_accounts() {
    let ledger = Ledger::new(None, [soft_for_all_users()].into());
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
        let ledger = Ledger::new(None, limits.into());
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
    let ledger = Ledger::new(None, [soft_for_all_users()].into());
    let accounts = &mut *ledger.lock();
    let waiting = [user(2), Owner::new(QuotaKind::Group, 2)];
    accounts.open(user(1), UsageRecord::default());
    waiting.iter().for_each(|owner| accounts.open(*owner, UsageRecord::default()));
    waiting.iter().for_each(|owner| accounts.wait_for(*owner, 1, 0, || 1));
    let waits = |accounts: &Accounts| waiting.map(|owner| !accounts.open.get(owner).unwrap().is_idle());
    let (others, record) = soft_for_all_users();
    ledger.set(accounts, user(1), record, 0);
    assert_eq!(waits(accounts), [true, true], "limits that change have whoever waits begin anew");
    ledger.set(accounts, others, record, 0);
    assert_eq!(waits(accounts), [false, true]);
    ledger.set(accounts, user(1), QuotaRecord::default(), 0);
    ledger.set(accounts, others, QuotaRecord::default(), 0);
    assert!(!accounts.quotas.has_soft() && accounts.limited == Kinds::NONE);
}
