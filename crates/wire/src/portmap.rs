//! Portmapper version 2 and rpcbind versions 3 and 4 (RFC 1833), which map programs to addresses.
//!
//! The procedures suffice to register with the system's rpcbind and to answer as a minimal one: NULL, SET, UNSET, GETPORT or
//! GETADDR, and DUMP. The others, such as CALLIT, are [`crate::rpc::AcceptStat::ProcUnavail`]: they would make calls in the
//! server's name for anyone.

use std::net::{IpAddr, SocketAddr};

use crate::limits::RPCBIND_STRING_BYTES_MAX;
use crate::list::List;

#[cfg(test)]
mod tests;

/// The program number of all versions.
pub const PROGRAM: u32 = 100_000;
/// The port for TCP and UDP.
pub const PORT: u16 = 111;
/// The version of the portmapper.
pub const VERSION_PORTMAP: u32 = 2;
/// The versions of rpcbind, whose messages are the same.
pub const VERSIONS_RPCBIND: [u32; 2] = [3, 4];

/// TCP, in [`Mapping::protocol`].
pub const PROTOCOL_TCP: u32 = 6;
/// UDP, in [`Mapping::protocol`].
pub const PROTOCOL_UDP: u32 = 17;

xdr! {
    /// The procedures, which differ between versions only in their arguments (RFC 1833 sections 2.2 and 3.2).
    ///
    /// | procedure | arguments, results in version 2 | in versions 3 and 4 |
    /// |---|---|---|
    /// | NULL | –, – | –, – |
    /// | SET | [`Mapping`], `bool` | [`Rpcb`], `bool` |
    /// | UNSET | [`Mapping`], `bool` | [`Rpcb`], `bool` |
    /// | GETPORT, GETADDR | [`Mapping`], `u32` (0: none) | [`Rpcb`], [`RpcbString`] (empty: none) |
    /// | DUMP | –, [`MappingList`] | –, [`RpcbList`] |
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Register.
        Set = 1,
        /// Remove a registration.
        Unset = 2,
        /// Get the address of a program: GETPORT in version 2, GETADDR in versions 3 and 4.
        Get = 3,
        /// List the registrations.
        Dump = 4,
    }

    /// A registration of version 2 (RFC 1833 section 3.1, mapping).
    pub struct Mapping {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`].
        pub protocol: u32,
        /// Its port; unused in UNSET and GETPORT.
        pub port: u32,
    }

    /// The result of DUMP in version 2 (RFC 1833 section 3.1, pmaplist).
    pub type MappingList<'a> = List<'a, Mapping>;

    /// A string in rpcbind: a network id, a universal address, an owner.
    pub opaque RpcbString max RPCBIND_STRING_BYTES_MAX;

    /// A registration of versions 3 and 4 (RFC 1833 section 2.1, rpcb).
    pub struct Rpcb<'a> {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// The network id, for example `tcp6`.
        pub netid: RpcbString<'a>,
        /// The universal address, see [`universal_address`].
        pub address: RpcbString<'a>,
        /// The owner of the registration.
        pub owner: RpcbString<'a>,
    }
}

/// The result of DUMP in versions 3 and 4 (RFC 1833 section 2.1, rpcblist).
pub type RpcbList<'a> = List<'a, Rpcb<'a>>;

/// Returns the network id of UDP if `protocol` is that, or else of TCP, for the family of `address` (RFC 5665 section 5.2).
#[must_use]
pub const fn netid(protocol: u32, address: &SocketAddr) -> &'static str {
    match (protocol, address) {
        (PROTOCOL_UDP, SocketAddr::V4(_)) => "udp",
        (PROTOCOL_UDP, SocketAddr::V6(_)) => "udp6",
        (_, SocketAddr::V4(_)) => "tcp",
        (_, SocketAddr::V6(_)) => "tcp6",
    }
}

/// Returns the universal address of a socket (RFC 5665 section 5.2.3): the address, then the two bytes of the port in decimal.
#[must_use]
pub fn universal_address(address: &SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

/// Parses a universal address.
#[must_use]
pub fn parse_universal_address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (rest, low) = text.rsplit_once('.')?;
    let (ip, high) = rest.rsplit_once('.')?;
    let port = u16::from_be_bytes([high.parse().ok()?, low.parse().ok()?]);
    Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port))
}
