//! The rows of the main table: workloads and the bounds of their cost.

/// The bound of a row's cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    /// Microseconds of the server's CPU time per operation.
    MicrosecondsPerOperation(f64),
    /// Seconds of the server's CPU time per GiB.
    SecondsPerGib(f64),
}

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Its title in the table.
    pub(super) title: &'static str,
    /// Arguments of `holdfast bench run`, after the target.
    pub(super) arguments: &'static [&'static str],
    /// Virtual threads, each with its own connection and [`DEPTH`] operations in flight.
    pub(super) threads: u32,
    pub(super) bound: Bound,
}

/// Operations in flight on each connection.
pub(super) const DEPTH: u32 = 16;
const CONNECTIONS: u32 = 8;
/// Connections of creates and syncs, so that commits are grouped.
const CONNECTIONS_SYNCED: u32 = 32;

const fn small(
    name: &'static str,
    title: &'static str,
    arguments: &'static [&'static str],
    threads: u32,
    microseconds: f64,
) -> Row {
    Row { name, title, arguments, threads, bound: Bound::MicrosecondsPerOperation(microseconds) }
}

const fn large(
    name: &'static str,
    title: &'static str,
    arguments: &'static [&'static str],
    seconds: f64,
) -> Row {
    Row { name, title, arguments, threads: CONNECTIONS, bound: Bound::SecondsPerGib(seconds) }
}

/// Rows that others are compared with.
pub(super) const NULL: &str = "null";
pub(super) const GETATTR: &str = "getattr";
pub(super) const READ: &str = "read";
pub(super) const SEQUENTIAL_READ: &str = "sequential-read";

/// All rows.
pub(super) const ROWS: &[Row] = &[
    small(NULL, "NULL", &["null"], CONNECTIONS, 1.5),
    small(GETATTR, "GETATTR", &["getattr"], CONNECTIONS, 2.2),
    small("lookup", "LOOKUP", &["lookup"], CONNECTIONS, 2.6),
    small(READ, "READ 4 KiB, cached", &["random", "--working-set", "64MiB"], CONNECTIONS, 3.8),
    small("create-remove", "CREATE + REMOVE, per op", &["create-remove"], CONNECTIONS_SYNCED, 10.0),
    small("write-file-sync", "WRITE 4 KiB FILE_SYNC", &["write-file-sync"], CONNECTIONS_SYNCED, 7.0),
    small("write-commit", "WRITE 4 KiB + COMMIT", &["write-commit"], CONNECTIONS_SYNCED, 11.0),
    large(
        SEQUENTIAL_READ,
        "sequential READ 1 MiB",
        &["sequential-read", "--block", "1MiB", "--working-set", "512MiB"],
        0.12,
    ),
    large(
        "sequential-write",
        "sequential WRITE 1 MiB",
        &["sequential-write", "--block", "1MiB", "--working-set", "512MiB"],
        0.20,
    ),
];

/// Finds a row by name.
pub(super) fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}
