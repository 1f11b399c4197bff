//! COMPOUNDs and callbacks of NFSv4, and the calls of NLM and NSM.

use wire::nfs4::callback::{CbArgOp4, CbCompoundArgsEncoder, CbCompoundReader, CbResOp4};
use wire::nfs4::compound::{
    CbCompoundResReader, CompoundArgsEncoder, CompoundReader, CompoundResReader, OpError,
};
use wire::nfs4::{ArgOp4, Fattr4, Outcome, ResOp4, Utf8Str4};
use wire::xdr::{Decode, Decoder, Encoder, decode_all};
use wire::{nlm4, nsm};

use super::{Kind, encoded};

/// Each operation alone, filled with small numbers, which often decodes; and the header of a callback.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for kind in 0..4_u8 {
        for code in (3..76_u8).chain([0]) {
            for fill in [0, 1, 4] {
                let mut seed = vec![kind, 0, 0, 0, 0, 0, 0, 0, 2];
                if kind == 2 {
                    seed.extend([0; 4]);
                }
                if kind % 2 == 1 {
                    seed.truncate(5);
                    seed.extend([0; 4]);
                }
                seed.extend([0, 0, 0, 1, 0, 0, 0, code]);
                seed.extend([0, 0, 0, fill].repeat(40));
                seeds.push(seed);
            }
        }
    }
    seeds.extend((4..14).map(|kind| [vec![kind], [0, 0, 0, 1].repeat(40)].concat()));
    seeds
}

/// The first byte selects how the rest is decoded.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((first, body)) = bytes.split_first() else { return Kind::of(0) };
    let kind = match first % 14 {
        0 => arguments(body),
        1 => results(body),
        2 => callback_arguments(body),
        3 => callback_results(body),
        4 => round_trip!(nlm4::TestArgs<'_>, body),
        5 => round_trip!(nlm4::LockArgs<'_>, body),
        6 => round_trip!(nlm4::CancelArgs<'_>, body),
        7 => round_trip!(nlm4::UnlockArgs<'_>, body),
        8 => round_trip!(nlm4::ShareArgs<'_>, body),
        9 => round_trip!(nlm4::TestRes<'_>, body),
        10 => round_trip!(nlm4::ShareRes<'_>, body),
        11 => round_trip!(nsm::SmName<'_>, body),
        12 => round_trip!(nsm::StatChge<'_>, body),
        _ => attributes(body),
    };
    Kind::of((first % 14, kind))
}

/// Checks that a COMPOUND encoded from decoded operations has the same operations.
fn arguments(body: &[u8]) -> Kind {
    let Ok(reader) = CompoundReader::new(Decoder::new(body)) else { return Kind::of(0) };
    let minorversion = reader.minorversion();
    let mut error = None;
    let ops: Vec<ArgOp4<'_>> = reader.map_while(|op| op.map_err(|why| error = Some(why)).ok()).collect();
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let mut args = CompoundArgsEncoder::begin(&mut encoder, Utf8Str4(b"again"), minorversion);
    ops.iter().for_each(|op| args.push(op));
    args.finish();
    let again = CompoundReader::new(Decoder::new(&out)).expect("what was encoded decodes");
    assert!(again.eq(ops.iter().map(|op| Ok::<_, OpError>(*op))), "the operations are the same");
    Kind::of((ops.iter().map(ArgOp4::num).collect::<Vec<_>>(), error.map(|why| why.num())))
}

fn callback_arguments(body: &[u8]) -> Kind {
    let Ok(reader) = CbCompoundReader::new(Decoder::new(body)) else { return Kind::of(0) };
    let ops: Vec<CbArgOp4<'_>> = reader.map_while(Result::ok).collect();
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let mut args = CbCompoundArgsEncoder::begin(&mut encoder, Utf8Str4(b"again"), 1, 0);
    ops.iter().for_each(|op| args.push(op));
    args.finish();
    let again = CbCompoundReader::new(Decoder::new(&out)).expect("what was encoded decodes");
    assert!(again.eq(ops.iter().map(|op| Ok(*op))), "the operations are the same");
    Kind::of(ops.iter().map(CbArgOp4::num).collect::<Vec<_>>())
}

/// Checks that each result survives encoding.
macro_rules! each {
    ($result:ty, $reader:ty, $body:expr) => {{
        let Ok(reader) = <$reader>::new(Decoder::new($body)) else { return Kind::of(0) };
        let mut seen = Vec::new();
        for result in reader.map_while(Result::ok) {
            let bytes = encoded(&result);
            let again: $result = decode_all(&bytes).expect("what was encoded decodes");
            assert_eq!(again, result, "the result is the same");
            seen.push((result.num(), result.status()));
        }
        Kind::of(seen)
    }};
}

fn results(body: &[u8]) -> Kind {
    each!(ResOp4<'_>, CompoundResReader<'_>, body)
}

fn callback_results(body: &[u8]) -> Kind {
    each!(CbResOp4, CbCompoundResReader<'_>, body)
}

/// Checks that attributes survive decoding and encoding.
fn attributes(body: &[u8]) -> Kind {
    let Ok(fattr) = Fattr4::decode(&mut Decoder::new(body)) else { return Kind::of(0) };
    let Ok(values) = fattr.decode_values() else { return Kind::of((1, fattr.attrmask)) };
    let bytes = encoded(&values);
    let again: Fattr4<'_> = decode_all(&bytes).expect("what was encoded decodes");
    assert_eq!(again.decode_values(), Ok(values), "the attributes are the same");
    assert_eq!(values.mask(), fattr.attrmask, "all attributes were read");
    Kind::of((2, fattr.attrmask))
}
