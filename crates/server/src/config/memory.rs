//! How much memory this machine gives us, and how the server divides its own share.

use std::fs;
use std::path::Path;

use crate::limits::LOOP_BYTES_MIN;

/// The least that a server is run with, bytes: below it, one large request would take a good part of it.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// What is taken if the machine does not say how much memory it has, bytes.
const MEMORY_BYTES_UNKNOWN: u64 = 1 << 30;

/// The default of the `memory` setting: a quarter of the machine's memory, or of the control group's limit if that
/// is lower.
pub fn default_memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_limit(&text));
    let bytes = machine.into_iter().chain(group).min().unwrap_or(MEMORY_BYTES_UNKNOWN);
    (bytes / 4).max(MEMORY_BYTES_MIN)
}

/// `MemTotal` of `/proc/meminfo`, bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The lowest limit of the control group that `/proc/self/cgroup` names, and of those above it. A version 1 group
/// lists its controllers between the colons, a version 2 group none.
fn group_limit(cgroup: &str) -> Option<u64> {
    cgroup
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let (root, file) = match controllers {
                "" => ("/sys/fs/cgroup", "memory.max"),
                _ if controllers.split(',').any(|name| name == "memory") => {
                    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
                }
                _ => return None,
            };
            let mut limits = Vec::new();
            for ancestor in Path::new(path.trim_start_matches('/')).ancestors() {
                let text = fs::read_to_string(Path::new(root).join(ancestor).join(file)).unwrap_or_default();
                // "max" is no number: no limit.
                limits.extend(text.trim().parse::<u64>());
            }
            limits.into_iter().min()
        })
        .min()
}

/// How the `memory` setting is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Requests that are being received or executed and replies that have not left, bytes, for all event loops.
    pub requests: u64,
    /// What clients of NFSv4 and NLM hold, bytes.
    pub state: u64,
    /// Each volume, bytes.
    pub volume: u64,
}

/// Stacks, code, descriptors and tables, bytes: what is resident before the first request.
const FIXED_BYTES: u64 = 16 << 20;

/// The part of all memory, one in so many, that nobody gets: what the allocator holds beyond what it was asked for, as
/// measured; see `docs/decisions/2026-11-21-system-allocator.md`.
const ALLOCATOR_SHARE: u64 = 4;

/// Divides `memory` bytes: what is fixed and what the allocator takes first, an eighth for requests, a sixteenth for what
/// clients hold, the rest to the volumes evenly.
pub fn shares(memory: u64, volumes: usize) -> Shares {
    let (requests, state) = (memory / 8, memory / 16);
    let taken = requests + state + memory / ALLOCATOR_SHARE + FIXED_BYTES;
    let rest = memory.saturating_sub(taken);
    let volumes = u64::try_from(volumes.max(1)).unwrap_or(u64::MAX);
    Shares { requests, state, volume: rest / volumes }
}

/// How many event loops there are if `wanted` are: each has its least memory out of what all requests have.
pub(crate) fn loops(memory: u64, wanted: usize) -> usize {
    let requests = usize::try_from(shares(memory, 1).requests).unwrap_or(usize::MAX);
    wanted.min(requests / LOOP_BYTES_MIN).max(1)
}

/// A field of `/proc/self/status` that is in KiB, in bytes; zero if the system does not tell.
fn status_field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

/// What this process has in memory now, and the most it had, bytes.
pub(crate) fn resident() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    (status_field(&status, "VmRSS"), status_field(&status, "VmHWM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo() {
        assert_eq!(total_of("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total_of("nothing"), None);
        assert!(default_memory_bytes() >= MEMORY_BYTES_MIN);
    }

    #[test]
    fn shares_stay_within_the_whole() {
        for volumes in [0, 1, 3] {
            let shares = shares(1 << 30, volumes);
            let count = u64::try_from(volumes.max(1)).unwrap();
            let all = shares.requests + shares.state + shares.volume * count + FIXED_BYTES;
            assert!(all <= 3 << 28);
        }
    }

    #[test]
    fn every_event_loop_has_its_least() {
        assert_eq!((loops(64 << 20, 16), loops(256 << 20, 16), loops(16 << 30, 16)), (1, 4, 16));
        assert_eq!(loops(1, 16), 1);
    }

    #[test]
    fn what_is_resident() {
        assert_eq!(status_field("VmHWM:\t     8 kB\nVmRSS:\t  16 kB\n", "VmRSS"), 16 << 10);
        let (now, most) = resident();
        assert!(0 < now && now <= most);
    }
}
