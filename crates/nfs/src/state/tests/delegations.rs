use std::sync::atomic::Ordering;

use wire::nfs4::NfsStat4;
use wire::nfs4::create_session_flag::CONN_BACK_CHAN;
use wire::nfs4::sequence_status::RECALLABLE_STATE_REVOKED;
use wire::record::MARK_BYTES;
use wire::rpc::{AcceptStat, ReplyHeader, decode_call};
use wire::xdr::{Encode as _, Encoder};

use super::*;
use crate::state::callbacks::CallbackPath;
use crate::state::clients::client::ClientProtocol;
use crate::state::delegations::{ConflictKind, Delegated, DelegationWant, NoDelegationReason};
use crate::state::files::Opened;
use crate::state::record::CallbackAddress;

fn delegate(world: &World, client: &Arc<Client>, ask: DelegationWant, mode: (u32, u32)) -> Delegated {
    delegate_file(world, client, file(1), ask, mode)
}

/// Does the same with a delegation of this file.
fn delegate_file(
    world: &World,
    client: &Arc<Client>,
    file: FileId,
    ask: DelegationWant,
    mode: (u32, u32),
) -> Delegated {
    let opened = world.open(client, b"o", file, mode).unwrap();
    world.state.delegate(&world.context(), &opened.entry, ask, false).0
}

#[test]
fn conflicts_recall_and_a_lease_later_revokes() {
    let mut world = World::new();
    let (one, session) = world.client(b"one", 1, CONN_BACK_CHAN);
    let Delegated::Read(stateid) = delegate(&world, &one, DelegationWant::Any, (1, 0)) else {
        panic!("no conflict");
    };
    let (two, _) = world.client(b"two", 1, 0);
    world.open(&two, b"o", file(1), (1, 0)).unwrap();
    assert_eq!(refused(world.open(&two, b"o", file(1), (2, 0)).map(drop)), StateError::TryLater);
    assert_eq!(world.state.take_callbacks().len(), 1);
    for _ in 0..7 {
        world.pass(10);
        one.renew(world.now);
        two.renew(world.now);
        world.state.tick(&world.context());
    }
    world.open(&two, b"o", file(1), (2, 0)).unwrap();
    let status = world.state.test_stateid(&one, stateid);
    assert_eq!(status, Err(StateError::Revoked));
    assert!(world.state.session(session).is_ok());
    world.state.free_stateid(&world.context(), &one, stateid).unwrap();
    assert_eq!(world.state.test_stateid(&one, stateid), Err(StateError::BadStateId));
}

/// Returns after how many leases a delegation is revoked if its client does not return it while rate limits hold its requests.
fn leases_until_revoked(mode: (u32, u32)) -> u128 {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    let stateid = match delegate(&world, &one, DelegationWant::Any, mode) {
        Delegated::Read(stateid) | Delegated::Write(stateid) => stateid,
        Delegated::None(why) => panic!("{why:?}"),
    };
    let (two, _) = world.client(b"two", 1, 0);
    assert_eq!(refused(world.open(&two, b"o", file(1), (2, 0)).map(drop)), StateError::TryLater);
    let (recalled, lease) = (world.now, world.state.config().lease);
    while world.state.test_stateid(&one, stateid).is_ok() {
        assert!(world.now.since(recalled) < 10 * lease, "it holds up others for ever");
        world.pass(10);
        one.note_held(world.now);
        two.renew(world.now);
        world.state.tick(&world.context());
    }
    assert!(one.lease_idle(world.now) < lease, "what is held renews the lease");
    world.now.since(recalled).as_millis() / lease.as_millis()
}

#[test]
fn a_client_whose_requests_are_held_gets_more_time_but_not_for_ever() {
    assert_eq!(leases_until_revoked((1, 0)), 2, "a reader has nothing to write back");
    let writer = leases_until_revoked((3, 0));
    assert!((4..7).contains(&writer), "{writer}");
}

/// Returns a confirmed NFSv4.0 client that can be called.
pub(super) fn called_client(world: &World, name: &[u8]) -> Arc<Client> {
    let client = introduced_client(world, name);
    client.inner.lock().path = CallbackPath::Up;
    client
}

/// Introduces an NFSv4.0 client, which may have done so before, and confirms it.
fn introduced_client(world: &World, name: &[u8]) -> Arc<Client> {
    let who = Introduction { name, verifier: [1; 8], peer: user_at(0, 1) };
    let callback = CallbackAddress {
        program: 0x4000_0000,
        netid: Box::from(&b"tcp"[..]),
        address: Box::from(&b"192.0.2.1.8.1"[..]),
        ident: 1,
    };
    let Ok((id, confirm)) = world.state.set_client_id(&world.context(), &who, callback) else {
        panic!("no other client has the name")
    };
    world.state.confirm_client_id(&world.context(), id, confirm, &user_at(0, 1)).unwrap();
    world.state.client(&world.context(), id, &user_at(0, 1)).unwrap()
}

/// Answers the call that tests whether a client can be called, the only one there is.
fn answer_probe(world: &World) {
    let probe = world.state.take_callbacks().remove(0);
    let mut answer = Vec::new();
    ReplyHeader::accepted(u32::try_from(probe.id).unwrap(), AcceptStat::Success)
        .encode(&mut Encoder::new(&mut answer));
    world.state.callback_answered(&world.context(), probe.id, &answer);
}

/// As when a client was cut off, and comes back before the connection of the call fails.
#[test]
fn a_call_that_fails_late_says_nothing_about_a_v40_client_that_came_back() {
    let mut world = World::new();
    let one = called_client(&world, b"one");
    delegate(&world, &one, DelegationWant::Any, (1, 0));
    let change = world.state.check_delegations(&world.context(), None, file(1), ConflictKind::Modify);
    assert_eq!(refused(change.map(drop)), StateError::TryLater);
    // The probe of the first introduction went before it.
    let recall = world.state.take_callbacks().pop().unwrap();
    world.pass(13);
    introduced_client(&world, b"one");
    world.state.probe(&world.context(), &one);
    let probe = world.state.take_callbacks().remove(0);
    world.state.callback_failed(&world.context(), recall.id);
    assert_eq!(one.inner.lock().path, CallbackPath::Probing);
    world.state.callback_failed(&world.context(), probe.id);
    assert_eq!(one.inner.lock().path, CallbackPath::Down, "this one was for the client as it is now");
}

/// The client may never learn that it was cut off, and so does not introduce itself again.
#[test]
fn a_v40_client_that_was_cut_off_is_probed_when_it_opens_files_again() {
    let mut world = World::new();
    let one = called_client(&world, b"one");
    delegate(&world, &one, DelegationWant::Any, (1, 0));
    let change = world.state.check_delegations(&world.context(), None, file(1), ConflictKind::Modify);
    assert_eq!(refused(change.map(drop)), StateError::TryLater);
    let fail = |world: &World| {
        let calls = world.state.take_callbacks();
        calls.iter().for_each(|call| world.state.callback_failed(&world.context(), call.id));
        calls.len()
    };
    assert_eq!(fail(&world), 2, "the first probe and the recall, which fail together");
    let attempt = |world: &World, ino| delegate_file(world, &one, file(ino), DelegationWant::Any, (1, 0));
    let none = Delegated::None(NoDelegationReason::Resource);
    // Twice as long after each failure.
    for (ino, rest) in (2..).zip([1, 2, 4, 8]) {
        world.pass(rest - 1);
        one.renew(world.now);
        assert_eq!((attempt(&world, ino), fail(&world)), (none, 0), "{rest}");
        world.pass(1);
        assert_eq!((attempt(&world, ino), fail(&world)), (none, 1), "{rest}");
    }
    world.pass(16);
    one.renew(world.now);
    assert_eq!(attempt(&world, 8), none, "it is being found out");
    answer_probe(&world);
    assert!(matches!(attempt(&world, 8), Delegated::Read(_)));
}

/// If it answers slowly, it would always be called otherwise.
#[test]
fn a_v40_client_that_confirms_its_address_all_the_time_is_probed_once_a_second() {
    let mut world = World::new();
    let pass = |world: &mut World| world.now = world.now.plus(Duration::from_millis(100));
    let mut probes = 0;
    for _ in 0..95 {
        introduced_client(&world, b"one");
        let calls = world.state.take_callbacks();
        probes += calls.len();
        for call in calls {
            (0..9).for_each(|_| pass(&mut world));
            world.state.callback_failed(&world.context(), call.id);
        }
        pass(&mut world);
    }
    assert_eq!(probes, 10, "a call of 0.9 s, and a second");
    let one = introduced_client(&world, b"one");
    assert_eq!(one.inner.lock().path, CallbackPath::Unknown);
    world.pass(1);
    let attempt = |world: &World| delegate_file(world, &one, file(1), DelegationWant::Any, (1, 0));
    assert_eq!(attempt(&world), Delegated::None(NoDelegationReason::Resource));
    assert_eq!(world.state.take_callbacks().len(), 1, "it is probed when it opens a file");
    let restarted = Introduction { name: b"one", verifier: [2; 8], peer: user_at(0, 1) };
    let callback = one.inner.lock().callback.clone().unwrap().1;
    let (id, confirm) = world.state.set_client_id(&world.context(), &restarted, callback).unwrap();
    world.state.confirm_client_id(&world.context(), id, confirm, &restarted.peer).unwrap();
    assert_eq!(world.state.take_callbacks().len(), 1, "one that restarted is probed at once");
}

/// As Linux does when it mounts.
#[test]
fn a_v40_client_that_confirms_its_address_twice_can_be_called_when_it_opens_a_file_the_second_time() {
    let mut world = World::new();
    let pass =
        |world: &mut World, milliseconds| world.now = world.now.plus(Duration::from_millis(milliseconds));
    let one = introduced_client(&world, b"one");
    pass(&mut world, 1);
    answer_probe(&world);
    introduced_client(&world, b"one");
    assert_eq!((one.inner.lock().path, world.state.take_callbacks().len()), (CallbackPath::Unknown, 0));
    pass(&mut world, 9);
    let open = |world: &World| delegate_file(world, &one, file(1), DelegationWant::NoPreference, (1, 0));
    assert_eq!(open(&world), Delegated::None(NoDelegationReason::NotWanted));
    answer_probe(&world);
    assert!(matches!(open(&world), Delegated::Read(_)));
}

#[test]
fn a_v40_client_that_answers_very_slowly_has_one_probe_under_way_however_often_it_confirms_its_address() {
    let mut world = World::new();
    let mut probes = Vec::new();
    for _ in 0..50 {
        introduced_client(&world, b"one");
        probes.extend(world.state.take_callbacks());
        world.now = world.now.plus(Duration::from_millis(100));
    }
    assert_eq!(probes.len(), 1);
    world.state.callback_failed(&world.context(), probes[0].id);
    assert_eq!(introduced_client(&world, b"one").inner.lock().path, CallbackPath::Unknown);
    world.pass(1);
    introduced_client(&world, b"one");
    assert_eq!(world.state.take_callbacks().len(), 1, "the address is another one now");
}

#[test]
fn v40_clients_are_told_of_a_revocation_until_they_acknowledge_it() {
    let mut world = World::new();
    let one = called_client(&world, b"one");
    let Delegated::Read(stateid) = delegate(&world, &one, DelegationWant::Any, (1, 0)) else {
        panic!("no conflict");
    };
    assert_eq!(world.state.renew(&world.context(), one.id, &user_at(0, 1)), Ok(()));
    let (two, _) = world.client(b"two", 1, 0);
    assert_eq!(refused(world.open(&two, b"o", file(1), (2, 0)).map(drop)), StateError::TryLater);
    for _ in 0..7 {
        world.pass(10);
        one.renew(world.now);
        two.renew(world.now);
        world.state.tick(&world.context());
    }
    world.open(&two, b"o", file(1), (2, 0)).unwrap();
    one.inner.lock().path = CallbackPath::Up;
    let renew = |world: &World| world.state.renew(&world.context(), one.id, &user_at(0, 1));
    assert_eq!(
        (renew(&world), renew(&world)),
        (Err(StateError::CallbackPathDown), Err(StateError::CallbackPathDown))
    );
    let return_grant =
        || world.state.return_stateid(&world.context(), Caller::V40(user_at(0, 1)), stateid, file(1));
    assert_eq!(refused(return_grant()), StateError::Expired);
    assert_eq!(renew(&world), Ok(()));
    assert_eq!(refused(return_grant()), StateError::BadStateId);
}

#[test]
fn write_delegations_conflict_with_reads_and_survive_a_restart() {
    let mut world = World::new();
    let (one, session) = world.client(b"one", 1, CONN_BACK_CHAN);
    let Delegated::Write(stateid) = delegate(&world, &one, DelegationWant::Any, (3, 0)) else {
        panic!("no conflict");
    };
    let read = |world: &World, client: Option<&Arc<Client>>| {
        world.state.check_delegations(&world.context(), client, file(1), ConflictKind::Read).map(drop)
    };
    assert_eq!(read(&world, Some(&one)), Ok(()));
    assert_eq!(refused(read(&world, None)), StateError::TryLater);
    world.restart();
    let one = Arc::clone(&world.state.session(session).unwrap().client);
    assert_eq!(refused(read(&world, None)), StateError::TryLater);
    let entry = world.state.current(&world.context(), Caller::Session(&one), stateid, file(1)).unwrap();
    world.state.return_delegation(&world.context(), &entry).unwrap();
    assert_eq!(read(&world, None), Ok(()));
}

#[test]
fn recalled_files_are_not_delegated_again_at_once() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    let opened = world.open(&one, b"o", file(1), (1, 0)).unwrap();
    let delegate = |world: &World, opened: &Opened| {
        world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false).0
    };
    let Delegated::Read(stateid) = delegate(&world, &opened) else { panic!("no conflict") };
    let change = |world: &World| {
        world.state.check_delegations(&world.context(), None, file(1), ConflictKind::Modify).map(drop)
    };
    assert_eq!(refused(change(&world)), StateError::TryLater);
    let entry = world.state.current(&world.context(), Caller::Session(&one), stateid, file(1)).unwrap();
    world.state.return_delegation(&world.context(), &entry).unwrap();
    world.state.close(&world.context(), &opened.entry).unwrap();
    assert_eq!(change(&world), Ok(()));
    let opened = world.open(&one, b"o", file(1), (1, 0)).unwrap();
    assert_eq!(delegate(&world, &opened), Delegated::None(NoDelegationReason::Contention));
    world.pass(31);
    one.renew(world.now);
    assert!(matches!(delegate(&world, &opened), Delegated::Read(_)));
}

/// A reader that returns its delegations late, and asks for them again at once, does not keep others from writing.
#[test]
fn files_whose_delegations_are_returned_late_are_free_for_who_waits() {
    let mut world = World::new();
    let (reader, _) = world.client(b"reader", 1, CONN_BACK_CHAN);
    let change = |world: &World| {
        world.state.check_delegations(&world.context(), None, file(1), ConflictKind::Modify).map(drop)
    };
    let Delegated::Read(stateid) = delegate(&world, &reader, DelegationWant::Read, (1, 0)) else {
        panic!("no conflict")
    };
    assert_eq!(refused(change(&world)), StateError::TryLater);
    for _ in 0..9 {
        world.pass(5);
        reader.renew(world.now);
        assert_eq!(refused(change(&world)), StateError::TryLater);
    }
    let entry = world.state.current(&world.context(), Caller::Session(&reader), stateid, file(1)).unwrap();
    world.state.return_delegation(&world.context(), &entry).unwrap();
    let again = delegate(&world, &reader, DelegationWant::Read, (1, 0));
    assert!(matches!(again, Delegated::None(_)), "{again:?}");
    assert_eq!(change(&world), Ok(()));
}

/// Whoever waits for a file finds it free, however many others clients make contended on purpose.
#[test]
fn files_stay_contended_however_many_others_are() {
    let mut world = World::new();
    let (reader, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    let (hoarder, _) = world.client(b"two", 1, CONN_BACK_CHAN);
    for number in 1..=1100 {
        let opened = world.open(&hoarder, b"o", file(number), (1, 0)).unwrap();
        world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false);
    }
    world.pass(61);
    reader.renew(world.now);
    (1..=1100).for_each(|number| world.state.recall_late(&world.context(), None, file(number)));
    let delegate = |world: &World, file| {
        let opened = world.open(&reader, b"o", file, (1, 0)).unwrap();
        world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false).0
    };
    // Some may share their places with those.
    let given = (2000..2010).map(file).find_map(|file| match delegate(&world, file) {
        Delegated::Read(stateid) => Some((file, stateid)),
        _ => None,
    });
    let (file, stateid) = given.unwrap();
    world.state.recall_late(&world.context(), None, file);
    world.state.return_stateid(&world.context(), Caller::Session(&reader), stateid, file).unwrap();
    assert_eq!(delegate(&world, file), Delegated::None(NoDelegationReason::Contention));
}

#[test]
fn clients_that_lost_a_delegation_do_not_get_it_again_at_once() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    assert!(matches!(delegate(&world, &one, DelegationWant::Any, (3, 0)), Delegated::Write(_)));
    world.pass(61);
    drop(world.state.check_delegations(&world.context(), None, file(1), ConflictKind::Modify).unwrap());
    let counted = world.state.gauges().into_iter().find(|(name, _)| *name == "nfs4_delegations_revoked");
    assert_eq!(counted, Some(("nfs4_delegations_revoked", 1)));
    world.pass(120);
    let (back, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    let again = delegate(&world, &back, DelegationWant::Any, (3, 0));
    assert_eq!(again, Delegated::None(NoDelegationReason::Contention));
    world.pass(601);
    back.renew(world.now);
    assert!(matches!(delegate(&world, &back, DelegationWant::Any, (3, 0)), Delegated::Write(_)));
}

/// Returns whether a request in a slot is answered with the flag that delegations may be lost.
fn is_told(world: &World, session: SessionId, slot: u32, sequence: u32) -> bool {
    let session = world.state.session(session).unwrap();
    let request = sessions::SlotRequest {
        slot,
        sequence,
        highest_slot: slot,
        cache_this: false,
        checksum: 7,
        address: user_at(0, 1).address,
    };
    match world.state.sequence(&world.context(), session, request) {
        Ok(sessions::Sequenced::Execute(slot, flags)) => {
            slot.finish(None, []);
            flags & RECALLABLE_STATE_REVOKED != 0
        }
        other => panic!("{other:?}"),
    }
}

/// A crash loses the delegations of its last batch, which no record names.
#[test]
fn possible_delegation_losses_are_reported_until_a_reply_arrived() {
    let mut world = World::new();
    let (one, session) = world.client(b"one", 1, CONN_BACK_CHAN);
    let before: Vec<_> = world.memory.records.lock().keys().cloned().collect();
    let Delegated::Read(stateid) = delegate(&world, &one, DelegationWant::Any, (1, 0)) else {
        panic!("no conflict");
    };
    assert!(!is_told(&world, session, 0, 1) && !is_told(&world, session, 0, 2));
    world.memory.records.lock().retain(|key, _| before.contains(key));
    world.restart();
    assert!(is_told(&world, session, 0, 3));
    assert!(is_told(&world, session, 1, 1), "the first reply may not have come");
    let another = world.create_session(one.id, 2, CONN_BACK_CHAN).unwrap();
    assert!(is_told(&world, another, 0, 1), "nor may the second");
    assert!(!is_told(&world, session, 0, 4), "a request in the slot proves that the reply before it arrived");
    assert!(!is_told(&world, session, 2, 1));
    let client = Arc::clone(&world.state.session(session).unwrap().client);
    assert_eq!(world.state.test_stateid(&client, stateid), Err(StateError::BadStateId));
    world.pass(10);
    let (new, session) = world.client(b"new", 1, CONN_BACK_CHAN);
    assert_eq!(new.delegations.load(Ordering::Relaxed), 0);
    assert!(!is_told(&world, session, 0, 1), "a client that came after the restart has lost nothing");
}

/// Nothing would keep others from the ranges that its holder locks by itself.
#[test]
fn write_and_v40_delegations_are_durable_before_the_reply() {
    let world = World::new();
    let waits = |client: &Arc<Client>, ino: u64, mode: (u32, u32)| {
        let opened = world.open(client, b"o", file(ino), mode).unwrap();
        match world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false) {
            (Delegated::None(why), _) => panic!("{why:?}"),
            (Delegated::Read(_) | Delegated::Write(_), token) => token.is_some(),
        }
    };
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    assert!(waits(&one, 1, (3, 0)));
    assert!(!waits(&one, 2, (1, 0)));
    assert!(waits(&called_client(&world, b"two"), 3, (1, 0)));
}

/// Answers all calls to a client with a status. Returns their number.
fn answer(world: &World, client: &Client, status: NfsStat4) -> usize {
    let calls = world.state.take_callbacks();
    for call in &calls {
        let (header, _) = decode_call(&call.record[MARK_BYTES..]).unwrap();
        let mut record = Vec::new();
        let mut out = Encoder::new(&mut record);
        ReplyHeader::accepted(header.xid, AcceptStat::Success).encode(&mut out);
        out.u32(status.code());
        world.state.reply(&world.context(), &record, ConnectionId(client.id.0));
    }
    calls.len()
}

/// A call that RPC refuses has not reached the client: it is not told of a recall, nor can it be called.
#[test]
fn refused_calls_are_no_answers() {
    let mut world = World::new();
    let refuse = |world: &World, client: &Client| {
        let calls = world.state.take_callbacks();
        for call in &calls {
            let (header, _) = decode_call(&call.record[MARK_BYTES..]).unwrap();
            let mut record = Vec::new();
            let refused = ReplyHeader::accepted(header.xid, AcceptStat::ProgUnavail);
            refused.encode(&mut Encoder::new(&mut record));
            match client.version {
                ClientProtocol::V40 => world.state.callback_answered(&world.context(), call.id, &record),
                _ => world.state.reply(&world.context(), &record, ConnectionId(client.id.0)),
            }
        }
        calls.len()
    };
    let four = called_client(&world, b"four");
    four.inner.lock().path = CallbackPath::Unknown;
    world.state.probe(&world.context(), &four);
    assert!(refuse(&world, &four) > 0);
    assert_eq!(four.inner.lock().path, CallbackPath::Down);
    let (one, session) = world.client(b"one", 1, CONN_BACK_CHAN);
    delegate(&world, &one, DelegationWant::Any, (1, 0));
    let change = world.state.check_delegations(&world.context(), None, file(1), ConflictKind::Modify);
    assert_eq!(refused(change.map(drop)), StateError::TryLater);
    assert_eq!(refuse(&world, &one), 1);
    let sequence = world.state.session(session).unwrap().inner.lock().slots[0].last;
    assert_eq!(sequence, 0, "the slot was not used");
    world.pass(1);
    world.state.tick(&world.context());
    assert_eq!(answer(&world, &one, NfsStat4::Ok), 1, "it is told again");
}

/// The call may overtake the reply to the OPEN, or the client may have answered its sequence before a restart.
#[test]
fn recalls_of_unknown_delegations_are_repeated() {
    let mut world = World::new();
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    delegate(&world, &one, DelegationWant::Any, (1, 0));
    let change = |world: &World| {
        world.state.check_delegations(&world.context(), None, file(1), ConflictKind::Modify).map(drop)
    };
    assert_eq!(refused(change(&world)), StateError::TryLater);
    for status in [NfsStat4::BadStateId, NfsStat4::Delay, NfsStat4::RetryUncachedRep] {
        assert_eq!(answer(&world, &one, status), 1);
        assert_eq!(refused(change(&world)), StateError::TryLater);
        assert_eq!(answer(&world, &one, NfsStat4::Ok), 0, "{status:?}: not at once");
        world.pass(1);
        world.state.tick(&world.context());
    }
    assert_eq!(answer(&world, &one, NfsStat4::Ok), 1);
    world.pass(1);
    world.state.tick(&world.context());
    assert_eq!(answer(&world, &one, NfsStat4::Ok), 0, "the client knows");
}

/// The server had no room to call it, which says nothing about the client.
#[test]
fn v40_clients_that_were_not_called_are_called_later() {
    let mut world = World::new();
    let who = Introduction { name: b"one", verifier: [1; 8], peer: user_at(0, 1) };
    let callback = record::CallbackAddress {
        program: 0x4000_0000,
        netid: b"tcp"[..].into(),
        address: b"192.0.2.1.8.1"[..].into(),
        ident: 1,
    };
    let (id, confirm) = world.state.set_client_id(&world.context(), &who, callback).unwrap();
    world.state.confirm_client_id(&world.context(), id, confirm, &who.peer).unwrap();
    let one = world.state.client(&world.context(), id, &who.peer).unwrap();
    let not_sent = |world: &World| {
        let calls = world.state.take_callbacks();
        calls.iter().for_each(|call| world.state.callback_not_sent(&world.context(), call.id));
        calls.len()
    };
    assert_eq!(not_sent(&world), 1, "the test of its path");
    let opened = world.open(&one, b"o", file(1), (1, 0)).unwrap();
    let delegate =
        |world: &World| world.state.delegate(&world.context(), &opened.entry, DelegationWant::Any, false).0;
    assert_eq!(delegate(&world), Delegated::None(NoDelegationReason::Resource), "it is tested again first");
    let [probe] = &world.state.take_callbacks()[..] else { panic!("one call") };
    let answer = [&probe.record[4..8], &[0, 0, 0, 1], &[0; 16]].concat();
    world.pass(15);
    world.state.tick(&world.context());
    world.state.callback_answered(&world.context(), probe.id, &answer);
    assert!(matches!(delegate(&world), Delegated::Read(_)));
    let writer = world.client(b"two", 1, 0).0;
    let write = |world: &World| world.open(&writer, b"o", file(1), (2, 0)).map(drop);
    assert_eq!(write(&world), Err(StateError::TryLater));
    for _ in 0..3 {
        assert_eq!(not_sent(&world), 1, "the recall");
        world.pass(1);
        world.state.tick(&world.context());
    }
    assert_eq!(
        world.state.renew(&world.context(), id, &who.peer),
        Ok(()),
        "its path is not known to be down"
    );
}

#[test]
fn files_are_delegated_when_their_client_opens_them_again() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    let (two, _) = world.client(b"two", 1, CONN_BACK_CHAN);
    let unasked = |world: &World, client: &Arc<Client>, mode| {
        let opened = world.open(client, b"o", file(1), mode).unwrap();
        let want = DelegationWant::NoPreference;
        let delegated = world.state.delegate(&world.context(), &opened.entry, want, false).0;
        world.state.close(&world.context(), &opened.entry).unwrap();
        delegated
    };
    let none = Delegated::None(NoDelegationReason::NotWanted);
    assert_eq!(unasked(&world, &one, (1, 0)), none, "most files are opened once");
    assert_eq!(unasked(&world, &two, (1, 0)), none, "another client's opens are not counted");
    assert!(matches!(unasked(&world, &one, (1, 0)), Delegated::Read(_)));
}

#[test]
fn files_opened_to_read_and_write_are_delegated_at_once() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    let granted = delegate(&world, &one, DelegationWant::NoPreference, (3, 0));
    assert!(matches!(granted, Delegated::Write(_)), "a database is locked often: {granted:?}");
}

#[test]
fn creation_counts_as_an_open_until_it_is_closed() {
    let world = World::new();
    let (one, _) = world.client(b"one", 1, CONN_BACK_CHAN);
    let none = Delegated::None(NoDelegationReason::NotWanted);
    let create = |file| {
        let opened = world.open(&one, b"o", file, (1, 0)).unwrap();
        let want = DelegationWant::NoPreference;
        assert_eq!(world.state.delegate(&world.context(), &opened.entry, want, true).0, none);
        opened
    };
    let open = |file| {
        let opened = world.open(&one, b"o", file, (1, 0)).unwrap();
        world.state.delegate(&world.context(), &opened.entry, DelegationWant::NoPreference, false).0
    };
    let made = create(file(1));
    world.state.close(&world.context(), &made.entry).unwrap();
    assert_eq!(open(file(1)), none, "what is made is often read once");
    create(file(2));
    assert!(matches!(open(file(2)), Delegated::Read(_)), "it is in use");
}
