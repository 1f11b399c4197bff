//! A report of a run with every kind of measurement. The figures are invented.

use crate::client::Protocol;
use crate::result::{
    Comparison, ComparisonRow, DirectoryLimits, ErrorCount, FractionOfLimit, Host, Latency, LimitKind,
    Limits, Measurement, Phase, Report, SCHEMA, Sample, ServerCost, Steady, Target, TierRun, TierShare,
};
use crate::workload::{RateProcedure, Stability, Workload};

pub(crate) const NULL_CALLS: f64 = 640_000.0;
pub(crate) const LINE_RATE: f64 = 9.6e9;

pub(crate) fn target(label: &str) -> Target {
    Target {
        address: "192.0.2.7:2049".to_owned(),
        export: "/main".to_owned(),
        protocol: Protocol::V3,
        label: Some(label.to_owned()),
    }
}

pub(crate) fn latency(p50_ns: u64) -> Latency {
    Latency {
        count: 1_000_000,
        mean_ns: p50_ns as f64 * 1.2,
        min_ns: p50_ns / 3,
        p50_ns,
        p90_ns: p50_ns * 18 / 10,
        p99_ns: p50_ns * 42 / 10,
        p999_ns: p50_ns * 11,
        max_ns: p50_ns * 70,
        histogram: String::new(),
    }
}

/// Returns a curve that rises with threads and levels off.
fn saturating(most: f64, half_at: f64, threads: u32) -> f64 {
    let threads = f64::from(threads);
    most * threads / (threads + half_at) * (1.0 - threads / 18_000.0)
}

fn timeline(rate: f64, block: f64) -> Vec<Sample> {
    let sample = |i: u32| {
        let at = f64::from(i);
        let wobble = 1.0 + 0.04 * (at * 1.7).sin() + 0.03 * (at * 0.61).cos() - 0.5 * (-at / 4.0).exp();
        Sample {
            at_s: at,
            operations_per_s: rate * wobble,
            bytes_per_s: rate * wobble * block,
            p50_ns: 40_000,
            p99_ns: 170_000,
        }
    };
    (1..=60).map(sample).collect()
}

pub(crate) fn measurement(
    name: &str,
    workload: Workload,
    threads: u32,
    rate: f64,
    block: f64,
) -> Measurement {
    let limit = if block >= 65_536.0 {
        FractionOfLimit { limit: LimitKind::TcpLineRate, fraction: rate * block / LINE_RATE }
    } else {
        FractionOfLimit { limit: LimitKind::NullCalls, fraction: rate / NULL_CALLS }
    };
    let nanoseconds = f64::from(threads) * 4.0 / rate * 1e9;
    let whole: u64 = format!("{nanoseconds:.0}").parse().unwrap_or(1000);
    Measurement {
        protocol: Protocol::V3,
        slots: None,
        name: name.to_owned(),
        workload,
        threads,
        depth: 4,
        connections: threads.min(16),
        seed: 7,
        working_set_bytes: 8 << 30,
        seconds: 60.0,
        warmup_seconds: 5.0,
        operations: 12_345_678,
        bytes: if block > 0.0 { 50_566_000_000 } else { 0 },
        errors: Vec::new(),
        operations_per_s: rate,
        bytes_per_s: rate * block,
        latency: latency(whole.max(1)),
        phases: Vec::new(),
        timeline: timeline(rate, block),
        steady: Some(Steady { reached: true, window_s: 20.0, spread: 0.062, slope: 0.008 }),
        interrupted: false,
        verified_blocks: None,
        delayed_calls: 0,
        server: Some(ServerCost {
            pid: 4242,
            cpu_seconds: 41.0,
            cpu_ns_per_operation: 3320.0,
            cpu_seconds_per_gib: (block > 0.0).then_some(0.14),
        }),
        limit: Some(limit),
        published: Vec::new(),
        failed_hosts: Vec::new(),
    }
}

fn phase(procedure: &str, rate: f64) -> Phase {
    Phase {
        procedure: procedure.to_owned(),
        seconds: 9.3,
        operations: 480_000,
        operations_per_s: rate,
        latency: latency(180_000),
    }
}

const THREADS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

fn streams(results: &mut Vec<Measurement>) {
    for threads in THREADS {
        let read = Workload::SequentialRead { block_bytes: 1 << 20, shared_file: false };
        let mut it =
            measurement("sequential read 1 MiB", read, threads, saturating(8400.0, 1.6, threads), 1048576.0);
        it.published = (threads == 16).then(|| "dell-seq-read".to_owned()).into_iter().collect();
        results.push(it);
        let shared = Workload::SequentialRead { block_bytes: 16 << 20, shared_file: true };
        results.push(measurement(
            "sequential read 16 MiB N-1",
            shared,
            threads,
            saturating(470.0, 1.1, threads),
            16777216.0,
        ));
        let write = Workload::SequentialWrite {
            block_bytes: 1 << 20,
            shared_file: false,
            stability: Stability::Unstable,
        };
        let mut it = measurement(
            "sequential write 1 MiB",
            write,
            threads,
            saturating(4900.0, 1.3, threads),
            1048576.0,
        );
        it.limit =
            Some(FractionOfLimit { limit: LimitKind::DirectoryWrite, fraction: it.bytes_per_s / 6.1e9 });
        results.push(it);
    }
}

fn random(results: &mut Vec<Measurement>) {
    for threads in THREADS {
        for (share, most) in [(100, 298_000.0), (70, 171_000.0), (0, 96_000.0)] {
            let workload =
                Workload::Random { block_bytes: 4096, read_percent: share, stability: Stability::FileSync };
            let name = format!("random 4 KiB {share}:{}", 100 - share);
            let mut it = measurement(&name, workload, threads, saturating(most, 9.0, threads), 4096.0);
            if share == 100 && threads == 128 {
                it.published = vec!["anf-4k-uncached-read".to_owned()];
                it.verified_blocks = Some(12_345_678);
            }
            results.push(it);
        }
    }
    for share in [10u8, 20, 30, 40, 50, 60, 80, 90] {
        let most = 96_000.0 + 202_000.0 * (f64::from(share) / 100.0).powi(2);
        let workload =
            Workload::Random { block_bytes: 4096, read_percent: share, stability: Stability::FileSync };
        let name = format!("random 4 KiB {share}:{}", 100 - share);
        results.push(measurement(&name, workload, 64, saturating(most, 9.0, 64), 4096.0));
    }
}

fn metadata(results: &mut Vec<Measurement>) {
    for threads in THREADS {
        for (bytes, create) in [(0, 61_000.0), (4096, 38_000.0)] {
            let workload = Workload::Metadata {
                files_per_directory: 3000,
                directories_per_thread: 4,
                file_bytes: bytes,
            };
            let name = if bytes == 0 { "mdtest, empty files" } else { "mdtest, 4 KiB files" };
            let rate = |most: f64| saturating(most, 14.0, threads);
            let mut it = measurement(name, workload, threads, rate(create * 2.0), 0.0);
            it.phases = vec![phase("CREATE", rate(create)), phase("STAT", rate(410_000.0))];
            if bytes > 0 {
                it.phases.push(phase("READ", rate(220_000.0)));
            }
            it.phases.push(phase("REMOVE", rate(create * 1.1)));
            (it.timeline, it.limit, it.steady) = (Vec::new(), None, None);
            if bytes == 0 && threads == 512 {
                it.published = vec!["dell-mdtest-empty-create".to_owned()];
            }
            results.push(it);
        }
    }
}

fn calls(results: &mut Vec<Measurement>) {
    results.push(measurement("NULL", Workload::Null, 64, NULL_CALLS, 0.0));
    for (procedure, name, rate) in [
        (RateProcedure::Getattr, "GETATTR", 452_000.0),
        (RateProcedure::Lookup, "LOOKUP", 391_000.0),
        (RateProcedure::CreateRemove, "CREATE + REMOVE", 88_000.0),
        (RateProcedure::WriteFileSync, "WRITE 4 KiB FILE_SYNC", 121_000.0),
    ] {
        results.push(measurement(name, Workload::Rate { procedure }, 64, rate, 0.0));
    }
    let mut listing =
        measurement("readdir", Workload::Readdir { names: 1_000_000, plus: true }, 1, 612_000.0, 0.0);
    listing.limit = None;
    listing.steady = Some(Steady { reached: false, window_s: 20.0, spread: 0.31, slope: 0.12 });
    results.push(listing);
    let tree =
        Workload::SmallFiles { files_per_directory: 100, directories_per_thread: 40, file_bytes: 4096 };
    let mut it = measurement("tree of 4 KiB files", tree, 16, 31_000.0, 4096.0);
    it.phases = vec![phase("CREATE", 31_000.0), phase("READ", 152_000.0), phase("REMOVE", 44_000.0)];
    it.errors = vec![ErrorCount { cause: "WRITE: NFS3ERR_NOSPC".to_owned(), count: 3 }];
    results.push(it);
}

pub(crate) fn comparison() -> Comparison {
    let row = |name: &str, a: f64, b: f64, unit: &str, cpu: f64| ComparisonRow {
        name: name.to_owned(),
        footprint_bytes: 8 << 30,
        a_median: a,
        b_median: b,
        ratio: a / b,
        ratio_low: a / b * 0.91,
        ratio_high: a / b * 1.07,
        rounds: 7,
        unit: unit.to_owned(),
        a_cpu_ns_per_operation: Some(1900.0),
        b_cpu_ns_per_operation: Some(1900.0 / cpu),
        cpu_ratio: Some(cpu),
        a_cpu_seconds_per_gib: Some(0.12),
        b_cpu_seconds_per_gib: Some(0.12 / cpu),
        a_errors: 0,
        b_errors: 0,
    };
    Comparison {
        a: target("Holdfast"),
        b: Target {
            address: "192.0.2.8:2049".to_owned(),
            export: "/ganesha".to_owned(),
            protocol: Protocol::V3,
            label: Some("nfs-ganesha 4.3".to_owned()),
        },
        a_memory_bytes: Some(64 << 30),
        b_memory_bytes: None,
        rounds: 7,
        totals: None,
        rows: vec![
            row("NULL", 640_000.0, 191_000.0, "operations/s", 0.21),
            row("GETATTR", 452_000.0, 174_000.0, "operations/s", 0.25),
            row("READ 4 KiB, cached", 298_000.0, 133_000.0, "operations/s", 0.31),
            row("CREATE + REMOVE", 88_000.0, 23_000.0, "operations/s", 0.14),
            row("sequential read 1 MiB", 8.8e9, 9.0e9, "bytes/s", 0.6),
            row("sequential write 1 MiB", 3.6e9, 4.2e9, "bytes/s", 0.8),
        ],
    }
}

/// Reads without a limit and at two tiers.
fn tiers() -> Vec<TierRun> {
    let run = |rate: f64, tier| {
        let read = Workload::SequentialRead { block_bytes: 1 << 20, shared_file: false };
        TierRun { tier, measurement: measurement("sequential read 1 MiB", read, 16, rate, 1_048_576.0) }
    };
    let tier = |name: &str, cap_bytes_per_s: f64, fraction| {
        let rate = cap_bytes_per_s * fraction / 1_048_576.0;
        run(rate, Some(TierShare { name: name.to_owned(), cap_bytes_per_s, fraction }))
    };
    vec![run(8400.0, None), tier("oci-1", 125e6, 0.9998), tier("oci-20", 2.5e9, 1.0012)]
}

pub(crate) fn report() -> Report {
    let mut results = Vec::new();
    streams(&mut results);
    random(&mut results);
    metadata(&mut results);
    calls(&mut results);
    let host = |name: &str| Host {
        name: name.to_owned(),
        cores: 16,
        kernel: "Linux 6.12.48".to_owned(),
        memory_bytes: Some(64 << 30),
    };
    Report {
        schema: SCHEMA,
        tool: "holdfast bench 0.1.0".to_owned(),
        started_unix_s: 1_795_246_200,
        target: target("Holdfast on two NVMe drives"),
        host: host("client-1"),
        server_memory_bytes: None,
        agents: vec![host("client-2"), host("client-3")],
        limits: Limits {
            null_calls_per_s: Some(NULL_CALLS),
            null_p50_ns: Some(21_400),
            tcp_bytes_per_s: Some(LINE_RATE),
            tcp_sent_bytes_per_s: None,
            tcp_peer: None,
            directory: Some(DirectoryLimits {
                path: "/srv/holdfast".to_owned(),
                read_bytes_per_s: 13.2e9,
                write_bytes_per_s: 6.1e9,
                syncs_per_s: 41_000.0,
                sync_p50_ns: 22_000,
            }),
            not_valid: Vec::new(),
        },
        caches: "The client has none. The server's memory is 64 GiB, the working set 256 GiB; the server was restarted \
                 before each test."
            .to_owned(),
        results,
        tiers: tiers(),
        comparison: Some(comparison()),
        notes: Vec::new(),
    }
}
