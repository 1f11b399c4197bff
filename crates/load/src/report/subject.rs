//! The words and units that tables and plots use for a workload.

use crate::published::{Row, Shape, Unit};
use crate::report::units;
use crate::result::{Comparison, ComparisonRow, LimitKind, Limits, Measurement, Report, Target};
use crate::workload::{RateProcedure, Stability, Workload};

/// The kind of a workload; each kind has plots of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    SequentialRead,
    SequentialWrite,
    Random,
    Metadata,
    SmallFiles,
    Calls,
    Readdir,
}

impl Family {
    /// All families, in the order of pages.
    pub(crate) const ALL: [Family; 7] = [
        Family::SequentialRead,
        Family::SequentialWrite,
        Family::Random,
        Family::Metadata,
        Family::SmallFiles,
        Family::Calls,
        Family::Readdir,
    ];

    pub(crate) fn of(workload: &Workload) -> Family {
        match workload {
            Workload::SequentialRead { .. } => Family::SequentialRead,
            Workload::SequentialWrite { .. } => Family::SequentialWrite,
            Workload::Random { .. } => Family::Random,
            Workload::Metadata { .. } => Family::Metadata,
            Workload::SmallFiles { .. } => Family::SmallFiles,
            Workload::Null | Workload::Rate { .. } => Family::Calls,
            Workload::Readdir { .. } => Family::Readdir,
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Family::SequentialRead => "Sequential reads",
            Family::SequentialWrite => "Sequential writes",
            Family::Random => "Random reads and writes",
            Family::Metadata => "Metadata",
            Family::SmallFiles => "Trees of small files",
            Family::Calls => "Single calls",
            Family::Readdir => "Listing directories",
        }
    }

    /// Returns the unit of its rates: bytes for streams, operations for everything else.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Family::SequentialRead | Family::SequentialWrite => Unit::Bytes,
            _ => Unit::Operations,
        }
    }
}

/// Returns the measurement's rate in the unit of its family.
pub(crate) fn rate(measurement: &Measurement) -> f64 {
    match Family::of(&measurement.workload).unit() {
        Unit::Bytes => measurement.bytes_per_s,
        Unit::Operations => measurement.operations_per_s,
    }
}

/// Formats a rate in its unit.
pub(crate) fn rate_text(unit: Unit, rate: f64) -> String {
    match unit {
        Unit::Bytes => units::bytes_per_second(rate),
        Unit::Operations => units::operations(rate),
    }
}

/// Names a workload in a few words that do not depend on the number of threads.
pub(crate) fn label(workload: &Workload) -> String {
    let shared = |shared_file: bool| if shared_file { ", one file" } else { "" };
    match *workload {
        Workload::Null => "NULL".to_owned(),
        Workload::Rate { procedure } => procedure_label(procedure).to_owned(),
        Workload::SequentialRead { block_bytes, shared_file } => {
            format!("Sequential read, {}{}", units::size(block_bytes), shared(shared_file))
        }
        Workload::SequentialWrite { block_bytes, shared_file, stability } => format!(
            "Sequential write, {}{}{}",
            units::size(block_bytes),
            shared(shared_file),
            stability_label(stability)
        ),
        Workload::Random { block_bytes, read_percent, stability } => {
            let block = units::size(block_bytes);
            match read_percent {
                100.. => format!("Random read, {block}"),
                0 => format!("Random write, {block}{}", stability_label(stability)),
                reads => format!("Random {reads}:{}, {block}{}", 100 - reads, stability_label(stability)),
            }
        }
        Workload::Metadata { file_bytes: 0, .. } => "Empty files".to_owned(),
        Workload::Metadata { file_bytes, .. } => format!("Files of {}", units::size(file_bytes)),
        Workload::SmallFiles { file_bytes, .. } => format!("Tree of {} files", units::size(file_bytes)),
        Workload::Readdir { names, plus } => {
            format!(
                "{} of {} names",
                if plus { "READDIRPLUS" } else { "READDIR" },
                units::short(names as f64)
            )
        }
    }
}

fn procedure_label(procedure: RateProcedure) -> &'static str {
    match procedure {
        RateProcedure::Getattr => "GETATTR",
        RateProcedure::Access => "ACCESS",
        RateProcedure::Lookup => "LOOKUP",
        RateProcedure::LookupMissing => "LOOKUP of a missing name",
        RateProcedure::OpenClose => "OPEN and CLOSE",
        RateProcedure::CreateRemove => "CREATE and REMOVE",
        RateProcedure::WriteFileSync => "WRITE 4 KiB, FILE_SYNC",
        RateProcedure::WriteCommit => "WRITE 4 KiB and COMMIT",
    }
}

/// Names the stability of writes unless it is the default.
fn stability_label(stability: Stability) -> &'static str {
    match stability {
        Stability::Unstable => "",
        Stability::Commit => ", COMMIT after each",
        Stability::DataSync => ", DATA_SYNC",
        Stability::FileSync => ", FILE_SYNC",
    }
}

/// Names the failed operations of both servers, if there are any.
pub(crate) fn compared_errors(row: &ComparisonRow) -> Option<String> {
    match (row.a_errors, row.b_errors) {
        (0, 0) => None,
        (a, b) => Some(format!("errors: {} and {}", units::count(a), units::count(b))),
    }
}

/// Describes all parameters of a workload.
pub(crate) fn parameters(workload: &Workload) -> String {
    let files = |per_directory: u64, per_thread: u64, bytes: u64| {
        let size = if bytes == 0 { "empty".to_owned() } else { units::size(bytes) };
        let (files, directories) = (units::count(per_directory), units::count(per_thread));
        format!("{files} files per directory, directories per thread: {directories}, {size}")
    };
    match *workload {
        Workload::Metadata { files_per_directory, directories_per_thread, file_bytes }
        | Workload::SmallFiles { files_per_directory, directories_per_thread, file_bytes } => {
            files(files_per_directory, directories_per_thread, file_bytes)
        }
        Workload::SequentialWrite { stability: Stability::Unstable, .. } => {
            format!("{}; UNSTABLE writes, COMMIT after each pass", label(workload))
        }
        Workload::Random { stability: Stability::Unstable, read_percent: ..100, .. } => {
            format!("{}; UNSTABLE writes, COMMIT at the end", label(workload))
        }
        _ => label(workload),
    }
}

/// Whether TCP was measured within one machine: a limit of its processors and memory, and of no network.
fn is_loopback(report: &Report) -> bool {
    let address = report.target.address.parse::<std::net::SocketAddr>();
    report.limits.tcp_peer.is_none() && address.is_ok_and(|address| address.ip().is_loopback())
}

/// Returns the name of a limit.
pub(crate) fn limit_name(kind: LimitKind, report: &Report) -> &'static str {
    match kind {
        LimitKind::NullCalls => "NULL-call rate",
        LimitKind::TcpLineRate if is_loopback(report) => "loopback TCP rate",
        LimitKind::TcpLineRate => "TCP line rate",
        LimitKind::TcpSentRate => "TCP line rate to the server",
        LimitKind::DirectoryRead => "directory's read rate",
        LimitKind::DirectoryWrite => "directory's write rate",
        LimitKind::DirectorySync => "directory's sync rate",
    }
}

/// Returns a name that fits a column.
pub(crate) fn limit_short_name(kind: LimitKind, report: &Report) -> &'static str {
    match kind {
        LimitKind::NullCalls => "NULL",
        LimitKind::TcpLineRate if is_loopback(report) => "loopback TCP",
        LimitKind::TcpLineRate => "TCP",
        LimitKind::TcpSentRate => "TCP sent",
        LimitKind::DirectoryRead => "dir. reads",
        LimitKind::DirectoryWrite => "dir. writes",
        LimitKind::DirectorySync => "dir. syncs",
    }
}

/// Returns the value of a limit per second and its unit, if it was measured.
pub(crate) fn limit_value(kind: LimitKind, limits: &Limits) -> Option<(f64, Unit)> {
    let directory = limits.directory.as_ref();
    match kind {
        LimitKind::NullCalls => limits.null_calls_per_s.map(|rate| (rate, Unit::Operations)),
        LimitKind::TcpLineRate => limits.tcp_bytes_per_s.map(|rate| (rate, Unit::Bytes)),
        LimitKind::TcpSentRate => limits.tcp_sent_bytes_per_s.map(|rate| (rate, Unit::Bytes)),
        LimitKind::DirectoryRead => directory.map(|it| (it.read_bytes_per_s, Unit::Bytes)),
        LimitKind::DirectoryWrite => directory.map(|it| (it.write_bytes_per_s, Unit::Bytes)),
        LimitKind::DirectorySync => directory.map(|it| (it.syncs_per_s, Unit::Operations)),
    }
}

/// Formats the value of a limit.
pub(crate) fn limit_text(kind: LimitKind, limits: &Limits) -> Option<String> {
    limit_value(kind, limits).map(|(rate, unit)| rate_text(unit, rate))
}

/// Whether a published figure corresponds to a workload: the same kind of access and direction, whatever the sizes.
pub(crate) fn corresponds(workload: &Workload, shape: Shape) -> bool {
    match (*workload, shape) {
        (Workload::SequentialRead { .. }, Shape::Sequential { write, .. }) => !write,
        (Workload::SequentialWrite { .. }, Shape::Sequential { write, .. }) => write,
        (Workload::Random { read_percent: ours, .. }, Shape::Random { read_percent, .. }) => {
            ours == read_percent
        }
        (Workload::Metadata { file_bytes: ours, .. }, Shape::Metadata { file_bytes, .. }) => {
            (ours == 0) == (file_bytes == 0)
        }
        _ => false,
    }
}

/// Names a server: by the user's name for it, or else by its address.
pub(crate) fn target_name(target: &Target) -> String {
    target.label.clone().unwrap_or_else(|| format!("{}:{}", target.address, target.export))
}

/// Names both servers of a comparison, and their protocols if these differ.
pub(crate) fn pair_name(comparison: &Comparison) -> String {
    let Comparison { a, b, .. } = comparison;
    let name = |target: &Target| match a.protocol == b.protocol {
        true => target_name(target),
        false => format!("{}, {}", target_name(target), target.protocol),
    };
    format!("A: {} against B: {}", name(a), name(b))
}

/// Returns the address of a server, with its export and the protocol.
pub(crate) fn target_address(target: &Target) -> String {
    format!("{}:{}, {}", target.address, target.export, target.protocol)
}

/// Parses the unit of a comparison's row.
pub(crate) fn unit_of(name: &str) -> Unit {
    if name.starts_with("bytes") { Unit::Bytes } else { Unit::Operations }
}

/// Formats processor time: per GiB for rates in bytes, else per operation.
pub(crate) fn cost_text(
    unit: Unit,
    ns_per_operation: Option<f64>,
    seconds_per_gib: Option<f64>,
) -> Option<String> {
    match (unit, seconds_per_gib) {
        (Unit::Bytes, Some(seconds)) => Some(format!("{}/GiB", units::nanoseconds(seconds * 1e9))),
        _ => ns_per_operation.map(|ns| format!("{}/op", units::nanoseconds(ns))),
    }
}

/// Returns a measurement in the terms of a published row: its rate as text, and its fraction of our limit.
pub(crate) fn against(measurement: &Measurement, row: &Row, limits: &Limits) -> (String, Option<f64>) {
    if let Shape::Metadata { procedure, .. } = row.shape {
        let phase = measurement.phases.iter().find(|phase| phase.procedure.eq_ignore_ascii_case(procedure));
        let rate = phase.map_or(measurement.operations_per_s, |phase| phase.operations_per_s);
        return (units::operations(rate), phase_fraction(rate, limits));
    }
    let rate = match row.unit {
        Unit::Bytes => measurement.bytes_per_s,
        Unit::Operations => measurement.operations_per_s,
    };
    (rate_text(row.unit, rate), measurement.limit.as_ref().map(|limit| limit.fraction))
}

/// Returns a phase's rate as a fraction of the NULL-call rate, which bounds every call.
pub(crate) fn phase_fraction(rate: f64, limits: &Limits) -> Option<f64> {
    let is_valid = !limits.not_valid.contains(&LimitKind::NullCalls);
    let calls = limits.null_calls_per_s.filter(|calls| *calls > 0.0 && is_valid)?;
    Some(rate / calls)
}
