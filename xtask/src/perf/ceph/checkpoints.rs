//! The rate at which a checkpoint moves data from the journal to segments of a Ceph cluster, while the server is otherwise idle.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::ceph::Ceph;
use crate::nfs::{Arguments, OK, Procedure, Results};
use crate::perf::scrape;
use crate::process;
use crate::server::Server;

/// Bytes that the checkpoint moves, written by WRITEs small enough for the journal; too few to make a checkpoint due.
const BYTES: u64 = 32 << 20;
const BLOCK_BYTES: u32 = 64 << 10;

/// WRITEs in flight.
const WINDOW: usize = 16;

const FILE_SYNC: u32 = 2;

/// How long to wait for a checkpoint; one is due after a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// How many times to try, since a checkpoint may begin before everything is written.
const TRIES: u32 = 5;

/// The checkpoints that a server has made.
struct Made {
    count: f64,
    seconds: f64,
}

/// Returns the rate of a checkpoint, in MiB per second.
pub(super) fn rate(ceph: &Ceph, server: &Server) -> Result<f64, String> {
    let socket = socket(ceph)?;
    let root = server.root()?;
    let mut connection = server.connect()?;
    let file = connection.make(Procedure::Create, &root, "checkpoint")?;
    let data = vec![0x5a; BLOCK_BYTES as usize];
    let write = |number: usize, arguments: &mut Arguments| {
        let offset = number as u64 * u64::from(BLOCK_BYTES);
        arguments.opaque(&file).long(offset).word(BLOCK_BYTES).word(FILE_SYNC).opaque(&data);
    };
    let blocks = usize::try_from(BYTES / u64::from(BLOCK_BYTES)).unwrap_or(usize::MAX);
    for _ in 0..TRIES {
        // Without a change, no checkpoint would come.
        connection.many(Procedure::Write, 1, 1, write, written)?;
        let before = next(&socket)?;
        connection.many(Procedure::Write, blocks, WINDOW, write, written)?;
        if made(&socket)?.count > before.count {
            continue;
        }
        let after = next(&socket)?;
        if after.count == before.count + 1.0 {
            connection.drop_name(Procedure::Remove, &root, "checkpoint")?;
            return Ok((BYTES >> 20) as f64 / (after.seconds - before.seconds));
        }
    }
    Err("each time, a checkpoint began before all data was written".to_owned())
}

fn written(_: usize, results: &Results<'_>) -> Result<(), String> {
    results.expect("WRITE", &[OK]).map(drop)
}

/// Waits for the next checkpoint.
fn next(socket: &Path) -> Result<Made, String> {
    let (before, end) = (made(socket)?, Instant::now() + PATIENCE);
    loop {
        let now = made(socket)?;
        if now.count > before.count {
            return Ok(now);
        }
        if Instant::now() > end {
            return Err(format!("no checkpoint within {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn made(socket: &Path) -> Result<Made, String> {
    let metrics = scrape::ask(socket, "GET", "/metrics", "")?;
    let value = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.ok_or_else(|| format!("the metrics have no {name}"))
    };
    Ok(Made {
        count: value("holdfast_checkpoint_seconds_count{")?,
        seconds: value("holdfast_checkpoint_seconds_sum{")?,
    })
}

/// Returns the administrator's socket of the only server on this machine.
fn socket(ceph: &Ceph) -> Result<PathBuf, String> {
    let mut folders = vec![ceph.local("server")];
    while let Some(folder) = folders.pop() {
        let entries: Result<Vec<_>, _> = fs::read_dir(&folder).and_then(Iterator::collect);
        for entry in entries.map_err(process::at(&folder))? {
            let kind = entry.file_type().map_err(process::at(&folder))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == "admin.sock" {
                return Ok(entry.path());
            }
        }
    }
    Err(format!("there is no socket in {}", ceph.local("server").display()))
}
