//! The engine and the reference model in lockstep: fixed seeds, and one that is new each time.

use sim::model_test;

mod seeds;

#[test]
fn replies_and_trees_agree() {
    for seed in seeds::seeds(1, 6) {
        if let Err(failure) = model_test::run(seed, 700) {
            panic!("{}", model_test::minimize(&failure, 600));
        }
    }
}
