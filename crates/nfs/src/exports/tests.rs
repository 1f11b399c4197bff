use super::*;

const ONE: VolumeId = VolumeId(1);
const TWO: VolumeId = VolumeId(2);

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn located<'p>(exports: &Exports, path: &'p str) -> Option<(VolumeId, &'p [u8])> {
    let (mut found, rest) = exports.at(path.as_bytes())?;
    Some((found.next()?.volume, rest))
}

#[test]
fn without_networks_all_clients_are_admitted() {
    let export = Export::new("/main", ONE);
    assert!(export.admits(at("192.0.2.1:2000")));
    assert!(export.admits(at("[2001:db8::1]:2000")));
}

#[test]
fn networks_admit_only_their_members() {
    let export = Export { clients: networks(&["10.0.0.0/8", "2001:db8::/32"]), ..Export::new("/main", ONE) };
    assert!(export.admits(at("10.255.0.1:700")));
    assert!(export.admits(at("[::ffff:10.0.0.1]:700")), "an IPv6 socket shows IPv4 clients mapped");
    assert!(export.admits(at("[2001:db8:1::1]:700")));
    assert!(!export.admits(at("11.0.0.1:700")));
    assert!(!export.admits(at("[::ffff:11.0.0.1]:700")));
    assert!(!export.admits(at("[2001:db9::1]:700")));
}

#[test]
fn networks_of_link_local_addresses_admit_the_hosts_of_every_link() {
    for network in ["fe80::/64", "fe80::/10", "::/0"] {
        let export = Export { clients: networks(&[network]), ..Export::new("/main", ONE) };
        let admits = |peer: &str| export.admits(crate::link_local::named(at(peer)).unwrap());
        assert!(admits("[fe80::1%2]:700") && admits("[fe80::1%65535]:700"), "{network}");
        assert_eq!(admits("[2001:db8::1]:700"), network == "::/0");
    }
}

#[test]
fn mapped_networks_admit_ipv4_clients_and_other_ipv6_networks_do_not() {
    let export = Export { clients: networks(&["::ffff:10.0.0.0/104"]), ..Export::new("/main", ONE) };
    assert!(export.admits(at("10.0.0.1:700")));
    assert!(!export.admits(at("11.0.0.1:700")));
    let export = Export { clients: networks(&["::/0"]), ..Export::new("/main", ONE) };
    assert!(export.admits(at("[2001:db8::1]:700")));
    assert!(!export.admits(at("10.0.0.1:700")));
}

#[test]
fn a_privileged_port_can_be_required() {
    let export = Export { privileged_port_required: true, ..Export::new("/main", ONE) };
    assert!(export.admits(at("10.0.0.1:1023")));
    assert!(!export.admits(at("10.0.0.1:1024")));
    assert_eq!(export.refuses(at("10.0.0.1:1024")), Some(Rule::PrivilegedPort(1024)));
    let export = Export { clients: networks(&["192.0.2.0/24"]), ..export };
    assert_eq!(export.refuses(at("10.0.0.1:1024")), Some(Rule::Clients));
}

#[test]
fn an_address_is_admitted_if_one_export_lists_it_whatever_the_port() {
    let ten = Export { clients: networks(&["10.0.0.0/8"]), ..Export::new("/main", ONE) };
    let documentation = Export {
        clients: networks(&["2001:db8::/32"]),
        privileged_port_required: true,
        ..Export::new("/other", TWO)
    };
    let exports = Exports::new(vec![ten, documentation]).unwrap();
    let admitted = |address: &str| exports.admit_address(address.parse().unwrap());
    assert!(admitted("10.0.0.1") && admitted("::ffff:10.0.0.1") && admitted("2001:db8::1"));
    assert!(!admitted("192.0.2.1") && !admitted("2001:db9::1") && !admitted("127.0.0.1") && !admitted("::1"));
    assert!(
        Exports::new(vec![Export::new("/main", ONE)]).unwrap().admit_address("192.0.2.1".parse().unwrap())
    );
}

#[test]
fn the_first_export_that_admits_a_client_applies() {
    let exports = Exports::new(vec![
        Export { clients: networks(&["10.0.0.0/8"]), ..Export::new("/main", ONE) },
        Export { clients: networks(&["192.0.2.0/24"]), read_only: true, ..Export::new("/main", ONE) },
        Export::new("/other", TWO),
    ])
    .unwrap();
    let read_only = |address| exports.admitting(ONE, at(address)).map(|export| export.read_only);
    assert_eq!(read_only("10.1.1.1:1"), Some(false));
    assert_eq!(read_only("192.0.2.9:1"), Some(true));
    assert_eq!(read_only("198.51.100.1:1"), None);
    assert!(exports.admitting(VolumeId(3), at("10.1.1.1:1")).is_none());
}

#[test]
fn paths_resolve_to_the_longest_export() {
    let exports = Exports::new(vec![Export::new("/main", ONE), Export::new("/main/b", TWO)]).unwrap();
    assert_eq!(located(&exports, "/main"), Some((ONE, &b""[..])));
    assert_eq!(located(&exports, "/main/"), Some((ONE, &b"/"[..])));
    assert_eq!(located(&exports, "/main/a/b"), Some((ONE, &b"/a/b"[..])));
    assert_eq!(located(&exports, "/main/b"), Some((TWO, &b""[..])));
    assert_eq!(located(&exports, "/main/b/c"), Some((TWO, &b"/c"[..])));
    assert_eq!(located(&exports, "/main/bc"), Some((ONE, &b"/bc"[..])));
    for nowhere in ["/mainz", "/", "", "main", "/other"] {
        assert_eq!(located(&exports, nowhere), None, "{nowhere}");
    }
}

#[test]
fn the_root_can_be_exported() {
    let exports = Exports::new(vec![Export::new("/", ONE)]).unwrap();
    assert_eq!(located(&exports, "/"), Some((ONE, &b"/"[..])));
    assert_eq!(located(&exports, "/a"), Some((ONE, &b"/a"[..])));
    assert_eq!(located(&exports, ""), None);
}

#[test]
fn paths_that_cannot_be_mounted_are_refused() {
    for path in ["", "main", "/main/", "//main", "/a//b", "/a/../b", "/."] {
        let refused = Exports::new(vec![Export::new(path, ONE)]).err();
        assert_eq!(refused, Some(ExportsError::Path(path.into())));
    }
    let refused = Exports::new(vec![Export::new("/main", ONE), Export::new("/main", TWO)]).err();
    assert_eq!(refused, Some(ExportsError::Ambiguous("/main".into())));
}

#[test]
fn a_path_is_listed_once_with_all_its_networks() {
    let export =
        |path: &str, clients: &[&str]| Export { clients: networks(clients), ..Export::new(path, ONE) };
    let exports = [
        export("/a", &["10.0.0.0/8"]),
        export("/b", &["10.0.0.0/8"]),
        export("/a", &["172.16.0.0/12"]),
        export("/b", &[]),
    ];
    let expected = [("/a", networks(&["10.0.0.0/8", "172.16.0.0/12"])), ("/b", vec![])];
    assert_eq!(networks_by_path(&exports), expected);
}
