//! What clients hold in volumes to which no export admits them any more.

use std::sync::atomic::Ordering;

use super::shares::{address, client_at, host};
use super::*;
use crate::state::callbacks::outgoing::Destination;
use crate::state::delegations::{Delegated, DelegationWant};
use crate::state::hosts::Requester;
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::{LockError, LockRequest, Locker};

const ALL: LockRequest = LockRequest { range: Range::ALL, kind: LockKind::Write, waits: false };

/// Changes what exports permit to a host.
fn permit(world: &World, from: IpAddr, access: HostAccess) {
    world.memory.accesses.lock().insert(from, access);
    world.state.exports_changed(world.now);
}

/// Lets time pass in which clients renew their leases.
fn pass(world: &mut World, seconds: u64, clients: &[&Arc<Client>]) {
    for _ in 0..seconds {
        world.pass(1);
        clients.iter().for_each(|client| client.renew(world.now));
        world.state.tick(&world.context());
    }
}

fn lock(
    world: &World,
    client: &Arc<Client>,
    open: &Arc<stateids::entry::StateEntry>,
) -> Result<(), LockError> {
    let owner = client.lock_owner(b"locker", || OwnerSequence::new(world.now));
    world.state.lock(&world.context(), Locker::New { open, owner: &owner }, &ALL).map(drop)
}

fn lock_for_host(world: &World, client: &Arc<Client>, waits: bool) -> Result<(), LockError> {
    let requester = Requester { client, file: file(1), owner: b"\0\0\0\x01owner" };
    let wanted = LockRequest { waits, ..ALL };
    world.state.lock_for_host(&world.context(), requester, &wanted, false).map(drop)
}

#[test]
fn opens_and_locks_of_a_client_that_is_no_longer_admitted_are_free_after_a_lease() {
    let mut world = World::new();
    let (one, _) = client_at(&world, address(1), b"one").unwrap();
    let (two, _) = client_at(&world, address(2), b"two").unwrap();
    let denying = world.open(&one, b"o", file(1), (3, 3)).unwrap();
    lock(&world, &one, &denying.entry).unwrap();
    world.open(&two, b"o", file(2), (3, 3)).unwrap();
    permit(&world, address(1), HostAccess::None);
    pass(&mut world, 59, &[&one, &two]);
    assert_eq!(refused(world.open(&two, b"o", file(1), (1, 0)).map(drop)), StateError::ShareDenied);
    pass(&mut world, 2, &[&one, &two]);
    let opened = world.open(&two, b"o", file(1), (3, 0)).unwrap();
    lock(&world, &two, &opened.entry).unwrap();
    assert!(!one.is_gone(), "it may use other volumes");
    assert!(one.inner.lock().entries.is_empty());
    assert_eq!(refused(world.open(&one, b"p", file(2), (1, 0)).map(drop)), StateError::ShareDenied);
}

#[test]
fn opens_that_write_or_deny_are_free_once_their_holder_may_only_read() {
    let mut world = World::new();
    let (one, _) = client_at(&world, address(1), b"one").unwrap();
    world.open(&one, b"o", file(1), (1, 2)).unwrap();
    world.open(&one, b"o", file(2), (1, 0)).unwrap();
    world.open(&one, b"o", file(3), (3, 0)).unwrap();
    permit(&world, address(1), HostAccess::Read);
    pass(&mut world, 62, &[&one]);
    let (two, _) = client_at(&world, address(2), b"two").unwrap();
    world.open(&two, b"o", file(1), (3, 0)).unwrap();
    assert_eq!(one.inner.lock().entries.len(), 1);
}

#[test]
fn exclusive_locks_of_a_host_are_free_once_it_may_only_read_and_others_stay() {
    let mut world = World::new();
    let [one, two] = [1, 2].map(|number| host(&world, address(number), b"host").unwrap());
    let lock = |world: &World, client, ino, kind| {
        let requester = Requester { client, file: file(ino), owner: b"\0\0\0\x01owner" };
        let wanted = LockRequest { kind, ..ALL };
        world.state.lock_for_host(&world.context(), requester, &wanted, false).map(drop)
    };
    lock(&world, &one, 1, LockKind::Write).unwrap();
    lock(&world, &one, 2, LockKind::Read).unwrap();
    permit(&world, address(1), HostAccess::Read);
    pass(&mut world, 59, &[]);
    assert!(matches!(lock(&world, &two, 1, LockKind::Read), Err(LockError::Denied(_))));
    pass(&mut world, 3, &[]);
    lock(&world, &two, 1, LockKind::Write).unwrap();
    assert!(matches!(lock(&world, &two, 2, LockKind::Write), Err(LockError::Denied(_))));
}

/// A part frees the exclusive one of them, and the next the rest.
#[test]
fn very_many_locks_of_which_one_is_exclusive_are_all_freed() {
    let mut world = World::new();
    let one = host(&world, address(1), b"one").unwrap();
    let requester = Requester { client: &one, file: file(1), owner: b"\0\0\0\x01owner" };
    for number in 0..1000 {
        let kind = if number == 0 { LockKind::Write } else { LockKind::Read };
        let range = Range { first: 2 * number, last: 2 * number };
        let wanted = LockRequest { range, kind, waits: false };
        world.state.lock_for_host(&world.context(), requester, &wanted, false).unwrap();
    }
    permit(&world, address(1), HostAccess::Read);
    pass(&mut world, 70, &[]);
    let two = host(&world, address(2), b"two").unwrap();
    lock_for_host(&world, &two, false).unwrap();
}

#[test]
fn exports_that_are_mended_within_a_lease_cost_nothing() {
    let mut world = World::new();
    let (one, _) = client_at(&world, address(1), b"one").unwrap();
    world.open(&one, b"o", file(1), (3, 3)).unwrap();
    permit(&world, address(1), HostAccess::None);
    pass(&mut world, 50, &[&one]);
    permit(&world, address(1), HostAccess::Write);
    pass(&mut world, 200, &[&one]);
    assert_eq!(one.inner.lock().entries.len(), 1);
}

#[test]
fn a_change_soon_after_another_is_noted_too() {
    let mut world = World::new();
    let (one, _) = client_at(&world, address(1), b"one").unwrap();
    world.open(&one, b"o", file(1), (3, 3)).unwrap();
    permit(&world, address(2), HostAccess::None);
    pass(&mut world, 30, &[&one]);
    permit(&world, address(3), HostAccess::None);
    pass(&mut world, 31, &[&one]);
    permit(&world, address(1), HostAccess::None);
    pass(&mut world, 61, &[&one]);
    assert!(one.inner.lock().entries.is_empty());
}

/// Each change costs those whom it concerns what they hold a lease later.
#[test]
fn a_mistake_soon_before_an_earlier_one_has_its_effect_can_be_corrected() {
    let mut world = World::new();
    let [one, two] = [1, 2].map(|number| client_at(&world, address(number), b"client").unwrap().0);
    world.open(&one, b"o", file(1), (3, 3)).unwrap();
    world.open(&two, b"o", file(2), (3, 3)).unwrap();
    permit(&world, address(2), HostAccess::Read);
    pass(&mut world, 59, &[&one, &two]);
    permit(&world, address(1), HostAccess::None);
    pass(&mut world, 2, &[&one, &two]);
    let held = |client: &Arc<Client>| client.inner.lock().entries.len();
    assert_eq!((held(&one), held(&two)), (1, 0));
    pass(&mut world, 40, &[&one, &two]);
    permit(&world, address(1), HostAccess::Write);
    pass(&mut world, 50, &[&one, &two]);
    permit(&world, address(1), HostAccess::None);
    pass(&mut world, 59, &[&one, &two]);
    assert_eq!(held(&one), 1);
    pass(&mut world, 2, &[&one, &two]);
    assert_eq!(held(&one), 0);
}

/// It keeps trusting its cache until it is told.
#[test]
fn a_delegation_that_the_exports_end_is_revoked_and_its_client_told() {
    let mut world = World::new();
    let (one, session) = client_at(&world, address(1), b"one").unwrap();
    let opened = world.open(&one, b"o", file(1), (1, 0)).unwrap();
    let delegated = world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false).0;
    let Delegated::Read(stateid) = delegated else { panic!("{delegated:?}") };
    permit(&world, address(1), HostAccess::None);
    pass(&mut world, 62, &[&one]);
    assert!(!world.state.has_delegations());
    assert_eq!(one.revoked.load(Ordering::Relaxed), 1);
    permit(&world, address(1), HostAccess::Write);
    pass(&mut world, 62, &[&one]);
    assert!(world.state.session(session).is_ok());
    world.state.free_stateid(&world.context(), &one, stateid).unwrap();
    assert_eq!(one.revoked.load(Ordering::Relaxed), 0);
    // Its origin did nothing wrong, and gets delegations of other files.
    let opened = world.open(&one, b"o", file(2), (1, 0)).unwrap();
    let delegated = world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false).0;
    assert!(matches!(delegated, Delegated::Read(_)), "{delegated:?}");
}

/// It has no lease, and nobody else can release what it holds.
#[test]
fn a_host_that_is_no_longer_admitted_has_no_locks_after_a_lease() {
    let mut world = World::new();
    let one = host(&world, address(1), b"one").unwrap();
    let two = host(&world, address(2), b"two").unwrap();
    lock_for_host(&world, &one, false).unwrap();
    permit(&world, address(1), HostAccess::None);
    pass(&mut world, 59, &[]);
    assert!(matches!(lock_for_host(&world, &two, false), Err(LockError::Denied(_))));
    pass(&mut world, 2, &[]);
    lock_for_host(&world, &two, false).unwrap();
}

/// Nor one that may only read, as it waits for an exclusive lock.
#[test]
fn a_host_that_is_no_longer_admitted_is_not_granted_what_it_waits_for() {
    for left in [HostAccess::None, HostAccess::Read] {
        let mut world = World::new();
        let [one, two, three] = [1, 2, 3].map(|number| host(&world, address(number), b"host").unwrap());
        lock_for_host(&world, &one, false).unwrap();
        assert!(matches!(lock_for_host(&world, &two, true), Err(LockError::Denied(_))));
        permit(&world, address(2), left);
        let requester = Requester { client: &one, file: file(1), owner: b"\0\0\0\x01owner" };
        world.state.unlock_for_host(&world.context(), requester, Range::ALL).unwrap();
        pass(&mut world, 2, &[]);
        for call in world.state.take_callbacks() {
            assert!(!matches!(call.to, Destination::Program { host, .. } if host == address(2)), "{call:?}");
        }
        lock_for_host(&world, &three, false).unwrap();
    }
}

/// More than one part frees.
#[test]
fn very_many_opens_are_freed_in_parts() {
    let mut world = World::new();
    let (one, _) = client_at(&world, address(1), b"one").unwrap();
    (0..1000).for_each(|ino| drop(world.open(&one, b"o", file(ino), (1, 0)).unwrap()));
    permit(&world, address(1), HostAccess::None);
    world.state.tick(&world.context());
    world.pass(61);
    one.renew(world.now);
    world.state.tick(&world.context());
    let left = one.inner.lock().entries.len();
    assert!((500..1000).contains(&left), "{left}");
    pass(&mut world, 10, &[&one]);
    assert!(one.inner.lock().entries.is_empty());
}
