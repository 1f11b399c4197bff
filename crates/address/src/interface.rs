//! A network interface.

use std::io;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, SockaddrLike as _};

/// A network interface of this machine.
#[derive(Clone, Debug)]
pub struct Interface {
    pub(crate) index: u32,
    pub(crate) link: LinkAddr,
}

impl Interface {
    /// Finds an interface by its name.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name.
    pub fn find(name: &str) -> io::Result<Interface> {
        let links = getifaddrs()?.filter(|found| found.interface_name == name);
        let mut links = links.filter_map(|found| found.address?.as_link_addr().copied());
        let link = links.next().ok_or_else(|| {
            let sentence =
                format!("there is no network interface {name:?}: `ip link` shows those of this machine");
            io::Error::new(io::ErrorKind::NotFound, sentence)
        })?;
        let index = u32::try_from(link.ifindex()).map_err(io::Error::other)?;
        Ok(Interface { index, link })
    }

    /// Returns its hardware address; none if neighbours do not know it by one, as a tunnel.
    pub(crate) fn hardware_address(&self) -> Option<[u8; 6]> {
        let is_ethernet = self.link.hatype() == nix::libc::ARPHRD_ETHER && self.link.len() > 0;
        self.link.addr().filter(|_| is_ethernet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_name() {
        let loopback = Interface::find("lo").unwrap();
        assert!(loopback.index > 0);
        assert_eq!(loopback.hardware_address(), None);
        let error = Interface::find("no-such").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("ip link"), "{error}");
    }
}
