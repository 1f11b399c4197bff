//! Segments: headers before extents, and blocks whose checksums must detect damage.

use volume::ids::{ExtentId, SegmentId};
use volume::record::{BLOCK, ExtentHeader, ExtentRecord};

use super::{Kind, survives_storage};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let header = ExtentHeader { id: ExtentId(7), length: 5000 }.encode();
    let record = ExtentRecord::of(&[9; 5000], SegmentId(3), 64).encode();
    vec![[&[0], &header[..]].concat(), [&[1], record.as_slice()].concat(), vec![2; 3000], vec![2; 40]]
}

/// The first byte selects how the rest is decoded.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((form, body)) = bytes.split_first() else { return Kind::of(0) };
    let seen = match form % 3 {
        0 => survives_storage(
            body,
            |bytes| ExtentHeader::decode(bytes).ok_or(()),
            |header| header.encode().to_vec(),
        ),
        1 => survives_storage(body, ExtentRecord::decode, ExtentRecord::encode),
        _ => flipped(body),
    };
    Kind::of((form % 3, seen, body.len().min(128)))
}

/// Treats the body as a block of an extent: with a flipped bit, or elsewhere, its checksum differs.
fn flipped(body: &[u8]) -> bool {
    let Some(([bit, rest @ ..], block)) = body.split_first_chunk::<3>() else { return false };
    let mut block = block.get(..BLOCK.min(block.len())).unwrap_or_default().to_vec();
    let (segment, offset) = (SegmentId(u64::from(rest[0])), u64::from(rest[1]) * 64);
    let sum = ExtentRecord::checksum(&block, segment, offset);
    assert_ne!(sum, ExtentRecord::checksum(&block, SegmentId(segment.0 + 1), offset), "another segment");
    assert_ne!(sum, ExtentRecord::checksum(&block, segment, offset + 64), "another offset");
    let at = usize::from(*bit) % block.len().max(1);
    let Some(byte) = block.get_mut(at) else { return false };
    *byte ^= 1 << (bit % 8);
    assert_ne!(sum, ExtentRecord::checksum(&block, segment, offset), "a flipped bit");
    true
}
