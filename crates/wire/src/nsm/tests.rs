use super::*;
use crate::sample::{check, encode};

#[test]
fn everything_round_trips() {
    check::<Procedure>();
    check::<SmName<'static>>();
    check::<StatChge<'static>>();
    check::<SmStatRes>();
}

#[test]
fn a_notification_matches_bytes_from_the_specification() {
    let notify = StatChge { mon_name: HostName(b"host1"), state: 5 };
    assert_eq!(encode(&notify), b"\0\0\0\x05host1\0\0\0\0\0\0\x05");
}
