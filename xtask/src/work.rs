//! What a guest does while its server is killed again and again, and how that is judged afterwards. Runs inside the
//! guest (`xtask guest-work`, from `e2e/scenarios/kill.sh`); the log of facts lies outside the mount.
//!
//! Each worker owns a folder, works in it with plain system calls, and writes a line about each outcome that the
//! server has acknowledged: a synced file with length and checksum, a name made, moved or gone. The last word about a
//! name is what must be there in the end. Handles are tested too: some files stay open across every restart.

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

mod facts;

use facts::{Fact, Facts};

const HELP: &str = "\
xtask guest-work run DIRECTORY OUT SEED      work in DIRECTORY until OUT/stop is there; facts go to OUT
xtask guest-work verify DIRECTORY OUT        compare DIRECTORY with the facts
";

/// Workers in one guest, each with a folder of its own.
const WORKERS: usize = 3;
/// Names that a worker keeps; beyond this it removes.
const NAMES_MAX: usize = 60;
/// Bytes of one write.
const WRITE_BYTES_MAX: usize = 40_000;
/// Files longer than this are replaced instead of extended.
const FILE_BYTES_MAX: usize = 200_000;
/// Operations between looks at the file that says stop.
const LOOK_EVERY: usize = 8;
/// Linux's O_DIRECT on x86, the one architecture of User-Mode-Linux: reads come from the server, not from the cache.
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

/// The file of facts about a worker's folder. Guests share the folder for output, so their names differ.
fn facts_path(directory: &Path, out: &Path, worker: usize) -> PathBuf {
    let guest = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    out.join(format!("facts-{guest}-{worker}"))
}

fn run(directory: &Path, out: &Path, seed: u64) -> Result<String, String> {
    let outcomes: Vec<Result<usize, String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let folder = directory.join(number.to_string());
                let facts = facts_path(directory, out, number);
                let seed = seed.wrapping_add(u64::try_from(number).expect("a handful of workers") << 32);
                scope.spawn(move || {
                    let stop = out.join("stop");
                    let outcome = Worker::new(folder, &facts, seed).and_then(|worker| worker.work(&stop));
                    // The first failure ends everything, so that what the server did last can be looked at.
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

/// One worker: what it believes to be there, and the files that it never closes.
struct Worker {
    folder: PathBuf,
    facts: Facts,
    random: Rng,
    files: BTreeMap<String, Vec<u8>>,
    others: BTreeMap<String, Fact>,
    /// An open file, its name and its content.
    held: (File, String, Vec<u8>),
    made: usize,
}

impl Worker {
    fn new(folder: PathBuf, facts: &Path, seed: u64) -> Result<Worker, String> {
        let mut facts = Facts::create(facts)?;
        fs::create_dir(&folder).map_err(process::at(&folder))?;
        let name = "held".to_owned();
        let held = File::options().read(true).write(true).create_new(true).open(folder.join(&name));
        let held = held.map_err(|error| format!("held: {error}"))?;
        facts.note(&Fact::file(&name, &[]))?;
        let random = Rng::with_seed(seed);
        Ok(Worker {
            folder,
            facts,
            random,
            files: BTreeMap::new(),
            others: BTreeMap::new(),
            held: (held, name, Vec::new()),
            made: 0,
        })
    }

    /// Works until the file `stop` is there; how many operations were acknowledged.
    fn work(mut self, stop: &Path) -> Result<usize, String> {
        let mut operations = 0;
        while operations % LOOK_EVERY != 0 || !stop.exists() {
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
            _ => self.write_held(),
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

    /// A new file, exclusively; each is there once it is synced.
    fn write_new(&mut self) -> Result<(), String> {
        let (name, content) = (self.name(), self.content());
        let open = File::options().write(true).create_new(true).open(self.folder.join(&name));
        let mut file = say("create", &name, open)?;
        say("write", &name, file.write_all(&content))?;
        say("fsync", &name, file.sync_all())?;
        self.facts.note(&Fact::file(&name, &content))?;
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
        let file = say("open", &name, File::options().write(true).open(self.folder.join(&name)))?;
        say("truncate", &name, file.set_len(start))?;
        say("write", &name, file.write_all_at(&more, start))?;
        say("fsync", &name, file.sync_all())?;
        self.facts.note(&Fact::file(&name, &content))?;
        self.files.insert(name, content);
        Ok(())
    }

    /// To a new name or over another file.
    fn rename(&mut self) -> Result<(), String> {
        let Some(from) = self.pick() else { return Ok(()) };
        let over = if self.random.usize(..2) == 0 { self.pick() } else { None };
        let to = over.unwrap_or_else(|| self.name());
        if from == to {
            return Ok(());
        }
        let renamed = fs::rename(self.folder.join(&from), self.folder.join(&to));
        if renamed.is_err() {
            // Tells a name that was lost from one whose renaming was not remembered.
            let there = |name: &str| fs::symlink_metadata(self.folder.join(name)).is_ok();
            println!("{from} is there: {}; {to} is there: {}", there(&from), there(&to));
        }
        say("rename", &from, renamed)?;
        self.facts.note(&Fact::Moved { from: from.clone(), to: to.clone() })?;
        let content = self.files.remove(&from).expect("picked from the files");
        self.files.insert(to, content);
        Ok(())
    }

    /// A second name, and the first one goes.
    fn relink(&mut self) -> Result<(), String> {
        let Some(from) = self.pick() else { return Ok(()) };
        let to = self.name();
        say("link", &from, fs::hard_link(self.folder.join(&from), self.folder.join(&to)))?;
        self.facts.note(&Fact::Linked { from: from.clone(), to: to.clone() })?;
        say("unlink", &from, fs::remove_file(self.folder.join(&from)))?;
        self.facts.note(&Fact::Gone { name: from.clone() })?;
        let content = self.files.remove(&from).expect("picked from the files");
        self.files.insert(to, content);
        Ok(())
    }

    fn remove(&mut self) -> Result<(), String> {
        if self.random.usize(..4) == 0
            && let Some((name, fact)) = self.others.pop_first()
        {
            let path = self.folder.join(&name);
            let removed = if matches!(fact, Fact::Directory { .. }) {
                fs::remove_dir(path)
            } else {
                fs::remove_file(path)
            };
            say("remove", &name, removed)?;
            return self.facts.note(&Fact::Gone { name });
        }
        let Some(name) = self.pick() else { return Ok(()) };
        say("remove", &name, fs::remove_file(self.folder.join(&name)))?;
        self.files.remove(&name);
        self.facts.note(&Fact::Gone { name })
    }

    fn make_other(&mut self) -> Result<(), String> {
        let name = self.name();
        let path = self.folder.join(&name);
        let fact = if self.random.usize(..2) == 0 {
            say("mkdir", &name, fs::create_dir(path))?;
            Fact::Directory { name: name.clone() }
        } else {
            let target = format!("target-of-{name}");
            say("symlink", &name, symlink(&target, path))?;
            Fact::Symlink { name: name.clone(), target }
        };
        self.facts.note(&fact)?;
        self.others.insert(name, fact);
        Ok(())
    }

    /// Reads a file from the server, around the client's cache.
    fn compare(&mut self) -> Result<(), String> {
        let Some(name) = self.pick() else { return Ok(()) };
        let read = read_direct(&self.folder.join(&name));
        let content = say("read", &name, read)?;
        if self.files.get(&name) != Some(&content) {
            return Err(format!("{name}: {} bytes, not those that were synced", content.len()));
        }
        Ok(())
    }

    /// Writes through a file that has been open since before the first kill.
    fn write_held(&mut self) -> Result<(), String> {
        let more = self.content();
        let (file, name, content) = &mut self.held;
        let start = self.random.usize(..content.len() + 1);
        let end = start + more.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content.get_mut(start..end).expect("resized").copy_from_slice(&more);
        say("write", name, file.write_all_at(&more, u64::try_from(start).expect("short")))?;
        say("fsync", name, file.sync_data())?;
        self.facts.note(&Fact::file(name, content))?;
        if content.len() > FILE_BYTES_MAX {
            content.clear();
            say("truncate", name, file.set_len(0))?;
            self.facts.note(&Fact::file(name, content))?;
        }
        Ok(())
    }
}

/// The whole file, with reads that the client may not answer itself.
fn read_direct(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    OpenOptions::new().read(true).custom_flags(O_DIRECT).open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Adds to a failure what was done to whom.
fn say<T>(what: &str, name: &str, outcome: io::Result<T>) -> Result<T, String> {
    outcome.map_err(|error| format!("{what} {name}: {error}"))
}

/// Compares the folders with the last word about each name.
fn verify(directory: &Path, out: &Path) -> Result<String, String> {
    let (mut names, mut faults) = (0, Vec::new());
    for worker in 0..WORKERS {
        let expected = facts::replay(&facts_path(directory, out, worker))?;
        let folder = directory.join(worker.to_string());
        let listing = fs::read_dir(&folder).map_err(process::at(&folder))?;
        for entry in listing {
            let name = entry.map_err(process::at(&folder))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if !expected.contains_key(&name) {
                faults.push(format!("{worker}/{name} is there, but was removed or never made"));
            }
        }
        for (name, fact) in &expected {
            names += 1;
            if let Err(why) = fact.check(&folder.join(name)) {
                faults.push(format!("{worker}/{name}: {why}"));
            }
        }
    }
    if faults.is_empty() {
        Ok(format!("{names} names hold what was acknowledged"))
    } else {
        Err(faults.join("\n"))
    }
}
