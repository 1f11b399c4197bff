//! Newcomers find room while others make clients and sessions all the time, and cost nobody anything that matters.

use super::*;

/// Memory of a session with one slot that keeps a reply of 8 KiB.
const SESSION_BYTES: u64 = sessions::SESSION_BYTES + sessions::SLOT_BYTES + 8192;

/// Fills the memory of first sessions with clients of many hosts, `each` of every host. None of them holds anything.
fn crowd(world: &World, each: u32) -> Vec<(Arc<Client>, SessionId)> {
    let mut all = Vec::new();
    for from in 1..5000 {
        for number in 0..each {
            if world.state.shares.free(Resource::SessionBytes) < SESSION_BYTES {
                return all;
            }
            all.extend(client_at(world, address(from), &name(number)).ok());
        }
    }
    panic!("always room")
}

/// When many addresses together take all, those that hold nothing give way, the idlest first.
#[test]
fn clients_that_hold_nothing_give_way() {
    let mut world = world();
    let user = user_of(&world, address(0), b"user").unwrap();
    let all = world.state.config().clients;
    let crowd = crowd(&world, 1);
    assert!(crowd.len() > all / 4, "{} of {all}", crowd.len());
    world.pass(6);
    user.renew(world.now);
    crowd.iter().skip(1).for_each(|(client, _)| client.renew(world.now));
    client_at(&world, address(5000), b"newcomer").unwrap();
    assert!(user_of(&world, address(0), b"user").is_ok());
    assert!(world.state.session(crowd[0].1).is_err(), "the idlest gave way");
    assert!(world.state.session(crowd[1].1).is_ok(), "one was enough");
}

/// A client that destroyed its session and needs another one is not the one that gives way to itself.
#[test]
fn clients_that_hold_nothing_give_way_to_another_session() {
    let mut world = world();
    let (client, session) = client_at(&world, address(0), b"client").unwrap();
    world.state.destroy_session(&world.context(), session, &at(address(0))).unwrap();
    let crowd = crowd(&world, 1);
    let create_again = |world: &World| {
        let again = Exchanged { id: client.id, sequence: 2, confirmed: true };
        create(world, again, at(address(0)))
    };
    world.pass(6);
    crowd.iter().skip(1).for_each(|(client, _)| client.renew(world.now));
    create_again(&world).unwrap();
    assert!(world.state.session(crowd[0].1).is_err(), "the idlest gave way");
}

/// Lets clients send a request each.
fn renew(world: &World, clients: &[(Arc<Client>, SessionId)]) {
    clients.iter().for_each(|(client, _)| client.renew(world.now));
}

fn is_served(world: &World, session: SessionId) -> bool {
    world.state.session(session).is_ok()
}

#[test]
fn newcomers_wait_for_none_of_many_hosts_that_are_never_silent() {
    for each in [1, 2] {
        let mut world = world();
        let crowd = crowd(&world, each);
        for newcomer in 5000..5040 {
            world.state.clients.all().iter().for_each(|client| client.renew(world.now));
            user_of(&world, address(newcomer), b"newcomer").unwrap();
            // Those that gave way want another one at once.
            for from in 1..=u32::try_from(crowd.len()).unwrap() {
                let _refused = client_at(&world, address(from), &name(newcomer));
            }
            world.pass(1);
        }
        for newcomer in 5000..5040 {
            let is_its = |client: &&Arc<Client>| client.holder.origin() == address(newcomer);
            assert_eq!(world.state.clients.all().iter().filter(is_its).count(), 1, "{newcomer}");
        }
    }
}

/// As when it restarts while many others hold one session each.
#[test]
fn a_host_that_leaves_and_returns_is_served_within_five_seconds() {
    let mut world = world();
    let crowd = crowd(&world, 1);
    let (client, session) = client_at(&world, address(9000), b"host").unwrap();
    assert!(is_served(&world, session));
    world.state.remove_client(&world.context(), &client).unwrap();
    client_at(&world, address(9001), b"another").unwrap();
    assert!(client_at(&world, address(9000), b"host").is_err(), "it has just displaced another one");
    world.pass(5);
    renew(&world, &crowd);
    assert!(client_at(&world, address(9000), b"host").is_ok());
}

/// A host that has as much as others has them give way neither to get more nor, by coming again and again, to get the same.
#[test]
fn idle_clients_of_hosts_that_hold_little_are_left_alone() {
    let mut world = world();
    let idle = client_at(&world, address(0), b"idle").unwrap().1;
    world.pass(3600);
    world.state.session(idle).unwrap().client.renew(world.now);
    let crowd = crowd(&world, 1);
    for turn in 0..40 {
        world.pass(1);
        renew(&world, &crowd);
        for from in 1..=u32::try_from(crowd.len()).unwrap() + 5 {
            let _refused = client_at(&world, address(from), &name(turn));
        }
        assert!(is_served(&world, idle), "turn {turn}");
    }
}

/// All others hold something, so nobody would give way to it if it came back.
#[test]
fn an_established_host_keeps_its_least_whoever_comes() {
    let mut world = world();
    let (idle, session) = client_at(&world, address(0), b"idle").unwrap();
    world.pass(61);
    idle.renew(world.now);
    let mut users = Vec::new();
    for from in 1..5000 {
        let both = [1, 2].map(|number| user_of(&world, address(from), &name(number)).ok());
        users.extend(both.into_iter().flatten());
    }
    for from in 5000..5100 {
        users.iter().for_each(|client| client.renew(world.now));
        let _refused = client_at(&world, address(from), b"newcomer");
        assert!(is_served(&world, session), "{from}");
        world.pass(1);
        idle.renew(world.now);
    }
    world.pass(61);
    users.iter().for_each(|client| client.renew(world.now));
    assert!(user_of(&world, address(6000), b"newcomer").is_ok(), "its lease is over");
}

/// What is reserved for others is free all the time.
#[test]
fn clients_whose_leases_are_over_give_way_to_whoever_needs_what_is_not_reserved() {
    let mut world = world();
    let users = |world: &World, from: u32, most: u32| -> Vec<_> {
        (0..most).map_while(|number| user_of(world, address(from), &name(number)).ok()).collect()
    };
    assert_eq!(users(&world, 1, 3).len(), 3, "whose leases will be over");
    let mut busy = users(&world, 2, 3);
    (3..15).for_each(|greedy| busy.extend(users(&world, greedy, 5000)));
    world.pass(61);
    busy.iter().for_each(|client| client.renew(world.now));
    user_of(&world, address(2), b"another").unwrap();
}

/// Otherwise newcomers would have to displace them, one after another, for a day.
#[test]
fn clients_whose_leases_are_over_leave_when_there_is_little_room_for_others() {
    let mut world = world();
    let is_short = |world: &World| {
        [Resource::Clients, Resource::SessionBytes].iter().any(|of| world.state.shares.is_short(*of))
    };
    let mut all = Vec::new();
    for from in 1..5000 {
        if !is_short(&world) {
            all.push(user_of(&world, address(from), b"user").unwrap());
        }
    }
    assert!(is_short(&world), "though nobody was refused");
    world.pass(61);
    all[0].renew(world.now);
    for _ in 0..20 {
        world.pass(1);
        world.state.tick(&world.context());
    }
    assert!(!all[0].is_gone() && all[1..].iter().all(|client| client.is_gone()) && !is_short(&world));
}

#[test]
fn the_greediest_origin_gives_way_first() {
    let mut world = world();
    let (modest, session) = client_at(&world, address(9000), b"modest").unwrap();
    let mut crowd = crowd(&world, 20);
    crowd.retain(|(_, session)| is_served(&world, *session));
    world.pass(2);
    renew(&world, &crowd);
    let second = client_at(&world, address(9000), b"second");
    assert!(second.is_ok() && is_served(&world, session), "though it is the idlest");
    assert!(!modest.is_gone());
    assert_eq!(crowd.iter().filter(|(_, session)| !is_served(&world, *session)).count(), 1);
}

#[test]
fn hosts_that_wait_for_a_lock_keep_their_place_in_the_queue() {
    let mut world = world();
    let holder = user_of(&world, address(0), b"holder").unwrap();
    lock(&world, &holder, (file(7), WHOLE), false).unwrap();
    let waiting = host(&world, address(1), b"waiting").unwrap();
    let requester = hosts::Requester { client: &waiting, file: file(7), owner: b"\0\0\0\x01owner" };
    let wanted = LockRequest { range: WHOLE, kind: LockKind::Write, waits: true };
    let denied = world.state.lock_for_host(&world.context(), requester, &wanted, false);
    assert!(matches!(denied, Err(LockError::Denied(denied)) if denied.waits));
    world.pass(50);
    holder.renew(world.now);
    for from in 2..2000 {
        let _refused = host(&world, address(from), b"one of many");
    }
    assert!(!waiting.is_gone());
}
