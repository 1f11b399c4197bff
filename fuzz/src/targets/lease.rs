//! The lease object of a group.

use std::mem::discriminant;
use std::time::Duration;

use cluster::{
    Action, Answer, CallId, Event, Identity, LEASE_BYTES, Lease, LeaseRecord, LeaseState, Name, Time, Version,
};

use super::Kind;

/// What a watcher has to do at once, at most: to seal the objects of a lease that turns out to be its own, and to renew it.
const ACTIONS_MAX: usize = 2;

fn owner(node: &str, addresses: &str) -> Identity {
    Identity::new(Name::new(node).expect("it is plain"), 7, addresses).expect("they are short")
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let unowned = LeaseRecord::unowned(owner("a", ""));
    let held = LeaseRecord {
        state: LeaseState::Held,
        owner: owner("node-1.example", "192.0.2.1:0/77"),
        ..unowned.clone()
    };
    let offered =
        LeaseRecord { state: LeaseState::OfferedTo(Name::new("b").expect("it is plain")), ..held.clone() };
    // The watcher's own, as if the answer to its takeover had been lost.
    let own = LeaseRecord { owner: owner("b", ""), ..held.clone() };
    // What the checksum covers is fuzzed behind a right one.
    [unowned, held, offered, own].iter().map(|record| record.encode()[16..200].to_vec()).collect()
}

/// Reads the input as a lease with a right checksum: it is exactly what its record is encoded as, or refused. A watcher makes
/// something of it that ends.
pub(super) fn run(input: &[u8]) -> Kind {
    let _ = LeaseRecord::decode(input);
    let mut bytes = b"hf-lease\0\0\0\x01".to_vec();
    let rest = &input[..input.len().min(LEASE_BYTES - 16)];
    let mut checked = rest.to_vec();
    checked.resize(LEASE_BYTES - 16, 0);
    bytes.extend(crc32c::crc32c(&checked).to_be_bytes());
    bytes.extend(&checked);
    let decoded = LeaseRecord::decode(&bytes);
    if let Ok(record) = &decoded {
        assert_eq!(record.encode(), bytes, "a lease has one encoding");
    }
    let mut lease = Lease::new(owner("b", ""), Time::ORIGIN);
    lease.stand(Time::ORIGIN, Duration::ZERO);
    assert!(lease.poll(Time::ORIGIN).is_some(), "a watcher reads");
    let answer = Answer::Read { version: Version(1), bytes };
    lease.on_event(Time::ORIGIN, Event::Answer { call: CallId(1), answer });
    let actions: Vec<Action> =
        std::iter::from_fn(|| lease.poll(Time::ORIGIN)).take(ACTIONS_MAX + 1).collect();
    assert!(actions.len() <= ACTIONS_MAX, "it ends");
    let is_call = |action: &&Action| matches!(action, Action::Read { .. } | Action::Write { .. });
    let calls = actions.iter().filter(is_call).count();
    assert!(calls <= 1, "one call to the lease object at a time");
    assert!(lease.wake().is_some_and(|wake| wake > Time::ORIGIN), "it waits for something");
    match decoded {
        Ok(record) => Kind::of((discriminant(&record.state), record.owner.addresses().len().min(8), calls)),
        Err(damage) => Kind::of(damage.to_string()),
    }
}
