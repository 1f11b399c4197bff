//! The origin under which a connection, its calls and its memory are counted.

use std::net::{IpAddr, SocketAddr};

use nfs::service::{is_privileged, origin};

/// The origin of a connection, with the kind of its port. Connections from privileged ports count apart, so that the users of a host
/// take nothing from its kernel's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionOrigin {
    address: IpAddr,
    is_privileged: bool,
}

impl ConnectionOrigin {
    /// Returns the origin of a peer's connections.
    pub(crate) fn of(peer: SocketAddr) -> ConnectionOrigin {
        ConnectionOrigin { address: origin(peer.ip()), is_privileged: is_privileged(peer) }
    }

    /// Returns a number that no other peer's origin has. Those of IPv4 addresses are at least 2, as 0.0.0.0 is no peer's, and less
    /// than 2³³; those of IPv6 networks are multiples of 2⁶⁴, plus one for privileged ports.
    pub(crate) fn number(self) -> u128 {
        let address = match self.address {
            IpAddr::V4(address) => u128::from(address.to_bits()) << 1,
            IpAddr::V6(network) => network.to_bits(),
        };
        address | u128::from(self.is_privileged)
    }
}

#[cfg(test)]
impl From<IpAddr> for ConnectionOrigin {
    fn from(address: IpAddr) -> ConnectionOrigin {
        ConnectionOrigin { address, is_privileged: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_the_same_number() {
        let number = |peer: &str| ConnectionOrigin::of(peer.parse().unwrap()).number();
        let peers =
            ["192.0.2.1:900", "192.0.2.1:9000", "192.0.2.2:900", "[2001:db8::1]:900", "[2001:db8::1]:9000"];
        let numbers: std::collections::BTreeSet<u128> = peers.into_iter().map(number).collect();
        assert_eq!(numbers.len(), peers.len());
        assert_eq!(number("[2001:db8::1]:900"), number("[2001:db8::2]:901"), "a network is an origin");
    }
}
