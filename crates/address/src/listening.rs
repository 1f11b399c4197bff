//! Sockets bound to an address that the machine need not have yet (`IP_FREEBIND` of ip(7)): when the address arrives, its port is
//! open. A client whose SYN is answered with RST would wait for 3 s before the next one.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;

use nix::sys::socket::sockopt::{IpFreebind, Ipv6V6Only, ReuseAddr};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
};

/// Connections that the kernel completes before the server accepts them: those of all clients at a takeover.
const BACKLOG: i32 = 4096;

/// Listens at `address`.
///
/// # Errors
/// The port is in use, or privileged.
pub fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address, SockType::Stream)?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(socket.into())
}

/// Takes datagrams at `address`.
///
/// # Errors
/// The port is in use, or privileged.
pub fn take_datagrams_at(address: SocketAddr) -> io::Result<UdpSocket> {
    Ok(bound(address, SockType::Datagram)?.into())
}

fn bound(address: SocketAddr, kind: SockType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    // Sockets of IPv6 have this option too.
    setsockopt(&socket, IpFreebind, &true)?;
    if kind == SockType::Stream {
        setsockopt(&socket, ReuseAddr, &true)?;
    }
    if address.is_ipv6() {
        setsockopt(&socket, Ipv6V6Only, &true)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_bound_to_addresses_that_the_machine_does_not_have() {
        for ip in ["192.0.2.7", "2001:db8::7"] {
            let address = SocketAddr::new(ip.parse().unwrap(), 0);
            let listener = listen_at(address).unwrap();
            assert_eq!(listener.local_addr().unwrap().ip(), address.ip());
            assert!(take_datagrams_at(listener.local_addr().unwrap()).is_ok());
            assert_eq!(
                listen_at(listener.local_addr().unwrap()).unwrap_err().kind(),
                io::ErrorKind::AddrInUse
            );
        }
    }
}
