//! A volume on a Ceph cluster, compared with the cluster itself, and with a local volume whose syncs take as long as a write to the
//! cluster. Cluster, server and client share the machine.

use super::bench::Time;
use super::parts::{CREATES, Creates};
use super::results::{Figure, Goal, median};
use super::{Run, cpu};
use crate::ceph::Ceph;
use crate::server::Server;

/// Where the volume is.
const DATA: &str = "rados:holdfast@nfs/perf";

/// Less than the files that are read, which therefore come from the cluster.
const MEMORY: &str = "384 MiB";

/// Bytes of each OSD.
const OSD_BYTES: u64 = 4 << 30;
const QUICK_OSD_BYTES: u64 = 3 << 30;

/// Large transfers: connections, and operations in flight on each.
const TRANSFERS: (u32, u32) = (4, 4);
const WORKING_SET: &str = "1GiB";
const QUICK_WORKING_SET: &str = "64MiB";

/// The least share of the local volume's creates, and of the cluster's transfers, that must be reached.
const CREATES_MIN: f64 = 0.9;
const TRANSFERS_MIN: f64 = 0.8;

/// Measures creates and large transfers.
pub(super) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let folder = run.folder();
    let bytes = if run.options.quick { QUICK_OSD_BYTES } else { OSD_BYTES };
    let ceph = Ceph::start_with(&folder, run.binary.clone(), "127.0.0.1", bytes)?;
    let server = Server::on_ceph(&ceph, DATA, run.folder(), &["--memory", MEMORY])?;
    let (mut syncs, mut creates, mut transfers) = (Vec::new(), Vec::new(), Vec::new());
    let mut costs = Vec::new();
    for _ in 0..run.options.rounds {
        let sync = write_seconds(&ceph, run.time())?;
        let local = run.server(&["--sync-delay", &format!("{:.0}", sync * 1e6)])?;
        let theirs = CREATES.iter().map(|creates| creates.rate(run, &local));
        let theirs: Vec<f64> = theirs.collect::<Result<_, _>>()?;
        drop(local);
        let ours = CREATES.iter().map(|creates| create(run, &ceph, &server, creates));
        let ours: Vec<(f64, f64)> = ours.collect::<Result<_, _>>()?;
        syncs.push(sync * 1e3);
        creates.push(ours.iter().zip(theirs).map(|((rate, _), theirs)| rate / theirs).collect::<Vec<_>>());
        costs.push(ours);
        transfers.push(transfer(run, &ceph, &server)?);
    }
    let mut figure = |name: String, values: Vec<f64>, unit, goal| {
        run.figures.push(Figure { name, values, unit, goal });
    };
    figure("Ceph: write of 4 KiB, three copies, mean".to_owned(), syncs, " ms", Goal::None);
    for (at, in_flight) in CREATES.iter().map(Creates::in_flight).enumerate() {
        let name = format!("durable CREATEs on Ceph, {in_flight} in flight, of those with such a sync");
        figure(name, creates.iter().map(|round| round[at]).collect(), "%", Goal::AtLeast(CREATES_MIN));
        let name = format!("CPU time of the OSDs per file made and removed, {in_flight} in flight");
        figure(name, costs.iter().map(|round| round[at].1).collect(), " µs", Goal::None);
    }
    for (at, name) in ["WRITE 1 MiB", "READ 1 MiB"].into_iter().enumerate() {
        let values = transfers.iter().map(|round| round[at]).collect();
        let name = format!("sequential {name} on Ceph, of `rados bench`");
        figure(name, values, "%", Goal::AtLeast(TRANSFERS_MIN));
    }
    Ok(())
}

/// Returns creates per second, and the CPU time of the OSDs per file, which is made, looked at, read and removed, in microseconds.
fn create(run: &mut Run<'_>, ceph: &Ceph, server: &Server, creates: &Creates) -> Result<(f64, f64), String> {
    let used = || ceph.osds()?.into_iter().map(cpu::of).sum::<Result<f64, String>>();
    let before = used()?;
    let rate = creates.rate(run, server)?;
    Ok((rate, (used()? - before) * 1e6 / f64::from(creates.files(run))))
}

/// Measures large transfers of the server, as fractions of the cluster's own.
fn transfer(run: &mut Run<'_>, ceph: &Ceph, server: &Server) -> Result<[f64; 2], String> {
    let time = run.time();
    let seconds = format!("{:.0}", time.seconds.ceil());
    let at_once = (TRANSFERS.0 * TRANSFERS.1).to_string();
    let write = ["bench", &seconds, "write", "--no-cleanup", "-b", "1048576", "-t", &at_once];
    let written = bandwidth(ceph, &write)?;
    let read = bandwidth(ceph, &["bench", &seconds, "seq", "-t", &at_once])?;
    ceph.administer("rados", &["--pool", "nfs", "cleanup"])?;
    let set = if run.options.quick { QUICK_WORKING_SET } else { WORKING_SET };
    let mut through = |workload: &str| -> Result<f64, String> {
        let sample =
            run.sample(server, &[workload, "--block", "1MiB", "--working-set", set], TRANSFERS, time)?;
        Ok(sample.bytes_per_s / f64::from(1u32 << 20))
    };
    Ok([through("sequential-write")? / written, through("sequential-read")? / read])
}

/// Returns the seconds that a write of 4 KiB to the cluster takes: the median of several means, since `rados bench` reports no
/// more than a mean.
fn write_seconds(ceph: &Ceph, time: Time) -> Result<f64, String> {
    let seconds = format!("{:.0}", (time.seconds / 3.0).ceil());
    let words = ["bench", &seconds, "write", "-b", "4096", "-t", "1"];
    let means: Result<Vec<f64>, String> =
        (0..3).map(|_| number(ceph, &words, "Average Latency(s)")).collect();
    Ok(median(&means?))
}

/// Returns MiB per second.
fn bandwidth(ceph: &Ceph, words: &[&str]) -> Result<f64, String> {
    number(ceph, words, "Bandwidth (MB/sec)")
}

/// Runs `rados bench` and returns a number of its report, whose form as JSON is not always valid.
fn number(ceph: &Ceph, words: &[&str], name: &str) -> Result<f64, String> {
    let said = ceph.administer("rados", &[&["--pool", "nfs"][..], words].concat())?;
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| format!("`rados bench` says no {name}: {said}"))
}
