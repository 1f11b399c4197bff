//! The address that a call to a client leaves from: one that the client knows.
//!
//! Linux's lockd takes a granted lock only from the address that it mounted, and a notice of a restart names the server by its
//! source address. A machine has other addresses too, and the system would choose among all of them.

use std::cmp::Reverse;
use std::io;
use std::net::{IpAddr, SocketAddr};

use mio::net::TcpStream;
use nfs::link_local::{link, named, socket_address};
use rustix::io::Errno;
use rustix::net::{SocketType, bind, connect, ipproto};

use crate::net::listener::new_socket;

/// The listen addresses that name one address, rather than all of the machine, [`named`] as clients are.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<IpAddr>);

impl Sources {
    pub(super) fn of(listen: &[SocketAddr]) -> Sources {
        let named = listen.iter().filter_map(|address| named(*address)).map(|address| address.ip());
        Sources(named.filter(|ip| !ip.is_unspecified()).collect())
    }

    /// Returns the address from which to call `client`: of those that can reach it, the one that shares the longest prefix with
    /// it, as RFC 6724 (section 5, rule 8) does for destinations. None leaves the choice to the system.
    pub(super) fn towards(&self, client: IpAddr) -> Option<IpAddr> {
        let can_reach = |source: &&IpAddr| {
            source.is_ipv4() == client.is_ipv4()
                && source.is_loopback() == client.is_loopback()
                && (link(**source).is_none() || link(**source) == link(client))
        };
        // The first of equals.
        self.0.iter().filter(can_reach).copied().min_by_key(|source| Reverse(common_bits(*source, client)))
    }
}

/// Begins a connection from `source`, as [`TcpStream::connect`] does from an address that the system chooses.
pub(super) fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = new_socket(address, SocketType::STREAM, ipproto::TCP)?;
    bind(&socket, &socket_address(SocketAddr::new(source, 0)))?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from_std(socket.into())),
        Err(error) => Err(error.into()),
    }
}

/// Returns the length of the common prefix of two addresses of one family, in bits.
fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_leaves_from_the_listen_address_nearest_to_the_client() {
        let listen =
            ["127.0.0.1:2049", "10.1.0.5:2049", "10.2.0.5:2049", "[2001:db8::5]:2049", "0.0.0.0:20490"];
        let sources = Sources::of(&listen.map(|address| address.parse().unwrap()));
        let towards =
            |client: &str| sources.towards(client.parse().unwrap()).map(|source| source.to_string());
        assert_eq!(towards("10.2.0.77").as_deref(), Some("10.2.0.5"));
        assert_eq!(towards("10.1.3.77").as_deref(), Some("10.1.0.5"));
        assert_eq!(towards("192.0.2.1").as_deref(), Some("10.1.0.5"), "the first of those equally near");
        assert_eq!(towards("127.0.0.9").as_deref(), Some("127.0.0.1"));
        assert_eq!(towards("2001:db8:1::1").as_deref(), Some("2001:db8::5"));
        assert_eq!(towards("::1"), None, "no listen address reaches it");
        assert_eq!(Sources::of(&["[::]:2049".parse().unwrap()]).towards("10.2.0.77".parse().unwrap()), None);
    }

    #[test]
    fn a_link_local_address_calls_only_clients_on_its_link() {
        let client = |text: &str| named(text.parse().unwrap()).unwrap().ip();
        let listen = ["[fe80::5%2]:2049", "[fe80::5%3]:2049"].map(|address| address.parse().unwrap());
        let sources = Sources::of(&listen);
        for (address, source) in [("[fe80::1%2]:700", Some(2)), ("[fe80::1%3]:700", Some(3))] {
            assert_eq!(sources.towards(client(address)).and_then(link), source);
        }
        assert_eq!(sources.towards(client("[fe80::1%4]:700")), None);
        assert_eq!(sources.towards(client("[2001:db8::1]:700")), None);
    }
}
