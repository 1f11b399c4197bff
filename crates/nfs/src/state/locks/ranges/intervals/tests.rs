use super::*;

impl<O> Intervals<O> {
    /// Checks the order, the levels and the reaches. Returns the number of locks.
    fn check(&self) -> usize {
        fn check<O>(link: &Link<O>, above: &mut Option<Key>) -> usize {
            let Some(node) = link else { return 0 };
            let before = check(&node.left, above);
            assert!(above.is_none_or(|above| above < node.key));
            *above = Some(node.key);
            assert!(levels(&node.left).abs_diff(levels(&node.right)) <= 1);
            before + 1 + check(&node.right, above)
        }
        check(&self.0, &mut None)
    }
}

/// Compares with a list. Locks of one owner may overlap here, which the tree need not know.
#[test]
fn searches_find_what_a_walk_over_all_finds() {
    for seed in 1..60_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let (mut tree, mut list) = (Intervals::default(), std::collections::BTreeMap::new());
        for _ in 0..300 {
            let (first, number) = (next(60), next(4));
            let last = first + next(12);
            if list.remove(&(first, number)).is_some() {
                tree.remove(first, number);
            } else if next(3) > 0 {
                list.insert((first, number), last);
                tree.insert(Range { first, last }, number, number);
            } else {
                tree.remove(first, number);
            }
            assert_eq!(tree.check(), list.len(), "seed {seed}");
            let from = next(60);
            let range = Range { first: from, last: from + next(20) };
            let except = next(5);
            let found: Vec<_> = tree.overlapping(range, Some(except)).collect();
            let expected: Vec<_> = list
                .iter()
                .map(|((first, number), last)| (Range { first: *first, last: *last }, number))
                .filter(|(held, number)| held.overlaps(range) && **number != except)
                .collect();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

/// Steps are counted, not timed: a search goes down once.
#[test]
fn searches_do_not_walk_over_the_locks_of_whoever_asks() {
    const MANY: u64 = 50_000;
    let mut tree = Intervals::default();
    (0..MANY).for_each(|number| tree.insert(Range { first: 2 * number, last: 2 * number }, 1, ()));
    let all = Range { first: 0, last: u64::MAX };
    let mut search = tree.overlapping(all, Some(1));
    assert!(search.path.is_empty() && search.next().is_none());
    tree.insert(Range { first: MANY + 1, last: MANY + 1 }, 2, ());
    let mut search = tree.overlapping(all, Some(1));
    assert!(search.path.len() <= 24);
    assert_eq!(search.next(), Some((Range { first: MANY + 1, last: MANY + 1 }, &())));
    assert!(search.next().is_none());
    assert_eq!(tree.overlapping(all, Some(2)).take(3).count(), 3);
}
