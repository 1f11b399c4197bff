//! What no client can exceed, alone or with others.

use super::locking::{Locker, NoLock, Wanted};
use super::ranges::{LockKind, Range};
use super::*;

fn gauge(world: &World, name: &str) -> u64 {
    world.state.gauges().iter().find(|(known, _)| *known == name).unwrap().1
}

fn lock(world: &World, client: &Arc<Client>, file: FileId, first: u64) -> Result<StateId, NoLock> {
    let opened = world.open(client, b"o", file, (3, 0)).map_err(NoLock::Refused)?;
    let owner = client.lock_owner(b"l", || Turns::new(world.now));
    let locker = Locker::New { open: &opened.holding, owner: &owner };
    let wanted = Wanted { range: Range { first, last: u64::MAX }, kind: LockKind::Write, waits: false };
    world.state.lock(&world.ask(), locker, &wanted).map(|(stateid, _)| stateid)
}

use ids::StateId;

#[test]
fn ranges_that_are_split_by_unlocking_are_bounded_too() {
    let world = World::with(Config { ranges_per_file: 8, ..Config::default() });
    let (client, _) = world.client(b"one", 1, 0);
    let stateid = lock(&world, &client, file(1), 0).unwrap();
    let locks = world.state.holding(Caller::Session(&client), stateid.other).unwrap();
    let unlock = |byte| world.state.unlock(&world.ask(), &locks, Range { first: byte, last: byte });
    let failed = (1..100).find_map(|number| unlock(number * 2).err());
    assert_eq!(failed, Some(NfsStat4::Delay.into()));
    assert!(gauge(&world, "nfs4_locked_ranges") <= 8);
    // What makes nothing more may be done all the same.
    unlock(0).unwrap();
    world.state.unlock(&world.ask(), &locks, Range { first: 0, last: u64::MAX }).unwrap();
    assert_eq!(gauge(&world, "nfs4_locked_ranges"), 0);
}

#[test]
fn ranges_of_all_files_are_bounded() {
    let world = World::with(Config { ranges: 5, ..Config::default() });
    let (client, _) = world.client(b"one", 1, 0);
    for ino in 1..=5 {
        lock(&world, &client, file(ino), 0).unwrap();
    }
    assert_eq!(lock(&world, &client, file(6), 0), Err(NoLock::Refused(NfsStat4::Delay.into())));
    // Of one that is there as much as ever may be locked.
    lock(&world, &client, file(1), 0).unwrap();
}
