//! How much memory this machine gives us, and how the server divides its own share.

use std::fs;
use std::path::Path;

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
    /// Each volume, bytes.
    pub volume: u64,
}

/// Stacks, code, descriptors and tables, bytes: what is resident before the first request.
const FIXED_BYTES: u64 = 16 << 20;

/// Divides `memory` bytes: what is fixed first, an eighth for requests, the rest to the volumes evenly.
pub fn shares(memory: u64, volumes: usize) -> Shares {
    let requests = memory / 8;
    let rest = memory.saturating_sub(requests).saturating_sub(FIXED_BYTES);
    let volumes = u64::try_from(volumes.max(1)).unwrap_or(u64::MAX);
    Shares { requests, volume: rest / volumes }
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
            assert!(shares.requests + shares.volume * count + FIXED_BYTES <= 1 << 30);
        }
    }
}
