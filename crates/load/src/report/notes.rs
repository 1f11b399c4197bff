//! What a reader should know before trusting a figure.

use crate::report::{memory, subject, units};
use crate::result::{Measurement, Report};

/// Returns the marks of a measurement in a table: short words for its problems.
pub(crate) fn marks(measurement: &Measurement, report: &Report) -> String {
    let mut marks: Vec<String> = memory::mark(measurement, report).into_iter().collect();
    if measurement.interrupted {
        marks.push("interrupted".to_owned());
    }
    if let Some(slots) = measurement.slots.filter(|slots| slots.are_few()) {
        marks.push(format!(
            "slots: {} of {}",
            units::count(slots.granted.into()),
            units::count(slots.wanted.into())
        ));
    }
    if measurement.delayed_calls > 0 {
        marks.push(format!("delayed: {}", units::count(measurement.delayed_calls)));
    }
    if measurement.steady.as_ref().is_some_and(|steady| !steady.reached) {
        marks.push("not steady".to_owned());
    }
    if !measurement.failed_hosts.is_empty() {
        marks.push(format!("hosts failed: {}", measurement.failed_hosts.len()));
    }
    let errors = measurement.failed_operations();
    if errors > 0 {
        marks.push(format!("errors: {}", units::count(errors)));
    }
    if let Some(blocks) = measurement.verified_blocks {
        marks.push(format!("verified: {}", units::count(blocks)));
    }
    marks.join(", ")
}

/// Returns all notes about a report, one sentence each.
pub(crate) fn of(report: &Report) -> Vec<String> {
    let results = &report.results;
    let named = |chosen: &dyn Fn(&Measurement) -> bool| {
        let chosen: Vec<&Measurement> = results.iter().filter(|it| chosen(it)).collect();
        if chosen.len() > 1 && chosen.len() == results.len() {
            return Some(format!("all {} measurements", chosen.len()));
        }
        let names = chosen.iter().map(|it| format!("{} (threads: {})", it.name, it.threads));
        enumerate(&names.collect::<Vec<String>>())
    };
    let mut notes = report.notes.clone();
    if let Some(names) = named(&|it| it.interrupted) {
        notes.push(format!("Interrupted, with the result so far: {names}."));
    }
    if let Some(names) = named(&|it| it.slots.is_some_and(|slots| slots.are_few())) {
        notes.push(format!(
            "The server granted fewer slots per session than there were calls, so fewer were in flight, or calls waited for a \
             slot: {names}."
        ));
    }
    if let Some(names) = named(&|it| it.delayed_calls > 0) {
        notes.push(format!(
            "The server asked for some calls to be made again later; latencies include the wait: {names}."
        ));
    }
    if let Some(names) = named(&|it| !it.failed_hosts.is_empty()) {
        notes.push(format!("Hosts failed, and the result is that of the others: {names}."));
    }
    for it in results {
        let Some(steady) = &it.steady else { continue };
        let (word, [spread, slope]) = (
            if steady.reached { "Steady" } else { "NOT steady" },
            [steady.spread, steady.slope].map(units::percent),
        );
        let window_s = steady.window_s;
        notes.push(format!(
            "{word}: {} (threads: {}), spread {spread}, slope {slope} over {window_s:.1} s.",
            it.name, it.threads
        ));
    }
    if let Some(names) = named(&|it| !it.errors.is_empty()) {
        let causes = results.iter().flat_map(|it| &it.errors);
        let causes: Vec<String> =
            causes.map(|error| format!("{} × {}", units::count(error.count), error.cause)).collect();
        notes.push(format!("Operations failed, and are not counted in rates: {names}."));
        notes.extend(enumerate(&causes).map(|causes| format!("Failed: {causes}.")));
    }
    for kind in &report.limits.not_valid {
        let value = subject::limit_text(*kind, &report.limits).unwrap_or_default();
        let name = subject::limit_name(*kind, report);
        notes.push(format!(
            "Not valid as a limit, since a result is more than 5 % above it: {name}, {value}."
        ));
    }
    if let Some(names) =
        named(&|it| report.server_memory_bytes.is_some() && memory::mark(it, report).is_some())
    {
        notes.push(format!(
            "The working set fits the memory of the server, which may not have used its media: {names}."
        ));
    }
    notes.extend(memory::unknown(report));
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
