//! The memory of the machine, and how the server divides its share.

use std::fs;
use std::path::Path;

use crate::http;
use crate::limits::LOOP_BYTES_MIN;

/// The least memory of a server, bytes. With less, one large request would take a good part of it.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// The least default for pools in a Ceph cluster, bytes: with one pool, what the client library takes leaves it some 28 MiB.
pub const CEPH_MEMORY_BYTES_MIN: u64 = 320 << 20;

/// The least memory of a pool in a Ceph cluster, bytes.
const CEPH_POOL_BYTES_MIN: u64 = 12 << 20;

/// The memory assumed if the system does not report it, bytes.
const MEMORY_BYTES_UNKNOWN: u64 = 1 << 30;

/// The default of the `memory` setting: a quarter of the machine's memory, or of the control group's limit if that
/// is lower.
pub fn default_memory_bytes() -> u64 {
    (machine_bytes().unwrap_or(MEMORY_BYTES_UNKNOWN) / 4).max(MEMORY_BYTES_MIN)
}

/// The machine's memory, or the control group's limit if that is lower; `None` if the system does not report it.
pub(crate) fn machine_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_limit(&text));
    machine.into_iter().chain(group).min()
}

/// `MemTotal` of `/proc/meminfo`, bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the lowest limit of the control group that `/proc/self/cgroup` names and of the groups above it. A version 1
/// group lists its controllers between the colons; a version 2 group lists none.
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
                // "max" is not a number and means no limit.
                limits.extend(text.trim().parse::<u64>());
            }
            limits.into_iter().min()
        })
        .min()
}

/// The shares of the `memory` setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Requests that are being received or executed and unsent replies, bytes, for all event loops.
    pub requests: u64,
    /// State of NFSv4 and NLM clients, bytes.
    pub state: u64,
    /// All pools and the way to them, bytes.
    pub rest: u64,
}

impl Shares {
    /// Returns the bytes of each of `pools` pools, if the connection to their store takes `store` bytes.
    ///
    /// # Errors
    /// It is too little: the least `memory`.
    pub fn of_pool(&self, pools: usize, store: u64) -> Result<u64, u64> {
        let pools = u64::try_from(pools.max(1)).unwrap_or(u64::MAX);
        let pool = self.rest.saturating_sub(store) / pools;
        if store == 0 || pool >= CEPH_POOL_BYTES_MIN {
            return Ok(pool);
        }
        let least = (FIXED_BYTES + store).saturating_add(CEPH_POOL_BYTES_MIN.saturating_mul(pools));
        Err(least.saturating_mul(16).div_ceil(9).next_multiple_of(1 << 20))
    }
}

/// Stacks, code, descriptors and tables, bytes, resident before the first request; and requests of administrators over the
/// network and on this machine.
const FIXED_BYTES: u64 = (16 << 20) + ADMINISTRATION_BYTES;

/// What requests of administrators hold at most, bytes.
const ADMINISTRATION_BYTES: u64 = 4 << 20;

const _: () = assert!(2 * http::REQUEST_BYTES_MAX <= 4 << 20);

/// The divisor of the part of all memory that is not shared out: the measured overhead of the allocator beyond the
/// requested bytes; see `docs/decisions/2026-11-21-system-allocator.md`.
const ALLOCATOR_SHARE: u64 = 4;

/// Divides `memory` bytes: first the fixed part and that of the allocator, then an eighth for requests and a sixteenth for
/// the state of clients; the pools share the rest evenly, after what the client library of a Ceph cluster takes.
pub fn shares(memory: u64) -> Shares {
    let (requests, state) = (memory / 8, memory / 16);
    let taken = requests + state + memory / ALLOCATOR_SHARE + FIXED_BYTES;
    Shares { requests, state, rest: memory.saturating_sub(taken) }
}

/// Returns how much the kernel should keep at most of what connections have received and sent, bytes: a quarter of the setting, in
/// addition to it. By default that is a sixteenth of the machine's memory, at which the kernel begins to take some from all
/// connections (`net.ipv4.tcp_mem`).
pub(crate) fn socket_buffers(memory: u64) -> usize {
    usize::try_from(memory / 4).unwrap_or(usize::MAX)
}

/// Returns the number of event loops, at most `wanted`, that have their least memory from the share of requests.
pub(crate) fn loops(memory: u64, wanted: usize) -> usize {
    let requests = usize::try_from(shares(memory).requests).unwrap_or(usize::MAX);
    wanted.min(requests / LOOP_BYTES_MIN).max(1)
}

/// Returns a field of `/proc/self/status` in bytes; zero if the system does not report it.
fn status_field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

/// Returns the current and the highest resident memory of this process, bytes.
pub(crate) fn resident() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    (status_field(&status, "VmRSS"), status_field(&status, "VmHWM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_parsed() {
        assert_eq!(total_of("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total_of("nothing"), None);
        assert!(default_memory_bytes() >= MEMORY_BYTES_MIN);
    }

    #[test]
    fn shares_stay_within_the_setting() {
        for pools in [0, 1, 3] {
            let shares = shares(1 << 30);
            let count = u64::try_from(pools.max(1)).unwrap();
            for store in [0, 200 << 20] {
                let pool = shares.of_pool(pools, store).unwrap();
                assert!(shares.requests + shares.state + pool * count + store + FIXED_BYTES <= 3 << 28);
            }
        }
    }

    #[test]
    fn pools_in_a_cluster_have_a_least_memory() {
        for pools in [1, 2, 5] {
            let store = rados::memory_bytes(u64::try_from(pools).unwrap());
            let least = shares(MEMORY_BYTES_MIN).of_pool(pools, store).unwrap_err();
            assert_eq!(shares(least - (2 << 20)).of_pool(pools, store), Err(least));
            assert!(shares(least).of_pool(pools, store).is_ok());
        }
        assert!(shares(CEPH_MEMORY_BYTES_MIN).of_pool(1, rados::memory_bytes(1)).is_ok());
        assert!(shares(MEMORY_BYTES_MIN).of_pool(9, 0).is_ok(), "in a directory");
    }

    #[test]
    fn every_event_loop_has_its_minimum() {
        assert_eq!((loops(64 << 20, 16), loops(256 << 20, 16), loops(16 << 30, 16)), (1, 4, 16));
        assert_eq!(loops(1, 16), 1);
    }

    #[test]
    fn resident_memory_is_parsed() {
        assert_eq!(status_field("VmHWM:\t     8 kB\nVmRSS:\t  16 kB\n", "VmRSS"), 16 << 10);
        let (now, most) = resident();
        assert!(0 < now && now <= most);
    }
}
