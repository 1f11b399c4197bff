//! Connections as calls and the state name them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::limits::UNPRIVILEGED_PORT;

/// Identifies a connection. Never used twice while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// Stands for none: the call came as a datagram.
    pub(crate) const DATAGRAM: ConnectionId = ConnectionId(u64::MAX);
}

/// How calls come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// By connections.
    Tcp,
    /// As datagrams.
    Udp,
}

/// The connection that a call came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The client's address, as [`crate::link_local::named`] names it.
    pub peer: SocketAddr,
    /// The server's address, which the portmapper answers with.
    pub local: SocketAddr,
    /// The connection itself.
    pub id: ConnectionId,
}

impl Connection {
    /// Returns how the call came.
    pub(crate) fn transport(&self) -> Transport {
        if self.id == ConnectionId::DATAGRAM { Transport::Udp } else { Transport::Tcp }
    }

    /// Returns whether it comes from a port that only the superuser of its host can use.
    pub(crate) fn is_privileged(&self) -> bool {
        is_privileged(self.peer)
    }
}

/// Whether a peer's port is one that only the superuser of its host can use.
#[must_use]
pub fn is_privileged(peer: SocketAddr) -> bool {
    peer.port() < UNPRIVILEGED_PORT
}

/// Returns what limits count a client by: its IPv4 address, or the /64 network of its IPv6 address, in which a host can
/// have any address that it likes (RFC 4291 section 2.5.4).
#[must_use]
pub fn origin(client: IpAddr) -> IpAddr {
    const NETWORK: u128 = u128::MAX << 64;
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_counted_once_whatever_address_of_its_network_it_uses() {
        let origin_of = |text: &str| origin(text.parse().unwrap()).to_string();
        assert_eq!(origin_of("192.0.2.7"), "192.0.2.7");
        assert_eq!(origin_of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(origin_of("2001:db8:0:1:aaaa:bbbb:cccc:dddd"), "2001:db8:0:1::");
    }
}
