//! The addresses of this machine that other machines can use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Where Linux lists the IPv4 addresses of this network namespace: its routing table, in which each is a local host.
const IPV4: &str = "/proc/net/fib_trie";
/// Where it lists the IPv6 addresses.
const IPV6: &str = "/proc/net/if_inet6";

/// Addresses reserved for documentation (RFC 5737, RFC 3849), which stand for any address beyond the default route.
const ELSEWHERE: [(IpAddr, IpAddr); 2] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
];

/// Returns the addresses in `listened` that other machines can use, without duplicates. Unspecified ones become those of
/// this machine, the one on the default route first.
pub(crate) fn reachable(listened: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = Vec::new();
    let mut add = |address: SocketAddr| {
        if !address.ip().is_loopback() && !found.contains(&address) {
            found.push(address);
        }
    };
    let own = if listened.iter().any(|address| address.ip().is_unspecified()) { own() } else { Vec::new() };
    for address in listened {
        if address.ip().is_unspecified() {
            let same_family = own.iter().filter(|ip| ip.is_ipv4() == address.is_ipv4());
            same_family.for_each(|ip| add(SocketAddr::new(*ip, address.port())));
        } else {
            add(*address);
        }
    }
    found
}

/// Returns the addresses of this machine, those on default routes first. Those that cannot be read are left out.
fn own() -> Vec<IpAddr> {
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    let listed =
        ipv4(&text(IPV4)).into_iter().map(IpAddr::V4).chain(ipv6(&text(IPV6)).into_iter().map(IpAddr::V6));
    ELSEWHERE.iter().filter_map(|(any, far)| source_towards(*any, (*far, 9).into())).chain(listed).collect()
}

/// Returns the address from which this machine would send to `far`. Nothing is sent.
pub(crate) fn source_towards(any: IpAddr, far: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(far).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Reads `/proc/net/fib_trie`: a line with `|-- ADDRESS` precedes the lines of its routes; `/32 host LOCAL` among them means
/// that the address is this machine's.
fn ipv4(text: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// Reads `/proc/net/if_inet6`: each line begins with an address as 32 hexadecimal digits. Link-local addresses are left
/// out: a client would have to append its own interface.
fn ipv6(text: &str) -> Vec<Ipv6Addr> {
    let digits = text.lines().filter_map(|line| line.split_whitespace().next());
    let addresses = digits.filter_map(|digits| u128::from_str_radix(digits, 16).ok()).map(Ipv6Addr::from);
    addresses.filter(|address| !address.is_unicast_link_local()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
     +-- 192.0.2.0/24 2 0 2
           |-- 192.0.2.0
              /24 link UNICAST
           |-- 192.0.2.2
              /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
Local:
           |-- 192.0.2.2
              /32 host LOCAL
";

    const INET6: &str = "\
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000002 04 40 00 82     eth0
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
";

    #[test]
    fn the_tables_of_the_kernel_name_this_machines_addresses() {
        assert_eq!(ipv4(TRIE), [Ipv4Addr::LOCALHOST, Ipv4Addr::new(192, 0, 2, 2)]);
        assert_eq!(ipv6(INET6), [Ipv6Addr::LOCALHOST, "fd00::2".parse::<Ipv6Addr>().unwrap()]);
        assert!(ipv4("nonsense\n|-- x\n/32 host LOCAL\n").is_empty());
    }

    #[test]
    fn addresses_of_this_machine_can_be_bound() {
        for ip in own() {
            assert!(UdpSocket::bind((ip, 0)).is_ok(), "{ip} is not an address of this machine");
        }
        assert!(own().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn loopback_addresses_are_not_reachable() {
        let addresses =
            |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        assert!(reachable(&addresses(&["127.0.0.1:2049", "[::1]:2049"])).is_empty());
        let given = addresses(&["192.0.2.7:2049", "127.0.0.1:2049", "192.0.2.7:2049"]);
        assert_eq!(reachable(&given), addresses(&["192.0.2.7:2049"]));
        let all = reachable(&addresses(&["0.0.0.0:2049"]));
        assert!(all.iter().all(|address| address.is_ipv4() && !address.ip().is_loopback()), "{all:?}");
        assert!(all.iter().all(|address| address.port() == 2049), "{all:?}");
    }
}
