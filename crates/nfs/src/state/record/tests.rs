use std::fmt::Debug;

use super::*;

const CLIENT: ClientId = ClientId(0x6500_0000_0000_0001);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes never change: volumes of earlier versions must be readable.
fn golden<R: Record + Debug + PartialEq>(record: &R, expected: &str) {
    let bytes = record.to_bytes();
    assert_eq!(hex(&bytes), expected.replace(' ', ""));
    assert_eq!(R::parse(&bytes).as_ref(), Some(record));
    for length in 0..bytes.len() {
        assert_eq!(R::parse(bytes.get(..length).unwrap()), None, "cut after {length} bytes");
    }
    let mut later = bytes.to_vec();
    later[3] = 2;
    assert_eq!(R::parse(&later), None, "of a later version");
}

#[test]
fn keys_keep_their_format() {
    let other = Other([7; 12]);
    let keys = [
        (Key::Client(CLIENT), "43 6500000000000001"),
        (Key::Session(SessionId([6; 16])), "53 06060606060606060606060606060606"),
        (Key::Monitor, "4e"),
        (Key::Open(Ino(5), other), "4f 0000000000000005 070707070707070707070707"),
        (Key::Delegation(Ino(5), other), "44 0000000000000005 070707070707070707070707"),
        (Key::LockState(Ino(5), other), "4b 0000000000000005 070707070707070707070707"),
        (Key::Copy(Ino(5), other), "50 0000000000000005 070707070707070707070707"),
        (Key::Range(Ino(5), other, 7), "52 0000000000000005 070707070707070707070707 0000000000000007"),
    ];
    for (key, expected) in keys {
        let bytes = key.to_bytes();
        assert_eq!(hex(&bytes), expected.replace(' ', ""));
        assert_eq!(Key::parse(&bytes), Some(key));
        for length in 0..bytes.len() {
            assert_eq!(Key::parse(bytes.get(..length).unwrap()), None);
        }
    }
}

#[test]
fn client_records_keep_their_format() {
    let callback = CallbackAddress {
        program: 0x4000_0000,
        netid: b"tcp"[..].into(),
        address: b"192.0.2.1.3.232"[..].into(),
        ident: 1,
    };
    let zero = ClientRecord {
        name: b"me"[..].into(),
        verifier: *b"verifier",
        principal: Principal::User(1000),
        instance: 0x6500_0000,
        addresses: ["192.0.2.1", "2001:db8::1"].map(|address| address.parse().unwrap()).into(),
        kind: ClientKind::V40 { confirm: *b"confirm!", callback },
    };
    golden(
        &zero,
        "00000001 00000002 6d650000 7665726966696572 00000001 000003e8 65000000 00000002 \
         00000000000000000000ffffc0000201 20010db8000000000000000000000001 00000000 636f6e6669726d21 \
         40000000 00000003 74637000 0000000f 3139322e302e322e312e332e32333200 00000001",
    );
    let sessions = ClientRecord {
        kind: ClientKind::Sessions { minor: 2, created: Some((3, SessionId([7; 16]))), reclaimed: true },
        principal: Principal::None,
        addresses: Box::default(),
        ..zero
    };
    golden(
        &sessions,
        "00000001 00000002 6d650000 7665726966696572 00000000 65000000 00000000 00000001 00000002 00000001 00000003 \
         07070707070707070707070707070707 00000001",
    );
}

#[test]
fn host_records_keep_their_format() {
    let (address, server) = ("192.0.2.1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let host = ClientRecord {
        name: b"me"[..].into(),
        verifier: [0; 8],
        principal: Principal::None,
        instance: 0x6500_0000,
        addresses: Box::default(),
        kind: ClientKind::Nlm(Host { address, server, state: 3 }),
    };
    golden(
        &host,
        "00000001 00000002 6d650000 0000000000000000 00000000 65000000 00000000 00000002 \
         00000000000000000000ffffc0000201 20010db8000000000000000000000002 00000003",
    );
    golden(&MonitorRecord { state: 5 }, "00000001 00000005");
}

#[test]
fn session_records_keep_their_format() {
    let channel = Channel { request_bytes: 1, reply_bytes: 2, cached_bytes: 3, operations: 4, slots: 5 };
    let session = SessionRecord {
        fore: channel,
        back: Channel { slots: 6, ..channel },
        flags: 3,
        program: 0x4000_0000,
        security: CallbackSecurity::Sys { uid: 7, gid: 8 },
    };
    golden(
        &session,
        "00000001 00000001 00000002 00000003 00000004 00000005 00000001 00000002 00000003 00000004 00000006 \
         00000003 40000000 00000001 00000007 00000008",
    );
}

#[test]
fn records_of_opens_locks_and_delegations_keep_their_format() {
    let open = OpenRecord {
        owner: Cow::Borrowed(b"own"),
        seqid: 2,
        modes: 0x8002,
        confirmed: true,
        principal: Some(Principal::User(5)),
    };
    golden(&open, "00000001 00000003 6f776e00 00000002 00008002 00000001 00000001 00000001 00000005");
    assert_eq!(open.to_bytes().len(), open.bytes_max());
    let open = OpenRecord { principal: None, ..open };
    golden(&open, "00000001 00000003 6f776e00 00000002 00008002 00000001 00000000");
    let locks = LockStateRecord { owner: b"lock"[..].into(), open: Other([7; 12]), seqid: 4 };
    golden(&locks, "00000001 00000004 6c6f636b 070707070707070707070707 00000004");
    golden(&RangeRecord { last: u64::MAX, kind: LockKind::Write }, "00000001 ffffffffffffffff 00000001");
    golden(&DelegationRecord { write: false, seqid: 1 }, "00000001 00000000 00000001");
}
