//! Messages of RQUOTA.

use super::*;
use crate::rpc::decode_call;
use crate::sample::{check, encode};
use crate::xdr::{Decode as _, decode_all};

#[test]
fn arguments_match_bytes_from_the_specification() {
    let path = Path(b"/main");
    let by_user = [&[0, 0, 0, 5][..], b"/main\0\0\0", &[0, 0, 3, 232]].concat();
    assert_eq!(encode(&GetQuotaArgs1 { path, uid: 1000 }), by_user);
    let by_group = [&[0, 0, 0, 5][..], b"/main\0\0\0", &[0, 0, 0, 1], &[0, 0, 3, 232]].concat();
    assert_eq!(encode(&GetQuotaArgs2 { path, kind: KIND_GROUP, id: 1000 }), by_group);
}

/// What quota(1) of quota-tools 4.06 sends for a group at a mount of NFSv4.
#[test]
fn a_call_of_the_quota_tools_is_decoded() {
    let numbers: [u32; 14] = [
        0x6b05_5a8e,
        0,
        2,
        PROGRAM,
        VERSION_KINDS,
        Procedure::GetQuota.code(),
        1,
        24,
        0x6b04_b1c0,
        2,
        0x766d_0000,
        0,
        0,
        0,
    ];
    let header: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    let arguments = [&[0, 0, 0, 8][..], b"main/sub", &[0, 0, 0, 1], &[0; 4]].concat();
    let call = [header, vec![0; 8], arguments].concat();
    let (header, mut input) = decode_call(&call).unwrap();
    assert_eq!((header.program, header.version, header.procedure), (PROGRAM, 2, 1));
    let args = GetQuotaArgs2::decode(&mut input).unwrap();
    assert_eq!(args, GetQuotaArgs2 { path: Path(b"main/sub"), kind: KIND_GROUP, id: 0 });
    assert!(input.rest().is_empty());
}

#[test]
fn results_match_bytes_from_the_specification() {
    let quota = Quota {
        block_bytes: 1024,
        is_active: true,
        block_hard_limit: 2,
        block_soft_limit: 3,
        blocks: 4,
        file_hard_limit: 5,
        file_soft_limit: 6,
        files: 7,
        block_time_left: 8,
        file_time_left: -1,
    };
    let numbers = [STATUS_OK, 1024, 1, 2, 3, 4, 5, 6, 7, 8, u32::MAX];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    assert_eq!(encode(&QuotaRes::Quota(quota)), bytes);
    assert_eq!(decode_all::<QuotaRes>(&bytes), Ok(QuotaRes::Quota(quota)));
    assert_eq!(encode(&QuotaRes::NoQuota), [0, 0, 0, 2]);
    assert_eq!(encode(&QuotaRes::Perm), [0, 0, 0, 3]);
    assert!(decode_all::<QuotaRes>(&[0; 4]).is_err());
}

#[test]
fn all_messages_round_trip() {
    check::<Procedure>();
    check::<GetQuotaArgs1<'static>>();
    check::<GetQuotaArgs2<'static>>();
    check::<SetQuotaArgs1<'static>>();
    check::<SetQuotaArgs2<'static>>();
    check::<QuotaRes>();
}
