//! The XDR decoder itself, called in any order.

use wire::xdr::Decoder;

use super::{Kind, golden};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    golden("-call.bin")
}

/// The first 16 bytes select what is read from the rest. The decoder only moves forward, by whole units if it succeeds,
/// and never past the end.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((program, data)) = bytes.split_at_checked(16) else { return Kind::of(0) };
    let mut input = Decoder::new(data);
    let mut steps = Vec::new();
    for step in program {
        let before = input.rest().len();
        let limit = usize::from(step >> 3) * 16;
        let read = match step & 7 {
            0 => input.u32().map(|_| ()),
            1 => input.u64().map(|_| ()),
            2 => input.bool().map(|_| ()),
            3 => input.array::<12>().map(|_| ()),
            4 => input.opaque_fixed(limit / 16).map(|taken| assert_eq!(taken.len(), limit / 16)),
            5 => input.opaque(limit).map(|taken| assert!(taken.len() <= limit, "beyond the limit")),
            6 => input.length(limit).map(|length| assert!(length <= limit, "beyond the limit")),
            _ => input.finish(),
        };
        let after = input.rest().len();
        assert!(after <= before, "the decoder went backwards");
        assert!(data.ends_with(input.rest()), "the rest is the end of the input");
        if read.is_ok() {
            assert_eq!((before - after) % 4, 0, "XDR is made of units of four bytes");
        }
        steps.push((step & 7, read.is_ok(), (before - after).min(64)));
        if read.is_err() {
            break;
        }
    }
    Kind::of(steps)
}
