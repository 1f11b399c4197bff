//! Clients that hold very much are removed in parts, and what they hold is recalled in parts.

use std::sync::atomic::{AtomicUsize, Ordering};

use wire::nfs4::create_session_flag::CONN_BACK_CHAN;

use super::*;
use crate::state::clients::client::Host;
use crate::state::clients::idle_owners::OWNERS_PER_TICK;
use crate::state::clients::removal::PART;
use crate::state::delegations::{Delegated, DelegationWant};
use crate::state::hosts::{Origin, Requester, owner_name};
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::{LockError, LockRequest, Locker};
use crate::state::record::CallbackAddress;

/// Opens of a client, some parts.
pub(super) const MANY: u64 = 5 * PART as u64 / 2;

/// Counts changes of records from now on.
fn count_changes(world: &World) -> Arc<AtomicUsize> {
    let changes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&changes);
    *world.memory.meanwhile.lock() = Some(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }));
    changes
}

pub(super) fn gauge(world: &World, name: &str) -> u64 {
    world.state.gauges().iter().find(|(known, _)| *known == name).unwrap().1
}

pub(super) fn exclusively(first: u64, last: u64) -> LockRequest {
    LockRequest { range: Range { first, last }, kind: LockKind::Write, waits: false }
}

pub(super) fn lock(
    world: &World,
    open: &files::Opened,
    name: &[u8],
    wanted: &LockRequest,
) -> Result<(), LockError> {
    let owner = open.entry.client.lock_owner(name, || OwnerSequence::new(world.now));
    let locker = Locker::New { open: &open.entry, owner: &owner };
    world.state.lock(&world.context(), locker, wanted).map(drop)
}

/// Lets time pass until clients that are gone have no state. Returns the number of ticks, each of which must remove at most one
/// part.
fn ticks(world: &World) -> usize {
    let mut ticks = 0;
    while gauge(world, "nfs4_opens") + gauge(world, "nfs4_delegations") > 0 || world.state.stateids.len() > 0
    {
        let changes = count_changes(world);
        let next = world.state.tick(&world.context());
        let part = changes.load(Ordering::Relaxed);
        assert!(part <= PART + 1, "{part} changes");
        ticks += 1;
        assert!(ticks < 100, "it never ends");
        assert!(next < Duration::from_millis(10) || gauge(world, "nfs4_opens") == 0, "the rest waits");
    }
    *world.memory.meanwhile.lock() = None;
    ticks
}

/// By EXCHANGE_ID and CREATE_SESSION with another verifier.
#[test]
fn a_restarted_client_is_removed_in_parts() {
    let world = World::new();
    let (old, session) = world.client(b"one", 1, CONN_BACK_CHAN);
    for ino in 1..=MANY {
        let opened = world.open(&old, b"o", file(ino), (3, 2)).unwrap();
        lock(&world, &opened, b"l", &exclusively(0, 9)).unwrap();
    }
    let changes = count_changes(&world);
    let (new, _) = world.client(b"one", 2, 0);
    assert!(changes.load(Ordering::Relaxed) < PART + 10, "others are served in between");
    assert_eq!(refused(world.state.session(session)), StateError::UnknownSession);
    assert!(gauge(&world, "nfs4_opens") > MANY - PART as u64);
    // What it wants of the rest is freed for it, and for anybody else, at once.
    let opened = world.open(&new, b"o", file(MANY), (3, 2)).unwrap();
    lock(&world, &opened, b"l", &exclusively(0, 9)).unwrap();
    let (other, _) = world.client(b"two", 1, 0);
    world.open(&other, b"o", file(MANY - 1), (3, 2)).unwrap();
    for (client, ino) in [(&new, MANY), (&other, MANY - 1)] {
        let entry = world.open(client, b"o", file(ino), (1, 0));
        let entry = entry.unwrap_or_else(|error| panic!("{ino}: {error:?}")).entry;
        world.state.close(&world.context(), &entry).unwrap();
    }
    assert!(ticks(&world) >= 2);
    assert!(world.memory.held.lock().values().all(|held| *held == 0));
    let sessions_and_clients = 2 * 2;
    assert_eq!(world.memory.records.lock().len(), sessions_and_clients);
}

#[test]
fn many_opens_of_one_file_make_way_in_parts() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    for owner in 0..MANY {
        let opened = world.open(&one, &owner.to_be_bytes(), file(1), (3, 0)).unwrap();
        lock(&world, &opened, &owner.to_be_bytes(), &exclusively(owner, owner)).unwrap();
    }
    world.pass(100);
    let (two, _) = world.client(b"two", 1, 0);
    let changes = count_changes(&world);
    assert_eq!(refused(world.open(&two, b"o", file(1), (3, 3)).map(drop)), StateError::TryLater);
    let first = changes.load(Ordering::Relaxed);
    assert!((PART / 2..PART + 10).contains(&first), "{first} changes");
    let tries = (1..100).find(|_| world.open(&two, b"o", file(1), (3, 3)).is_ok());
    assert!(tries.is_some_and(|tries| tries > 2), "{tries:?}");
}

#[test]
fn ranges_of_one_owner_are_freed_in_parts() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
    for number in 0..MANY {
        lock(&world, &opened, b"l", &exclusively(2 * number, 2 * number)).unwrap();
    }
    drop(opened);
    let records = world.memory.records.lock().len();
    world.pass(100);
    let (two, _) = world.client(b"two", 1, 0);
    let opened = world.open(&two, b"o", file(1), (3, 0)).unwrap();
    let last = exclusively(2 * MANY - 2, 2 * MANY - 2);
    let tried = lock(&world, &opened, b"l", &last);
    assert_eq!(tried, Err(LockError::Failed(StateError::TryLater)));
    let freed = records - world.memory.records.lock().len();
    assert!(freed <= PART + 10, "{freed} records");
    let tries = (1..100).find(|_| lock(&world, &opened, b"l", &last).is_ok());
    assert!(tries.is_some(), "its turn never comes");
}

/// The stateids of NFSv4.0 name their clients, so they could be used although the client is gone.
#[test]
fn a_client_that_is_being_removed_is_told_so() {
    let mut world = World::new();
    let peer = user_at(0, 1);
    let who = Introduction { name: b"four", verifier: [1; 8], peer };
    let callback = CallbackAddress { program: 0, netid: Box::default(), address: Box::default(), ident: 0 };
    let (id, confirm) = world.state.set_client_id(&world.context(), &who, callback).unwrap();
    world.state.confirm_client_id(&world.context(), id, confirm, &peer).unwrap();
    let client = world.state.client(&world.context(), id, &peer).unwrap();
    let opened: Vec<_> =
        (1..=MANY).map(|ino| world.open(&client, b"o", file(ino), (1, 2)).unwrap().stateid).collect();
    world.pass(100);
    let (two, _) = world.client(b"two", 1, 0);
    world.open(&two, b"o", file(1), (2, 0)).unwrap();
    assert!(gauge(&world, "nfs4_opens") > MANY - PART as u64);
    assert_eq!(world.state.renew(&world.context(), id, &peer), Err(StateError::Expired));
    for stateid in &opened {
        let found = world.state.entry(Caller::V40(peer), stateid.other).map(drop);
        assert_eq!(found, Err(StateError::Expired));
    }
    assert_eq!(gauge(&world, "nfs4_clients"), 1);
}

/// Waiters are notified, and delegations count as lost.
#[test]
fn what_an_expired_client_held_goes_soon() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    for ino in 1..=MANY {
        let opened = world.open(&one, b"o", file(ino), (3, 0)).unwrap();
        lock(&world, &opened, b"l", &exclusively(0, 9)).unwrap();
    }
    let opened = world.open(&one, b"o", file(MANY + 1), (3, 0)).unwrap();
    let (delegated, _) = world.state.delegate(&world.context(), &opened.entry, DelegationWant::Write, false);
    assert!(matches!(delegated, Delegated::Write(_)), "{delegated:?}");
    drop(opened);
    let (two, _) = world.client(b"two", 1, CONN_BACK_CHAN);
    let opened: Vec<_> = (1..=MANY).map(|ino| world.open(&two, b"o", file(ino), (3, 0)).unwrap()).collect();
    let waiting = LockRequest { waits: true, ..exclusively(0, 0) };
    for opened in &opened {
        assert!(matches!(lock(&world, opened, b"l", &waiting), Err(LockError::Denied(_))));
    }
    world.pass(30);
    two.renew(world.now);
    opened.iter().for_each(|opened| drop(lock(&world, opened, b"l", &waiting)));
    world.pass(31);
    two.renew(world.now);
    let (three, _) = world.client(b"three", 1, 0);
    world.open(&three, b"o", file(MANY + 1), (3, 0)).unwrap();
    assert_eq!(gauge(&world, "nfs4_delegations_revoked"), 1);
    for _ in 0..10 {
        world.state.tick(&world.context());
    }
    assert_eq!((gauge(&world, "nfs4_opens"), gauge(&world, "nfs4_lock_states")), (MANY + 1, 0));
    assert!(gauge(&world, "nfs4_callbacks_sent") > MANY / 2, "waiters are notified");
}

/// FREE_ALL of a host: another one locks at once, and a restart in between brings nothing back.
#[test]
fn hosts_free_all_in_parts() {
    let mut world = World::new();
    let (address, server) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let host = |name: &[u8]| {
        world.state.host(&world.context(), (Host { address, server, state: 1 }, true), name).unwrap()
    };
    let (one, two) = (host(b"one"), host(b"two"));
    let owner = owner_name(7, b"7@one");
    let locked = |client: &Arc<Client>, ino| {
        let requester = Requester { client, file: file(ino), owner: &owner };
        world.state.lock_for_host(&world.context(), requester, &exclusively(0, 9), false)
    };
    for ino in 1..=MANY {
        locked(&one, ino).unwrap();
    }
    assert!(matches!(locked(&two, MANY), Err(LockError::Denied(_))));
    let origin = Origin { address, privileged: true };
    let changes = count_changes(&world);
    assert!(world.state.free_all(&world.context(), origin, b"one").unwrap().is_some());
    assert!(changes.load(Ordering::Relaxed) < PART + 10, "others are served in between");
    *world.memory.meanwhile.lock() = None;
    assert!(world.state.known_host(&world.context(), origin, b"one").is_none());
    locked(&two, MANY).unwrap();
    world.restart();
    assert_eq!((gauge(&world, "nfs4_lock_states"), gauge(&world, "nlm_hosts")), (1, 1));
}

#[test]
fn a_removed_client_gets_no_record_again() {
    let world = World::new();
    let exchanged = world.exchange_id(b"one", 1, 0).unwrap();
    let session = world.create_session(exchanged.id, exchanged.sequence, 0).unwrap();
    let client = Arc::clone(&world.state.session(session).unwrap().client);
    world.state.remove_client(&world.context(), &client).unwrap();
    // A request that was on its way.
    let late = world.state.reclaim_complete(&world.context(), &client);
    assert_eq!(refused(late), StateError::UnknownSession);
    assert_eq!(world.memory.records.lock().len(), 0);
}

/// A full journal keeps some of it until later.
#[test]
fn a_full_journal_delays_the_rest() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    (1..=MANY).for_each(|ino| drop(world.open(&one, b"o", file(ino), (3, 2)).unwrap()));
    world.state.remove_client(&world.context(), &one).unwrap();
    *world.memory.full.lock() = true;
    let left = gauge(&world, "nfs4_opens");
    assert!(world.state.tick(&world.context()) > Duration::from_millis(100), "it would spin");
    assert_eq!(gauge(&world, "nfs4_opens"), left);
    *world.memory.full.lock() = false;
    world.pass(1);
    ticks(&world);
    assert_eq!(world.memory.records.lock().len(), 0);
}

/// Owners that hold nothing are forgotten in parts too.
#[test]
fn owners_of_a_removed_client_are_forgotten() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    for number in 0..MANY {
        one.open_owner(&number.to_be_bytes(), || OwnerSequence::new(world.now));
        one.lock_owner(&number.to_be_bytes(), || OwnerSequence::new(world.now));
    }
    world.state.remove_client(&world.context(), &one).unwrap();
    let mut left = vec![gauge(&world, "nfs4_state_bytes")];
    while left.last().is_some_and(|left| *left > 0) {
        world.state.tick(&world.context());
        left.push(gauge(&world, "nfs4_state_bytes"));
        assert!(left.len() < 20, "{left:?}");
    }
    assert!(left.len() > 4, "{left:?}");
}

/// Returns what a call adds to the number of recalls.
fn recalls(world: &World, call: impl FnOnce()) -> u64 {
    let before = gauge(world, "nfs4_delegations_recalled");
    call();
    gauge(world, "nfs4_delegations_recalled") - before
}

pub(super) fn delegated(world: &World, client: &Arc<Client>, ino: u64) -> StateId {
    let opened = world.open(client, b"o", file(ino), (1, 0)).unwrap();
    let (delegated, _) = world.state.delegate(&world.context(), &opened.entry, DelegationWant::Read, false);
    let Delegated::Read(stateid) = delegated else { panic!("{delegated:?}") };
    stateid
}

use ids::StateId;

/// It returned one late.
#[test]
fn delegations_of_one_client_are_recalled_in_parts() {
    let mut world = World::new();
    let (hoarder, _) = world.client(b"hoarder", 1, CONN_BACK_CHAN);
    let stateids: Vec<_> = (1..=MANY).map(|ino| delegated(&world, &hoarder, ino)).collect();
    let (writer, _) = world.client(b"writer", 1, 0);
    assert_eq!(refused(world.open(&writer, b"o", file(1), (2, 0)).map(drop)), StateError::TryLater);
    world.pass(30);
    let returned = recalls(&world, || {
        let caller = Caller::Session(&hoarder);
        world.state.return_stateid(&world.context(), caller, stateids[0], file(1)).unwrap();
    });
    assert!((1..=PART as u64).contains(&returned), "{returned} at once");
    let mut parts = 0;
    while gauge(&world, "nfs4_delegations_recalled") < MANY {
        let part = recalls(&world, || {
            world.state.tick(&world.context());
        });
        assert!(part <= PART as u64, "{part} at once");
        parts += 1;
        assert!(parts < 20);
    }
    // They are revoked in parts too.
    world.pass(61);
    hoarder.renew(world.now);
    while gauge(&world, "nfs4_delegations") > 0 {
        let changes = count_changes(&world);
        world.state.tick(&world.context());
        let part = changes.load(Ordering::Relaxed);
        assert!((1..=PART).contains(&part), "{part} at once");
    }
}

#[test]
fn delegations_of_one_file_are_recalled_in_parts() {
    let world = World::new();
    let clients: Vec<_> =
        (0..MANY).map(|number| world.client(&number.to_be_bytes(), 1, CONN_BACK_CHAN).0).collect();
    for client in &clients {
        delegated(&world, client, 1);
    }
    let (writer, _) = world.client(b"writer", 1, 0);
    let first = recalls(&world, || {
        assert_eq!(refused(world.open(&writer, b"o", file(1), (2, 0)).map(drop)), StateError::TryLater);
    });
    assert_eq!(first, PART as u64);
    let mut parts = vec![first];
    while parts.iter().sum::<u64>() < MANY {
        parts.push(recalls(&world, || {
            world.state.tick(&world.context());
        }));
        assert!(parts.len() < 20, "{parts:?}");
    }
    assert!(parts.iter().all(|part| *part <= PART as u64), "{parts:?}");
}

#[test]
fn unused_owners_are_forgotten_in_parts() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    for number in 0..4 * MANY {
        one.open_owner(&number.to_be_bytes(), || OwnerSequence::new(world.now));
        one.lock_owner(&number.to_be_bytes(), || OwnerSequence::new(world.now));
    }
    let used = world.open(&one, b"used", file(1), (1, 0)).unwrap();
    world.pass(20);
    let owners = || {
        let held = one.inner.lock();
        held.open_owners.len() + held.lock_owners.len()
    };
    let mut left = vec![owners()];
    while left.last().is_some_and(|left| *left > 1) {
        world.state.tick(&world.context());
        left.push(owners());
        assert!(left.len() < 50, "{left:?}");
    }
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= OWNERS_PER_TICK), "{left:?}");
    while world.state.tick(&world.context()) < Duration::from_millis(10) {}
    world.state.close(&world.context(), &used.entry).unwrap();
    drop(used);
    world.pass(20);
    while world.state.tick(&world.context()) < Duration::from_millis(10) {}
    assert_eq!(owners(), 0, "the next sweep finds it");
}
