//! Random numbers from a seed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A pseudo-random number generator (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
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
