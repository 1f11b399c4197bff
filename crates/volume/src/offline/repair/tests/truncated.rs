//! What was cut off a file stays cut off.

use std::sync::Arc;

use super::planted::{inode, lists, mend, mend_all};
use crate::api::ids::ExtentId;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Key, Table};
use crate::encoding::record::{ExtentMapping, PendingTruncation, Source};
use crate::media::Media;
use crate::offline::check::FaultKind;
use crate::offline::check::tests::planter::Planter;
use crate::offline::check::tests::world::{World, assert_clean};
use crate::tables::index::{Index, LostRanges};

/// Bytes that a truncation left of the file.
const LEFT: u64 = 100_000;

/// A volume whose file was truncated, which no checkpoint has completed; nor does one, as it is not listed.
fn truncated() -> Planter {
    let planter = Planter::new();
    planter.change_inode(planter.file, |record| {
        (record.size, record.mapped_end, record.used, record.truncations) = (LEFT, LEFT, LEFT, 1);
        record.pending_truncations = vec![PendingTruncation { from: LEFT, count: 1 }];
    });
    planter
}

/// Removes records, and lists them as lost.
fn lose(planter: &Planter, keys: &[Key]) {
    let index = Index::open(planter.media.index(), 1 << 20).unwrap();
    let update = index.begin().unwrap();
    let mut lost = LostRanges::default();
    for key in keys {
        update.records().unwrap().delete(key).unwrap();
        lost.add(key, &key.successor());
    }
    update.put_lost(&lost).unwrap();
    update.commit().unwrap();
}

/// Where each mapping of the file begins and ends.
fn mapped(planter: &Planter) -> Vec<(u64, u64)> {
    planter.pieces().iter().map(|(end, mapping)| (mapping.start, *end)).collect()
}

#[test]
fn lost_data_that_was_cut_off_does_not_make_a_file_grow() {
    let planter = truncated();
    for (key, _) in planter.rows(Table::Extent) {
        planter.put(&key, None);
    }
    let repaired = mend(&planter.media);
    lists(&repaired, Some("/d/f"), "it has lost 100000 bytes of data");
    let record = inode(&planter, planter.file);
    assert_eq!((record.size, record.mapped_end, record.used), (LEFT, LEFT, LEFT));
    assert_eq!(mapped(&planter), [(0, LEFT)]);
    planter.expect(&[(FaultKind::Data, Some("/d/f"), "it has lost 100000 bytes of data")]);
    assert!(!mend(&planter.media).is_replaced);
}

#[test]
fn lost_mappings_are_not_sought_where_a_file_was_cut_off() {
    let planter = truncated();
    let keys: Vec<Key> = planter.rows(Table::Map).into_iter().map(|(key, _)| key).collect();
    lose(&planter, &keys);
    mend(&planter.media);
    let record = inode(&planter, planter.file);
    assert_eq!((record.size, record.mapped_end), (LEFT, LEFT));
    assert_eq!(mapped(&planter), [(0, LEFT)]);
}

#[test]
fn data_beyond_the_end_of_a_file_is_dropped() {
    let planter = Planter::new();
    let (end, mapping) = planter.pieces().pop().unwrap();
    let beyond = ExtentMapping { start: end + 5, ..mapping };
    planter.put(&key::map(FIRST.object(planter.file), end + 10), Some(&beyond.encode()));
    let lost = ExtentMapping { start: end + 10, source: Source::Lost, ..beyond };
    planter.put(&key::map(FIRST.object(planter.file), end + 20), Some(&lost.encode()));
    planter.change_inode(planter.file, |record| (record.size, record.mapped_end) = (LEFT, LEFT));
    mend_all(&planter);
    assert_eq!(mapped(&planter), [(0, LEFT)]);
    let data = World::open(planter.media).read(planter.file).unwrap();
    assert!(u64::try_from(data.len()) == Ok(LEFT) && data.iter().all(|byte| *byte == 5));
}

#[test]
fn a_truncation_that_is_not_listed_is_completed() {
    let planter = truncated();
    // Something else is repaired, too.
    planter.put(&key::segment(crate::api::ids::SegmentId(900)), Some(b"no record"));
    mend_all(&planter);
    let mut world = World::open(Arc::clone(&planter.media));
    world.checkpoint();
    let planter = Planter { media: world.close(), ..planter };
    assert_clean(&planter.media);
    assert!(inode(&planter, planter.file).pending_truncations.is_empty());
    assert_eq!(mapped(&planter), [(0, LEFT)]);
}

#[test]
fn data_is_not_readable_if_it_may_have_been_cut_off() {
    let planter = truncated();
    lose(&planter, &[key::inode(FIRST.object(planter.file)), key::reap(FIRST.object(planter.file))]);
    mend(&planter.media);
    planter.expect(&[(
        FaultKind::Data,
        Some("/d/f"),
        "it has lost 200000 bytes of data, the first at byte 0",
    )]);
    assert!(World::open(planter.media).read(planter.file).is_err());
    // If no truncation of it can be pending, its data is what it was.
    let planter = Planter::new();
    lose(&planter, &[key::inode(FIRST.object(planter.file)), key::extent(ExtentId(900))]);
    mend(&planter.media);
    assert!(World::open(planter.media).read(planter.file).unwrap() == [5; 200_000]);
}
