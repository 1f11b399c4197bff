//! Headers of calls and replies, and the replies to malformed ones.

use super::*;
use crate::sample::{Rng, Sample, check, encode};

impl Sample for CallHeader<'_> {
    fn sample(rng: &mut Rng) -> Self {
        Self {
            xid: Sample::sample(rng),
            program: Sample::sample(rng),
            version: Sample::sample(rng),
            procedure: Sample::sample(rng),
            credential: Sample::sample(rng),
            verifier: Sample::sample(rng),
        }
    }
}

impl Sample for ReplyHeader<'_> {
    fn sample(rng: &mut Rng) -> Self {
        Self { xid: Sample::sample(rng), body: Sample::sample(rng) }
    }
}

/// The header of a LOOKUP call, encoded by hand: client `box`, user 1000, groups 4 and 24.
const CALL: [u8; 84] = [
    0x12, 0x34, 0x56, 0x78, // xid
    0, 0, 0, 0, // CALL
    0, 0, 0, 2, // RPC version
    0, 1, 0x86, 0xa3, // program 100003
    0, 0, 0, 3, // version
    0, 0, 0, 3, // procedure
    0, 0, 0, 1, // AUTH_SYS
    0, 0, 0, 32, // its length
    0, 0, 0, 9, // stamp
    0, 0, 0, 3, b'b', b'o', b'x', 0, // machine name
    0, 0, 3, 0xe8, // uid
    0, 0, 3, 0xe8, // gid
    0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 24, // groups
    0, 0, 0, 0, 0, 0, 0, 0, // AUTH_NONE, empty
    0xca, 0xfe, 0, 0, 0xca, 0xfe, 0, 0, 0xca, 0xfe, 0, 0, // arguments
];

fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut record = CALL.to_vec();
    record[at..at + bytes.len()].copy_from_slice(bytes);
    record
}

#[test]
fn calls_match_bytes_from_the_rfc() {
    let (header, arguments) = decode_call(&CALL).unwrap();
    let groups = Groups::new(&[4, 24]).unwrap();
    let sys = AuthSys { stamp: 9, machine_name: b"box", uid: 1000, gid: 1000, groups };
    let expected = CallHeader {
        xid: 0x1234_5678,
        program: 100_003,
        version: 3,
        procedure: 3,
        credential: Credential::Sys(sys),
        verifier: OpaqueAuth::NONE,
    };
    assert_eq!(header, expected);
    assert_eq!(arguments.rest(), &CALL[72..]);
    assert_eq!(encode(&header), CALL[..72]);
}

#[test]
fn null_calls_match_bytes_from_the_rfc() {
    let record: Vec<u8> =
        [7, 0, 2, 100_000, 2, 0, 0, 0, 0, 0].iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    let (header, arguments) = decode_call(&record).unwrap();
    assert_eq!((header.xid, header.program, header.version, header.procedure), (7, 100_000, 2, 0));
    assert_eq!(header.credential, Credential::None);
    assert!(arguments.rest().is_empty());
}

#[test]
fn replies_match_bytes_from_the_rfc() {
    let words = |header: ReplyHeader<'_>| -> Vec<u32> {
        encode(&header).chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
    };
    assert_eq!(words(ReplyHeader::accepted(5, AcceptStat::Success)), [5, 1, 0, 0, 0, 0]);
    assert_eq!(words(ReplyHeader::accepted(5, AcceptStat::ProgUnavail)), [5, 1, 0, 0, 0, 1]);
    let mismatch = AcceptStat::ProgMismatch { low: 3, high: 4 };
    assert_eq!(words(ReplyHeader::accepted(5, mismatch)), [5, 1, 0, 0, 0, 2, 3, 4]);
    assert_eq!(words(ReplyHeader::accepted(5, AcceptStat::ProcUnavail)), [5, 1, 0, 0, 0, 3]);
    assert_eq!(words(ReplyHeader::accepted(5, AcceptStat::GarbageArgs)), [5, 1, 0, 0, 0, 4]);
    assert_eq!(words(ReplyHeader::accepted(5, AcceptStat::SystemErr)), [5, 1, 0, 0, 0, 5]);
    assert_eq!(words(ReplyHeader::auth_error(5, AuthStat::TooWeak)), [5, 1, 1, 1, 5]);
    assert_eq!(words(CallError::RpcMismatch { xid: 5 }.reply().unwrap()), [5, 1, 1, 0, 2, 2]);
}

#[test]
fn encode_success_equals_the_encoded_header() {
    let mut bytes = Vec::new();
    encode_success(&mut Encoder::new(&mut bytes), 0xdead_beef);
    assert_eq!(bytes, encode(&ReplyHeader::accepted(0xdead_beef, AcceptStat::Success)));
}

#[test]
fn records_that_are_not_calls_get_no_reply() {
    for cut in 0..24 {
        assert_eq!(decode_call(&CALL[..cut]).unwrap_err(), CallError::NotACall, "cut at {cut}");
    }
    assert_eq!(decode_call(&with(4, &[0, 0, 0, 1])).unwrap_err(), CallError::NotACall);
    assert_eq!(CallError::NotACall.reply(), None);
}

#[test]
fn other_rpc_versions_get_a_mismatch_whatever_follows() {
    let xid = 0x1234_5678;
    assert_eq!(decode_call(&with(8, &[0, 0, 0, 3])).unwrap_err(), CallError::RpcMismatch { xid });
    assert_eq!(decode_call(&with(8, &[0, 0, 0, 1])[..12]).unwrap_err(), CallError::RpcMismatch { xid });
}

#[test]
fn malformed_credentials_and_verifiers_are_different_errors() {
    let xid = 0x1234_5678;
    let bad_cred = CallError::Auth { xid, stat: AuthStat::BadCred };
    let bad_verf = CallError::Auth { xid, stat: AuthStat::BadVerf };
    for cut in 24..64 {
        assert_eq!(decode_call(&CALL[..cut]).unwrap_err(), bad_cred, "cut at {cut}");
    }
    for cut in 64..72 {
        assert_eq!(decode_call(&CALL[..cut]).unwrap_err(), bad_verf, "cut at {cut}");
    }
    // 17 groups, a name of 256 bytes, a body longer or shorter than its contents.
    for (at, word) in [(52, 17u32), (36, 256), (52, 1), (28, 28)] {
        assert_eq!(decode_call(&with(at, &word.to_be_bytes())).unwrap_err(), bad_cred, "{word} at {at}");
    }
}

#[test]
fn credentials_over_their_limit_close_the_connection() {
    assert_eq!(decode_call(&with(28, &401u32.to_be_bytes())).unwrap_err(), CallError::OverLimit);
    assert_eq!(decode_call(&with(68, &[0xff; 4])).unwrap_err(), CallError::OverLimit);
    assert_eq!(CallError::OverLimit.reply(), None);
}

#[test]
fn unknown_flavors_are_kept() {
    let record = with(24, &[0, 0, 0, 6]);
    let (header, _) = decode_call(&record).unwrap();
    assert_eq!(header.credential, Credential::Other(OpaqueAuth { flavor: 6, body: &CALL[32..64] }));
    assert_eq!(header.credential.flavor(), 6);
}

#[test]
fn integers_refuse_more_than_their_capacity() {
    assert_eq!(Groups::new(&[1; 17]), None);
    assert_eq!(Groups::new(&[1; 16]).unwrap().as_slice(), [1; 16]);
    assert_eq!(Groups::default().as_slice(), [0u32; 0]);
}

#[test]
fn all_headers_round_trip() {
    check::<OpaqueAuth<'static>>();
    check::<AuthSys<'static>>();
    check::<AuthStat>();
    check::<AcceptStat>();
    check::<RejectedReply>();
    check::<ReplyHeader<'static>>();
    for seed in 0..2000 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let header = CallHeader::sample(&mut rng);
        let mut record = encode(&header);
        let length = record.len();
        record.extend_from_slice(&[1, 2, 3]);
        let (decoded, arguments) = decode_call(&record).unwrap();
        assert_eq!((decoded, arguments.rest()), (header, &[1, 2, 3][..]));
        for cut in 0..length {
            assert!(decode_call(&record[..cut]).is_err());
        }
        let at = rng.below(length);
        record[at] ^= 0x80 >> rng.below(8);
        if let Ok((decoded, _)) = decode_call(&record) {
            let again = encode(&decoded);
            assert_eq!(decode_call(&again).unwrap().0, decoded);
        }
    }
}
