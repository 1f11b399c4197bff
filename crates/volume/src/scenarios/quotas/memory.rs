//! What quotas take of the memory of a pool does not depend on how many users, groups and volumes there are.

use super::*;
use crate::limits::QUOTA_OWNERS_MIN;
use crate::scenarios::volumes::open;

/// Volumes of a pool, each with room for the accounts of more users than the pool.
const VOLUMES: u64 = 6;

/// Makes volumes with these limits for all users and groups. The world holds the pool's disk.
fn volumes(limits: Option<Limits>) -> (World, Arc<Pool>, Vec<Volume>) {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let volumes: Vec<Volume> =
        (0..VOLUMES).map(|number| volume_named(&pool, &format!("limited{number}"), 21 + number)).collect();
    for volume in &volumes {
        set(volume, Owner::others(QuotaKind::User), limits);
        set(volume, Owner::others(QuotaKind::Group), limits);
    }
    (world, pool, volumes)
}

/// Users of a volume, each with a group of his own.
fn callers(count: usize) -> impl Iterator<Item = Caller> {
    (1001..).take(count).map(|id| Caller::new(id, id))
}

#[test]
fn accounts_of_all_volumes_together_are_bounded_and_limits_hold() {
    let (world, pool, volumes) = volumes(hard(None, Some(2)));
    let (_, max) = pool.quota_budget.accounts();
    let open = |volume: &Volume| volume.own.ledger.lock().accounts_open();
    for volume in &volumes {
        for one in callers(max) {
            one.create(volume, &format!("{}", one.who.uid)).unwrap();
        }
        let (all, _) = pool.quota_budget.accounts();
        assert!(all <= max, "{all} of {max}");
        work(&pool);
    }
    // Those whose accounts were closed are limited like all others.
    for volume in &volumes {
        for one in callers(max).step_by(max / 40) {
            one.create(volume, &format!("second{}", one.who.uid)).unwrap();
            assert_eq!(one.create(volume, &format!("third{}", one.who.uid)), Err(Error::QuotaExceeded));
            assert_nothing_reserved(volume, &[user(one.who.uid.into()), group(one.who.gid.into())]);
        }
        work(&pool);
    }
    let each: Vec<usize> = volumes.iter().map(open).collect();
    assert_eq!(pool.quota_budget.accounts().0, each.iter().sum::<usize>());
    let busiest = each.iter().max().unwrap();
    assert!(*busiest < 2 * max / volumes.len(), "the volume with the most gives way: {each:?} of {max}");
    // What is deleted takes nothing.
    pool.delete_volume(&volumes[0]).unwrap();
    assert_eq!(pool.quota_budget.accounts().0, each[1..].iter().sum::<usize>());
    assert_clean(&world.disk);
}

#[test]
fn accounts_in_use_stay_open_however_many_there_are() {
    let (world, pool, volumes) = volumes(hard(Some(2000), None));
    let (_, max) = pool.quota_budget.accounts();
    let reserved = |one: &Caller| {
        let accounts = volumes[0].own.ledger.lock();
        [user(one.who.uid.into()), group(one.who.gid.into())].map(|owner| accounts.reserved(owner).bytes)
    };
    let written: Vec<(Caller, Ino)> = callers(max / 2 + 2)
        .map(|one| {
            let file = one.create(&volumes[0], &format!("{}", one.who.uid)).unwrap();
            one.write(&volumes[0], file, 0, 1500, Stability::Unstable).unwrap();
            (one, file)
        })
        .collect();
    for volume in &volumes[1..] {
        for one in callers(40) {
            one.create(volume, &format!("{}", one.who.uid)).unwrap();
        }
    }
    for (one, _) in &written {
        assert!(reserved(one).iter().all(|bytes| *bytes >= 1500), "{:?}", reserved(one));
    }
    assert!(pool.quota_budget.accounts().0 > max);
    for (one, file) in written.iter().step_by(9) {
        assert_eq!(one.write(&volumes[0], *file, 1500, 501, Stability::FileSync), Err(Error::QuotaExceeded));
        one.write(&volumes[0], *file, 1500, 500, Stability::FileSync).unwrap();
    }
    work(&pool);
    for (one, _) in &written {
        assert_nothing_reserved(&volumes[0], &[user(one.who.uid.into()), group(one.who.gid.into())]);
    }
    // Once they are idle, those of others take their place.
    for volume in &volumes[1..] {
        for one in callers(max) {
            one.create(volume, &format!("other{}", one.who.uid)).unwrap();
        }
    }
    assert!(pool.quota_budget.accounts().0 <= max);
    assert_clean(&world.disk);
}

#[test]
fn notes_of_all_volumes_together_are_bounded_over_restarts() {
    let soft = Limits { inodes: Limit { soft: Some(1), hard: Some(3) }, ..Limits::default() };
    let (world, pool, volumes) = volumes(Some(soft));
    let (_, max) = pool.quota_budget.notes();
    let exceeding = |pool: &Arc<Pool>| -> u64 {
        let counts = pool.volumes().into_iter().map(|volume| volume.quota_counts());
        counts.map(|of_kinds| of_kinds.iter().map(|counts| counts.exceeding).sum::<u64>()).sum()
    };
    for volume in &volumes {
        let before = pool.quota_budget.notes().0;
        for one in callers(max) {
            for name in ["first", "second"] {
                one.create(volume, &format!("{name}{}", one.who.uid)).unwrap();
            }
        }
        let (now, _) = pool.quota_budget.notes();
        assert!(now - before >= QUOTA_OWNERS_MIN && now <= max + volumes.len() * QUOTA_OWNERS_MIN, "{now}");
        assert_eq!(exceeding(&pool), now as u64);
        work(&pool);
    }
    let noted = pool.quota_budget.notes();
    let again = open(&world.disk.after_kill());
    assert_eq!((again.quota_budget.notes(), exceeding(&again)), (noted, noted.0 as u64));
    assert_clean(&world.disk);
}
