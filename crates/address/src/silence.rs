//! Keeps a machine from speaking for an IPv6 address that it has given up.
//!
//! The kernel goes on to send segments from an IPv6 address after its removal; from one of IPv4 it does not. The reset of a
//! connection that ends then makes its client connect at once, to nobody, and only its second attempt, a second later, finds the
//! next machine.

use std::io;
use std::net::Ipv6Addr;

use nix::libc::{AF_INET6, EAFNOSUPPORT, EEXIST, ENOENT, EOPNOTSUPP, RTM_DELRULE, RTM_NEWRULE};
use nix::sys::socket::SockProtocol;

use crate::netlink::{CREATE, EXCLUSIVE, Message, Netlink};

/// Attributes and an action of rules (`linux/fib_rules.h`).
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FR_ACT_BLACKHOLE: u8 = 6;

/// Right after the routes of local addresses.
const PRIORITY: u32 = 1;

/// Discards what leaves from an address, until [`end`]. To be called before the address is removed: connections look for their
/// route again only then.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN`.
pub(crate) fn begin(address: Ipv6Addr) -> io::Result<()> {
    request(RTM_NEWRULE, CREATE | EXCLUSIVE, address, EEXIST)
}

/// Lets the machine speak for the address again.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN`.
pub(crate) fn end(address: Ipv6Addr) -> io::Result<()> {
    request(RTM_DELRULE, 0, address, ENOENT)
}

/// Makes a request that `done` says to be done already. A kernel without IPv6 or rules for it has nothing to silence.
fn request(kind: u16, flags: u16, address: Ipv6Addr, done: i32) -> io::Result<()> {
    let result = Netlink::open(SockProtocol::NetlinkRoute)?.request(kind, flags, &body(address));
    match result.as_ref().err().and_then(io::Error::raw_os_error) {
        Some(errno) if [done, EAFNOSUPPORT, EOPNOTSUPP].contains(&errno) => Ok(()),
        _ => result,
    }
}

/// Returns the body of a request: `fib_rule_hdr` and attributes.
fn body(address: Ipv6Addr) -> Vec<u8> {
    let mut body = Message::default();
    let (family, bits) = (u8::try_from(AF_INET6).expect("families are small numbers"), 128);
    // To anywhere; from one address; any type of service, no table; two reserved bytes.
    for byte in [family, 0, bits, 0, 0, 0, 0, FR_ACT_BLACKHOLE] {
        body.u8(byte);
    }
    body.u32(0);
    body.attribute(FRA_SRC, &address.octets());
    let mut priority = Message::default();
    priority.u32(PRIORITY);
    body.attribute(FRA_PRIORITY, &priority.0);
    body.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn requests_are_laid_out_as_the_kernel_reads_them() {
        let head = [10, 0, 128, 0, 0, 0, 0, 6, 0, 0, 0, 0, 20, 0, 2, 0];
        let address = "fd77::1".parse::<Ipv6Addr>().unwrap();
        let tail = [8, 0, 6, 0, 1, 0, 0, 0];
        assert_eq!(body(address), [&head[..], &address.octets(), &tail].concat());
    }
}
