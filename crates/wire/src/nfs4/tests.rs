//! Every operation of NFSv4 there and back, COMPOUNDs, and the encoders that write in place.

use super::compound::*;
use super::*;
use crate::sample::{Rng, Sample, check, check_shortened, encode};
use crate::xdr::{Decoder, Encoder, decode_all};

#[test]
fn all_operations_round_trip() {
    check_shortened::<ArgOp4<'static>>(0..400);
    check_shortened::<ResOp4<'static>>(0..400);
    check_shortened::<callback::CbArgOp4<'static>>(0..200);
    check_shortened::<callback::CbResOp4<'static>>(0..200);
}

#[test]
fn basic_types_round_trip() {
    check::<NfsStat4>();
    check::<NfsFtype4>();
    check::<Stateid4>();
    check::<FileHandle4<'static>>();
    check::<Settime4>();
    check::<OpenDelegation4<'static>>();
    check::<OpNum4>();
    check_shortened::<Bitmap4>(0..100);
    check_shortened::<Fattr4<'static>>(0..100);
}

#[test]
fn attributes_are_what_they_were() {
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
fn a_compound_is_what_it_was() {
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
