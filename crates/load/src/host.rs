//! The machine that this program runs on.

use std::net::{IpAddr, UdpSocket};

use crate::result::Host;

/// Checks whether an address belongs to this machine, by binding it. Nothing is sent.
#[must_use]
pub fn has_address(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

impl Host {
    /// Describes this machine.
    #[must_use]
    pub fn this() -> Self {
        let names = rustix::system::uname();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            name: names.nodename().to_string_lossy().into_owned(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            kernel: format!("{} {}", names.sysname().to_string_lossy(), names.release().to_string_lossy()),
            memory_bytes: memory_bytes(),
        }
    }
}

/// Returns the memory of this machine, if the system reports it.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text))
}

/// Returns MemTotal of `/proc/meminfo`, which is in KiB.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_memory_is_parsed() {
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert_eq!(total("MemTotal:       24681012 kB\nMemFree: 1 kB\n"), Some(24_681_012 * 1024));
        assert_eq!(total("MemTotal: many kB"), None);
    }

    #[test]
    fn loopback_is_local_and_a_documentation_address_is_not() {
        assert!(has_address(IpAddr::from([127, 0, 0, 1])));
        // An address reserved for examples.
        assert!(!has_address(IpAddr::from([192, 0, 2, 1])));
    }
}
