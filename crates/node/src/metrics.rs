//! What the agent says of itself, in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use crate::status::{GroupStatus, NodeStatus, Phases, State};

pub(crate) mod scrapes;

/// A metric of each group: its name, its type, and a sentence that explains it.
pub struct Family {
    /// The full name.
    pub name: &'static str,
    /// The type, as Prometheus calls it.
    pub kind: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Returns further labels of each of its series, and the value.
    series: fn(&GroupStatus) -> Vec<(String, f64)>,
}

/// All metrics of groups, in the order in which they are shown.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "holdfast_group_state",
        kind: "gauge",
        help: "What the group does on this machine: 1 for its `state`, 0 for the others.",
        series: |group| {
            let series = |state: State| {
                (format!(",state=\"{}\"", state.word()), f64::from(u8::from(group.state == state)))
            };
            State::ALL.map(series).into()
        },
    },
    Family {
        name: "holdfast_group_claim_age_seconds",
        kind: "gauge",
        help: "Seconds since the server last renewed its claim on the data directory; from 2 s on, clients wait. No series without a \
               claim.",
        series: |group| group.claim_age_ms.map(|age| (String::new(), seconds(age))).into_iter().collect(),
    },
    Family {
        name: "holdfast_group_starts_total",
        kind: "counter",
        help: "Times that the group was started on this machine: takeovers, moves, and starts of the cluster.",
        series: |group| plain(group.starts_total),
    },
    Family {
        name: "holdfast_group_server_restarts_total",
        kind: "counter",
        help: "Times that its server ended without being told to.",
        series: |group| plain(group.restarts_total),
    },
    Family {
        name: "holdfast_group_reconnections_total",
        kind: "counter",
        help: "Times that its clients were made to connect again, because the link or the addresses had been gone for a while.",
        series: |group| plain(group.reconnections_total),
    },
    Family {
        name: "holdfast_group_start_seconds",
        kind: "gauge",
        help: "How long each `phase` of the last start took. No series if there was none.",
        series: |group| {
            let series = |(phase, took)| (format!(",phase=\"{phase}\""), seconds(took));
            group.last_start.map(|phases: Phases| phases.named().map(series).into()).unwrap_or_default()
        },
    },
];

/// The metric of the machine.
pub const LINK_UP: (&str, &str, &str) = (
    "holdfast_node_link_up",
    "gauge",
    "Whether the interface that has the addresses of groups has its link.",
);

/// Returns the metrics of a machine.
#[must_use]
pub fn text(status: &NodeStatus) -> String {
    let mut out = String::new();
    let node = &status.node;
    let (name, kind, help) = LINK_UP;
    head(&mut out, name, kind, help);
    // A String takes any text. Names need no escaping: see `config::check_name`.
    let _ = writeln!(out, "{name}{{node=\"{node}\"}} {}", u8::from(status.has_link));
    for family in FAMILIES {
        head(&mut out, family.name, family.kind, family.help);
        for group in &status.groups {
            for (labels, value) in (family.series)(group) {
                let (family, group) = (family.name, &group.name);
                let _ = writeln!(out, "{family}{{node=\"{node}\",group=\"{group}\"{labels}}} {value}");
            }
        }
    }
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn plain(count: u64) -> Vec<(String, f64)> {
    // Prometheus has no other numbers.
    #[expect(clippy::cast_precision_loss, reason = "events that are counted one by one stay far below 2^53")]
    let value = count as f64;
    vec![(String::new(), value)]
}

fn seconds(milliseconds: u64) -> f64 {
    std::time::Duration::from_millis(milliseconds).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> NodeStatus {
        let serving = GroupStatus {
            name: "home".to_owned(),
            state: State::Serving,
            reason: None,
            addresses: Vec::new(),
            pid: Some(7),
            restarts: 1,
            starts_total: 3,
            restarts_total: 2,
            reconnections_total: 1,
            claim_age_ms: Some(120),
            last_start: Some(Phases { claim_ms: 605, open_ms: 69, total_ms: 688, ..Phases::default() }),
        };
        let stopped = GroupStatus {
            name: "other".to_owned(),
            state: State::Stopped,
            claim_age_ms: None,
            last_start: None,
            ..serving.clone()
        };
        NodeStatus { node: "a".to_owned(), has_link: true, groups: vec![serving, stopped] }
    }

    #[test]
    fn groups_have_series_with_their_state_claim_and_phases() {
        let text = text(&status());
        for line in [
            "holdfast_node_link_up{node=\"a\"} 1",
            "# TYPE holdfast_group_state gauge",
            "holdfast_group_state{node=\"a\",group=\"home\",state=\"serving\"} 1",
            "holdfast_group_state{node=\"a\",group=\"home\",state=\"paused\"} 0",
            "holdfast_group_state{node=\"a\",group=\"other\",state=\"stopped\"} 1",
            "holdfast_group_claim_age_seconds{node=\"a\",group=\"home\"} 0.12",
            "holdfast_group_starts_total{node=\"a\",group=\"home\"} 3",
            "holdfast_group_server_restarts_total{node=\"a\",group=\"home\"} 2",
            "holdfast_group_start_seconds{node=\"a\",group=\"home\",phase=\"claim\"} 0.605",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(!text.contains("claim_age_seconds{node=\"a\",group=\"other\""), "{text}");
    }

    #[test]
    fn every_metric_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let document = std::fs::read_to_string(path).unwrap();
        let families = FAMILIES.iter().map(|family| (family.name, family.kind, family.help));
        for (name, kind, help) in families.chain([LINK_UP]) {
            let line = document.lines().find(|line| line.starts_with(&format!("| `{name}` | {kind} |")));
            assert!(line.is_some_and(|line| line.ends_with(&format!("| {help} |"))), "{name}: {help}");
        }
    }
}
