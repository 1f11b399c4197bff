use super::*;
use crate::limits::EXTENT_BYTES_MAX;
use crate::media::memory::Random;

#[test]
fn checksums_of_parts_are_those_of_their_concatenation() {
    let pool = Arc::new(Pool::default());
    for seed in 0..200 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let mut whole = Vec::new();
        let mut parts = Vec::new();
        for _ in 0..random.below(6) {
            let unit = [1, BLOCK][usize::from(random.below(3) > 0)] as u64;
            let length = usize::try_from(random.below(EXTENT_BYTES_MAX as u64)).unwrap();
            let offset = random.below(2) * random.below(1 << 20);
            let bytes = random.bytes(length);
            let mut pieces = Vec::new();
            if random.below(4) == 0 {
                pieces.push(Bytes::from(bytes.clone()));
            } else {
                WriteData::from(&bytes).for_each_piece(&pool, offset, |_, piece| pieces.push(piece));
            }
            for piece in pieces {
                let cut = |random: &mut Random| {
                    usize::try_from(random.below(piece.len() as u64 / unit + 1) * unit).unwrap()
                };
                let (one, other) = (cut(random), cut(random));
                let range = match random.below(3) {
                    0 => one.min(other)..one.max(other),
                    1 => one..piece.len(),
                    _ => 0..piece.len(),
                };
                whole.extend_from_slice(&piece[range.clone()]);
                parts.push(Slice::new(piece, range));
            }
        }
        assert_eq!(checksums(&parts), whole.chunks(BLOCK).map(crc32c::crc32c).collect::<Vec<_>>());
    }
}

#[test]
fn kept_checksums_are_used() {
    let pool = Arc::new(Pool::default());
    let bytes = Random::new(1).bytes(EXTENT_BYTES_MAX - 100);
    let mut piece = None;
    WriteData::from(&bytes).for_each_piece(&pool, 0, |_, bytes| piece = Some(bytes));
    let slice = Slice::from(piece.unwrap());
    let last = (slice.len() - 1) / BLOCK * BLOCK;
    assert!(slice.kept_checksum(0..BLOCK).is_some() && slice.kept_checksum(last..slice.len()).is_some());
    let part = slice.part(BLOCK..slice.len() - 1);
    assert_eq!(part.kept_checksum(0..BLOCK), Some(crc32c::crc32c(&bytes[BLOCK..2 * BLOCK])));
    // Ranges that no checksum covers exactly.
    assert_eq!(part.kept_checksum(1..1 + BLOCK), None);
    assert_eq!(part.kept_checksum(0..BLOCK - 1), None);
    assert_eq!(part.kept_checksum(last - BLOCK..part.len()), None);
}
