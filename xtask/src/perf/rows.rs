//! The rows of the table: workloads, and the bounds of their cost over each protocol.

/// The bound of a row's cost over NFSv3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    /// Microseconds of the server's CPU time per operation.
    MicrosecondsPerOperation(f64),
    /// Seconds of the server's CPU time per GiB.
    SecondsPerGib(f64),
}

/// The protocols that rows are measured over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Nfs3,
    Nfs42,
}

/// All of them, in the order of the table's columns.
pub(super) const PROTOCOLS: [Protocol; 2] = [Protocol::Nfs3, Protocol::Nfs42];

impl Protocol {
    /// Finds a protocol by its name on the command line.
    pub(super) fn find(version: &str) -> Option<Protocol> {
        PROTOCOLS.into_iter().find(|protocol| protocol.version() == version)
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Protocol::Nfs3 => "NFSv3",
            Protocol::Nfs42 => "NFSv4.2",
        }
    }

    pub(super) fn version(self) -> &'static str {
        match self {
            Protocol::Nfs3 => "3",
            Protocol::Nfs42 => "4.2",
        }
    }
}

/// What a row costs at least on this machine, measured in the same round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// A call that does nothing.
    Null,
    /// One thread sends from a fixed buffer.
    Send,
    /// One thread receives into a fixed buffer and writes that to a file.
    Copy,
}

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Its title in the table.
    pub(super) title: &'static str,
    /// Arguments of `holdfast bench run`, after the target.
    arguments: &'static [&'static str],
    /// Virtual threads, each with its own connection and [`DEPTH`] operations in flight.
    pub(super) threads: u32,
    pub(super) bound: Bound,
    /// The bound over NFSv4.2, of that over NFSv3; none if the row has no meaning there.
    pub(super) nfs4_ratio: Option<f64>,
    /// Bound of the cost, of what it costs the peer over the same protocol.
    pub(super) peer_ratio: f64,
    pub(super) limit: Option<Limit>,
    /// Bound of the cost, of the limit.
    pub(super) limit_ratio: Option<f64>,
}

/// Operations in flight on each connection.
pub(super) const DEPTH: u32 = 16;
const CONNECTIONS: u32 = 8;
/// Connections of creates and syncs, so that commits are grouped.
const CONNECTIONS_SYNCED: u32 = 32;

/// Rows that others are compared with.
pub(super) const NULL: &str = "null";
pub(super) const GETATTR: &str = "getattr";
pub(super) const READ: &str = "read";
pub(super) const SEQUENTIAL_READ: &str = "sequential-read";

/// What a COMPOUND about attributes or names may cost, of the NFSv3 call.
const NAMES_RATIO: f64 = 1.7;
/// The same for 4 KiB of data.
const DATA_RATIO: f64 = 1.3;
/// Large transfers may not cost more.
const LARGE_RATIO: f64 = 1.0;

/// What a small operation may cost, of the peer's.
const SMALL_PEER_RATIO: f64 = 1.0 / 3.0;

/// A small operation that costs at most this many microseconds over NFSv3.
const fn small(
    name: &'static str,
    title: &'static str,
    arguments: &'static [&'static str],
    threads: u32,
    microseconds: f64,
    nfs4_ratio: f64,
) -> Row {
    Row {
        name,
        title,
        arguments,
        threads,
        bound: Bound::MicrosecondsPerOperation(microseconds),
        nfs4_ratio: Some(nfs4_ratio),
        peer_ratio: SMALL_PEER_RATIO,
        limit: Some(Limit::Null),
        limit_ratio: None,
    }
}

/// All rows.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: NULL,
        title: "NULL",
        arguments: &["null"],
        threads: CONNECTIONS,
        bound: Bound::MicrosecondsPerOperation(1.5),
        nfs4_ratio: None,
        peer_ratio: SMALL_PEER_RATIO,
        limit: None,
        limit_ratio: None,
    },
    small(GETATTR, "GETATTR", &["getattr"], CONNECTIONS, 2.2, NAMES_RATIO),
    small("lookup", "LOOKUP", &["lookup"], CONNECTIONS, 2.6, NAMES_RATIO),
    small("open-close", "LOOKUP + ACCESS; OPEN + CLOSE", &["open-close"], CONNECTIONS, 4.8, NAMES_RATIO),
    small(READ, "READ 4 KiB, cached", &["random", "--working-set", "64MiB"], CONNECTIONS, 3.8, DATA_RATIO),
    small(
        "create-remove",
        "CREATE + REMOVE; OPEN, CLOSE + REMOVE; per file made or removed",
        &["create-remove"],
        CONNECTIONS_SYNCED,
        10.0,
        NAMES_RATIO,
    ),
    small(
        "write-file-sync",
        "WRITE 4 KiB FILE_SYNC",
        &["write-file-sync"],
        CONNECTIONS_SYNCED,
        7.0,
        DATA_RATIO,
    ),
    small("write-commit", "WRITE 4 KiB + COMMIT", &["write-commit"], CONNECTIONS_SYNCED, 11.0, DATA_RATIO),
    Row {
        name: SEQUENTIAL_READ,
        title: "sequential READ 1 MiB",
        arguments: &["sequential-read", "--block", "1MiB", "--working-set", "512MiB"],
        threads: CONNECTIONS,
        bound: Bound::SecondsPerGib(0.12),
        nfs4_ratio: Some(LARGE_RATIO),
        peer_ratio: 0.5,
        limit: Some(Limit::Send),
        limit_ratio: None,
    },
    Row {
        name: "sequential-write",
        title: "sequential WRITE 1 MiB",
        arguments: &["sequential-write", "--block", "1MiB", "--working-set", "512MiB"],
        threads: CONNECTIONS,
        bound: Bound::SecondsPerGib(0.20),
        nfs4_ratio: Some(LARGE_RATIO),
        peer_ratio: 0.8,
        limit: Some(Limit::Copy),
        limit_ratio: Some(1.5),
    },
];

/// Finds a row by name.
pub(super) fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

impl Row {
    /// Returns the arguments of `holdfast bench run` after the target.
    pub(super) fn arguments(&self, protocol: Protocol) -> Vec<&'static str> {
        match protocol {
            Protocol::Nfs3 => self.arguments.to_vec(),
            Protocol::Nfs42 => [self.arguments, &["--protocol", protocol.version()]].concat(),
        }
    }

    /// Returns the unit of its costs.
    pub(super) fn unit(&self) -> &'static str {
        match self.bound {
            Bound::MicrosecondsPerOperation(_) => " µs",
            Bound::SecondsPerGib(_) => " s/GiB",
        }
    }

    /// Returns the bound of its cost in its unit; none if it is not measured over this protocol.
    pub(super) fn bound(&self, protocol: Protocol) -> Option<f64> {
        let (Bound::MicrosecondsPerOperation(bound) | Bound::SecondsPerGib(bound)) = self.bound;
        match protocol {
            Protocol::Nfs3 => Some(bound),
            Protocol::Nfs42 => self.nfs4_ratio.map(|ratio| ratio * bound),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_but_null_is_measured_over_both_protocols() {
        for row in ROWS {
            assert_eq!(row.bound(Protocol::Nfs42).is_some(), row.name != NULL, "{}", row.name);
            assert!(!row.arguments(Protocol::Nfs3).contains(&"--protocol"));
            assert!(row.arguments(Protocol::Nfs42).ends_with(&["--protocol", "4.2"]));
        }
        assert_eq!(find(GETATTR).unwrap().bound(Protocol::Nfs42), Some(1.7 * 2.2));
    }

    #[test]
    fn protocols_have_the_names_of_the_command_line() {
        assert_eq!(Protocol::find("3"), Some(Protocol::Nfs3));
        assert_eq!(Protocol::find("4.2"), Some(Protocol::Nfs42));
        assert_eq!(Protocol::find("4.1"), None);
    }
}
