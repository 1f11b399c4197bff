//! Clients of NFSv4 on a bad network, with a server that is crashed.

use sim::nfs4::{self, Plan, Tally};

mod seeds;

#[test]
fn clients_of_version_four_get_what_they_were_told() {
    let mut sum = Tally::default();
    for seed in seeds::seeds(1, 8) {
        let tally = nfs4::run(seed, &Plan::default()).unwrap_or_else(|failure| panic!("{failure}"));
        sum.add(&tally);
    }
    println!("{sum:?}");
    let Tally { succeeded, crashes, delegations, locks, expired, .. } = sum;
    assert!([succeeded, crashes, delegations, locks, expired].iter().all(|count| *count > 0), "{sum:?}");
}

/// The judge was wrong: a lock was repeated by a client that was gone, a file truncated before a crash, and a delegation
/// used that was back after one.
#[test]
fn repetitions_are_judged_by_what_was_done_now() {
    for seed in [88_000_105, 88_001_254, 92_001_541] {
        nfs4::run(seed, &Plan::default()).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// The judge was wrong: what nobody was told of, and a crash took back of an open or of locks, was thought to be there when
/// their owner opened or locked anew.
#[test]
fn what_was_lost_of_an_open_or_of_locks_excludes_nobody() {
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
