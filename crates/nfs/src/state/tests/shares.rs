//! Whoever asks for little is served, whatever others have taken.

use std::sync::atomic::Ordering;

use wire::nlm4;
use wire::record::MARK_BYTES;
use wire::rpc::{AcceptStat, ReplyHeader, decode_call};
use wire::xdr::{Encode as _, Encoder, decode_all};

use super::*;
use crate::state::callbacks::outgoing::{Callback, Destination};
use crate::state::clients::client::Host;
use crate::state::delegations::{Delegated, DelegationWant};
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::{LockError, LockRequest, Locker};
use crate::state::shares::Held;

mod newcomers;
mod nlm_hosts;

/// The state of clients with `memory` = 256 MiB.
const STATE_BYTES: u64 = 16 << 20;

fn world() -> World {
    World::with(Config::default().bound(STATE_BYTES))
}

fn gauge(world: &World, name: &str) -> u64 {
    world.state.gauges().iter().find(|(known, _)| *known == name).unwrap().1
}

pub(super) fn address(number: u32) -> IpAddr {
    IpAddr::from((0x0a00_0000 + number).to_be_bytes())
}

/// An address of one IPv6 network.
fn neighbour(number: u128) -> IpAddr {
    IpAddr::from((0x2001_0db8_0000_0001_u128 << 64 | number).to_be_bytes())
}

fn at(address: IpAddr) -> Peer {
    Peer { principal: Principal::User(0), address }
}

fn name(number: u32) -> Vec<u8> {
    format!("client {number}").into()
}

/// A verifier that no client at another address has.
fn verifier(address: IpAddr) -> [u8; 8] {
    *record::address_bytes(address).last_chunk().unwrap()
}

/// Asks for a session with many slots.
pub(super) fn create(
    world: &World,
    exchanged: Exchanged,
    peer: Peer,
) -> Result<(Arc<Client>, SessionId), StateError> {
    let channel = Channel {
        request_bytes: 1 << 20,
        reply_bytes: 1 << 20,
        cached_bytes: 8192,
        operations: 8,
        slots: 64,
    };
    let wanted = CreateSession {
        client: exchanged.id,
        sequence: exchanged.sequence,
        peer,
        flags: 2,
        channels: Channels { fore: channel, back: channel },
        program: 0x4000_0000,
        security: CallbackSecurity::None,
        connection: ConnectionId(exchanged.id.0),
    };
    let (session, _) = world.state.create_session(&world.context(), &wanted)?;
    let client = Arc::clone(&session.client);
    let _ = world.state.reclaim_complete(&world.context(), &client);
    Ok((client, session.id))
}

fn introduce(world: &World, peer: Peer, name: &[u8]) -> Result<Exchanged, StateError> {
    let who = Introduction { name, verifier: verifier(peer.address), peer };
    world.state.exchange_id(&world.context(), &who, 1, false)
}

pub(super) fn client_at(
    world: &World,
    from: IpAddr,
    name: &[u8],
) -> Result<(Arc<Client>, SessionId), StateError> {
    create(world, introduce(world, at(from), name)?, at(from))
}

fn client_of_minor_2(world: &World, from: IpAddr, name: &[u8]) -> Arc<Client> {
    let who = Introduction { name, verifier: verifier(from), peer: at(from) };
    let exchanged = world.state.exchange_id(&world.context(), &who, 2, false).unwrap();
    create(world, exchanged, at(from)).unwrap().0
}

/// A client that holds something, so that it need not give way.
fn user_of(world: &World, from: IpAddr, name: &[u8]) -> Result<Arc<Client>, StateError> {
    let (client, _) = client_at(world, from, name)?;
    open(world, &client, b"o", file(1))?;
    Ok(client)
}

/// Opens a file as OPEN does.
fn open(
    world: &World,
    client: &Arc<Client>,
    owner: &[u8],
    file: FileId,
) -> Result<files::Opened, StateError> {
    world.state.check_room(client, None)?;
    world.open(client, owner, file, (1, 0))
}

/// Repeats something that takes room until it is refused. Returns how often it succeeded.
fn greedily<T>(most: u32, mut take: impl FnMut(u32) -> Result<T, StateError>) -> (u32, Vec<T>) {
    let mut taken = Vec::new();
    for number in 0..most {
        match take(number) {
            Ok(one) => taken.push(one),
            Err(StateError::TryLater | StateError::LimitReached | StateError::TooManySessions) => {
                return (number, taken);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("never refused")
}

/// Answers a call to a host: a grant as NLM4_GRANTED, others without a result.
fn accept(world: &World, call: &Callback) {
    let (header, args) = decode_call(&call.record[MARK_BYTES..]).unwrap();
    let mut reply = Vec::new();
    let mut out = Encoder::new(&mut reply);
    ReplyHeader::accepted(header.xid, AcceptStat::Success).encode(&mut out);
    if header.program == nlm4::PROGRAM && header.procedure == nlm4::Procedure::Granted.code() {
        let granted: nlm4::TestArgs<'_> = decode_all(args.rest()).unwrap();
        nlm4::Res { cookie: granted.cookie, stat: nlm4::Nlm4Stats::Granted }.encode(&mut out);
    }
    world.state.callback_answered(&world.context(), call.id, &reply);
}

pub(super) fn host(world: &World, from: IpAddr, name: &[u8]) -> Result<Arc<Client>, StateError> {
    let server = "192.0.2.254".parse().unwrap();
    world.state.host(&world.context(), (Host { address: from, server, state: 1 }, true), name)
}

#[test]
fn clients_of_one_address_do_not_exclude_others() {
    let world = world();
    let (taken, _) = greedily(5000, |number| user_of(&world, address(0), &name(number)));
    assert!(taken >= 100, "an address alone may have most of it: {taken}");
    for other in 1..40 {
        user_of(&world, address(other), b"other").unwrap_or_else(|error| panic!("{other}: {error:?}"));
    }
}

/// One after another, so each has three quarters of what the one before left.
#[test]
fn origins_that_take_all_they_get_one_after_another_leave_others_their_least() {
    let world = world();
    let mut all = Vec::new();
    for greedy in 0..20 {
        let (clients, held) = greedily(5000, |number| user_of(&world, address(greedy), &name(number)));
        assert!(clients >= 1, "{greedy}");
        let client = Arc::clone(&held[0]);
        let (_, opened) = greedily(100_000, |number| open(&world, &client, b"o", file(number.into())));
        let ranges = (0..100_000).take_while(|at| lock(&world, &client, (file(1), byte(*at)), false).is_ok());
        all.push((held, opened, ranges.count()));
    }
    for other in 1000..1010 {
        let client =
            user_of(&world, address(other), b"other").unwrap_or_else(|error| panic!("{other}: {error:?}"));
        (0..5).for_each(|number| drop(open(&world, &client, b"o", file(number)).unwrap()));
        lock(&world, &client, (file(2), byte(u64::from(other))), false).unwrap();
        nlm_hosts::locking_host(&world, address(other), b"nlm").unwrap();
    }
}

#[test]
fn clients_of_one_ipv6_network_do_not_exclude_others() {
    let world = world();
    let (taken, _) = greedily(5000, |number| user_of(&world, neighbour(number.into()), &name(number)));
    assert!(taken >= 100, "{taken}");
    for other in 1..40 {
        user_of(&world, address(other), b"other").unwrap_or_else(|error| panic!("{other}: {error:?}"));
    }
}

#[test]
fn clients_without_sessions_count_no_slots() {
    // `memory` = 1 GiB.
    let world = World::with(Config::default().bound(64 << 20));
    let confirmed = (0..20_000).take_while(|number| {
        let who = Introduction { name: b"one", verifier: [0; 8], peer: at(address(*number)) };
        let callback =
            record::CallbackAddress { program: 0, netid: Box::default(), address: Box::default(), ident: 0 };
        let introduced = world.state.set_client_id(&world.context(), &who, callback);
        let (id, confirm) = introduced.unwrap();
        world.state.confirm_client_id(&world.context(), id, confirm, &who.peer).is_ok()
    });
    assert!(confirmed.count() > 1500, "clients of NFSv4.0 have no slots");
}

#[test]
fn a_flood_of_introductions_does_not_displace_those_of_others() {
    let world = world();
    let introduced = introduce(&world, at(address(1)), b"honest").unwrap();
    for number in 0..10_000 {
        let _refused = introduce(&world, at(address(2)), &name(number));
    }
    for number in 0..100 {
        let _refused = introduce(&world, at(address(100 + number)), b"one of many");
    }
    create(&world, introduced, at(address(1))).unwrap();
}

#[test]
fn sessions_of_one_address_leave_slots_for_others() {
    let world = world();
    for number in 0..5000 {
        let Ok((client, _)) = client_at(&world, address(0), &name(number)) else { break };
        for sequence in 2..100 {
            let again = Exchanged { id: client.id, sequence, confirmed: true };
            if create(&world, again, at(address(0))).is_err() {
                break;
            }
        }
    }
    for other in 1..20 {
        let (client, session) = client_at(&world, address(other), b"other").unwrap();
        let slots = world.state.session(session).unwrap().fore.slots;
        assert!(other > 1 || slots >= 2, "{slots} slots for the first of others");
        open(&world, &client, b"o", file(1)).unwrap();
    }
    assert!(gauge(&world, "nfs4_slot_bytes") <= world.state.config().slot_bytes);
}

/// Each of them holds hardly anything when it comes.
#[test]
fn many_clients_of_one_address_leave_room_for_others() {
    let world = World::with(Config::default().bound(48 << 20));
    let mut held = Vec::new();
    for number in 0..5000 {
        let Ok((client, _)) = client_at(&world, address(0), &name(number)) else { break };
        held.push(greedily(100_000, |number| open(&world, &client, b"o", file(number.into()))));
    }
    assert!(held.len() > 100, "{}", held.len());
    let others = (1..100).filter(|other| client_at(&world, address(*other), b"other").is_ok()).count();
    assert!(others > 20, "{others} of 99");
    let (other, _) = client_at(&world, address(200), b"other").unwrap();
    let bound = world.state.config().bound_of(Resource::StateBytes);
    let room = other.holder.room(Resource::StateBytes);
    assert!(room > bound / 12, "{room} of {bound} for the first of others");
}

#[test]
fn opens_of_one_client_leave_room_for_others() {
    let world = world();
    let (greedy, _) = client_at(&world, address(0), b"greedy").unwrap();
    let (taken, _held) = greedily(100_000, |number| open(&world, &greedy, b"o", file(number.into())));
    assert!(taken >= 6_500, "{taken}");
    let (beside, _) = client_at(&world, address(0), b"beside").unwrap();
    let (other, _) = client_at(&world, address(1), b"other").unwrap();
    for number in 0..500 {
        if number < 50 {
            open(&world, &beside, b"o", file(number)).expect("another client of the same address");
        }
        open(&world, &other, b"o", file(number)).expect("a client of another address");
    }
}

#[test]
fn owners_of_one_client_leave_room_for_others() {
    let world = world();
    let (greedy, _) = client_at(&world, address(0), b"greedy").unwrap();
    let owner = |number: u32| [&number.to_be_bytes()[..], &[0; 1000]].concat();
    let (_, _held) = greedily(100_000, |number| {
        world.state.lock_owner(&greedy, &owner(number), || OwnerSequence::new(world.now))
    });
    let other = user_of(&world, address(1), b"other").unwrap();
    for number in 0..100 {
        open(&world, &other, &owner(number), file(number.into())).unwrap();
    }
}

fn lock(
    world: &World,
    client: &Arc<Client>,
    (file, range): (FileId, Range),
    waits: bool,
) -> Result<(), LockError> {
    let opened = world.open(client, b"o", file, (3, 0)).map_err(LockError::Failed)?;
    let owner = client.lock_owner(b"l", || OwnerSequence::new(world.now));
    let locker = Locker::New { open: &opened.entry, owner: &owner };
    let wanted = LockRequest { range, kind: LockKind::Write, waits };
    world.state.lock(&world.context(), locker, &wanted).map(drop)
}

const fn byte(number: u64) -> Range {
    Range { first: 2 * number, last: 2 * number }
}

const WHOLE: Range = Range { first: 0, last: u64::MAX };

#[test]
fn locks_of_one_client_leave_room_for_others() {
    let world = World::with(Config { ranges: 8192, ..Config::default() });
    let (greedy, _) = client_at(&world, address(0), b"greedy").unwrap();
    let taken = (0..8192).take_while(|number| lock(&world, &greedy, (file(1), byte(*number)), false).is_ok());
    assert!((4000..5000).contains(&taken.count()));
    let (beside, _) = client_at(&world, address(0), b"beside").unwrap();
    let (other, _) = client_at(&world, address(1), b"other").unwrap();
    for number in 0..20 {
        lock(&world, &beside, (file(2), byte(number)), false).unwrap();
        lock(&world, &other, (file(3), byte(number)), false).unwrap();
    }
}

/// Returns whether a client that is denied a lock got a place in the queue.
fn waits(world: &World, client: &Arc<Client>, file: FileId, range: Range) -> bool {
    match lock(world, client, (file, range), true) {
        Err(LockError::Denied(denied)) => denied.waits,
        other => panic!("{other:?}"),
    }
}

#[test]
fn waiters_of_one_client_leave_places_in_the_queue_to_others() {
    let world = world();
    let holder = client_at(&world, address(0), b"holder").unwrap().0;
    (1..20).for_each(|number| lock(&world, &holder, (file(number), WHOLE), false).unwrap());
    let greedy = client_at(&world, address(1), b"greedy").unwrap().0;
    let places = (0..2000).filter(|number| waits(&world, &greedy, file(1), byte(*number))).count();
    assert!(places >= 350, "{places}");
    let other = client_at(&world, address(2), b"other").unwrap().0;
    assert!(waits(&world, &other, file(1), byte(0)), "in the queue of the same file");
    for number in 2..20 {
        for place in 0..1000 {
            let _refused = waits(&world, &greedy, file(number), byte(place));
        }
    }
    assert!(gauge(&world, "nfs4_lock_waiters") <= world.state.config().waiters);
    assert!(waits(&world, &other, file(9), byte(0)), "in other queues");
}

fn delegated(world: &World, client: &Arc<Client>, file: FileId) -> bool {
    let opened = world.open(client, b"o", file, (1, 0)).unwrap();
    let (got, _) = world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false);
    matches!(got, Delegated::Read(_))
}

#[test]
fn delegations_of_one_client_leave_some_to_others() {
    let world = World::with(Config { delegations: 8192, ..Config::default() });
    let greedy = client_at(&world, address(0), b"greedy").unwrap().0;
    let taken = (0..8192).filter(|number| delegated(&world, &greedy, file(*number))).count();
    assert!((4000..5000).contains(&taken), "{taken}");
    let beside = client_at(&world, address(0), b"beside").unwrap().0;
    let other = client_at(&world, address(1), b"other").unwrap().0;
    for number in 10_000..10_020 {
        assert!(delegated(&world, &beside, file(number)) && delegated(&world, &other, file(number)));
    }
}

/// A host that hoards delegations and returns none delays others once, not once for each file or client.
#[test]
fn delegations_that_are_not_returned_are_all_recalled() {
    let mut world = world();
    let (hoarder, session) = client_at(&world, address(0), b"hoarder").unwrap();
    assert!((1..500).all(|number| delegated(&world, &hoarder, file(number))));
    let accomplice = client_at(&world, address(0), b"accomplice").unwrap().0;
    assert!((500..1000).all(|number| delegated(&world, &accomplice, file(number))));
    assert!(delegated(&world, &hoarder, file(0)));
    let writer = client_at(&world, address(1), b"writer").unwrap().0;
    let write = |world: &World, number| world.open(&writer, b"o", file(number), (2, 0)).map(drop);
    assert_eq!(write(&world, 0), Err(StateError::TryLater));
    for _ in 0..2 {
        world.pass(61);
        [&hoarder, &accomplice, &writer].iter().for_each(|client| client.renew(world.now));
        // In parts.
        while world.state.tick(&world.context()) < Duration::from_millis(10) {}
        assert_eq!(write(&world, 0), Ok(()));
    }
    assert!((1..1000).all(|number| write(&world, number) == Ok(())));
    let connection = (ConnectionId(7), &at(address(0)));
    world.state.bind_connection(&world.context(), session, connection, true).unwrap();
    assert!(!delegated(&world, &hoarder, file(5000)), "it is not trusted for a while");
    let alias = client_at(&world, address(0), b"hoarder under another name").unwrap().0;
    assert!(!delegated(&world, &alias, file(5000)), "nor is its host");
    // One of them may share its place with a file that was lost.
    assert!((5000..5010).any(|number| delegated(&world, &writer, file(number))));
    world.pass(601);
    assert!(delegated(&world, &hoarder, file(5001)));
}

#[test]
fn clients_that_were_cut_off_are_given_delegations_again() {
    let mut world = world();
    let (cut, session) = client_at(&world, address(0), b"cut").unwrap();
    assert!(delegated(&world, &cut, file(0)));
    let writer = client_at(&world, address(1), b"writer").unwrap().0;
    let write = |world: &World| world.open(&writer, b"o", file(0), (2, 0)).map(drop);
    assert_eq!(write(&world), Err(StateError::TryLater));
    world.pass(61);
    writer.renew(world.now);
    world.state.tick(&world.context());
    assert_eq!(write(&world), Ok(()));
    world.pass(5);
    cut.renew(world.now);
    let connection = (ConnectionId(7), &at(address(0)));
    world.state.bind_connection(&world.context(), session, connection, true).unwrap();
    assert!(delegated(&world, &cut, file(1)));
}

#[test]
fn calls_to_one_client_leave_room_for_others() {
    let world = World::with(Config { call_bytes: 256 << 10, ..Config::default() });
    let silent = client_at(&world, address(0), b"silent").unwrap().0;
    assert!((0..1000).all(|number| delegated(&world, &silent, file(number))));
    let other = client_at(&world, address(1), b"other").unwrap().0;
    assert!(delegated(&world, &other, file(5000)));
    let recall = |file| {
        world.state.recall_late(&world.context(), None, file);
        let calls = world.state.take_callbacks();
        let to = |client: &Arc<Client>| Destination::Connection(ConnectionId(client.id.0));
        calls.iter().any(|call| call.to == to(&other))
    };
    for number in 0..1000 {
        assert!(!recall(file(number)));
    }
    assert!(gauge(&world, "nfs4_call_bytes") <= 256 << 10, "{}", gauge(&world, "nfs4_call_bytes"));
    assert!(recall(file(5000)), "the other client is still called");
}

/// Not one search for each call that waits.
#[test]
fn an_answer_leads_to_few_searches_for_a_slot_however_many_calls_wait() {
    let world = World::new();
    let exchanged = introduce(&world, at(address(0)), b"one").unwrap();
    let sessions: Vec<_> = (0..64)
        .map(|number| {
            create(&world, Exchanged { sequence: 1 + number, ..exchanged }, at(address(0))).unwrap()
        })
        .collect();
    let client = &sessions[0].0;
    let calls = 64 * 16 + 1000;
    assert!((0..calls).all(|number| delegated(&world, client, file(number))));
    (0..calls).for_each(|number| world.state.recall_late(&world.context(), None, file(number)));
    let sent = world.state.take_callbacks();
    assert_eq!(sent.len(), 64 * 16);
    let searched = &world.state.callbacks.looked_at;
    assert!(searched.swap(0, Ordering::Relaxed) <= 65 * sent.len());
    let (header, _) = decode_call(&sent[0].record[MARK_BYTES..]).unwrap();
    let mut reply = Vec::new();
    let mut out = Encoder::new(&mut reply);
    ReplyHeader::accepted(header.xid, AcceptStat::Success).encode(&mut out);
    out.u32(0);
    world.state.reply(&world.context(), &reply, ConnectionId(client.id.0));
    assert_eq!(world.state.take_callbacks().len(), 1, "the next one");
    assert!(searched.load(Ordering::Relaxed) <= 2 * 64, "{searched:?}");
}

/// Returns whether a client is called, now that another one changes its file.
fn is_recalled(world: &World, client: &Client, of: FileId) -> bool {
    world.state.recall_late(&world.context(), None, of);
    let to_client = |call: &Callback| call.to == Destination::Connection(ConnectionId(client.id.0));
    world.state.take_callbacks().iter().any(to_client)
}

/// They wait for a lease, and would keep delegations from being recalled, which then would be revoked.
#[test]
fn grants_that_are_not_answered_leave_room_for_calls_to_others_and_are_all_called() {
    let mut world = World::with(Config { call_bytes: 256 << 10, ..Config::default() });
    let reader = client_at(&world, address(1), b"reader").unwrap().0;
    assert!(delegated(&world, &reader, file(5000)));
    let silent = host(&world, address(2), &[b's'; 1000]).unwrap();
    let holder = host(&world, address(3), b"holder").unwrap();
    let owner = [&[0, 0, 0, 1][..], &[b'o'; 1000]].concat();
    let locked = (0..200).filter(|number| {
        let ask = |client| hosts::Requester { client, file: file(*number), owner: &owner };
        let wanted = LockRequest { range: WHOLE, kind: LockKind::Write, waits: true };
        world.state.lock_for_host(&world.context(), ask(&holder), &wanted, false).unwrap();
        let _waits = world.state.lock_for_host(&world.context(), ask(&silent), &wanted, false).unwrap_err();
        world.state.unlock_for_host(&world.context(), ask(&holder), WHOLE).is_ok()
    });
    assert_eq!(locked.count(), 200);
    world.state.tick(&world.context());
    let mut calls = world.state.take_callbacks();
    assert!(calls.len() < 200 && gauge(&world, "nfs4_call_bytes") < 256 << 10, "{} calls", calls.len());
    assert!(is_recalled(&world, &reader, file(5000)));
    let mut called = 0;
    while called < 200 && world.now < Time::from_parts(1_700_000_050, 0) {
        called += calls.len();
        calls.iter().for_each(|call| accept(&world, call));
        world.pass(1);
        world.state.tick(&world.context());
        calls = world.state.take_callbacks();
    }
    assert_eq!(called, 200);
    assert_eq!(gauge(&world, "nfs4_lock_waiters"), 0);
}

#[test]
fn tests_of_callback_paths_leave_room_for_calls_to_others() {
    let world = World::with(Config { call_bytes: 256 << 10, ..Config::default() });
    let reader = client_at(&world, address(1), b"reader").unwrap().0;
    assert!(delegated(&world, &reader, file(5000)));
    for number in 0..500 {
        let who = Introduction { name: &name(number), verifier: [1; 8], peer: at(address(2)) };
        let callback = record::CallbackAddress {
            program: 0x4000_0000,
            netid: b"tcp"[..].into(),
            address: b"10.0.0.2.8.1"[..].into(),
            ident: 1,
        };
        let (id, confirm) = world.state.set_client_id(&world.context(), &who, callback).unwrap();
        world.state.confirm_client_id(&world.context(), id, confirm, &who.peer).unwrap();
    }
    assert!((10..250).contains(&world.state.take_callbacks().len()));
    assert!(is_recalled(&world, &reader, file(5000)));
}

/// A client whose delegations are recalled, and what takes the room to tell it.
struct Untold {
    world: World,
    reader: Arc<Client>,
    others: Held,
}

impl Untold {
    fn of(files: u64) -> Untold {
        let world = World::with(Config { call_bytes: 4 << 10, ..Config::default() });
        let reader = client_at(&world, address(1), b"reader").unwrap().0;
        assert!((1..=files).all(|number| delegated(&world, &reader, file(number))));
        let others = Held::new(&world.state.shares.holder(address(2)), Resource::CallBytes, 4 << 10);
        assert!((1..=files).all(|number| !is_recalled(&world, &reader, file(number))));
        Untold { world, reader, others }
    }
}

/// Lets seconds pass in which a client renews its lease.
fn pass_renewing(world: &mut World, client: &Client, seconds: u64) {
    for _ in 0..seconds {
        world.pass(1);
        client.renew(world.now);
        world.state.tick(&world.context());
    }
}

#[test]
fn delegations_whose_recall_had_no_room_are_not_revoked() {
    let Untold { mut world, reader, others } = Untold::of(1);
    pass_renewing(&mut world, &reader, 100);
    assert_eq!(gauge(&world, "nfs4_delegations_revoked"), 0);
    drop(others);
    pass_renewing(&mut world, &reader, 50);
    assert_eq!(world.state.take_callbacks().len(), 1, "it is recalled now");
    assert_eq!(gauge(&world, "nfs4_delegations_revoked"), 0, "it has a lease from the recall on");
    pass_renewing(&mut world, &reader, 20);
    assert_eq!(gauge(&world, "nfs4_delegations_revoked"), 1);
}

/// Others wait for the file.
#[test]
fn recalls_for_which_there_is_never_room_are_not_put_off_for_ever() {
    let Untold { mut world, reader, others: _others } = Untold::of(1);
    let lease = world.state.config().lease.as_secs();
    let mut revoked_after = 0;
    while gauge(&world, "nfs4_delegations_revoked") == 0 {
        pass_renewing(&mut world, &reader, 1);
        revoked_after += 1;
        assert!(revoked_after < 10 * lease);
    }
    assert!((4 * lease..6 * lease).contains(&revoked_after), "{revoked_after}");
}

#[test]
fn clients_for_which_there_is_no_room_are_not_tried_in_every_tick() {
    let Untold { mut world, reader, others } =
        Untold::of(3 * crate::state::delegations::recalls::PART as u64);
    world.pass(1);
    world.state.tick(&world.context());
    let pause = world.state.tick(&world.context());
    assert!(pause >= Duration::from_millis(100), "{pause:?}");
    drop(others);
    pass_renewing(&mut world, &reader, 1);
    assert!(!world.state.take_callbacks().is_empty(), "it is told a second later");
}

/// It may only read the file, and nothing that it locks conflicts with the others.
#[test]
fn one_host_leaves_others_room_to_lock_ranges_of_a_file() {
    let world = World::with(Config { ranges_per_file: 64, ..Config::default() });
    let client = |number: u32, name: &[u8]| client_at(&world, address(number), name).unwrap().0;
    let (greedy, beside) = (client(1, b"greedy"), client(1, b"beside"));
    let read = |client: &Arc<Client>, first: u64| {
        let opened = world.open(client, b"o", file(1), (1, 0)).map_err(LockError::Failed)?;
        let owner = client.lock_owner(b"l", || OwnerSequence::new(world.now));
        let locker = Locker::New { open: &opened.entry, owner: &owner };
        let wanted = LockRequest { range: byte(first), kind: LockKind::Read, waits: false };
        world.state.lock(&world.context(), locker, &wanted).map(drop)
    };
    let locked = (0..100).filter(|number| read(&greedy, 2 * number).is_ok()).count();
    assert_eq!(locked, 37, "its least, and three quarters of what is not reserved");
    assert!(read(&beside, 201).is_err(), "an address can have any number of clients");
    (2..6).for_each(|number| read(&client(number, b"modest"), 1000).unwrap());
    assert!(read(&greedy, 0).is_ok(), "what it has locked it may lock again");
}

/// With the least memory, and a greedy client at the same address; other addresses are served too.
#[test]
fn clients_get_a_little_though_their_origin_has_its_share() {
    let world = World::with(Config::default().bound(4 << 20));
    let greedy = client_at(&world, address(0), b"greedy").unwrap().0;
    let beside = client_at(&world, address(0), b"beside").unwrap().0;
    let last = client_at(&world, address(0), b"last").unwrap().0;
    let other = client_at(&world, address(1), b"other").unwrap().0;
    let (_, _opens) = greedily(100_000, |number| open(&world, &greedy, b"o", file(number.into())));
    (0..100_000).take_while(|number| lock(&world, &greedy, (file(1), byte(*number)), false).is_ok()).count();
    for number in 1..200 {
        (0..300).for_each(|place| drop(lock(&world, &beside, (file(1), byte(place)), true)));
        let more: Vec<_> = (0..3).map(|_| client_at(&world, address(0), &name(number))).collect();
        for (client, _) in more.into_iter().flatten() {
            let _refused = lock(&world, &client, (file(1), byte(1)), true);
        }
    }
    for client in [&last, &other] {
        open(&world, client, b"o", file(2)).unwrap();
        lock(&world, client, (file(3), byte(u64::from(client.address == address(1)))), false).unwrap();
    }
}

fn begin_copy(world: &World, client: &Arc<Client>) -> Option<ids::StateId> {
    let side = copies::CopySide { file: file(1), stateid: ids::StateId::ANONYMOUS, offset: 0 };
    let credentials = volume::request::Credentials { uid: 0, gid: 0, groups: Vec::new() };
    let (peer, export) =
        (std::net::SocketAddr::new(client.address, 1), crate::exports::Export::new("/", VOLUME));
    let rules = [export.clone(), export];
    let order = copies::CopyRequest { from: side, to: side, count: 100, credentials, peer, rules };
    let begun = world.state.begin_copy(&world.context(), client, order, (0, Durability::NOW)).unwrap();
    begun.map(|(stateid, _)| stateid)
}

/// Their numbers have 32 bits, and state can be held for as long as its client likes.
#[test]
fn stateids_of_what_exists_are_not_given_again_when_their_numbers_wrap_around() {
    let world = world();
    let client = client_of_minor_2(&world, address(0), b"one");
    client.set_next_number(u32::MAX - 1);
    let mut given = vec![begin_copy(&world, &client).unwrap().other];
    for ino in 0..4 {
        given.push(open(&world, &client, b"o", file(10 + ino)).unwrap().stateid.other);
    }
    client.set_next_number(u32::MAX - 1);
    for ino in 0..4 {
        given.push(open(&world, &client, b"o", file(20 + ino)).unwrap().stateid.other);
    }
    let different: std::collections::BTreeSet<_> = given.iter().collect();
    assert_eq!(different.len(), given.len());
}

#[test]
fn copies_of_one_address_leave_some_to_others() {
    let world = world();
    let copies = |client: &Arc<Client>| begin_copy(&world, client).is_some();
    let greedy: Vec<_> = (0..8).map(|number| client_of_minor_2(&world, address(0), &name(number))).collect();
    let taken: usize = greedy.iter().map(|client| (0..20).filter(|_| copies(client)).count()).sum();
    assert_eq!(taken, 37 + 5, "the last five get one each");
    let other = client_of_minor_2(&world, address(1), b"other");
    assert!((0..3).all(|_| copies(&other)));
}

#[test]
fn connections_of_a_backchannel_are_bounded() {
    let world = world();
    let (client, session) = client_at(&world, address(0), b"one").unwrap();
    for number in 0..1000 {
        let connection = (ConnectionId(number), &at(address(0)));
        world.state.bind_connection(&world.context(), session, connection, true).unwrap();
    }
    assert_eq!(client.back_connections.load(std::sync::atomic::Ordering::Relaxed), 16);
    let bound = |number| {
        let connection = ConnectionId(number);
        world.state.bound.read(&connection).get(&connection).map_or(0, Vec::len)
    };
    assert_eq!((0..1000).map(bound).sum::<usize>(), 16);
    assert_eq!(world.state.bound.len(), 16, "connections without sessions are forgotten");
    (0..1000).for_each(|number| world.state.connection_closed(ConnectionId(number)));
    assert_eq!(client.back_connections.load(std::sync::atomic::Ordering::Relaxed), 0);
}
