//! What was measured, as data: the schema of `--json`. Names of numbers end in their SI unit (`_s`, `_ns`, `_bytes`,
//! `_per_s`); a schema number stands in front, and grows when a member changes its meaning or goes away.

use serde::{Deserialize, Serialize};

use crate::workload::Workload;

mod latency;

pub use latency::{Histogram, LATENCY_MAX_NS, Latency, LatencyError, new_histogram};

/// The schema that this version writes.
pub const SCHEMA: u32 = 1;

/// All that one invocation measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Who measured: `holdfast bench` and its version.
    pub tool: String,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// What was measured.
    pub target: Target,
    /// The machine that measured, or coordinated.
    pub host: Host,
    /// The client hosts, if there were several.
    pub agents: Vec<Host>,
    /// What the machine can do at best.
    pub limits: Limits,
    /// Which caches stood between the client and the media, as declared by whoever measured.
    pub caches: String,
    /// The measurements, in the order in which they were made.
    pub results: Vec<Measurement>,
    /// Two targets against each other.
    pub comparison: Option<Comparison>,
    /// What a reader must know about the run, such as tests that failed or client hosts that were lost.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Report {
    /// A report without results yet.
    #[must_use]
    pub fn new(target: Target, host: Host, caches: String, started_unix_s: u64) -> Self {
        Self {
            schema: SCHEMA,
            tool: concat!("holdfast bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            started_unix_s,
            target,
            host,
            agents: Vec::new(),
            limits: Limits::default(),
            caches,
            results: Vec::new(),
            comparison: None,
            notes: Vec::new(),
        }
    }
}

/// A server and its export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Address and port of its NFS service.
    pub address: String,
    /// The path of the export.
    pub export: String,
    /// What people call it.
    pub label: Option<String>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Processors that this program may use.
    pub cores: u32,
    /// Operating system and version.
    pub kernel: String,
}

/// What the same machine, network and client code can do at best. What was not measured is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// NULL calls answered by the same server, per second.
    pub null_calls_per_s: Option<f64>,
    /// The median latency of a NULL call with one in flight, in nanoseconds.
    pub null_p50_ns: Option<u64>,
    /// Bytes per second through TCP, received by the hosts that measure.
    pub tcp_bytes_per_s: Option<f64>,
    /// The same, sent by them.
    #[serde(default)]
    pub tcp_sent_bytes_per_s: Option<f64>,
    /// The agent at the other end of TCP; without one, both ends were on this machine.
    #[serde(default)]
    pub tcp_peer: Option<String>,
    /// A directory of the server, measured without the server.
    pub directory: Option<DirectoryLimits>,
}

/// What a directory's file system and device can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectoryLimits {
    /// The directory.
    pub path: String,
    /// Sequential reads around the page cache where the file system lets them.
    pub read_bytes_per_s: f64,
    /// Sequential writes, with a sync at the end.
    pub write_bytes_per_s: f64,
    /// Writes of 4 KiB with a sync after each.
    pub syncs_per_s: f64,
    /// The median of such a write and its sync, in nanoseconds.
    pub sync_p50_ns: u64,
}

/// One workload at one number of threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The workload in a few words, such as `random 4 KiB 70:30`.
    pub name: String,
    /// The workload.
    pub workload: Workload,
    /// Virtual threads.
    pub threads: u32,
    /// Operations that each of them has in flight.
    pub depth: u32,
    /// TCP connections of all threads together.
    pub connections: u32,
    /// Where the random numbers began.
    pub seed: u64,
    /// Bytes of files that are read and written, of all threads together; 0 for workloads without any.
    #[serde(default)]
    pub working_set_bytes: u64,
    /// How long was measured; of a workload in phases, all its phases together.
    pub seconds: f64,
    /// What went before and is not part of the result.
    pub warmup_seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes of file data that they moved.
    pub bytes: u64,
    /// What failed, by cause. A failed operation is counted here and nowhere else.
    pub errors: Vec<ErrorCount>,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Bytes of file data per second.
    pub bytes_per_s: f64,
    /// How long operations took, from sending to the reply.
    pub latency: Latency,
    /// The parts of the work, by procedure.
    pub phases: Vec<Phase>,
    /// How it went over time.
    pub timeline: Vec<Sample>,
    /// Whether the rate became steady, if that was asked.
    pub steady: Option<Steady>,
    /// It was interrupted: this is the result so far.
    pub interrupted: bool,
    /// Blocks of 4 KiB whose content was checked; absent without `--verify`.
    pub verified_blocks: Option<u64>,
    /// What it cost the server's processes.
    pub server: Option<ServerCost>,
    /// The result as a fraction of what would be possible.
    pub limit: Option<FractionOfLimit>,
    /// The published figures that this corresponds to.
    #[serde(default)]
    pub published: Vec<String>,
}

/// How often something failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The procedure and its status, such as `WRITE: NoSpc`, or what was wrong with the reply.
    pub cause: String,
    /// How often.
    pub count: u64,
}

/// A part of a measurement: one procedure of a mix, or a phase with a barrier before and after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// In capitals: the procedure, as CREATE, STAT, READ, REMOVE, COMMIT.
    pub procedure: String,
    /// How long the phase took; of procedures that run side by side, the whole measurement.
    pub seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations per second of this phase's time.
    pub operations_per_s: f64,
    /// How long they took.
    pub latency: Latency,
}

/// A moment of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its end, in seconds since the measurement began.
    pub at_s: f64,
    /// Operations per second since the sample before.
    pub operations_per_s: f64,
    /// Bytes of file data per second since the sample before.
    pub bytes_per_s: f64,
    /// The median latency.
    pub p50_ns: u64,
    /// 99 of 100 operations were as fast as this.
    pub p99_ns: u64,
}

/// Whether a rate became steady, as SNIA's Solid State Storage Performance Test Specification defines it: within a
/// window of rounds, the highest and the lowest rate are close to the mean, and a straight line through the rates is
/// nearly level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// It did.
    pub reached: bool,
    /// The length of the window that was measured, in seconds.
    pub window_s: f64,
    /// Highest minus lowest rate in the window, as a fraction of the mean.
    pub spread: f64,
    /// How much the line rises or falls over the window, as a fraction of the mean.
    pub slope: f64,
}

/// Processor time that a server used, user and system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerCost {
    /// Its process; with several, the first.
    pub pid: u32,
    /// Processor time during the measurement, of all its processes, in seconds.
    pub cpu_seconds: f64,
    /// Per operation, in nanoseconds.
    pub cpu_ns_per_operation: f64,
    /// Per GiB of file data, for workloads that move data.
    pub cpu_seconds_per_gib: Option<f64>,
}

/// A result as a fraction of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FractionOfLimit {
    /// The limit.
    pub limit: LimitKind,
    /// 1 is the limit itself.
    pub fraction: f64,
}

/// One of the [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// NULL calls per second.
    NullCalls,
    /// Bytes per second received through TCP.
    TcpLineRate,
    /// Bytes per second sent through TCP.
    TcpSentRate,
    /// Bytes per second read from the directory.
    DirectoryRead,
    /// Bytes per second written to the directory.
    DirectoryWrite,
    /// Synced writes per second in the directory.
    DirectorySync,
}

/// Two targets, measured in turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The first.
    pub a: Target,
    /// The second.
    pub b: Target,
    /// How often each was measured.
    pub rounds: u32,
    /// A row for each workload.
    pub rows: Vec<ComparisonRow>,
}

/// One workload of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// The workload.
    pub name: String,
    /// The median of the first target's rates.
    pub a_median: f64,
    /// The median of the second target's rates.
    pub b_median: f64,
    /// `a_median / b_median`: above 1, the first is faster.
    pub ratio: f64,
    /// The lowest ratio of two neighbouring runs.
    pub ratio_low: f64,
    /// The highest ratio of two neighbouring runs.
    pub ratio_high: f64,
    /// What the rates count: `operations/s` or `bytes/s`.
    pub unit: String,
    /// Processor time of the first per operation, if it is local.
    pub a_cpu_ns_per_operation: Option<f64>,
    /// Processor time of the second per operation, if it is local.
    pub b_cpu_ns_per_operation: Option<f64>,
    /// The first's processor time divided by the second's: below 1, the first is cheaper.
    pub cpu_ratio: Option<f64>,
    /// Processor time of the first per GiB of file data, in seconds.
    #[serde(default)]
    pub a_cpu_seconds_per_gib: Option<f64>,
    /// Processor time of the second per GiB of file data, in seconds.
    #[serde(default)]
    pub b_cpu_seconds_per_gib: Option<f64>,
    /// Operations of the first that failed, over all rounds.
    #[serde(default)]
    pub a_errors: u64,
    /// Operations of the second that failed, over all rounds.
    #[serde(default)]
    pub b_errors: u64,
}
