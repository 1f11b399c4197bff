//! An agent's share of a measurement.

use crate::client::Server;
use crate::hosts::protocol::Task;
use crate::run::{Connections, Length, Options};
use crate::workload::Workload;

/// Returns the share of agent `part` of `parts`. With more agents than threads, the last agents have none.
pub(super) fn share_of(
    server: &Server,
    workload: &Workload,
    options: &Options,
    part: usize,
    parts: usize,
) -> Option<Task> {
    let (part, parts) = (u32::try_from(part).ok()?, u32::try_from(parts).ok()?);
    let parts = parts.min(options.threads).max(1);
    if part >= parts {
        return None;
    }
    let share = |total: u32| total / parts + u32::from(part < total % parts);
    let threads = share(options.threads);
    let of_threads = |total: u64| total / u64::from(options.threads) * u64::from(threads);
    let (connections, per_thread) = match options.connections {
        Connections::PerThread(each) => (each, true),
        Connections::Total(total) => (share(total).max(1), false),
    };
    let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (length_ms, operations) = match options.length {
        // Phases run once: hosts would not repeat them equally often.
        Length::Time(_) if !workload.is_timed() => (0, Some(1)),
        Length::Time(time) => (milliseconds(time), None),
        Length::Operations(all) => {
            (0, Some(all.div_ceil(u64::from(options.threads)).saturating_mul(u64::from(threads))))
        }
        Length::Steady(_) | Length::Joint(_) => (0, None),
    };
    let steady = match options.length {
        Length::Steady(rule) | Length::Joint(rule) => Some(rule),
        Length::Time(_) | Length::Operations(_) => None,
    };
    Some(Task {
        address: server.address.to_string(),
        export: server.export.clone(),
        protocol: server.protocol,
        uid: server.identity.uid,
        gid: server.identity.gid,
        workload: *workload,
        threads,
        depth: options.depth,
        connections,
        per_thread,
        event_loops: options.event_loops,
        working_set_bytes: of_threads(options.working_set_bytes),
        seed: options.seed.unwrap_or_default().wrapping_add(u64::from(part)),
        warmup_ms: milliseconds(options.warmup),
        length_ms,
        operations,
        steady,
        verify: options.verify,
        keep: options.keep,
        cleanup_ms: milliseconds(options.cleanup),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        let server = Server::parse("127.0.0.1:/x").unwrap();
        let length = Length::Operations(70);
        let options =
            Options { threads: 7, connections: Connections::Total(9), length, ..Options::default() };
        for parts in 1..10 {
            let tasks: Vec<Task> = (0..parts)
                .filter_map(|part| share_of(&server, &Workload::Null, &options, part, parts))
                .collect();
            assert_eq!(tasks.iter().map(|task| task.threads).sum::<u32>(), 7);
            assert_eq!(tasks.iter().filter_map(|task| task.operations).sum::<u64>(), 70);
            let connections = tasks.iter().map(|task| task.connections).sum::<u32>();
            assert_eq!(connections, 9, "{parts}");
            assert!(tasks.iter().all(|task| task.threads > 0));
        }
    }
}
