//! What the tests of the simulation share: seeds and time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds that each test may take, from `HOLDFAST_SIM_SECONDS`.
pub fn seconds() -> u64 {
    std::env::var("HOLDFAST_SIM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Fixed seeds from `first` on, at least one fresh one among the first few, as long as there is time; `least` of them in
/// any case.
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
