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
/// Rows that are compared with the copy limit.
pub(super) const SEQUENTIAL_WRITES: [&str; 2] = ["sequential-write", "sequential-write-4.2"];

/// Asks `holdfast bench run` for NFSv4.2.
macro_rules! v4 {
    ($($argument:literal),*) => { &[$($argument,)* "--protocol", "4.2"] };
}

/// What a COMPOUND about attributes or names may cost, of the NFSv3 call.
const NAMES_RATIO: f64 = 1.7;
/// The same for 4 KiB of data. Large transfers may not cost more.
const DATA_RATIO: f64 = 1.3;

const LARGE_READ: &[&str] = &["sequential-read", "--block", "1MiB", "--working-set", "512MiB"];
const LARGE_READ_4: &[&str] = v4!("sequential-read", "--block", "1MiB", "--working-set", "512MiB");
const LARGE_WRITE: &[&str] = &["sequential-write", "--block", "1MiB", "--working-set", "512MiB"];
const LARGE_WRITE_4: &[&str] = v4!("sequential-write", "--block", "1MiB", "--working-set", "512MiB");

/// All rows: those of NFSv4.2 beside those of NFSv3.
pub(super) const ROWS: &[Row] = &[
    small(NULL, "NULL", &["null"], CONNECTIONS, 1.5),
    small(GETATTR, "GETATTR", &["getattr"], CONNECTIONS, 2.2),
    small("getattr-4.2", "NFSv4.2 GETATTR", v4!("getattr"), CONNECTIONS, NAMES_RATIO * 2.2),
    small("lookup", "LOOKUP", &["lookup"], CONNECTIONS, 2.6),
    small("lookup-4.2", "NFSv4.2 LOOKUP", v4!("lookup"), CONNECTIONS, NAMES_RATIO * 2.6),
    small("open-close", "LOOKUP + ACCESS", &["open-close"], CONNECTIONS, 4.8),
    small("open-close-4.2", "NFSv4.2 OPEN + CLOSE", v4!("open-close"), CONNECTIONS, NAMES_RATIO * 4.8),
    small(READ, "READ 4 KiB, cached", &["random", "--working-set", "64MiB"], CONNECTIONS, 3.8),
    small(
        "read-4.2",
        "NFSv4.2 READ 4 KiB, cached",
        v4!("random", "--working-set", "64MiB"),
        CONNECTIONS,
        DATA_RATIO * 3.8,
    ),
    small("create-remove", "CREATE + REMOVE, per op", &["create-remove"], CONNECTIONS_SYNCED, 10.0),
    small(
        "create-remove-4.2",
        "NFSv4.2 OPEN, CLOSE + REMOVE, per file made or removed",
        v4!("create-remove"),
        CONNECTIONS_SYNCED,
        NAMES_RATIO * 10.0,
    ),
    small("write-file-sync", "WRITE 4 KiB FILE_SYNC", &["write-file-sync"], CONNECTIONS_SYNCED, 7.0),
    small(
        "write-file-sync-4.2",
        "NFSv4.2 WRITE 4 KiB FILE_SYNC",
        v4!("write-file-sync"),
        CONNECTIONS_SYNCED,
        DATA_RATIO * 7.0,
    ),
    small("write-commit", "WRITE 4 KiB + COMMIT", &["write-commit"], CONNECTIONS_SYNCED, 11.0),
    small(
        "write-commit-4.2",
        "NFSv4.2 WRITE 4 KiB + COMMIT",
        v4!("write-commit"),
        CONNECTIONS_SYNCED,
        DATA_RATIO * 11.0,
    ),
    large(SEQUENTIAL_READ, "sequential READ 1 MiB", LARGE_READ, 0.12),
    large("sequential-read-4.2", "NFSv4.2 sequential READ 1 MiB", LARGE_READ_4, 0.12),
    large(SEQUENTIAL_WRITES[0], "sequential WRITE 1 MiB", LARGE_WRITE, 0.20),
    large(SEQUENTIAL_WRITES[1], "NFSv4.2 sequential WRITE 1 MiB", LARGE_WRITE_4, 0.20),
];

/// Finds a row by name.
pub(super) fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_nfsv4_is_beside_its_row_of_nfsv3() {
        let mut count = 0;
        for pair in ROWS.windows(2) {
            let [before, row] = pair else { unreachable!("windows of two") };
            let Some(name) = row.name.strip_suffix("-4.2") else { continue };
            count += 1;
            assert_eq!(before.name, name);
            assert_eq!(row.arguments, [before.arguments, &["--protocol", "4.2"]].concat());
            assert_eq!(row.threads, before.threads);
        }
        assert_eq!(2 * count + 1, ROWS.len(), "only NULL is alone");
    }
}
