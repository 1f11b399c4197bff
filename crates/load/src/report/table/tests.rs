//! Columns are aligned and complete.

use super::{Table, render};
use crate::report::tests::sample;

#[test]
fn columns_are_aligned_and_empty_ones_left_out() {
    let mut table = Table::new(&["name", "none", "figure", ""]);
    table.rows.push(vec!["a".to_owned(), String::new(), "1".to_owned(), "note".to_owned()]);
    table.rows.push(vec!["longer µs".to_owned(), String::new(), "1234567".to_owned()]);
    assert_eq!(table.render(), "name        figure\na                1  note\nlonger µs  1234567\n");
}

#[test]
fn every_measurement_has_a_row_with_its_fraction() {
    let report = sample::report();
    let text = render(&report);
    for it in &report.results {
        assert!(text.lines().any(|line| line.starts_with(&it.name)), "{}", it.name);
    }
    for expected in [
        "90.0 % of TCP line rate",
        "caches  The client has none.",
        "host    client-1, cores: 16, Linux 6.12.48; it coordinated the clients\nclient  client-2, cores: 16",
        "limit   NULL calls 640k/s, p50 21.4 µs",
        "not steady",
        "errors: 3",
        "Dell HPC NFS: IOzone 3.492, sequential N-N",
        "3.35 ×",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

/// `bench run` prints this table, so it must contain everything that users act on.
#[test]
fn seeds_causes_of_failures_and_steadiness_are_printed() {
    let report = sample::report();
    let text = render(&report);
    let it =
        report.results.iter().find(|it| it.steady.as_ref().is_some_and(|steady| !steady.reached)).unwrap();
    assert!(text.contains(&it.seed.to_string()) && text.contains("NOT steady: "), "{text}");
    let error = report.results.iter().flat_map(|it| &it.errors).next().unwrap();
    assert!(text.contains(&format!("{} × {}", error.count, error.cause)), "{text}");
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut report = sample::report();
    report.caches = "\u{1b}[2Jgone\r\n".to_owned();
    assert!(render(&report).contains("caches  ?[2Jgone??\n"));
}
