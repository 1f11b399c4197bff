//! The threads that drive a volume's background work.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use volume::{Progress, Volume};

use crate::clock::now;
use crate::protocol::commits::Commits;
use crate::volumes::Served;

/// The longest that a thread sleeps without looking whether it is to end.
const WAIT: Duration = Duration::from_millis(100);

/// How often the cleaner looks for something to do, and the volume for whether it still accepts changes.
const CLEAN_INTERVAL: Duration = Duration::from_secs(1);

/// The least time between two pieces of cleaning, so that the device mostly serves clients.
const CLEAN_PAUSE: Duration = Duration::from_millis(20);

/// The threads of one volume.
pub(crate) struct Drivers {
    committer: JoinHandle<()>,
    committer_stop: Arc<AtomicBool>,
    others: Vec<JoinHandle<()>>,
    others_stop: Arc<Stop>,
}

/// Tells threads to end, and ends their sleep.
#[derive(Default)]
struct Stop {
    stopped: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
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
    /// Starts driving a volume.
    pub(crate) fn start(served: &Served, commits: &Arc<Commits>) -> io::Result<Drivers> {
        let spawn = |role: &str, run: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(format!("{role} {}", served.name)).spawn(run)
        };
        let committer_stop = Arc::new(AtomicBool::new(false));
        let (volume, commits) = (Arc::clone(&served.volume), Arc::clone(commits));
        let stop = Arc::clone(&committer_stop);
        let committer = spawn("commit", Box::new(move || commit(&volume, &commits, &stop)))?;
        let others_stop = Arc::new(Stop::default());
        let steps: [(&str, fn(&Volume, &Stop)); 3] =
            [("write", write_back), ("checkpt", checkpoint), ("clean", clean)];
        let mut others = Vec::new();
        for (role, step) in steps {
            let (volume, stop) = (Arc::clone(&served.volume), Arc::clone(&others_stop));
            others.push(spawn(role, Box::new(move || step(&volume, &stop)))?);
        }
        Ok(Drivers { committer, committer_stop, others, others_stop })
    }

    /// Ends the threads. The committer goes last: the others wait for it.
    pub(crate) fn stop(self) {
        self.others_stop.set();
        for thread in self.others {
            join(thread);
        }
        self.committer_stop.store(true, Ordering::Release);
        join(self.committer);
    }
}

/// Waits for a thread to end; one that panicked has been reported by the panic hook.
pub(crate) fn join(thread: JoinHandle<()>) {
    let _ = thread.join();
}

fn commit(volume: &Volume, commits: &Commits, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        volume.wait_commit(WAIT);
        while commits.step() == Progress::Worked {}
    }
}

fn write_back(volume: &Volume, stop: &Stop) {
    while !stop.is_set() {
        volume.wait_write_back(WAIT);
        while volume.step_write_back(now(), false, false) == Progress::Worked && !stop.is_set() {}
        volume.wake_commit();
    }
}

fn checkpoint(volume: &Volume, stop: &Stop) {
    while !stop.is_set() {
        volume.wait_checkpoint(WAIT);
        while volume.step_orphans(now()) == Progress::Worked && !stop.is_set() {}
        while volume.step_checkpoint(now(), false) == Progress::Worked && !stop.is_set() {}
        volume.wake_commit();
    }
}

fn clean(volume: &Volume, stop: &Stop) {
    let mut told = false;
    while !stop.is_set() {
        while volume.step_clean(now(), false) == Progress::Worked && !stop.is_set() {
            volume.wake_commit();
            stop.sleep(CLEAN_PAUSE);
        }
        if !told && let Some(reason) = volume.refuses_changes() {
            told = true;
            tracing::error!(volume = %volume.id(), reason, "changes are refused until the server is restarted");
        }
        stop.sleep(CLEAN_INTERVAL);
    }
}
