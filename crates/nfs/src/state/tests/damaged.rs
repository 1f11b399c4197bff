//! Starts with records that are damaged or cannot be read.

use super::*;
use crate::state::ids::ClientId;
use crate::state::locks::ranges::LockKind;
use crate::state::record::Key;

/// Returns the ids of the clients that are known.
fn known(world: &World) -> Vec<ClientId> {
    let mut known: Vec<ClientId> = world.state.clients.all().iter().map(|client| client.id).collect();
    known.sort_unstable();
    known
}

/// Two clients with an open each: their ids, sessions and stateids.
fn two_clients(world: &World) -> [(ClientId, SessionId, Other); 2] {
    [(b"one", 1_u64), (b"two", 2)].map(|(name, ino)| {
        let (client, session) = world.client(name, 1, 0);
        let opened = world.open(&client, b"owner", file(ino), (3, 0)).unwrap();
        (client.id, session, opened.entry.other)
    })
}

/// Overwrites a record, or adds it.
fn garble(world: &World, key: Key) {
    world.memory.records.lock().insert(key.to_bytes(), b"garbage"[..].into());
}

#[test]
fn a_client_of_which_an_open_or_a_lock_is_damaged_loses_everything_and_others_nothing() {
    for kind in 0..6 {
        let mut world = World::new();
        let [(one, session, other), (two, other_session, _)] = two_clients(&world);
        garble(
            &world,
            match kind {
                0 => Key::Client(one),
                1 => Key::Open(Ino(1), other),
                2 => Key::Delegation(Ino(9), other),
                3 => Key::LockState(Ino(1), other),
                _ => Key::Range(Ino(1), other, 4),
            },
        );
        if kind == 5 {
            // It decodes, but it ends before it begins.
            let key = Key::Range(Ino(1), other, 4);
            let change = key.put(&record::RangeRecord { last: 3, kind: LockKind::Read });
            world.memory.records.lock().insert(change.key, change.value.unwrap());
        }
        let lost = world.restart_with(|_| ());
        assert_eq!((lost.damaged, lost.clients, lost.unreadable.len()), (1, 1, 0), "{kind}");
        assert_eq!(known(&world), [two], "{kind}");
        assert_eq!(refused(world.state.session(session).map(drop)), StateError::UnknownSession, "{kind}");
        assert!(world.state.session(other_session).is_ok());
        assert_eq!(world.memory.held.lock().get(&file(1)).copied().unwrap_or(0), 0, "{kind}");
        assert_eq!(world.memory.held.lock()[&file(2)], 1);
        // The client begins anew, under an id that was never used.
        assert!(![one, two].contains(&world.client(b"one", 1, 0).0.id));
        // What was dropped is gone for good.
        world.restart();
    }
}

#[test]
fn a_damaged_session_costs_its_client_only_the_session() {
    let mut world = World::new();
    let [(one, session, _), (two, ..)] = two_clients(&world);
    garble(&world, Key::Session(session));
    let lost = world.restart_with(|_| ());
    assert_eq!((lost.damaged, lost.clients), (1, 0));
    assert_eq!(known(&world), [one.min(two), one.max(two)]);
    assert_eq!(refused(world.state.session(session).map(drop)), StateError::UnknownSession);
    assert_eq!(world.memory.held.lock()[&file(1)], 1, "its open is still there");
    world.restart();
}

#[test]
fn records_that_cannot_be_read_cost_all_clients_what_they_held() {
    let mut world = World::new();
    let [(_, session, _), (_, other_session, _)] = two_clients(&world);
    let lost = world.restart_with(|records| records.add_unreadable(VOLUME));
    assert_eq!((lost.unreadable.as_slice(), lost.clients), (&[VOLUME][..], 2));
    assert_eq!(known(&world), []);
    for session in [session, other_session] {
        assert_eq!(refused(world.state.session(session).map(drop)), StateError::UnknownSession);
    }
    world.restart();
}

#[test]
fn a_damaged_state_of_the_monitor_is_replaced_by_one_that_is_odd_and_no_lower() {
    let mut world = World::new();
    garble(&world, Key::Monitor);
    let lost = world.restart_with(|_| ());
    assert_eq!((lost.damaged, lost.clients), (1, 0));
    assert!(world.state.monitor_state() % 2 == 1);
    world.restart();
}
