//! NFSv4 clients on a lossy network, with a server that crashes.

use sim::nfs4::{self, Plan, Tally};

mod seeds;

#[test]
fn nfs4_clients_keep_what_was_acknowledged() {
    let mut sum = Tally::default();
    for seed in seeds::seeds(1, 8) {
        let tally = nfs4::run(seed, &Plan::default()).unwrap_or_else(|failure| panic!("{failure}"));
        sum.add(&tally);
    }
    println!("{sum:?}");
    let Tally { succeeded, crashes, delegations, locks, expired, refused, .. } = sum;
    assert!(
        [succeeded, crashes, delegations, locks, expired, refused].iter().all(|count| *count > 0),
        "{sum:?}"
    );
}

/// Whether the checker finds a planted fault within a few seeds.
fn is_detected(plan: &Plan) -> bool {
    (1..10).any(|seed| nfs4::run(seed, plan).is_err())
}

#[test]
fn a_server_that_does_not_check_addresses_is_detected() {
    assert!(is_detected(&Plan { takes_any_address: true, ..Plan::default() }));
}

#[test]
fn a_server_that_does_not_check_principals_is_detected() {
    assert!(is_detected(&Plan { takes_any_principal: true, ..Plan::default() }));
}

/// The checker once misjudged a lock repeated by a client that was gone, a file truncated before a crash, and the use
/// of a delegation that a crash had brought back.
#[test]
fn retransmissions_after_a_crash_are_judged_by_their_effect() {
    for seed in [88_000_105, 88_001_254, 92_001_541] {
        nfs4::run(seed, &Plan::default()).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// The checker once assumed that opens and locks existed that were never reported to a client and that a crash had
/// undone, when their owner opened or locked again.
#[test]
fn opens_and_locks_lost_in_a_crash_exclude_no_client() {
    for seed in [459_594_924_497, 700_044_253] {
        nfs4::run(seed, &Plan::default()).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in seeds::seeds(1, 8) {
        assert_eq!(nfs4::digest(seed, &Plan::default()), nfs4::digest(seed, &Plan::default()), "seed {seed}");
    }
}
