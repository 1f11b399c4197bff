//! CPU time and memory of processes, from `/proc`.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The unit of CPU time in `/proc`, fixed by Linux's ABI (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// Indices of fields in `/proc/PID/stat`, counted after the name: user and system time, then those of reaped children.
const OWN: usize = 11;
const CHILDREN: usize = 13;

/// A process is idle if it uses at most [`IDLE_SECONDS`] of CPU time per interval.
const INTERVAL: Duration = Duration::from_millis(200);
const IDLE_SECONDS: f64 = 0.015;

/// The processors that this thread may use. When this is dropped it may use all of them again; processes that it started keep theirs.
pub(super) struct Processors {
    all: CpuSet,
    numbers: Vec<usize>,
}

impl Processors {
    /// Returns those that there are.
    pub(super) fn all() -> Result<Processors, String> {
        let all = sched_getaffinity(None).map_err(|error| format!("no list of processors: {error}"))?;
        let numbers = (0..CpuSet::MAX_CPU).filter(|number| all.is_set(*number)).collect();
        Ok(Processors { all, numbers })
    }

    /// Has what this thread starts from now on run on the first half. If their number is odd, the one in the middle is in both halves.
    pub(super) fn take_first_half(&self) -> Result<(), String> {
        let half = self.numbers.len().div_ceil(2);
        take(&self.numbers[..half])
    }

    /// The same for the second half. Returns the number of processors in it.
    pub(super) fn take_second_half(&self) -> Result<usize, String> {
        let half = &self.numbers[self.numbers.len() / 2..];
        take(half).map(|()| half.len())
    }
}

impl Drop for Processors {
    fn drop(&mut self) {
        // They were allowed before.
        let _ = sched_setaffinity(None, &self.all);
    }
}

fn take(numbers: &[usize]) -> Result<(), String> {
    let mut processors = CpuSet::new();
    numbers.iter().for_each(|number| processors.set(*number));
    sched_setaffinity(None, &processors).map_err(|error| format!("processors {numbers:?}: {error}"))
}

fn seconds(path: &str, first: usize) -> Result<f64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let two = text.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace().skip(first).take(2));
    let ticks = two.map(|two| two.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>());
    ticks.map(|ticks| ticks / TICKS_PER_SECOND).ok_or_else(|| format!("{path} is malformed"))
}

/// Returns a process's CPU time in seconds.
pub(super) fn of(pid: u32) -> Result<f64, String> {
    seconds(&format!("/proc/{pid}/stat"), OWN)
}

/// Returns the CPU time in seconds of those threads whose names have this prefix.
pub(super) fn of_threads(pid: u32, name: &str) -> Result<f64, String> {
    let folder = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut sum = 0.0;
    for task in tasks.filter_map(Result::ok) {
        let task = task.path().display().to_string();
        // A thread may have ended meanwhile.
        let is_match = fs::read_to_string(format!("{task}/comm")).is_ok_and(|comm| comm.starts_with(name));
        sum += if is_match { seconds(&format!("{task}/stat"), OWN).unwrap_or(0.0) } else { 0.0 };
    }
    Ok(sum)
}

/// Returns the CPU time of all reaped children in seconds.
pub(super) fn of_children() -> Result<f64, String> {
    seconds("/proc/self/stat", CHILDREN)
}

/// Returns a process's resident memory in bytes.
pub(super) fn resident_bytes(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0).ok_or_else(|| format!("{path} is malformed"))
}

/// Waits until a process is idle, so that a measurement does not include work of the previous one. Gives up after
/// `limit`.
pub(super) fn wait_until_idle(pid: u32, limit: Duration) -> Result<(), String> {
    let end = Instant::now() + limit;
    let mut before = of(pid)?;
    while Instant::now() < end {
        thread::sleep(INTERVAL);
        let now = of(pid)?;
        if now - before < IDLE_SECONDS {
            break;
        }
        before = now;
    }
    Ok(())
}
