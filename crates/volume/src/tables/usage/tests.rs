use super::*;
use crate::encoding::key::FIRST;

fn delta(id: u64, bytes: i64, inodes: i64) -> UsageDelta {
    UsageDelta { kind: QuotaKind::User, id, bytes, inodes }
}

fn record(bytes: u64, inodes: u64) -> UsageRecord {
    UsageRecord { bytes, inodes }
}

fn of_user(id: u64) -> Counter {
    (FIRST, QuotaKind::User, id)
}

#[test]
fn changes_are_summed_and_those_without_effect_are_forgotten() {
    let (changes, memory) = (UsageChanges::default(), AtomicU64::new(0));
    changes.apply(FIRST, &[delta(3, 10, 1), delta(1, 50, 1), delta(2, 7, 1), delta(1, -150, -3)], &memory);
    changes.apply(FIRST, &[delta(2, -7, -1)], &memory);
    let group = UsageDelta { kind: QuotaKind::Group, ..delta(3, 4, 0) };
    changes.apply(FIRST, &[group], &memory);
    let expected = [
        (of_user(1), UsageChange::By(-100, -2)),
        (of_user(3), UsageChange::By(10, 1)),
        ((FIRST, QuotaKind::Group, 3), UsageChange::By(4, 0)),
    ];
    assert_eq!(changes.sorted(), expected);
    assert_eq!(memory.load(Ordering::Relaxed), 3 * CHANGE_BYTES);
    let keys: Vec<Key> = changes.sorted().iter().map(|(counter, _)| key_of(*counter)).collect();
    assert!(keys.is_sorted());
    assert_eq!(UsageChange::By(-100, -2).of(record(100, 2)), UsageRecord::default());
    assert_eq!(UsageChange::By(-100, 2).of(record(70, 2)), record(0, 4), "it was too low");
    // However many users objects pass through.
    for id in 10..10_000 {
        changes.apply(FIRST, &[delta(id, 5, 1)], &memory);
        changes.apply(FIRST, &[delta(id, -5, -1)], &memory);
    }
    assert_eq!(changes.sorted(), expected);
    assert_eq!(memory.load(Ordering::Relaxed), 3 * CHANGE_BYTES);
}

#[test]
fn what_was_counted_anew_replaces_what_is_stored() {
    let (changes, memory) = (UsageChanges::default(), AtomicU64::new(0));
    changes.apply(FIRST, &[delta(1, 5, 1)], &memory);
    changes.set(of_user(1), record(100, 2));
    changes.apply(FIRST, &[delta(1, 10, 1), delta(1, 0, -3)], &memory);
    assert_eq!(changes.sorted(), [(of_user(1), UsageChange::To(record(110, 0)))]);
    assert_eq!(changes.sorted()[0].1.of(record(7, 7)), record(110, 0));
}

#[test]
fn counters_of_volumes_are_whole() {
    let usage = VolumeUsage::default();
    let of_volume = |bytes, inodes| UsageDelta { kind: QuotaKind::Volume, id: 0, bytes, inodes };
    let other = VolumeNumber(9);
    usage.load(FIRST, record(100, 2));
    usage.apply(FIRST, &[of_volume(50, 1), delta(1, 50, 1)]);
    usage.apply(FIRST, &[of_volume(-10, -1), of_volume(10, 1)]);
    usage.apply(other, &[of_volume(1, 4)]);
    assert_eq!((usage.of(FIRST), usage.of(other), usage.objects()), (record(150, 3), record(1, 4), 7));
    usage.clear(other);
    usage.load(other, record(1, 5));
    let changes = UsageChanges::default();
    usage.write_all_again(&changes);
    let of = |volume| ((volume, QuotaKind::Volume, 0), UsageChange::To(usage.of(volume)));
    assert_eq!(changes.sorted(), [of(FIRST), of(other)]);
}
