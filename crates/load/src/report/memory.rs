//! Which results may have come from the memory of a server instead of its media.

use crate::report::units;
use crate::result::{Comparison, ComparisonRow, Measurement, Report};

/// Returns the sizes of what the workload uses and of the memory that it fits: the server's, or that of the client if the
/// server's is not known. What fits may have come from memory, whatever the workload is called.
pub(crate) fn mark(measurement: &Measurement, report: &Report) -> Option<String> {
    let of_client = client_memory(report).map(|memory| ("fits the client's memory", memory));
    let (words, memory) = report.server_memory_bytes.map(|memory| ("in memory", memory)).or(of_client)?;
    fits(measurement.footprint_bytes(), memory)
        .then(|| format!("{words}: {} of {}", working_set(measurement), memory_text(memory)))
}

/// Names the servers of a comparison whose memory the workload of this row fits.
pub(crate) fn mark_compared(row: &ComparisonRow, comparison: &Comparison) -> Option<String> {
    let servers = [("A", comparison.a_memory_bytes), ("B", comparison.b_memory_bytes)];
    let fitting = servers.into_iter().filter_map(|(name, memory)| {
        let memory = memory.filter(|memory| fits(row.footprint_bytes, *memory))?;
        Some(format!("{} of {name}", memory_text(memory)))
    });
    let fitting: Vec<String> = fitting.collect();
    (!fitting.is_empty())
        .then(|| format!("in memory: {} of {}", units::rounded_size(row.footprint_bytes), fitting.join(", ")))
}

/// Nothing fits if nothing is used: a NULL call reads no data.
fn fits(footprint_bytes: u64, memory_bytes: u64) -> bool {
    footprint_bytes > 0 && footprint_bytes < memory_bytes
}

/// Formats the size of what a workload uses; an estimate is marked as one.
pub(crate) fn working_set(measurement: &Measurement) -> String {
    match measurement.footprint_bytes() {
        0 => String::new(),
        exact if exact == measurement.working_set_bytes => units::size(exact),
        estimate => format!("about {}", units::rounded_size(estimate)),
    }
}

/// Formats the size of a memory in whole GiB, since systems report a little less than is installed.
fn memory_text(bytes: u64) -> String {
    units::size(if bytes >> 30 > 0 { bytes >> 30 << 30 } else { bytes })
}

/// Returns the memory of the client; of several, the largest.
fn client_memory(report: &Report) -> Option<u64> {
    let agents = report.agents.iter().map(|agent| agent.memory_bytes);
    if report.agents.is_empty() { report.host.memory_bytes } else { agents.max().flatten() }
}

/// Returns the name of each server, the memory of its machine, and the option that states it.
fn servers(report: &Report) -> Vec<(&'static str, Option<u64>, &'static str)> {
    match &report.comparison {
        Some(it) => vec![
            ("server A", it.a_memory_bytes, "--server-memory-a"),
            ("server B", it.b_memory_bytes, "--server-memory-b"),
        ],
        None => vec![("server", report.server_memory_bytes, "--server-memory")],
    }
}

/// Returns what each workload uses, except those that use nothing.
fn footprints(report: &Report) -> Vec<u64> {
    let rows = report.comparison.iter().flat_map(|it| &it.rows).map(|row| row.footprint_bytes);
    let all = report.results.iter().map(Measurement::footprint_bytes).chain(rows);
    all.filter(|bytes| *bytes > 0).collect()
}

/// Describes the memory of servers and clients, and the working sets beside it.
pub(crate) fn describe(report: &Report) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (name, memory, option) in servers(report) {
        let size = memory.map_or_else(|| format!("not known (give {option})"), memory_text);
        parts.push(format!("{name}: {size}"));
    }
    parts.extend(client_memory(report).map(|memory| format!("client: {}", memory_text(memory))));
    let sizes = footprints(report);
    let is_estimate = report.results.iter().any(|it| it.footprint_bytes() != it.working_set_bytes);
    let about = if is_estimate { "about " } else { "" };
    match (sizes.iter().min(), sizes.iter().max()) {
        (Some(low), Some(high)) if low == high => {
            parts.push(format!("working set: {about}{}", units::rounded_size(*low)))
        }
        (Some(low), Some(high)) => parts.push(format!(
            "working sets: {about}{} to {}",
            units::rounded_size(*low),
            units::rounded_size(*high)
        )),
        _ => {}
    }
    parts.join("; ")
}

/// Says of each server whose memory is not known that results from it cannot be told.
pub(crate) fn unknown(report: &Report) -> Vec<String> {
    if footprints(report).is_empty() {
        return Vec::new();
    }
    let unknown = servers(report).into_iter().filter(|(_, memory, _)| memory.is_none());
    let sentence = |(name, _, option)| {
        format!(
            "The {name}'s memory is not known, so results that came from it are not marked; give {option}."
        )
    };
    unknown.map(sentence).collect()
}
