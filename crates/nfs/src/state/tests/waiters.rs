//! The queue for ranges of a file.

use super::model::Random;
use super::*;
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::{LockError, LockRequest, Locker};

const BYTES: usize = 12;
const OWNERS: usize = 5;

/// Asks for a range on behalf of an owner.
fn ask(world: &World, client: &Arc<Client>, owner: &str, wanted: LockRequest) -> Result<(), LockError> {
    let opened = world.open(client, b"o", file(1), (3, 0)).map_err(LockError::Failed)?;
    let owner = client.lock_owner(owner.as_bytes(), || OwnerSequence::new(world.now));
    let by = Locker::New { open: &opened.entry, owner: &owner };
    world.state.lock(&world.context(), by, &wanted).map(drop)
}

fn unlock(world: &World, client: &Arc<Client>, owner: &str, range: Range) {
    let Some(owner) = client.known_lock_owner(owner.as_bytes()) else { return };
    let files = world.state.files.read(&file(1));
    let entry = files.get(&file(1)).and_then(|state| state.lock_states.of(&owner)).cloned();
    drop(files);
    if let Some(entry) = entry {
        world.state.unlock(&world.context(), &entry, range).unwrap();
    }
}

/// Requests, unlocks, and waiters who no longer ask, in any order.
#[test]
fn places_count_the_conflicting_ones_before_them() {
    for seed in 0..60 {
        let (mut world, mut random) = (World::new(), Random::new(seed));
        let (client, _) = world.client(b"client", 0, 0);
        for _ in 0..200 {
            let owner = format!("owner {}", random.below(OWNERS));
            let (a, b) = (random.below(BYTES), random.below(BYTES));
            let [first, last] = [a.min(b), a.max(b)].map(|byte| u64::try_from(byte).unwrap());
            let range = Range { first, last };
            let kind = if random.below(2) == 0 { LockKind::Read } else { LockKind::Write };
            match random.below(8) {
                0..5 => drop(ask(&world, &client, &owner, LockRequest { range, kind, waits: true })),
                5 | 6 => unlock(&world, &client, &owner, range),
                _ => {
                    world.pass(u64::try_from(random.below(30)).unwrap());
                    client.renew(world.now);
                }
            }
            if let Some(state) = world.state.files.read(&file(1)).get(&file(1)) {
                state.waiters.check(seed);
            }
        }
    }
}

/// Its lock owner never locked anything there, so no lock state leads to the place.
#[test]
fn a_client_that_closes_a_file_waits_for_nothing_there() {
    let world = World::new();
    let all = LockRequest { range: Range::ALL, kind: LockKind::Write, waits: true };
    let [(holder, _), (waiter, _)] = [world.client(b"holder", 0, 0), world.client(b"waiter", 0, 0)];
    ask(&world, &holder, "holder", all).unwrap();
    assert!(ask(&world, &waiter, "waiter", all).is_err() && ask(&world, &waiter, "other", all).is_err());
    let gauge = |name| world.state.gauges().into_iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!(gauge("nfs4_lock_waiters"), 2);
    let second = world.open(&waiter, b"second", file(1), (3, 0)).unwrap();
    let first = world.open(&waiter, b"o", file(1), (3, 0)).unwrap();
    world.state.close(&world.context(), &second.entry).unwrap();
    assert_eq!(gauge("nfs4_lock_waiters"), 2, "it has the file open");
    world.state.close(&world.context(), &first.entry).unwrap();
    assert_eq!(gauge("nfs4_lock_waiters"), 0);
}

/// Each waiter is before all others of the queue once, and locks.
#[test]
fn a_long_queue_is_served_in_its_order() {
    const WAITERS: usize = 200;
    let world = World::new();
    let (client, _) = world.client(b"client", 0, 0);
    let all = |kind| LockRequest { range: Range::ALL, kind, waits: true };
    let name = |number: usize| format!("owner {number}");
    ask(&world, &client, &name(0), all(LockKind::Write)).unwrap();
    for number in 1..WAITERS {
        assert!(ask(&world, &client, &name(number), all(LockKind::Write)).is_err());
    }
    for number in 1..WAITERS {
        unlock(&world, &client, &name(number - 1), Range::ALL);
        let too_early = (number + 1) % WAITERS;
        assert!(ask(&world, &client, &name(too_early), all(LockKind::Write)).is_err(), "{number}");
        ask(&world, &client, &name(number), all(LockKind::Write)).unwrap();
    }
}
