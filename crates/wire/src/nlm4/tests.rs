use super::*;
use crate::sample::{check, encode};
use crate::xdr::decode_all;

#[test]
fn everything_round_trips() {
    check::<Procedure>();
    check::<TestArgs<'static>>();
    check::<LockArgs<'static>>();
    check::<CancelArgs<'static>>();
    check::<UnlockArgs<'static>>();
    check::<ShareArgs<'static>>();
    check::<Notify<'static>>();
    check::<Res<'static>>();
    check::<TestRes<'static>>();
    check::<ShareRes<'static>>();
}

#[test]
fn a_lock_matches_bytes_from_the_specification() {
    let lock = LockArgs {
        cookie: Netobj(b"\x01\x02\x03\x04"),
        block: true,
        exclusive: true,
        alock: Nlm4Lock {
            caller_name: HostName(b"host"),
            fh: Netobj(b"handle"),
            oh: Netobj(b"7@host"),
            svid: 7,
            l_offset: 0x1_0000_0000,
            l_len: 0,
        },
        reclaim: false,
        state: 3,
    };
    let expected = [
        b"\0\0\0\x04\x01\x02\x03\x04".as_slice(),
        b"\0\0\0\x01\0\0\0\x01",
        b"\0\0\0\x04host",
        b"\0\0\0\x06handle\0\0",
        b"\0\0\0\x067@host\0\0",
        b"\0\0\0\x07",
        b"\0\0\0\x01\0\0\0\0",
        b"\0\0\0\0\0\0\0\0",
        b"\0\0\0\0\0\0\0\x03",
    ]
    .concat();
    assert_eq!(encode(&lock), expected);
    assert_eq!(decode_all(&expected), Ok(lock));
}

#[test]
fn a_denied_test_names_the_holder() {
    let denied = TestRes {
        cookie: Netobj(b""),
        stat: TestReply::Denied(Nlm4Holder {
            exclusive: true,
            svid: 1,
            oh: Netobj(b"o"),
            l_offset: 2,
            l_len: 3,
        }),
    };
    let expected =
        b"\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01o\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03";
    assert_eq!(encode(&denied), expected);
    let granted = TestRes { cookie: Netobj(b""), stat: TestReply::Stat(Nlm4Stats::Granted) };
    assert_eq!(encode(&granted), [0; 8]);
}

#[test]
#[should_panic(expected = "a denial names its holder")]
fn a_denial_without_a_holder_cannot_be_encoded() {
    encode(&TestReply::Stat(Nlm4Stats::Denied));
}

#[test]
fn lengths_have_limits() {
    let object = |length: usize| {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).opaque(&vec![1; length]);
        bytes
    };
    assert!(decode_all::<Netobj<'_>>(&object(NETOBJ_BYTES_MAX)).is_ok());
    assert!(decode_all::<Netobj<'_>>(&object(NETOBJ_BYTES_MAX + 1)).is_err());
    assert!(decode_all::<HostName<'_>>(&object(NLM_STRING_BYTES_MAX)).is_ok());
    assert!(decode_all::<HostName<'_>>(&object(NLM_STRING_BYTES_MAX + 1)).is_err());
}
