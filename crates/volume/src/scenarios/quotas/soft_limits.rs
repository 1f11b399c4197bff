//! Soft limits: the grace period, and who exceeds them.

use std::time::Duration;

use super::*;
use crate::api::quotas::{Exceeded, Grace, QuotaCounts, QuotaNotice};
use crate::scenarios::volumes::open;

#[test]
fn whoever_was_within_a_soft_limit_meanwhile_gets_a_new_grace() {
    let (_world, pool, volume) = limited();
    let mut one = Caller::new(1001, 101);
    let limits = |soft| Limits { bytes: Limit { soft: Some(soft), hard: Some(5000) }, ..Limits::default() };
    let exceeded = || volume.quota(user(1001)).unwrap().exceeded.bytes;
    set(&volume, user(1001), Some(limits(1000)));
    let grace = Grace { bytes: Duration::from_secs(100), inodes: Duration::from_secs(1) };
    volume.set_grace(QuotaKind::User, Some(grace), NOW).unwrap();
    let file = one.create(&volume, "file").unwrap();
    one.write(&volume, file, 0, 1001, Stability::FileSync).unwrap();
    work(&pool);
    assert_eq!(exceeded(), Some(NOW));
    set(&volume, user(1001), Some(limits(2000)));
    assert_eq!(exceeded(), None);
    let later = NOW.plus(Duration::from_secs(200));
    volume.set_quota(user(1001), Some(limits(1000)), later).unwrap();
    assert_eq!(exceeded(), Some(later));
    one.now = later.plus(Duration::from_secs(99));
    one.write(&volume, file, 1001, 1, Stability::FileSync).unwrap();
}

#[test]
fn nobody_exceeds_a_soft_limit_that_was_removed() {
    let (world, pool, volume) = limited();
    let mut one = Caller::new(1001, 101);
    let others = Owner::others(QuotaKind::User);
    let limits = |soft| Some(Limits { bytes: Limit { soft, hard: None }, ..Limits::default() });
    let exceeding = |volume: &Volume| volume.quota_counts()[2].exceeding;
    set(&volume, others, limits(Some(1000)));
    let file = one.create(&volume, "file").unwrap();
    one.write(&volume, file, 0, 1001, Stability::FileSync).unwrap();
    work(&pool);
    assert_eq!(exceeding(&volume), 1);
    for (offset, without) in [(1001, None), (1002, limits(None))] {
        set(&volume, others, without);
        assert_eq!(exceeding(&volume), 0, "{without:?}");
        work(&pool);
        let again = open(&world.disk.after_kill());
        assert_eq!(exceeding(&again.volume("limited").unwrap()), 0, "after a restart, {without:?}");
        // A new limit is exceeded with the next change.
        one.now = one.now.plus(Duration::from_secs(1));
        volume.set_quota(others, limits(Some(1000)), one.now).unwrap();
        assert_eq!(exceeding(&volume), 0);
        one.write(&volume, file, offset, 1, Stability::FileSync).unwrap();
        work(&pool);
        assert_eq!(exceeding(&volume), 1);
    }
    set(&volume, user(1001), limits(None));
    assert_eq!(exceeding(&volume), 0, "his own limits are others");
    set(&volume, user(1001), limits(Some(500)));
    assert_eq!(exceeding(&volume), 1);
}

#[test]
fn soft_limits_of_all_others_that_are_set_again_give_a_new_grace() {
    let (world, pool, volume) = limited();
    let mut one = Caller::new(1001, 101);
    let others = Owner::others(QuotaKind::User);
    let limits = |soft| Limits { bytes: Limit { soft, hard: Some(5000) }, ..Limits::default() };
    let grace = Grace { bytes: Duration::from_secs(100), inodes: Duration::from_secs(1) };
    volume.set_grace(QuotaKind::User, Some(grace), NOW).unwrap();
    set(&volume, others, Some(limits(Some(1000))));
    let file = one.create(&volume, "file").unwrap();
    one.write(&volume, file, 0, 1001, Stability::FileSync).unwrap();
    work(&pool);
    assert_eq!(volume.quota(user(1001)).unwrap().exceeded.bytes, Some(NOW));
    // In each case, the user is within the limits for a while, in which he does nothing.
    for (number, meanwhile) in [None, Some(limits(None)), Some(limits(Some(2000)))].into_iter().enumerate() {
        let later = one.now.plus(Duration::from_secs(200));
        volume.set_quota(others, meanwhile, later).unwrap();
        volume.set_quota(others, Some(limits(Some(1000))), later).unwrap();
        one.now = later;
        let offset = 1001 + 2 * number as u64;
        one.write(&volume, file, offset, 1, Stability::FileSync).unwrap();
        one.now = later.plus(Duration::from_secs(99));
        one.write(&volume, file, offset + 1, 1, Stability::FileSync).unwrap();
        assert_eq!(volume.quota(user(1001)).unwrap().exceeded.bytes, Some(later));
        one.now = later.plus(Duration::from_secs(100));
        assert_eq!(one.write(&volume, file, offset + 2, 1, Stability::FileSync), Err(Error::QuotaExceeded));
    }
    // A longer period for a limit that stays is no new one, and over a restart nothing changes.
    let since = volume.quota(user(1001)).unwrap().exceeded;
    set(&volume, others, Some(Limits { inodes: Limit { soft: Some(9), hard: None }, ..limits(Some(1000)) }));
    assert_eq!(volume.quota(user(1001)).unwrap().exceeded, since);
    assert_eq!(volume.quota_counts()[2].exceeding, 1, "the record of all others exceeds nothing");
    work(&pool);
    let again = open(&world.disk.after_kill());
    let volume = again.volume("limited").unwrap();
    assert_eq!(volume.quota(user(1001)).unwrap().exceeded, since);
    set(&volume, others, None);
    assert!(volume.quota_settings(None, 10).iter().all(|setting| setting.limits.is_none()));
}

#[test]
fn a_soft_limit_may_be_exceeded_for_the_grace_period_over_restarts() {
    let (world, pool, volume) = limited();
    let mut one = Caller::new(1001, 101);
    let limits = Limits { bytes: Limit { soft: Some(1000), hard: Some(5000) }, ..Limits::default() };
    set(&volume, user(1001), Some(limits));
    let grace = Grace { bytes: Duration::from_secs(100), inodes: Duration::from_secs(1) };
    volume.set_grace(QuotaKind::User, Some(grace), NOW).unwrap();
    let file = one.create(&volume, "file").unwrap();
    one.write(&volume, file, 0, 1000, Stability::FileSync).unwrap();
    assert_eq!(volume.quota(user(1001)).unwrap().exceeded, Exceeded::default());
    one.write(&volume, file, 1000, 1, Stability::Unstable).unwrap();
    work(&pool);
    assert_eq!(volume.take_quota_notices(), (vec![(user(1001), QuotaNotice::SoftExceeded)], 0));
    let mut disk = world.disk.after_kill();
    for _ in 0..2 {
        let pool = open(&disk);
        let volume = pool.volume("limited").unwrap();
        let quota = volume.quota(user(1001)).unwrap();
        assert_eq!((quota.exceeded.bytes, quota.grace), (Some(NOW), grace));
        one.now = NOW.plus(Duration::from_secs(99));
        one.write(&volume, file, 1001, 1, Stability::FileSync).unwrap();
        one.now = NOW.plus(Duration::from_secs(100));
        assert_eq!(one.write(&volume, file, 1002, 1, Stability::FileSync), Err(Error::QuotaExceeded));
        // As much as fits below the hard limit, and a byte more.
        for length in [3998, 3999] {
            let refused = one.write(&volume, file, 1002, length, Stability::FileSync);
            assert_eq!(refused, Err(Error::QuotaExceeded));
        }
        let of_users = QuotaCounts { exceeding: 1, refused_by_soft: 2, refused_by_hard: 1 };
        let none = QuotaCounts::default();
        assert_eq!(volume.quota_counts(), [none, none, of_users, none]);
        assert_eq!(volume.take_quota_notices(), (vec![(user(1001), QuotaNotice::Refused)], 0));
        one.truncate(&volume, file, 1001).unwrap();
        work(&pool);
        assert_clean(&disk);
        disk = disk.after_kill();
    }
    let pool = open(&disk);
    let volume = pool.volume("limited").unwrap();
    one.truncate(&volume, file, 1000).unwrap();
    one.write(&volume, file, 1000, 4000, Stability::FileSync).unwrap();
    assert_eq!(volume.quota(user(1001)).unwrap().exceeded.bytes, Some(one.now));
    // A limit that is set below what is used is exceeded from then on.
    let other = Caller::new(1002, 101);
    let file = other.create(&volume, "other").unwrap();
    other.write(&volume, file, 0, 2000, Stability::FileSync).unwrap();
    let later = NOW.plus(Duration::from_secs(500));
    volume.set_quota(user(1002), Some(limits), later).unwrap();
    assert_eq!(volume.quota(user(1002)).unwrap().exceeded.bytes, Some(later));
    set(&volume, user(1002), None);
    assert_eq!(volume.quota(user(1002)).unwrap().exceeded, Exceeded::default());
}
