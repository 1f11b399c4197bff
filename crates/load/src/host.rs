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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_local_and_a_documentation_address_is_not() {
        assert!(has_address(IpAddr::from([127, 0, 0, 1])));
        // An address reserved for examples.
        assert!(!has_address(IpAddr::from([192, 0, 2, 1])));
    }
}
