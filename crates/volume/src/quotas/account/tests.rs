use std::time::Duration;

use super::*;

const NOW: Time = Time::from_nanos(1_000_000_000);

fn bytes(bytes: u64) -> UsageRecord {
    UsageRecord { bytes, inodes: 0 }
}

fn inodes(inodes: u64) -> UsageRecord {
    UsageRecord { bytes: 0, inodes }
}

/// Returns an account with a hard limit of 100 bytes, of which so many are used.
fn account(used: u64) -> Account {
    let mut account = Account::new(bytes(used));
    let limit = Limit { soft: None, hard: Some(100) };
    account.limit(Limits { bytes: limit, inodes: Limit::default() }, Grace::default(), Exceeded::default());
    account
}

/// Reserves, if there is room.
fn reserve(account: &mut Account, more: u64, flushed: u64) -> Result<(), Shortage> {
    account.check(bytes(more), flushed, NOW).map(|()| account.reserve(bytes(more)))
}

#[test]
fn a_limit_is_kept_by_what_is_used_and_reserved() {
    let mut account = account(40);
    assert_eq!(reserve(&mut account, 60, 0), Ok(()));
    assert_eq!(
        reserve(&mut account, 61, 0),
        Err(Shortage::Full(Bound::Hard)),
        "more than is left without what is reserved"
    );
    assert_eq!(reserve(&mut account, 1, 0), Err(Shortage::Unflushed), "less may be filled than is reserved");
    account.wait_for(1, 0, || 3);
    account.wait_for(1, 2, || unreachable!("callers wait for a flush already"));
    assert_eq!(reserve(&mut account, 1, 2), Err(Shortage::Unflushed));
    assert_eq!(reserve(&mut account, 1, 4), Err(Shortage::Full(Bound::Hard)));
    account.release(bytes(61));
    assert_eq!(reserve(&mut account, 59, 4), Ok(()));
    assert_eq!(reserve(&mut account, 2, 4), Err(Shortage::Unflushed), "callers wait anew");
}

#[test]
fn a_caller_is_refused_in_time_though_others_need_less() {
    let mut account = account(0);
    assert_eq!(reserve(&mut account, 60, 0), Ok(()));
    assert_eq!(reserve(&mut account, 50, 0), Err(Shortage::Unflushed));
    account.wait_for(50, 0, || 3);
    for flushed in 0..3 {
        assert_eq!(reserve(&mut account, 1, flushed), Ok(()));
        assert_eq!(reserve(&mut account, 50, flushed), Err(Shortage::Unflushed));
        account.wait_for(50, flushed, || unreachable!("it waits for a flush already"));
    }
    for flushed in 3..u64::from(FLUSHES_MAX) + 2 {
        assert_eq!(reserve(&mut account, 1, flushed), Ok(()));
        assert_eq!(reserve(&mut account, 50, flushed), Err(Shortage::Unflushed), "a flush may make room");
        account.wait_for(50, flushed, || flushed + 1);
    }
    let flushed = u64::from(FLUSHES_MAX) + 2;
    assert_eq!(reserve(&mut account, 1, flushed), Ok(()));
    assert_eq!(reserve(&mut account, 40, flushed), Err(Shortage::Unflushed), "others have waited");
    assert_eq!(reserve(&mut account, 50, flushed), Err(Shortage::Full(Bound::Hard)));
    assert_eq!(reserve(&mut account, 50, flushed), Err(Shortage::Full(Bound::Hard)), "nothing has changed");
    // Later ones have flushes of their own.
    assert_eq!(reserve(&mut account, 1, flushed), Ok(()));
    assert_eq!(reserve(&mut account, 50, flushed), Err(Shortage::Unflushed));
}

#[test]
fn whoever_fits_after_a_flush_waits_no_more() {
    let mut account = account(0);
    assert_eq!(reserve(&mut account, 60, 0), Ok(()));
    assert_eq!(reserve(&mut account, 50, 0), Err(Shortage::Unflushed));
    account.wait_for(50, 0, || 3);
    // The flush finds that less is filled. The caller fits, and what it reserves may be too much in turn.
    account.release(bytes(40));
    assert_eq!(reserve(&mut account, 50, 3), Ok(()));
    assert_eq!(reserve(&mut account, 55, 3), Err(Shortage::Unflushed), "a flush may make room");
}

#[test]
fn objects_are_counted_at_once() {
    let mut account = Account::new(inodes(5));
    let limit = Limit { soft: None, hard: Some(7) };
    account.limit(Limits { bytes: Limit::default(), inodes: limit }, Grace::default(), Exceeded::default());
    assert_eq!(account.check(inodes(3), 0, NOW), Err(Shortage::Full(Bound::Hard)));
    assert_eq!(account.check(inodes(2), 0, NOW), Ok(()));
    account.reserve(inodes(2));
    assert_eq!(account.check(inodes(1), 9, NOW), Err(Shortage::Full(Bound::Hard)));
    account.release(inodes(2));
    account.change(0, -3);
    assert_eq!(account.check(inodes(5), 0, NOW), Ok(()));
    assert_eq!(
        account.check(UsageRecord { bytes: u64::MAX, inodes: 0 }, 0, NOW),
        Ok(()),
        "bytes have no limit"
    );
}

#[test]
fn a_soft_limit_holds_after_the_grace_period() {
    let mut account = Account::new(bytes(40));
    let limits = Limits { bytes: Limit { soft: Some(50), hard: Some(100) }, inodes: Limit::default() };
    let grace = Grace { bytes: Duration::from_secs(10), ..Grace::default() };
    account.limit(limits, grace, Exceeded::default());
    account.change(10, 0);
    assert_eq!(account.note_exceeded(NOW), None, "not above it");
    account.change(1, 0);
    let exceeded = Exceeded { bytes: Some(NOW), inodes: None };
    assert_eq!(account.note_exceeded(NOW), Some(exceeded));
    let later = |seconds| NOW.plus(Duration::from_secs(seconds));
    assert_eq!(account.note_exceeded(later(5)), None, "the period has begun");
    assert_eq!(account.check(bytes(49), 0, later(9)), Ok(()));
    assert_eq!(account.check(bytes(50), 0, later(9)), Err(Shortage::Full(Bound::Hard)));
    assert_eq!(account.check(bytes(1), 0, later(10)), Err(Shortage::Full(Bound::Soft)));
    assert_eq!(account.check(bytes(50), 0, later(10)), Err(Shortage::Full(Bound::Hard)), "not for its time");
    assert_eq!(account.check(bytes(0), 0, later(10)), Ok(()), "what does not grow is accepted");
    account.change(-1, 0);
    assert_eq!(account.note_exceeded(later(11)), Some(Exceeded::default()));
    assert_eq!(account.check(bytes(50), 0, later(11)), Ok(()));
}
