//! Addresses with a lifetime that the kernel enforces: when nobody refreshes an address, the kernel removes it, even if all
//! processes of the machine are stopped.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use nix::libc::{AF_INET, AF_INET6, EADDRNOTAVAIL, RTM_DELADDR, RTM_NEWADDR};
use nix::sys::socket::SockProtocol;

use crate::interface::Interface;
use crate::netlink::{CREATE, Message, Netlink, REPLACE};
use crate::silence;

/// Attributes of addresses (rtnetlink(7), `linux/if_addr.h`).
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_CACHEINFO: u16 = 6;

/// No duplicate address detection: the address moves on purpose, and must be usable at once.
const IFA_F_NODAD: u8 = 0x02;

/// Gives the interface an address for `lifetime`, rounded up to seconds; refreshes that of one that it has, without touching
/// routes. The address is never chosen as the source of the machine's own connections if there is another one.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN`.
pub fn hold(interface: &Interface, address: IpNet, lifetime: Duration) -> io::Result<()> {
    let seconds = u32::try_from(lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0));
    let seconds = seconds.map_err(io::Error::other)?;
    if let IpAddr::V6(ip) = address.addr() {
        silence::end(ip)?;
    }
    route()?.request(RTM_NEWADDR, CREATE | REPLACE, &request(interface, address, Some(seconds)))
}

/// Takes an address from the interface, and sends nothing from it any more. One that the interface does not have is no error.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN`.
pub fn give_up(interface: &Interface, address: IpNet) -> io::Result<()> {
    let silenced = match address.addr() {
        IpAddr::V6(ip) => silence::begin(ip),
        IpAddr::V4(_) => Ok(()),
    };
    match route()?.request(RTM_DELADDR, 0, &request(interface, address, None)) {
        Err(error) if error.raw_os_error() != Some(EADDRNOTAVAIL) => Err(error),
        _ => silenced,
    }
}

fn route() -> io::Result<Netlink> {
    Netlink::open(SockProtocol::NetlinkRoute)
}

/// Returns the body of a request: `ifaddrmsg` and attributes.
fn request(interface: &Interface, address: IpNet, seconds: Option<u32>) -> Vec<u8> {
    let (family, bytes) = match address.addr() {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    };
    let mut body = Message::default();
    body.u8(u8::try_from(family).expect("families are small numbers"));
    body.u8(address.prefix_len());
    body.u8(IFA_F_NODAD);
    // The scope is the whole network.
    body.u8(0);
    body.u32(interface.index);
    body.attribute(IFA_LOCAL, &bytes);
    body.attribute(IFA_ADDRESS, &bytes);
    if let Some(seconds) = seconds {
        let mut lifetimes = Message::default();
        // Preferred for no time, valid for some; the kernel fills in when it was made and changed.
        for value in [0, seconds, 0, 0] {
            lifetimes.u32(value);
        }
        body.attribute(IFA_CACHEINFO, &lifetimes.0);
    }
    body.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn requests_are_laid_out_as_the_kernel_reads_them() {
        let loopback = Interface::find("lo").unwrap();
        let index = u8::try_from(loopback.index).unwrap();
        let address = "10.0.0.5/24".parse().unwrap();
        let head = [2, 24, 2, 0, index, 0, 0, 0, 8, 0, 2, 0, 10, 0, 0, 5, 8, 0, 1, 0, 10, 0, 0, 5];
        assert_eq!(request(&loopback, address, None), head);
        let lifetimes = [20, 0, 6, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(request(&loopback, address, Some(3)), [&head[..], &lifetimes].concat());
    }
}
