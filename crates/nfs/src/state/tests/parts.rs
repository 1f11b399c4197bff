//! Requests that lock, free or wake very much are done in parts, and a tick touches only what is due. Work is counted, not timed.

use std::sync::atomic::Ordering;

use wire::nfs4::create_session_flag::CONN_BACK_CHAN;

use super::delegations::called_client;
use super::removal::{MANY, delegated, exclusively, gauge, lock};
use super::shares::{address, client_at};
use super::*;
use crate::state::clients::client::Host;
use crate::state::clients::removal::PART;
use crate::state::hosts::{Requester, owner_name};
use crate::state::locks::parts::WOKEN_AT_ONCE;
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::{LockError, LockRequest};

fn records(world: &World) -> usize {
    world.memory.records.lock().len()
}

/// Repeats a request until it is done. Returns the number of parts, each of which deletes a bounded number of records.
fn parts<T>(world: &World, mut request: impl FnMut() -> Result<T, StateError>) -> (usize, T) {
    for parts in 1..100 {
        let before = records(world);
        let done = request();
        let deleted = before.saturating_sub(records(world));
        assert!(deleted <= PART + 2, "{deleted} records in one part");
        match done {
            Ok(done) => return (parts, done),
            Err(StateError::Unfinished) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("it never ends");
}

fn failed(error: LockError) -> StateError {
    match error {
        LockError::Failed(error) => error,
        LockError::Denied(denied) => panic!("{denied:?}"),
    }
}

/// Locks every second byte.
fn lock_many(world: &World, opened: &files::Opened, name: &[u8]) {
    (0..MANY).for_each(|number| lock(world, opened, name, &exclusively(2 * number, 2 * number)).unwrap());
}

fn lock_state(world: &World, client: &Arc<Client>, ino: u64) -> Arc<stateids::entry::StateEntry> {
    let owner = client.known_lock_owner(b"l").unwrap();
    let files = world.state.files.read(&file(ino));
    Arc::clone(files.get(&file(ino)).unwrap().lock_states.of(&owner).unwrap())
}

#[test]
fn many_ranges_are_unlocked_in_parts() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
    lock_many(&world, &opened, b"l");
    let entry = lock_state(&world, &one, 1);
    let seqid = entry.stateid().seqid;
    let (parts, (stateid, _)) = parts(&world, || world.state.unlock(&world.context(), &entry, Range::ALL));
    assert_eq!((parts as u64, stateid.seqid), (MANY.div_ceil(PART as u64), seqid + 1), "it counts once");
    assert_eq!(gauge(&world, "nfs4_locked_ranges"), 0);
}

#[test]
fn a_lock_replaces_many_in_parts_and_nobody_gets_between() {
    let mut world = World::new();
    let (one, session) = world.client(b"one", 1, 0);
    let (two, _) = world.client(b"two", 1, 0);
    let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
    let others = world.open(&two, b"o", file(1), (3, 0)).unwrap();
    lock_many(&world, &opened, b"l");
    let all = exclusively(0, u64::MAX);
    let (parts, ()) = parts(&world, || {
        let locked = lock(&world, &opened, b"l", &all).map_err(failed);
        let gap = exclusively(2 * MANY - 1, 2 * MANY - 1);
        match lock(&world, &others, b"l", &gap) {
            Err(LockError::Failed(StateError::TryLater)) => assert_eq!(locked, Err(StateError::Unfinished)),
            denied => assert!(matches!(denied, Err(LockError::Denied(_))) && locked.is_ok(), "{denied:?}"),
        }
        locked
    });
    assert!(parts >= 3, "{parts}");
    assert_eq!(gauge(&world, "nfs4_locked_ranges"), 1);
    drop((opened, others));
    world.restart();
    assert_eq!(gauge(&world, "nfs4_locked_ranges"), 1);
    assert!(world.state.session(session).is_ok());
}

/// Each of them may be given up halfway.
#[test]
fn locks_that_do_not_conflict_are_made_in_parts_at_once() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    let (two, _) = world.client(b"two", 1, 0);
    let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
    let others = world.open(&two, b"o", file(1), (3, 0)).unwrap();
    lock_many(&world, &opened, b"l");
    (0..MANY).for_each(|number| {
        let first = 2 * (MANY + number);
        lock(&world, &others, b"l", &exclusively(first, first)).unwrap();
    });
    let (below, above) = (exclusively(0, 2 * MANY - 1), exclusively(2 * MANY, u64::MAX));
    assert_eq!(lock(&world, &opened, b"l", &below).map_err(failed), Err(StateError::Unfinished));
    let gap = exclusively(2 * MANY - 1, 2 * MANY - 1);
    let (parts, ()) = parts(&world, || {
        assert_eq!(lock(&world, &others, b"l", &gap).map_err(failed), Err(StateError::TryLater));
        lock(&world, &others, b"l", &above).map_err(failed)
    });
    assert!(parts >= 3, "{parts}");
    while lock(&world, &opened, b"l", &below).map_err(failed) == Err(StateError::Unfinished) {}
    assert_eq!(gauge(&world, "nfs4_locked_ranges"), 2);
}

/// Goes on with a lock of all bytes of a zone, whose owner has very many in it.
fn next_part_of(world: &World, opened: &files::Opened, zone: u64) -> Result<(), StateError> {
    let first = zone << 32;
    lock(world, opened, &zone.to_be_bytes(), &exclusively(first, first + 8 * PART as u64)).map_err(failed)
}

/// It takes no more than its share of the places of one file, and what it has begun goes on.
#[test]
fn an_origin_that_makes_very_many_locks_in_parts_leaves_others_room() {
    let world = World::new();
    let [one, two] = [1, 2].map(|number| client_at(&world, address(number), b"client").unwrap().0);
    let [opened, others] = [&one, &two].map(|client| world.open(client, b"o", file(1), (3, 0)).unwrap());
    let first_part_of = |opened: &files::Opened, zone: u64| {
        let first = zone << 32;
        let name = zone.to_be_bytes();
        for number in 0..=2 * PART as u64 {
            lock(&world, opened, &name, &exclusively(first + 2 * number, first + 2 * number)).unwrap();
        }
        next_part_of(&world, opened, zone)
    };
    let refused = (0..40).find(|zone| first_part_of(&opened, *zone) != Err(StateError::Unfinished));
    assert_eq!(refused, Some(19));
    assert_eq!(first_part_of(&others, 40), Err(StateError::Unfinished));
    assert_eq!(next_part_of(&world, &opened, 0), Err(StateError::Unfinished));
    assert_eq!(next_part_of(&world, &opened, 0), Ok(()));
}

/// Its client may not ask for the rest of it.
#[test]
fn a_lock_that_is_given_up_halfway_keeps_others_waiting_for_seconds_only() {
    let mut world = World::new();
    let ((one, _), (two, _)) = (world.client(b"one", 1, 0), world.client(b"two", 1, 0));
    let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
    let others = world.open(&two, b"o", file(1), (3, 0)).unwrap();
    lock_many(&world, &opened, b"l");
    let all = exclusively(0, u64::MAX);
    assert_eq!(lock(&world, &opened, b"l", &all).map_err(failed), Err(StateError::Unfinished));
    let gap = exclusively(2 * MANY - 1, 2 * MANY - 1);
    assert_eq!(lock(&world, &others, b"l", &gap).map_err(failed), Err(StateError::TryLater));
    world.pass(6);
    lock(&world, &others, b"l", &gap).unwrap();
    assert!(matches!(lock(&world, &opened, b"l", &all), Err(LockError::Denied(_))));
}

#[test]
fn an_open_on_which_very_much_depends_is_closed_in_parts() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
    for number in 0..MANY {
        lock(&world, &opened, &number.to_be_bytes(), &exclusively(number, number)).unwrap();
    }
    lock(&world, &opened, b"far", &exclusively(1 << 40, 1 << 40)).unwrap();
    let (parts, _) = parts(&world, || world.state.close(&world.context(), &opened.entry));
    // A lock state and a range count as two.
    assert!(parts as u64 >= 2 * MANY / PART as u64, "{parts}");
    let left = ["nfs4_opens", "nfs4_lock_states", "nfs4_locked_ranges"].map(|name| gauge(&world, name));
    assert_eq!(left, [0; 3]);
    assert_eq!(refused(world.state.close(&world.context(), &opened.entry).map(drop)), StateError::BadStateId);
}

#[test]
fn a_host_unlocks_many_ranges_in_parts() {
    let world = World::new();
    let (client, owner) = (nlm_host(&world), owner_name(7, b"7@one"));
    let requester = Requester { client: &client, file: file(1), owner: &owner };
    for number in 0..MANY {
        let wanted = exclusively(2 * number, 2 * number);
        world.state.lock_for_host(&world.context(), requester, &wanted, false).unwrap();
    }
    let unlock = || world.state.unlock_for_host(&world.context(), requester, Range::ALL);
    let (parts, token) = parts(&world, unlock);
    assert!(parts >= 3 && token.is_some(), "{parts}");
    assert_eq!((gauge(&world, "nfs4_lock_states"), gauge(&world, "nfs4_locked_ranges")), (0, 0));
}

#[test]
fn a_lock_owner_with_very_many_lock_states_is_released_in_parts() {
    let world = World::new();
    let four = called_client(&world, b"four");
    for ino in 1..=MANY {
        let opened = world.open(&four, b"o", file(ino), (3, 0)).unwrap();
        lock(&world, &opened, b"l", &exclusively(0, 9)).unwrap();
        if ino < MANY {
            unlock_all(&world, ino, &four);
        }
    }
    let release = || world.state.release_lock_owner(&world.context(), &four, b"l");
    assert_eq!(refused(release()), StateError::LocksHeld, "in one file");
    assert_eq!(gauge(&world, "nfs4_lock_states"), MANY, "nothing was freed");
    unlock_all(&world, MANY, &four);
    let (parts, ()) = parts(&world, release);
    assert_eq!(parts as u64, MANY.div_ceil(PART as u64));
    assert_eq!(gauge(&world, "nfs4_lock_states"), 0);
}

fn unlock_all(world: &World, ino: u64, client: &Arc<Client>) {
    let entry = lock_state(world, client, ino);
    world.state.unlock(&world.context(), &entry, Range::ALL).unwrap();
}

fn nlm_host(world: &World) -> Arc<Client> {
    let (address, server) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    world.state.host(&world.context(), (Host { address, server, state: 1 }, true), b"one").unwrap()
}

/// They wait for shared locks, which all of them get at once.
#[test]
fn many_waiters_are_woken_in_parts() {
    /// Some parts of them.
    const WAITERS: u32 = 320;
    const { assert!(WAITERS as usize > 2 * WOKEN_AT_ONCE) }
    let mut world = World::new();
    let client = nlm_host(&world);
    let owners: Vec<_> = (0..=WAITERS).map(|number| owner_name(number, b"owner")).collect();
    let requester = |owner| Requester { client: &client, file: file(1), owner };
    let ask = |owner, kind| {
        let wanted = LockRequest { range: Range { first: 0, last: 9 }, kind, waits: true };
        world.state.lock_for_host(&world.context(), requester(owner), &wanted, false)
    };
    ask(&owners[0], LockKind::Write).unwrap();
    for owner in &owners[1..] {
        assert!(matches!(ask(owner, LockKind::Read), Err(LockError::Denied(denied)) if denied.waits));
    }
    let mut locked = vec![0];
    world.state.unlock_for_host(&world.context(), requester(&owners[0]), Range::ALL).unwrap();
    locked.push(gauge(&world, "nfs4_lock_states"));
    while gauge(&world, "nfs4_lock_states") < u64::from(WAITERS) {
        let next = world.state.tick(&world.context());
        locked.push(gauge(&world, "nfs4_lock_states"));
        let is_done = locked.last() == Some(&u64::from(WAITERS));
        assert!(is_done || next < Duration::from_millis(10), "the rest waits");
        assert!(locked.len() < 10, "{locked:?}");
    }
    assert!(locked.windows(2).all(|two| two[1] - two[0] <= WOKEN_AT_ONCE as u64), "{locked:?}");
    // None of the hosts answers. Until the calls are due again, a tick does not look at them.
    world.state.tick(&world.context());
    let calls = world.state.take_callbacks();
    assert_eq!(calls.len(), WAITERS as usize);
    calls.iter().for_each(|call| world.state.callback_failed(&world.context(), call.id));
    let asked = world.memory.durability_asked.load(Ordering::Relaxed);
    for _ in 0..4 {
        world.pass(1);
        world.state.tick(&world.context());
    }
    assert_eq!(world.memory.durability_asked.load(Ordering::Relaxed), asked);
    world.pass(2);
    world.state.tick(&world.context());
    assert_eq!(world.state.take_callbacks().len(), WAITERS as usize);
}

#[test]
fn ticks_look_only_at_recalls_that_are_due() {
    let mut world = World::new();
    let (holder, _) = world.client(b"holder", 1, CONN_BACK_CHAN);
    let (writer, _) = world.client(b"writer", 1, 0);
    for ino in 1..=MANY {
        delegated(&world, &holder, ino);
        assert_eq!(refused(world.open(&writer, b"o", file(ino), (2, 0)).map(drop)), StateError::TryLater);
    }
    let looked_at = || world.state.recalls.looked_at.load(Ordering::Relaxed);
    let before = looked_at();
    let ticks = 20;
    for _ in 0..ticks {
        world.state.tick(&world.context());
    }
    assert!(looked_at() - before <= ticks, "{} for {ticks} ticks", looked_at() - before);
    // What is returned is forgotten at once.
    let files = world.state.files.read(&file(1));
    let entry = Arc::clone(files.get(&file(1)).unwrap().delegations.of_client(&holder).unwrap());
    drop(files);
    world.state.return_delegation(&world.context(), &entry).unwrap();
    assert_eq!(Arc::strong_count(&entry) - 1, world.state.take_callbacks().len().min(1), "a call is pending");
    world.pass(61);
    holder.renew(world.now);
    for _ in 0..10 {
        world.state.tick(&world.context());
    }
    assert_eq!(gauge(&world, "nfs4_delegations"), 0);
}

/// Owners that hold nothing are forgotten a part at a time, and the others stay.
#[test]
fn idle_owners_of_a_client_are_forgotten() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    for number in 0..MANY {
        one.open_owner(&number.to_be_bytes(), || OwnerSequence::new(world.now));
        one.lock_owner(&number.to_be_bytes(), || OwnerSequence::new(world.now));
    }
    let opened = world.open(&one, &7_u64.to_be_bytes(), file(1), (3, 0)).unwrap();
    lock(&world, &opened, &9_u64.to_be_bytes(), &exclusively(0, 9)).unwrap();
    world.pass(30);
    one.renew(world.now);
    while world.state.tick(&world.context()) < Duration::from_millis(10) {}
    let held = one.inner.lock();
    assert_eq!((held.open_owners.len(), held.lock_owners.len()), (1, 1));
}
