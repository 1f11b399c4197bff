//! Measures the cost of operations: every row of `docs/performance.md`. Rates on a shared machine vary, so each figure is
//! CPU time per operation, or relative to another figure of the same run. Tables show medians of interleaved rounds.
//!
//! | module | holds |
//! |---|---|
//! | [`rows`] | the main table: workloads and bounds |
//! | [`parts`], [`growth`], [`tails`], [`isolation`], [`scrape`], [`ceph`] | measurements outside the main table |
//! | [`transfer_limits`] | what large WRITEs and READs cost at least |
//! | [`bench`] | runs `holdfast bench` |
//! | [`cpu`], [`counter`] | CPU time, memory and instructions of processes |
//! | [`results`], [`tables`] | results as JSON and as tables |
//! | [`instructions`] | instructions per operation, compared with the record |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{self, root, target_directory};
use crate::report::usage;
use crate::server::Server;

mod bench;
mod ceph;
mod counter;
mod cpu;
mod growth;
mod instructions;
mod isolation;
mod parts;
mod results;
mod rows;
mod scrape;
mod tables;
mod tails;
mod transfer_limits;

use bench::{Bench, Sample, Time};
use parts::{CEPH, LIMIT_ROWS, LIMITS, PARTS, Part};
use results::{Figure, Measured, RowResult};
use rows::{DEPTH, Limit, PROTOCOLS, Protocol, ROWS, Row};

/// What `cargo xtask help perf` prints.
pub(crate) const HELP: &str = "\
cargo xtask perf [OPTION...]: measure the cost of operations, as in docs/performance.md, and compare it with bounds.

  --quick            measure each for a moment, as a test; the figures mean nothing
  --row NAME...      measure only these rows: null getattr lookup open-close read create-remove write-file-sync
                     write-commit sequential-read sequential-write; limits latency group-commit connections restart
                     listing scrape fairness isolation tails crowd growth; and ceph, which is measured only if it is named
                     (Debian's ceph-mon ceph-osd ceph-mgr ceph-common)
  --protocol 3|4.2   measure the rows before the semicolon over this protocol only; over both by default
  --rounds N         interleaved rounds, 5 by default; tables show medians
  --seconds N        duration of each measurement, 3 by default
  --data DIR         the servers' data; /dev/shm by default if it has room, else the target directory
  --files N          files of the volume that `growth` compares with an empty one, 1,000,000 by default; 10,000,000 need
                     --data on a real disk, and patience
  --file-bytes N     data in each of these files, none by default; 10,000,000 files with 4096 need 50 GiB
  --peer ganesha     measure nfs-ganesha too (root; Debian's nfs-ganesha nfs-ganesha-vfs rpcbind iproute2)
  --json FILE        write all figures to FILE

Builds the release binary and serves temporary volumes with it. Prints tables in Markdown. Fails if a measurement or an
operation fails, never because of a figure.

cargo xtask perf instructions [--record REASON]: count the instructions per operation with callgrind (Debian's valgrind) on
a fixed stream of calls without network. Fails if an operation grew by more than 5 % over docs/instructions.json; --record
updates that file instead.
";

/// Space that the servers' data needs.
const ROOM_BYTES: u64 = 12 << 30;
const QUICK_ROOM_BYTES: u64 = 4 << 30;

/// Time limit for a server to become idle after a measurement.
const REST: Duration = Duration::from_secs(5);

/// Environment variable set for the process that measures a peer in its own namespaces.
const INSIDE: &str = "HOLDFAST_PERF_INSIDE";

/// The command line's options.
#[derive(Debug)]
struct Options {
    quick: bool,
    rounds: u32,
    seconds: f64,
    names: Vec<String>,
    protocols: Vec<Protocol>,
    data: Option<PathBuf>,
    files: u64,
    file_bytes: u32,
    peer: bool,
    json: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Option<Options> {
        let quick = arguments.contains(&"--quick");
        let mut options = Options {
            quick,
            rounds: if quick { 1 } else { 5 },
            // In a moment shorter than this, no WRITE of very many at once ends on a busy machine.
            seconds: if quick { 1.5 } else { 3.0 },
            names: Vec::new(),
            protocols: PROTOCOLS.to_vec(),
            data: None,
            files: if quick { 16_000 } else { 1_000_000 },
            file_bytes: if quick { 4096 } else { 0 },
            peer: false,
            json: None,
        };
        let mut words = arguments.iter().peekable();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => {}
                "--rounds" => options.rounds = words.next()?.parse().ok().filter(|rounds| *rounds > 0)?,
                "--seconds" => options.seconds = words.next()?.parse().ok().filter(|time| *time > 0.0)?,
                "--protocol" => options.protocols = vec![Protocol::find(words.next()?)?],
                "--data" => options.data = Some(PathBuf::from(words.next()?)),
                "--files" => options.files = words.next()?.parse().ok()?,
                "--file-bytes" => {
                    options.file_bytes =
                        words.next()?.parse().ok().filter(|bytes| *bytes <= growth::FILE_BYTES_MAX)?;
                }
                "--json" => options.json = Some(PathBuf::from(words.next()?)),
                "--peer" => {
                    options.peer = true;
                    words.next().filter(|peer| **peer == "ganesha")?;
                }
                "--row" => {
                    while let Some(name) = words.next_if(|word| !word.starts_with("--")) {
                        let part = PARTS.iter().any(|part| part.name == *name);
                        (part || rows::find(name).is_some())
                            .then(|| options.names.push((*name).to_owned()))?;
                    }
                }
                _ => return None,
            }
        }
        Some(options)
    }

    fn wants(&self, name: &str) -> bool {
        let is_named = self.names.iter().any(|wanted| wanted == name);
        is_named || self.names.is_empty() && name != CEPH
    }

    fn wants_row(&self, name: &str) -> bool {
        self.wants(name) || self.wants(LIMITS) && LIMIT_ROWS.contains(&name)
    }
}

/// `cargo xtask perf`.
pub(crate) fn command(arguments: &[&str]) -> ExitCode {
    if let ["instructions", rest @ ..] = arguments {
        return instructions::command(rest);
    }
    let Some(options) = Options::parse(arguments) else { return usage(HELP) };
    let is_inside = std::env::var_os(INSIDE).is_some();
    let outcome = if options.peer && !is_inside {
        process::build_holdfast().and_then(|_| inside_namespaces(arguments))
    } else {
        let built = if is_inside { Ok(()) } else { process::build_holdfast().map(drop) };
        built.and_then(|()| measure(&options))
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("perf: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Compares instructions with the record: a stage of continuous integration.
pub(crate) fn instructions() -> Result<String, String> {
    instructions::run(None)
}

/// Runs every measurement for a moment: a stage of continuous integration.
pub(crate) fn smoke() -> Result<String, String> {
    process::build_holdfast()?;
    for arguments in [&["--quick"][..], &["--quick", "--row", CEPH]] {
        measure(&Options::parse(arguments).expect("valid options"))?;
    }
    Ok(String::new())
}

/// Runs this program again in its own network, mount and process namespaces, since the peer needs an rpcbind of its own.
fn inside_namespaces(arguments: &[&str]) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let script = "mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind && ip link set lo up && rpcbind -w && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
    command.args(["--mount-proc", "sh", "-c", script, "sh"]).arg(program).arg("perf").args(arguments);
    let status = command.env(INSIDE, "1").status().map_err(|error| format!("unshare: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("with a peer: {status}")) }
}

/// A folder that is removed on drop.
struct Scratch {
    folder: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Scratch {
    fn new(options: &Options) -> Result<Scratch, String> {
        let room = if options.quick { QUICK_ROOM_BYTES } else { ROOM_BYTES };
        let memory = Path::new("/dev/shm");
        let place = match &options.data {
            Some(place) => place.clone(),
            None if df(memory, "avail")
                .is_ok_and(|bytes| bytes.parse().is_ok_and(|bytes: u64| bytes >= room)) =>
            {
                memory.to_owned()
            }
            None => target_directory(),
        };
        Scratch::at(&place)
    }

    /// Creates one in this folder.
    fn at(place: &Path) -> Result<Scratch, String> {
        // Not named by the process id, which is always the same in a namespace.
        let folder = place.join(format!("holdfast-perf-{:016x}", fastrand::u64(..)));
        fs::create_dir_all(&folder).map_err(process::at(&folder))?;
        Ok(Scratch { folder })
    }
}

/// Returns a field of `df` for the file system of a path.
fn df(path: &Path, field: &str) -> Result<String, String> {
    let output = process::output(Command::new("df").args(["-B1", &format!("--output={field}")]).arg(path))?;
    output.lines().nth(1).map(|value| value.trim().to_owned()).ok_or_else(|| "df prints nothing".to_owned())
}

/// A run of measurements and its results so far.
struct Run<'o> {
    options: &'o Options,
    bench: Bench,
    /// A copy of the program under measurement, so that it can be rebuilt meanwhile.
    binary: PathBuf,
    scratch: Scratch,
    servers: u32,
    measured: Measured,
    tcp_bytes_per_s: Vec<f64>,
    figures: Vec<Figure>,
    failed: u64,
}

impl Run<'_> {
    /// Returns the folder of the next server.
    fn folder(&mut self) -> PathBuf {
        self.servers += 1;
        self.scratch.folder.join(self.servers.to_string())
    }

    /// Starts a server with a new volume.
    fn server(&mut self, arguments: &[&str]) -> Result<Server, String> {
        let folder = self.folder();
        Server::holdfast(&self.binary, folder, arguments)
    }

    fn time(&self) -> Time {
        let seconds = self.options.seconds;
        Time { warmup: seconds / 6.0, seconds }
    }

    /// Makes a measurement once the server is idle.
    fn sample(
        &mut self,
        server: &Server,
        workload: &[&str],
        size: (u32, u32),
        time: Time,
    ) -> Result<Sample, String> {
        cpu::wait_until_idle(server.target.pid, REST)?;
        let sample = self.bench.run(&server.target, workload, size, time)?;
        self.failed += sample.failed;
        Ok(sample)
    }
}

fn measure(options: &Options) -> Result<(), String> {
    let scratch = Scratch::new(options)?;
    // Described before the measurements, since the working tree may change meanwhile.
    let mut machine = machine(options, &scratch.folder);
    let built = target_directory().join("release/holdfast");
    let binary = target_directory().join(format!("holdfast-perf-{:016x}", fastrand::u64(..)));
    fs::copy(&built, &binary).map_err(process::at(&built))?;
    let mut run = Run {
        options,
        bench: Bench::new(&binary),
        binary: binary.clone(),
        scratch,
        servers: 0,
        measured: Measured::default(),
        tcp_bytes_per_s: Vec::new(),
        figures: Vec::new(),
        failed: 0,
    };
    let outcome = measure_all(&mut run);
    let _ = fs::remove_file(&binary);
    // Results are shown even if a later measurement failed.
    let load = load_average();
    let words = format!(
        "{} Load average {}, at the end {load}.",
        text(&machine, "words"),
        text(&machine, "load_average")
    );
    machine["words"] = json!(words);
    let peer = options.peer.then_some("nfs-ganesha");
    run.measured.rows.retain(|row| !row.is_empty());
    println!("{words}\n");
    println!("{}", tables::shown(&run.measured, &run.figures, peer));
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", results::to_json(&machine, &run.measured, &run.figures));
        fs::write(path, text).map_err(process::at(path))?;
    }
    outcome?;
    if run.failed > 0 { Err(format!("{} operations failed, see above", run.failed)) } else { Ok(()) }
}

fn measure_all(run: &mut Run<'_>) -> Result<(), String> {
    measure_rows(run)?;
    let wanted = |part: &&Part| run.options.wants(part.name);
    for part in PARTS.iter().filter(wanted).collect::<Vec<_>>() {
        eprintln!("perf: {}", part.name);
        (part.run)(run).map_err(|why| format!("{}: {why}", part.name))?;
    }
    Ok(())
}

/// Measures the main table: each round measures every row over each protocol on each server.
fn measure_rows(run: &mut Run<'_>) -> Result<(), String> {
    let rows = ROWS.iter().filter(|row| run.options.wants_row(row.name));
    run.measured.rows = rows.map(RowResult::new).collect();
    if run.measured.rows.is_empty() {
        return Ok(());
    }
    let ours = run.server(&[])?;
    let peer = if run.options.peer { Some(Server::ganesha(run.folder())?) } else { None };
    let has_transfers =
        run.measured.rows.iter().any(|result| matches!(result.row.limit, Some(Limit::Send | Limit::Copy)));
    for round in 1..=run.options.rounds {
        eprintln!("perf: round {round} of {}", run.options.rounds);
        for at in 0..run.measured.rows.len() {
            let row = run.measured.rows[at].row;
            for protocol in run.options.protocols.iter().filter(|protocol| row.bound(**protocol).is_some()) {
                let measured = measure_row(run, row, *protocol, &ours, peer.as_ref());
                let (sample, theirs) =
                    measured.map_err(|why| format!("{} over {}: {why}", row.name, protocol.title()))?;
                let samples = run.measured.rows[at].over_mut(*protocol);
                samples.ours.push(sample);
                samples.peer.extend(theirs);
            }
        }
        if run.options.wants(LIMITS) {
            let (tcp, _) = run.bench.limits(&ours.target, &run.scratch.folder, run.time().seconds / 3.0)?;
            run.tcp_bytes_per_s.push(tcp);
        }
        if has_transfers {
            let length = Duration::from_secs_f64(run.time().seconds / 3.0);
            run.measured.transfers.push(transfer_limits::measure(&run.scratch.folder, length)?);
        }
    }
    Ok(())
}

/// Measures a row over a protocol, on our server and on the peer. A failure of the peer leaves a gap in the table.
fn measure_row(
    run: &mut Run<'_>,
    row: &Row,
    protocol: Protocol,
    ours: &Server,
    peer: Option<&Server>,
) -> Result<(Sample, Option<Sample>), String> {
    let (arguments, size) = (row.arguments(protocol), (row.threads, DEPTH));
    transfer_limits::back_memory(row, run.options.quick, &run.scratch.folder)?;
    let sample = run.sample(ours, &arguments, size, run.time())?;
    let Some(peer) = peer else { return Ok((sample, None)) };
    transfer_limits::back_memory(row, run.options.quick, &run.scratch.folder)?;
    cpu::wait_until_idle(peer.target.pid, REST)?;
    let theirs = run.bench.run(&peer.target, &arguments, size, run.time());
    let theirs = theirs.inspect_err(|why| {
        eprintln!("perf: the peer, {} over {}: {why}", row.name, protocol.title());
    });
    Ok((sample, theirs.ok()))
}

fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Describes the machine and the commit, without host names and paths.
fn machine(options: &Options, data: &Path) -> Value {
    let output = |command: &mut Command| process::output(command).map(|text| text.trim().to_owned());
    let unknown = || "unknown".to_owned();
    let field = |path: &str, name: &str| -> Option<String> {
        let text = fs::read_to_string(path).ok()?;
        text.lines().find_map(|line| Some(line.strip_prefix(name)?.split_once(':')?.1.trim().to_owned()))
    };
    let git = |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(root()));
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(unknown);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory =
        field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let memory_gib = memory.map_or(0, |kib| kib >> 20);
    let kernel = output(Command::new("uname").args(["-sr"])).unwrap_or_else(|_| unknown());
    let file_system = df(data, "fstype").unwrap_or_else(|_| unknown());
    let date = output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])).unwrap_or_else(|_| unknown());
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|_| unknown());
    let is_changed = git(&["status", "--porcelain", "--untracked-files=no", "crates"]);
    let changed = if is_changed.is_ok_and(|files| files.is_empty()) { "" } else { ", with changes" };
    let (rounds, seconds) = (options.rounds, options.seconds);
    let times = if rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds") };
    let no_count = if counter::is_available() { "" } else { " Instructions cannot be counted here." };
    let words = format!(
        "{date}, commit {commit}{changed}: {cores} cores ({processor}), {memory_gib} GiB, {kernel}, data on \
         {file_system}; {times} of {seconds} s each.{no_count}"
    );
    json!({
        "words": words, "date": date, "commit": commit, "changed": !changed.is_empty(), "cores": cores,
        "processor": processor, "memory_gib": memory_gib, "kernel": kernel, "file_system": file_system,
        "rounds": rounds, "seconds": seconds,
        "load_average": load_average(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_parts_are_selected_by_name() {
        let options =
            Options::parse(&["--row", "null", "growth", "--rounds", "2", "--files", "10000000"]).unwrap();
        assert!(options.wants("null") && options.wants("growth") && !options.wants("lookup"));
        assert_eq!((options.rounds, options.files), (2, 10_000_000));
        assert_eq!(options.protocols, PROTOCOLS);
        let limits = Options::parse(&["--row", "limits", "--protocol", "4.2"]).unwrap();
        assert_eq!(limits.protocols, [Protocol::Nfs42]);
        assert!(limits.wants_row("getattr") && !limits.wants_row("lookup"));
        assert!(Options::parse(&[]).unwrap().wants_row("lookup"));
        let wrong: [&[&str]; 5] = [
            &["--row", "nothing"],
            &["--rounds", "0"],
            &["--peer", "another"],
            &["--protocol", "4"],
            &["quick"],
        ];
        for wrong in wrong {
            assert!(Options::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn the_help_names_every_row_and_part() {
        let words: Vec<&str> = HELP.split([' ', '\n', ',', ';']).collect();
        for name in ROWS.iter().map(|row| row.name).chain(PARTS.iter().map(|part| part.name)) {
            assert!(words.contains(&name), "{name}");
        }
    }
}
