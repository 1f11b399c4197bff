//! `holdfast bench run`: one kind of workload, at one or more numbers of threads, block sizes and mixes.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use load::result::{Measurement, Report};
use load::run::{Connections, Length, Options, measure};
use load::steady::SteadyRule;
use load::workload::{RateProcedure, Stability, Workload};
use server::error::Error;
use server::size::Size;

use super::watch::{Watch, bytes, count, time};
use super::{LimitOptions, Measured, failed, json, limits};
use crate::report::{Outcome, print};

const EXAMPLES: &str = "Examples:
  holdfast bench run 127.0.0.1:/main getattr --threads 1..64
  holdfast bench run 127.0.0.1:/main random --block 4KiB --mix 100,70,0 --threads 16 --depth 4
  holdfast bench run 127.0.0.1:/main sequential-write --block 1MiB --stability commit --server-pid 4711
  holdfast bench run 127.0.0.1:/main random --until-steady --max-seconds 600
  holdfast bench run 127.0.0.1:/main metadata --threads 32 --files 1000 --directories 4
  holdfast bench run 127.0.0.1:/main random --verify --limits --json > result.json

Files are made in a directory of their own under the export, and removed in the end. Ctrl-C ends a measurement with \
the result so far. What the workloads do, and the JSON, is described in docs/bench.md.

Exit codes: 0 all operations succeeded; 1 nothing could be measured, or operations failed; 2 the command line is \
wrong.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    measured: Measured,
    /// What to do
    workload: Kind,
    /// Bytes of an operation of sequential-read, sequential-write and random; several in a list
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4KiB")]
    block: Vec<Size>,
    /// How many of 100 operations of random are reads; several in a list
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "100", value_parser = clap::value_parser!(u8).range(0..=100))]
    mix: Vec<u8>,
    /// All threads in one file (N-1), each in its own part of it
    #[arg(long)]
    shared_file: bool,
    /// When what is written has to be stable
    #[arg(long, value_name = "WHEN", default_value = "unstable")]
    stability: When,
    /// Files in each directory, for metadata and small-files
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    files: u64,
    /// Directories of each thread, for metadata and small-files
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    directories: u64,
    /// Bytes of each file, for metadata [default there: 0] and small-files [default there: 4 KiB]
    #[arg(long, value_name = "SIZE")]
    file_size: Option<Size>,
    /// Names in the directory, for readdir and readdirplus
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    names: u64,
    #[command(flatten)]
    how: How,
    /// Measure the limits first, and give each result as a fraction of its limit
    #[arg(long)]
    limits: bool,
    #[command(flatten)]
    limit_options: LimitOptions,
    /// Print JSON (docs/bench.md describes it)
    #[arg(long)]
    json: bool,
}

/// How to measure.
#[derive(Clone, Debug, Args)]
pub(crate) struct How {
    /// Virtual threads: a number, a list (1,8,64) or powers of two (1..1024); each is a measurement
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = parse_threads)]
    pub(crate) threads: Threads,
    /// Operations that each thread has in flight
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    depth: u32,
    /// TCP connections of each thread
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with = "connections")]
    connections_per_thread: u32,
    /// TCP connections of all threads together, as nconnect has it
    #[arg(long, value_name = "COUNT")]
    connections: Option<u32>,
    /// Threads of the operating system [default: one for each processor]
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    event_loops: u32,
    /// Bytes that are read and written, of all threads together
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    working_set: Size,
    /// Where random numbers begin [default: fresh, and printed]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How long is measured
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    seconds: Duration,
    /// How long operations run before they are counted
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    warmup: Duration,
    /// Measure so many operations, of all threads together, instead of a time
    #[arg(long, value_name = "COUNT", conflicts_with = "until_steady")]
    operations: Option<u64>,
    /// Measure until the rate is steady, as SNIA's Performance Test Specification defines it
    #[arg(long)]
    until_steady: bool,
    /// With --until-steady: when to give up
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = parse_seconds)]
    max_seconds: Duration,
    /// With --until-steady: how long a round is
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    steady_round: Duration,
    /// With --until-steady: rounds of the window that is looked at
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    steady_rounds: u32,
    /// With --until-steady: highest minus lowest rate in the window, in percent of the mean
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    steady_spread: f64,
    /// With --until-steady: rise or fall of the rate over the window, in percent of the mean
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    steady_slope: f64,
    /// Write blocks that tell where they belong, and check all that is read
    #[arg(long)]
    verify: bool,
    /// A local process of the server, for its processor time per operation; may be repeated
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Leave the files that were made
    #[arg(long)]
    keep: bool,
    /// How long removing the files may take
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = parse_seconds)]
    cleanup_seconds: Duration,
}

/// The numbers of threads to measure with.
#[derive(Clone, Debug)]
pub(crate) struct Threads(pub(crate) Vec<u32>);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// NULL calls: the cost of protocol and sockets
    Null,
    /// GETATTR of a directory
    Getattr,
    /// ACCESS of a directory
    Access,
    /// LOOKUP of a name that exists
    Lookup,
    /// LOOKUP of a name that does not exist
    LookupMissing,
    /// CREATE of an empty file, then REMOVE
    CreateRemove,
    /// WRITE of 4 KiB at random places, FILE_SYNC
    WriteFileSync,
    /// WRITE of 4 KiB at random places, then COMMIT
    WriteCommit,
    /// Read files from front to end
    SequentialRead,
    /// Write files from front to end
    SequentialWrite,
    /// Read and write at random places (--mix)
    Random,
    /// Create, stat, read and remove files, phase by phase, as mdtest does
    Metadata,
    /// Make trees of small files as tar does, read them, remove them
    SmallFiles,
    /// List a large directory with READDIR
    Readdir,
    /// List a large directory with READDIRPLUS
    Readdirplus,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// UNSTABLE writes, a COMMIT after each pass over the file; for random, at the end
    Unstable,
    /// UNSTABLE writes, each operation with a COMMIT behind it
    Commit,
    /// DATA_SYNC writes
    DataSync,
    /// FILE_SYNC writes
    FileSync,
}

impl From<When> for Stability {
    fn from(when: When) -> Stability {
        match when {
            When::Unstable => Stability::Unstable,
            When::Commit => Stability::Commit,
            When::DataSync => Stability::DataSync,
            When::FileSync => Stability::FileSync,
        }
    }
}

/// `10`, `0.5`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// `16`, `1,4,16`, `1..1024`.
fn parse_threads(text: &str) -> Result<Threads, String> {
    let number = |text: &str| {
        let number: u32 = text.trim().parse().map_err(|_| format!("{text:?} is no number of threads"))?;
        let most = load::run::THREADS_MAX;
        if (1..=most).contains(&number) { Ok(number) } else { Err(format!("threads: from 1 to {most}")) }
    };
    let Some((first, last)) = text.split_once("..") else {
        return text.split(',').map(number).collect::<Result<_, _>>().map(Threads);
    };
    let (mut next, last) = (number(first)?, number(last)?);
    let mut threads = Vec::new();
    while next <= last {
        threads.push(next);
        next *= 2;
    }
    if threads.is_empty() {
        Err("the first number of threads is above the last".to_owned())
    } else {
        Ok(Threads(threads))
    }
}

impl How {
    /// With so many threads.
    pub(crate) fn options(&self, threads: u32) -> Options {
        let length = match self.operations {
            Some(operations) => Length::Operations(operations),
            None if self.until_steady => Length::Steady(SteadyRule {
                round: self.steady_round.max(Duration::from_millis(100)),
                rounds: self.steady_rounds,
                spread: self.steady_spread / 100.0,
                slope: self.steady_slope / 100.0,
                most: self.max_seconds,
            }),
            None => Length::Time(self.seconds),
        };
        Options {
            threads,
            depth: self.depth,
            connections: self
                .connections
                .map_or(Connections::PerThread(self.connections_per_thread), Connections::Total),
            event_loops: self.event_loops,
            working_set_bytes: self.working_set.0,
            seed: self.seed,
            warmup: self.warmup,
            length,
            verify: self.verify,
            server_pids: self.server_pid.clone(),
            keep: self.keep,
            cleanup: self.cleanup_seconds,
            ..Options::default()
        }
    }
}

impl Run {
    /// Each of what lists name.
    fn workloads(&self) -> Vec<Workload> {
        let stability = self.stability.into();
        let blocks = |make: &dyn Fn(u64) -> Workload| self.block.iter().map(|block| make(block.0)).collect();
        let rate = |procedure| vec![Workload::Rate { procedure }];
        let (files_per_directory, directories_per_thread) = (self.files, self.directories);
        let file_bytes = |default: u64| self.file_size.map_or(default, |size| size.0);
        let (shared_file, names) = (self.shared_file, self.names);
        match self.workload {
            Kind::Null => vec![Workload::Null],
            Kind::Getattr => rate(RateProcedure::Getattr),
            Kind::Access => rate(RateProcedure::Access),
            Kind::Lookup => rate(RateProcedure::Lookup),
            Kind::LookupMissing => rate(RateProcedure::LookupMissing),
            Kind::CreateRemove => rate(RateProcedure::CreateRemove),
            Kind::WriteFileSync => rate(RateProcedure::WriteFileSync),
            Kind::WriteCommit => rate(RateProcedure::WriteCommit),
            Kind::SequentialRead => {
                blocks(&|block_bytes| Workload::SequentialRead { block_bytes, shared_file })
            }
            Kind::SequentialWrite => {
                blocks(&|block_bytes| Workload::SequentialWrite { block_bytes, shared_file, stability })
            }
            Kind::Random => {
                let mixes = |block_bytes: u64| {
                    let make =
                        move |mix: &u8| Workload::Random { block_bytes, read_percent: *mix, stability };
                    self.mix.iter().map(make)
                };
                self.block.iter().flat_map(|block| mixes(block.0)).collect()
            }
            Kind::Metadata => {
                let file_bytes = file_bytes(0);
                vec![Workload::Metadata { files_per_directory, directories_per_thread, file_bytes }]
            }
            Kind::SmallFiles => {
                let file_bytes = file_bytes(4096);
                vec![Workload::SmallFiles { files_per_directory, directories_per_thread, file_bytes }]
            }
            Kind::Readdir => vec![Workload::Readdir { names, plus: false }],
            Kind::Readdirplus => vec![Workload::Readdir { names, plus: true }],
        }
    }
}

pub(crate) fn run(run: &Run) -> Outcome {
    let server = run.measured.server()?;
    let workloads = run.workloads();
    for workload in &workloads {
        workload.check(run.how.verify).map_err(|error| Error::usage(error.to_string()))?;
    }
    let mut report = run.measured.report(&server);
    let mut watch = Watch::new()?;
    if run.limits {
        watch.title = "limits".to_owned();
        let length = Duration::from_secs(2);
        let directory = run.limit_options.directory.as_deref();
        let measured = load::limits::measure(&server, directory, length, &mut watch);
        watch.clear();
        report.limits = measured.map_err(failed)?;
        if !run.json {
            print(&(limits::shown(&report.limits) + "\n"));
        }
    }
    for workload in &workloads {
        for threads in &run.how.threads.0 {
            if watch.was_interrupted() {
                break;
            }
            watch.title = format!("{}, {threads} threads", workload.name());
            let measured = measure(&server, workload, &run.how.options(*threads), &mut watch);
            watch.clear();
            let mut measurement = measured.map_err(failed)?;
            measurement.limit = report.limits.fraction(&measurement);
            if !run.json {
                print(&shown(&measurement));
            }
            report.results.push(measurement);
        }
    }
    conclude(run, &report)
}

fn conclude(run: &Run, report: &Report) -> Outcome {
    if run.json {
        print(&json(report)?);
    }
    let failures: u64 =
        report.results.iter().flat_map(|result| &result.errors).map(|error| error.count).sum();
    if failures > 0 {
        return Err(Error::failed(format!("{failures} operations failed")));
    }
    Ok(ExitCode::SUCCESS)
}

/// A measurement in a few lines.
fn shown(measurement: &Measurement) -> String {
    let latency = &measurement.latency;
    let mut out = format!(
        "{}, {} threads x {} in flight, {} connections, seed {}\n  {}/s",
        measurement.name,
        measurement.threads,
        measurement.depth,
        measurement.connections,
        measurement.seed,
        count(measurement.operations_per_s)
    );
    if measurement.bytes > 0 {
        out += &format!("  {}/s", bytes(measurement.bytes_per_s));
    }
    out += &format!(
        "  p50 {}  p99 {}  p99.9 {}  max {}  ({} operations in {:.1} s{})\n",
        time(latency.p50_ns),
        time(latency.p99_ns),
        time(latency.p999_ns),
        time(latency.max_ns),
        measurement.operations,
        measurement.seconds,
        if measurement.interrupted { ", interrupted" } else { "" }
    );
    details(measurement, &mut out);
    out
}

/// What not every measurement has.
fn details(measurement: &Measurement, out: &mut String) {
    let mut line = |text: String| writeln!(out, "  {text}").expect("a String takes any text");
    for phase in &measurement.phases {
        line(format!(
            "{:8} {}/s  p50 {}  p99 {}",
            phase.procedure,
            count(phase.operations_per_s),
            time(phase.latency.p50_ns),
            time(phase.latency.p99_ns)
        ));
    }
    if let Some(server) = &measurement.server {
        let per_gib = server.cpu_seconds_per_gib.map(|cost| format!(", {cost:.3} s/GiB")).unwrap_or_default();
        line(format!(
            "server processor time: {:.2} µs per operation{per_gib}",
            server.cpu_ns_per_operation / 1e3
        ));
    }
    if let Some(limit) = &measurement.limit {
        line(format!("{:.1} % of the limit {:?}", limit.fraction * 100.0, limit.limit));
    }
    if let Some(steady) = &measurement.steady {
        let word = if steady.reached { "steady" } else { "NOT steady" };
        let (spread, slope) = (steady.spread * 100.0, steady.slope * 100.0);
        line(format!("{word}: spread {spread:.1} %, slope {slope:.1} % over {:.1} s", steady.window_s));
    }
    if let Some(blocks) = measurement.verified_blocks {
        line(format!("{blocks} blocks verified"));
    }
    for error in &measurement.errors {
        line(format!("FAILED {} x {}", error.count, error.cause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_numbers_lists_and_powers() {
        for (text, threads) in [("7", vec![7]), ("1,8, 64", vec![1, 8, 64]), ("1..8", vec![1, 2, 4, 8])] {
            assert_eq!(parse_threads(text).unwrap().0, threads, "{text}");
        }
        assert_eq!(parse_threads("1..1024").unwrap().0.len(), 11);
        for text in ["", "0", "x", "8..1", "1..", "1,,2", "99999999"] {
            assert!(parse_threads(text).is_err(), "{text}");
        }
    }
}
