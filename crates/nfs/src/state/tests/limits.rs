//! Limits that no client can exceed, alone or with others.

use super::*;
use crate::state::clients::client::{Host, LockOwner};
use crate::state::locks::ranges::{Lock, LockKind, Range};
use crate::state::locks::{LockError, LockRequest, Locker};

fn gauge(world: &World, name: &str) -> u64 {
    world.state.gauges().iter().find(|(known, _)| *known == name).unwrap().1
}

fn lock(world: &World, client: &Arc<Client>, file: FileId, first: u64) -> Result<StateId, LockError> {
    let opened = world.open(client, b"o", file, (3, 0)).map_err(LockError::Failed)?;
    let owner = client.lock_owner(b"l", || OwnerSequence::new(world.now));
    let locker = Locker::New { open: &opened.entry, owner: &owner };
    let wanted = LockRequest { range: Range { first, last: u64::MAX }, kind: LockKind::Write, waits: false };
    world.state.lock(&world.context(), locker, &wanted).map(|(stateid, _)| stateid)
}

use ids::StateId;

#[test]
fn ranges_split_by_unlocking_are_bounded() {
    let world = World::with(Config { ranges_per_file: 8, ..Config::default() });
    let (client, _) = world.client(b"one", 1, 0);
    let stateid = lock(&world, &client, file(1), 0).unwrap();
    let locks = world.state.entry(Caller::Session(&client), stateid.other).unwrap();
    let unlock = |byte| world.state.unlock(&world.context(), &locks, Range { first: byte, last: byte });
    let failed = (1..100).find_map(|number| unlock(number * 2).err());
    assert_eq!(failed, Some(StateError::TooManyRanges), "no other client can make room");
    assert!(gauge(&world, "nfs4_locked_ranges") <= 8);
    // Changes that add no range still work.
    unlock(0).unwrap();
    world.state.unlock(&world.context(), &locks, Range { first: 0, last: u64::MAX }).unwrap();
    assert_eq!(gauge(&world, "nfs4_locked_ranges"), 0);
}

#[test]
fn ranges_of_all_files_are_bounded() {
    let mut world = World::with(Config { ranges: 8, ..Config::default() });
    let (client, _) = world.client(b"one", 1, 0);
    let locked = (1..=8).take_while(|ino| lock(&world, &client, file(*ino), 0).is_ok()).count();
    assert_eq!(locked, 6, "its least, and three quarters of what is not reserved");
    let (two, _) = world.client(b"two", 1, 0);
    for ino in [9, 10] {
        lock(&world, &two, file(ino), 0).expect("the least that is of use");
    }
    assert_eq!(lock(&world, &two, file(11), 0), Err(LockError::Failed(StateError::TryLater)));
    // In a file that already has the maximum.
    lock(&world, &client, file(1), 0).unwrap();
    // Idle clients are expired at the limit.
    world.pass(61);
    two.renew(world.now);
    world.state.tick(&world.context());
    lock(&world, &two, file(11), 0).unwrap();
}

#[test]
fn cached_replies_of_all_sessions_are_bounded() {
    // One session with one slot, like those of these tests.
    let base = sessions::SESSION_BYTES + sessions::SLOT_BYTES + 512;
    let slot_bytes = 2 * 64 * base;
    let world = World::with(Config { slot_bytes, ..Config::default() });
    let slots = |session| world.state.session(session).unwrap().fore.slots;
    let (greedy, first) = world.client(b"greedy", 1, 0);
    let mut sessions = vec![first];
    sessions.extend((2..).map_while(|sequence| world.create_session(greedy.id, sequence, 0).ok()));
    let granted: Vec<u32> = sessions.iter().map(|session| slots(*session)).collect();
    assert!(granted[0] == 4 && granted.last() < Some(&4), "fewer, the more there are: {granted:?}");
    let names: Vec<[u8; 1]> = (0..40).map(|number| [number]).collect();
    names.iter().for_each(|name| assert!(slots(world.client(name, 1, 0).1) >= 1, "but always one"));
    assert!(gauge(&world, "nfs4_slot_bytes") <= slot_bytes);
    for session in sessions {
        world.state.destroy_session(&world.context(), session, &user_at(0, 1)).unwrap();
    }
    let (_, session) = world.client(b"another", 1, 0);
    assert_eq!(slots(session), 4, "what other sessions returned");
}

#[test]
fn idle_clients_are_expired_at_the_limit_of_clients() {
    let mut world = World::with(Config { clients: 3, ..Config::default() });
    let all: Vec<_> = [b"1", b"2", b"3"].iter().map(|name| world.client(*name, 1, 0)).collect();
    let opened = |client| world.open(client, b"o", file(1), (1, 0)).map(drop);
    all.iter().for_each(|(client, _)| opened(client).unwrap());
    let fourth = world.exchange_id(b"4", 1, 0).unwrap();
    assert_eq!(refused(world.create_session(fourth.id, fourth.sequence, 0)), StateError::TryLater);
    world.pass(100);
    all[1].0.renew(world.now);
    let (_, session) = world.client(b"4", 1, 0);
    let there: Vec<bool> = all.iter().map(|(_, session)| world.state.session(*session).is_ok()).collect();
    assert!(there[1] && there.iter().filter(|there| **there).count() < 3);
    assert!(world.state.session(session).is_ok());
}

#[test]
fn idle_clients_are_expired_at_the_limit_of_opens() {
    let mut world = World::with(Config { entries: 8, ..Config::default() });
    let ((one, _), (two, _)) = (world.client(b"one", 1, 0), world.client(b"two", 1, 0));
    let opened =
        (0..8).take_while(|number| world.open(&one, b"o", file(*number), (1, 0)).is_ok()).count() as u64;
    assert_eq!(opened, 5, "an origin gets six, of which its owner takes one");
    world.open(&two, b"o", file(9), (1, 0)).expect("the least that is of use");
    assert_eq!(refused(world.open(&two, b"o", file(10), (1, 0)).map(drop)), StateError::TryLater);
    world.state.tick(&world.context());
    assert_eq!(gauge(&world, "nfs4_opens"), opened + 1, "no client is idle");
    world.pass(61);
    two.renew(world.now);
    assert_eq!(refused(world.open(&two, b"o", file(10), (1, 0)).map(drop)), StateError::TryLater);
    world.state.tick(&world.context());
    assert_eq!(gauge(&world, "nfs4_opens"), 1);
    world.open(&two, b"o", file(10), (1, 0)).unwrap();
}

#[test]
fn unconfirmed_clients_do_not_exclude_others() {
    let world = World::with(Config { clients: 16, ..Config::default() });
    for number in 0..100_u8 {
        world.exchange_id(&[number], 1, 0).unwrap();
    }
    let (client, _) = world.client(b"one", 1, 0);
    world.open(&client, b"o", file(1), (3, 0)).unwrap();
}

/// With the least memory that works, and with more than the limits need.
#[test]
fn state_is_bounded_by_memory() {
    for mebibytes in [0, 1, 4, 64, 512] {
        let bytes = mebibytes << 20;
        let config = Config::default().bound(bytes);
        let clients = u64::try_from(config.clients + config.unconfirmed).unwrap();
        let all = 480 * (config.entries + config.delegations)
            + 64 * config.ranges
            + 256 * config.waiters
            + config.slot_bytes
            + clients * 4096;
        // The guaranteed minimum: 16 clients with a session, and one of each kind.
        assert!(all <= bytes + (640 << 10), "{mebibytes} MiB: {all} bytes");
        assert!(all >= bytes * 3 / 4, "{mebibytes} MiB: {all} bytes");
        // No NFSv3 host, whose clients never expire, and no file takes everything.
        assert!(config.names_per_host <= config.clients / 4, "{mebibytes} MiB");
        assert!(config.ranges_per_file as u64 <= (config.ranges / 4).max(1), "{mebibytes} MiB");
    }
    assert_eq!(Config::default().bound(64 << 30), Config::default());
}

#[test]
fn each_client_gets_one_session_when_slot_memory_is_used_up() {
    let first = sessions::SESSION_BYTES + sessions::SLOT_BYTES + 512;
    let world = World::with(Config { slot_bytes: 64 * first, ..Config::default() });
    let (greedy, _) = world.client(b"greedy", 1, 0);
    let refusal = (2..).find_map(|sequence| world.create_session(greedy.id, sequence, 0).err());
    assert_eq!(refusal, Some(StateError::TooManySessions));
    let (another, _) = world.client(b"another", 1, 0);
    world.open(&another, b"o", file(1), (3, 0)).unwrap();
    let further: Vec<_> =
        (2..).map_while(|sequence| world.create_session(another.id, sequence, 0).ok()).collect();
    world.state.destroy_session(&world.context(), *further.last().unwrap(), &user_at(0, 1)).unwrap();
    world.create_session(another.id, 2 + u32::try_from(further.len()).unwrap(), 0).unwrap();
}

/// However long their names are: these count in place of opens.
#[test]
fn owners_count_against_the_limit_of_opens() {
    let mut world = World::with(Config { entries: 30, ..Config::default() });
    let (client, _) = world.client(b"one", 1, 0);
    let long = |number: u8| [number; record::NAME_BYTES_MAX];
    let opened = [1, 2, 3].map(|number| world.open(&client, &long(number), file(1), (1, 0)).unwrap());
    let new = |name: &[u8]| world.state.lock_owner(&client, name, || OwnerSequence::new(world.now)).map(drop);
    assert_eq!(gauge(&world, "nfs4_state_bytes"), 3 * (480 + 400 + 2 * 1024));
    assert_eq!(refused(world.open(&client, &long(4), file(1), (1, 0)).map(drop)), StateError::TryLater);
    assert_eq!(new(b"l"), Err(StateError::TryLater));
    assert!(client.known_lock_owner(b"l").is_none(), "the owner takes room too");
    for opened in &opened {
        world.state.close(&world.context(), &opened.entry).unwrap();
    }
    drop(opened);
    world.pass(16);
    world.state.tick(&world.context());
    assert_eq!(gauge(&world, "nfs4_state_bytes"), 0);
    let new = |name: &[u8]| world.state.lock_owner(&client, name, || OwnerSequence::new(world.now)).map(drop);
    assert_eq!(new(b"l"), Ok(()));
}

#[test]
fn nlm_owners_are_created_only_for_recordable_state() {
    let mut world = World::new();
    let (address, server) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let host =
        world.state.host(&world.context(), (Host { address, server, state: 1 }, true), b"three").unwrap();
    let longest = hosts::owner_name(7, &[b'o'; record::NAME_BYTES_MAX - 5]);
    let (requester, too_long) = (&longest, hosts::owner_name(7, &[b'o'; record::NAME_BYTES_MAX - 4]));
    let ask = |owner| hosts::Requester { client: &host, file: file(1), owner };
    let mode = files::share::Mode::share(1, 2).unwrap();
    let wanted = LockRequest { range: Range { first: 0, last: 9 }, kind: LockKind::Write, waits: false };
    assert_eq!(world.state.unshare(&world.context(), ask(requester)), Ok(None));
    assert_eq!(
        refused(world.state.share(&world.context(), ask(&too_long), mode, false)),
        StateError::LimitReached
    );
    let locked = world.state.lock_for_host(&world.context(), ask(&too_long), &wanted, false);
    assert_eq!(locked, Err(StateError::LimitReached.into()));
    assert_eq!(gauge(&world, "nfs4_state_bytes"), 0);
    world.state.share(&world.context(), ask(requester), mode, false).unwrap();
    assert_eq!(world.memory.held.lock()[&file(1)], 1, "a SHARE keeps its file, too");
    world.state.lock_for_host(&world.context(), ask(requester), &wanted, false).unwrap();
    world.restart();
    assert_eq!((gauge(&world, "nfs4_opens"), gauge(&world, "nfs4_lock_states")), (2, 1));
}

#[test]
fn calls_to_unresponsive_hosts_are_bounded() {
    let mut world = World::new();
    let host = "192.0.2.1".parse().unwrap();
    let made = |world: &World| {
        (0..10_000).for_each(|_| world.state.call_back(&world.context(), host, 12, vec![0; 1000], None));
        world.state.tick(&world.context());
        world.state.take_callbacks().len() as u64
    };
    let first = made(&world);
    let bytes = Config::default().call_bytes;
    assert!((1000..bytes / 2000).contains(&first), "{first} calls");
    assert_eq!(made(&world), 0, "no call was answered");
    world.pass(41);
    world.state.tick(&world.context());
    assert_eq!(made(&world), first, "unanswered calls are given up");
    // Each host can be notified of a restart; this server's name in the call has at most 39 bytes.
    let notices = Config::default().clients * (size_of::<hosts::Message>() + 2 * (4 + 40 + 4));
    assert!(notices as u64 <= bytes, "{notices} bytes");
}

/// Besides the sizes of the types, allocations and freshly grown tables count.
#[test]
fn clients_and_owners_take_no_more_memory_than_counted() {
    let entry = 2 * (size_of::<(Box<[u8]>, Arc<LockOwner>)>() + 1);
    let allocations = 4 * 16;
    assert!((size_of::<LockOwner>() + entry + allocations) as u64 <= config::OWNER_BYTES);
    // A lock state and a range: most files with any have one of each, whose lists have room for four.
    let boxed_list = |one: usize| 2 * (size_of::<Vec<u8>>() + 16 + 2 * one);
    let stateid =
        2 * (size_of::<(ids::Other, Arc<stateids::entry::StateEntry>)>() + 1 + size_of::<ids::Other>());
    let locked = size_of::<stateids::entry::StateEntry>()
        + stateid
        + allocations
        + boxed_list(size_of::<Arc<stateids::entry::StateEntry>>())
        + boxed_list(size_of::<Lock<Arc<LockOwner>>>());
    assert!(locked as u64 <= config::ENTRY_BYTES + config::RANGE_BYTES, "{locked}");
    let back = sessions::BACK_CONNECTIONS_MAX * 2 * (size_of::<ConnectionId>() + size_of::<SessionId>());
    let backchannel = 16 * size_of::<sessions::BackSlot>() + back;
    assert!((size_of::<sessions::Session>() + backchannel) as u64 <= sessions::SESSION_BYTES);
    let place = size_of::<crate::state::locks::waiters::Queued>()
        + size_of::<crate::state::shares::Held>()
        + allocations;
    assert!(place as u64 <= config::WAITER_BYTES);
    let client = size_of::<Client>()
        + size_of::<crate::state::shares::Holder>()
        + 2 * size_of::<crate::state::shares::Origin>()
        + size_of::<crate::state::clients::client::ClientState>();
    assert!(client + 2 * record::NAME_BYTES_MAX + 2 * record::ADDRESS_BYTES_MAX + 8 * entry <= 4096);
}
