//! Makes a client notice that the other end of its connection is gone: a TCP segment with sequence number 0, which the client
//! answers with what it expects (RFC 9293, section 3.10.7.4); the kernel here knows no such connection and answers with RST; the
//! client connects again. Otherwise it would find out when it next repeats what it sent, up to many seconds later.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, sendto, socket,
};

/// Bytes of a TCP header without options.
const HEADER_BYTES: usize = 20;

/// The flag ACK.
const ACK: u8 = 0x10;

/// Where the checksum is.
const CHECKSUM_AT: usize = 16;

/// The number of TCP in the pseudo-header.
const TCP: u16 = 6;

/// Sends `client` a segment of a connection with `local`.
///
/// # Errors
/// `AddrNotAvailable` if this machine does not have the address of `local`;
/// `PermissionDenied` without `CAP_NET_RAW`; `InvalidInput` if one end is of IPv4 and the other of IPv6.
pub fn tickle(local: SocketAddr, client: SocketAddr) -> io::Result<()> {
    if local.is_ipv4() != client.is_ipv4() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let family = if local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp)?;
    // Raw sockets have no ports.
    let without_port = |address: SocketAddr| SockaddrStorage::from(SocketAddr::new(address.ip(), 0));
    bind(socket.as_raw_fd(), &without_port(local))?;
    sendto(socket.as_raw_fd(), &segment(local, client), &without_port(client), MsgFlags::MSG_DONTWAIT)?;
    Ok(())
}

/// Returns the segment: sequence and acknowledgement 0, no data.
fn segment(from: SocketAddr, to: SocketAddr) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    // The length of the header in words of four bytes; flags; a window.
    header[12..16].copy_from_slice(&[5 << 4, ACK, 0x10, 0]);
    let sum = checksum(&header, from.ip(), to.ip());
    header[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    header
}

/// Returns the checksum of a segment (RFC 9293, section 3.1), which covers both addresses too.
fn checksum(segment: &[u8], from: IpAddr, to: IpAddr) -> u16 {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let length = u16::try_from(segment.len()).expect("a header");
    let words = [octets(from), octets(to), segment.to_vec()].concat();
    let pairs = words.chunks_exact(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum = pairs.sum::<u64>() + u64::from(TCP) + u64::from(length);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("carries were added")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a receiver computes: the sum over everything, checksum included.
    fn verifies(segment: &[u8], from: &str, to: &str) -> bool {
        checksum(segment, from.parse().unwrap(), to.parse().unwrap()) == 0
    }

    #[test]
    fn segments_name_the_connection_and_verify() {
        let made = segment("10.0.0.5:2049".parse().unwrap(), "10.0.0.9:700".parse().unwrap());
        assert_eq!(made[..4], [0x08, 0x01, 0x02, 0xbc]);
        assert_eq!((&made[4..12], made[12], made[13]), (&[0; 8][..], 0x50, ACK));
        assert!(verifies(&made, "10.0.0.5", "10.0.0.9"));
        assert!(!verifies(&made, "10.0.0.5", "10.0.0.8"));
        let made = segment("[2001:db8::5]:2049".parse().unwrap(), "[2001:db8::9]:700".parse().unwrap());
        assert!(verifies(&made, "2001:db8::5", "2001:db8::9"));
        let mixed = tickle("10.0.0.5:2049".parse().unwrap(), "[2001:db8::9]:700".parse().unwrap());
        assert_eq!(mixed.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
