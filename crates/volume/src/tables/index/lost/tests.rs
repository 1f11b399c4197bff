use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::media::memory::Random;

const KEYS: u8 = 60;

/// Ranges of one-byte keys, and a set that says the same.
fn random_ranges(random: &mut Random) -> (LostRanges, BTreeSet<u8>) {
    let (mut ranges, mut set) = (LostRanges::default(), BTreeSet::new());
    for _ in 0..random.below(12) {
        let bound = |random: &mut Random| u8::try_from(random.below(u64::from(KEYS))).unwrap();
        let (from, to) = (bound(random), bound(random));
        if random.below(3) == 0 {
            ranges.remove(&[from], &[to]);
            set.retain(|key| !(from..to).contains(key));
        } else {
            ranges.add(&[from], &[to]);
            set.extend(from..to);
        }
    }
    (ranges, set)
}

#[test]
fn ranges_are_a_set_of_keys() {
    for seed in 0..300 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (ranges, set) = random_ranges(random);
        for key in 0..KEYS {
            assert_eq!(ranges.covers(&[key]), set.contains(&key));
            let to = u8::try_from(random.below(u64::from(KEYS))).unwrap();
            assert_eq!(ranges.meets(&[key], &[to]), (key..to).any(|key| set.contains(&key)));
        }
        let apart = |pair: &[LostRange]| pair[0].to < pair[1].from;
        assert!(ranges.0.windows(2).all(apart), "{ranges:?}");
        assert!(ranges.iter().all(|range| range.from < range.to), "{ranges:?}");
        assert_eq!(ranges.is_empty(), set.is_empty());
    }
}

#[test]
fn scans_stop_where_they_would_pass_over_a_lost_key() {
    for seed in 0..300 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (ranges, lost) = random_ranges(random);
        let records: BTreeMap<u8, u8> = (0..KEYS).filter(|_| random.below(3) == 0).map(|k| (k, k)).collect();
        let bounds = [0, 1].map(|_| u8::try_from(random.below(u64::from(KEYS))).unwrap());
        let (from, to) = (bounds[0].min(bounds[1]), bounds[0].max(bounds[1]));
        let scan = |visit: Visit<'_>| {
            let _ = records.range(from..to).try_for_each(|(key, value)| visit(&[*key], &[*value]));
            Ok(())
        };
        let max = usize::try_from(random.below(12)).unwrap() + 1;
        // What is absent and not lost is known. Longer keys follow a lost one.
        let unknown = |key: u8| lost.contains(&key) && !records.contains_key(&key);
        let mut all = Vec::new();
        let mut gap = false;
        for key in from..to {
            gap |= unknown(key);
            if records.contains_key(&key) {
                all.extend(gap.then_some(None));
                all.push(Some(key));
                gap = lost.contains(&key);
            }
        }
        all.extend(gap.then_some(None));
        let expected: Vec<u8> = all.iter().map_while(|found| *found).take(max).collect();
        let fails = expected.len() < max && all.contains(&None);
        let mut found = Vec::new();
        let result = ranges.scan((&[from], &[to]), scan, &mut |key, _| {
            found.push(key[0]);
            if found.len() == max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((found, result.is_err()), (expected, fails));

        let mut around = Vec::new();
        ranges
            .scan_around((&[from], &[to]), scan, &mut |found| {
                around.push(match found {
                    Found::Record(key, _) => Some(key[0]),
                    Found::Lost => None,
                });
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(around, all);

        let last = records.range(from..to).next_back();
        let hidden = all.last() == Some(&None);
        let record = last.map(|(key, value)| (vec![*key], vec![*value]));
        let checked = ranges.check_last((&[from], &[to]), record.clone());
        assert_eq!(checked.is_err(), hidden);
        assert_eq!(ranges.check(&[from], records.get(&from)).is_err(), unknown(from));
    }
}
