//! The alert rules and the dashboard in `package/`, as far as they can be judged without Prometheus. The chore `cargo xtask e2e
//! metrics` runs their queries.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::registry::{ALL, Kind};

const RULES: &str = include_str!("../../../../../package/prometheus/alerts.yml");
const TESTS_OF_RULES: &str = include_str!("../../../../../package/prometheus/alerts.test.yml");
const DASHBOARD: &str = include_str!("../../../../../package/grafana/holdfast.json");
const METRICS: &str = include_str!("../../../../../docs/metrics.md");
const DOCUMENT: &str = include_str!("../../../../../docs/alerts.md");

/// The words of a text that are names of metrics.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("holdfast_") || word.starts_with("process_")).collect()
}

/// Whether the registry has a metric with a series of this name.
fn is_series(name: &str) -> bool {
    let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
    ALL.iter().any(|family| match family.kind {
        Kind::Histogram => of_histogram == Some(family.name),
        Kind::Counter | Kind::Gauge => family.name == name,
    })
}

/// Whether the agent of a pair has this metric: `node/src/metrics.rs` checks the table.
fn is_of_agent(name: &str) -> bool {
    let is_named = ["holdfast_group_", "holdfast_node_"].iter().any(|prefix| name.starts_with(prefix));
    is_named && METRICS.contains(&format!("\n| `{name}` | "))
}

/// What follows `key` in its lines.
fn values<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(key)).collect()
}

#[test]
fn alerts_and_dashboard_use_only_metrics_that_exist() {
    for text in [RULES, TESTS_OF_RULES, DASHBOARD] {
        let names = metrics(text);
        assert!(names.len() > 15, "{names:?}");
        let unknown: Vec<_> =
            names.into_iter().filter(|name| !is_series(name) && !is_of_agent(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
    assert!(!is_of_agent("holdfast_group_gone") && !is_of_agent("holdfast_up_volumes"));
    assert!(!is_series("holdfast_gone_total") && !is_series("holdfast_io_size_bytes"));
}

#[test]
fn every_alert_is_tested_and_explained() {
    let alerts = values(RULES, "- alert: ");
    assert_eq!(
        values(DOCUMENT, "### "),
        alerts,
        "docs/alerts.md has a section for each alert, in their order"
    );
    let runbooks: Vec<String> =
        alerts.iter().map(|alert| format!("docs/alerts.md#{}", alert.to_lowercase())).collect();
    assert_eq!(values(RULES, "runbook: "), runbooks);
    for alert in alerts {
        let fires = format!("labels: '{{alertname=\"{alert}\"}}', value: 1");
        assert!(TESTS_OF_RULES.contains(&fires), "no test of {alert}");
    }
}

#[test]
fn every_panel_has_a_place_and_queries() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut places = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let place = ["x", "y"].map(|axis| panel["gridPos"][axis].as_u64().unwrap());
        assert!(places.insert(place), "two panels are at {place:?}");
        let queries = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(queries.is_empty(), panel["type"] == "row", "{panel}");
        for query in queries {
            assert!(query["expr"].as_str().is_some_and(|query| !query.is_empty()), "{query}");
        }
    }
}
