//! A volume on a Ceph cluster, compared with the cluster itself, and with a local volume whose syncs take as long as a write to the
//! cluster. The cluster has one half of the machine's processors; servers, clients and `rados bench` have the other.

mod checkpoints;

use super::bench::Time;
use super::parts::{CREATES, Creates};
use super::results::{Figure, Goal, median};
use super::{Run, cpu};
use crate::ceph::Ceph;
use crate::server::Server;

/// Where the volume is.
const DATA: &str = "rados:holdfast@nfs/perf";

/// The memory for large transfers: less than the files that are read, which therefore come from the cluster.
const MEMORY: &str = "384 MiB";

/// Bytes of each OSD: two journals of 512 MiB, and what three rounds leave behind.
const OSD_BYTES: u64 = 9 << 29;
const QUICK_OSD_BYTES: u64 = 3 << 30;

/// Large transfers: connections, and operations in flight on each.
const TRANSFERS: (u32, u32) = (4, 4);
const WORKING_SET: &str = "512MiB";
const QUICK_WORKING_SET: &str = "64MiB";

/// The least share of the local volume's creates, and of the cluster's transfers, that must be reached.
const CREATES_MIN: f64 = 0.9;
const TRANSFERS_MIN: f64 = 0.8;

/// What `rados bench` calls MiB per second.
const BANDWIDTH: &str = "Bandwidth (MB/sec)";

/// The least share of the cluster's writes of 4 MiB that a checkpoint must reach.
const CHECKPOINTS_MIN: f64 = 0.7;

/// Measures creates, large transfers and checkpoints.
pub(super) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let folder = run.folder();
    let bytes = if run.options.quick { QUICK_OSD_BYTES } else { OSD_BYTES };
    let processors = cpu::Processors::all()?;
    processors.take_first_half()?;
    let ceph = Ceph::start_with(&folder, run.binary.clone(), "127.0.0.1", bytes)?;
    let others = processors.take_second_half()?;
    let (mut syncs, mut creates, mut transfers) = (Vec::new(), Vec::new(), Vec::new());
    let mut checkpoints = Vec::new();
    for _ in 0..run.options.rounds {
        let sync = write_seconds(&ceph, run.time())?;
        let local = run.server(&["--sync-delay", &format!("{:.0}", sync * 1e6)])?;
        let theirs = CREATES.iter().map(|creates| create(run, &[], &local, creates));
        let theirs: Vec<Created> = theirs.collect::<Result<_, _>>()?;
        drop(local);
        let (osds, server) = (ceph.osds()?, Server::on_ceph(&ceph, DATA, run.folder(), &[])?);
        let ours = CREATES.iter().map(|creates| create(run, &osds, &server, creates));
        let ours: Vec<Created> = ours.collect::<Result<_, _>>()?;
        drop(server);
        syncs.push(sync * 1e3);
        creates.push(ours.into_iter().zip(theirs).collect::<Vec<_>>());
        let server = Server::on_ceph(&ceph, DATA, run.folder(), &["--memory", MEMORY])?;
        transfers.push(transfer(run, &ceph, &server, others)?);
        drop(server);
        checkpoints.push(checkpoints::rate(run, &ceph)?);
    }
    let mut figure = |name: String, values: Vec<f64>, unit, goal| {
        run.figures.push(Figure { name, values, unit, goal });
    };
    figure("Ceph: write of 4 KiB, three copies, mean".to_owned(), syncs, " ms", Goal::None);
    for (at, in_flight) in CREATES.iter().map(Creates::in_flight).enumerate() {
        let rounds = || creates.iter().map(|round: &Vec<(Created, Created)>| &round[at]);
        let name = format!("durable CREATEs on Ceph, {in_flight} in flight, of those with such a sync");
        let rates = rounds().map(|(ours, theirs)| ours.rate / theirs.rate).collect();
        figure(name, rates, "%", Goal::AtLeast(CREATES_MIN));
        let name =
            format!("CPU time of the server on Ceph, {in_flight} in flight, relative to the local volume");
        figure(name, rounds().map(|(ours, theirs)| ours.server / theirs.server).collect(), "×", Goal::None);
        let name = format!("CPU time of the OSDs, {in_flight} in flight, relative to the server on Ceph");
        figure(name, rounds().map(|(ours, _)| ours.osds / ours.server).collect(), "×", Goal::None);
    }
    run.figures.extend(transfer_figures(&transfers));
    let mut of_rounds = |name: &str, part: fn(&checkpoints::Rate) -> f64, unit, goal| {
        let values = checkpoints.iter().map(part).collect();
        run.figures.push(Figure { name: name.to_owned(), values, unit, goal });
    };
    let least = || Goal::AtLeast(CHECKPOINTS_MIN);
    let name = "a checkpoint of empty files on Ceph, of writes of 4 MiB by `rados bench`";
    of_rounds(name, |rate| rate.of_bench, "%", least());
    let name = "a checkpoint of files of 16 KiB on Ceph, of the same writes";
    of_rounds(name, |rate| rate.with_data, "%", least());
    let name = "time of the checkpoint of empty files, relative to the local volume";
    of_rounds(name, |rate| rate.of_local, "×", Goal::None);
    Ok(())
}

/// Returns what large transfers show.
fn transfer_figures(transfers: &[[Transferred; 2]]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (at, name) in ["WRITE", "READ"].into_iter().enumerate() {
        let mut figure = |name: String, part: fn(&Transferred) -> f64, unit, goal| {
            let values = transfers.iter().map(|round| part(&round[at])).collect();
            figures.push(Figure { name, values, unit, goal });
        };
        let of_bench = format!("sequential {name} 1 MiB on Ceph, of `rados bench`");
        figure(of_bench, |transferred| transferred.rate, "%", Goal::AtLeast(TRANSFERS_MIN));
        let of_bench = format!("CPU time per byte of that {name}, relative to `rados bench`, both with OSDs");
        figure(of_bench, |transferred| transferred.cpu, "×", Goal::None);
        let of_bench =
            format!("CPU time per byte of the server alone for that {name}, relative to `rados bench` alone");
        figure(of_bench, |transferred| transferred.server, "×", Goal::None);
        let in_use = format!("of the processors of server and client, in use for that {name}");
        figure(in_use, |transferred| transferred.in_use, "%", Goal::None);
    }
    figures
}

/// Files that were made, looked at, read and removed.
struct Created {
    /// Files made per second.
    rate: f64,
    /// CPU time of all of it, in seconds.
    server: f64,
    osds: f64,
}

fn create(run: &mut Run<'_>, osds: &[u32], server: &Server, creates: &Creates) -> Result<Created, String> {
    let used = || Ok::<_, String>((cpu::of(server.target.pid)?, used_by(osds)?));
    let before = used()?;
    let rate = creates.rate(run, server)?;
    let after = used()?;
    Ok(Created { rate, server: after.0 - before.0, osds: after.1 - before.1 })
}

/// Large transfers, compared with those of `rados bench`.
struct Transferred {
    /// The rate, as a fraction.
    rate: f64,
    /// CPU time per byte of OSDs, server and client, relative to OSDs and `rados bench`.
    cpu: f64,
    /// CPU time per byte of the server alone, relative to `rados bench` without the OSDs. If only CPU time bounds both, and both have
    /// equally many processors, the server reaches the reciprocal of this as a fraction of the rate.
    server: f64,
    /// The fraction of their processors that server and client take at that rate.
    in_use: f64,
}

/// What `rados bench` transfers.
struct Own {
    mib_per_s: f64,
    /// CPU time per MiB in microseconds.
    osds: f64,
    client: f64,
}

/// Measures large writes and reads of the server.
fn transfer(
    run: &mut Run<'_>,
    ceph: &Ceph,
    server: &Server,
    processors: usize,
) -> Result<[Transferred; 2], String> {
    let time = run.time();
    let seconds = format!("{:.0}", time.seconds.ceil());
    let at_once = (TRANSFERS.0 * TRANSFERS.1).to_string();
    let write = ["bench", &seconds, "write", "--no-cleanup", "-b", "1048576", "-t", &at_once];
    let writes = own(ceph, &write, "Total writes made")?;
    let reads = own(ceph, &["bench", &seconds, "seq", "-t", &at_once], "Total reads made")?;
    ceph.administer("rados", &["--pool", "nfs", "cleanup"])?;
    let set = if run.options.quick { QUICK_WORKING_SET } else { WORKING_SET };
    let mut through = |workload: &str, own: &Own| -> Result<Transferred, String> {
        let words = [workload, "--block", "1MiB", "--working-set", set];
        let sample = run.sample(server, &words, TRANSFERS, time)?;
        let cpu = sample.server_us + sample.client_us;
        let mib_per_s = sample.bytes_per_s / f64::from(1u32 << 20);
        Ok(Transferred {
            rate: mib_per_s / own.mib_per_s,
            cpu: (own.osds + cpu) / (own.osds + own.client),
            server: sample.server_us / own.client,
            in_use: cpu * mib_per_s / 1e6 / processors as f64,
        })
    };
    Ok([through("sequential-write", &writes)?, through("sequential-read", &reads)?])
}

/// Runs `rados bench` with 1 MiB objects. Its report labels their number `made`.
fn own(ceph: &Ceph, words: &[&str], made: &str) -> Result<Own, String> {
    let used = || Ok::<_, String>((used_by(&ceph.osds()?)?, cpu::of_children()?));
    let before = used()?;
    let said = bench(ceph, words)?;
    let after = used()?;
    let (mib_per_s, made) = (number(&said, BANDWIDTH)?, number(&said, made)?);
    let each = |before: f64, after: f64| (after - before) * 1e6 / made;
    Ok(Own { mib_per_s, osds: each(before.0, after.0), client: each(before.1, after.1) })
}

/// Returns the CPU time of processes in seconds.
fn used_by(processes: &[u32]) -> Result<f64, String> {
    processes.iter().map(|pid| cpu::of(*pid)).sum()
}

/// Returns the seconds that a write of 4 KiB to the cluster takes: the median of several means, since `rados bench` reports no
/// more than a mean.
fn write_seconds(ceph: &Ceph, time: Time) -> Result<f64, String> {
    let seconds = format!("{:.0}", (time.seconds / 3.0).ceil());
    let words = ["bench", &seconds, "write", "-b", "4096", "-t", "1"];
    let means: Result<Vec<f64>, String> =
        (0..3).map(|_| number(&bench(ceph, &words)?, "Average Latency(s)")).collect();
    Ok(median(&means?))
}

/// Runs `rados bench` and returns its report.
fn bench(ceph: &Ceph, words: &[&str]) -> Result<String, String> {
    ceph.administer("rados", &[&["--pool", "nfs"][..], words].concat())
}

/// Returns a number of a report of `rados bench`, whose form as JSON is not always valid.
fn number(said: &str, name: &str) -> Result<f64, String> {
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| format!("`rados bench` says no {name}: {said}"))
}
