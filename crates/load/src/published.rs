//! The measurements of five published systems as data: for overlays in reports, and for `bench suite published`,
//! which runs the same tests at a scale that fits the machine.
//!
//! Machines differ, so figures are compared as fractions of a limit that each system states for itself (its drives,
//! its network, its service level), never as bare rates. A report without a limit has no fraction. Every
//! figure names its source ([`Source`]), also if it was computed from other figures.

mod rows;

pub use rows::{ROWS, TIERS};

/// A published system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum System {
    /// Dell Validated Design for HPC NFS Storage: one active server, XFS on a RAID 6 array.
    DellHpcNfs,
    /// Dell pixstor on R750 NVMe nodes (GPFS).
    Pixstor,
    /// Azure NetApp Files, regular volumes.
    AzureNetAppFiles,
    /// Oracle OCI File Storage, high-performance mount targets.
    OciFileStorage,
    /// StarWind Virtual SAN on 12 hosts (block storage).
    StarWind,
}

impl System {
    /// All systems, in the order of reports.
    pub const ALL: [System; 5] = [
        System::DellHpcNfs,
        System::Pixstor,
        System::AzureNetAppFiles,
        System::OciFileStorage,
        System::StarWind,
    ];

    /// Returns the short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            System::DellHpcNfs => "Dell HPC NFS",
            System::Pixstor => "Dell pixstor",
            System::AzureNetAppFiles => "Azure NetApp Files",
            System::OciFileStorage => "OCI File Storage",
            System::StarWind => "StarWind VSAN",
        }
    }

    /// Returns the title of the report.
    #[must_use]
    pub fn report(self) -> &'static str {
        match self {
            System::DellHpcNfs => "Dell Validated Design for HPC NFS Storage, performance report",
            System::Pixstor => "Dell pixstor storage on PowerEdge R750 NVMe nodes, performance report",
            System::AzureNetAppFiles => {
                "Azure NetApp Files performance benchmarks for Linux, regular volumes"
            }
            System::OciFileStorage => {
                "OCI File Storage with high-performance mount targets, performance report"
            }
            System::StarWind => "StarWind Virtual SAN on 12 hosts, IOPS records in four stages",
        }
    }
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The published report itself.
    Report,
    /// Official documentation.
    Documentation,
    /// Arithmetic on figures of the other kinds.
    Derived,
}

impl Source {
    /// Returns the tag printed after figures: `S`, `D` or `=`.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Source::Report => "S",
            Source::Documentation => "D",
            Source::Derived => "=",
        }
    }

    /// Returns the meaning of the tag.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Source::Report => "the published report itself",
            Source::Documentation => "official documentation",
            Source::Derived => "arithmetic on those",
        }
    }
}

/// What a figure counts, per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes per second.
    Bytes,
    /// Operations per second.
    Operations,
}

/// The kind of a published test, in terms of our workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Sequential streams.
    Sequential {
        /// Whether they write instead of read.
        write: bool,
        /// Bytes per operation.
        block_bytes: u64,
        /// Whether all streams share one file (N-1) instead of one each (N-N).
        shared_file: bool,
    },
    /// Random offsets.
    Random {
        /// The percentage of operations that read.
        read_percent: u8,
        /// Bytes per operation.
        block_bytes: u64,
    },
    /// A phase of mdtest.
    Metadata {
        /// The phase as our reports name it: CREATE, STAT, READ or REMOVE.
        procedure: &'static str,
        /// Bytes per file.
        file_bytes: u64,
    },
}

impl Shape {
    /// Returns the bytes that one operation moves. Returns none for metadata.
    #[must_use]
    pub fn block_bytes(self) -> Option<u64> {
        match self {
            Shape::Sequential { block_bytes, .. } | Shape::Random { block_bytes, .. } => Some(block_bytes),
            Shape::Metadata { .. } => None,
        }
    }
}

/// A tier of rates that a system sells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tier {
    /// Its name.
    pub name: &'static str,
    /// The system.
    pub system: System,
    /// Bytes that may be read a second.
    pub read_bytes_per_s: u64,
    /// Bytes that may be written a second.
    pub write_bytes_per_s: u64,
}

/// A limit that a system states for itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The limit, per second.
    pub figure: f64,
    /// What the limit counts. A limit in bytes may bound operations.
    pub unit: Unit,
    /// What sets the limit.
    pub what: &'static str,
    /// Where it comes from.
    pub source: Source,
}

/// A point of a published curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Threads on all clients together.
    pub threads: u32,
    /// The figure at that number of threads, per second.
    pub figure: f64,
}

/// One published figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The name in the suite and in reports, such as `dell-mdtest-empty-create`.
    pub id: &'static str,
    /// The measured system.
    pub system: System,
    /// The test and its tool.
    pub test: &'static str,
    /// Sizes, clients and the treatment of caches, as far as the report states them.
    pub parameters: &'static str,
    /// The corresponding kind of workload.
    pub shape: Shape,
    /// The best figure, per second.
    pub figure: f64,
    /// What it counts.
    pub unit: Unit,
    /// The figure as the report prints it.
    pub printed: &'static str,
    /// The number of threads at the figure, if the report states it.
    pub threads: Option<u32>,
    /// The points that the report gives in numbers. Points shown only in charts are not estimated.
    pub points: &'static [Point],
    /// The limit for comparison, if the system states one.
    pub limit: Option<Limit>,
    /// Where the figure comes from.
    pub source: Source,
    /// What a reader should know, or nothing.
    pub note: &'static str,
}

impl Row {
    /// Returns the figure as a fraction of the system's limit.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        self.fraction_of(self.figure)
    }

    /// Returns the points as fractions of the system's limit. Empty without a limit.
    #[must_use]
    pub fn fractions(&self) -> Vec<(u32, f64)> {
        let points = self.points.iter();
        points.filter_map(|point| Some((point.threads, self.fraction_of(point.figure)?))).collect()
    }

    /// Converts operations to bytes if the limit is in bytes, and the reverse.
    fn fraction_of(&self, figure: f64) -> Option<f64> {
        let limit = self.limit?;
        let scale = match (self.unit, limit.unit) {
            (Unit::Bytes, Unit::Bytes) | (Unit::Operations, Unit::Operations) => 1.0,
            (Unit::Operations, Unit::Bytes) => self.shape.block_bytes()? as f64,
            (Unit::Bytes, Unit::Operations) => 1.0 / self.shape.block_bytes()? as f64,
        };
        Some(figure * scale / limit.figure)
    }
}

/// Returns the row with this ID.
#[must_use]
pub fn find(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}

#[cfg(test)]
mod tests;
