//! Seeds of random tests.

/// Returns the time in seconds as a seed, and prints it.
pub(crate) fn fresh_seed() -> u64 {
    let seed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |age| age.as_secs());
    println!("seed {seed}");
    seed
}
