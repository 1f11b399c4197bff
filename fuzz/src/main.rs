//! Drives the fuzz targets on any compiler: mutates seeds, keeps inputs that show something new, and stops after a
//! given time.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_fuzz::mutation::mutate;
use holdfast_fuzz::targets::{TARGETS, Target};
use sim::random::Random;

const HELP: &str = "\
fuzz all|TARGET [--seconds N] [--seed N]   run one target or each, N seconds each (60 by default)
fuzz replay TARGET FILE                    run one saved input

Targets: rpc xdr mount rquota nfs3 nfs4 compounds payloads http journal segment record. An input that fails is saved under
fuzz/artifacts.
";

/// Targets that run at the same time.
const PARALLEL_TARGETS: usize = 2;
/// An input that takes longer than this hangs.
const HANG_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of inputs kept besides the seeds.
const KEPT_MAX: usize = 4096;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["replay", name, path] = words.as_slice() {
        return replay(name, Path::new(path));
    }
    let Some((targets, seconds, seed)) = parse(&words) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    println!("seed {seed}");
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..PARALLEL_TARGETS {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !fuzz(target, Duration::from_secs(seconds), seed) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.load(Ordering::Relaxed);
    println!("{} passed, {failed} failed", targets.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(words: &[&str]) -> Option<(Vec<&'static Target>, u64, u64)> {
    let (name, mut rest) = words.split_first()?;
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|target| *name == "all" || *name == target.name).collect();
    let (mut seconds, mut seed) = (60, fresh_seed());
    while let [option, value, more @ ..] = rest {
        match *option {
            "--seconds" => seconds = value.parse().ok()?,
            "--seed" => seed = value.parse().ok()?,
            _ => return None,
        }
        rest = more;
    }
    (rest.is_empty() && !targets.is_empty()).then_some((targets, seconds, seed))
}

fn fresh_seed() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    elapsed.as_secs() << 20 ^ u64::from(elapsed.subsec_nanos())
}

/// Runs one target for a given time. Returns true if no input failed.
fn fuzz(target: &'static Target, time: Duration, seed: u64) -> bool {
    let mut random = Random::new(seed);
    let mut corpus = (target.seeds)();
    corpus.push(Vec::new());
    let seeds = corpus.len();
    let mut kinds = HashSet::new();
    let watch = Watchdog::start(target.name);
    let end = Instant::now() + time;
    let mut runs: u64 = 0;
    while runs < seeds as u64 || Instant::now() < end {
        let fresh = usize::try_from(runs).ok().filter(|run| *run < seeds);
        let mut input = corpus[fresh.unwrap_or_else(|| random.index(corpus.len()))].clone();
        if fresh.is_none() {
            let other = random.index(corpus.len());
            mutate(&mut input, &corpus[other], &mut random);
        }
        watch.begin(&input);
        match catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            Ok(kind) if kinds.insert(kind) && fresh.is_none() && corpus.len() < seeds + KEPT_MAX => {
                corpus.push(input)
            }
            Ok(_) => {}
            Err(_) => {
                println!(
                    "FAIL {}: run {runs}, saved as {}",
                    target.name,
                    save(target.name, &input).display()
                );
                return false;
            }
        }
        runs += 1;
    }
    println!("PASS {}: {runs} runs, {seeds} seeds, {} kinds of input", target.name, kinds.len());
    true
}

/// Keeps the current input, so that one that hangs is saved, too.
struct Watchdog {
    state: &'static (AtomicU64, Mutex<Vec<u8>>),
}

impl Watchdog {
    /// Watches from a thread that lives as long as the process.
    fn start(name: &'static str) -> Watchdog {
        let state: &'static (AtomicU64, Mutex<Vec<u8>>) = Box::leak(Box::default());
        thread::spawn(move || {
            loop {
                let before = state.0.load(Ordering::Relaxed);
                thread::sleep(HANG_TIMEOUT);
                // A finished target no longer counts; its empty input tells it from one that hangs.
                let input = state.1.lock().map(|input| input.clone()).unwrap_or_default();
                if state.0.load(Ordering::Relaxed) == before && !input.is_empty() {
                    println!("FAIL {name}: hangs, saved as {}", save(name, &input).display());
                    std::process::exit(1);
                }
            }
        });
        Watchdog { state }
    }

    fn begin(&self, input: &[u8]) {
        self.state.0.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut held) = self.state.1.lock() {
            held.clear();
            held.extend_from_slice(input);
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.begin(&[]);
    }
}

fn save(name: &str, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts");
    let sum = input.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte));
    let path = folder.join(format!("{name}-{sum:016x}"));
    let saved = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    if let Err(error) = saved {
        println!("cannot save {}: {error}; the input is {input:02x?}", path.display());
    }
    path
}

fn replay(name: &str, path: &Path) -> ExitCode {
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    match std::fs::read(path) {
        Ok(input) => {
            println!("{:?}", (target.run)(&input));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
