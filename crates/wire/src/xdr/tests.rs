//! The rules of RFC 4506, one by one.

use super::{DecodeError, Decoder, Encoder, Payload, decode_all, padding};
use crate::list::List;
use crate::sample::{check, encode};

#[test]
fn integers_are_big_endian() {
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes);
    out.u32(0x0102_0304);
    out.u64(0x1112_1314_1516_1718);
    out.bool(true);
    assert_eq!(bytes, [1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0, 0, 0, 1]);
}

#[test]
fn opaques_are_padded_to_four_bytes() {
    for length in 0..9 {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).opaque(&[7; 9][..length]);
        assert_eq!(bytes.len(), 4 + length + padding(length));
        assert!(bytes[4 + length..].iter().all(|byte| *byte == 0));
        assert_eq!(Decoder::new(&bytes).opaque(9), Ok(&[7; 9][..length]));
    }
}

#[test]
fn padding_is_required_but_may_be_nonzero() {
    assert_eq!(Decoder::new(&[0, 0, 0, 1, 7, 9, 9, 9]).opaque(1), Ok(&[7][..]));
    assert_eq!(Decoder::new(&[0, 0, 0, 1, 7, 0, 0]).opaque(1), Err(DecodeError::Truncated));
    assert_eq!(decode_all::<[u8; 5]>(&[1, 2, 3, 4, 5, 9, 9, 9]), Ok([1, 2, 3, 4, 5]));
    assert_eq!(decode_all::<[u8; 5]>(&[1, 2, 3, 4, 5]), Err(DecodeError::Truncated));
}

#[test]
fn lengths_are_compared_with_their_limit_before_the_bytes() {
    let bytes = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert_eq!(Decoder::new(&bytes).opaque(4), Err(DecodeError::TooLong { length: u32::MAX, limit: 4 }));
    assert_eq!(Decoder::new(&bytes).opaque(usize::MAX), Err(DecodeError::Truncated));
}

#[test]
fn bools_are_0_or_1() {
    assert_eq!(decode_all::<bool>(&[0, 0, 0, 0]), Ok(false));
    assert_eq!(decode_all::<bool>(&[0, 0, 0, 1]), Ok(true));
    assert_eq!(decode_all::<bool>(&[0, 0, 0, 2]), Err(DecodeError::BadBool(2)));
    assert_eq!(decode_all::<bool>(&[1, 0, 0, 0]), Err(DecodeError::BadBool(1 << 24)));
}

#[test]
fn trailing_bytes_are_an_error() {
    assert_eq!(decode_all::<u32>(&[0, 0, 0, 1, 5]), Err(DecodeError::Trailing(1)));
}

#[test]
fn sent_and_received_lists_iterate_alike() {
    let elements = [3u32, 1, 4];
    let list = List::new(&elements);
    let bytes = encode(&list);
    assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0]);
    let received: List<'_, u32> = decode_all(&bytes).unwrap();
    assert_eq!(received, list);
    assert!(received.iter().eq(elements));
    assert_eq!(encode(&received), bytes);
    assert_ne!(received, List::new(&elements[..2]));
    assert_eq!(encode(&List::<u32>::new(&[])), [0; 4]);
}

#[test]
fn patch_overwrites_and_rewind_truncates() {
    let mut bytes = vec![9];
    let mut out = Encoder::new(&mut bytes);
    out.u32(0);
    let end = out.position();
    out.u32(5);
    out.patch(1, &[1, 2, 3, 4]);
    out.rewind(end);
    assert_eq!(bytes, [9, 1, 2, 3, 4]);
}

#[test]
fn the_primitives_round_trip() {
    check::<u32>();
    check::<u64>();
    check::<bool>();
    check::<[u8; 8]>();
    check::<Option<u64>>();
    check::<List<'static, u64>>();
    check::<List<'static, List<'static, bool>>>();
}

/// A number, a payload, and another number.
fn message(length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes);
    out.u32(5);
    out.opaque(&[1, 2, 3, 4, 5, 6, 7, 8, 9][..length]);
    out.u32(6);
    bytes
}

fn decode_message<'a>(mut input: Decoder<'a>) -> Result<(Payload<'a>, Decoder<'a>), DecodeError> {
    assert_eq!(input.u32()?, 5);
    Ok((input.payload(9)?, input))
}

#[test]
fn a_payload_is_found_in_every_start_of_its_message() {
    for length in 0..10 {
        let bytes = message(length);
        for (cut, start) in (0..=bytes.len()).map(|cut| (cut, &bytes[..cut])) {
            let found = decode_message(Decoder::of_start(start, bytes.len()));
            if cut < 8 {
                assert_eq!(found.unwrap_err(), DecodeError::Truncated);
                continue;
            }
            let arrived = length.min(cut - 8);
            let is_padded = cut >= 8 + length + padding(length);
            if arrived == length && !is_padded {
                assert_eq!(found.unwrap_err(), DecodeError::Truncated, "only the padding is missing");
                continue;
            }
            let (payload, mut rest) = found.unwrap();
            assert_eq!((payload.len(), payload.here()), (length, &bytes[8..8 + arrived]));
            assert_eq!(payload.bytes().is_some(), arrived == length);
            assert_eq!(rest.u32().is_ok(), cut == bytes.len(), "only what has arrived is decoded");
        }
    }
}

#[test]
fn a_message_is_decoded_around_its_payload() {
    for length in 1..10 {
        let bytes = message(length);
        let without = [&bytes[..8], &bytes[8 + length..]].concat();
        let (payload, mut rest) = decode_message(Decoder::around(&without, 8, length)).unwrap();
        assert_eq!((payload.len(), payload.here(), payload.bytes()), (length, &[][..], None));
        assert_eq!((rest.u32(), rest.finish()), (Ok(6), Ok(())));
        // A payload of another length is not this one.
        assert!(decode_message(Decoder::around(&without, 8, length + 1)).is_err());
        assert!(decode_message(Decoder::around(&without[..8], 8, length)).is_ok() == (padding(length) == 0));
    }
}

#[test]
fn a_payload_that_exceeds_its_message_is_not_found() {
    let bytes = message(5);
    for length in 8..20 {
        let found = decode_message(Decoder::of_start(&bytes[..8], length));
        assert_eq!(found.is_ok(), length >= 16, "{length}");
    }
    let second = [&message(5)[..], &message(5)[4..]].concat();
    let (_, mut rest) = decode_message(Decoder::of_start(&second[..26], second.len())).unwrap();
    rest.u32().unwrap();
    let payload = rest.payload(9).unwrap();
    assert_eq!((payload.len(), payload.here().len()), (5, 2), "the second is the one that has not arrived");
}
