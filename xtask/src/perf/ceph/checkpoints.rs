//! The rate of a checkpoint: how fast the records of very many new files move to the index, and the data of others to segments, while
//! nothing else goes on.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;

use super::{BANDWIDTH, bench, number};
use crate::ceph::Ceph;
use crate::nfs::Procedure;
use crate::perf::growth::{FILE_SYNC, FILES_PER_DIRECTORY, fill};
use crate::perf::{Run, scrape};
use crate::process::random_bytes;
use crate::server::{Server, await_socket};

/// Where the volume is, and the socket of its server among those of its machine.
const DATA: &str = "rados:holdfast@nfs/checkpoints";
const SOCKET: &str = "checkpoints@nfs/admin.sock";

/// New files of a checkpoint.
struct Files {
    count: u64,
    bytes: usize,
}

/// Files that are records of the index alone, and files whose data move from the journal to segments too.
const EMPTY: Files = Files { count: 100_000, bytes: 0 };
const SMALL: Files = Files { count: 4_000, bytes: 16 << 10 };
/// A quick run makes one in this many of these files.
const QUICK_PART: u64 = 4;
const _: () = assert!(SMALL.count / QUICK_PART >= FILES_PER_DIRECTORY);

/// Memory of the server: no memtable is full with these files, so that a checkpoint begins only a minute after the start, or after
/// the beginning of the one before.
const MEMORY: &str = "4 GiB";

/// How far the figures of a pool may lag: its manager gathers them every five seconds.
const LAG: Duration = Duration::from_secs(12);

/// Time limit of the wait for the checkpoint.
const PATIENCE: Duration = Duration::from_secs(120);

const MIB: f64 = (1u32 << 20) as f64;

/// Checkpoints so far, and the seconds that they took.
struct Made {
    count: f64,
    seconds: f64,
}

/// A checkpoint on Ceph.
pub(super) struct Rate {
    /// Bytes per second, as a fraction of what `rados bench` writes in objects of 4 MiB.
    pub(super) of_bench: f64,
    /// The same if the files have data.
    pub(super) with_data: f64,
    /// How long the first takes, relative to one on a local volume.
    pub(super) of_local: f64,
}

/// Measures two checkpoints on Ceph and one on a local volume.
pub(super) fn rate(run: &mut Run<'_>, ceph: &Ceph) -> Result<Rate, String> {
    let part = if run.options.quick { QUICK_PART } else { 1 };
    let [empty, small] = [EMPTY, SMALL].map(|files| Files { count: files.count / part, ..files });
    let seconds = format!("{:.0}", run.time().seconds.ceil());
    // The index writes as many objects at once (`WRITES_MAX` in `rados/src/index/writing.rs`).
    let words = ["bench", &seconds, "write", "-b", "4194304", "-t", "4"];
    let limit = number(&bench(ceph, &words)?, BANDWIDTH)?;
    let local = run.server(&["--memory", MEMORY])?;
    let theirs = checkpoint(&local, &local.admin_socket(), &empty, || Ok(0.0))?;
    drop(local);
    let server = Server::on_ceph(ceph, DATA, run.folder(), &["--memory", MEMORY])?;
    let socket = await_socket(ceph.local("server").join(SOCKET));
    let ours = checkpoint(&server, &socket, &empty, || written(ceph))?;
    let with_data = checkpoint(&server, &socket, &small, || written(ceph))?;
    let of_bench = |taken: &Taken| taken.bytes / MIB / taken.seconds / limit;
    Ok(Rate {
        of_bench: of_bench(&ours),
        with_data: of_bench(&with_data),
        of_local: ours.seconds / theirs.seconds,
    })
}

/// What a checkpoint took.
struct Taken {
    seconds: f64,
    bytes: f64,
}

/// Makes files and waits for the next checkpoint of a server. `written` returns the bytes that the volume's media have taken so far.
fn checkpoint(
    server: &Server,
    socket: &Path,
    files: &Files,
    written: impl Fn() -> Result<f64, String>,
) -> Result<Taken, String> {
    let before = made(socket)?;
    make_files(server, files)?;
    thread::sleep(LAG);
    let written_before = written()?;
    let began = Instant::now();
    if made(socket)?.count > before.count {
        return Err("a checkpoint ended too early".to_owned());
    }
    let after = loop {
        let now = made(socket)?;
        if now.count > before.count {
            break now;
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("there was no checkpoint for {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(200));
    };
    let seconds = after.seconds - before.seconds;
    if seconds > began.elapsed().as_secs_f64() {
        return Err("a checkpoint began too early".to_owned());
    }
    thread::sleep(LAG);
    Ok(Taken { seconds, bytes: written()? - written_before })
}

fn make_files(server: &Server, files: &Files) -> Result<(), String> {
    let mut connection = server.connect()?;
    let root = server.root()?;
    let first = format!("of {} with {} bytes", server.target.pid, files.bytes);
    let first = connection.make(Procedure::Mkdir, &root, &first)?;
    let data = random_bytes(&mut Rng::new(), files.bytes);
    for number in 0..files.count / FILES_PER_DIRECTORY {
        let directory = connection.make(Procedure::Mkdir, &first, &format!("d{number}"))?;
        fill(&mut connection, &directory, (&data, FILE_SYNC))?;
    }
    Ok(())
}

/// Returns the checkpoints that the server has made.
fn made(socket: &Path) -> Result<Made, String> {
    let reply = scrape::ask(socket, "GET", "/metrics", "")?;
    let value = |name: &str| -> Result<f64, String> {
        let name = format!("holdfast_checkpoint_seconds_{name}{{");
        let line = reply.lines().find(|line| line.starts_with(&name));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.ok_or_else(|| format!("there is no metric {name}"))
    };
    Ok(Made { count: value("count")?, seconds: value("sum")? })
}

/// Returns the bytes that were written to the pool so far, without copies.
fn written(ceph: &Ceph) -> Result<f64, String> {
    let said = ceph.administer("rados", &["df", "--format", "json"])?;
    let json: Value = serde_json::from_str(&said).map_err(|error| format!("`rados df`: {error}"))?;
    let pools = json["pools"].as_array().into_iter().flatten();
    let bytes = pools.filter(|pool| pool["name"] == "nfs").find_map(|pool| pool["write_bytes"].as_f64());
    bytes.ok_or_else(|| format!("`rados df` has no bytes written to the pool: {said}"))
}
