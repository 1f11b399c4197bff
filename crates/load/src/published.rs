//! What five published systems measured, as data: for overlays in reports, and for `bench suite published`, which runs the
//! same tests at a scale that fits the machine.
//!
//! Machines differ, so figures are compared as fractions of a limit that each system states for itself (its drives, its
//! network, its service level), never as bare rates. Where a report states no limit there is no fraction, and none is
//! made up. Every figure says where it comes from ([`Source`]); what was computed from a report's figures says so too.

mod rows;

pub use rows::ROWS;

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
    /// All of them, in the order in which reports list them.
    pub const ALL: [System; 5] = [
        System::DellHpcNfs,
        System::Pixstor,
        System::AzureNetAppFiles,
        System::OciFileStorage,
        System::StarWind,
    ];

    /// Its short name.
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

    /// The report that its figures come from.
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
    /// The tag as printed behind figures: `S`, `D` or `=`.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Source::Report => "S",
            Source::Documentation => "D",
            Source::Derived => "=",
        }
    }

    /// What the tag means.
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

/// What was done, in the terms of our own workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Streams, each over its own file or all over one.
    Sequential {
        /// Written, or else read.
        write: bool,
        /// Bytes of a block.
        block_bytes: u64,
        /// One file shared by all (N-1), or else one each (N-N).
        shared_file: bool,
    },
    /// Blocks in no order.
    Random {
        /// Reads of a hundred operations; the others write.
        read_percent: u8,
        /// Bytes of a block.
        block_bytes: u64,
    },
    /// A phase of mdtest.
    Metadata {
        /// The phase, as reports of ours name it: CREATE, STAT, READ or REMOVE.
        procedure: &'static str,
        /// Bytes of each file.
        file_bytes: u64,
    },
}

impl Shape {
    /// Bytes that one operation moves; none for metadata.
    #[must_use]
    pub fn block_bytes(self) -> Option<u64> {
        match self {
            Shape::Sequential { block_bytes, .. } | Shape::Random { block_bytes, .. } => Some(block_bytes),
            Shape::Metadata { .. } => None,
        }
    }
}

/// The limit of its own that a system states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The limit, per second.
    pub figure: f64,
    /// What it counts; bytes may bound operations.
    pub unit: Unit,
    /// What sets it.
    pub what: &'static str,
    /// Where it comes from.
    pub source: Source,
}

/// A point of a published curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Threads that drove it, over all clients.
    pub threads: u32,
    /// The figure there, per second.
    pub figure: f64,
}

/// One published figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// What the suite and reports call it, such as `dell-mdtest-empty-create`.
    pub id: &'static str,
    /// Whose it is.
    pub system: System,
    /// The test, with its tool.
    pub test: &'static str,
    /// TransferSizes, clients and what was done about caches, as far as the report says.
    pub parameters: &'static str,
    /// The corresponding workload of ours.
    pub shape: Shape,
    /// The best figure, per second.
    pub figure: f64,
    /// What it counts.
    pub unit: Unit,
    /// The figure as the report prints it.
    pub printed: &'static str,
    /// Threads at the figure, if the report says.
    pub threads: Option<u32>,
    /// The points that the report gives in numbers; those in charts only are not guessed.
    pub points: &'static [Point],
    /// The limit that it is held against, if there is one.
    pub limit: Option<Limit>,
    /// Where the figure comes from.
    pub source: Source,
    /// What a reader must know, or nothing.
    pub note: &'static str,
}

impl Row {
    /// The figure as a fraction of the system's own limit.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        self.fraction_of(self.figure)
    }

    /// The points as fractions of the system's own limit; empty without one.
    #[must_use]
    pub fn fractions(&self) -> Vec<(u32, f64)> {
        let points = self.points.iter();
        points.filter_map(|point| Some((point.threads, self.fraction_of(point.figure)?))).collect()
    }

    /// Operations count for their bytes where the limit is one of bytes.
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

/// The row with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}

#[cfg(test)]
mod tests;
