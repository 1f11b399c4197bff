//! Round trips of all operations of NFSv4, COMPOUNDs, and the encoders that build results in place.

use super::compound::*;
use super::*;
use crate::limits::{
    ATTRIBUTE_BYTES_MAX, BITMAP_WORDS_MAX, COMPOUND_OPS_MAX, HANDLE4_BYTES_MAX, OPAQUE4_BYTES_MAX,
};
use crate::sample::{Rng, Sample, check, check_shortened, encode};
use crate::xdr::{DecodeError, Decoder, Encoder, decode_all};

mod golden;

#[test]
fn all_operations_round_trip() {
    check_shortened::<ArgOp4<'static>>(0..400);
    check_shortened::<ResOp4<'static>>(0..400);
    check_shortened::<callback::CbArgOp4<'static>>(0..200);
    check_shortened::<callback::CbResOp4>(0..200);
}

#[test]
fn basic_types_round_trip() {
    check::<NfsStat4>();
    check::<NfsFtype4>();
    check::<Stateid4>();
    check::<FileHandle4<'static>>();
    check::<SetTime4>();
    check::<OpenDelegation4<'static>>();
    check::<OpNum4>();
    check_shortened::<Bitmap4>(0..100);
    check_shortened::<Fattr4<'static>>(0..100);
}

#[test]
fn attributes_round_trip() {
    for seed in 0..200 {
        println!("seed {seed}");
        let attributes = Attributes4::sample(&mut Rng::new(seed));
        let bytes = encode(&attributes);
        let fattr: Fattr4<'_> = decode_all(&bytes).unwrap();
        assert_eq!(fattr.attrmask, attributes.mask());
        assert_eq!(fattr.decode_values(), Ok(attributes));
    }
}

#[test]
fn compounds_round_trip() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let ops: Vec<ArgOp4<'_>> = (0..rng.below(6)).map(|_| ArgOp4::sample(&mut rng)).collect();
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        let mut args = CompoundArgsEncoder::begin(&mut encoder, Utf8Str4(b"tag"), 2);
        ops.iter().for_each(|op| args.push(op));
        args.finish();
        let mut reader = CompoundReader::new(Decoder::new(&out)).unwrap();
        assert_eq!((reader.tag(), reader.minorversion()), (Utf8Str4(b"tag"), 2));
        assert_eq!(reader.announced() as usize, ops.len());
        for op in ops {
            let read = reader.next().unwrap();
            if op == ArgOp4::Illegal {
                assert_eq!(read, Err(OpError::Illegal(10_044)));
                break;
            }
            assert_eq!(read, Ok(op));
        }
    }
}

/// Returns the arguments of a COMPOUND with these words after its header.
fn compound(minorversion: u32, count: u32, words: &[u32]) -> Vec<u8> {
    [0, minorversion, count].iter().chain(words).flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn operations_before_a_malformed_one_are_decoded() {
    let bytes = compound(0, 3, &[24, 16, 3]);
    let mut reader = CompoundReader::new(Decoder::new(&bytes)).unwrap();
    assert_eq!(reader.peek(), Some(OpNum4::Putrootfh));
    assert_eq!(reader.next(), Some(Ok(ArgOp4::Putrootfh)));
    assert_eq!(reader.next(), Some(Ok(ArgOp4::Lookupp)));
    let error = OpError::BadXdr(OpNum4::Access, DecodeError::Truncated);
    assert_eq!(reader.next(), Some(Err(error)));
    assert_eq!(reader.next(), None);
    assert_eq!((error.num(), error.status(0)), (OpNum4::Access, NfsStat4::BadXdr));
}

#[test]
fn unsupported_operations_are_decoded_up_to_the_next_one() {
    let layoutget = [50, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let write_same = [70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (operation, num) in [(&layoutget[..], OpNum4::Layoutget), (&write_same[..], OpNum4::WriteSame)] {
        let bytes = compound(2, 2, &[operation, &[24]].concat());
        let mut reader = CompoundReader::new(Decoder::new(&bytes)).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().num(), num);
        assert_eq!(reader.next(), Some(Ok(ArgOp4::Putrootfh)));
        let truncated = compound(2, 1, &operation[..operation.len() - 1]);
        let error = CompoundReader::new(Decoder::new(&truncated)).unwrap().next().unwrap().unwrap_err();
        assert_eq!((error.num(), error.status(2)), (num, NfsStat4::BadXdr));
    }
}

#[test]
fn operations_of_later_minor_versions_are_illegal() {
    let first = |minorversion, code| {
        let bytes = compound(minorversion, 1, &[[code].as_slice(), &[0; 20]].concat());
        CompoundReader::new(Decoder::new(&bytes))
            .unwrap()
            .next()
            .unwrap()
            .err()
            .map(|error| error.status(minorversion))
    };
    for (minorversion, code) in
        [(0, 40), (0, 53), (0, 75), (1, 59), (1, 72), (2, 76), (2, 2), (2, 0), (2, 10_044)]
    {
        assert_eq!(first(minorversion, code), Some(NfsStat4::OpIllegal), "{code} in {minorversion}");
    }
    for (minorversion, code) in [(0, 38), (1, 53), (2, 53), (2, 71), (1, 30)] {
        assert_eq!(first(minorversion, code), None, "{code} in {minorversion}");
    }
}

#[test]
fn operations_are_decoded_up_to_the_limit() {
    for (minorversion, status) in [(0, NfsStat4::Resource), (1, NfsStat4::TooManyOps)] {
        let bytes = compound(minorversion, u32::MAX, &[24; 1000]);
        let reader = CompoundReader::new(Decoder::new(&bytes)).unwrap();
        assert_eq!(reader.announced(), u32::MAX);
        let read: Vec<_> = reader.collect();
        assert_eq!(read.len(), COMPOUND_OPS_MAX as usize + 1);
        assert_eq!(read.last().unwrap().unwrap_err().status(minorversion), status);
    }
}

#[test]
fn lengths_have_limits() {
    let opaque = |length: usize| {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).opaque(&vec![1; length]);
        bytes
    };
    assert!(decode_all::<FileHandle4<'_>>(&opaque(HANDLE4_BYTES_MAX)).is_ok());
    assert!(decode_all::<FileHandle4<'_>>(&opaque(HANDLE4_BYTES_MAX + 1)).is_err());
    assert!(decode_all::<OwnerId4<'_>>(&opaque(OPAQUE4_BYTES_MAX)).is_ok());
    assert!(decode_all::<OwnerId4<'_>>(&opaque(OPAQUE4_BYTES_MAX + 1)).is_err());
    let attributes = |length| [vec![0; 4], opaque(length)].concat();
    assert!(decode_all::<Fattr4<'_>>(&attributes(ATTRIBUTE_BYTES_MAX)).is_ok());
    assert!(decode_all::<Fattr4<'_>>(&attributes(ATTRIBUTE_BYTES_MAX + 1)).is_err());
    let words = |count: usize| {
        let mut bytes = u32::try_from(count).unwrap().to_be_bytes().to_vec();
        bytes.resize(4 + 4 * count, 0);
        bytes
    };
    assert!(decode_all::<Bitmap4>(&words(BITMAP_WORDS_MAX)).is_ok());
    assert!(decode_all::<Bitmap4>(&words(BITMAP_WORDS_MAX + 1)).is_err());
    let stateids = [0xff, 0xff, 0xff, 0xff];
    assert!(matches!(decode_all::<TestStateidArgs<'_>>(&stateids), Err(DecodeError::TooLong { .. })));
}

#[test]
fn unknown_attributes_are_reported() {
    let mut bytes = vec![0, 0, 0, 32];
    bytes.resize(4 + 4 * 31, 0);
    bytes.extend([0, 0, 1, 0]);
    let mask: AttrMask = decode_all(&bytes).unwrap();
    assert_eq!(mask.bitmap(), Bitmap4::EMPTY.with(1000));
    assert!(mask.bitmap().contains(Bitmap4::BEYOND));
    let fattr = Fattr4 { attrmask: mask.with(Attr4::Size), attr_vals: &[0; 8] };
    let error = fattr.decode_values().unwrap_err();
    assert_eq!(error, FattrError::Unknown(mask));
    assert_eq!(error.status(), NfsStat4::AttrNotSupp);
}

#[test]
fn values_that_do_not_match_the_mask_are_badxdr() {
    let attrmask = AttrMask::of(&[Attr4::Size, Attr4::Mode]);
    for length in [0, 8, 11, 13, 16] {
        let fattr = Fattr4 { attrmask, attr_vals: &[0; 16][..length] };
        assert_eq!(fattr.decode_values().unwrap_err().status(), NfsStat4::BadXdr, "{length}");
    }
    assert!(Fattr4 { attrmask, attr_vals: &[0; 12] }.decode_values().is_ok());
}

#[test]
fn only_requested_attributes_are_encoded() {
    let attributes = Attributes4 { size: Some(1), mode: Some(2), fileid: Some(3), ..Attributes4::default() };
    let mut out = Vec::new();
    let request = AttrMask::of(&[Attr4::Mode, Attr4::Owner, Attr4::Fileid]);
    let written = attributes.encode_requested(request, &mut Encoder::new(&mut out));
    assert_eq!(written, AttrMask::of(&[Attr4::Fileid, Attr4::Mode]));
    let expected = Attributes4 { mode: Some(2), fileid: Some(3), ..Attributes4::default() };
    assert_eq!(out, encode(&expected));
}

#[test]
fn read_encoder_builds_the_encoded_result() {
    for length in 0..10 {
        let mut out = b"before".to_vec();
        let mut encoder = Encoder::new(&mut out);
        let mut read = ReadEncoder::begin(&mut encoder, 10);
        read.push(&[7; 10][..length]);
        read.push_zeros(1);
        read.finish(true);
        let data = [vec![7; length], vec![0]].concat();
        let expected = ReadRes::Ok(ReadOk { eof: true, data: &data });
        assert_eq!(out, [b"before".to_vec(), encode(&expected)].concat());
    }
}

#[test]
fn read_plus_encoder_builds_the_encoded_result() {
    for length in 0..5 {
        let data = vec![7; length];
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        let mut read = ReadPlusEncoder::begin(&mut encoder);
        read.push_hole(1, 2);
        read.push_data(3, |reply| reply.extend_from_slice(&data));
        assert!(read.has_room());
        read.finish(false);
        let contents = [
            ReadPlusContent::Hole { offset: 1, length: 2 },
            ReadPlusContent::Data { offset: 3, data: &data },
        ];
        let expected = ReadPlusOk { eof: false, contents: crate::array::Array::new(&contents).unwrap() };
        assert_eq!(out, encode(&ReadPlusRes::Ok(expected)));
    }
}

#[test]
fn readdir_uses_maxcount_and_not_a_byte_more() {
    let attributes = Attributes4 { size: Some(1), mode: Some(2), fileid: Some(3), ..Attributes4::default() };
    let request = AttrMask::of(&[Attr4::Mode, Attr4::Fileid]);
    let mut values = Vec::new();
    attributes.encode_requested(request, &mut Encoder::new(&mut values));
    let attrs: Fattr4<'_> = decode_all(&values).unwrap();
    let names: [&[u8]; 4] = [b"a", b"bcde", b"fghij", b"klm"];
    let entries: Vec<Entry4<'_>> =
        (3..).zip(names).map(|(cookie, name)| Entry4 { cookie, name: Component4(name), attrs }).collect();
    for maxcount in 0..300 {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        let mut readdir = ReaddirEncoder::begin(&mut encoder, [9; 8], 0, maxcount);
        let fitted = entries
            .iter()
            .take_while(|entry| {
                readdir.push(entry.cookie, entry.name, |out| {
                    attributes.encode_requested(request, out);
                })
            })
            .count();
        assert_eq!(readdir.entries(), fitted);
        readdir.finish(fitted == entries.len());
        let result = |entries: &[Entry4<'_>], eof| {
            encode(&ReaddirOk { cookieverf: [9; 8], entries: crate::list::List::new(entries), eof })
        };
        assert_eq!(out[4..], result(&entries[..fitted], fitted == entries.len()));
        assert!(fitted == 0 || out.len() - 4 <= maxcount);
        assert!(fitted == entries.len() || result(&entries[..=fitted], false).len() > maxcount);
    }
}

#[test]
fn listxattrs_uses_maxcount_and_not_a_byte_more() {
    let names: Vec<Component4<'_>> = [b"one".as_slice(), b"three", b"ninety"].map(Component4).to_vec();
    for maxcount in 0..80 {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        let mut list = ListxattrsEncoder::begin(&mut encoder, maxcount);
        let fitted = names.iter().take_while(|name| list.push(**name)).count();
        assert_eq!(list.names(), fitted);
        list.finish(4, true);
        let names = crate::array::Array::new(&names[..fitted]).unwrap();
        assert_eq!(out, encode(&ListxattrsRes::Ok(ListxattrsOk { cookie: 4, names, eof: true })));
        assert!(fitted == 0 || out.len() - 4 <= maxcount);
    }
}

#[test]
fn abandoned_results_leave_no_bytes() {
    let mut out = vec![1, 2, 3];
    let mut encoder = Encoder::new(&mut out);
    ReadEncoder::begin(&mut encoder, 10).abandon();
    ReaddirEncoder::begin(&mut encoder, [0; 8], 0, 100).abandon();
    ListxattrsEncoder::begin(&mut encoder, 100).abandon();
    ReadPlusEncoder::begin(&mut encoder).abandon();
    assert_eq!(out, [1, 2, 3]);
}

#[test]
#[should_panic(expected = "a failure has a status that says so")]
fn a_failure_with_status_ok_cannot_be_encoded() {
    encode(&AccessRes::Err(NfsStat4::Ok));
}

#[test]
fn statuses_are_shown_by_the_names_of_the_rfcs() {
    assert_eq!(NfsStat4::Ok.to_string(), "NFS4_OK");
    assert_eq!(NfsStat4::Access.to_string(), "NFS4ERR_ACCESS");
    assert_eq!(NfsStat4::BadStateId.to_string(), "NFS4ERR_BAD_STATEID");
    assert_eq!(NfsStat4::Xattr2Big.to_string(), "NFS4ERR_XATTR2BIG");
    for status in NfsStat4::ALL {
        let (name, letters) = (status.to_string(), format!("{status:?}").to_uppercase());
        let stripped = name.strip_prefix("NFS4ERR_").or(name.strip_prefix("NFS4_")).unwrap();
        assert_eq!(stripped.replace('_', ""), letters);
    }
}
