//! Merges the results of several hosts: counts and histograms are added, nothing is averaged.

use crate::error::LoadError;
use crate::result::{ErrorCount, Latency, Measurement, Phase, Sample};
use crate::run::rate;

/// Causes of failure that are kept.
const CAUSES_MAX: usize = 1000;

/// Merges all parts. The time is that of the host that took longest. Samples have no histograms, so their latencies
/// are those of the slowest host.
///
/// # Errors
/// If there is no part, or a part has a malformed histogram.
pub fn merge(parts: &[Measurement]) -> Result<Measurement, LoadError> {
    let Some((first, others)) = parts.split_first() else {
        return Err(LoadError::new("no host has a result"));
    };
    let mut whole = first.clone();
    for part in others {
        whole.threads = whole.threads.saturating_add(part.threads);
        whole.connections = whole.connections.saturating_add(part.connections);
        whole.working_set_bytes = whole.working_set_bytes.saturating_add(part.working_set_bytes);
        whole.depth = whole.depth.min(part.depth);
        whole.slots = match (whole.slots, part.slots) {
            (Some(a), Some(b)) => Some(if a.granted <= b.granted { a } else { b }),
            (a, b) => a.or(b),
        };
        whole.delayed_calls = whole.delayed_calls.saturating_add(part.delayed_calls);
        whole.operations = whole.operations.saturating_add(part.operations);
        whole.bytes = whole.bytes.saturating_add(part.bytes);
        whole.seconds = whole.seconds.max(part.seconds);
        whole.warmup_seconds = whole.warmup_seconds.max(part.warmup_seconds);
        whole.latency = latency(&whole.latency, &part.latency)?;
        whole.interrupted |= part.interrupted;
        whole.verified_blocks = match (whole.verified_blocks, part.verified_blocks) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        errors(&mut whole.errors, &part.errors);
        phases(&mut whole.phases, &part.phases)?;
    }
    whole.operations_per_s = rate(whole.operations, whole.seconds);
    whole.bytes_per_s = rate(whole.bytes, whole.seconds);
    whole.timeline = timeline(parts);
    whole.errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    // These belong to single hosts.
    (whole.steady, whole.server, whole.limit) = (None, None, None);
    Ok(whole)
}

fn latency(a: &Latency, b: &Latency) -> Result<Latency, LoadError> {
    a.merged(b).map_err(|error| LoadError::new(error.to_string()))
}

fn errors(into: &mut Vec<ErrorCount>, from: &[ErrorCount]) {
    for error in from {
        if let Some(known) = into.iter_mut().find(|known| known.cause == error.cause) {
            known.count = known.count.saturating_add(error.count);
        } else if into.len() < CAUSES_MAX {
            into.push(error.clone());
        }
    }
}

fn phases(into: &mut Vec<Phase>, from: &[Phase]) -> Result<(), LoadError> {
    for phase in from {
        let Some(known) = into.iter_mut().find(|known| known.procedure == phase.procedure) else {
            into.push(phase.clone());
            continue;
        };
        known.seconds = known.seconds.max(phase.seconds);
        known.operations = known.operations.saturating_add(phase.operations);
        known.operations_per_s = rate(known.operations, known.seconds);
        known.latency = latency(&known.latency, &phase.latency)?;
    }
    Ok(())
}

/// Adds up the samples of the same moments, until the hosts' moments differ.
fn timeline(parts: &[Measurement]) -> Vec<Sample> {
    let Some(first) = parts.first() else { return Vec::new() };
    let at = |part: &Measurement, index: usize| part.timeline.get(index).cloned();
    let mut whole = Vec::new();
    for (index, sample) in first.timeline.iter().enumerate() {
        let mut sum = Sample { operations_per_s: 0.0, bytes_per_s: 0.0, ..sample.clone() };
        for part in parts {
            let Some(one) = at(part, index).filter(|one| (one.at_s - sample.at_s).abs() <= sample.at_s / 1e3)
            else {
                return whole;
            };
            sum.operations_per_s += one.operations_per_s;
            sum.bytes_per_s += one.bytes_per_s;
            sum.p50_ns = sum.p50_ns.max(one.p50_ns);
            sum.p99_ns = sum.p99_ns.max(one.p99_ns);
        }
        whole.push(sum);
    }
    whole
}
