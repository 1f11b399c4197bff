//! Measurements outside the main table: latency of one client, fractions of limits, group commit, connections, restart
//! after a crash, listings. `growth` measures large volumes, `tails` and `isolation` the interference between clients,
//! `scrape` metrics, `ceph` volumes on a Ceph cluster.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::bench::{Sample, Time};
use super::results::{Figure, Goal, median_of};
use super::rows::{GETATTR, NULL, READ, SEQUENTIAL_READ};
use super::{Run, ceph, cpu, growth, isolation, scrape, tails};
use crate::process;
use crate::server::Server;

/// A part: its name on the command line, and its measurement.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) run: fn(&mut Run<'_>) -> Result<(), String>,
}

/// The part that runs only if it is named, as it needs Ceph.
pub(super) const CEPH: &str = "ceph";

/// The part that compares rows of the main table.
pub(super) const LIMITS: &str = "limits";

/// All parts, in the order in which they run.
pub(super) const PARTS: &[Part] = &[
    Part { name: LIMITS, run: limits },
    Part { name: "latency", run: latency },
    Part { name: "group-commit", run: group_commit },
    Part { name: "connections", run: connections },
    Part { name: "restart", run: restart },
    Part { name: "listing", run: listing },
    Part { name: "scrape", run: scrape::run },
    Part { name: "fairness", run: tails::fairness },
    Part { name: "isolation", run: isolation::run },
    Part { name: "tails", run: tails::tails },
    Part { name: "crowd", run: tails::crowd },
    Part { name: "growth", run: growth::run },
    Part { name: CEPH, run: ceph::run },
];

/// The rows that [`LIMITS`] compares.
pub(super) const LIMIT_ROWS: &[&str] = &[NULL, GETATTR, READ, SEQUENTIAL_READ];

/// Latency of one client's call, relative to its ideal.
const LATENCY_RATIO_MAX: f64 = 1.3;

/// Minimum duration of a sync in the group commit measurement.
const SYNC_US: &str = "1000";

/// Durable creates, with increasing numbers in flight.
pub(super) const CREATES: &[Creates] = &[
    Creates { size: (1, 1), files: 1500, least: 800.0 },
    Creates { size: (1, 16), files: 16_000, least: 9_000.0 },
    Creates { size: (8, 16), files: 10_000, least: 40_000.0 },
    Creates { size: (32, 16), files: 4_000, least: 60_000.0 },
];

/// A measurement of durable creates.
pub(super) struct Creates {
    /// Connections and depth.
    size: (u32, u32),
    /// Files per connection.
    files: u32,
    /// The minimum rate, in creates per second, on a device whose sync takes a millisecond.
    least: f64,
}

/// Idle connections whose memory is measured, those that warm the server up before, and the most that are open at once: nearly as many
/// as the server keeps (`CONNECTIONS_MAX` less `CONNECTIONS_SPARE` of its limits).
const IDLE: usize = 1024;
const WARM: usize = 64;
const CONNECTIONS_MAX: u32 = 9_800;
const IDLE_BYTES_MAX: f64 = 64.0 * 1024.0;

/// Idle time before memory is measured.
const IDLE_TIME: Duration = Duration::from_secs(5);

/// Time to find the journal's highest fill, and time limit to reach it again.
const FILL: Duration = Duration::from_secs(8);
const FULL: Duration = Duration::from_secs(20);
/// Fraction of the highest fill that counts as full.
const FULL_FRACTION: f64 = 0.9;
const RESTART_SECONDS_MAX: f64 = 3.0;

const NAMES: u64 = 1_000_000;
const NAMES_PER_SECOND: f64 = 500_000.0;

/// Compares rates with their limits in the same round.
fn limits(run: &mut Run<'_>) -> Result<(), String> {
    let rates = |name: &str, figure: fn(&Sample) -> f64| -> Vec<f64> {
        run.measured.over_nfs3(name).iter().map(figure).collect()
    };
    let calls = |sample: &Sample| sample.operations_per_s;
    let null = rates(NULL, calls);
    let of = |part: &[f64], whole: &[f64]| part.iter().zip(whole).map(|(a, b)| a / b).collect::<Vec<_>>();
    let figures = [
        ("GETATTR rate, of the NULL rate", of(&rates(GETATTR, calls), &null), 0.65),
        ("cached random 4 KiB READ rate, of the NULL rate", of(&rates(READ, calls), &null), 0.40),
        (
            "sequential READ, of TCP between two threads of the client",
            of(&rates(SEQUENTIAL_READ, |sample| sample.bytes_per_s), &run.tcp_bytes_per_s),
            0.80,
        ),
    ];
    for (name, values, least) in figures.into_iter().filter(|(_, values, _)| !values.is_empty()) {
        run.figures.push(Figure { name: name.to_owned(), values, unit: "%", goal: Goal::AtLeast(least) });
    }
    Ok(())
}

/// Measures one call at a time, relative to a NULL call, or to a NULL call and a sync of the device.
fn latency(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(&[])?;
    let alone = (1, 1);
    let (mut nulls, mut syncs) = (Vec::new(), Vec::new());
    let mut ratios = [const { Vec::<f64>::new() }; 4];
    for _ in 0..run.options.rounds {
        let time = run.time();
        let null = run.sample(&server, &["null"], alone, time)?.p50_us;
        let getattr = run.sample(&server, &["getattr"], alone, time)?.p50_us;
        let read = run.sample(&server, &["random", "--working-set", "8MiB"], alone, time)?.p50_us;
        let create = run.sample(&server, &["create-remove"], alone, time)?;
        let create = create.phase_p50_us("CREATE").unwrap_or(create.p50_us);
        let write = run.sample(&server, &["write-file-sync", "--working-set", "8MiB"], alone, time)?.p50_us;
        let (_, sync) = run.bench.limits(&server.target, &run.scratch.folder, time.seconds / 4.0)?;
        nulls.push(null);
        syncs.push(sync);
        let durable = null + sync;
        for (list, value) in
            ratios.iter_mut().zip([getattr / null, read / null, create / durable, write / durable])
        {
            list.push(value);
        }
    }
    let mut figure = |name: &str, values, unit, goal| {
        run.figures.push(Figure { name: name.to_owned(), values, unit, goal });
    };
    figure("one client: NULL, p50", nulls, " µs", Goal::None);
    figure("one client: 4 KiB write and sync without the server, p50", syncs, " µs", Goal::None);
    let names = [
        "one client: GETATTR, of a NULL call",
        "one client: cached READ, of a NULL call",
        "one client: durable CREATE, of a NULL call and a sync",
        "one client: WRITE 4 KiB FILE_SYNC, of a NULL call and a sync",
    ];
    for (name, values) in names.into_iter().zip(ratios) {
        figure(name, values, "×", Goal::AtMost(LATENCY_RATIO_MAX));
    }
    Ok(())
}

/// Measures durable creates on a device whose sync takes a millisecond.
fn group_commit(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(&["--sync-delay", SYNC_US])?;
    let mut rounds = vec![Vec::new(); CREATES.len()];
    for _ in 0..run.options.rounds {
        for (rates, creates) in rounds.iter_mut().zip(CREATES) {
            rates.push(creates.rate(run, &server)?);
        }
    }
    for (values, creates) in rounds.into_iter().zip(CREATES) {
        let name = format!("durable CREATEs with 1 ms syncs, {} in flight", creates.in_flight());
        run.figures.push(Figure { name, values, unit: "/s", goal: Goal::AtLeast(creates.least) });
    }
    Ok(())
}

impl Creates {
    /// Returns how many are in flight at once.
    pub(super) fn in_flight(&self) -> u32 {
        self.size.0 * self.size.1
    }

    /// Measures creates per second.
    pub(super) fn rate(&self, run: &mut Run<'_>, server: &Server) -> Result<f64, String> {
        let files = if run.options.quick { self.files / 50 } else { self.files };
        let work = ["metadata", "--files", &files.to_string()];
        // Each phase runs once, however short the time.
        let once = Time { warmup: 0.0, seconds: 0.01 };
        let sample = run.sample(server, &work, self.size, once)?;
        sample.phase_rate("CREATE").ok_or_else(|| "bench reports no rate of CREATE".to_owned())
    }
}

/// Measures the memory of idle connections, and calls on many connections.
fn connections(run: &mut Run<'_>) -> Result<(), String> {
    let count = if run.options.quick { 200 } else { CONNECTIONS_MAX };
    raise_descriptor_limit(IDLE + WARM + 100);
    let server = run.server(&[])?;
    let open = |count: usize| (0..count).map(|_| server.connect()).collect::<Result<Vec<_>, _>>();
    let warm = open(WARM)?;
    let before = cpu::resident_bytes(server.target.pid)?;
    let idle = open(IDLE)?;
    thread::sleep(IDLE_TIME);
    let after = cpu::resident_bytes(server.target.pid)?;
    drop((warm, idle));
    let each = (after - before).max(0.0) / IDLE as f64 / 1024.0;
    run.figures.push(Figure {
        name: format!("memory per connection, {IDLE} idle connections"),
        values: vec![each],
        unit: " KiB",
        goal: Goal::AtMost(IDLE_BYTES_MAX / 1024.0),
    });
    let time = run.time();
    let sample = run.sample(&server, &["null"], (count, 1), time)?;
    run.figures.push(Figure {
        name: format!("NULL calls on {count} connections at once"),
        values: vec![sample.operations_per_s],
        unit: "/s",
        goal: Goal::None,
    });
    Ok(())
}

/// Raises this process's limit of open files, if permitted.
fn raise_descriptor_limit(count: usize) {
    let this = std::process::id().to_string();
    let limit = format!("--nofile={count}:");
    // A failure shows when a connection cannot be opened.
    if fs::read_dir("/proc/self/fd").is_ok() && soft_descriptor_limit().is_none_or(|soft| soft < count) {
        let _ = process::output(std::process::Command::new("prlimit").args(["--pid", &this, &limit]));
    }
}

fn soft_descriptor_limit() -> Option<usize> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Kills the server while its journal is nearly full, and measures the time to the next reply.
fn restart(run: &mut Run<'_>) -> Result<(), String> {
    let (fill, full) = if run.options.quick { (FILL / 8, FULL / 8) } else { (FILL, FULL) };
    let (mut seconds, mut filled) = (Vec::new(), Vec::new());
    for _ in 0..run.options.rounds {
        let mut server = run.server(&[])?;
        // Like unpacking an archive of small files: names, data and attributes.
        let work =
            ["small-files", "--threads", "8", "--depth", "16", "--files", "1000", "--directories", "50"];
        let mut command = run.bench.background(&server.target, &[&work[..], &["--seconds", "600"]].concat());
        let mut load = process::start(&mut command)?;
        let began = Instant::now();
        let mut highest: f64 = 0.0;
        let used = loop {
            thread::sleep(Duration::from_millis(20));
            let used = server.gauge("journal_used_bytes");
            let Ok(used) = used else { break used };
            highest = highest.max(used);
            let is_full = began.elapsed() > fill && used >= highest * FULL_FRACTION;
            if is_full || began.elapsed() > fill + full {
                break Ok(used);
            }
        };
        let restarted = used.and_then(|used| Ok((used, server.kill_and_restart()?)));
        process::stop(&mut load);
        let (used, time) = restarted?;
        filled.push(used / f64::from(1u32 << 20));
        seconds.push(time.as_secs_f64());
    }
    run.figures.push(Figure {
        name: "journal in use when the server is killed".to_owned(),
        values: filled,
        unit: " MiB",
        goal: Goal::None,
    });
    run.figures.push(Figure {
        name: "from kill -9 to the first reply after the restart".to_owned(),
        values: seconds,
        unit: " s",
        goal: Goal::AtMost(RESTART_SECONDS_MAX),
    });
    Ok(())
}

/// Measures READDIRPLUS of a large directory.
fn listing(run: &mut Run<'_>) -> Result<(), String> {
    let server = run.server(&[])?;
    let names = if run.options.quick { 10_000 } else { NAMES };
    // The directory is created once, so there is one long measurement instead of rounds.
    let time = Time { warmup: 0.0, seconds: run.time().seconds * f64::from(run.options.rounds.max(2)) };
    let work = ["readdirplus", "--names", &names.to_string(), "--keep"];
    let sample = run.sample(&server, &work, (1, 1), time)?;
    run.figures.push(Figure {
        name: format!("READDIRPLUS of {names} names, one client"),
        values: vec![sample.operations_per_s],
        unit: " names/s",
        goal: Goal::AtLeast(NAMES_PER_SECOND),
    });
    run.figures.push(Figure {
        name: "server CPU per name of READDIRPLUS".to_owned(),
        values: vec![median_of(&[sample], |sample| sample.server_us)],
        unit: " µs",
        goal: Goal::None,
    });
    Ok(())
}
