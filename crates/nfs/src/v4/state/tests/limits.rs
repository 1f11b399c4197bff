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
    assert_eq!(failed, Some(NfsStat4::ServerFault.into()), "nobody else can make room");
    assert!(gauge(&world, "nfs4_locked_ranges") <= 8);
    // What makes nothing more may be done all the same.
    unlock(0).unwrap();
    world.state.unlock(&world.ask(), &locks, Range { first: 0, last: u64::MAX }).unwrap();
    assert_eq!(gauge(&world, "nfs4_locked_ranges"), 0);
}

#[test]
fn ranges_of_all_files_are_bounded() {
    let mut world = World::with(Config { ranges: 8, ..Config::default() });
    let (client, _) = world.client(b"one", 1, 0);
    for ino in 1..=8 {
        lock(&world, &client, file(ino), 0).unwrap();
    }
    let (two, _) = world.client(b"two", 1, 0);
    assert_eq!(lock(&world, &two, file(9), 0), Err(NoLock::Refused(NfsStat4::Delay.into())));
    // Of one that is there as much as ever may be locked.
    lock(&world, &client, file(1), 0).unwrap();
    // There is hope: who is silent gives way.
    world.pass(61);
    two.renew(world.now);
    world.state.tick(&world.ask());
    lock(&world, &two, file(9), 0).unwrap();
}

#[test]
fn what_the_slots_of_all_sessions_may_keep_is_bounded() {
    // 64 slots of sessions such as those of these tests.
    let bytes = 64 * (512 + sessions::SLOT_BYTES);
    let world = World::with(Config { slot_bytes: bytes, ..Config::default() });
    let slots = |session| world.state.session(session).unwrap().fore.slots;
    let names: Vec<[u8; 1]> = (0..60).map(|number| [number]).collect();
    let sessions: Vec<SessionId> = names.iter().map(|name| world.client(name, 1, 0).1).collect();
    let granted: Vec<u32> = sessions.iter().map(|session| slots(*session)).collect();
    assert_eq!((granted[0], granted[59]), (4, 1), "fewer, the more there are, but always one");
    assert!(granted.iter().sum::<u32>() <= 64 + 16);
    for session in sessions {
        world.state.destroy_session(&world.ask(), session).unwrap();
    }
    let (_, session) = world.client(b"another", 1, 0);
    assert_eq!(slots(session), 4, "what others gave back");
}

#[test]
fn when_there_are_too_many_clients_those_that_are_silent_give_way() {
    let mut world = World::with(Config { clients: 3, ..Config::default() });
    let all: Vec<_> = [b"1", b"2", b"3"].iter().map(|name| world.client(*name, 1, 0)).collect();
    assert_eq!(refused(world.exchange_id(b"4", 1, 0)), NfsStat4::Delay);
    world.pass(100);
    all[1].0.renew(world.now);
    let (_, session) = world.client(b"4", 1, 0);
    let there: Vec<bool> = all.iter().map(|(_, session)| world.state.session(*session).is_ok()).collect();
    assert!(there[1] && there.iter().filter(|there| **there).count() < 3);
    assert!(world.state.session(session).is_ok());
}

#[test]
fn when_there_are_too_many_opens_those_of_silent_clients_give_way() {
    let mut world = World::with(Config { holdings: 8, ..Config::default() });
    let ((one, _), (two, _)) = (world.client(b"one", 1, 0), world.client(b"two", 1, 0));
    for number in 0..8 {
        world.open(&one, b"o", file(number), (1, 0)).unwrap();
    }
    assert_eq!(refused(world.open(&two, b"o", file(9), (1, 0)).map(drop)), NfsStat4::Delay);
    world.state.tick(&world.ask());
    assert_eq!(gauge(&world, "nfs4_opens"), 8, "nobody is silent");
    world.pass(61);
    two.renew(world.now);
    world.state.tick(&world.ask());
    assert_eq!(gauge(&world, "nfs4_opens"), 0);
    world.open(&two, b"o", file(9), (1, 0)).unwrap();
}

#[test]
fn who_is_not_confirmed_keeps_nobody_else_out() {
    let world = World::with(Config { clients: 16, ..Config::default() });
    for number in 0..100_u8 {
        world.exchange_id(&[number], 1, 0).unwrap();
    }
    let (client, _) = world.client(b"one", 1, 0);
    world.open(&client, b"o", file(1), (3, 0)).unwrap();
}

/// With what there is room for at the least, and with more than the limits need.
#[test]
fn what_clients_hold_is_bounded_by_memory() {
    for mebibytes in [0, 1, 4, 64, 512] {
        let bytes = mebibytes << 20;
        let config = Config::default().bound(bytes);
        let clients = u64::try_from(config.clients).unwrap();
        let all = 480 * (config.holdings + config.delegations)
            + 64 * config.ranges
            + config.slot_bytes
            + clients * (4096 + u64::from(config.cached_bytes));
        // The least that there always is: 16 clients, and one of each.
        assert!(all <= bytes + (256 << 10), "{mebibytes} MiB: {all} bytes");
        assert!(all >= bytes * 3 / 4, "{mebibytes} MiB: {all} bytes");
        // No host of NFSv3, whose clients are never silent, and no file takes all for itself.
        assert!(config.names_per_host <= config.clients / 4, "{mebibytes} MiB");
        assert!(config.ranges_per_file as u64 <= (config.ranges / 4).max(1), "{mebibytes} MiB");
    }
    assert_eq!(Config::default().bound(64 << 30), Config::default());
}

#[test]
fn when_slots_keep_as_much_as_they_may_each_client_has_one_session() {
    let bytes = 8 * (512 + sessions::SLOT_BYTES);
    let world = World::with(Config { slot_bytes: bytes, ..Config::default() });
    let names: Vec<[u8; 1]> = (0..8).map(|number| [number]).collect();
    let clients: Vec<_> = names.iter().map(|name| world.client(name, 1, 0).0).collect();
    assert_eq!(refused(world.create_session(clients[0].id, 2, 0)), NfsStat4::NoSpc);
    let (another, session) = world.client(b"another", 1, 0);
    world.open(&another, b"o", file(1), (3, 0)).unwrap();
    world.state.destroy_session(&world.ask(), session).unwrap();
    world.create_session(another.id, 2, 0).unwrap();
}
