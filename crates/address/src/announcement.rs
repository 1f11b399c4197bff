//! Tells the neighbours that an address is here now, so that they do not send to the machine that had it before.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd as _;

use nix::libc::in6_pktinfo;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, sendmsg, sendto,
    socket,
};

use crate::interface::Interface;

/// To all hosts of the link.
const BROADCAST: [u8; 6] = [0xff; 6];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The hop limit that a receiver demands (RFC 4861, section 7.1.2), so that no router can have passed the message on.
const HOPS: i32 = 255;

/// Both forms of an ARP announcement (RFC 5227, section 3): some hosts accept only one.
const ARP_REQUEST: u16 = 1;
const ARP_REPLY: u16 = 2;

/// Announces an address that the interface has. One whose neighbours know no hardware addresses needs none.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_RAW`.
pub fn announce(interface: &Interface, address: IpAddr) -> io::Result<()> {
    let Some(hardware) = interface.hardware_address() else { return Ok(()) };
    match address {
        IpAddr::V4(ip) => announce_v4(interface, ip, hardware),
        IpAddr::V6(ip) => announce_v6(interface, ip, hardware),
    }
}

fn announce_v4(interface: &Interface, ip: Ipv4Addr, hardware: [u8; 6]) -> io::Result<()> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    for operation in [ARP_REQUEST, ARP_REPLY] {
        let frame = arp(operation, ip, hardware);
        sendto(socket.as_raw_fd(), &frame, &interface.link, MsgFlags::empty())?;
    }
    Ok(())
}

/// Returns an Ethernet frame with an ARP announcement (RFC 826).
fn arp(operation: u16, ip: Ipv4Addr, hardware: [u8; 6]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(42);
    frame.extend(BROADCAST);
    frame.extend(hardware);
    // ARP; of hardware Ethernet, of protocol IPv4; lengths of their addresses.
    frame.extend([0x08, 0x06, 0x00, 0x01, 0x08, 0x00, 6, 4]);
    frame.extend(operation.to_be_bytes());
    frame.extend(hardware);
    frame.extend(ip.octets());
    frame.extend(if operation == ARP_REPLY { BROADCAST } else { [0; 6] });
    frame.extend(ip.octets());
    frame
}

fn announce_v6(interface: &Interface, ip: Ipv6Addr, hardware: [u8; 6]) -> io::Result<()> {
    let socket = socket(AddressFamily::Inet6, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::IcmpV6)?;
    let advertisement = neighbour_advertisement(ip, hardware);
    let from = in6_pktinfo {
        ipi6_addr: nix::libc::in6_addr { s6_addr: ip.octets() },
        ipi6_ifindex: interface.index,
    };
    let to = SockaddrIn6::from(SocketAddrV6::new(ALL_NODES, 0, 0, interface.index));
    let control = [ControlMessage::Ipv6PacketInfo(&from), ControlMessage::Ipv6HopLimit(&HOPS)];
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(&advertisement)], &control, MsgFlags::empty(), Some(&to))?;
    Ok(())
}

/// Returns an unsolicited neighbour advertisement that overrides what is known (RFC 4861, sections 4.4 and 7.2.6). The kernel
/// fills in the checksum.
fn neighbour_advertisement(ip: Ipv6Addr, hardware: [u8; 6]) -> Vec<u8> {
    let mut message = vec![136, 0, 0, 0, 0x20, 0, 0, 0];
    message.extend(ip.octets());
    // Option: the target's link-layer address, one unit of eight bytes.
    message.extend([2, 1]);
    message.extend(hardware);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 9];

    #[test]
    fn announcements_have_the_bytes_of_their_rfcs() {
        let request = arp(ARP_REQUEST, Ipv4Addr::new(10, 0, 0, 5), HARDWARE);
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0,
            0, 9, 10, 0, 0, 5, 0, 0, 0, 0, 0, 0, 10, 0, 0, 5,
        ];
        assert_eq!(request, expected);
        let reply = arp(ARP_REPLY, Ipv4Addr::new(10, 0, 0, 5), HARDWARE);
        assert_eq!((&reply[20..22], &reply[32..38]), (&[0, 2][..], &BROADCAST[..]));
        let ip: Ipv6Addr = "2001:db8::5".parse().unwrap();
        let advertisement = neighbour_advertisement(ip, HARDWARE);
        assert_eq!((advertisement.len(), advertisement[0], advertisement[4]), (32, 136, 0x20));
        assert_eq!(advertisement[8..24], ip.octets());
        assert_eq!(advertisement[24..], [2, 1, 2, 0, 0, 0, 0, 9]);
    }
}
