//! Checks that the figures agree with each other and with ratios computed by hand.

use std::collections::BTreeSet;

use super::{ROWS, System, find};

#[test]
fn ids_are_unique_and_fit_for_a_command_line() {
    let ids: BTreeSet<_> = ROWS.iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), ROWS.len());
    for id in ids {
        assert!(id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{id}");
        assert_eq!(find(id).map(|row| row.id), Some(id));
    }
    assert!(find("no-such-row").is_none());
}

#[test]
fn every_system_has_figures_and_all_are_positive() {
    for system in System::ALL {
        assert!(ROWS.iter().any(|row| row.system == system), "{}", system.name());
    }
    for row in ROWS {
        assert!(row.figure > 0.0 && !row.printed.is_empty() && !row.test.is_empty(), "{}", row.id);
        assert!(row.limit.is_some() || !row.note.is_empty(), "{} says why it has no limit", row.id);
        assert!(row.points.iter().all(|point| point.figure <= row.figure), "{}", row.id);
        assert!(
            row.points.iter().any(|point| point.figure == row.figure) || row.points.is_empty(),
            "{}",
            row.id
        );
    }
}

#[test]
fn fractions_match_those_computed_by_hand() {
    let cases = [
        ("dell-seq-read", 0.965),
        ("dell-seq-write", 0.40),
        ("pixstor-seq-read", 0.987),
        ("pixstor-seq-write", 1.05),
        ("pixstor-shared-read", 0.973),
        ("pixstor-shared-write", 0.996),
        ("anf-8k-uncached-read", 2289.0 / 4500.0),
        ("anf-8k-uncached-write", 867.0 / 4500.0),
        ("anf-64k-cached-write", 0.36),
        ("anf-64k-uncached-read", 0.80),
        ("anf-256k-uncached-write", 0.56),
        ("oci80-1m-read", 79.6 / 80.0),
        ("oci80-1m-write", 1.96),
        ("oci80-32k-read", 4021.0 / 9536.7),
        ("oci20-1m-read", 1.03),
        ("starwind-4k-read", 0.51),
        ("starwind-2m-read", 0.96),
        ("starwind-cache-4k-read", 1.016),
        ("starwind-nvmeof-4k-read", 0.84),
    ];
    for (id, expected) in cases {
        let fraction = find(id).and_then(super::Row::fraction).unwrap();
        assert!((fraction - expected).abs() < 0.006, "{id}: {fraction} and not {expected}");
    }
}

#[test]
fn without_a_limit_there_is_no_fraction() {
    let row = find("dell-mdtest-empty-create").unwrap();
    assert_eq!(row.fraction(), None);
    assert!(row.fractions().is_empty());
}
