//! Seeds and time limits of the tests.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the seconds that each test may take, from `HOLDFAST_SIM_SECONDS`.
pub fn seconds() -> u64 {
    std::env::var("HOLDFAST_SIM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Returns fixed seeds from `first` on, then fresh ones while there is time: at least `least` fixed ones and a fresh
/// one.
pub fn seeds(first: u64, least: u64) -> impl Iterator<Item = u64> {
    let began = Instant::now();
    let fresh = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |age| age.as_secs()) << 8;
    println!("fresh seed {fresh}");
    let fixed = (first..).take(usize::try_from(least).expect("a few"));
    fixed
        .chain(fresh..)
        .enumerate()
        .take_while(move |(number, _)| *number as u64 <= least || began.elapsed().as_secs() < seconds())
        .map(|(_, seed)| seed)
}

#[test]
fn some_seeds_are_fresh() {
    assert!(seeds(1, 2).nth(2).is_some_and(|seed| seed > 2));
}
