//! Another thread acts between two steps of an operation.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::*;
use crate::state::delegations::{ConflictKind, Delegated, DelegationWant, NoDelegationReason};
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::{LockError, LockRequest, Locker};
use crate::state::stateids::IoMode;

fn wanted(first: u64, last: u64, kind: LockKind) -> LockRequest {
    LockRequest { range: Range { first, last }, kind, waits: false }
}

/// CLOSE comes after LOCK, OPEN_DOWNGRADE or LOCKU has checked the stateid, and before it has the lock of the file.
#[test]
fn a_closed_open_takes_no_lock_and_leaves_no_record() {
    let world = World::new();
    let (client, _) = world.client(b"one", 1, 0);
    let records = world.memory.records.lock().len();
    let opened = world.open(&client, b"o", file(1), (3, 2)).unwrap();
    let owner = client.lock_owner(b"l", || OwnerSequence::new(world.now));
    let first = Locker::New { open: &opened.entry, owner: &owner };
    let (stateid, _) = world.state.lock(&world.context(), first, &wanted(0, 9, LockKind::Write)).unwrap();
    let locks = world.state.entry(Caller::Session(&client), stateid.other).unwrap();
    world.state.close(&world.context(), &opened.entry).unwrap();

    let mode = files::share::Mode::new(3, 2).unwrap();
    let bad = StateError::BadStateId;
    assert_eq!(refused(world.state.downgrade(&world.context(), &opened.entry, mode)), bad);
    let further = [first, Locker::Known(&locks)];
    for locker in further {
        let locked = world.state.lock(&world.context(), locker, &wanted(0, 9, LockKind::Write));
        assert_eq!(locked, Err(LockError::Failed(bad)));
    }
    let other = world.open(&client, b"p", file(1), (1, 0)).unwrap();
    assert_eq!(refused(world.state.unlock(&world.context(), &locks, Range { first: 0, last: 9 })), bad);
    world.state.close(&world.context(), &other.entry).unwrap();
    assert_eq!(world.memory.records.lock().len(), records);
    assert!(world.memory.held.lock().values().all(|held| *held == 0));
}

#[test]
fn a_renewal_just_before_expiry_keeps_the_state() {
    let mut world = World::new();
    let clients = [world.client(b"one", 1, 0), world.client(b"two", 1, 0)];
    for (client, _) in &clients {
        world.open(client, b"o", file(1), (1, 2)).unwrap();
    }
    world.pass(100);
    // Expiring the first one takes time.
    let (third, _) = world.client(b"three", 1, 0);
    let (now, heard) = (world.now, clients.clone());
    *world.memory.meanwhile.lock() = Some(Box::new(move || {
        heard.iter().for_each(|(client, _)| client.renew(now));
        Ok(())
    }));
    let denied = world.open(&third, b"o", file(1), (2, 0)).map(drop);
    assert_eq!(refused(denied), StateError::ShareDenied);
    *world.memory.meanwhile.lock() = None;
    let left = clients.iter().filter(|(_, session)| world.state.session(*session).is_ok()).count();
    assert_eq!(left, 1, "only the first was idle too long");
}

/// The journal is full halfway.
#[test]
fn a_half_removed_client_can_register_again() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    world.open(&one, b"o", file(1), (3, 2)).unwrap();
    let (two, _) = world.client(b"two", 1, 0);
    world.pass(100);
    two.renew(world.now);
    // By then its session is gone.
    let mut changes = 0;
    *world.memory.meanwhile.lock() = Some(Box::new(move || {
        changes += 1;
        if changes > 1 { Err(Error::Busy) } else { Ok(()) }
    }));
    let failed = world.open(&two, b"o", file(1), (2, 0)).map(drop);
    assert_eq!(failed, Err(StateError::Engine(Error::Busy)));
    *world.memory.meanwhile.lock() = None;
    assert_eq!(refused(world.create_session(one.id, 2, 0)), StateError::UnknownClient);
    let (one, _) = world.client(b"one", 1, 0);
    world.open(&one, b"o", file(1), (3, 0)).unwrap();
    world.open(&two, b"o", file(1), (2, 0)).unwrap();
}

/// The client is removed while CREATE_SESSION writes its records.
#[test]
fn sessions_of_a_client_that_is_being_removed_are_ended() {
    let world = World::new();
    let (client, _) = world.client(b"one", 1, 0);
    let (writes, is_written) = mpsc::channel();
    let going = Arc::clone(&client);
    *world.memory.meanwhile.lock() = Some(Box::new(move || {
        if writes.send(()).is_ok() {
            // The removal may have to wait for this.
            let patience = Instant::now() + Duration::from_millis(200);
            while !going.is_gone() && Instant::now() < patience {
                thread::yield_now();
            }
        }
        Ok(())
    }));
    thread::scope(|scope| {
        let creating = scope.spawn(|| world.create_session(client.id, 2, 0));
        is_written.recv().unwrap();
        drop(is_written);
        world.state.remove_client(&world.context(), &client).unwrap();
        if let Ok(session) = creating.join().unwrap() {
            assert!(world.state.session(session).is_err(), "it outlived its client");
        }
    });
    *world.memory.meanwhile.lock() = None;
    assert_eq!(world.state.sessions.len(), 0);
    let sessions_left = client.inner.lock().sessions.len();
    assert_eq!((sessions_left, world.memory.records.lock().len()), (0, 0));
}

/// A change of very many ranges takes several journal entries, of which a crash may keep only the first.
#[test]
fn locked_bytes_stay_locked_while_ranges_join() {
    for left in 0..6 {
        let mut world = World::new();
        let (one, session) = world.client(b"one", 1, 0);
        let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
        let owner = one.lock_owner(b"l", || OwnerSequence::new(world.now));
        let first = Locker::New { open: &opened.entry, owner: &owner };
        let lock =
            |locker, from, to| world.state.lock(&world.context(), locker, &wanted(from, to, LockKind::Write));
        for from in [0, 20, 40] {
            lock(first, from, from + 9).unwrap();
        }
        *world.memory.left.lock() = Some(left);
        lock(first, 0, 49).unwrap();
        *world.memory.left.lock() = None;
        world.restart();
        assert!(world.state.session(session).is_ok());
        for from in [0, 20, 40] {
            let tried = world.state.test_lock(
                &world.context(),
                file(1),
                None,
                Range { first: from, last: from },
                LockKind::Read,
            );
            assert!(matches!(tried, Err(LockError::Denied(_))), "{left} changes left, byte {from}");
        }
    }
}

/// The journal keeps the new range, and not that those it replaced are gone.
#[test]
fn ranges_that_overlap_after_a_crash_are_unlocked_like_others() {
    let mut world = World::new();
    let (one, session) = world.client(b"one", 1, 0);
    let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
    let owner = one.lock_owner(b"l", || OwnerSequence::new(world.now));
    let first = Locker::New { open: &opened.entry, owner: &owner };
    let lock = |wanted: LockRequest| world.state.lock(&world.context(), first, &wanted).unwrap().0;
    lock(wanted(8, 9, LockKind::Read));
    lock(wanted(30, 31, LockKind::Write));
    *world.memory.left.lock() = Some(2);
    let stateid = lock(wanted(0, u64::MAX, LockKind::Write));
    *world.memory.left.lock() = None;
    drop((opened, owner));
    for free in [Range { first: 10, last: 20 }, Range::ALL] {
        world.restart();
        let one = Arc::clone(&world.state.session(session).unwrap().client);
        let entry = world.state.entry(Caller::Session(&one), stateid.other).unwrap();
        world.state.unlock(&world.context(), &entry, free).unwrap();
        // What was unlocked stays unlocked.
        world.restart();
        let test = |first, last| {
            world.state.test_lock(&world.context(), file(1), None, Range { first, last }, LockKind::Write)
        };
        assert_eq!(test(free.first, free.last), Ok(()), "{free:?}");
        let others_are_locked = free != Range::ALL;
        for byte in [0, 8, 9, 21, 30, u64::MAX] {
            assert_eq!(test(byte, byte).is_err(), others_are_locked, "byte {byte}, {free:?}");
        }
    }
}

/// OPEN comes after an operation has looked for delegations in vain, and before it has changed the file.
#[test]
fn files_being_modified_are_not_delegated() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, wire::nfs4::create_session_flag::CONN_BACK_CHAN);
    let delegate = |ino: u64| {
        let opened = world.open(&one, b"o", file(ino), (1, 0)).unwrap();
        world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false).0
    };
    let contended = Delegated::None(NoDelegationReason::Contention);
    let check = |conflict| world.state.check_delegations(&world.context(), None, file(1), conflict);
    let in_flight = check(ConflictKind::Modify).unwrap();
    assert_eq!(delegate(1), contended);
    drop(in_flight);
    // A name's file is known only after a lookup.
    let renaming = world.state.begin_modification_of_name(file(9));
    assert!(!world.state.has_delegations());
    assert_eq!(delegate(1), contended);
    drop(renaming);
    let reading = check(ConflictKind::Read).unwrap();
    assert!(matches!(delegate(1), Delegated::Read(_)));
    drop(reading);
    let renaming = world.state.begin_modification_of_name(file(9));
    assert!(world.state.has_delegations(), "a rename looks for delegations now");
    assert!(matches!(delegate(2), Delegated::Read(_)));
    drop(renaming);
    assert_eq!(refused(check(ConflictKind::Modify).map(drop)), StateError::TryLater);
    assert!(matches!(delegate(3), Delegated::Read(_)), "a change that was refused is none");
}

/// Others find the file by its name before the open that created it exists.
#[test]
fn created_files_are_not_delegated_before_their_open_exists() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    let (two, _) = world.client(b"two", 1, wire::nfs4::create_session_flag::CONN_BACK_CHAN);
    let owner = one.open_owner(b"o", || OwnerSequence::new(world.now));
    let opening = OpenRequest { client: &one, owner: &owner, mode: files::share::Mode::new(2, 0).unwrap() };
    let prepared = world.state.prepare_open(&opening);
    let (_, coming) = world.state.record_of_created(&prepared, file(1));
    let found = world.open(&two, b"o", file(1), (1, 0)).unwrap();
    let delegate = || world.state.delegate(&world.context(), &found.entry, DelegationWant::Any, false).0;
    let contended = Delegated::None(NoDelegationReason::Contention);
    assert_eq!(delegate(), contended);
    let token = DurabilityToken { volume: VOLUME, after: Durability::NOW };
    let opened =
        world.state.adopt_open(&world.context(), file(1), &opening, (&prepared, coming), token).unwrap();
    assert_eq!(delegate(), contended, "it is written");
    world.state.close(&world.context(), &opened.entry).unwrap();
    assert!(matches!(delegate(), Delegated::Read(_)));
}

/// A write may find its stateid held just before it is returned.
#[test]
fn files_are_not_delegated_while_a_write_is_checked() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    let opened = world.open(&one, b"o", file(1), (3, 0)).unwrap();
    let lasting = || {
        let (context, stateid) = (world.context(), opened.stateid);
        world.state.check_lasting_io(&context, &one, stateid, file(1), IoMode::Write).map(drop)
    };
    let once = || {
        let (context, stateid) = (world.context(), opened.stateid);
        world.state.check_io(&context, Caller::Session(&one), stateid, file(1), IoMode::Write).map(drop)
    };
    let checks: [&(dyn Fn() -> Result<(), StateError> + Sync); 2] = [&lasting, &once];
    for check in checks {
        thread::scope(|scope| {
            // Keeps it from looking up the stateid.
            let looked_at = world.state.stateids.write(&opened.stateid.other);
            let checking = scope.spawn(check);
            wait_for_change(&world.state, file(1));
            let in_flight = is_changing(&world.state, file(1));
            drop(looked_at);
            assert_eq!(checking.join().unwrap(), Ok(()));
            assert!(in_flight, "the file could be delegated");
        });
    }
}

/// It took the name that was removed or replaced after the check for delegations of the earlier file.
#[test]
fn files_that_unexpectedly_lost_their_name_are_recalled_late() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, wire::nfs4::create_session_flag::CONN_BACK_CHAN);
    let opened = world.open(&one, b"o", file(1), (1, 0)).unwrap();
    let (delegated, _) = world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false);
    let Delegated::Read(stateid) = delegated else { panic!("no conflict") };
    world.state.recall_late(&world.context(), Some(&one), file(1));
    world.state.recall_late(&world.context(), None, file(2));
    assert_eq!(world.state.take_callbacks().len(), 0);
    world.state.recall_late(&world.context(), None, file(1));
    assert_eq!(world.state.take_callbacks().len(), 1);
    world.state.return_stateid(&world.context(), Caller::Session(&one), stateid, file(1)).unwrap();
    world.state.recall_late(&world.context(), None, file(1));
    assert_eq!(world.state.take_callbacks().len(), 0);
}

/// Who removes a client looks up the stateids that it has: one that is not known yet would outlive it.
#[test]
fn clients_have_only_known_stateids() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, 0);
    let owner = one.open_owner(b"o", || OwnerSequence::new(world.now));
    let stateid = ids::StateId { seqid: 1, other: world.state.next_other(&one) };
    let modes = files::share::Modes::NOTHING;
    let entry = stateids::entry::StateEntry::open(&one, file(1), stateid, &owner, modes, false);
    thread::scope(|scope| {
        let looked_at = world.state.stateids.write(&stateid.other);
        let adding = scope.spawn(|| world.state.add(&entry));
        let patience = Instant::now() + Duration::from_millis(200);
        let has_it = || one.inner.try_lock().is_some_and(|held| !held.entries.is_empty());
        let mut had_it = false;
        while !had_it && Instant::now() < patience {
            had_it = has_it();
            thread::yield_now();
        }
        drop(looked_at);
        adding.join().unwrap().unwrap();
        assert!(!had_it && has_it());
    });
    world.state.remove_client(&world.context(), &one).unwrap();
    assert_eq!(world.state.stateids.len(), 0);
}
