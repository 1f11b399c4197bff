//! Arbitrary reports, including those that no run writes: reports are read from files of any origin.

use fastrand::Rng;

use crate::client::Protocol;
use crate::result::{
    Comparison, ComparisonRow, DirectoryLimits, ErrorCount, FractionOfLimit, Host, Latency, LimitKind,
    Limits, Measurement, Phase, Report, SCHEMA, Sample, ServerCost, Slots, Steady, Target, TierRun,
    TierShare, Totals,
};
use crate::workload::{RateProcedure, Stability, Workload};

/// Generates parts of a report. The same seed gives the same report.
pub(crate) struct Arbitrary(pub(crate) Rng);

impl Arbitrary {
    fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }

    fn whole(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => self.next(),
            _ => self.below(10_000_000),
        }
    }

    fn small(&mut self) -> u32 {
        match self.below(10) {
            0 => 0,
            1 => u32::MAX,
            _ => 1 << self.below(11),
        }
    }

    fn figure(&mut self) -> f64 {
        const ODD: [f64; 12] = [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,
            -1.0,
            1e15,
            1.0,
        ];
        match self.below(4) {
            0 => ODD[usize::try_from(self.below(12)).unwrap()],
            1 => f64::from_bits(self.next()),
            _ => self.below(1_000_000_000) as f64 / 1000.0,
        }
    }

    fn text(&mut self) -> String {
        const TEXTS: [&str; 9] = [
            "",
            "random 4 KiB 70:30",
            "<script>alert(1)</script>",
            "\" onmouseover=\"alert(1)",
            "'&<>\"",
            "\0\u{1}\u{7f}\u{202e}",
            "]]> --> </style></script>",
            "日本語 – мир – 🦀",
            "a\nb\tc",
        ];
        let text = TEXTS[usize::try_from(self.below(9)).unwrap()];
        if self.below(30) == 0 { "long ".repeat(2000) } else { text.to_owned() }
    }

    fn maybe<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| draw(self))
    }

    fn several<T>(&mut self, most: u64, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| draw(self)).collect()
    }

    fn latency(&mut self) -> Latency {
        Latency {
            count: self.whole(),
            mean_ns: self.figure(),
            min_ns: self.whole(),
            p50_ns: self.whole(),
            p90_ns: self.whole(),
            p99_ns: self.whole(),
            p999_ns: self.whole(),
            max_ns: self.whole(),
            histogram: self.text(),
        }
    }

    fn stability(&mut self) -> Stability {
        [Stability::Unstable, Stability::Commit, Stability::DataSync, Stability::FileSync]
            [usize::try_from(self.below(4)).unwrap()]
    }

    fn workload(&mut self) -> Workload {
        let block_bytes = if self.below(3) == 0 { self.whole() } else { 4096 };
        match self.below(8) {
            0 => Workload::Null,
            1 => Workload::Rate { procedure: RateProcedure::Getattr },
            2 => Workload::SequentialRead { block_bytes, shared_file: self.below(2) == 0 },
            3 => {
                let stability = self.stability();
                Workload::SequentialWrite { block_bytes, shared_file: self.below(2) == 0, stability }
            }
            4 => {
                let read_percent = u8::try_from(self.below(256)).unwrap();
                Workload::Random { block_bytes, read_percent, stability: self.stability() }
            }
            5 => Workload::Metadata {
                files_per_directory: self.whole(),
                directories_per_thread: self.whole(),
                file_bytes: self.whole(),
            },
            6 => Workload::SmallFiles {
                files_per_directory: self.whole(),
                directories_per_thread: self.whole(),
                file_bytes: self.whole(),
            },
            _ => Workload::Readdir { names: self.whole(), plus: self.below(2) == 0 },
        }
    }

    fn phase(&mut self) -> Phase {
        let procedure = if self.below(2) == 0 { "CREATE".to_owned() } else { self.text() };
        Phase {
            procedure,
            seconds: self.figure(),
            operations: self.whole(),
            operations_per_s: self.figure(),
            latency: self.latency(),
        }
    }

    fn sample(&mut self) -> Sample {
        Sample {
            at_s: self.figure(),
            operations_per_s: self.figure(),
            bytes_per_s: self.figure(),
            p50_ns: self.whole(),
            p99_ns: self.whole(),
        }
    }

    fn limit(&mut self) -> FractionOfLimit {
        let kinds = [
            LimitKind::NullCalls,
            LimitKind::TcpLineRate,
            LimitKind::TcpSentRate,
            LimitKind::DirectoryRead,
            LimitKind::DirectoryWrite,
            LimitKind::DirectorySync,
        ];
        FractionOfLimit { limit: kinds[usize::try_from(self.below(6)).unwrap()], fraction: self.figure() }
    }

    fn measurement(&mut self) -> Measurement {
        Measurement {
            name: self.text(),
            protocol: Protocol::ALL[usize::try_from(self.below(3)).unwrap()],
            workload: self.workload(),
            slots: self.maybe(|it| Slots {
                granted: it.small(),
                wanted: it.small(),
                depth_wanted: it.small(),
            }),
            threads: self.small(),
            depth: self.small(),
            connections: self.small(),
            seed: self.next(),
            working_set_bytes: self.next(),
            seconds: self.figure(),
            warmup_seconds: self.figure(),
            operations: self.whole(),
            bytes: self.whole(),
            errors: self.several(3, |it| ErrorCount { cause: it.text(), count: it.whole() }),
            operations_per_s: self.figure(),
            bytes_per_s: self.figure(),
            latency: self.latency(),
            phases: self.several(4, Self::phase),
            timeline: self.several(20, Self::sample),
            steady: self.maybe(|it| Steady {
                reached: it.below(2) == 0,
                window_s: it.figure(),
                spread: it.figure(),
                slope: it.figure(),
            }),
            interrupted: self.below(2) == 0,
            failed_hosts: self.several(3, Self::text),
            verified_blocks: self.maybe(Self::whole),
            delayed_calls: self.whole(),
            server: self.maybe(|it| ServerCost {
                pid: it.small(),
                cpu_seconds: it.figure(),
                cpu_ns_per_operation: it.figure(),
                cpu_seconds_per_gib: it.maybe(Self::figure),
            }),
            limit: self.maybe(Self::limit),
            published: self
                .several(3, |it| if it.below(2) == 0 { "dell-seq-read".to_owned() } else { it.text() }),
        }
    }

    fn tier_run(&mut self) -> TierRun {
        let tier = self.maybe(|it| TierShare {
            name: it.text(),
            cap_bytes_per_s: it.figure(),
            fraction: it.figure(),
        });
        TierRun { tier, measurement: self.measurement() }
    }

    fn target(&mut self) -> Target {
        Target {
            address: self.text(),
            export: self.text(),
            protocol: Protocol::ALL[usize::try_from(self.below(3)).unwrap()],
            label: self.maybe(Self::text),
        }
    }

    fn host(&mut self) -> Host {
        Host {
            name: self.text(),
            cores: self.small(),
            kernel: self.text(),
            memory_bytes: self.maybe(Self::whole),
        }
    }

    fn comparison(&mut self) -> Comparison {
        Comparison {
            a: self.target(),
            b: self.target(),
            a_memory_bytes: self.maybe(Self::whole),
            b_memory_bytes: self.maybe(Self::whole),
            rounds: self.small(),
            totals: self.maybe(|it| Totals {
                measurements: it.whole(),
                seconds: it.figure(),
                warmup_seconds: it.figure(),
                operations: it.whole(),
                failed_operations: it.whole(),
                bytes: it.whole(),
                threads: (it.small(), it.small()),
                depth: (it.small(), it.small()),
                connections: (it.small(), it.small()),
            }),
            rows: self.several(4, |it| ComparisonRow {
                name: it.text(),
                footprint_bytes: it.whole(),
                a_median: it.figure(),
                b_median: it.figure(),
                ratio: it.figure(),
                ratio_low: it.figure(),
                ratio_high: it.figure(),
                rounds: it.small(),
                unit: it.text(),
                a_cpu_ns_per_operation: it.maybe(Self::figure),
                b_cpu_ns_per_operation: it.maybe(Self::figure),
                cpu_ratio: it.maybe(Self::figure),
                a_cpu_seconds_per_gib: it.maybe(Self::figure),
                b_cpu_seconds_per_gib: it.maybe(Self::figure),
                a_errors: it.next(),
                b_errors: it.next(),
            }),
        }
    }

    /// Returns a whole report.
    pub(crate) fn report(&mut self) -> Report {
        Report {
            schema: SCHEMA,
            tool: self.text(),
            started_unix_s: self.whole(),
            target: self.target(),
            host: self.host(),
            server_memory_bytes: self.maybe(Self::whole),
            agents: self.several(3, Self::host),
            limits: Limits {
                null_calls_per_s: self.maybe(Self::figure),
                null_p50_ns: self.maybe(Self::whole),
                tcp_bytes_per_s: self.maybe(Self::figure),
                tcp_sent_bytes_per_s: self.maybe(Self::figure),
                tcp_peer: self.maybe(Self::text),
                directory: self.maybe(|it| DirectoryLimits {
                    path: it.text(),
                    read_bytes_per_s: it.figure(),
                    write_bytes_per_s: it.figure(),
                    syncs_per_s: it.figure(),
                    sync_p50_ns: it.whole(),
                }),
                not_valid: self.several(2, |_| LimitKind::NullCalls),
            },
            caches: self.text(),
            results: self.several(24, Self::measurement),
            tiers: self.several(3, Self::tier_run),
            comparison: self.maybe(Self::comparison),
            notes: self.several(2, Self::text),
        }
    }
}
