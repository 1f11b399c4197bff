//! Crashes at every boundary of random workloads, several in a row.

use sim::proofs::crash::{self, Plan};

mod seeds;

#[test]
fn acknowledged_changes_survive_every_crash() {
    let mut points = 0;
    for seed in seeds::seeds(1, 3) {
        points += crash::run(seed, &Plan::default())
            .unwrap_or_else(|failure| panic!("{}", crash::minimize(&failure, 400)));
    }
    println!("{points} crash points");
}

#[test]
fn a_seed_replays_exactly() {
    // Enough for background steps that halt at a sync.
    for seed in 7..12 {
        let run = || crash::digest(seed, 200).expect("nothing fails");
        assert_eq!(run(), run(), "seed {seed}");
    }
}
