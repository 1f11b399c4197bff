use super::*;

impl Owner for u32 {
    fn number(&self) -> u64 {
        u64::from(*self)
    }

    fn origin(&self) -> IpAddr {
        IpAddr::from([192, 0, 2, (*self % 3).to_le_bytes()[0]])
    }
}

fn range(first: u64, last: u64) -> Range {
    Range { first, last }
}

impl Ranges<u32> {
    fn set(&mut self, owner: u32, first: u64, last: u64, kind: Option<LockKind>) {
        let change = self.plan(&owner, range(first, last), kind);
        self.apply(&change);
    }

    fn shown(&self, owner: u32) -> Vec<(u64, u64, LockKind)> {
        self.of(&owner).map(|lock| (lock.range.first, lock.range.last, lock.kind)).collect()
    }
}

use LockKind::{Read, Write};

#[test]
fn lengths_make_ranges_unless_empty_or_too_long() {
    assert_eq!(Range::new(5, 0), None);
    assert_eq!(Range::new(5, 1), Some(range(5, 5)));
    assert_eq!(Range::new(5, u64::MAX), Some(range(5, u64::MAX)));
    assert_eq!(Range::new(100, u64::MAX - 1), None);
    assert_eq!(Range::new(1, u64::MAX - 1), Some(range(1, u64::MAX - 1)));
    assert_eq!(range(5, u64::MAX).length(), u64::MAX);
    assert_eq!(range(5, 9).length(), 5);
}

#[test]
fn unlocking_the_middle_splits() {
    let mut locks = Ranges::default();
    locks.set(1, 0, 99, Some(Write));
    locks.set(1, 40, 59, None);
    assert_eq!(locks.shown(1), [(0, 39, Write), (60, 99, Write)]);
}

#[test]
fn only_neighbours_of_the_same_kind_are_joined() {
    let mut locks = Ranges::default();
    locks.set(1, 25, 99, Some(Write));
    locks.set(1, 50, 124, Some(Write));
    assert_eq!(locks.shown(1), [(25, 124, Write)]);
    locks.set(1, 125, 130, Some(Read));
    locks.set(2, 0, 10, Some(Write));
    assert_eq!(locks.shown(1), [(25, 124, Write), (125, 130, Read)]);
    locks.set(1, 20, 24, Some(Write));
    assert_eq!(locks.shown(1), [(20, 124, Write), (125, 130, Read)]);
    assert_eq!(locks.shown(2), [(0, 10, Write)]);
}

#[test]
fn part_of_a_lock_can_change_its_kind() {
    let mut locks = Ranges::default();
    locks.set(1, 0, u64::MAX, Some(Read));
    locks.set(1, 10, 19, Some(Write));
    assert_eq!(locks.shown(1), [(0, 9, Read), (10, 19, Write), (20, u64::MAX, Read)]);
    locks.set(1, 10, 19, Some(Read));
    assert_eq!(locks.shown(1), [(0, u64::MAX, Read)]);
}

#[test]
fn ranges_work_at_both_ends_of_64_bits() {
    let mut locks = Ranges::default();
    locks.set(1, 0, u64::MAX, Some(Write));
    locks.set(1, 0, 0, None);
    locks.set(1, u64::MAX, u64::MAX, None);
    assert_eq!(locks.shown(1), [(1, u64::MAX - 1, Write)]);
    assert!(locks.conflict(Some(&2), range(0, 0), Write).is_none());
    assert!(locks.conflict(Some(&2), range(0, 1), Read).is_some());
    assert!(locks.conflict(Some(&2), range(u64::MAX, u64::MAX), Read).is_none());
}

#[test]
fn locking_a_locked_range_changes_nothing() {
    let mut locks = Ranges::default();
    locks.set(1, 10, 20, Some(Write));
    let change = locks.plan(&1, range(10, 20), Some(Write));
    assert!(change.removed.is_empty() && change.added.is_empty());
}

/// Compares with an array that has one cell per byte.
#[test]
fn random_changes_agree_with_a_map_of_bytes() {
    const BYTES: u64 = 40;
    let mut most = 0;
    for seed in 0..200_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut locks = Ranges::default();
        let mut bytes = vec![[None; 3]; usize::try_from(BYTES).unwrap()];
        for _ in 0..60 {
            let owner = next(3);
            // Many short ranges, or few long ones.
            let length = if seed % 2 == 0 { 3 } else { BYTES };
            let first = next(BYTES);
            let last = (first + next(length)).min(BYTES - 1);
            let kind = [None, Some(Read), Some(Write)][usize::try_from(next(3)).unwrap()];
            let at = usize::try_from(owner).unwrap();
            let cells = usize::try_from(first).unwrap()..=usize::try_from(last).unwrap();
            let blocked = kind.is_some_and(|kind| {
                bytes[cells.clone()].iter().any(|cell: &[Option<LockKind>; 3]| {
                    (0..3).any(|other| other != at && cell[other].is_some_and(|held| held.conflicts(kind)))
                })
            });
            let owner = u32::try_from(owner).unwrap();
            let conflict = kind.and_then(|kind| locks.conflict(Some(&owner), range(first, last), kind));
            assert_eq!(conflict.is_some(), blocked, "seed {seed}");
            if blocked {
                continue;
            }
            locks.set(owner, first, last, kind);
            most = most.max(locks.len());
            bytes[cells].iter_mut().for_each(|cell| cell[at] = kind);
            for (at, owner) in (0..3).enumerate() {
                let mut expected: Vec<(u64, u64, LockKind)> = Vec::new();
                for (byte, cell) in (0..).zip(&bytes) {
                    let Some(kind) = cell[at] else { continue };
                    match expected.last_mut() {
                        Some(run) if run.1 + 1 == byte && run.2 == kind => run.1 = byte,
                        _ => expected.push((byte, byte, kind)),
                    }
                }
                assert_eq!(locks.shown(owner), expected, "seed {seed}");
                let extent = expected.first().zip(expected.last()).map(|(one, other)| range(one.0, other.1));
                assert_eq!(locks.extent(&owner), extent, "seed {seed}");
                let (held, wanted) = (|run: &(u64, u64, LockKind)| range(run.0, run.1), range(first, last));
                let overlaps = expected.iter().any(|run| held(run).overlaps(wanted));
                assert_eq!(locks.has_any(&owner, wanted), overlaps, "seed {seed}");
                let covering = expected.iter().find(|run| run.0 <= first && last <= run.1);
                assert_eq!(locks.covering(&owner, wanted).map(|lock| lock.range), covering.map(held));
            }
        }
    }
    assert!(most > 2 * FEW_MAX, "{most} at most");
}

#[test]
fn many_ranges_become_few_again() {
    let mut locks = Ranges::default();
    for number in 0..100 {
        locks.set(1, 2 * number, 2 * number, Some(if number % 2 == 0 { Read } else { Write }));
    }
    locks.set(1, 6, u64::MAX, None);
    assert!(matches!(locks.0.as_deref(), Some(Locks::Few(_))), "tables take a kilobyte");
    assert_eq!(locks.shown(1), [(0, 0, Read), (2, 2, Write), (4, 4, Read)]);
}

/// As many as a file may have: comparing each with each would take minutes.
#[test]
fn many_ranges_are_freed_at_once() {
    const MANY: u64 = 64 << 10;
    let mut ranges = Ranges::default();
    let added = (0..MANY).map(|number| Lock { range: range(2 * number, 2 * number), kind: Write, owner: 1 });
    ranges.apply(&Change { removed: Vec::new(), added: added.collect() });
    ranges.set(2, 1, 1, Some(Write));
    ranges.set(1, 0, u64::MAX, None);
    assert_eq!((ranges.len(), ranges.shown(2)), (1, vec![(1, 1, Write)]));
}

/// Every owner shares the whole file, and each looks for what would keep it from locking the file exclusively.
#[test]
fn many_owners_find_conflicts_at_once() {
    const MANY: u32 = 20_000;
    let mut ranges = Ranges::default();
    for owner in 0..MANY {
        ranges.set(owner, 0, u64::MAX, Some(Read));
        ranges.set(owner, u64::from(owner), u64::from(owner), None);
    }
    let all = range(0, u64::MAX);
    for owner in 0..MANY {
        assert!(ranges.conflict(Some(&owner), all, Read).is_none());
        assert!(ranges.conflict(Some(&owner), all, Write).is_some_and(|lock| lock.owner != owner));
    }
    (0..MANY).for_each(|owner| ranges.set(owner, 0, u64::MAX, None));
    assert!(ranges.is_empty());
}
