//! The TCP connections of an address, by sock_diag(7).

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use nix::libc::{AF_INET, AF_INET6, ENOENT, EOPNOTSUPP, IPPROTO_TCP};
use nix::sys::socket::SockProtocol;

use crate::netlink::{Message, Netlink};

/// Types of messages (`linux/sock_diag.h`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;

/// Bits of states (`net/tcp_states.h`).
const ESTABLISHED: u32 = 1 << 1;
const LISTEN: u32 = 1 << 10;
const ALL: u32 = (1 << 13) - 1;

/// Bytes of `inet_diag_sockid`, which begins at byte 4 of an answer.
const ID_BYTES: usize = 48;
const ID_AT: usize = 4;

/// A socket as the kernel describes it.
struct Found {
    family: u8,
    local: SocketAddr,
    peer: SocketAddr,
    /// How the kernel identifies it.
    id: [u8; ID_BYTES],
}

/// Ends all connections whose local end is `local` at once, whatever their state, and whatever remains of earlier ones: they
/// send RST if they can. Returns how many they were.
///
/// A client that comes back to a machine which still keeps the connection of an earlier time would not be answered.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN`; `Unsupported` if the kernel lacks `CONFIG_INET_DIAG_DESTROY`.
pub fn end_all(local: SocketAddr) -> io::Result<usize> {
    let netlink = Netlink::open(SockProtocol::NetlinkSockDiag)?;
    let found = find(&netlink, local, ALL & !LISTEN)?;
    let mut ended = 0;
    for socket in found {
        match netlink.request(SOCK_DESTROY, 0, &request(socket.family, ALL, &socket.id)) {
            Ok(()) => ended += 1,
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(ENOENT) => {}
            Err(error) if error.raw_os_error() == Some(EOPNOTSUPP) => {
                let sentence = "this kernel cannot end connections: it lacks CONFIG_INET_DIAG_DESTROY";
                return Err(io::Error::new(io::ErrorKind::Unsupported, sentence));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(ended)
}

/// Returns the other ends of the established connections whose local end is `local`.
///
/// # Errors
/// The kernel does not answer.
pub fn peers(local: SocketAddr) -> io::Result<Vec<SocketAddr>> {
    let netlink = Netlink::open(SockProtocol::NetlinkSockDiag)?;
    Ok(find(&netlink, local, ESTABLISHED)?.into_iter().map(|socket| socket.peer).collect())
}

/// Finds the sockets of a local end in some of `states`. A connection over IPv4 may be that of a socket of IPv6.
fn find(netlink: &Netlink, local: SocketAddr, states: u32) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let families: &[i32] = if local.is_ipv4() { &[AF_INET, AF_INET6] } else { &[AF_INET6] };
    for family in families {
        let family = u8::try_from(*family).expect("families are small numbers");
        let mut id = [0; ID_BYTES];
        // The kernel compares the local port.
        id[..2].copy_from_slice(&local.port().to_be_bytes());
        netlink.dump(SOCK_DIAG_BY_FAMILY, &request(family, states, &id), |_, body| {
            found.extend(decode(body).filter(|socket| socket.local == local));
        })?;
    }
    Ok(found)
}

/// Returns the body of a request: `inet_diag_req_v2`.
fn request(family: u8, states: u32, id: &[u8; ID_BYTES]) -> Vec<u8> {
    let mut body = Message::default();
    body.u8(family);
    body.u8(u8::try_from(IPPROTO_TCP).expect("protocols are small numbers"));
    // No extensions, and padding.
    body.u16(0);
    body.u32(states);
    body.raw(id);
    body.0
}

/// Reads an answer: `inet_diag_msg`.
fn decode(body: &[u8]) -> Option<Found> {
    let family = *body.first()?;
    let id: [u8; ID_BYTES] = *body.get(ID_AT..)?.first_chunk()?;
    let port = |at: usize| u16::from_be_bytes([id[at], id[at + 1]]);
    let ip = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = *id.get(at..)?.first_chunk()?;
        Some(match i32::from(family) {
            AF_INET => IpAddr::from(*bytes.first_chunk::<4>()?),
            _ => Ipv6Addr::from(bytes).to_canonical(),
        })
    };
    let local = SocketAddr::new(ip(4)?, port(0));
    Some(Found { family, local, peer: SocketAddr::new(ip(20)?, port(2)), id })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn established_connections_are_listed_by_their_local_end() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let local = listener.local_addr().unwrap();
            assert!(peers(local).unwrap().is_empty());
            let client = TcpStream::connect(local).unwrap();
            assert_eq!(peers(local).unwrap(), [client.local_addr().unwrap()]);
        }
    }

    #[test]
    fn connections_over_ipv4_of_a_socket_of_ipv6_are_found() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let local: SocketAddr = ([127, 0, 0, 1], port).into();
        let client = TcpStream::connect(local).unwrap();
        let _accepted = listener.accept().unwrap();
        assert_eq!(peers(local).unwrap(), [client.local_addr().unwrap()]);
    }
}
