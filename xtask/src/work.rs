//! The workload of a guest whose server is killed repeatedly, and its verification. Runs inside the guest
//! (`xtask guest-work`, called by `e2e/scenarios/kill.sh`); its log lies outside the mount.
//!
//! Each worker owns a folder, works in it with plain system calls, and logs each outcome that the server has
//! acknowledged: a synced file with length and checksum, a name created, renamed or removed. In the end each name must
//! match its last outcome. One file of each worker stays open across all restarts, which tests its handle.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use fastrand::Rng;

use crate::process::{self, random_bytes};
use crate::report::usage;

mod outcomes;

use outcomes::{Outcome, OutcomeLog};

const HELP: &str = "\
xtask guest-work run DIRECTORY OUT SEED      work in DIRECTORY until OUT/stop exists; log outcomes to OUT
xtask guest-work verify DIRECTORY OUT        compare DIRECTORY with the logged outcomes
";

/// Workers in a guest, each with a folder of its own.
const WORKERS: usize = 3;
/// Names that a worker keeps before it only removes.
const NAMES_MAX: usize = 60;
/// Bytes of a write.
const WRITE_BYTES_MAX: usize = 40_000;
/// Longer files are truncated before they are extended.
const FILE_BYTES_MAX: usize = 200_000;
/// Operations between checks for the file `stop`.
const CHECK_EVERY: usize = 8;
/// O_DIRECT on x86, the only architecture of User-Mode-Linux. Reads with it bypass the client's cache.
const O_DIRECT: i32 = 0o40_000;

/// `xtask guest-work`.
pub(crate) fn command(arguments: &[&str]) -> ExitCode {
    let outcome = match arguments {
        ["run", directory, out, seed] => match seed.parse() {
            Ok(seed) => run(Path::new(directory), Path::new(out), seed),
            Err(_) => return usage(HELP),
        },
        ["verify", directory, out] => verify(Path::new(directory), Path::new(out)),
        _ => return usage(HELP),
    };
    match outcome {
        Ok(note) => {
            println!("{note}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("FAIL: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The log of a worker. Guests share `out`, so its name contains the guest's.
fn outcomes_path(directory: &Path, out: &Path, worker: usize) -> PathBuf {
    let guest = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    out.join(format!("outcomes-{guest}-{worker}"))
}

fn run(directory: &Path, out: &Path, seed: u64) -> Result<String, String> {
    let outcomes: Vec<Result<usize, String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let folder = directory.join(number.to_string());
                let log = outcomes_path(directory, out, number);
                let seed = seed.wrapping_add(u64::try_from(number).expect("few workers") << 32);
                scope.spawn(move || {
                    let stop = out.join("stop");
                    let outcome = Worker::new(folder, &log, seed).and_then(|worker| worker.work(&stop));
                    // The first failure stops all workers, so that the end of the server's log is about it.
                    outcome.inspect_err(|_| drop(fs::write(&stop, "")))
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    let mut operations = 0;
    for outcome in outcomes {
        operations += outcome?;
    }
    Ok(format!("{operations} operations acknowledged"))
}

/// A worker and its expectations.
struct Worker {
    folder: PathBuf,
    log: OutcomeLog,
    random: Rng,
    files: BTreeMap<String, Vec<u8>>,
    others: BTreeMap<String, Outcome>,
    /// A file that is never closed, its name and its content.
    open_file: (File, String, Vec<u8>),
    made: usize,
}

impl Worker {
    fn new(folder: PathBuf, log: &Path, seed: u64) -> Result<Worker, String> {
        let mut log = OutcomeLog::create(log)?;
        fs::create_dir(&folder).map_err(process::at(&folder))?;
        let name = "open".to_owned();
        let file = File::options().read(true).write(true).create_new(true).open(folder.join(&name));
        let file = context("create", &name, file)?;
        log.append(&Outcome::file(&name, &[]))?;
        let random = Rng::with_seed(seed);
        Ok(Worker {
            folder,
            log,
            random,
            files: BTreeMap::new(),
            others: BTreeMap::new(),
            open_file: (file, name, Vec::new()),
            made: 0,
        })
    }

    /// Works until the file `stop` exists. Returns the number of acknowledged operations.
    fn work(mut self, stop: &Path) -> Result<usize, String> {
        let mut operations = 0;
        while operations % CHECK_EVERY != 0 || !stop.exists() {
            let folder = self.folder.display().to_string();
            self.step().map_err(|why| format!("{folder}, after {operations} operations: {why}"))?;
            operations += 1;
        }
        Ok(operations)
    }

    fn step(&mut self) -> Result<(), String> {
        let crowded = self.files.len() + self.others.len() >= NAMES_MAX;
        match self.random.usize(..100) {
            _ if crowded => self.remove(),
            0..30 => self.write_new(),
            30..45 => self.append(),
            45..57 => self.rename(),
            57..67 => self.remove(),
            67..73 => self.make_other(),
            73..78 => self.relink(),
            78..88 => self.compare(),
            _ => self.write_open_file(),
        }
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("n{}", self.made)
    }

    fn pick(&mut self) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        let at = self.random.usize(..self.files.len());
        self.files.keys().nth(at).cloned()
    }

    fn content(&mut self) -> Vec<u8> {
        let length = self.random.usize(..WRITE_BYTES_MAX);
        random_bytes(&mut self.random, length)
    }

    /// Creates a file exclusively, and syncs it.
    fn write_new(&mut self) -> Result<(), String> {
        let (name, content) = (self.name(), self.content());
        let open = File::options().write(true).create_new(true).open(self.folder.join(&name));
        let mut file = context("create", &name, open)?;
        context("write", &name, file.write_all(&content))?;
        context("fsync", &name, file.sync_all())?;
        self.log.append(&Outcome::file(&name, &content))?;
        self.files.insert(name, content);
        Ok(())
    }

    fn append(&mut self) -> Result<(), String> {
        let Some(name) = self.pick() else { return Ok(()) };
        let more = self.content();
        let mut content = self.files.get(&name).cloned().unwrap_or_default();
        if content.len() > FILE_BYTES_MAX {
            content.clear();
        }
        let start = u64::try_from(content.len()).expect("short");
        content.extend_from_slice(&more);
        let file = context("open", &name, File::options().write(true).open(self.folder.join(&name)))?;
        context("truncate", &name, file.set_len(start))?;
        context("write", &name, file.write_all_at(&more, start))?;
        context("fsync", &name, file.sync_all())?;
        self.log.append(&Outcome::file(&name, &content))?;
        self.files.insert(name, content);
        Ok(())
    }

    /// Renames a file to a new name or over another file.
    fn rename(&mut self) -> Result<(), String> {
        let Some(from) = self.pick() else { return Ok(()) };
        let over = if self.random.usize(..2) == 0 { self.pick() } else { None };
        let to = over.unwrap_or_else(|| self.name());
        if from == to {
            return Ok(());
        }
        let renamed = fs::rename(self.folder.join(&from), self.folder.join(&to));
        if renamed.is_err() {
            // Distinguishes a lost name from a rename that was executed twice.
            let exists = |name: &str| fs::symlink_metadata(self.folder.join(name)).is_ok();
            println!("{from} exists: {}; {to} exists: {}", exists(&from), exists(&to));
        }
        context("rename", &from, renamed)?;
        self.log.append(&Outcome::Renamed { from: from.clone(), to: to.clone() })?;
        let content = self.files.remove(&from).expect("picked from the files");
        self.files.insert(to, content);
        Ok(())
    }

    /// Links a second name and removes the first.
    fn relink(&mut self) -> Result<(), String> {
        let Some(from) = self.pick() else { return Ok(()) };
        let to = self.name();
        context("link", &from, fs::hard_link(self.folder.join(&from), self.folder.join(&to)))?;
        self.log.append(&Outcome::Linked { from: from.clone(), to: to.clone() })?;
        context("unlink", &from, fs::remove_file(self.folder.join(&from)))?;
        self.log.append(&Outcome::Removed { name: from.clone() })?;
        let content = self.files.remove(&from).expect("picked from the files");
        self.files.insert(to, content);
        Ok(())
    }

    fn remove(&mut self) -> Result<(), String> {
        if self.random.usize(..4) == 0
            && let Some((name, outcome)) = self.others.pop_first()
        {
            let path = self.folder.join(&name);
            let removed = if matches!(outcome, Outcome::Directory { .. }) {
                fs::remove_dir(path)
            } else {
                fs::remove_file(path)
            };
            context("remove", &name, removed)?;
            return self.log.append(&Outcome::Removed { name });
        }
        let Some(name) = self.pick() else { return Ok(()) };
        context("remove", &name, fs::remove_file(self.folder.join(&name)))?;
        self.files.remove(&name);
        self.log.append(&Outcome::Removed { name })
    }

    fn make_other(&mut self) -> Result<(), String> {
        let name = self.name();
        let path = self.folder.join(&name);
        let outcome = if self.random.usize(..2) == 0 {
            context("mkdir", &name, fs::create_dir(path))?;
            Outcome::Directory { name: name.clone() }
        } else {
            let target = format!("target-of-{name}");
            context("symlink", &name, symlink(&target, path))?;
            Outcome::Symlink { name: name.clone(), target }
        };
        self.log.append(&outcome)?;
        self.others.insert(name, outcome);
        Ok(())
    }

    /// Compares a file, bypassing the client's cache.
    fn compare(&mut self) -> Result<(), String> {
        let Some(name) = self.pick() else { return Ok(()) };
        let read = read_direct(&self.folder.join(&name));
        let content = context("read", &name, read)?;
        if self.files.get(&name) != Some(&content) {
            return Err(format!("{name}: {} bytes that differ from those synced", content.len()));
        }
        Ok(())
    }

    /// Writes to the file that has been open since before the first kill.
    fn write_open_file(&mut self) -> Result<(), String> {
        let more = self.content();
        let (file, name, content) = &mut self.open_file;
        let start = self.random.usize(..content.len() + 1);
        let end = start + more.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content.get_mut(start..end).expect("resized").copy_from_slice(&more);
        context("write", name, file.write_all_at(&more, u64::try_from(start).expect("short")))?;
        context("fsync", name, file.sync_data())?;
        self.log.append(&Outcome::file(name, content))?;
        if content.len() > FILE_BYTES_MAX {
            content.clear();
            context("truncate", name, file.set_len(0))?;
            self.log.append(&Outcome::file(name, content))?;
        }
        Ok(())
    }
}

/// Reads the whole file from the server.
fn read_direct(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    OpenOptions::new().read(true).custom_flags(O_DIRECT).open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Prefixes an error with the operation and the name.
fn context<T>(what: &str, name: &str, outcome: io::Result<T>) -> Result<T, String> {
    outcome.map_err(|error| format!("{what} {name}: {error}"))
}

/// Compares the folders with the last outcome of each name.
fn verify(directory: &Path, out: &Path) -> Result<String, String> {
    let (mut names, mut faults) = (0, Vec::new());
    for worker in 0..WORKERS {
        let expected = outcomes::replay(&outcomes_path(directory, out, worker))?;
        let folder = directory.join(worker.to_string());
        let listing = fs::read_dir(&folder).map_err(process::at(&folder))?;
        for entry in listing {
            let name = entry.map_err(process::at(&folder))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if !expected.contains_key(&name) {
                faults.push(format!("{worker}/{name} exists, but was removed or never created"));
            }
        }
        for (name, outcome) in &expected {
            names += 1;
            if let Err(why) = outcome.check(&folder.join(name)) {
                faults.push(format!("{worker}/{name}: {why}"));
            }
        }
    }
    if faults.is_empty() {
        Ok(format!("{names} names match their acknowledged outcomes"))
    } else {
        Err(faults.join("\n"))
    }
}
