//! Removes large objects beside another client: a dense file, a sparse file with a long map, and a tree of many files, with
//! many calls in flight. Then kills the server while it frees a long map. In the end all space must be free.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::lab::{Lab, Summary};
use super::observer::{Latencies, Progress, observe};
use super::{Options, probe};
use crate::nfs::{Arguments, Connection, OK, Procedure};
use crate::process::random_bytes;

/// Time limit of a call.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit until everything removed is freed.
const FREED: Duration = Duration::from_secs(120);
/// Length of the sparse file: 100 GiB.
const SPARSE_BYTES: u64 = 100 << 30;
/// Length of most extents of the sparse file.
const EXTENT_BYTES: usize = 4096;
/// Length of every tenth extent.
const LONG_EXTENT_BYTES: usize = 64 << 10;
/// Length of a WRITE to the dense file.
const WRITE_BYTES: usize = 1 << 20;
/// Short calls in flight.
const WINDOW: usize = 256;
/// WRITEs in flight.
const WRITE_WINDOW: usize = 16;
/// Kills of the server while it frees.
const KILLS: usize = 4;
/// Upper bound of the random time until such a kill.
const KILL_WITHIN_MILLISECONDS: u64 = 2500;

/// What is created and removed.
struct Size {
    dense_mebibytes: usize,
    /// More than a checkpoint frees at once.
    extents: usize,
    folders: usize,
    files: usize,
    /// Time for which the observer continues after each phase.
    rest: Duration,
}

const SHORT: Size =
    Size { dense_mebibytes: 256, extents: 80_000, folders: 10, files: 1000, rest: Duration::from_secs(1) };

const LONG: Size = Size {
    dense_mebibytes: 6144,
    extents: 200_000,
    folders: 1000,
    files: 1000,
    rest: Duration::from_secs(70),
};

/// What happens while the observer makes calls.
const PHASES: [&str; 5] = ["quiet", "writing", "removing files", "creating", "removing a tree"];

/// Runs the scenario.
pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let size = if options.long { LONG } else { SHORT };
    lab.start()?;
    let root = probe::mount(lab.peer.mount_port()).map_err(|error| format!("MNT: {error}"))?;
    let progress = Progress::default();
    let (work, latencies) = thread::scope(|scope| {
        let observer = scope.spawn(|| observe(&root, &progress, PHASES.len()));
        let work = run_phases(&root, &size, &progress);
        progress.end();
        (work, observer.join().expect("the observer does not panic"))
    });
    work?;
    report(&latencies?);
    wait_until_freed(lab)?;
    let left = kill_while_freeing(lab, &root, &size, options.seed)?;
    wait_until_freed(lab)?;
    Ok(format!("extents of the sparse file, and those left at each kill: {left:?}"))
}

fn report(latencies: &Latencies) {
    for (number, phase) in PHASES.iter().enumerate() {
        println!("     another client while {phase}: {}", latencies.summary(number));
    }
}

/// Does the work that the observer observes.
fn run_phases(root: &[u8], size: &Size, progress: &Progress) -> Result<(), String> {
    let mut connection = probe::connect(PATIENCE)?;
    let phase = |number: usize, connection: &mut Connection, work: Work| {
        progress.begin_phase(number);
        let start = Instant::now();
        work(connection, root, size)?;
        println!("     {} took {:.1} s", PHASES[number], start.elapsed().as_secs_f64());
        thread::sleep(size.rest);
        Ok::<(), String>(())
    };
    phase(0, &mut connection, |_, _, _| Ok(()))?;
    phase(1, &mut connection, |connection, root, size| {
        write_dense(connection, root, size)?;
        write_sparse(connection, root, "sparse", size)
    })?;
    phase(2, &mut connection, |connection, root, _| {
        connection.drop_name(Procedure::Remove, root, "dense")?;
        connection.drop_name(Procedure::Remove, root, "sparse")
    })?;
    phase(3, &mut connection, create_tree)?;
    phase(4, &mut connection, remove_tree)
}

type Work = fn(&mut Connection, &[u8], &Size) -> Result<(), String>;

fn write_dense(connection: &mut Connection, root: &[u8], size: &Size) -> Result<(), String> {
    let file = connection.make(Procedure::Create, root, "dense")?;
    let data: Vec<u8> = random_bytes(&mut Rng::with_seed(1), WRITE_BYTES);
    let place = |number: usize| (number as u64 * WRITE_BYTES as u64, &data[..]);
    write(connection, &file, size.dense_mebibytes, place)
}

/// Writes extents that do not touch, so that each has a map record of its own.
fn write_sparse(connection: &mut Connection, root: &[u8], name: &str, size: &Size) -> Result<(), String> {
    let file = connection.make(Procedure::Create, root, name)?;
    let data: Vec<u8> = random_bytes(&mut Rng::with_seed(2), LONG_EXTENT_BYTES);
    let (short, long) = (&data[..EXTENT_BYTES], &data[..]);
    let stride = SPARSE_BYTES / size.extents as u64;
    let place =
        |number: usize| (number as u64 * stride, if number.is_multiple_of(10) { long } else { short });
    write(connection, &file, size.extents, place)
}

/// Makes unstable WRITEs and one COMMIT.
fn write<'a>(
    connection: &mut Connection,
    file: &[u8],
    count: usize,
    place: impl Fn(usize) -> (u64, &'a [u8]),
) -> Result<(), String> {
    let arguments = |number: usize, arguments: &mut Arguments| {
        let (offset, data) = place(number);
        let length = u32::try_from(data.len()).expect("a WRITE fits 32 bits");
        arguments.opaque(file).long(offset).word(length).word(0).opaque(data);
    };
    let window = WRITE_WINDOW;
    connection.many(Procedure::Write, count, window, arguments, |number, results| {
        results.expect(&format!("WRITE {number}"), &[OK]).map(|_| ())
    })?;
    let fill = |arguments: &mut Arguments| {
        arguments.opaque(file).long(0).word(0);
    };
    connection.ask(Procedure::Commit, &[OK], fill).map(|_| ())
}

fn folder(number: usize) -> String {
    format!("folder-{number}")
}

fn create_tree(connection: &mut Connection, root: &[u8], size: &Size) -> Result<(), String> {
    let mut handles = Vec::new();
    for number in 0..size.folders {
        handles.push(connection.make(Procedure::Mkdir, root, &folder(number))?);
    }
    let files = size.folders * size.files;
    let arguments = |number: usize, arguments: &mut Arguments| {
        let (folder, file) = (number / size.files, number % size.files);
        arguments.opaque(&handles[folder]).opaque(format!("file-{file}").as_bytes()).word(0).mode(0o644);
    };
    connection.many(Procedure::Create, files, WINDOW, arguments, |number, results| {
        results.expect(&format!("CREATE {number}"), &[OK]).map(|_| ())
    })
}

/// Removes depth first, as `rm -r` does.
fn remove_tree(connection: &mut Connection, root: &[u8], size: &Size) -> Result<(), String> {
    let mut handles = vec![Vec::new(); size.folders];
    let lookup = |number: usize, arguments: &mut Arguments| {
        arguments.opaque(root).opaque(folder(number).as_bytes());
    };
    connection.many(Procedure::Lookup, size.folders, WINDOW, lookup, |number, results| {
        results.expect("LOOKUP of a folder", &[OK])?;
        handles[number] = results.handle(4)?;
        Ok(())
    })?;
    let files = size.folders * size.files;
    let arguments = |number: usize, arguments: &mut Arguments| {
        let (folder, file) = (number / size.files, number % size.files);
        arguments.opaque(&handles[folder]).opaque(format!("file-{file}").as_bytes());
    };
    connection.many(Procedure::Remove, files, WINDOW, arguments, |number, results| {
        results.expect(&format!("REMOVE {number}"), &[OK]).map(|_| ())
    })?;
    let arguments = |number: usize, arguments: &mut Arguments| {
        arguments.opaque(root).opaque(folder(number).as_bytes());
    };
    connection.many(Procedure::Rmdir, size.folders, WINDOW, arguments, |number, results| {
        results.expect(&format!("RMDIR {number}"), &[OK]).map(|_| ())
    })
}

/// Stops, checks and starts the server until the volume is as empty as a new one.
fn wait_until_freed(lab: &mut Lab) -> Result<(), String> {
    // The roots of `main` and of the volume in which the server keeps its clients.
    let empty = Summary { inodes: 2, extents: 0, live_bytes: 0 };
    let end = Instant::now() + FREED;
    loop {
        lab.stop()?;
        let summary = lab.summary()?;
        if summary == empty {
            return lab.start();
        }
        if Instant::now() > end {
            return Err(format!("not empty after {} s: {summary:?}", FREED.as_secs()));
        }
        lab.start()?;
        thread::sleep(Duration::from_secs(1));
    }
}

/// Kills the server repeatedly while it frees a long map that lies in the index. Returns how many extents were left each
/// time. A server that is told to stop makes a checkpoint, which frees a portion.
fn kill_while_freeing(lab: &mut Lab, root: &[u8], size: &Size, seed: u64) -> Result<Vec<usize>, String> {
    write_sparse(&mut probe::connect(PATIENCE)?, root, "again", size)?;
    // Stopping moves the map to the index.
    lab.stop()?;
    let mut left = vec![lab.records("map")?];
    lab.start()?;
    probe::connect(PATIENCE)?.drop_name(Procedure::Remove, root, "again")?;
    lab.kill();
    let mut random = Rng::with_seed(seed);
    for _ in 0..KILLS {
        lab.start()?;
        lab.stop_soon();
        thread::sleep(Duration::from_millis(random.u64(..KILL_WITHIN_MILLISECONDS)));
        lab.kill();
        left.push(lab.records("map")?);
    }
    lab.start()?;
    Ok(left)
}
