//! Messages of portmapper and rpcbind.

use super::*;
use crate::sample::{check, encode};

#[test]
fn a_mapping_matches_bytes_from_the_rfc() {
    let mapping = Mapping { program: 100_003, version: 3, protocol: PROTOCOL_TCP, port: 2049 };
    assert_eq!(encode(&mapping), [0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 8, 1]);
}

#[test]
fn an_rpcb_matches_bytes_from_the_rfc() {
    let rpcb = Rpcb {
        program: 100_003,
        version: 3,
        netid: RpcbString(b"tcp"),
        address: RpcbString(b"0.0.0.0.8.1"),
        owner: RpcbString(b""),
    };
    let expected = [
        &[0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 3][..],
        b"tcp\0",
        &[0, 0, 0, 11],
        b"0.0.0.0.8.1\0",
        &[0; 4],
    ];
    assert_eq!(encode(&rpcb), expected.concat());
}

#[test]
fn universal_addresses_round_trip() {
    for (socket, text) in [
        ("127.0.0.1:2049", "127.0.0.1.8.1"),
        ("[::1]:111", "::1.0.111"),
        ("0.0.0.0:65535", "0.0.0.0.255.255"),
    ] {
        let address: SocketAddr = socket.parse().unwrap();
        assert_eq!(universal_address(&address), text);
        assert_eq!(parse_universal_address(text.as_bytes()), Some(address));
    }
    for text in ["", "8.1", "127.0.0.1", "127.0.0.1.256.1", "127.0.0.1.8.", "host.8.1", "127.0.0.1.8.-1"] {
        assert_eq!(parse_universal_address(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse_universal_address(&[0xff, b'.', b'1', b'.', b'1']), None);
}

#[test]
fn network_ids_follow_the_address_family() {
    let netids = |address: &str| {
        [PROTOCOL_TCP, PROTOCOL_UDP].map(|protocol| netid(protocol, &address.parse().unwrap()))
    };
    assert_eq!(netids("127.0.0.1:1"), ["tcp", "udp"]);
    assert_eq!(netids("[::1]:1"), ["tcp6", "udp6"]);
}

#[test]
fn all_messages_round_trip() {
    check::<Procedure>();
    check::<Mapping>();
    check::<MappingList<'static>>();
    check::<Rpcb<'static>>();
    check::<RpcbList<'static>>();
}
