//! A volume in a temporary directory, driven by threads as a server drives it, and how its callers call it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use store::{Directory, LOG_FILE_BYTES, NewVolume};
use volume::ids::VolumeId;
use volume::media::Media;
use volume::request::{
    Access, Answer, Credentials, Durability, Durable, Error, Failure, Journaled, Request, RequestKey,
};
use volume::time::Time;
use volume::{CreateOptions, Options, Progress, Volume};

/// A caller that gets no answer for so long stands still.
const STALL: Duration = Duration::from_secs(10);

/// Small, so that checkpoints, write-back and the cleaner have much to do.
const OPTIONS: Options = Options { memory: 24 << 20, segment_bytes: 1 << 20, cache_seed: None };

/// A directory that goes when the test is over, unless it failed.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(what: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("holdfast-{what}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let directory = Directory::open_or_create(&path).unwrap();
        let new = NewVolume { name: "main", id: 7, journal: None, journal_bytes: LOG_FILE_BYTES };
        let options = CreateOptions {
            id: VolumeId(7),
            handle_secret: [1; 16],
            journal_id: [2; 16],
            root_mode: 0o755,
            root_owner: (0, 0),
            now: now(),
        };
        directory.create(&new, |media| Volume::create(media, &options).map_err(|error| error.0)).unwrap();
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("left for examination: {}", self.0.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

pub fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_nanos(i64::try_from(now.as_nanos()).unwrap())
}

/// Fails unless a volume that nobody uses is sound.
pub fn check(path: &Path) {
    let directory = Directory::open(path).unwrap();
    let media: Arc<dyn Media> = Arc::new(directory.open_volume("main", None).unwrap());
    let report = volume::check::check(&media, &volume::check::CheckOptions::default()).unwrap();
    let faults: Vec<String> = report.faults.iter().take(20).map(ToString::to_string).collect();
    assert!(report.is_clean(), "check found {} faults:\n{}", report.faults.len(), faults.join("\n"));
}

#[derive(Default)]
struct Shared {
    stopping: AtomicBool,
    commits_stopping: AtomicBool,
    progressed: Condvar,
    lock: Mutex<()>,
}

/// An open volume with its threads.
pub struct World {
    pub volume: Arc<Volume>,
    shared: Arc<Shared>,
    committer: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
    _directory: Directory,
}

impl World {
    pub fn open(path: &Path) -> World {
        let directory = Directory::open(path).unwrap();
        let media = Arc::new(directory.open_volume("main", None).unwrap());
        let volume = Arc::new(Volume::open(media, &OPTIONS, now()).unwrap());
        let shared = Arc::new(Shared::default());
        let waiters = Arc::clone(&shared);
        volume.on_progress(Box::new(move || {
            drop(waiters.lock.lock());
            waiters.progressed.notify_all();
        }));
        let wait = Duration::from_millis(50);
        let (driven, control) = (Arc::clone(&volume), Arc::clone(&shared));
        let committer = thread::spawn(move || {
            while !control.commits_stopping.load(Ordering::Acquire) {
                driven.wait_commit(wait);
                while driven.step_commit(now()) == Progress::Worked {}
            }
        });
        let steps: [fn(&Volume) -> Progress; 3] = [
            |volume| {
                volume.wait_write_back(Duration::from_millis(50));
                volume.step_write_back(now(), false, false)
            },
            |volume| {
                volume.wait_checkpoint(Duration::from_millis(50));
                while volume.step_orphans(now()) == Progress::Worked {}
                volume.step_checkpoint(now(), false)
            },
            |volume| {
                thread::sleep(Duration::from_millis(5));
                volume.step_clean(now(), false)
            },
        ];
        let others = steps.map(|step| {
            let (driven, control) = (Arc::clone(&volume), Arc::clone(&shared));
            thread::spawn(move || {
                while !control.stopping.load(Ordering::Acquire) {
                    step(&driven);
                }
            })
        });
        World { volume, shared, committer, others: others.into(), _directory: directory }
    }

    /// A caller; callers live in threads of their own.
    pub fn caller(&self, number: u64) -> Caller {
        Caller {
            volume: Arc::clone(&self.volume),
            shared: Arc::clone(&self.shared),
            pulse: Arc::new(Pulse::default()),
            number,
            calls: Cell::new(0),
        }
    }

    /// Ends the threads and closes the volume.
    pub fn close(self) {
        let World { volume, shared, committer, others, _directory } = self;
        shared.stopping.store(true, Ordering::Release);
        for thread in others {
            thread.join().unwrap();
        }
        shared.commits_stopping.store(true, Ordering::Release);
        committer.join().unwrap();
        volume.close(now()).unwrap();
    }

    /// Ends the threads, and leaves the volume as a crash would.
    pub fn abandon(self) {
        self.shared.stopping.store(true, Ordering::Release);
        for thread in self.others {
            thread.join().unwrap();
        }
        // The others may wait for it in the midst of a step.
        self.shared.commits_stopping.store(true, Ordering::Release);
        self.committer.join().unwrap();
    }
}

/// What a caller is doing, for whoever watches it.
#[derive(Default)]
pub struct Pulse {
    /// Calls that were answered.
    answered: AtomicU64,
    doing: Mutex<&'static str>,
}

/// Somebody who calls a volume and waits for its answers.
pub struct Caller {
    pub volume: Arc<Volume>,
    shared: Arc<Shared>,
    pub pulse: Arc<Pulse>,
    number: u64,
    calls: Cell<u64>,
}

impl Caller {
    /// Calls until there is an answer that may be shown, and returns it.
    pub fn call<T>(
        &self,
        what: &'static str,
        operation: impl FnMut(&Volume, &Request<'_>) -> Answer<T>,
    ) -> Result<T, Error> {
        let (result, after) = self.start(what, operation);
        self.wait(after);
        self.pulse.answered.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Calls until there is an answer, which may not be shown yet.
    pub fn start<T>(
        &self,
        what: &'static str,
        mut operation: impl FnMut(&Volume, &Request<'_>) -> Answer<T>,
    ) -> (Result<T, Error>, Durability) {
        *self.pulse.doing.lock().unwrap() = what;
        let credentials = Credentials::root();
        self.calls.set(self.calls.get() + 1);
        let mut key = self.number.to_be_bytes().to_vec();
        key.extend(self.calls.get().to_be_bytes());
        let key = RequestKey(key.into());
        let mut access = Access::Cached;
        loop {
            let request = Request { credentials: &credentials, now: now(), access, key: Some(&key) };
            match operation(&self.volume, &request) {
                Ok(promised) => return (Ok(promised.value), promised.after),
                Err(Failure { error: Error::WouldBlock, .. }) => access = Access::Blocking,
                Err(Failure { error: Error::Busy, .. }) => thread::sleep(Duration::from_millis(2)),
                Err(failure) => return (Err(failure.error), failure.after),
            }
        }
    }

    fn wait(&self, after: Durability) {
        let mut guard = self.shared.lock.lock().unwrap();
        loop {
            match self.volume.durability(after) {
                Durable::Yes => return,
                Durable::NotYet => {}
                Durable::Failed => panic!("media that do not fail failed"),
            }
            guard = self.shared.progressed.wait_timeout(guard, Duration::from_millis(100)).unwrap().0;
        }
    }
}

/// Watches callers for as long as `running` says; one that stands still ends the process, as its thread cannot be ended,
/// and leaves a core dump if the system writes them.
pub fn watch(pulses: Vec<Arc<Pulse>>, volume: &Volume, running: impl Fn() -> bool) {
    let mut seen: Vec<(u64, Instant)> = pulses.iter().map(|_| (u64::MAX, Instant::now())).collect();
    while running() {
        for (number, (pulse, seen)) in pulses.iter().zip(&mut seen).enumerate() {
            let answered = pulse.answered.load(Ordering::Relaxed);
            if answered != seen.0 {
                *seen = (answered, Instant::now());
            } else if seen.1.elapsed() > STALL {
                let doing = *pulse.doing.lock().unwrap();
                println!(
                    "caller {number} waits since {:?} for {doing}; {:?}",
                    seen.1.elapsed(),
                    volume.gauges()
                );
                std::process::abort();
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A result that nobody remembers the encoding of.
pub fn encode<T>(_: &T) -> Journaled {
    Arc::<[u8]>::from(&b"answer"[..]).into()
}
