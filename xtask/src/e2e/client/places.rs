//! The addresses of the namespace: who lives where, and which of them the export admits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use super::super::lab::{ADDRESS, Lab};
use crate::process;

/// The server's IPv6 address.
const ADDRESS_6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);

/// The networks that the export admits: guests and the server, neighbours, well-behaved clients.
pub(in crate::e2e) const ADMITTED: &[&str] = &["10.77.0.0/24", "10.77.2.0/24", "10.77.3.0/24", "fd77:2::/32"];

/// What is routed to the loopback device. Every address of a network is an address of the namespace.
const NETWORKS: &[&str] = &["10.77.2.0/24", "10.77.3.0/24", "10.77.4.0/24", "10.77.5.0/24"];
const NETWORKS_6: &[&str] = &["fd77:2::/32", "fd77:4::/32"];

/// The server's address that is reached from `from`.
pub(in crate::e2e) fn server(from: IpAddr) -> IpAddr {
    match from {
        IpAddr::V4(_) => ADDRESS.parse().expect("the server's address is one"),
        IpAddr::V6(_) => IpAddr::V6(ADDRESS_6),
    }
}

/// Host `number` of those that the export admits and that attack.
pub(in crate::e2e) fn neighbour(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 77, 2, number).into()
}

/// Address `host` of a /64 network of neighbours.
pub(in crate::e2e) fn neighbour_6(network: u16, host: u32) -> IpAddr {
    let [high, low] = [host >> 16, host & 0xffff].map(|part| u16::try_from(part).expect("16 bits"));
    Ipv6Addr::new(0xfd77, 2, 0, network, 0, 0, high, low).into()
}

/// Well-behaved client `number`. Newcomers have numbers of their own.
pub(in crate::e2e) fn client(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 77, 3, number).into()
}

/// Host `number` of those that no export admits.
pub(in crate::e2e) fn stranger(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 77, 4, number).into()
}

/// The same with IPv6.
pub(in crate::e2e) fn stranger_6(host: u32) -> IpAddr {
    let [high, low] = [host >> 16, host & 0xffff].map(|part| u16::try_from(part).expect("16 bits"));
    Ipv6Addr::new(0xfd77, 4, 0, 0, 0, 0, high, low).into()
}

/// A host that has nothing to do with the server, and must never hear from it.
pub(in crate::e2e) fn bystander() -> IpAddr {
    Ipv4Addr::new(10, 77, 5, 1).into()
}

/// Gives the namespace all these addresses.
pub(in crate::e2e) fn make(lab: &Lab) -> Result<(), String> {
    let ip = |words: &[&str]| {
        let mut command = Command::new("ip");
        process::output(command.args(["-n", lab.namespace()]).args(words)).map(|_| ())
    };
    for network in NETWORKS {
        ip(&["route", "replace", "local", network, "dev", "lo"])?;
    }
    ip(&["-6", "address", "replace", &format!("{ADDRESS_6}/128"), "dev", "lo", "nodad"])?;
    for network in NETWORKS_6 {
        ip(&["-6", "route", "replace", "local", network, "dev", "lo"])?;
    }
    Ok(())
}

/// The addresses that the server listens on besides [`ADDRESS`].
pub(in crate::e2e) fn also_listened() -> String {
    format!("[{ADDRESS_6}]")
}
