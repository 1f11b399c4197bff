//! Hosts of NLM, and the calls that grant their locks, share what there is for them.

use super::*;

/// A host's name with a lock of its own.
pub(super) fn locking_host(world: &World, from: IpAddr, name: &[u8]) -> Result<(), StateError> {
    let client = host(world, from, name)?;
    let ino = u64::from_be_bytes([&[1, 0][..], &client.id.0.to_be_bytes()[2..]].concat().try_into().unwrap());
    let requester = hosts::Requester { client: &client, file: file(ino), owner: b"\0\0\0\x01owner" };
    let wanted = LockRequest { range: WHOLE, kind: LockKind::Write, waits: false };
    match world.state.lock_for_host(&world.context(), requester, &wanted, false) {
        Ok(_) => Ok(()),
        Err(LockError::Failed(error)) => Err(error),
        Err(LockError::Denied(denied)) => panic!("{denied:?}"),
    }
}

#[test]
fn names_of_nlm_hosts_do_not_exclude_others_even_after_restarts() {
    let mut world = world();
    for from in 0..4 {
        let (names, _) = greedily(5000, |number| locking_host(&world, address(from), &name(number)));
        assert!(names >= 20, "{names}");
    }
    for other in 10..15 {
        locking_host(&world, address(other), b"newcomer").unwrap();
    }
    world.restart();
    for other in 20..25 {
        locking_host(&world, address(other), b"newcomer").unwrap();
        user_of(&world, address(other), b"newcomer").unwrap();
    }
    let (names, _) = greedily(5000, |number| locking_host(&world, address(1), &name(5000 + number)));
    assert!(names < 20, "the names from before the restart count: {names}");
}

/// Fills the table with names of hosts that hold locks, which never expire. Returns their addresses.
fn crowd_of_hosts(world: &World) -> Vec<IpAddr> {
    let crowd: Vec<IpAddr> =
        (0..5000).map(address).take_while(|from| locking_host(world, *from, b"host").is_ok()).collect();
    assert_eq!(crowd.len(), world.state.config().clients);
    crowd
}

/// Lets a lease pass, in which hosts that are asked whether they are there do what `answers` says.
fn ask_for_a_lease(world: &mut World, answers: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let mut asked = Vec::new();
    for _ in 0..100 {
        world.pass(1);
        world.state.tick(&world.context());
        for call in world.state.take_callbacks() {
            let Destination::Program { host, .. } = call.to else { panic!("{:?}", call.to) };
            // After the mark of the record: the xid, CALL, version 2 of RPC, then what is called.
            let called: Vec<u32> = call.record[16..28]
                .chunks(4)
                .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
                .collect();
            assert_eq!(called, [nlm4::PROGRAM, nlm4::VERSION, nlm4::Procedure::Null.code()]);
            asked.push(host);
            if answers(host) {
                accept(world, &call);
            } else {
                world.state.callback_failed(&world.context(), call.id);
            }
        }
    }
    asked
}

/// Two hosts whose owners lock ranges of one file, and wait for each other.
struct Pair {
    world: World,
    hosts: [Arc<Client>; 2],
}

impl Pair {
    fn new(config: Config) -> Pair {
        let world = World::with(config);
        let hosts = [0, 1].map(|number| host(&world, address(number), b"host").unwrap());
        Pair { world, hosts }
    }

    fn requester(&self, number: usize) -> hosts::Requester<'_> {
        hosts::Requester { client: &self.hosts[number], file: file(1), owner: b"\0\0\0\x01o" }
    }

    fn lock(&self, number: usize, range: Range) -> Result<DurabilityToken, LockError> {
        let wanted = LockRequest { range, kind: LockKind::Write, waits: true };
        self.world.state.lock_for_host(&self.world.context(), self.requester(number), &wanted, false)
    }

    /// Returns whether a lock is free, which is taken then.
    fn try_lock(&self, number: usize, range: Range) -> bool {
        let wanted = LockRequest { range, kind: LockKind::Write, waits: false };
        // A host that holds nothing is forgotten after some time.
        let client = &host(&self.world, self.hosts[number].address, b"host").unwrap();
        let requester = hosts::Requester { client, ..self.requester(number) };
        match self.world.state.lock_for_host(&self.world.context(), requester, &wanted, false) {
            Ok(_) => true,
            Err(LockError::Denied(_)) => false,
            Err(LockError::Failed(error)) => panic!("{error:?}"),
        }
    }

    /// Lets leases pass in which there is no room to call hosts.
    fn call_nobody_for(&mut self, leases: u64) {
        for _ in 0..leases * self.world.state.config().lease.as_secs() {
            self.world.pass(1);
            self.world.state.tick(&self.world.context());
            for call in self.world.state.take_callbacks() {
                self.world.state.callback_not_sent(&self.world.context(), call.id);
            }
        }
    }

    fn unlock(&self, number: usize, range: Range) {
        self.world.state.unlock_for_host(&self.world.context(), self.requester(number), range).unwrap();
    }

    /// Grants what can be granted. The hosts accept it.
    fn deliver(&self) {
        self.world.state.tick(&self.world.context());
        self.world.state.take_callbacks().iter().for_each(|call| accept(&self.world, call));
    }
}

fn assert_waits(locked: Result<DurabilityToken, LockError>, turn: u64) {
    match locked {
        Err(LockError::Denied(denied)) => assert!(denied.waits, "turn {turn}"),
        other => panic!("turn {turn}: {other:?}"),
    }
}

/// Two hosts that take turns with a lock may do so as often as they like.
#[test]
fn grants_of_locks_that_were_unlocked_take_no_places() {
    let pair = Pair::new(Config { waiters: 8, ..Config::default() });
    pair.lock(0, WHOLE).unwrap();
    for turn in 0..100 {
        let (holder, waiter) = (turn % 2, (turn + 1) % 2);
        assert_waits(pair.lock(waiter, WHOLE), turn as u64);
        pair.unlock(holder, WHOLE);
        pair.lock(waiter, WHOLE).expect("it was granted");
        pair.deliver();
    }
    assert!(gauge(&pair.world, "nfs4_lock_waiters") <= 1);
}

/// A host that waited for many locks one after the other, and holds them, may wait for another one.
#[test]
fn grants_that_were_delivered_take_no_places() {
    let pair = Pair::new(Config { waiters: 8, ..Config::default() });
    for turn in 0..100 {
        pair.lock(0, byte(turn)).unwrap();
        assert_waits(pair.lock(1, byte(turn)), turn);
        pair.unlock(0, byte(turn));
        if turn % 2 == 0 {
            pair.deliver();
        } else {
            pair.lock(1, byte(turn)).expect("it was granted, and asks before it is called");
        }
        assert_eq!(gauge(&pair.world, "nfs4_lock_waiters"), 0, "turn {turn}");
    }
    // Until a lease later, the host may have meant to cancel.
    let cancelled = pair.world.state.cancel(&pair.world.context(), pair.requester(1), byte(99)).unwrap();
    assert!(cancelled.0);
    pair.lock(0, byte(99)).unwrap();
}

#[test]
fn grants_are_remembered_for_a_lease_after_their_owners_heard_of_them() {
    let mut pair = Pair::new(Config::default());
    for place in 0..3 {
        pair.lock(0, byte(place)).unwrap();
        let _waits = pair.lock(1, byte(place)).unwrap_err();
        pair.unlock(0, byte(place));
    }
    let world = &mut pair.world;
    world.state.tick(&world.context());
    let calls = world.state.take_callbacks();
    assert_eq!(calls.len(), 3);
    for call in &calls {
        world.pass(10);
        accept(world, call);
    }
    // The last answer came just now, the first one 20 seconds ago.
    for (seconds, remembered) in [(39, 3), (2, 2), (10, 1), (10, 0)] {
        world.pass(seconds);
        world.state.tick(&world.context());
        assert_eq!(world.state.hosts.grants.len(), remembered);
    }
}

/// They do not know of them, and would lose their places.
#[test]
fn locks_of_waiters_that_could_not_be_called_are_kept_but_not_for_ever() {
    for is_called_at_last in [true, false] {
        let mut pair = Pair::new(Config::default());
        pair.lock(0, WHOLE).unwrap();
        assert_waits(pair.lock(1, WHOLE), 0);
        pair.unlock(0, WHOLE);
        pair.call_nobody_for(3);
        assert!(!pair.try_lock(0, WHOLE), "it was granted to the other one");
        if is_called_at_last {
            pair.world.pass(5);
            pair.deliver();
        }
        pair.call_nobody_for(3);
        assert_eq!(pair.try_lock(0, WHOLE), !is_called_at_last);
    }
}

/// Otherwise each lock would take longer the more of them there are.
#[test]
fn few_grants_of_an_owner_in_a_file_are_remembered() {
    let mut pair = Pair::new(Config::default());
    for turn in 0..200 {
        pair.lock(0, byte(turn)).unwrap();
        assert_waits(pair.lock(1, byte(turn)), turn);
        pair.unlock(0, byte(turn));
        pair.deliver();
    }
    assert_eq!(pair.world.state.hosts.grants.len(), 64);
    pair.world.pass(61);
    pair.world.state.tick(&pair.world.context());
    assert_eq!(pair.world.state.hosts.grants.len(), 0);
}

/// They are remembered for a lease, as much of them as its share of memory allows.
#[test]
fn grants_that_were_delivered_are_bounded_by_memory() {
    let pair = Pair::new(Config { entries: 32, ..Config::default() });
    for turn in 0..200 {
        pair.lock(0, byte(turn)).unwrap();
        let _waits = pair.lock(1, byte(turn)).unwrap_err();
        pair.unlock(0, byte(turn));
        pair.deliver();
    }
    pair.world.state.tick(&pair.world.context());
    let remembered = pair.world.state.hosts.grants.len();
    assert!((10..60).contains(&remembered), "{remembered}");
}

#[test]
fn hosts_that_are_gone_give_way_once_clients_are_short() {
    let mut world = world();
    let crowd = crowd_of_hosts(&world);
    assert!(locking_host(&world, address(9000), b"newcomer").is_err());
    world.pass(61);
    let alive = crowd[3];
    let asked = ask_for_a_lease(&mut world, |host| host == alive);
    assert!(!asked.is_empty() && asked.len() < 64 * 25, "{} calls", asked.len());
    assert!(gauge(&world, "nlm_hosts_given_up") > 0);
    assert!(world.state.clients.at(alive).len() == 1, "it answered");
    locking_host(&world, address(9000), b"newcomer").unwrap();
    // The locks of hosts that gave way are free.
    assert_eq!(gauge(&world, "nfs4_locked_ranges"), gauge(&world, "nlm_hosts"));
}

#[test]
fn hosts_are_left_alone_while_there_is_room() {
    let mut world = world();
    for from in 0..20 {
        locking_host(&world, address(from), b"host").unwrap();
    }
    world.pass(24 * 3600);
    assert_eq!(ask_for_a_lease(&mut world, |_| false).len(), 0);
    assert_eq!(gauge(&world, "nlm_hosts"), 20);
}

/// Locks one range after the other for a host until it is refused one.
fn lock_greedily(world: &World, number: u32) {
    let client = host(world, address(number), b"greedy").unwrap();
    let requester =
        hosts::Requester { client: &client, file: file(number.into()), owner: b"\0\0\0\x01owner" };
    let refused = (0..10_000).find(|number| {
        let wanted = LockRequest { range: byte(*number), kind: LockKind::Write, waits: false };
        world.state.lock_for_host(&world.context(), requester, &wanted, false).is_err()
    });
    assert!(refused.is_some_and(|locks| locks > 60), "{refused:?}");
}

#[test]
fn hosts_that_hold_little_are_left_alone_while_others_are_greedy() {
    let mut world = World::with(Config { ranges: 8192, ..Config::default() });
    let quiet = address(9);
    locking_host(&world, quiet, b"quiet").unwrap();
    (0..2).for_each(|number| lock_greedily(&world, number));
    world.pass(61);
    let asked = ask_for_a_lease(&mut world, |_| false);
    assert!(asked.contains(&address(0)) && asked.contains(&address(1)));
    assert!(!asked.contains(&quiet));
    assert_eq!((gauge(&world, "nlm_hosts_given_up"), gauge(&world, "nlm_hosts")), (2, 1));
}

/// With little memory, a 64th of what is free is nothing.
#[test]
fn hosts_that_hold_little_are_left_alone_with_little_memory_too() {
    let mut world = World::with(Config { ranges: 440, ..Config::default() });
    let quiet = address(9);
    locking_host(&world, quiet, b"quiet").unwrap();
    (0..2).for_each(|number| lock_greedily(&world, number));
    world.pass(61);
    let asked = ask_for_a_lease(&mut world, |_| false);
    assert!(asked.contains(&address(0)) && !asked.contains(&quiet));
    assert_eq!((gauge(&world, "nlm_hosts_given_up"), gauge(&world, "nlm_hosts")), (2, 1));
}

#[test]
fn hosts_that_could_not_be_asked_keep_their_locks() {
    let mut world = world();
    crowd_of_hosts(&world);
    world.pass(61);
    for _ in 0..200 {
        world.pass(1);
        world.state.tick(&world.context());
        for call in world.state.take_callbacks() {
            world.state.callback_not_sent(&world.context(), call.id);
        }
    }
    assert_eq!((gauge(&world, "nlm_hosts_given_up"), gauge(&world, "nlm_hosts")), (0, 410));
    ask_for_a_lease(&mut world, |_| false);
    assert!(gauge(&world, "nlm_hosts_given_up") > 0, "they are asked again once there is room");
}

#[test]
fn hosts_that_answer_or_call_meanwhile_keep_their_locks() {
    let mut world = world();
    crowd_of_hosts(&world);
    world.pass(61);
    ask_for_a_lease(&mut world, |_| true);
    assert_eq!((gauge(&world, "nlm_hosts_given_up"), gauge(&world, "nlm_hosts")), (0, 410));
}
