//! What a reader should know before trusting a figure.

use crate::report::units;
use crate::result::{Measurement, Report};

/// Returns the marks of a measurement in a table: short words for its problems.
pub(crate) fn marks(measurement: &Measurement) -> String {
    let mut marks = Vec::new();
    if measurement.interrupted {
        marks.push("interrupted".to_owned());
    }
    if measurement.steady.as_ref().is_some_and(|steady| !steady.reached) {
        marks.push("not steady".to_owned());
    }
    if !measurement.failed_hosts.is_empty() {
        marks.push(format!("hosts failed: {}", measurement.failed_hosts.len()));
    }
    let errors = errors(measurement);
    if errors > 0 {
        marks.push(format!("errors: {}", units::count(errors)));
    }
    if let Some(blocks) = measurement.verified_blocks {
        marks.push(format!("verified: {}", units::count(blocks)));
    }
    marks.join(", ")
}

/// Returns the number of failed operations.
pub(crate) fn errors(measurement: &Measurement) -> u64 {
    measurement.errors.iter().fold(0, |sum, error| sum.saturating_add(error.count))
}

/// Returns all notes about a report, one sentence each.
pub(crate) fn of(report: &Report) -> Vec<String> {
    let results = &report.results;
    let named = |chosen: &dyn Fn(&Measurement) -> bool| {
        let names: Vec<String> = results
            .iter()
            .filter(|it| chosen(it))
            .map(|it| format!("{} (threads: {})", it.name, it.threads))
            .collect();
        enumerate(&names)
    };
    let mut notes = report.notes.clone();
    if let Some(names) = named(&|it| it.interrupted) {
        notes.push(format!("Interrupted, with the result so far: {names}."));
    }
    if let Some(names) = named(&|it| !it.failed_hosts.is_empty()) {
        notes.push(format!("Hosts failed, and the result is that of the others: {names}."));
    }
    if let Some(names) = named(&|it| it.steady.as_ref().is_some_and(|steady| !steady.reached)) {
        notes.push(format!("The rate did not become steady: {names}."));
    }
    if let Some(names) = named(&|it| !it.errors.is_empty()) {
        notes.push(format!("Operations failed, and are not counted in rates: {names}."));
    }
    let above = |it: &Measurement| it.limit.as_ref().is_some_and(|limit| limit.fraction > 1.05);
    if let Some(names) = named(&above) {
        let why =
            "the limit was measured at another moment, with another number of threads, or a cache answered";
        notes.push(format!("Above the limit ({why}): {names}."));
    }
    notes
}

/// Joins the first few names.
fn enumerate(names: &[String]) -> Option<String> {
    const SHOWN: usize = 4;
    let shown = names.get(..SHOWN.min(names.len())).unwrap_or_default();
    let more = names.len() - shown.len();
    let tail = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| format!("{}{tail}", shown.join("; ")))
}
