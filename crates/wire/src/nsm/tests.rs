use super::*;
use crate::sample::{check, encode};

#[test]
fn everything_round_trips() {
    check::<Procedure>();
    check::<SmName<'static>>();
    check::<Mon<'static>>();
    check::<MonId<'static>>();
    check::<MyId<'static>>();
    check::<StatChge<'static>>();
    check::<SmStatRes>();
    check::<SmStat>();
}

#[test]
fn a_notification_matches_bytes_from_the_specification() {
    let notify = StatChge { mon_name: HostName(b"host1"), state: 5 };
    assert_eq!(encode(&notify), b"\0\0\0\x05host1\0\0\0\0\0\0\x05");
}

#[test]
fn monitored_hosts_match_bytes_from_the_specification() {
    let my_id = MyId { my_name: HostName(b"me"), my_prog: 100_021, my_vers: 4, my_proc: 16 };
    let mon = Mon { mon_id: MonId { mon_name: HostName(b"it"), my_id }, private: [9; 16] };
    let expected = [
        b"\0\0\0\x02it\0\0".as_slice(),
        b"\0\0\0\x02me\0\0",
        b"\0\x01\x86\xb5\0\0\0\x04\0\0\0\x10",
        &[9; 16],
    ]
    .concat();
    assert_eq!(encode(&mon), expected);
}
