//! Whom exports are for: the addresses at which their clients find the server, and exports that never apply.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use nfs::exports::networks_by_path;

use crate::config::Export;

/// A path that clients can mount.
#[derive(Clone, Debug)]
pub struct MountPoint {
    /// The path.
    pub path: String,
    /// The networks whose clients may mount it; if empty, all clients may.
    networks: Vec<IpNet>,
}

impl MountPoint {
    /// Returns the paths of exports, each once, in their order.
    pub(crate) fn all(exports: &[nfs::exports::Export]) -> Vec<MountPoint> {
        let paths = networks_by_path(exports).into_iter();
        paths.map(|(path, networks)| MountPoint { path: path.to_owned(), networks }).collect()
    }

    /// Returns the one of these addresses of the server that its clients most likely use; `None` if they can reach none.
    #[must_use]
    pub fn address(&self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        addresses_for(&self.networks, addresses).first().copied()
    }
}

/// Returns those of the server's addresses that clients in `networks` (anybody, if there are none) can use, the likeliest
/// first: an address in one of the networks.
fn addresses_for(networks: &[IpNet], addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let usable = |address: &SocketAddr| {
        networks.is_empty() || networks.iter().any(|network| can_reach(*network, address.ip()))
    };
    let mut found: Vec<SocketAddr> = addresses.iter().copied().filter(usable).collect();
    found.sort_by_key(|address| !networks.iter().any(|network| network.contains(&address.ip())));
    found
}

/// Whether a client in `network` could connect to a server that listens on `address`.
fn can_reach(network: IpNet, address: IpAddr) -> bool {
    if address.is_loopback() {
        let loopback = match address {
            IpAddr::V4(_) => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::LOCALHOST, 8).trunc()),
            IpAddr::V6(_) => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
        };
        return network.contains(&loopback) || loopback.contains(&network);
    }
    network.addr().to_canonical().is_ipv4() == address.is_ipv4()
}

/// Says which exports never apply, although the configuration is valid: because an earlier export of the same volume admits
/// all their clients, or because no client that they admit can reach the server.
#[must_use]
pub fn warnings(exports: &[Export], listen: &[SocketAddr]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (number, export) in exports.iter().enumerate() {
        let earlier = exports.iter().take(number).filter(|other| other.volume == export.volume);
        if let Some(other) = earlier.rev().find(|other| admits_all_of(other, export)) {
            warnings.push(format!(
                "the rules of the {} never apply: the {}, which comes before it and is of the same volume, admits all \
                 its clients; write the export with fewer clients first",
                named(export),
                named(other)
            ));
        }
        if addresses_for(&export.clients, listen).is_empty() {
            let listed: Vec<String> = listen.iter().map(ToString::to_string).collect();
            warnings.push(format!(
                "no client can use the {}: the server listens on {} only, which none of them can reach",
                named(export),
                listed.join(", ")
            ));
        }
    }
    warnings
}

/// Whether `other` admits every client that `export` admits.
fn admits_all_of(other: &Export, export: &Export) -> bool {
    let holds = |network: &IpNet| other.clients.iter().any(|larger| larger.contains(network));
    let networks =
        other.clients.is_empty() || (!export.clients.is_empty() && export.clients.iter().all(holds));
    networks && (!other.require_privileged_port || export.require_privileged_port)
}

/// Names an export in a sentence.
fn named(export: &Export) -> String {
    let clients: Vec<String> = export.clients.iter().map(ToString::to_string).collect();
    match &clients[..] {
        [] => format!("export {:?}, for all clients", export.path),
        some => format!("export {:?} for {}", export.path, some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Squash;

    fn export(path: &str, clients: &[&str]) -> Export {
        Export {
            path: path.to_owned(),
            volume: "main".to_owned(),
            read_only: false,
            squash: Squash::Root,
            anonymous_uid: 0,
            anonymous_gid: 0,
            clients: clients.iter().map(|text| text.parse().unwrap()).collect(),
            require_privileged_port: false,
            delegations: true,
        }
    }

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// The warnings about exports of a server that every client can reach.
    fn shadowed(exports: &[Export]) -> Vec<String> {
        warnings(exports, &addresses(&["0.0.0.0:2049", "[::]:2049"]))
    }

    #[test]
    fn an_export_whose_clients_an_earlier_one_admits_is_reported() {
        let (some, all) = (export("/a", &["10.1.0.0/16", "fd00::/16"]), export("/b", &[]));
        assert!(shadowed(&[some.clone(), all.clone()]).is_empty());
        let [said] = &shadowed(&[all.clone(), some.clone()])[..] else { panic!("one warning") };
        assert!(said.contains("\"/a\" for 10.1.0.0/16, fd00::/16 never apply"), "{said}");
        assert!(said.contains("export \"/b\", for all clients"), "{said}");
        let larger = export("/a", &["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(shadowed(&[larger.clone(), some.clone()]).len(), 1);
        assert!(shadowed(&[export("/a", &["10.0.0.0/8"]), some.clone()]).is_empty(), "IPv6 clients remain");
        assert!(shadowed(&[larger, all.clone()]).is_empty(), "other clients remain");
        let other = Export { volume: "other".to_owned(), ..all.clone() };
        assert!(shadowed(&[other, some.clone()]).is_empty(), "another volume");
        let privileged = Export { require_privileged_port: true, ..all };
        assert!(shadowed(&[privileged.clone(), some.clone()]).is_empty(), "unprivileged ports remain");
        let both = Export { require_privileged_port: true, ..some };
        assert_eq!(shadowed(&[privileged, both]).len(), 1);
    }

    #[test]
    fn an_export_that_no_client_can_reach_is_reported() {
        let reported = |clients: &[&str], listen: &[&str]| {
            !warnings(&[export("/a", clients)], &addresses(listen)).is_empty()
        };
        let (loopback, v4, v6) = ("127.0.0.1:2049", "0.0.0.0:2049", "[::]:2049");
        assert!(reported(&["10.0.0.0/8"], &[loopback]));
        assert!(!reported(&["10.0.0.0/8", "127.0.0.1/32"], &[loopback]));
        assert!(!reported(&["0.0.0.0/0"], &[loopback]));
        assert!(reported(&["fd00::/8"], &[v4]) && !reported(&["fd00::/8"], &[v4, v6]));
        assert!(reported(&["10.0.0.0/8"], &[v6]) && !reported(&["10.0.0.0/8"], &["192.0.2.1:2049"]));
        assert!(!reported(&[], &[loopback]));
    }

    #[test]
    fn clients_are_shown_an_address_in_their_network() {
        let all = addresses(&["192.0.2.7:2049", "10.1.0.7:2049", "[fd00::7]:2049"]);
        let first = |networks: &[&str]| {
            let networks: Vec<IpNet> = networks.iter().map(|text| text.parse().unwrap()).collect();
            addresses_for(&networks, &all).first().map(|address| address.ip().to_string())
        };
        assert_eq!(first(&[]).unwrap(), "192.0.2.7");
        assert_eq!(first(&["10.0.0.0/8"]).unwrap(), "10.1.0.7");
        assert_eq!(first(&["fd00::/8"]).unwrap(), "fd00::7");
        assert_eq!(first(&["172.16.0.0/12"]).unwrap(), "192.0.2.7");
        assert_eq!(addresses_for(&["2001:db8::/32".parse().unwrap()], &all[..2]), []);
    }
}
