//! What event loops count, and how it is added up.

use std::collections::BTreeMap;

use crate::result::{ErrorCount, Histogram, Latency, Phase, new_histogram};
use crate::workload::actor::Cause;

/// Different causes of failure that are counted by themselves.
const CAUSES_MAX: usize = 100;

/// Counts of an interval, a stage or a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) latency: Histogram,
    /// By phase; allocated when the first operation of a phase is counted.
    phases: Vec<Option<PhaseTally>>,
    errors: BTreeMap<String, u64>,
    pub(crate) verified_blocks: u64,
}

#[derive(Clone, Debug)]
struct PhaseTally {
    operations: u64,
    latency: Histogram,
}

impl PhaseTally {
    fn new() -> Self {
        Self { operations: 0, latency: new_histogram() }
    }
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            operations: 0,
            bytes: 0,
            latency: new_histogram(),
            phases: Vec::new(),
            errors: BTreeMap::new(),
            verified_blocks: 0,
        }
    }

    /// An operation, or a call that is counted by itself, as part of a phase.
    #[inline]
    pub(crate) fn phase(&mut self, phase: u8, operations: u64, latency_ns: u64) {
        let phase = usize::from(phase);
        if self.phases.len() <= phase {
            self.phases.resize(phase + 1, None);
        }
        let tally = self.phases[phase].get_or_insert_with(PhaseTally::new);
        tally.operations += operations;
        tally.latency.saturating_record(latency_ns);
    }

    /// An operation that failed.
    pub(crate) fn error(&mut self, cause: &Cause) {
        self.errors_of(cause.to_string(), 1);
    }

    fn errors_of(&mut self, cause: String, count: u64) {
        let known = self.errors.len() < CAUSES_MAX || self.errors.contains_key(&cause);
        *self.errors.entry(if known { cause } else { "other causes".to_owned() }).or_default() += count;
    }

    /// How many operations failed.
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// What failed most often.
    pub(crate) fn errors(&self) -> Vec<ErrorCount> {
        let mut errors: Vec<ErrorCount> = self
            .errors
            .iter()
            .map(|(cause, count)| ErrorCount { cause: cause.clone(), count: *count })
            .collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        errors
    }

    /// Only what failed.
    pub(crate) fn failures_of(other: Self) -> Self {
        Self { errors: other.errors, verified_blocks: other.verified_blocks, ..Self::new() }
    }

    /// Adds what another has counted.
    pub(crate) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.verified_blocks += other.verified_blocks;
        merge(&mut self.latency, &other.latency);
        if self.phases.len() < other.phases.len() {
            self.phases.resize(other.phases.len(), None);
        }
        for (mine, theirs) in self.phases.iter_mut().zip(other.phases) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_with(PhaseTally::new);
            mine.operations += theirs.operations;
            merge(&mut mine.latency, &theirs.latency);
        }
        for (cause, count) in other.errors {
            self.errors_of(cause, count);
        }
    }

    /// The phases that occurred, by their names and how long each took.
    pub(crate) fn phases(&self, names: &[&str], seconds: impl Fn(usize) -> f64) -> Vec<Phase> {
        let counted =
            self.phases.iter().enumerate().filter_map(|(index, tally)| Some((index, tally.as_ref()?)));
        counted
            .map(|(index, tally)| Phase {
                procedure: names.get(index).copied().unwrap_or("OTHER").to_owned(),
                seconds: seconds(index),
                operations: tally.operations,
                operations_per_s: rate(tally.operations, seconds(index)),
                latency: Latency::of(&tally.latency),
            })
            .collect()
    }
}

fn merge(into: &mut Histogram, from: &Histogram) {
    if !from.is_empty() {
        into.add(from).expect("all histograms have the same bounds");
    }
}

/// A count per second; 0 of no time.
pub(crate) fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
