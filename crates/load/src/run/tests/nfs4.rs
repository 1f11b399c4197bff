//! Whole measurements over NFSv4 against a server that follows a script.

use wire::nfs4::OpNum4;

use super::fake4::{Fake4, Fault4};
use super::options;
use crate::error::LoadError;
use crate::result::{Measurement, Slots};
use crate::run::{Connections, Options, Unobserved, measure};
use crate::workload::{RateProcedure, Workload};

const GETATTR: Workload = Workload::Rate { procedure: RateProcedure::Getattr };
const CREATE_REMOVE: Workload = Workload::Rate { procedure: RateProcedure::CreateRemove };

fn run(fake: &Fake4, workload: Workload, options: &Options) -> Result<Measurement, LoadError> {
    let result = measure(&fake.server, &workload, options, &mut Unobserved);
    assert_eq!(fake.state.lock().unwrap().violations, Vec::<String>::new());
    result
}

#[test]
fn an_operation_is_the_calls_of_a_linux_client_and_nothing_is_left_behind() {
    let fake = Fake4::start(Fault4::None);
    let result = run(&fake, CREATE_REMOVE, &options(3, 1, 300)).unwrap();
    assert_eq!((result.operations, result.errors.len(), result.delayed_calls), (300, 0, 0));
    let counts = [OpNum4::Open, OpNum4::Close, OpNum4::Remove].map(|num| fake.count(num));
    // The directory of the measurement is removed too.
    assert_eq!(counts, [150, 150, 151]);
    assert_eq!(fake.left(), (0, 0));
    assert!(!result.slots.unwrap().are_few());
}

#[test]
fn connections_of_a_thread_share_its_session() {
    let fake = Fake4::start(Fault4::None);
    let options = Options { connections: Connections::PerThread(3), event_loops: 2, ..options(4, 5, 400) };
    assert_eq!(run(&fake, GETATTR, &options).unwrap().connections, 12);
    assert_eq!(fake.count(OpNum4::BindConnToSession), 12);
    // One for each thread, one that prepares, and one that cleans up.
    assert_eq!(fake.count(OpNum4::CreateSession), 4 + 2);
    assert_eq!(fake.count(OpNum4::ReclaimComplete), 2);
}

#[test]
fn few_slots_bound_the_depth_and_are_reported() {
    let fake = Fake4::start(Fault4::Slots(3));
    let result = run(&fake, GETATTR, &options(2, 16, 400)).unwrap();
    let slots = Slots { granted: 3, wanted: 16, depth_wanted: 16 };
    assert_eq!((result.operations, result.depth, result.slots), (400, 3, Some(slots)));
}

#[test]
fn more_threads_than_slots_wait_in_line() {
    let fake = Fake4::start(Fault4::Slots(2));
    let options = Options { connections: Connections::Total(2), ..options(50, 2, 1000) };
    let result = run(&fake, CREATE_REMOVE, &Options { event_loops: 1, ..options }).unwrap();
    assert_eq!((result.operations, result.depth, result.errors.len()), (1000, 1, 0));
    assert_eq!(result.slots, Some(Slots { granted: 2, wanted: 100, depth_wanted: 2 }));
    assert_eq!(fake.left(), (0, 0));
}

#[test]
fn slots_above_the_target_rest() {
    let fake = Fake4::start(Fault4::LowTarget);
    let result = run(&fake, GETATTR, &options(1, 8, 500)).unwrap();
    assert_eq!((result.operations, result.depth), (500, 8));
    assert_eq!(fake.state.lock().unwrap().late_slots, 0);
}

#[test]
fn delayed_operations_and_sequences_are_made_again() {
    for fault in [Fault4::Delays, Fault4::SequenceDelays] {
        let fake = Fake4::start(fault);
        let result = run(&fake, CREATE_REMOVE, &options(4, 4, 160)).unwrap();
        assert_eq!((result.operations, result.errors.len()), (160, 0), "{fault:?}");
        assert!(result.delayed_calls > 0 && result.latency.max_ns >= 100_000_000, "{fault:?}");
        assert_eq!(fake.left(), (0, 0), "{fault:?}");
    }
}

#[test]
fn a_lost_session_ends_the_measurement() {
    for (fault, words) in [
        (Fault4::BadSession, "the session is lost: SEQUENCE: the server answered NFS4ERR_BADSESSION"),
        (Fault4::StateLost, "SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED"),
        (Fault4::Refused, "COMPOUND: not executed"),
        (Fault4::OtherSlot, "SEQUENCE: the reply is that of another request"),
    ] {
        let fake = Fake4::start(fault);
        let why = run(&fake, GETATTR, &options(1, 2, 20_000)).unwrap_err().to_string();
        assert!(why.contains(words), "{fault:?}: {why}");
    }
}

#[test]
fn an_unknown_minor_version_is_named() {
    let fake = Fake4::start(Fault4::Old);
    let why = run(&fake, GETATTR, &options(1, 1, 1)).unwrap_err().to_string();
    assert!(why.contains("does not speak this minor version of NFSv4"), "{why}");
}

#[test]
fn wrong_replies_are_failures() {
    for (fault, words) in [
        (Fault4::OtherResults, "COMPOUND: the results of other operations"),
        (Fault4::Truncated, "reply to GETATTR: the message is truncated"),
        (Fault4::FewResults, "COMPOUND: fewer results than operations"),
    ] {
        let fake = Fake4::start(fault);
        let result = run(&fake, GETATTR, &options(1, 2, 300)).unwrap();
        let causes: Vec<&str> = result.errors.iter().map(|error| error.cause.as_str()).collect();
        assert_eq!(causes, [words], "{fault:?}");
        assert_eq!(result.operations + result.errors[0].count, 300);
    }
}

#[test]
fn failed_operations_are_counted_by_operation_and_status() {
    let fake = Fake4::start(Fault4::NoRemoves);
    let result = run(&fake, CREATE_REMOVE, &options(1, 1, 40)).unwrap();
    assert_eq!(result.errors.len(), 1);
    assert_eq!(result.errors[0].cause, "REMOVE: NFS4ERR_NOTEMPTY");
    assert_eq!(result.errors[0].count + result.operations, 40);
}

#[test]
fn null_calls_need_no_session() {
    let fake = Fake4::start(Fault4::None);
    let result = run(&fake, Workload::Null, &options(2, 4, 200)).unwrap();
    assert_eq!((result.operations, result.slots), (200, None));
    assert_eq!(fake.count(OpNum4::ExchangeId), 0);
}
