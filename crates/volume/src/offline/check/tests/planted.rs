//! Planted faults of each kind.

use std::sync::Arc;

use super::planter::Planter;
use super::world::{World, assert_clean, report};
use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, ExtentId, Ino, SegmentId};
use crate::api::trees::TreeState;
use crate::encoding::entry::Entry;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Key};
use crate::encoding::record::{
    ExtentMapping, InodeRecord, MapCountRecord, NameRecord, PendingTruncation, References, SegmentRecord,
    Source, TreeRecord, UsageRecord,
};
use crate::media::Media;
use crate::offline::check::{CheckOptions, FaultKind, Obstacle, check};

#[test]
fn names_missing_from_readdir_are_reported() {
    let planter = Planter::new();
    let cookie = planter.name(planter.directory, "f").cookie;
    planter.put(&key::cookie(FIRST.object(planter.directory), cookie), None);
    planter.expect(&[(FaultKind::Name, Some("/d/f"), "READDIR does not list this name")]);
}

#[test]
fn names_missing_from_lookup_are_reported() {
    let planter = Planter::new();
    planter.put(&key::name(FIRST.object(planter.directory), b"s"), None);
    planter.expect(&[
        (FaultKind::Name, Some("/d/s"), "LOOKUP does not find it"),
        (FaultKind::Tree, None, "has no name"),
        (FaultKind::Directory, Some("/d"), "its name count is 2, but should be 1"),
    ]);
}

#[test]
fn wrong_cookies_and_inodes_of_names_are_reported() {
    let planter = Planter::new();
    let name = planter.name(planter.directory, "s");
    let moved = NameRecord { cookie: Cookie(900), ..name };
    planter.put(&key::name(FIRST.object(planter.directory), b"s"), Some(&moved.encode()));
    planter.expect(&[
        (FaultKind::Name, Some("/d/s"), "its place in the listing, 900, is empty"),
        (FaultKind::Name, Some("/d/s"), "it belongs at 900"),
        (FaultKind::Directory, Some("/d"), "a name has cookie 900"),
    ]);
    let wrong = NameRecord { ino: planter.other, file_type: FileType::Directory, ..name };
    planter.put(&key::name(FIRST.object(planter.directory), b"s"), Some(&wrong.encode()));
    let report = report(&planter.media);
    assert!(report.faults.iter().any(|fault| fault.what.contains("READDIR lists inode")), "{report:?}");
}

#[test]
fn names_of_missing_inodes_or_wrong_types_are_reported() {
    let planter = Planter::new();
    let name = planter.name(planter.directory, "f");
    planter.put(&key::inode(FIRST.object(planter.symlink)), None);
    planter.put(
        &key::name(FIRST.object(planter.directory), b"f"),
        Some(&NameRecord { file_type: FileType::Fifo, ..name }.encode()),
    );
    let report = planter.expect(&[
        (FaultKind::Name, Some("/d/s"), "which does not exist"),
        (FaultKind::Name, Some("/d/f"), "the name says Fifo, its inode says Regular"),
        (FaultKind::Symlink, None, "which does not exist"),
        (
            FaultKind::Usage,
            None,
            "counter of the volume says 200000 bytes in 5 objects, but should say 200000 bytes in 4 objects",
        ),
        (FaultKind::Usage, None, "user 0"),
        (FaultKind::Usage, None, "group 0"),
    ]);
    assert!(!report.is_clean());
}

#[test]
fn objects_in_another_tree_than_their_directory_are_reported() {
    let planter = Planter::new();
    planter.change_inode(planter.directory, |record| record.tree = planter.directory.0);
    let ready = TreeRecord { state: TreeState::Ready };
    planter.put(&key::tree(FIRST.object(planter.directory)), Some(&ready.encode()));
    let report = report(&planter.media);
    for (path, what) in [
        (Some("/d/f"), "it is in no quota tree, but should be in quota tree"),
        (Some("/d/s"), "it is in no quota tree, but should be in quota tree"),
        (None, "the usage counter of quota tree"),
    ] {
        let is_it = |fault: &crate::check::Fault| fault.path.as_deref() == path && fault.what.contains(what);
        assert!(report.faults.iter().any(is_it), "{path:?} {what}: {report:#?}");
    }
    assert_eq!(report.faults.len(), 3, "{report:#?}");
    // A tree that is being made has not met them yet.
    let creating = TreeRecord { state: TreeState::Creating };
    planter.put(&key::tree(FIRST.object(planter.directory)), Some(&creating.encode()));
    planter.expect(&[(FaultKind::Usage, None, "the usage counter of quota tree")]);
    // One without a directory.
    planter.put(&key::tree(FIRST.object(planter.directory)), None);
    planter.put(&key::tree(FIRST.object(Ino(999))), Some(&ready.encode()));
    planter.expect(&[
        (FaultKind::Inode, Some("/d"), "should be in no quota tree"),
        (FaultKind::Inode, Some("/d/f"), "it is in no quota tree"),
        (FaultKind::Inode, Some("/d/s"), "it is in no quota tree"),
        (FaultKind::Record, None, "quota tree 999 has no directory"),
        (FaultKind::Usage, None, "the usage counter of quota tree"),
    ]);
}

#[test]
fn wrong_fields_of_a_directory_are_reported() {
    let planter = Planter::new();
    planter.change_inode(planter.directory, |record| {
        record.entries = 5;
        record.parent = planter.other;
        record.next_cookie = Cookie(4);
        record.links = 3;
    });
    planter.expect(&[
        (FaultKind::Directory, Some("/d"), "its name count is 5, but should be 2"),
        (FaultKind::Directory, Some("/d"), "its parent is inode"),
        (FaultKind::Directory, Some("/d"), "the next name would be given cookie 4"),
        (FaultKind::Links, Some("/d"), "its link count is 3, but should be 2"),
    ]);
}

#[test]
fn wrong_fields_of_a_file_are_reported() {
    let planter = Planter::new();
    planter.change_inode(planter.file, |record| {
        record.links = 2;
        record.size = 100;
        record.parent = Ino(9);
        record.pending_truncations = vec![
            PendingTruncation { from: 900_000, count: 5 },
            PendingTruncation { from: 800_000, count: 6 },
        ];
    });
    planter.expect(&[
        (FaultKind::Links, Some("/d/f"), "its link count is 2, but should be 1"),
        (FaultKind::Inode, Some("/d/f"), "beyond its size of 100"),
        (FaultKind::Inode, Some("/d/f"), "as parent"),
        (FaultKind::Inode, Some("/d/f"), "pending truncations"),
        (FaultKind::Usage, None, "the usage counter of the volume says 200000 bytes in 5 objects"),
    ]);
}

#[test]
fn directory_cycles_and_orphans_are_reported() {
    let planter = Planter::new();
    // `/d` is taken out of the root and put into a directory below itself.
    planter.put(&key::name(FIRST.object(Ino::ROOT), b"e"), None);
    planter.put(&key::cookie(FIRST.object(Ino::ROOT), planter.name(Ino::ROOT, "d").cookie), None);
    planter.put(&key::name(FIRST.object(Ino::ROOT), b"d"), None);
    let into = |directory: Ino, ino: Ino| {
        let record = NameRecord { ino, cookie: Cookie(50), file_type: FileType::Directory };
        planter.put(&key::name(FIRST.object(directory), b"x"), Some(&record.encode()));
    };
    into(planter.directory, planter.other);
    into(planter.other, planter.directory);
    planter.change_inode(planter.file, |record| record.links = 1);
    let report = report(&planter.media);
    let cycles = report.faults.iter().filter(|fault| fault.what.contains("lies below itself")).count();
    assert_eq!(cycles, 1, "{report:#?}");

    let planter = Planter::new();
    let orphan = InodeRecord::decode(&planter.get(&key::inode(FIRST.object(planter.file)))).unwrap();
    let orphan = InodeRecord { used: 0, mapped_end: 0, ..orphan };
    planter.put(&key::inode(FIRST.object(Ino(4000))), Some(&orphan.encode()));
    planter.put(&key::usage(FIRST, 0, 0), Some(&UsageRecord { bytes: 200_000, inodes: 6 }.encode()));
    planter.put(&key::usage(FIRST, 2, 0), Some(&UsageRecord { bytes: 200_000, inodes: 6 }.encode()));
    planter.expect(&[
        (FaultKind::Number, None, "inode 4000 exists, but the next inode"),
        (FaultKind::Tree, None, "inode 4000 (Regular, 200000 bytes) has no name"),
        (FaultKind::Usage, None, "the usage counter of group 0 says 200000 bytes in 5 objects"),
    ]);
}

#[test]
fn a_missing_root_is_reported() {
    let planter = Planter::new();
    planter.put(&key::inode(FIRST.object(Ino::ROOT)), None);
    let report = report(&planter.media);
    assert!(report.faults.iter().any(|fault| fault.what == "the root directory is missing"), "{report:#?}");
}

#[test]
fn symbolic_links_without_target_are_reported() {
    let planter = Planter::new();
    planter.put(&key::symlink(FIRST.object(planter.symlink)), None);
    planter.put(&key::symlink(FIRST.object(planter.file)), Some(b"x"));
    planter.expect(&[
        (FaultKind::Symlink, Some("/d/s"), "has no target"),
        (FaultKind::Symlink, Some("/d/f"), "is not a symbolic link"),
    ]);
    planter.put(&key::symlink(FIRST.object(planter.file)), None);
    planter.put(&key::symlink(FIRST.object(planter.symlink)), Some(b"x\0"));
    planter.expect(&[
        (FaultKind::Symlink, Some("/d/s"), "no client can use"),
        (FaultKind::Symlink, Some("/d/s"), "has 2 bytes, but it says 6"),
    ]);
}

#[test]
fn uncounted_and_unowned_extended_attributes_are_reported() {
    let planter = Planter::new();
    planter.put(&key::xattr(FIRST.object(planter.file), b"name"), Some(b"value"));
    planter.expect(&[(
        FaultKind::Inode,
        Some("/d/f"),
        "extended attribute count is 0 (0 bytes), but should be 1 (",
    )]);
    let planter = Planter::new();
    planter.put(&key::xattr(FIRST.object(Ino(77)), b"name"), Some(b"value"));
    planter.expect(&[(FaultKind::Inode, None, "inode 77, which does not exist, has 1 extended attribute")]);
    // Attributes that are waiting to be freed are no fault.
    planter.put(&key::reap(FIRST.object(Ino(77))), Some(&[]));
    assert_clean(&planter.media);
}

#[test]
fn overlapping_and_overlong_maps_are_reported() {
    let planter = Planter::new();
    let (id, _) = planter.extent();
    planter.put_mapping(planter.file, 1000, 0, Source::Extent { id, offset: 0 });
    planter.expect(&[
        (FaultKind::Map, Some("/d/f"), "overlaps the mapping before it"),
        (FaultKind::Used, Some("/d/f"), "its count of used bytes is 200000, but should be 201000"),
        (FaultKind::Extent, Some("/d/f"), "is 1, but should be 2 of sectors 0 to 1, 1 of sectors 2 to 255"),
    ]);
    planter.put(&key::map(FIRST.object(planter.file), 1000), None);
    planter.put_mapping(planter.file, 300_000, 290_000, Source::Extent { id, offset: 131_000 });
    planter.expect(&[
        (FaultKind::Map, Some("/d/f"), "the mapping of bytes 290000 to 299999 reaches beyond byte 200000"),
        (FaultKind::Used, Some("/d/f"), "210000"),
        (
            FaultKind::Extent,
            Some("/d/f"),
            "is 1, but should be 1 of sectors 0 to 254, 2 of sectors 255 to 255",
        ),
        (FaultKind::Extent, Some("/d/f"), "reaches 141000 bytes into extent"),
    ]);
    planter.put(&key::map(FIRST.object(planter.file), 300_000), None);
    planter.put_mapping(planter.file, 300_000, 299_999, Source::Inline(Arc::from(&[1][..])));
    planter.put_mapping(Ino(3999), 8, 0, Source::Extent { id: ExtentId(77_777), offset: 0 });
    planter.expect(&[
        (FaultKind::Map, Some("/d/f"), "inline"),
        (FaultKind::Map, Some("/d/f"), "reaches beyond"),
        (FaultKind::Used, Some("/d/f"), "200001"),
        (FaultKind::Map, None, "data of inode 3999, which does not exist"),
        (FaultKind::Extent, None, "extent 77777, which does not exist"),
    ]);
}

#[test]
fn a_removed_file_that_awaits_reaping_is_not_a_fault() {
    let planter = Planter::new();
    let mut world = World::open(Arc::clone(&planter.media));
    world.remove(planter.directory, "f").unwrap();
    let media = world.kill();
    assert_clean(&media);
    let planter = Planter { media, ..planter };
    planter.put(&key::map(FIRST.object(planter.file), 200_000), None);
    let report = report(&planter.media);
    assert!(report.faults.iter().all(|fault| fault.kind == FaultKind::Extent), "{report:#?}");
}

#[test]
fn wrong_byte_counts_are_reported() {
    let planter = Planter::new();
    planter.change_inode(planter.file, |record| record.used = 1);
    let report = report(&planter.media);
    assert!(report.faults.iter().any(|fault| fault.kind == FaultKind::Used), "{report:#?}");
    assert!(report.faults.iter().any(|fault| fault.kind == FaultKind::Usage), "{report:#?}");
}

#[test]
fn missing_and_misplaced_extents_are_reported() {
    let planter = Planter::new();
    let (id, _) = planter.extent();
    planter.change_extent(|record| record.references = References::Each(4));
    planter.expect(&[(FaultKind::Extent, Some("/d/f"), "is 4, but should be 1")]);
    planter.change_extent(|record| {
        (record.references, record.offset) = (References::Each(1), record.offset + 100_000)
    });
    let found = report(&planter.media);
    assert!(found.faults.iter().any(|fault| fault.what.contains("overlaps another one")), "{found:#?}");
    assert!(found.faults.iter().any(|fault| fault.kind == FaultKind::Data), "{found:#?}");
    planter.change_extent(|record| record.offset = 1 << 30);
    let found = report(&planter.media);
    assert!(found.faults.iter().any(|fault| fault.what.contains("is not within it")), "{found:#?}");
    planter.put(&key::extent(id), None);
    let found = report(&planter.media);
    let missing = format!("data from byte 0 on lies in extent {id}, which does not exist");
    assert!(found.faults.iter().any(|fault| fault.what == missing), "{found:#?}");
    assert!(found.faults.iter().any(|fault| fault.kind == FaultKind::Segment), "{found:#?}");
}

#[test]
fn missing_segments_and_wrong_live_bytes_are_reported() {
    let planter = Planter::new();
    let (_, extent) = planter.extent();
    let row = key::segment(extent.segment);
    let sound = planter.get(&row);
    let capacity = SegmentRecord::decode(&sound).unwrap().capacity;
    planter.put(&row, Some(&SegmentRecord { capacity, live: 3 }.encode()));
    planter.expect(&[(FaultKind::Segment, None, "is 3, but should be 200000")]);
    planter.put(&row, None);
    planter.expect(&[(FaultKind::Segment, Some("/d/f"), "of which neither index nor journal knows")]);
    planter.put(&row, Some(&sound));
    planter.media.create_blob(SegmentId(500), 4096).unwrap();
    assert_eq!(
        assert_clean(&planter.media).notes,
        ["segment 00000000000001f4 is not in use; the next start deletes its file"]
    );
    planter.media.delete_blob(SegmentId(500)).unwrap();
    planter.media.delete_blob(extent.segment).unwrap();
    planter.expect(&[(FaultKind::Segment, Some("/d/f"), "200000 bytes of data should be in segment")]);
}

#[test]
fn damaged_file_data_is_reported() {
    let planter = Planter::new();
    let (_, extent) = planter.extent();
    let flip = |at: u64| planter.media.blob(extent.segment).flip(usize::try_from(at).unwrap(), 1);
    flip(extent.offset + 9_000);
    planter.expect(&[(FaultKind::Data, Some("/d/f"), "its data near byte 8192 is damaged")]);
    // Damaged blocks next to each other are one fault.
    [13_000, 17_000, 30_000].into_iter().for_each(|at| flip(extent.offset + at));
    planter.expect(&[
        (FaultKind::Data, Some("/d/f"), "its data near byte 8192 is damaged"),
        (FaultKind::Data, Some("/d/f"), "its data near byte 28672 is damaged"),
    ]);
    [9_000, 13_000, 17_000, 30_000].into_iter().for_each(|at| flip(extent.offset + at));
    flip(extent.offset - 5);
    planter.expect(&[(FaultKind::Data, Some("/d/f"), "the header of extent")]);
}

#[test]
fn a_wrong_number_of_mappings_is_reported() {
    let planter = Planter::new();
    planter.put(&key::map_count(FIRST), Some(&MapCountRecord { mappings: 77 }.encode()));
    planter.expect(&[(
        FaultKind::Usage,
        None,
        "the number of mappings of the volume is recorded as 77, but should be",
    )]);
}

#[test]
fn wrong_usage_is_reported() {
    let planter = Planter::new();
    planter.put(&key::usage(FIRST, 0, 0), Some(&UsageRecord { bytes: 1, inodes: 5 }.encode()));
    planter.put(&key::usage(FIRST, 2, 1000), Some(&UsageRecord { bytes: 0, inodes: 2 }.encode()));
    planter.expect(&[
        (
            FaultKind::Usage,
            None,
            "the volume says 1 byte in 5 objects, but should say 200000 bytes in 5 objects",
        ),
        (FaultKind::Usage, None, "user 1000 says 0 bytes in 2 objects, but should say 0 bytes in 0 objects"),
    ]);
}

#[test]
fn malformed_records_are_reported() {
    let planter = Planter::new();
    planter.put(&[0, 0, 0, 1, 0x77, 1, 2], Some(b"?"));
    planter.put(&[9, 9], Some(b"?"));
    planter.put(&key::extent(ExtentId(5000)), Some(b"?"));
    planter.expect(&[
        (FaultKind::Record, None, "unknown record, key 00000001770102"),
        (FaultKind::Record, None, "unknown record, key 0909"),
        (FaultKind::Record, None, "a record of table Extent"),
        (FaultKind::Number, None, "extent 5000 exists"),
    ]);
}

#[test]
fn malformed_journal_entries_are_reported() {
    let planter = Planter::new();
    let inline = ExtentMapping { start: 0, birth: 0, source: Source::Inline(Arc::from(&[1; 5][..])) };
    let entry = Entry {
        records: vec![
            (key::map(FIRST.object(planter.file), 100), Some(inline.encode().into())),
            (key::segment(SegmentId(300)), Some(b"?"[..].into())),
            (Key::from(&[1][..]), None),
        ],
        ..Entry::default()
    };
    planter.journal(&entry);
    planter.expect(&[
        (FaultKind::Journal, Some("/d/f"), "malformed map record"),
        (FaultKind::Journal, None, "malformed segment record"),
        (FaultKind::Journal, None, "unknown record, key 01"),
    ]);
    let options = CheckOptions { faults_max: 0, ..CheckOptions::default() };
    let media: Arc<dyn Media> = Arc::clone(&planter.media) as Arc<dyn Media>;
    let unlisted = check(&media, &options).unwrap();
    assert_eq!((unlisted.obstacle, unlisted.repairable_faults), (Some(Obstacle::Journal), 0));
}

#[test]
fn a_damaged_journal_is_a_fault_and_a_torn_one_is_not() {
    let mut world = World::new();
    for number in 0..4 {
        world.create(Ino::ROOT, &format!("{number}")).unwrap();
        world.commit();
    }
    let media = world.kill();
    let batches = assert_clean(&media);
    let heads: Vec<usize> = media
        .log
        .bytes()
        .chunks(4096)
        .enumerate()
        .filter(|(_, b)| b.starts_with(b"HFBATCH2"))
        .map(|(n, _)| n * 4096)
        .collect();
    assert!(heads.len() >= 4, "{batches:?}");
    let last = *heads.last().unwrap();
    media.log.damage(|bytes| bytes[last + 100] ^= 1);
    let torn = assert_clean(&media);
    assert_eq!(torn.summary.journal_cut_bytes, 4096);
    assert!(
        torn.notes.iter().any(|note| note.contains("the next start discards 4096 bytes of changes")),
        "{torn:#?}"
    );
    assert_eq!(torn.summary.journal_entries + 1, batches.summary.journal_entries);
    media.log.damage(|bytes| bytes[heads[1] + 100] ^= 1);
    let damaged = report(&media);
    assert_eq!(damaged.faults.len(), 1, "{damaged:#?}");
    assert!(damaged.faults[0].what.contains("the journal is damaged"), "{damaged:#?}");
    media.log.damage(|bytes| bytes.fill(0));
    assert_eq!(report(&media).faults[0].kind, FaultKind::Journal);
}

#[test]
fn the_number_of_listed_faults_is_bounded() {
    let planter = Planter::new();
    for number in 0..20 {
        planter
            .put(&key::usage(FIRST, 2, 1000 + number), Some(&UsageRecord { bytes: 0, inodes: 2 }.encode()));
    }
    let media = Arc::clone(&planter.media) as Arc<dyn Media>;
    let options = CheckOptions { read_data: false, faults_max: 7 };
    let report = check(&media, &options).unwrap();
    assert_eq!((report.faults.len(), report.more_faults, report.summary.verified_bytes), (7, 13, 0));
    assert!(!report.is_clean());
}

#[test]
fn extents_are_where_the_test_expects_them() {
    let planter = Planter::new();
    let pieces = planter.pieces();
    assert_eq!(
        pieces.iter().map(|(end, piece)| (piece.start, *end)).collect::<Vec<_>>(),
        [(0, 131_072), (131_072, 200_000)]
    );
}
