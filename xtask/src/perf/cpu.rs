//! What processes have used so far, from `/proc`.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// What `/proc` counts processor time in, which Linux fixes for programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Fields of a line of `/proc/PID/stat` behind the name: user and system time, then those of children that ended.
const OWN: usize = 11;
const CHILDREN: usize = 13;

/// A process is at rest if it uses no more than this in a look.
const LOOK: Duration = Duration::from_millis(200);
const REST_SECONDS: f64 = 0.015;

fn seconds(path: &str, first: usize) -> Result<f64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let two = text.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace().skip(first).take(2));
    let ticks = two.map(|two| two.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>());
    ticks.map(|ticks| ticks / TICKS_PER_SECOND).ok_or_else(|| format!("{path} makes no sense"))
}

/// Processor time of a process, in seconds.
pub(super) fn of(pid: u32) -> Result<f64, String> {
    seconds(&format!("/proc/{pid}/stat"), OWN)
}

/// Processor time of those of its threads whose names begin so, in seconds.
pub(super) fn of_threads(pid: u32, name: &str) -> Result<f64, String> {
    let folder = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut sum = 0.0;
    for task in tasks.filter_map(Result::ok) {
        let task = task.path().display().to_string();
        // A thread may have ended since.
        let is_meant = fs::read_to_string(format!("{task}/comm")).is_ok_and(|comm| comm.starts_with(name));
        sum += if is_meant { seconds(&format!("{task}/stat"), OWN).unwrap_or(0.0) } else { 0.0 };
    }
    Ok(sum)
}

/// Processor time of all children that have ended, in seconds.
pub(super) fn of_children() -> Result<f64, String> {
    seconds("/proc/self/stat", CHILDREN)
}

/// Resident memory of a process, in bytes.
pub(super) fn resident_bytes(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0).ok_or_else(|| format!("{path} makes no sense"))
}

/// Waits until a process does nothing any more, so that one measurement does not pay for the one before; gives up
/// after `most`.
pub(super) fn wait_for_rest(pid: u32, most: Duration) -> Result<(), String> {
    let end = Instant::now() + most;
    let mut before = of(pid)?;
    while Instant::now() < end {
        thread::sleep(LOOK);
        let now = of(pid)?;
        if now - before < REST_SECONDS {
            break;
        }
        before = now;
    }
    Ok(())
}
