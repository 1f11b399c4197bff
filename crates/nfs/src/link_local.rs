//! Link-local addresses of IPv6. Such an address belongs to one host on each link (RFC 4291 section 2.5.6), so it names a host only
//! together with the link that the host is on: the interface that reaches it.
//!
//! Inside the server the address has the interface's number in its second 16 bits, which are zero on the wire; the kernels that
//! come from KAME do the same. So whatever compares, counts or records addresses tells links apart and need not know about them.
//! Addresses get the number where they come in ([`named`]), and lose it where they go out ([`socket_address`], [`Shown`]).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The bits that have the number of the interface.
const LINK: u128 = 0xffff << LINK_SHIFT;
const LINK_SHIFT: u32 = 96;

/// Returns an address with the number of its interface, which the kernel gives as its scope. None for an address that cannot be
/// named: one whose interface has a number of more than 16 bits, or which has a number already.
#[must_use]
pub fn named(peer: SocketAddr) -> Option<SocketAddr> {
    match peer {
        SocketAddr::V6(address) if address.ip().is_unicast_link_local() => {
            let is_free = address.ip().to_bits() & LINK == 0;
            let link = u16::try_from(address.scope_id()).ok().filter(|_| is_free)?;
            let bits = address.ip().to_bits() | u128::from(link) << LINK_SHIFT;
            Some(SocketAddr::new(Ipv6Addr::from_bits(bits).into(), address.port()))
        }
        _ => Some(peer),
    }
}

/// Converts a [`named`] address to the one that sockets take, which has the interface as its scope.
#[must_use]
pub fn socket_address(named: SocketAddr) -> SocketAddr {
    match (named, link(named.ip())) {
        (SocketAddr::V6(address), Some(link)) => {
            SocketAddrV6::new(wire_form(*address.ip()), address.port(), 0, link.into()).into()
        }
        _ => named,
    }
}

/// Returns the number of the interface in a [`named`] link-local address. None for other addresses.
#[must_use]
pub fn link(address: IpAddr) -> Option<u16> {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            u16::try_from((address.to_bits() & LINK) >> LINK_SHIFT).ok()
        }
        _ => None,
    }
}

/// Returns the address that a [`named`] one has on the wire.
#[must_use]
#[inline]
pub fn without_link(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => wire_form(address).into(),
        _ => address,
    }
}

fn wire_form(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & !LINK)
}

/// Parses an address with the number of its interface, as [`Shown`] writes it: `fe80::1%2`.
#[must_use]
pub fn parse(text: &str) -> Option<IpAddr> {
    match text.split_once('%') {
        Some((address, scope)) => {
            let (address, scope) = (address.parse().ok()?, scope.parse().ok()?);
            let named = named(SocketAddrV6::new(address, 0, 0, scope).into())?;
            link(named.ip()).map(|_| named.ip())
        }
        None => text.parse().ok().filter(|address| link(*address).is_none_or(|link| link == 0)),
    }
}

/// Writes a [`named`] address for people: `fe80::1%2` is `fe80::1` on the link of interface 2.
#[derive(Clone, Copy, Debug)]
pub struct Shown(pub IpAddr);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match link(self.0) {
            Some(link) if link > 0 => write!(f, "{}%{link}", without_link(self.0)),
            _ => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::origin;

    fn socket(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_with_one_address_on_several_links_have_several_names() {
        let [one, two] = ["[fe80::1%2]:700", "[fe80::1%3]:700"].map(|text| named(socket(text)).unwrap());
        assert_ne!(one.ip(), two.ip());
        assert_ne!(origin(one.ip()), origin(two.ip()), "limits tell links apart too");
        assert_eq!((link(one.ip()), link(two.ip())), (Some(2), Some(3)));
        assert_eq!(without_link(one.ip()), without_link(two.ip()));
        assert_eq!(named(socket("[fe80::1%65535]:700")).and_then(|most| link(most.ip())), Some(65_535));
    }

    #[test]
    fn names_become_addresses_again() {
        let text = ["192.0.2.1:1", "[2001:db8:5::1]:2", "[fe80::1%2]:3", "[febf::5%65535]:4", "[::1]:5"];
        for address in text.map(socket) {
            let named = named(address).unwrap();
            assert_eq!(socket_address(named), address);
            assert_eq!(parse(&Shown(named.ip()).to_string()), Some(named.ip()));
        }
        let shown = |text: &str| Shown(named(socket(text)).unwrap().ip()).to_string();
        assert_eq!(shown("[fe80::1%2]:3"), "fe80::1%2");
        assert_eq!(
            (shown("[2001:db8:5::1]:2"), shown("192.0.2.1:1")),
            ("2001:db8:5::1".into(), "192.0.2.1".into())
        );
    }

    #[test]
    fn peers_that_no_name_tells_apart_have_none() {
        assert_eq!(named(socket("[fe80::1%65536]:700")), None);
        assert_eq!(named(socket("[fe80:3::1%2]:700")), None, "it could claim to be on another link");
        for text in [
            "fe80::1%65536",
            "fe80:3::1%2",
            "fe80:3::1",
            "2001:db8::1%2",
            "192.0.2.1%2",
            "fe80::1%eth0",
            "fe80::1%",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
