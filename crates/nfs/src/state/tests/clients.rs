use std::sync::atomic::Ordering;

use super::shares::create;
use super::*;
use crate::link_local::named;
use crate::state::clients::{NAMESAKES_MAX, WINDOW, WRONG_VERIFIERS_MAX};
use crate::state::record::CallbackAddress;

/// The cases of RFC 8881 section 18.35.5.
#[test]
fn exchange_id_distinguishes_all_cases() {
    let world = World::new();
    let one = world.exchange_id(b"one", 1, 0).unwrap();
    let again = world.exchange_id(b"one", 1, 0).unwrap();
    assert_ne!(one.id, again.id, "not confirmed: replaced");
    let session = world.create_session(again.id, 1, 0).unwrap();
    let known = world.exchange_id(b"one", 1, 0).unwrap();
    assert_eq!(known, Exchanged { id: again.id, sequence: 2, confirmed: true });
    assert_eq!(refused(world.exchange_id(b"one", 1, 5)), StateError::ClientInUse);
    let restarted = world.exchange_id(b"one", 2, 0).unwrap();
    assert!(restarted.id != again.id && !restarted.confirmed);
    assert!(world.state.session(session).is_ok(), "until the new one is confirmed");
    world.create_session(restarted.id, 1, 0).unwrap();
    assert_eq!(world.state.session(session).err(), Some(StateError::UnknownSession));

    let who = |verifier, user| Introduction { name: b"one", verifier: [verifier; 8], peer: user_at(user, 1) };
    let update = |verifier, user| world.state.exchange_id(&world.context(), &who(verifier, user), 1, true);
    assert_eq!(update(2, 0).unwrap().id, restarted.id);
    assert_eq!(refused(update(3, 0)), StateError::VerifierDiffers);
    assert_eq!(refused(update(2, 5)), StateError::PrincipalDiffers);
}

/// Another host with the same address and name is not the same host after a restart.
#[test]
fn hosts_with_one_link_local_address_on_two_links_are_two_clients() {
    let world = World::new();
    let [(one, session), (two, _)] = [2, 3].map(|link| {
        let address = named(format!("[fe80::1%{link}]:700").parse().unwrap()).unwrap().ip();
        let peer = Peer { principal: Principal::User(0), address };
        let who = Introduction { name: b"host", verifier: [link; 8], peer };
        let exchanged = world.state.exchange_id(&world.context(), &who, 1, false).unwrap();
        create(&world, exchanged, peer).unwrap()
    });
    assert_ne!(one.id, two.id);
    assert!(!one.is_gone() && world.state.session(session).is_ok());
}

/// A client that introduces itself without end uses up all 2^32 numbers within hours.
#[test]
fn ids_of_clients_and_sessions_do_not_recur_when_their_numbers_do() {
    let world = World::new();
    let before = world.state.numbers.load(Ordering::Relaxed);
    let (one, session) = world.client(b"one", 1, 0);
    world.state.numbers.store(before + (1 << 32), Ordering::Relaxed);
    let (two, other_session) = world.client(b"two", 1, 0);
    assert!(one.id != two.id && session != other_session);
    for client in [&one, &two] {
        assert!(Arc::ptr_eq(&world.state.clients.confirmed(client.id).unwrap(), client));
        assert!(world.state.is_of_known_instance(client.id));
    }
}

#[test]
fn create_session_executes_once_even_across_a_restart() {
    let mut world = World::new();
    let one = world.exchange_id(b"one", 1, 0).unwrap();
    assert_eq!(refused(world.create_session(one.id, 2, 0)), StateError::OutOfSequence);
    let session = world.create_session(one.id, 1, 0).unwrap();
    assert_eq!(world.create_session(one.id, 1, 0).unwrap(), session);
    world.restart();
    assert_eq!(world.create_session(one.id, 1, 0).unwrap(), session);
    assert_ne!(world.create_session(one.id, 2, 0).unwrap(), session);
    assert_eq!(refused(world.create_session(one.id, 4, 0)), StateError::OutOfSequence);
}

#[test]
fn a_full_journal_leaves_no_partial_state() {
    let world = World::new();
    let one = world.exchange_id(b"one", 1, 0).unwrap();
    *world.memory.full.lock() = true;
    assert_eq!(world.create_session(one.id, 1, 0), Err(StateError::Engine(Error::Busy)));
    *world.memory.full.lock() = false;
    let session = world.create_session(one.id, 1, 0).unwrap();
    let client = Arc::clone(&world.state.session(session).unwrap().client);
    *world.memory.full.lock() = true;
    let failed = world.open(&client, b"o", file(1), (3, 0)).map(drop);
    assert_eq!(failed, Err(StateError::Engine(Error::Busy)));
    *world.memory.full.lock() = false;
    assert_eq!(world.state.gauges().iter().find(|(name, _)| *name == "nfs4_opens").unwrap().1, 0);
    world.open(&client, b"o", file(1), (3, 0)).unwrap();
}

#[test]
fn an_idle_client_keeps_its_state_until_a_conflict() {
    let mut world = World::new();
    let (one, session) = world.client(b"one", 1, 0);
    let opened = world.open(&one, b"o", file(1), (3, 2)).unwrap();
    world.pass(600);
    world.state.tick(&world.context());
    assert!(world.state.session(session).is_ok(), "courtesy");
    let (two, _) = world.client(b"two", 1, 0);
    world.open(&two, b"o", file(1), (2, 0)).unwrap();
    assert_eq!(world.state.session(session).err(), Some(StateError::UnknownSession));
    let gone = world.state.entry(Caller::Session(&one), opened.stateid.other);
    assert_eq!(gone.err(), Some(StateError::BadStateId));
    assert_eq!(world.memory.records.lock().len(), 3, "the other client, its session, its open");
}

/// It has had an open since before a restart, and no other client has come since.
#[test]
fn expired_v40_clients_get_expired_after_a_restart_too() {
    let mut world = World::new();
    let who = |name| Introduction { name, verifier: [1; 8], peer: user_at(0, 1) };
    let nowhere =
        || record::CallbackAddress { program: 0, netid: Box::default(), address: Box::default(), ident: 0 };
    let made = [&b"one"[..], b"two"].map(|name| {
        let (id, confirm) = world.state.set_client_id(&world.context(), &who(name), nowhere()).unwrap();
        world.state.confirm_client_id(&world.context(), id, confirm, &user_at(0, 1)).unwrap();
        id
    });
    let client = |world: &World, id| world.state.client(&world.context(), id, &user_at(0, 1));
    let opened = world.open(&client(&world, made[0]).unwrap(), b"o", file(1), (3, 2)).unwrap();
    world.restart();
    world.pass(100);
    let two = client(&world, made[1]).unwrap();
    world.open(&two, b"o", file(1), (3, 0)).unwrap();
    assert_eq!(client(&world, made[0]).err(), Some(StateError::Expired));
    let (caller, held) = (Caller::V40(user_at(0, 1)), (file(1), opened.stateid));
    let of_open = world.state.held(&world.context(), caller, held, stateids::HeldKind::Open);
    assert_eq!(of_open.err(), Some(StateError::Expired));
    let never = keys().client(1, 1);
    assert_eq!(client(&world, never).err(), Some(StateError::UnknownClient));
}

/// A host with very many addresses uses another one's name, and each introduction is made under the lock of all clients.
#[test]
fn introductions_look_at_a_bounded_number_of_namesakes() {
    let world = World::new();
    let introduce = |number: u32| {
        let address = IpAddr::from((10 << 24 | number).to_be_bytes());
        let peer = Peer { principal: Principal::User(number), address };
        let who = Introduction { name: b"a name", verifier: [1; 8], peer };
        let callback =
            CallbackAddress { program: 0, netid: Box::default(), address: Box::default(), ident: 0 };
        let (id, confirm) = world.state.set_client_id(&world.context(), &who, callback).unwrap();
        world.state.confirm_client_id(&world.context(), id, confirm, &peer).unwrap();
        id
    };
    let looked_at = || world.state.clients.looked_at();
    let ids: Vec<_> = (0..1000).map(introduce).collect();
    let before = looked_at();
    assert_ne!(introduce(5000), ids[0]);
    let others = looked_at() - before;
    assert!((1..=2 * NAMESAKES_MAX).contains(&others), "{others}");
    assert_eq!(introduce(999), ids[999], "whoever comes from its own address is known");
    assert_eq!(looked_at() - before, others + 1, "at nobody else");
}

/// One origin has tried too many verifiers, so each of its addresses makes another client of the same name, verifier and principal.
#[test]
fn introductions_look_at_a_bounded_number_of_clients_that_are_introduced_alike() {
    let world = World::new();
    let introduce = |number: u16, verifier: u8| {
        let address = IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, number]);
        let peer = Peer { principal: Principal::User(0), address };
        let who = Introduction { name: b"a name", verifier: [verifier; 8], peer };
        let callback =
            CallbackAddress { program: 0, netid: Box::default(), address: Box::default(), ident: 0 };
        let (id, confirm) = world.state.set_client_id(&world.context(), &who, callback).unwrap();
        world.state.confirm_client_id(&world.context(), id, confirm, &peer).unwrap();
        id
    };
    for wrong in 0..=u8::try_from(WRONG_VERIFIERS_MAX).unwrap() {
        introduce(wrong.into(), wrong);
    }
    let alike: Vec<_> = (100..800).map(|number| introduce(number, 200)).collect();
    assert_ne!(alike[0], alike[1]);
    let before = world.state.clients.looked_at();
    introduce(900, 200);
    let looked_at = world.state.clients.looked_at() - before;
    assert!(looked_at <= 3 * NAMESAKES_MAX, "{looked_at}");
}

/// Hosts with lower addresses have the same name, more than are looked at.
#[test]
fn a_client_is_known_at_its_further_addresses_however_many_others_have_its_name() {
    let world = World::new();
    let nowhere = || CallbackAddress { program: 0, netid: Box::default(), address: Box::default(), ident: 0 };
    let introduce = |address: [u8; 4], verifier: u8| {
        let peer = Peer { principal: Principal::User(0), address: IpAddr::from(address) };
        let who = Introduction { name: b"a name", verifier: [verifier; 8], peer };
        let (id, confirm) = world.state.set_client_id(&world.context(), &who, nowhere()).unwrap();
        world.state.confirm_client_id(&world.context(), id, confirm, &peer).unwrap();
        id
    };
    let client = introduce([192, 0, 2, 1], 7);
    assert_eq!(introduce([192, 0, 2, 2], 7), client, "it has two addresses");
    for number in 0..=u16::try_from(NAMESAKES_MAX).unwrap() {
        let [high, low] = number.to_be_bytes();
        assert_ne!(introduce([10, 0, high, low], 8), client);
    }
    assert_eq!(introduce([192, 0, 2, 2], 7), client);
    assert_eq!(introduce([192, 0, 2, 3], 7), client, "it moves once more");
    let restarted = introduce([192, 0, 2, 2], 9);
    assert_ne!(restarted, client);
    let old = world.state.client(&world.context(), client, &user_at(0, 1));
    assert!(old.is_err(), "it restarted, whatever address it says so from");
}

/// A name is no secret, and most of a verifier can be known.
#[test]
fn verifiers_of_clients_elsewhere_can_be_tried_a_few_times_a_minute() {
    let mut world = World::new();
    let peer = |host| Peer { principal: Principal::User(0), address: IpAddr::from([192, 0, 2, host]) };
    let introduce = |world: &World, host: u8, verifier: u32| {
        let verifier = u64::from(verifier).to_be_bytes();
        let who = Introduction { name: b"a name", verifier, peer: peer(host) };
        let callback =
            CallbackAddress { program: 0, netid: Box::default(), address: Box::default(), ident: 0 };
        world.state.set_client_id(&world.context(), &who, callback).unwrap()
    };
    let (client, confirm) = introduce(&world, 1, 7);
    world.state.confirm_client_id(&world.context(), client, confirm, &peer(1)).unwrap();
    for wrong in 0..WRONG_VERIFIERS_MAX {
        assert_eq!(introduce(&world, 2, 7).0, client, "{wrong} were tried");
        assert_ne!(introduce(&world, 2, 100 + wrong).0, client);
    }
    assert_ne!(introduce(&world, 2, 7).0, client, "too many were tried");
    assert_eq!(introduce(&world, 3, 7).0, client, "from another host");
    assert_eq!(introduce(&world, 1, 7).0, client, "from its own address");
    world.pass(WINDOW.as_secs() + 1);
    assert_eq!(introduce(&world, 2, 7).0, client, "later");
}
