//! The threads that drive a pool's background work.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use volume::time::Time;
use volume::{Pool, Progress};

use crate::background::fullness::Fullness;
use crate::background::quota_news::QuotaNews;
use crate::clock::now;
use crate::pools::{self, OpenPool};
use crate::protocol::commits::Commits;

/// The longest sleep of a thread before it checks whether it must end.
const WAIT: Duration = Duration::from_millis(100);

/// How often the cleaner looks for work, and checks whether the pool still accepts changes.
const CLEAN_INTERVAL: Duration = Duration::from_secs(1);

/// The pause between two cleaning steps, so that the device mostly serves clients.
const CLEAN_PAUSE: Duration = Duration::from_millis(20);

/// The threads of one pool.
pub(crate) struct Drivers {
    committer: JoinHandle<()>,
    committer_stop: Arc<AtomicBool>,
    others: Vec<JoinHandle<()>>,
    others_stop: Arc<StopFlag>,
}

/// Ends threads, and their sleep.
#[derive(Default)]
struct StopFlag {
    stopped: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl StopFlag {
    fn is_set(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn set(&self) {
        let _lock = self.lock.lock();
        self.stopped.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn sleep(&self, most: Duration) {
        let mut lock = self.lock.lock();
        if !self.is_set() {
            self.changed.wait_for(&mut lock, most);
        }
    }
}

impl Drivers {
    /// Starts the threads of a pool.
    pub(crate) fn start(served: &OpenPool, commits: &Arc<Commits>) -> io::Result<Drivers> {
        let spawn = |role: &str, run: Box<dyn FnOnce() + Send>| {
            let span = pools::span(&served.name);
            thread::Builder::new().name(format!("{role} {}", served.name)).spawn(move || span.in_scope(run))
        };
        let committer_stop = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(commits);
        let (pool, commits) = (Arc::clone(&served.pool), Arc::clone(commits));
        let stop = Arc::clone(&committer_stop);
        let committer = spawn("commit", Box::new(move || commit(&pool, &commits, &stop)))?;
        let others_stop = Arc::new(StopFlag::default());
        let steps: [(&str, fn(&Arc<Pool>, &Commits, &StopFlag)); 3] =
            [("write", write_back), ("checkpt", checkpoint), ("clean", clean)];
        let mut others = Vec::new();
        for (role, step) in steps {
            let (pool, stop) = (Arc::clone(&served.pool), Arc::clone(&others_stop));
            let noted = Arc::clone(&noted);
            others.push(spawn(role, Box::new(move || step(&pool, &noted, &stop)))?);
        }
        Ok(Drivers { committer, committer_stop, others, others_stop })
    }

    /// Ends the threads. The committer ends last, because the others wait for it.
    pub(crate) fn stop(self) {
        self.others_stop.set();
        for thread in self.others {
            join(thread);
        }
        self.committer_stop.store(true, Ordering::Release);
        join(self.committer);
    }
}

/// Waits for a thread to end. The panic hook has reported a panic.
pub(crate) fn join(thread: JoinHandle<()>) {
    let _ = thread.join();
}

fn commit(pool: &Pool, commits: &Commits, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        pool.wait_commit(WAIT);
        while commits.step() == Progress::Worked {}
    }
}

fn write_back(pool: &Arc<Pool>, _: &Commits, stop: &StopFlag) {
    while !stop.is_set() {
        pool.wait_write_back(WAIT);
        while pool.step_write_back(now(), false, false) == Progress::Worked && !stop.is_set() {}
        pool.wake_commit();
    }
}

fn checkpoint(pool: &Arc<Pool>, noted: &Commits, stop: &StopFlag) {
    let mut trees = Progress::Idle;
    while !stop.is_set() {
        if trees == Progress::Idle {
            pool.wait_checkpoint(WAIT);
        }
        while pool.step_orphans(now()) == Progress::Worked && !stop.is_set() {}
        // One step at a time, as it fills the journal that checkpoints empty.
        trees = pool.step_trees(now());
        let mut start = Instant::now();
        while pool.step_checkpoint(now(), false) == Progress::Worked && !stop.is_set() {
            noted.durations().checkpoints.note(start.elapsed());
            start = Instant::now();
        }
        pool.wake_commit();
    }
}

fn clean(pool: &Arc<Pool>, noted: &Commits, stop: &StopFlag) {
    let mut logged = false;
    let (mut fullness, mut quotas) = (Fullness::default(), QuotaNews::default());
    while !stop.is_set() {
        fullness.watch(pool);
        quotas.report(pool);
        noted.note_full(fullness.is_full());
        pool.step_damaged_paths();
        clean_while(pool, stop, &mut fullness, Pool::step_clean);
        if !logged && let Some(reason) = pool.refuses_changes() {
            logged = true;
            tracing::error!(reason, "changes are refused; restart the server");
        }
        let looked = Instant::now();
        while looked.elapsed() < CLEAN_INTERVAL && !stop.is_set() {
            if pool.wait_clean(WAIT) {
                clean_while(pool, stop, &mut fullness, Pool::step_clean_early);
                stop.sleep(CLEAN_PAUSE);
            }
        }
    }
    pool.step_damaged_paths();
}

/// Cleans while there is something to clean.
fn clean_while(
    pool: &Arc<Pool>,
    stop: &StopFlag,
    fullness: &mut Fullness,
    step: fn(&Pool, Time, bool) -> Progress,
) {
    while step(pool, now(), false) == Progress::Worked && !stop.is_set() {
        pool.wake_commit();
        fullness.watch(pool);
        stop.sleep(CLEAN_PAUSE);
    }
}
