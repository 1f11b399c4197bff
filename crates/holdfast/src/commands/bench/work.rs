//! The workload and its options, which `bench run` and `bench compare` share.

use std::time::Duration;

use clap::{Args, ValueEnum};
use load::run::{Connections, Length, Options};
use load::steady::SteadyRule;
use load::workload::{RateProcedure, Stability, Workload};
use server::config::size::Size;

/// The workload.
#[derive(Clone, Debug, Args)]
pub(super) struct WorkloadOptions {
    /// Workload to run
    workload: WorkloadName,
    /// Bytes per operation of sequential-read, sequential-write and random, such as 4k or 1MiB; each size of a list makes a
    /// measurement
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4 KiB", value_parser = parse_size)]
    block: Vec<Size>,
    /// Percentage of reads of random; each number of a list makes a measurement
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "100", value_parser = clap::value_parser!(u8).range(0..=100))]
    mix: Vec<u8>,
    /// Let all threads share one file (N-1), each using its own part
    #[arg(long)]
    shared_file: bool,
    /// Stability of writes
    #[arg(long, value_name = "WHEN", default_value = "unstable")]
    stability: StabilityName,
    /// Files per directory, for metadata and small-files
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    files: u64,
    /// Directories per thread, for metadata and small-files
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    directories: u64,
    /// Bytes per file [default: 0 for metadata, 4 KiB for small-files]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    file_size: Option<Size>,
    /// Names in the directory, for readdir and readdirplus
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    names: u64,
}

/// How to measure.
#[derive(Clone, Debug, Args)]
pub(super) struct RunOptions {
    /// Virtual threads: a number, a list (1,8,64) or powers of two (1..1024); each number makes a measurement
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = parse_threads)]
    pub(super) threads: Threads,
    /// Operations in flight per thread
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    depth: u32,
    /// TCP connections per thread
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with = "connections")]
    connections_per_thread: u32,
    /// TCP connections of all threads together, like nconnect
    #[arg(long, value_name = "COUNT")]
    connections: Option<u32>,
    /// Event loops, each a thread of the operating system [default: one per processor]
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    event_loops: u32,
    /// Bytes of files that all threads together read and write, such as 10GiB
    #[arg(long, value_name = "SIZE", default_value = "256 MiB", value_parser = parse_size)]
    working_set: Size,
    /// Seed of random numbers [default: a new one, which is printed]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Length of the measurement
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    seconds: Duration,
    /// Time before the measurement begins, whose operations do not count
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    warmup: Duration,
    /// Measure this number of operations of all threads together, instead of a time
    #[arg(long, value_name = "COUNT", conflicts_with = "until_steady", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Measure until the rate is steady, as SNIA's Performance Test Specification defines it
    #[arg(long)]
    until_steady: bool,
    /// With --until-steady: time limit
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = parse_seconds)]
    max_seconds: Duration,
    /// With --until-steady: length of a round
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    steady_round: Duration,
    /// With --until-steady: rounds in the window that is judged
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    steady_rounds: u32,
    /// With --until-steady: largest allowed difference of rates in the window, in percent of the mean
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    steady_spread: f64,
    /// With --until-steady: largest allowed rise or fall of the rate over the window, in percent of the mean
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    steady_slope: f64,
    /// Write self-describing blocks, and check everything that is read
    #[arg(long)]
    pub(super) verify: bool,
    /// Keep the files, instead of removing them at the end
    #[arg(long)]
    keep: bool,
    /// Time limit for removing the files
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = parse_seconds)]
    cleanup_seconds: Duration,
}

/// The numbers of threads to measure with.
#[derive(Clone, Debug)]
pub(super) struct Threads(pub(super) Vec<u32>);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WorkloadName {
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
    /// OPEN and CLOSE of an existing file; over NFSv3, LOOKUP and ACCESS
    OpenClose,
    /// CREATE of an empty file, then REMOVE
    CreateRemove,
    /// WRITE of 4 KiB at random offsets, FILE_SYNC
    WriteFileSync,
    /// WRITE of 4 KiB at random offsets, then COMMIT
    WriteCommit,
    /// Read files from front to end
    SequentialRead,
    /// Write files from front to end
    SequentialWrite,
    /// Read and write at random offsets (--mix)
    Random,
    /// Create, stat, read and remove files, phase by phase, as mdtest does
    Metadata,
    /// Create trees of small files like tar, read them, remove them
    SmallFiles,
    /// List a large directory with READDIR
    Readdir,
    /// List a large directory with READDIRPLUS
    Readdirplus,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StabilityName {
    /// UNSTABLE writes with a COMMIT after each pass over the file; for random, at the end
    Unstable,
    /// UNSTABLE writes, each followed by a COMMIT
    Commit,
    /// DATA_SYNC writes
    DataSync,
    /// FILE_SYNC writes
    FileSync,
}

impl From<StabilityName> for Stability {
    fn from(when: StabilityName) -> Stability {
        match when {
            StabilityName::Unstable => Stability::Unstable,
            StabilityName::Commit => Stability::Commit,
            StabilityName::DataSync => Stability::DataSync,
            StabilityName::FileSync => Stability::FileSync,
        }
    }
}

/// Parses seconds such as `10` or `0.5`.
pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Parses sizes as fio, dd and mdtest write them, such as `4k`, `64K`, `1M` or `4 GiB`: a single letter is a binary unit.
pub(super) fn parse_size(text: &str) -> Result<Size, String> {
    let trimmed = text.trim();
    let has_letter = trimmed.ends_with(|c: char| "kmgtKMGT".contains(c));
    let whole = if has_letter { format!("{trimmed}iB") } else { trimmed.to_owned() };
    whole.parse().map_err(|_| {
        format!("{text:?} is not a size: write a whole number and a unit, such as 4k, 1M or 4GiB")
    })
}

/// Parses threads such as `16`, `1,4,16` or `1..1024`.
fn parse_threads(text: &str) -> Result<Threads, String> {
    let number = |text: &str| {
        let number: u32 = text.trim().parse().map_err(|_| format!("{text:?} is not a number of threads"))?;
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

impl RunOptions {
    /// Returns the options of a measurement with this number of threads.
    pub(super) fn for_threads(&self, threads: u32) -> Options {
        let length = match self.operations {
            Some(operations) => Length::Operations(operations),
            None if self.until_steady => Length::Steady(SteadyRule {
                round: self.steady_round.max(Duration::from_millis(100)),
                rounds: self.steady_rounds,
                spread: self.steady_spread / 100.0,
                slope: self.steady_slope / 100.0,
                duration_max: self.max_seconds,
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
            keep: self.keep,
            cleanup: self.cleanup_seconds,
            ..Options::default()
        }
    }
}

impl WorkloadOptions {
    /// Returns the workloads: one for each combination of lists.
    pub(super) fn workloads(&self) -> Vec<Workload> {
        let stability = self.stability.into();
        let blocks = |make: &dyn Fn(u64) -> Workload| self.block.iter().map(|block| make(block.0)).collect();
        let rate = |procedure| vec![Workload::Rate { procedure }];
        let (files_per_directory, directories_per_thread) = (self.files, self.directories);
        let file_bytes = |default: u64| self.file_size.map_or(default, |size| size.0);
        let (shared_file, names) = (self.shared_file, self.names);
        match self.workload {
            WorkloadName::Null => vec![Workload::Null],
            WorkloadName::Getattr => rate(RateProcedure::Getattr),
            WorkloadName::Access => rate(RateProcedure::Access),
            WorkloadName::Lookup => rate(RateProcedure::Lookup),
            WorkloadName::LookupMissing => rate(RateProcedure::LookupMissing),
            WorkloadName::OpenClose => rate(RateProcedure::OpenClose),
            WorkloadName::CreateRemove => rate(RateProcedure::CreateRemove),
            WorkloadName::WriteFileSync => rate(RateProcedure::WriteFileSync),
            WorkloadName::WriteCommit => rate(RateProcedure::WriteCommit),
            WorkloadName::SequentialRead => {
                blocks(&|block_bytes| Workload::SequentialRead { block_bytes, shared_file })
            }
            WorkloadName::SequentialWrite => {
                blocks(&|block_bytes| Workload::SequentialWrite { block_bytes, shared_file, stability })
            }
            WorkloadName::Random => {
                let mixes = |block_bytes: u64| {
                    let make =
                        move |mix: &u8| Workload::Random { block_bytes, read_percent: *mix, stability };
                    self.mix.iter().map(make)
                };
                self.block.iter().flat_map(|block| mixes(block.0)).collect()
            }
            WorkloadName::Metadata => {
                let file_bytes = file_bytes(0);
                vec![Workload::Metadata { files_per_directory, directories_per_thread, file_bytes }]
            }
            WorkloadName::SmallFiles => {
                let file_bytes = file_bytes(4096);
                vec![Workload::SmallFiles { files_per_directory, directories_per_thread, file_bytes }]
            }
            WorkloadName::Readdir => vec![Workload::Readdir { names, plus: false }],
            WorkloadName::Readdirplus => vec![Workload::Readdir { names, plus: true }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_fio_dd_and_mdtest() {
        for (text, bytes) in [
            ("4k", 4 << 10),
            ("64K", 64 << 10),
            ("1M", 1 << 20),
            ("2g", 2 << 30),
            ("1T", 1 << 40),
            ("4 GiB", 4 << 30),
            ("256MiB", 256 << 20),
            ("1MB", 1_000_000),
            ("1kB", 1000),
            ("512", 512),
        ] {
            assert_eq!(parse_size(text), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "k", "4x", "1.5M", "-1", "99999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

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
