//! Random numbers. The same seed gives the same run.

use fastrand::Rng;

/// Returns the generator of one of several users of a seed.
pub(crate) fn generator(seed: u64, user: u64) -> Rng {
    // An odd multiplier (of a generator by Steele and Vigna) keeps users apart.
    Rng::with_seed(seed ^ user.wrapping_mul(0xd134_2543_de82_ef95))
}

/// Returns random bytes, the same ones at each call.
pub(crate) fn filler(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    generator(0, 0).fill(&mut bytes);
    bytes
}

/// Returns a seed that differs from run to run. Print it, so that the run can be repeated.
#[must_use]
pub fn fresh_seed() -> u64 {
    fastrand::u64(..)
}
