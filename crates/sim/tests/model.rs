//! The engine and the reference model in lockstep: fixed seeds, and a new one each time.

use sim::proofs::model;
use sim::workload::Profile;

mod seeds;

#[test]
fn replies_and_trees_agree_with_the_model() {
    for seed in seeds::seeds(1, 6) {
        if let Err(failure) = model::run(seed, 700, Profile::default()) {
            panic!("{}", model::minimize(&failure, 600));
        }
    }
}
