//! Groups measurements that differ only in their number of threads, and mixes that differ only in their share of
//! reads.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::subject::{self, Family};
use crate::result::{Measurement, Report};
use crate::workload::{Stability, Workload};

/// One workload over ascending numbers of threads.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    pub(crate) label: String,
    pub(crate) steps: Vec<&'a Measurement>,
}

impl<'a> Series<'a> {
    /// Returns the measurement with the highest rate.
    pub(crate) fn best(&self) -> Option<&'a Measurement> {
        self.steps.iter().copied().max_by(|a, b| subject::rate(a).total_cmp(&subject::rate(b)))
    }
}

/// Returns the series of a family, ordered by their first measurement. The label names depth or working set where the
/// workload alone would be ambiguous.
pub(crate) fn of_family(report: &Report, family: Family) -> Vec<Series<'_>> {
    let mut found: Vec<(Key, Series<'_>)> = Vec::new();
    for measurement in report.results.iter().filter(|it| Family::of(&it.workload) == family) {
        let key = Key::of(measurement);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, series)) => series.steps.push(measurement),
            None => {
                let label = subject::label(&measurement.workload);
                found.push((key, Series { label, steps: vec![measurement] }));
            }
        }
    }
    type Seen = (BTreeSet<u32>, BTreeSet<u64>);
    let mut labels: BTreeMap<String, Seen> = BTreeMap::new();
    for (key, series) in &found {
        let (depths, sets) = labels.entry(series.label.clone()).or_default();
        depths.insert(key.depth);
        sets.insert(key.working_set_bytes);
    }
    for (key, series) in &mut found {
        series.steps.sort_by_key(|it| it.threads);
        let Some((depths, sets)) = labels.get(&series.label) else { continue };
        if depths.len() > 1 {
            series.label = format!("{}, depth {}", series.label, key.depth);
        }
        if sets.len() > 1 {
            series.label =
                format!("{}, {} in all", series.label, crate::report::units::size(key.working_set_bytes));
        }
    }
    found.into_iter().map(|(_, series)| series).collect()
}

/// What the measurements of a series have in common.
#[derive(PartialEq)]
struct Key {
    /// The workload without the parameters that scale with threads.
    workload: Workload,
    depth: u32,
    working_set_bytes: u64,
}

impl Key {
    fn of(measurement: &Measurement) -> Key {
        let mut workload = measurement.workload;
        // Published metadata tests use fewer directories per thread with more threads.
        if let Workload::Metadata { directories_per_thread, .. }
        | Workload::SmallFiles { directories_per_thread, .. } = &mut workload
        {
            *directories_per_thread = 0;
        }
        Key { workload, depth: measurement.depth, working_set_bytes: measurement.working_set_bytes }
    }
}

/// Random workloads that differ only in their share of reads, with at least three shares.
#[derive(Debug)]
pub(crate) struct Mix<'a> {
    pub(crate) label: String,
    /// The measurements by ascending share of reads.
    pub(crate) steps: Vec<(u8, &'a Measurement)>,
}

/// Returns the mixes of a report: for each block size, stability and depth, the number of threads with the most
/// shares.
pub(crate) fn mixes(report: &Report) -> Vec<Mix<'_>> {
    type Kind = (u64, u8, u32, u64);
    let mut found: BTreeMap<Kind, BTreeMap<u32, BTreeMap<u8, &Measurement>>> = BTreeMap::new();
    for measurement in &report.results {
        if let Workload::Random { block_bytes, read_percent, stability } = measurement.workload {
            let set = measurement.working_set_bytes;
            let kind = (block_bytes, stability_rank(stability), measurement.depth, set);
            let steps = found.entry(kind).or_default().entry(measurement.threads).or_default();
            let best = steps.entry(read_percent.min(100)).or_insert(measurement);
            if measurement.operations_per_s > best.operations_per_s {
                *best = measurement;
            }
        }
    }
    let fullest = found.into_iter().filter_map(|((block, _, _, set), threads)| {
        let (threads, steps) = threads.into_iter().max_by_key(|(_, steps)| steps.len())?;
        let [block, set] = [block, set].map(crate::report::units::size);
        let label = format!("{block} of {set}, threads: {threads}");
        (steps.len() >= 3).then(|| Mix { label, steps: steps.into_iter().collect() })
    });
    fullest.collect()
}

/// Whether a measurement lies between pure reads and pure writes in one of these mixes.
pub(crate) fn in_a_mix(mixes: &[Mix<'_>], measurement: &Measurement) -> bool {
    let mut steps = mixes.iter().flat_map(|mix| &mix.steps);
    steps.any(|(share, it)| (1..100).contains(share) && std::ptr::eq(*it, measurement))
}

fn stability_rank(stability: Stability) -> u8 {
    match stability {
        Stability::Unstable => 0,
        Stability::Commit => 1,
        Stability::DataSync => 2,
        Stability::FileSync => 3,
    }
}
