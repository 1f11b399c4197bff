//! An origin whose delegations others wait for too long gets none for a while.

use wire::nfs4::create_session_flag::CONN_BACK_CHAN;

use super::shares::{address, client_at};
use super::*;
use crate::state::delegations::{ConflictKind, Delegated, DelegationWant, NoDelegationReason};
use crate::state::ids::StateId;
use crate::state::stateids::entry::Recall;

fn world() -> World {
    World::with(Config { recall_budget: Duration::from_secs(10), ..Config::default() })
}

/// Opens a file and asks for a delegation.
fn ask(world: &World, client: &Arc<Client>, ino: u64, mode: u32) -> Delegated {
    let opened = world.open(client, b"o", file(ino), (mode, 0)).unwrap();
    world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false).0
}

fn granted(delegated: Delegated) -> StateId {
    match delegated {
        Delegated::Read(stateid) | Delegated::Write(stateid) => stateid,
        Delegated::None(why) => panic!("{why:?}"),
    }
}

fn conflict(world: &World, ino: u64) -> Result<(), StateError> {
    world.state.check_delegations(&world.context(), None, file(ino), ConflictKind::Modify).map(drop)
}

fn give_back(world: &World, client: &Arc<Client>, stateid: StateId, ino: u64) {
    client.renew(world.now);
    world.state.return_stateid(&world.context(), Caller::Session(client), stateid, file(ino)).unwrap();
}

/// Has somebody wait for `time` until a client returns a delegation.
fn return_after(world: &mut World, client: &Arc<Client>, (ino, stateid): (u64, StateId), time: Duration) {
    assert_eq!(conflict(world, ino), Err(StateError::TryLater));
    world.now = world.now.plus(time);
    give_back(world, client, stateid, ino);
}

fn is_recalled(world: &World, client: &Arc<Client>, stateid: StateId, ino: u64) -> bool {
    let entry = world.state.current(&world.context(), Caller::Session(client), stateid, file(ino)).unwrap();
    entry.as_delegation().unwrap().recall() != Recall::Held
}

#[test]
fn delegations_that_are_returned_just_in_time_are_all_recalled() {
    let mut world = world();
    let (reader, _) = world.client(b"reader", 1, CONN_BACK_CHAN);
    let held: Vec<_> = (1..=10).map(|ino| (ino, granted(ask(&world, &reader, ino, 1)))).collect();
    for (ino, stateid) in &held[..2] {
        assert!(!is_recalled(&world, &reader, held[9].1, 10), "one may be late once");
        return_after(&mut world, &reader, (*ino, *stateid), Duration::from_secs(9));
        assert_eq!(conflict(&world, *ino), Ok(()));
    }
    let distrusted = world.now;
    assert!(held[2..].iter().all(|(ino, stateid)| is_recalled(&world, &reader, *stateid, *ino)));
    assert_eq!(ask(&world, &reader, 20, 1), Delegated::None(NoDelegationReason::Resource));
    // What it returns now, as it was told to, does not count, though others wait for some.
    assert_eq!(conflict(&world, 3), Err(StateError::TryLater));
    world.pass(9);
    held[2..].iter().for_each(|(ino, stateid)| give_back(&world, &reader, *stateid, *ino));
    world.now = distrusted;
    world.pass(601);
    reader.renew(world.now);
    let again = granted(ask(&world, &reader, 20, 1));
    return_after(&mut world, &reader, (20, again), Duration::from_secs(9));
    granted(ask(&world, &reader, 21, 1));
}

#[test]
fn write_delegations_that_are_kept_for_a_lease_are_all_recalled() {
    let mut world = world();
    let (writer, _) = world.client(b"writer", 1, CONN_BACK_CHAN);
    granted(ask(&world, &writer, 1, 3));
    let other = granted(ask(&world, &writer, 2, 3));
    for _ in 0..3 {
        assert_eq!(conflict(&world, 1), Err(StateError::TryLater));
        assert!(!is_recalled(&world, &writer, other, 2));
        world.pass(5);
        writer.renew(world.now);
    }
    assert_eq!(conflict(&world, 1), Err(StateError::TryLater));
    assert!(is_recalled(&world, &writer, other, 2), "others need not wait for the end of the lease");
    assert_eq!(ask(&world, &writer, 3, 3), Delegated::None(NoDelegationReason::Resource));
}

/// As a client does that writes back all files of a directory that another one reads.
#[test]
fn clients_that_write_back_for_some_seconds_keep_their_delegations() {
    let mut world = world();
    let (writer, _) = world.client(b"writer", 1, CONN_BACK_CHAN);
    for round in 0..2 {
        let files = 100 * round..100 * round + 40;
        let held: Vec<_> = files.map(|ino| (ino, granted(ask(&world, &writer, ino, 3)))).collect();
        held.iter().for_each(|(ino, _)| assert_eq!(conflict(&world, *ino), Err(StateError::TryLater)));
        for half in held.chunks(20) {
            world.pass(2);
            half.iter().for_each(|(ino, stateid)| give_back(&world, &writer, *stateid, *ino));
        }
    }
    for ino in 1000..1100 {
        let stateid = granted(ask(&world, &writer, ino, 3));
        return_after(&mut world, &writer, (ino, stateid), Duration::ZERO);
    }
    granted(ask(&world, &writer, 2000, 3));
}

/// As clients do far away that have read what another one changes.
#[test]
fn delegations_that_are_returned_at_once_cost_little() {
    let mut world = world();
    let (reader, _) = world.client(b"reader", 1, CONN_BACK_CHAN);
    let held: Vec<_> = (0..900).map(|ino| (ino, granted(ask(&world, &reader, ino, 1)))).collect();
    for delegation in held {
        return_after(&mut world, &reader, delegation, Duration::from_millis(10));
    }
    granted(ask(&world, &reader, 2000, 1));
}

/// A client could do so to make others wait for each file that they change.
#[test]
fn delegations_that_are_returned_one_by_one_after_a_second_are_all_recalled() {
    let mut world = world();
    let (reader, _) = world.client(b"reader", 1, CONN_BACK_CHAN);
    let held: Vec<_> = (0..50).map(|ino| (ino, granted(ask(&world, &reader, ino, 1)))).collect();
    for delegation in &held[..11] {
        assert!(!is_recalled(&world, &reader, held[49].1, 49), "after {} seconds", delegation.0);
        return_after(&mut world, &reader, *delegation, Duration::from_secs(1));
    }
    assert!(held[11..].iter().all(|(ino, stateid)| is_recalled(&world, &reader, *stateid, *ino)));
    assert_eq!(ask(&world, &reader, 100, 1), Delegated::None(NoDelegationReason::Resource));
}

/// One that was returned lately does not hide another that others have waited for longer.
#[test]
fn waits_that_overlap_count_once() {
    let mut world = world();
    let (writer, _) = world.client(b"writer", 1, CONN_BACK_CHAN);
    let long = granted(ask(&world, &writer, 1, 3));
    let short = granted(ask(&world, &writer, 2, 3));
    assert_eq!(conflict(&world, 1), Err(StateError::TryLater));
    world.pass(6);
    assert_eq!(conflict(&world, 2), Err(StateError::TryLater));
    world.pass(2);
    give_back(&world, &writer, short, 2);
    world.pass(1);
    give_back(&world, &writer, long, 1);
    let next = granted(ask(&world, &writer, 3, 3));
    return_after(&mut world, &writer, (3, next), Duration::from_secs(2));
    assert_eq!(ask(&world, &writer, 4, 3), Delegated::None(NoDelegationReason::Resource), "11 seconds");
}

#[test]
fn a_client_that_was_cut_off_once_gets_delegations_whatever_others_waited_for_before() {
    let mut world = world();
    let (client, _) = world.client(b"client", 1, CONN_BACK_CHAN);
    let late = granted(ask(&world, &client, 1, 3));
    return_after(&mut world, &client, (1, late), Duration::from_secs(3));
    granted(ask(&world, &client, 2, 3));
    assert_eq!(conflict(&world, 2), Err(StateError::TryLater));
    world.pass(61);
    assert_eq!(conflict(&world, 2), Ok(()));
    let (back, _) = world.client(b"client", 2, CONN_BACK_CHAN);
    granted(ask(&world, &back, 3, 1));
}

#[test]
fn an_origin_that_leaves_between_late_returns_gets_no_delegations_either() {
    let mut world = world();
    for round in 1..=2 {
        let (reader, session) = world.client(b"reader", 1, CONN_BACK_CHAN);
        let delegated = granted(ask(&world, &reader, round, 1));
        return_after(&mut world, &reader, (round, delegated), Duration::from_secs(9));
        let opens = reader.inner.lock().entries.clone();
        for other in opens {
            let entry = world.state.entry(Caller::Session(&reader), other).unwrap();
            world.state.close(&world.context(), &entry).unwrap();
        }
        // The recall was answered, or its connection was lost.
        for call in world.state.take_callbacks() {
            world.state.callback_failed(&world.context(), call.id);
        }
        world.state.destroy_session(&world.context(), session, &user_at(0, 1)).unwrap();
        world.state.destroy_client_id(&world.context(), reader.id, &user_at(0, 1)).unwrap();
        drop(reader);
        world.pass(15);
        world.state.tick(&world.context());
    }
    let (reader, _) = world.client(b"reader", 1, CONN_BACK_CHAN);
    assert_eq!(ask(&world, &reader, 3, 1), Delegated::None(NoDelegationReason::Resource));
}

#[test]
fn clients_that_fall_silent_again_and_again_get_no_delegations() {
    let mut world = world();
    for round in 0..2 {
        let (silent, _) = world.client(b"silent", round, CONN_BACK_CHAN);
        granted(ask(&world, &silent, u64::from(round), 1));
        assert_eq!(conflict(&world, u64::from(round)), Err(StateError::TryLater));
        world.pass(61);
        assert_eq!(conflict(&world, u64::from(round)), Ok(()));
    }
    let (back, _) = world.client(b"silent", 9, CONN_BACK_CHAN);
    assert_eq!(ask(&world, &back, 9, 1), Delegated::None(NoDelegationReason::Resource));
}

/// Each origin stays within its budget, but one caller waits for all of them in turn.
#[test]
fn a_caller_does_not_wait_for_many_origins_that_return_each_delegation_late() {
    let mut world = World::new();
    let readers: Vec<_> =
        (0..16).map(|host| client_at(&world, address(host), b"reader").unwrap().0).collect();
    let held: Vec<_> =
        (1..).zip(&readers).map(|(ino, reader)| granted(ask(&world, reader, ino, 1))).collect();
    let held: Vec<_> = (1..).zip(&readers).zip(held).collect();
    for ((ino, reader), stateid) in &held[..7] {
        assert!(!is_recalled(&world, &readers[15], held[15].1, 16));
        return_after(&mut world, reader, (*ino, *stateid), Duration::from_secs(9));
    }
    assert!(held[7..].iter().all(|((ino, reader), stateid)| is_recalled(&world, reader, *stateid, *ino)));
    assert_eq!(ask(&world, &readers[15], 20, 1), Delegated::None(NoDelegationReason::Contention));
    world.pass(601);
    readers[15].renew(world.now);
    granted(ask(&world, &readers[15], 20, 1));
}

/// Its other volumes may be those of people who never had to wait for it.
#[test]
fn an_origin_that_returns_late_what_nobody_waits_for_is_not_distrusted() {
    let mut world = World::new();
    let reader = client_at(&world, address(100), b"reader").unwrap().0;
    let unawaited = granted(ask(&world, &reader, 100, 1));
    for host in 1..=7 {
        let other = client_at(&world, address(host), b"other").unwrap().0;
        let stateid = granted(ask(&world, &other, host.into(), 1));
        return_after(&mut world, &other, (host.into(), stateid), Duration::from_secs(9));
    }
    reader.renew(world.now);
    assert!(is_recalled(&world, &reader, unawaited, 100));
    world.pass(30);
    give_back(&world, &reader, unawaited, 100);
    assert_eq!(
        ask(&world, &reader, 101, 1),
        Delegated::None(NoDelegationReason::Contention),
        "of the volume"
    );
}

/// They renew their leases until the conflict comes, so others wait a lease for each.
#[test]
fn a_caller_does_not_wait_a_lease_for_each_of_many_origins_that_fall_silent() {
    let mut world = World::new();
    let readers: Vec<_> = (0..8).map(|host| client_at(&world, address(host), b"reader").unwrap().0).collect();
    let held: Vec<_> =
        (1..).zip(&readers).map(|(ino, reader)| granted(ask(&world, reader, ino, 1))).collect();
    for ino in 1..=4 {
        readers.iter().for_each(|reader| reader.renew(world.now));
        assert!(!is_recalled(&world, &readers[7], held[7], 8), "{ino}");
        assert_eq!(conflict(&world, ino), Err(StateError::TryLater));
        world.pass(61);
        assert_eq!(conflict(&world, ino), Ok(()));
    }
    readers.iter().for_each(|reader| reader.renew(world.now));
    for (ino, (reader, stateid)) in (1..).zip(readers.iter().zip(held)).skip(4) {
        assert!(is_recalled(&world, reader, stateid, ino), "{ino}");
    }
}

/// As clients of NFSv4.0 do that have the file open.
#[test]
fn one_change_of_a_file_that_many_clients_return_late_is_one_wait() {
    let mut world = World::new();
    let readers: Vec<_> =
        (0..40).map(|host| client_at(&world, address(host), b"reader").unwrap().0).collect();
    let held: Vec<_> = readers.iter().map(|reader| granted(ask(&world, reader, 1, 1))).collect();
    let other = granted(ask(&world, &readers[0], 2, 1));
    assert_eq!(conflict(&world, 1), Err(StateError::TryLater));
    world.pass(6);
    readers.iter().zip(held).for_each(|(reader, stateid)| give_back(&world, reader, stateid, 1));
    assert!(!is_recalled(&world, &readers[0], other, 2));
}

/// Every client returns its delegations immediately after a recall.
#[test]
fn prompt_clients_keep_their_delegations_however_many_files_others_change() {
    let mut world = World::new();
    let readers: Vec<_> =
        (0..100).map(|host| client_at(&world, address(host), b"reader").unwrap().0).collect();
    for (ino, reader) in (0..2000).zip(readers.iter().cycle()) {
        reader.renew(world.now);
        let stateid = granted(ask(&world, reader, ino, 1));
        return_after(&mut world, reader, (ino, stateid), Duration::from_millis(150));
    }
}
