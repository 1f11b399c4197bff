//! The counts of event loops.

use std::collections::BTreeMap;

use crate::client::cause::Cause;
use crate::result::{ErrorCount, Histogram, Latency, Phase, new_histogram};

/// Causes of failure that are counted separately.
const CAUSES_MAX: usize = 100;

/// The counts of an interval, a stage or a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) latency: Histogram,
    /// By phase; allocated with the first operation of a phase.
    phases: Vec<Option<PhaseTally>>,
    errors: BTreeMap<String, u64>,
    pub(crate) verified_blocks: u64,
    /// Calls that the server asked to make again later.
    pub(crate) delayed_calls: u64,
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
    /// Returns an empty tally.
    pub(crate) fn new() -> Self {
        Self {
            operations: 0,
            bytes: 0,
            latency: new_histogram(),
            phases: Vec::new(),
            errors: BTreeMap::new(),
            verified_blocks: 0,
            delayed_calls: 0,
        }
    }

    /// Counts an operation of a phase, or a call that a phase counts separately.
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

    /// Counts a failed operation.
    pub(crate) fn error(&mut self, cause: &Cause) {
        self.errors_of(cause.to_string(), 1);
    }

    fn errors_of(&mut self, cause: String, count: u64) {
        let known = self.errors.len() < CAUSES_MAX || self.errors.contains_key(&cause);
        *self.errors.entry(if known { cause } else { "other causes".to_owned() }).or_default() += count;
    }

    /// Returns the number of failed operations.
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Returns the causes of failure, the most frequent one first.
    pub(crate) fn errors(&self) -> Vec<ErrorCount> {
        let mut errors: Vec<ErrorCount> = self
            .errors
            .iter()
            .map(|(cause, count)| ErrorCount { cause: cause.clone(), count: *count })
            .collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        errors
    }

    /// Keeps only failures, verified blocks and delays.
    pub(crate) fn failures_of(other: Self) -> Self {
        let Self { errors, verified_blocks, delayed_calls, .. } = other;
        Self { errors, verified_blocks, delayed_calls, ..Self::new() }
    }

    /// Adds another tally.
    pub(crate) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.verified_blocks += other.verified_blocks;
        self.delayed_calls += other.delayed_calls;
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

    /// Returns the phases that occurred. `names` and `seconds` give each phase's name and length.
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

/// Returns a count per second, or 0 if no time passed.
pub(crate) fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
