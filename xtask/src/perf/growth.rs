//! The cost of operations on a volume of many files, relative to an empty one: LOOKUP of random files, READDIRPLUS of random
//! directories, CREATE and REMOVE in random directories, and durable 4 KiB writes at random offsets of a 1 TiB file and a 64 MiB
//! file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::results::{Figure, Goal};
use super::{Run, cpu};
use crate::nfs::{Arguments, Connection, OK, Procedure, Results};
use crate::process::random_bytes;
use crate::server::Server;

const CONNECTIONS: usize = 8;
const WINDOW: usize = 16;
/// Calls between checks of the clock.
const CHUNK: usize = 512;

pub(super) const FILES_PER_DIRECTORY: u64 = 1000;
/// Directories of the volume that counts as empty.
const FEW_DIRECTORIES: u64 = 8;

const HUGE_FILE_BYTES: u64 = 1 << 40;
const SMALL_FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u32 = 4096;
const UNSTABLE: u32 = 0;
pub(super) const FILE_SYNC: u32 = 2;

/// Most data in each file.
pub(super) const FILE_BYTES_MAX: u32 = 1 << 20;

/// Bytes of a page of READDIRPLUS.
const PAGE_BYTES: u32 = 64 << 10;

/// Reads of the index file per record that is not in memory. Each inner block is read once as well.
const COLD_READS_MAX: f64 = 1.05;

/// Cost on the large volume, relative to the small one.
const RATIO_MAX: f64 = 1.5;

const REST: Duration = Duration::from_secs(20);

/// A server and the files of its volume.
struct Populated {
    server: Server,
    directories: Arc<Vec<Vec<u8>>>,
    /// The file that is written at random offsets.
    file: Vec<u8>,
    file_bytes: u64,
}

/// The work of a connection, which is repeated. Returns the number of operations.
type Work = fn(&mut Connection, &Populated, usize, &mut Rng) -> Result<u64, String>;

const WORKS: &[(&str, Work)] = &[
    ("LOOKUP of any file", lookups),
    ("READDIRPLUS of any directory, per page", listings),
    ("CREATE + REMOVE", creates),
    ("WRITE 4 KiB FILE_SYNC", writes),
];

/// Measures both volumes in turns.
pub(super) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let directories = (run.options.files / FILES_PER_DIRECTORY).max(FEW_DIRECTORIES);
    let data = random_bytes(&mut Rng::new(), run.options.file_bytes as usize);
    let few = populate(run.server(&[])?, FEW_DIRECTORIES, &data, SMALL_FILE_BYTES)?;
    let began = Instant::now();
    let mut many = populate(run.server(&[])?, directories, &data, HUGE_FILE_BYTES)?;
    let seconds = began.elapsed().as_secs_f64();
    let files = directories * FILES_PER_DIRECTORY;
    eprintln!("perf: {files} files created in {seconds:.0} s");
    let mut costs = vec![[const { Vec::new() }; 3]; WORKS.len()];
    for _ in 0..run.options.rounds {
        for ((_, work), costs) in WORKS.iter().zip(&mut costs) {
            let (small, _) = measure(&few, *work, run.time().seconds)?;
            let (large, checkpoint) = measure(&many, *work, run.time().seconds)?;
            for (list, value) in costs.iter_mut().zip([large / small, large, checkpoint]) {
                list.push(value);
            }
        }
    }
    for ((name, _), [ratios, large, checkpoints]) in WORKS.iter().zip(costs) {
        let mut figure =
            |name: String, values, unit, goal| run.figures.push(Figure { name, values, unit, goal });
        figure(
            format!("{name}: CPU with {files} files, of that without"),
            ratios,
            "×",
            Goal::AtMost(RATIO_MAX),
        );
        figure(format!("{name}: CPU with {files} files"), large, " µs", Goal::None);
        figure(format!("{name}: CPU of checkpoints"), checkpoints, " µs", Goal::None);
    }
    let (restart, reads) = cold_reads(&mut many, run.time().seconds)?;
    let gibibytes = many.server.index_bytes()? as f64 / f64::from(1u32 << 30);
    let mut figure = |name: &str, value, unit, goal| {
        let name = format!("{files} files: {name}");
        run.figures.push(Figure { name, values: vec![value], unit, goal });
    };
    figure("made by eight clients", files as f64 / seconds, "/s", Goal::None);
    figure("kill -9 to first reply", restart.as_secs_f64(), " s", Goal::None);
    figure("index file", gibibytes, " GiB", Goal::None);
    figure("file reads per record of a cold index", reads, "", Goal::AtMost(COLD_READS_MAX));
    Ok(())
}

/// Restarts the server and looks up files for `seconds`. Returns the time to the first reply, and the reads of the index
/// file per record that was not in memory.
fn cold_reads(populated: &mut Populated, seconds: f64) -> Result<(Duration, f64), String> {
    let restart = populated.server.kill_and_restart()?;
    let gauges = |populated: &Populated| -> Result<[f64; 2], String> {
        let server = &populated.server;
        Ok([server.gauge("index_cold_reads")?, server.gauge("index_file_reads")?])
    };
    let before = gauges(populated)?;
    measure(populated, lookups, seconds)?;
    let [records, reads] = gauges(populated)?;
    Ok((restart, (reads - before[1]) / (records - before[0]).max(1.0)))
}

/// Creates directories full of files with this data, and a sparse file.
fn populate(server: Server, count: u64, data: &[u8], file_bytes: u64) -> Result<Populated, String> {
    let root = server.root()?;
    let mut connection = server.connect()?;
    let mut directories = Vec::new();
    for number in 0..count {
        directories.push(connection.make(Procedure::Mkdir, &root, &format!("d{number}"))?);
    }
    let file = connection.make(Procedure::Create, &root, "file")?;
    connection.ask(Procedure::Setattr, &[OK], |arguments| {
        // No mode, owner or group; the size; no times; no guard.
        arguments.opaque(&file).word(0).word(0).word(0).word(1).long(file_bytes).word(0).word(0).word(0);
    })?;
    let populated = Populated { server, directories: Arc::new(directories), file, file_bytes };
    let next = AtomicU64::new(0);
    on_all_connections(&populated, |connection, _| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(directory) = usize::try_from(number).ok().and_then(|at| populated.directories.get(at))
            else {
                return Ok(0);
            };
            fill(connection, directory, (data, UNSTABLE))?;
        }
    })?;
    cpu::wait_until_idle(populated.server.target.pid, REST)?;
    Ok(populated)
}

/// Makes the files of a directory.
pub(super) fn fill(
    connection: &mut Connection,
    directory: &[u8],
    (data, stability): (&[u8], u32),
) -> Result<(), String> {
    let files = usize::try_from(FILES_PER_DIRECTORY).unwrap_or(usize::MAX);
    let mut handles = vec![Vec::new(); files];
    let keep = |number: usize, results: &Results<'_>| {
        ok(number, results)?;
        handles[number] = results.new_handle()?;
        Ok(())
    };
    let name = |number: usize| format!("f{number}");
    connection.many(Procedure::Create, files, WINDOW, create(directory, name), keep)?;
    if data.is_empty() {
        return Ok(());
    }
    let length = u32::try_from(data.len()).map_err(|_| "too much data for a file")?;
    let write = |number: usize, arguments: &mut Arguments| {
        arguments.opaque(&handles[number]).long(0).word(length).word(stability).opaque(data);
    };
    connection.many(Procedure::Write, files, WINDOW, write, ok)
}

/// Runs `work` on each connection in a thread of its own, and sums the results.
fn on_all_connections(
    populated: &Populated,
    work: impl Fn(&mut Connection, usize) -> Result<u64, String> + Sync,
) -> Result<u64, String> {
    let one = |number| -> Result<u64, String> { work(&mut populated.server.connect()?, number) };
    let one = &one;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|number| scope.spawn(move || one(number))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked")?).sum()
    })
}

/// Returns the server's CPU time per operation in microseconds, without checkpoints and of checkpoints.
fn measure(populated: &Populated, work: Work, seconds: f64) -> Result<(f64, f64), String> {
    let pid = populated.server.target.pid;
    cpu::wait_until_idle(pid, REST)?;
    let used = || -> Result<(f64, f64), String> { Ok((cpu::of(pid)?, cpu::of_threads(pid, "checkpt")?)) };
    let (all_before, checkpoints_before) = used()?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let seed = fastrand::u64(..);
    let operations = on_all_connections(populated, |connection, number| {
        let mut random = Rng::with_seed(seed ^ number as u64);
        let mut done = 0;
        while Instant::now() < end {
            done += work(connection, populated, number, &mut random)?;
        }
        Ok(done)
    })?;
    let (all, checkpoints) = used()?;
    let (all, checkpoints) = (all - all_before, checkpoints - checkpoints_before);
    let each = 1e6 / (operations.max(1) as f64);
    Ok(((all - checkpoints) * each, checkpoints * each))
}

fn ok(_: usize, results: &Results<'_>) -> Result<(), String> {
    results.expect("a call", &[OK]).map(|_| ())
}

fn create<'d>(
    directory: &'d [u8],
    name: impl Fn(usize) -> String + 'd,
) -> impl FnMut(usize, &mut Arguments) + 'd {
    move |number, arguments| {
        // UNCHECKED, with a mode.
        arguments.opaque(directory).opaque(name(number).as_bytes()).word(0).mode(0o644);
    }
}

fn lookups(
    connection: &mut Connection,
    populated: &Populated,
    _number: usize,
    random: &mut Rng,
) -> Result<u64, String> {
    let look = |_: usize, arguments: &mut Arguments| {
        let directory = &populated.directories[random.usize(..populated.directories.len())];
        let name = format!("f{}", random.u64(..FILES_PER_DIRECTORY));
        arguments.opaque(directory).opaque(name.as_bytes());
    };
    connection.many(Procedure::Lookup, CHUNK, WINDOW, look, ok)?;
    Ok(CHUNK as u64)
}

fn listings(
    connection: &mut Connection,
    populated: &Populated,
    _number: usize,
    random: &mut Rng,
) -> Result<u64, String> {
    let list = |_: usize, arguments: &mut Arguments| {
        let directory = &populated.directories[random.usize(..populated.directories.len())];
        // The first page.
        arguments.opaque(directory).long(0).long(0).word(PAGE_BYTES).word(PAGE_BYTES);
    };
    connection.many(Procedure::Readdirplus, WINDOW, WINDOW, list, ok)?;
    Ok(WINDOW as u64)
}

fn creates(
    connection: &mut Connection,
    populated: &Populated,
    number: usize,
    random: &mut Rng,
) -> Result<u64, String> {
    let directory = &populated.directories[random.usize(..populated.directories.len())];
    let name = |file: usize| format!("new-{number}-{file}");
    connection.many(Procedure::Create, CHUNK, WINDOW, create(directory, name), ok)?;
    let remove = |file: usize, arguments: &mut Arguments| {
        arguments.opaque(directory).opaque(name(file).as_bytes());
    };
    connection.many(Procedure::Remove, CHUNK, WINDOW, remove, ok)?;
    Ok(2 * CHUNK as u64)
}

fn writes(
    connection: &mut Connection,
    populated: &Populated,
    _number: usize,
    random: &mut Rng,
) -> Result<u64, String> {
    let data = random_bytes(random, 4096);
    let write = |_: usize, arguments: &mut Arguments| {
        let offset = random.u64(..populated.file_bytes / u64::from(BLOCK_BYTES)) * u64::from(BLOCK_BYTES);
        arguments.opaque(&populated.file).long(offset).word(BLOCK_BYTES).word(FILE_SYNC).opaque(&data);
    };
    connection.many(Procedure::Write, CHUNK, WINDOW, write, ok)?;
    Ok(CHUNK as u64)
}
