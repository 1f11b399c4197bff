use wire::nfs4::create_session_flag::CONN_BACK_CHAN;

use super::*;
use crate::v4::state::delegations::{Ask, Delegated, Touch};

fn delegate(world: &World, client: &Arc<Client>, ask: Ask, mode: (u32, u32)) -> Delegated {
    let opened = world.open(client, b"o", file(1), mode).unwrap();
    world.state.delegate(&world.ask(), &opened.holding, ask, false)
}

#[test]
fn a_conflict_recalls_and_a_lease_later_revokes() {
    let mut world = World::new();
    let (one, session) = world.client(b"one", 1, CONN_BACK_CHAN);
    let Delegated::Read(stateid) = delegate(&world, &one, Ask::NoPreference, (1, 0)) else {
        panic!("nobody minds");
    };
    let (two, _) = world.client(b"two", 1, 0);
    world.open(&two, b"o", file(1), (1, 0)).unwrap();
    assert_eq!(refused(world.open(&two, b"o", file(1), (2, 0)).map(drop)), NfsStat4::Delay);
    assert_eq!(world.state.take_callbacks().len(), 1);
    for _ in 0..7 {
        world.pass(10);
        one.renew(world.now);
        two.renew(world.now);
        world.state.tick(&world.ask());
    }
    world.open(&two, b"o", file(1), (2, 0)).unwrap();
    let status = world.state.test_stateid(&one, stateid);
    assert_eq!(status, NfsStat4::DelegRevoked);
    assert!(world.state.session(session).is_ok());
    world.state.free_stateid(&world.ask(), &one, stateid).unwrap();
    assert_eq!(world.state.test_stateid(&one, stateid), NfsStat4::BadStateId);
}

#[test]
fn one_to_write_is_in_the_way_of_reading_too_and_survives_a_restart() {
    let mut world = World::new();
    let (one, session) = world.client(b"one", 1, CONN_BACK_CHAN);
    let Delegated::Write(stateid) = delegate(&world, &one, Ask::Any, (3, 0)) else {
        panic!("nobody minds");
    };
    let read = |world: &World, caller: Caller<'_>| {
        world.state.check_delegations(&world.ask(), caller, file(1), Touch::Read)
    };
    assert_eq!(read(&world, Caller::Session(&one)), Ok(()));
    assert_eq!(refused(read(&world, Caller::Unknown)), NfsStat4::Delay);
    world.restart();
    let one = Arc::clone(&world.state.session(session).unwrap().client);
    assert_eq!(refused(read(&world, Caller::Unknown)), NfsStat4::Delay);
    let holding = world.state.current(&world.ask(), Caller::Session(&one), stateid, file(1)).unwrap();
    world.state.return_delegation(&world.ask(), &holding).unwrap();
    assert_eq!(read(&world, Caller::Unknown), Ok(()));
}
