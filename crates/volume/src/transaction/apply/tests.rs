use super::*;
use crate::api::attributes::FileType;
use crate::api::ids::{ExtentId, Layer};
use crate::encoding::record::tests::record_of;
use crate::media::memory::Random;

const FILE: ObjectId = key::FIRST.object(crate::api::ids::Ino(7));
const BYTES: u64 = 200;

fn put(start: u64, end: u64, source: Source) -> (Key, Slot) {
    let record = ExtentMapping { start, birth: 0, source };
    (key::map(FILE, end), Some(record.encode().into()))
}

/// Returns what a memtable maps each byte to: the byte itself, or extent and offset.
fn contents(memtable: &Memtable) -> Vec<Option<(u64, u64)>> {
    let mut found = vec![None; usize::try_from(BYTES).unwrap()];
    memtable_mappings(memtable, FILE, (0, BYTES), &mut |_, end, value| {
        let mapping = decode_verified(value);
        for at in mapping.start..end {
            let skip = at - mapping.start;
            let slot = &mut found[usize::try_from(at).unwrap()];
            assert!(slot.is_none(), "pieces do not overlap");
            *slot = Some(match &mapping.source {
                Source::Inline(bytes) => (0, bytes[usize::try_from(skip).unwrap()].into()),
                Source::Extent { id, offset } => (id.0, u64::from(*offset) + skip),
                Source::Hole | Source::Lost => (u64::MAX, 0),
            });
        }
        if let Source::Inline(bytes) = &mapping.source {
            assert_eq!(bytes.len() as u64, end - mapping.start);
        }
    });
    found
}

#[test]
fn replay_keeps_the_newest_mapping_of_each_byte() {
    for seed in 0..60 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let memtable = Memtable::new(Layer(1));
        let mut model = vec![None; usize::try_from(BYTES).unwrap()];
        for id in 1..80 {
            let start = random.below(BYTES);
            let end = start + 1 + random.below((BYTES - start).min(40));
            let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
            let source = if random.below(2) == 0 {
                let bytes = random.bytes(range.len());
                model[range]
                    .iter_mut()
                    .zip(&bytes)
                    .for_each(|(slot, byte)| *slot = Some((0, (*byte).into())));
                Source::Inline(bytes.into())
            } else {
                let offset = u32::try_from(random.below(1000)).unwrap();
                for (slot, skip) in model[range].iter_mut().zip(0..) {
                    *slot = Some((id, u64::from(offset) + skip));
                }
                Source::Extent { id: ExtentId(id), offset }
            };
            overlay(&memtable, vec![put(start, end, source)]);
            assert_eq!(contents(&memtable), model);
        }
    }
}

#[test]
fn records_of_an_unknown_format_are_refused() {
    let inode: Slot = Some(record_of(FileType::Regular).encode().into());
    assert!(check_record(&key::inode(FILE), &inode).is_ok());
    assert!(check_record(&key::inode(FILE), &None).is_ok());
    let inline = |start, end, length| put(start, end, Source::Inline(vec![0; length].into()));
    let extent = |start, end, offset| put(start, end, Source::Extent { id: ExtentId(1), offset });
    for (good, (key, slot)) in [
        (true, inline(0, 8, 8)),
        (false, inline(0, 8, 7)),
        (false, inline(8, 8, 0)),
        (false, inline(9, 8, 1)),
        (true, extent(0, 8, 0)),
        (true, extent(0, 8, u32::MAX - 8)),
        (false, extent(0, 8, u32::MAX - 7)),
        (false, extent(0, u64::MAX, u32::MAX)),
    ] {
        assert_eq!(check_record(&key, &slot).is_ok(), good, "{key:?} {slot:?}");
    }
    let map_key = key::map(FILE, 8);
    for cut in 0..map_key.len() {
        assert!(check_record(&map_key[..cut], &inline(0, 8, 8).1).is_err(), "a key of {cut} bytes");
    }
    let mut foreign = key::inode(FILE).to_vec();
    foreign[4] = 0x7f;
    assert!(check_record(&foreign, &inode).is_err(), "an unknown table");
    assert!(check_record(&key::inode(FILE), &Some(b"short"[..].into())).is_err());
}
