use super::*;

fn delta(id: u64, bytes: i64, inodes: i64) -> UsageDelta {
    UsageDelta { kind: UsageKind::User, id, bytes, inodes }
}

#[test]
fn counters_are_summed_and_only_changed_ones_are_stored() {
    let usage = Usage::default();
    usage.load(UsageKind::User, 1, UsageRecord { bytes: 100, inodes: 2 });
    usage.load(UsageKind::User, 2, UsageRecord { bytes: 7, inodes: 1 });
    usage.apply(&[delta(1, 50, 1), delta(3, 10, 1), delta(1, -150, -3)]);
    assert_eq!(usage.get(UsageKind::User, 1), UsageRecord::default());
    assert_eq!(usage.get(UsageKind::User, 3), UsageRecord { bytes: 10, inodes: 1 });
    assert_eq!(usage.get(UsageKind::Group, 3), UsageRecord::default(), "kinds are counted separately");
    let mut changed = usage.take_changed();
    changed.sort_by(|a, b| a.0.cmp(&b.0));
    let byte = UsageKind::User.byte();
    // A counter that drops to zero is deleted.
    let expected =
        [(key::usage(byte, 1), None), (key::usage(byte, 3), Some(UsageRecord { bytes: 10, inodes: 1 }))];
    assert_eq!(changed, expected);
    assert!(usage.take_changed().is_empty());
    assert_eq!(usage.get(UsageKind::User, 2), UsageRecord { bytes: 7, inodes: 1 });
}
