use super::*;
use crate::api::ids::Ino;
use crate::api::quotas::QuotaKind;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::encoding::record::Source;

fn mapping(start: u64, source: Source<&[u8]>) -> ExtentMapping<&[u8]> {
    ExtentMapping { start, birth: 3, source }
}

/// Drafts an entry with mappings of these lengths, and checks it against the encoding of the whole entry.
fn drafted(lengths: &[u64]) -> (Bytes, Entry) {
    let mut draft = Draft::default();
    draft.push(key::map(FIRST.object(Ino(7)), 1), None);
    let data = vec![5; 1 << 16];
    let mut end = 0;
    for length in lengths {
        let source = Source::Inline(&data[..usize::try_from(*length).unwrap()]);
        draft.push_mapping(key::map(FIRST.object(Ino(7)), end + length), &mapping(end, source));
        end += length;
    }
    draft.mark_next_fresh();
    draft.push(key::inode(FIRST.object(Ino(7))), Some(Value::from(&[1, 2, 3][..])));
    draft.add_usage([UsageDelta { kind: QuotaKind::Volume, id: 0, bytes: 1, inodes: -1 }]);
    let (bytes, entry) = draft.finish();
    assert_eq!(entry.records.len(), lengths.len() + 2);
    assert_eq!(entry.fresh, [lengths.len() + 1]);
    assert_eq!(entry.encode(), *bytes);
    assert_eq!(Entry { fresh: entry.fresh.clone(), ..Entry::decode(&bytes).unwrap() }, entry);
    (bytes, entry)
}

#[test]
fn inline_data_of_one_mapping_stays_in_the_entry() {
    let (bytes, entry) = drafted(&[4096]);
    let value = entry.records[1].1.clone().unwrap();
    let within = bytes.as_ptr_range();
    assert!(within.contains(&value.as_ptr()) && value.memory_bytes() < 4096 + 512);
    assert_eq!(ExtentMapping::borrow(&value).unwrap(), mapping(0, Source::Inline(&[5; 4096])));
}

#[test]
fn small_mappings_do_not_keep_the_entry_in_memory() {
    let (_, entry) = drafted(&[4096, 4096, 100, 1]);
    let kept = entry.records.iter().flat_map(|(_, slot)| slot).map(Value::memory_bytes).sum::<usize>();
    assert!(kept < 3 * 4096);
    drafted(&[]);
    let (bytes, _) = Draft::default().finish();
    assert_eq!(*bytes, Entry::default().encode());
}
