//! Random numbers from a seed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A pseudo-random number generator.
pub struct Random(fastrand::Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.0.usize(..all.len())]
    }
}

/// Returns the seed, given or new, and prints it.
pub fn seed() -> u64 {
    let seed = number("HOLDFAST_STRESS_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) ^ u64::from(std::process::id()) << 32
    });
    println!("HOLDFAST_STRESS_SEED={seed}");
    seed
}

/// Returns the duration of a test.
pub fn duration() -> Duration {
    Duration::from_secs(number("HOLDFAST_STRESS_SECONDS").unwrap_or(3))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}
