//! A volume in a temporary directory with the threads of a server, and its callers.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use store::{Directory, LOG_FILE_BYTES, NewPool};
use volume::ids::VolumeId;
use volume::media::Media;
use volume::request::{
    Access, Answer, Credentials, Durability, Durable, Error, Failure, Journaled, Request, RequestKey,
};
use volume::time::Time;
use volume::{CreateOptions, Options, Pool, Progress, Volume, VolumeOptions};

/// A caller without an answer for this long has stalled.
const STALL: Duration = Duration::from_secs(10);

/// Small, so that checkpoints, write-back and the cleaner have much work.
const OPTIONS: Options = Options { memory: 24 << 20, segment_bytes: 1 << 20, cache_seed: None };

/// A directory that is removed after the test, unless the test fails.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(what: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("holdfast-{what}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let directory = Directory::open_or_create(&path).unwrap();
        let new = NewPool {
            name: "main",
            id: 7,
            instance: 7,
            journal: None,
            path: None,
            journal_bytes: LOG_FILE_BYTES,
        };
        let options = CreateOptions {
            pool: volume::ids::PoolId(1),
            journal_id: [2; 16],
            volume: VolumeOptions {
                id: VolumeId(7),
                name: "main".to_owned(),
                size: None,
                handle_secret: [1; 16],
                root_mode: 0o755,
                root_owner: (0, 0),
            },
            now: now(),
        };
        directory.create(&new, |media| Pool::create(media, &options).map_err(|error| error.0)).unwrap();
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("kept for examination: {}", self.0.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

pub fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_nanos(i64::try_from(now.as_nanos()).unwrap())
}

/// Fails if an unused volume has faults.
pub fn check(path: &Path) {
    let directory = Directory::open(path).unwrap();
    let media: Arc<dyn Media> = Arc::new(directory.open_pool("main", None).unwrap());
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

/// An open volume with its background threads.
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
        let media = Arc::new(directory.open_pool("main", None).unwrap());
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

    /// Returns a caller, for a thread of its own.
    pub fn caller(&self, number: u64) -> Caller {
        Caller {
            volume: Arc::clone(&self.volume),
            shared: Arc::clone(&self.shared),
            heartbeat: Arc::new(Heartbeat::default()),
            number,
            calls: Cell::new(0),
        }
    }

    /// Stops the threads and closes the volume.
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

    /// Stops the threads and leaves the volume as after a crash.
    pub fn abandon(self) {
        self.shared.stopping.store(true, Ordering::Release);
        for thread in self.others {
            thread.join().unwrap();
        }
        // The other threads may wait for commits within a step.
        self.shared.commits_stopping.store(true, Ordering::Release);
        self.committer.join().unwrap();
    }
}

/// The progress of a caller, for [`watch`].
#[derive(Default)]
pub struct Heartbeat {
    /// The number of completed calls.
    answered: AtomicU64,
    doing: Mutex<&'static str>,
}

/// Calls a volume and waits for its answers.
pub struct Caller {
    pub volume: Arc<Volume>,
    shared: Arc<Shared>,
    pub heartbeat: Arc<Heartbeat>,
    number: u64,
    calls: Cell<u64>,
}

impl Caller {
    /// Calls until there is a durable answer, and returns it.
    pub fn call<T>(
        &self,
        what: &'static str,
        operation: impl FnMut(&Volume, &Request<'_>) -> Answer<T>,
    ) -> Result<T, Error> {
        let (result, after) = self.start(what, operation);
        self.wait(after);
        self.heartbeat.answered.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Calls until there is an answer, which may not be durable yet.
    pub fn start<T>(
        &self,
        what: &'static str,
        mut operation: impl FnMut(&Volume, &Request<'_>) -> Answer<T>,
    ) -> (Result<T, Error>, Durability) {
        *self.heartbeat.doing.lock().unwrap() = what;
        let credentials = Credentials::root();
        self.calls.set(self.calls.get() + 1);
        let mut key = self.number.to_be_bytes().to_vec();
        key.extend(self.calls.get().to_be_bytes());
        let key = RequestKey::new(key);
        let mut access = Access::Cached;
        loop {
            let request = Request { credentials: &credentials, now: now(), access, key: Some(&key) };
            match operation(&self.volume, &request) {
                Ok(promised) => return (Ok(promised.value), promised.after),
                Err(Failure { error: Error::WouldBlock, .. }) => access = Access::Blocking,
                Err(Failure { error: Error::Busy | Error::ObjectBusy, .. }) => {
                    thread::sleep(Duration::from_millis(2))
                }
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
                Durable::Failed => panic!("real media failed"),
            }
            guard = self.shared.progressed.wait_timeout(guard, Duration::from_millis(100)).unwrap().0;
        }
    }
}

/// Watches callers while `running` returns true. A stalled one aborts the process, since its thread cannot be stopped; the
/// core dump shows it.
pub fn watch(heartbeats: Vec<Arc<Heartbeat>>, volume: &Volume, running: impl Fn() -> bool) {
    let mut seen: Vec<(u64, Instant)> = heartbeats.iter().map(|_| (u64::MAX, Instant::now())).collect();
    while running() {
        for (number, (heartbeat, seen)) in heartbeats.iter().zip(&mut seen).enumerate() {
            let answered = heartbeat.answered.load(Ordering::Relaxed);
            if answered != seen.0 {
                *seen = (answered, Instant::now());
            } else if seen.1.elapsed() > STALL {
                let doing = *heartbeat.doing.lock().unwrap();
                println!(
                    "caller {number} has waited {:?} for {doing}; {:?}",
                    seen.1.elapsed(),
                    volume.gauges()
                );
                std::process::abort();
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Encodes a result that is never replayed.
pub fn encode<T>(_: &T) -> Journaled {
    Arc::<[u8]>::from(&b"answer"[..]).into()
}
