//! Removing what is big beside another client: a dense file, a sparse one with a long map, and a tree of many files one
//! by one, with many calls in flight. Then kill -9 while a long map is being freed. In the end nothing may be left.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::lab::{Lab, Summary};
use super::nfs::{Arguments, Connection, OK, Procedure};
use super::witness::{Testimony, Watch, watch};
use super::{Options, probe};
use crate::process::random_bytes;

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take until all that was removed is freed.
const FREED: Duration = Duration::from_secs(120);
/// The length of the sparse file, bytes: 100 GiB.
const SPARSE_BYTES: u64 = 100 << 30;
/// Bytes of a piece of the sparse file; each tenth is longer.
const PIECE_BYTES: usize = 4096;
/// The same.
const LONG_PIECE_BYTES: usize = 64 << 10;
/// Bytes of a WRITE to the dense file.
const WRITE_BYTES: usize = 1 << 20;
/// Calls in flight on one connection, when they are short.
const WINDOW: usize = 256;
/// The same for calls with data.
const WRITE_WINDOW: usize = 16;
/// Times that the server is killed while it frees.
const KILLS: usize = 4;
/// The longest time until such a kill.
const KILL_WITHIN_MILLISECONDS: u64 = 2500;

/// How much is made and removed.
struct Size {
    dense_mebibytes: usize,
    /// More than a checkpoint frees at once (`REAP_PIECES` of the engine).
    pieces: usize,
    folders: usize,
    files: usize,
    /// How long the witness goes on after each phase.
    rest: Duration,
}

const SHORT: Size =
    Size { dense_mebibytes: 256, pieces: 80_000, folders: 10, files: 1000, rest: Duration::from_secs(1) };

const LONG: Size = Size {
    dense_mebibytes: 6144,
    pieces: 200_000,
    folders: 1000,
    files: 1000,
    rest: Duration::from_secs(70),
};

/// What is going on while the witness makes calls.
const PHASES: [&str; 5] = ["quiet", "writing", "removing files", "creating", "removing a tree"];

/// Runs the scenario.
pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let size = if options.long { LONG } else { SHORT };
    lab.start()?;
    let root = probe::mount(lab.peer.mount_port()).map_err(|error| format!("MNT: {error}"))?;
    let signals = Watch::default();
    let (work, testimony) = thread::scope(|scope| {
        let witness = scope.spawn(|| watch(&root, &signals, PHASES.len()));
        let work = torment(&root, &size, &signals);
        signals.end();
        (work, witness.join().expect("the witness does not panic"))
    });
    work?;
    report(&testimony?);
    freed(lab)?;
    let left = killed(lab, &root, &size, options.seed)?;
    freed(lab)?;
    Ok(format!("pieces of a long file, and how many were left at each kill: {left:?}"))
}

fn report(testimony: &Testimony) {
    for (number, phase) in PHASES.iter().enumerate() {
        println!("     another client while {phase}: {}", testimony.of(number));
    }
}

/// What the witness watches.
fn torment(root: &[u8], size: &Size, signals: &Watch) -> Result<(), String> {
    let mut connection = connect()?;
    let phase = |number: usize, connection: &mut Connection, work: Work| {
        signals.phase(number);
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

fn connect() -> Result<Connection, String> {
    Connection::open(PATIENCE).map_err(|error| format!("cannot connect: {error}"))
}

fn write_dense(connection: &mut Connection, root: &[u8], size: &Size) -> Result<(), String> {
    let file = connection.make(Procedure::Create, root, "dense")?;
    let data: Vec<u8> = random_bytes(&mut Rng::with_seed(1), WRITE_BYTES);
    let place = |number: usize| (number as u64 * WRITE_BYTES as u64, &data[..]);
    write(connection, &file, size.dense_mebibytes, place)
}

/// Pieces that touch no other, so that each has a record of its own.
fn write_sparse(connection: &mut Connection, root: &[u8], name: &str, size: &Size) -> Result<(), String> {
    let file = connection.make(Procedure::Create, root, name)?;
    let data: Vec<u8> = random_bytes(&mut Rng::with_seed(2), LONG_PIECE_BYTES);
    let (short, long) = (&data[..PIECE_BYTES], &data[..]);
    let stride = SPARSE_BYTES / size.pieces as u64;
    let place =
        |number: usize| (number as u64 * stride, if number.is_multiple_of(10) { long } else { short });
    write(connection, &file, size.pieces, place)
}

/// Unstable WRITEs, and a COMMIT of all.
fn write<'a>(
    connection: &mut Connection,
    file: &[u8],
    count: usize,
    place: impl Fn(usize) -> (u64, &'a [u8]),
) -> Result<(), String> {
    let arguments = |number: usize, arguments: &mut Arguments| {
        let (offset, data) = place(number);
        let length = u32::try_from(data.len()).expect("a WRITE is short");
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

/// Depth first, as `rm -r` does it.
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

/// Stops and starts the server until the volume is as empty as a new one; each stop leaves it sound.
fn freed(lab: &mut Lab) -> Result<(), String> {
    let empty = Summary { inodes: 1, extents: 0, live_bytes: 0 };
    let end = Instant::now() + FREED;
    loop {
        lab.stop()?;
        let summary = lab.summary()?;
        if summary == empty {
            return lab.start();
        }
        if Instant::now() > end {
            return Err(format!("after {} s there is still {summary:?}", FREED.as_secs()));
        }
        lab.start()?;
        thread::sleep(Duration::from_secs(1));
    }
}

/// Kills the server again and again while it frees a long map that lies in the index; how many pieces were left each
/// time. A server that is told to stop makes a checkpoint, which frees a portion.
fn killed(lab: &mut Lab, root: &[u8], size: &Size, seed: u64) -> Result<Vec<usize>, String> {
    write_sparse(&mut connect()?, root, "again", size)?;
    // A stop brings the map to the index.
    lab.stop()?;
    let mut left = vec![lab.records("map")?];
    lab.start()?;
    connect()?.drop_name(Procedure::Remove, root, "again")?;
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
