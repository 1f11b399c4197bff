//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream, UdpSocket};
use rustix::net::sockopt;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, ipproto, listen, socket_with};

/// Connections that the kernel completes before we accept them, unless `net.core.somaxconn` is less.
const BACKLOG: i32 = 4096;

/// How long a connection is silent before the kernel probes its peer, and how often it does. The connection of a client
/// that vanished is closed after two and a half minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(120);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_PROBES: u32 = 6;

/// How long a peer may leave what it was sent unacknowledged, or take nothing, also after the connection was closed. A client that is
/// not answered for a minute repeats its call anyway.
pub(crate) const UNREAD_MAX: Duration = Duration::from_secs(60);

/// Listens on `address`.
///
/// # Errors
/// A sentence that says what to do.
pub(crate) fn listen_at(address: SocketAddr) -> Result<TcpListener, String> {
    open(address).map_err(|error| cannot_listen(address, &error))
}

/// Takes datagrams at `address`.
///
/// # Errors
/// A sentence that says what to do.
pub(crate) fn take_datagrams_at(address: SocketAddr) -> Result<UdpSocket, String> {
    open_for_datagrams(address).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "another program has that port: stop it, or write `udp = false`",
            _ => "write `udp = false` in the configuration to serve TCP only",
        };
        format!("cannot take datagrams at {address}: {error}; {advice}")
    })
}

/// Tests whether this machine has `address`, without taking its port.
pub(crate) fn check_address(address: SocketAddr) -> Result<(), String> {
    let mut any_port = address;
    any_port.set_port(0);
    open(any_port).map(drop).map_err(|error| cannot_listen(address, &error))
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has that port: stop it, or choose another one with --listen ADDR:PORT"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need root: choose another one with --listen ADDR:PORT"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: `ip address` shows those it has"
        }
        _ => "choose another address with --listen ADDR:PORT",
    };
    format!("cannot listen on {address}: {error}; {advice}")
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = new_socket(address, SocketType::STREAM, ipproto::TCP)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from_std(std::net::TcpListener::from(socket)))
}

/// The port is not shared: another socket of it would take our datagrams.
fn open_for_datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = new_socket(address, SocketType::DGRAM, ipproto::UDP)?;
    bind(&socket, &address)?;
    Ok(UdpSocket::from_std(std::net::UdpSocket::from(socket)))
}

/// Makes a socket of the family of `address` that nothing waits for.
pub(crate) fn new_socket(address: SocketAddr, kind: SocketType, protocol: Protocol) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, Some(protocol))?;
    if address.is_ipv6() {
        // Lets a server listen on both [::] and 0.0.0.0, and gives IPv4 clients IPv4 addresses.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

/// Congestion control of connections within this machine, where nothing can be congested. The system's default may pace
/// segments with timers (BBR does), which costs more than sending them; Reno does not, and any process may choose it.
const LOCAL_CONGESTION_CONTROL: &str = "reno";

/// Sets the options of a connection: replies are sent at once, and vanished peers are noticed.
pub(crate) fn prepare(stream: &TcpStream, local: SocketAddr, peer: SocketAddr) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if local.ip() == peer.ip() && sockopt::set_tcp_congestion(stream, LOCAL_CONGESTION_CONTROL).is_err() {
        tracing::debug!(
            "cannot select Reno: local connections keep the system's congestion control and may be slower"
        );
    }
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    let unread = u32::try_from(UNREAD_MAX.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, unread)?;
    Ok(())
}

/// Has the connection closed at once when it is dropped: what was sent or received is discarded, and the kernel keeps
/// nothing.
pub(crate) fn reset(stream: &TcpStream) {
    if let Err(error) = sockopt::set_socket_linger(stream, Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection lingers until the peer closes it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let first = listen_at("127.0.0.1:0".parse().unwrap()).unwrap();
        let taken = first.local_addr().unwrap();
        let sentence = listen_at(taken).unwrap_err();
        assert!(sentence.contains(&taken.to_string()) && sentence.contains("another program"), "{sentence}");
        let datagrams = take_datagrams_at(taken).unwrap();
        let sentence = take_datagrams_at(taken).unwrap_err();
        assert!(sentence.contains(&taken.to_string()) && sentence.contains("`udp = false`"), "{sentence}");
        drop(datagrams);
        let sentence = listen_at("192.0.2.1:0".parse().unwrap()).unwrap_err();
        assert!(sentence.contains("no such address"), "{sentence}");
    }

    #[test]
    fn only_local_connections_select_reno() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let stream = TcpStream::from_std(std::net::TcpStream::connect(local).unwrap());
        let systems = sockopt::tcp_congestion(&stream).unwrap();
        prepare(&stream, local, "192.0.2.1:700".parse().unwrap()).unwrap();
        assert_eq!(sockopt::tcp_congestion(&stream).unwrap(), systems);
        prepare(&stream, local, stream.local_addr().unwrap()).unwrap();
        assert_eq!(sockopt::tcp_congestion(&stream).unwrap(), LOCAL_CONGESTION_CONTROL);
    }
}
