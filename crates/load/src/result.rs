//! Results as data: the schema of `--json`. Names of numbers end in their SI unit (`_s`, `_ns`, `_bytes`, `_per_s`).
//! The schema number grows when a member changes its meaning or is removed.

use serde::{Deserialize, Serialize};

use crate::client::Protocol;
use crate::text::count;
use crate::workload::Workload;

mod latency;

pub use latency::{Histogram, LATENCY_MAX_NS, Latency, LatencyError, new_histogram};

/// The schema version of this program.
pub const SCHEMA: u32 = 1;

/// Everything that one invocation measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The measuring program and its version.
    pub tool: String,
    /// When the run began, in seconds since 1970.
    pub started_unix_s: u64,
    /// The server.
    pub target: Target,
    /// The machine that measured or coordinated.
    pub host: Host,
    /// The memory of the server's machine, if the user gave it or the machine is this one. Of a comparison, both
    /// are in [`Comparison`].
    #[serde(default)]
    pub server_memory_bytes: Option<u64>,
    /// The client hosts, if agents measured.
    pub agents: Vec<Host>,
    /// The most that the machine can do.
    pub limits: Limits,
    /// The caches between client and media, as declared by the user.
    pub caches: String,
    /// The measurements in chronological order.
    pub results: Vec<Measurement>,
    /// The runs at tiers of rates, and those without a limit before them.
    #[serde(default)]
    pub tiers: Vec<TierRun>,
    /// The comparison of two servers.
    pub comparison: Option<Comparison>,
    /// What a reader should know about the run, such as failed tests or lost client hosts.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Report {
    /// Returns a report without results.
    #[must_use]
    pub fn new(target: Target, host: Host, caches: String, started_unix_s: u64) -> Self {
        Self {
            schema: SCHEMA,
            tool: concat!("holdfast bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            started_unix_s,
            target,
            host,
            server_memory_bytes: None,
            agents: Vec::new(),
            limits: Limits::default(),
            caches,
            results: Vec::new(),
            tiers: Vec::new(),
            comparison: None,
            notes: Vec::new(),
        }
    }
}

/// A result above this fraction of a limit shows that the limit is not one.
const FRACTION_MAX: f64 = 1.05;

impl Report {
    /// Returns the number of operations that failed, of results and of a comparison.
    #[must_use]
    pub fn failed_operations(&self) -> u64 {
        let compared = self.comparison.as_ref().and_then(|comparison| comparison.totals.as_ref());
        let compared = compared.map_or(0, |totals| totals.failed_operations);
        let measured = self.results.iter().chain(self.tiers.iter().map(|run| &run.measurement));
        measured.fold(compared, |sum, result| sum.saturating_add(result.failed_operations()))
    }

    /// Returns the limits that results exceed, and that are not marked yet.
    pub(crate) fn exceeded_limits(&self) -> Vec<LimitKind> {
        let mut kinds = Vec::new();
        let mut add = |kind: LimitKind, fraction: f64| {
            if fraction > FRACTION_MAX && !kinds.contains(&kind) && !self.limits.not_valid.contains(&kind) {
                kinds.push(kind);
            }
        };
        for it in &self.results {
            it.limit.iter().for_each(|limit| add(limit.limit, limit.fraction));
            // Each phase of such work has the server to itself, and none is faster than a NULL call.
            if let (Workload::Metadata { .. } | Workload::SmallFiles { .. }, Some(calls)) =
                (it.workload, self.limits.null_calls_per_s)
            {
                it.phases.iter().for_each(|phase| add(LimitKind::NullCalls, phase.operations_per_s / calls));
            }
        }
        kinds
    }

    /// Marks limits that results exceed as not valid, and removes the fractions of them.
    pub(crate) fn mark_exceeded_limits(&mut self) {
        let kinds = self.exceeded_limits();
        self.limits.not_valid.extend(kinds);
        for it in &mut self.results {
            it.limit = it.limit.take().filter(|limit| !self.limits.not_valid.contains(&limit.limit));
        }
    }
}

/// A server and its export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Address and port of the NFS service.
    pub address: String,
    /// The path of the export.
    pub export: String,
    /// The protocol that was spoken.
    #[serde(default)]
    pub protocol: Protocol,
    /// The user's name for it.
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
    /// The memory, if the system reports it.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
}

/// The most that this machine, network and client code can do. Limits that were not measured are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// NULL calls per second to the same server.
    pub null_calls_per_s: Option<f64>,
    /// The median latency of a NULL call with one in flight, in nanoseconds.
    pub null_p50_ns: Option<u64>,
    /// Bytes per second through TCP, received by the measuring hosts.
    pub tcp_bytes_per_s: Option<f64>,
    /// Bytes per second through TCP, sent by the measuring hosts.
    #[serde(default)]
    pub tcp_sent_bytes_per_s: Option<f64>,
    /// The agent at the other end of TCP. Absent if both ends were on this machine.
    #[serde(default)]
    pub tcp_peer: Option<String>,
    /// A directory of the server, measured without the server.
    pub directory: Option<DirectoryLimits>,
    /// Limits that a result exceeded by more than 5 %, although they were measured again. There are no fractions of them.
    #[serde(default)]
    pub not_valid: Vec<LimitKind>,
}

/// The limits of a directory's file system and device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectoryLimits {
    /// The directory.
    pub path: String,
    /// Sequential reads, with direct I/O where possible.
    pub read_bytes_per_s: f64,
    /// Sequential writes, with a sync at the end.
    pub write_bytes_per_s: f64,
    /// Writes of 4 KiB, each with a sync.
    pub syncs_per_s: f64,
    /// The median time of such a write and its sync, in nanoseconds.
    pub sync_p50_ns: u64,
}

/// The measurement of one workload at one number of threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The workload in a few words, such as `random 4 KiB 70:30`.
    pub name: String,
    /// The protocol that was spoken.
    #[serde(default)]
    pub protocol: Protocol,
    /// The workload.
    pub workload: Workload,
    /// Virtual threads.
    pub threads: u32,
    /// Operations in flight per thread.
    pub depth: u32,
    /// The slots of each session. Only NFSv4.
    #[serde(default)]
    pub slots: Option<Slots>,
    /// TCP connections of all threads together.
    pub connections: u32,
    /// The seed of random numbers.
    pub seed: u64,
    /// Bytes of files that all threads together read and write; 0 for workloads without file data.
    #[serde(default)]
    pub working_set_bytes: u64,
    /// The measured time; of a workload in phases, the sum of its phases.
    pub seconds: f64,
    /// The time before, which is not part of the result.
    pub warmup_seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes of file data that these operations moved.
    pub bytes: u64,
    /// Failed operations by cause. They count here and nowhere else.
    pub errors: Vec<ErrorCount>,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Bytes of file data per second.
    pub bytes_per_s: f64,
    /// The latency of operations, from sending the call to reading the reply.
    pub latency: Latency,
    /// The parts of the work, by procedure.
    pub phases: Vec<Phase>,
    /// The rates over time.
    pub timeline: Vec<Sample>,
    /// Whether the rate became steady, if that was requested.
    pub steady: Option<Steady>,
    /// Whether the measurement was interrupted, so this is the result so far.
    pub interrupted: bool,
    /// Verified blocks of 4 KiB. Absent without `--verify`.
    pub verified_blocks: Option<u64>,
    /// Calls that the server asked to make again later, and that were made again. Their delay is part of the latency.
    #[serde(default)]
    pub delayed_calls: u64,
    /// The processor time of the server.
    pub server: Option<ServerCost>,
    /// The result as a fraction of a limit.
    pub limit: Option<FractionOfLimit>,
    /// The published figures that correspond to this measurement.
    #[serde(default)]
    pub published: Vec<String>,
    /// Hosts without a part in the result, and why.
    #[serde(default)]
    pub failed_hosts: Vec<String>,
}

impl Measurement {
    /// Returns the bytes of data and metadata that the workload uses, as a server would cache them: an estimate, except
    /// for file data.
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        self.workload.footprint_bytes(self.working_set_bytes, self.threads)
    }

    /// Whether no operation ended, so that there is no rate.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations == 0 && self.errors.is_empty()
    }

    /// Returns the number of operations that failed, with any cause.
    #[must_use]
    pub fn failed_operations(&self) -> u64 {
        self.errors.iter().fold(0, |sum, error| sum.saturating_add(error.count))
    }
}

/// A run while the server held the load to a tier, or to nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TierRun {
    /// The tier. Absent for a run without a limit, which shows what tiers the machine can reach.
    pub tier: Option<TierShare>,
    /// The run.
    pub measurement: Measurement,
}

/// What a run got of a tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierShare {
    /// The name of the tier, such as `oci-20`.
    pub name: String,
    /// What the tier lets pass in this direction.
    pub cap_bytes_per_s: f64,
    /// The measured bytes per second, as a fraction of that.
    pub fraction: f64,
}

/// The slots of a session: how many of its calls can be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// The slots that the server granted; of several sessions, the fewest.
    pub granted: u32,
    /// The slots that the threads of a session needed.
    pub wanted: u32,
    /// The operations in flight per thread that were wanted.
    pub depth_wanted: u32,
}

impl Slots {
    /// Returns the operations in flight of each of this many threads that share a session.
    pub(crate) fn depth(self, threads: u32) -> u32 {
        self.depth_wanted.min(self.granted / threads.max(1)).max(1)
    }

    /// Whether calls had to wait, or the depth was lowered.
    #[must_use]
    pub const fn are_few(self) -> bool {
        self.granted < self.wanted
    }
}

/// The number of failures with one cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The procedure and its status, such as `WRITE: NFS3ERR_NOSPC`, or what was wrong with the reply.
    pub cause: String,
    /// The number of failures.
    pub count: u64,
}

/// A part of a measurement: one procedure of a mix, or a phase with a barrier before and after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// The procedure in capitals, such as CREATE, STAT, READ, REMOVE or COMMIT.
    pub procedure: String,
    /// The length of the phase; of procedures that run side by side, the length of the measurement.
    pub seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations per second during this phase.
    pub operations_per_s: f64,
    /// The latency of these operations.
    pub latency: Latency,
}

/// The rates of one interval of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of the interval, in seconds since the measurement began.
    pub at_s: f64,
    /// Operations per second during the interval.
    pub operations_per_s: f64,
    /// Bytes of file data per second during the interval.
    pub bytes_per_s: f64,
    /// The median latency.
    pub p50_ns: u64,
    /// The 99th percentile of latency.
    pub p99_ns: u64,
}

/// Whether a rate became steady, as SNIA's Solid State Storage Performance Test Specification defines it: within a
/// window of rounds, the highest and lowest rates are close to the mean, and a straight line fitted to the rates is
/// nearly level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Whether the rate became steady.
    pub reached: bool,
    /// The length of the measured window, in seconds.
    pub window_s: f64,
    /// The highest minus the lowest rate, as a fraction of the mean.
    pub spread: f64,
    /// The rise or fall of the line over the window, as a fraction of the mean.
    pub slope: f64,
}

/// The processor time of a server, user and system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerCost {
    /// The server's process; the first one if there are several.
    pub pid: u32,
    /// The processor time of all its processes during the measurement, in seconds.
    pub cpu_seconds: f64,
    /// Processor time per operation, in nanoseconds.
    pub cpu_ns_per_operation: f64,
    /// Processor time per GiB of file data, for workloads that move data.
    pub cpu_seconds_per_gib: Option<f64>,
}

/// A result as a fraction of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FractionOfLimit {
    /// The limit.
    pub limit: LimitKind,
    /// 1 means the limit itself.
    pub fraction: f64,
}

/// The kinds of [`Limits`].
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
    /// Synced writes per second to the directory.
    DirectorySync,
}

/// A comparison of two servers, measured in turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The first server.
    pub a: Target,
    /// The second server.
    pub b: Target,
    /// The memory of the first server's machine, if known.
    #[serde(default)]
    pub a_memory_bytes: Option<u64>,
    /// The memory of the second server's machine, if known.
    #[serde(default)]
    pub b_memory_bytes: Option<u64>,
    /// The number of measurements of each server. After an interruption, the fewest of any workload.
    pub rounds: u32,
    /// What was measured of both servers together.
    #[serde(default)]
    pub totals: Option<Totals>,
    /// A row for each workload.
    pub rows: Vec<ComparisonRow>,
}

/// How much several measurements measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of measurements.
    pub measurements: u64,
    /// The measured time.
    pub seconds: f64,
    /// Warm-up time, excluded from results.
    pub warmup_seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations that failed.
    #[serde(default)]
    pub failed_operations: u64,
    /// Bytes of file data that the operations moved.
    pub bytes: u64,
    /// The fewest and the most virtual threads.
    pub threads: (u32, u32),
    /// The fewest and the most operations in flight per thread.
    pub depth: (u32, u32),
    /// The fewest and the most TCP connections.
    pub connections: (u32, u32),
}

impl Totals {
    /// Adds a measurement.
    pub fn add(&mut self, it: &Measurement) {
        let is_first = self.measurements == 0;
        let widen = |range: &mut (u32, u32), figure: u32| {
            *range = if is_first { (figure, figure) } else { (range.0.min(figure), range.1.max(figure)) };
        };
        widen(&mut self.threads, it.threads);
        widen(&mut self.depth, it.depth);
        widen(&mut self.connections, it.connections);
        self.measurements = self.measurements.saturating_add(1);
        self.seconds += it.seconds;
        self.warmup_seconds += it.warmup_seconds;
        self.operations = self.operations.saturating_add(it.operations);
        self.failed_operations = self.failed_operations.saturating_add(it.failed_operations());
        self.bytes = self.bytes.saturating_add(it.bytes);
    }
}

/// The number of rounds that a verdict needs. If the servers are alike, five rounds fall on one side by chance once in
/// 16 comparisons.
pub const VERDICT_ROUNDS_MIN: u32 = 5;

/// Which of two servers is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first server is faster in every round.
    AFaster,
    /// The second server is faster in every round.
    BFaster,
    /// The rounds disagree, or are too few.
    NotShown,
    /// The server that is faster in every round failed this many operations, which may be why.
    Failed(u64),
}

impl Verdict {
    /// Returns the verdict in words.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::AFaster => "A is faster".to_owned(),
            Self::BFaster => "B is faster".to_owned(),
            Self::NotShown => "no difference shown".to_owned(),
            Self::Failed(operations) => format!("no verdict: {} operations failed", count(operations)),
        }
    }
}

impl ComparisonRow {
    /// Returns which server is faster, if there are [enough](VERDICT_ROUNDS_MIN) rounds, all of them agree, and no
    /// operation of that server failed.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let (faster, failed) = if self.rounds < VERDICT_ROUNDS_MIN {
            return Verdict::NotShown;
        } else if self.ratio_low > 1.0 {
            (Verdict::AFaster, self.a_errors)
        } else if self.ratio_high < 1.0 {
            (Verdict::BFaster, self.b_errors)
        } else {
            return Verdict::NotShown;
        };
        if failed > 0 { Verdict::Failed(failed) } else { faster }
    }
}

/// The comparison of one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// The workload.
    pub name: String,
    /// [`Measurement::footprint_bytes`] of the workload.
    #[serde(default)]
    pub footprint_bytes: u64,
    /// The median rate of the first server.
    pub a_median: f64,
    /// The median rate of the second server.
    pub b_median: f64,
    /// `a_median / b_median`. Above 1, the first server is faster.
    pub ratio: f64,
    /// The lowest ratio of a round.
    pub ratio_low: f64,
    /// The highest ratio of a round.
    pub ratio_high: f64,
    /// The number of rounds that were compared.
    #[serde(default)]
    pub rounds: u32,
    /// The unit of the rates: `operations/s` or `bytes/s`.
    pub unit: String,
    /// Processor time of the first server per operation, if it is local.
    pub a_cpu_ns_per_operation: Option<f64>,
    /// Processor time of the second server per operation, if it is local.
    pub b_cpu_ns_per_operation: Option<f64>,
    /// The first server's processor time divided by the second's. Below 1, the first is cheaper.
    pub cpu_ratio: Option<f64>,
    /// Processor time of the first server per GiB of file data, in seconds.
    #[serde(default)]
    pub a_cpu_seconds_per_gib: Option<f64>,
    /// Processor time of the second server per GiB of file data, in seconds.
    #[serde(default)]
    pub b_cpu_seconds_per_gib: Option<f64>,
    /// Failed operations of the first server, over all rounds and phases of the workload.
    #[serde(default)]
    pub a_errors: u64,
    /// Failed operations of the second server, over all rounds and phases of the workload.
    #[serde(default)]
    pub b_errors: u64,
}
