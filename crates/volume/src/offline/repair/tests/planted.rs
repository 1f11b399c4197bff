//! Contradictions that tests plant, and what a repair makes of each.

use std::sync::Arc;

use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, ExtentId, Ino, SegmentId};
use crate::api::request::Error;
use crate::api::time::Time;
use crate::api::trees::TreeState;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Key, Table};
use crate::encoding::record::{
    CookieRecord, ExtentMapping, InodeRecord, MetaRecord, NameRecord, PendingTruncation, References,
    SegmentRecord, Source, TreeRecord, UsageRecord, VolumeRecord,
};
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::offline::check::FaultKind;
use crate::offline::check::tests::planter::Planter;
use crate::offline::check::tests::world::{OPTIONS, World, assert_clean, report};
use crate::offline::repair::{Repaired, repair};
use crate::tables::index::{Index, LostRanges};

/// Repairs a volume.
pub(super) fn mend(media: &Arc<MemoryMedia>) -> Repaired {
    try_mend(media).unwrap()
}

pub(super) fn try_mend(media: &Arc<MemoryMedia>) -> Result<Repaired, crate::OpenError> {
    repair(&(Arc::clone(media) as Arc<dyn Media>), &OPTIONS, 1000, Time::from_nanos(1 << 60))
}

/// Repairs a volume, which must be sound then.
#[track_caller]
pub(super) fn mend_all(planter: &Planter) -> Repaired {
    assert!(!report(&planter.media).is_clean(), "the fault is planted");
    let repaired = mend(&planter.media);
    assert!(repaired.is_replaced);
    assert_clean(&planter.media);
    assert!(!mend(&planter.media).is_replaced, "nothing is left to be repaired");
    repaired
}

/// Whether the repair lists this.
#[track_caller]
pub(super) fn lists(repaired: &Repaired, path: Option<&str>, words: &str) {
    let found = repaired.changes.iter().any(|c| c.path.as_deref() == path && c.what.contains(words));
    assert!(found, "{path:?} {words:?} in {repaired:#?}");
}

pub(super) fn inode(planter: &Planter, ino: Ino) -> InodeRecord {
    InodeRecord::decode(&planter.get(&key::inode(FIRST.object(ino)))).unwrap()
}

#[test]
fn every_object_comes_into_the_tree_of_its_directory() {
    let planter = Planter::new();
    let tree = planter.directory.0;
    planter.change_inode(planter.directory, |record| record.tree = tree);
    planter.change_inode(planter.other, |record| record.tree = 77);
    let ready = TreeRecord { state: TreeState::Ready };
    planter.put(&key::tree(FIRST.object(planter.directory)), Some(&ready.encode()));
    planter.put(&key::tree(FIRST.object(planter.file)), Some(&ready.encode()));
    mend_all(&planter);
    for ino in [planter.directory, planter.file, planter.symlink] {
        assert_eq!(inode(&planter, ino).tree, tree);
    }
    assert_eq!(inode(&planter, planter.other).tree, 0);
}

#[test]
fn a_sound_volume_is_left_alone() {
    let planter = Planter::new();
    let before = planter.media.index_file().bytes();
    let repaired = mend(&planter.media);
    assert_eq!((repaired.is_replaced, repaired.changes.len()), (false, 0));
    assert_eq!(repaired.tally.to_string(), "nothing changed");
    assert!(planter.media.damaged_indexes().is_empty());
    assert_eq!(planter.media.index_file().bytes().len(), before.len());
    assert_clean(&planter.media);
}

#[test]
fn a_name_is_restored_from_either_record() {
    let planter = Planter::new();
    let name = planter.name(planter.directory, "f");
    planter.put(&key::cookie(FIRST.object(planter.directory), name.cookie), None);
    planter.put(&key::name(FIRST.object(planter.directory), b"s"), None);
    let repaired = mend_all(&planter);
    assert_eq!((repaired.tally.names_restored, repaired.changes.len()), (2, 0));
    assert_eq!(planter.name(planter.directory, "f"), name);
    assert_eq!(planter.name(planter.directory, "s").ino, planter.symlink);
    assert_eq!(planter.media.damaged_indexes().len(), 1, "the old index is kept");
}

#[test]
fn a_name_that_leads_nowhere_is_removed() {
    let planter = Planter::new();
    let (before, other) = (inode(&planter, planter.directory), inode(&planter, planter.other));
    planter.put(&key::inode(FIRST.object(planter.symlink)), None);
    let repaired = mend_all(&planter);
    lists(&repaired, Some("/d/s"), "which does not exist");
    let after = inode(&planter, planter.directory);
    assert_eq!((after.entries, after.next_cookie), (1, before.next_cookie));
    assert!(after.change > before.change && after.ctime > before.ctime && after.mtime > before.mtime);
    assert_eq!(inode(&planter, planter.other), other, "others are not touched");
}

#[test]
fn names_that_contradict_each_other_are_settled() {
    // Two names have one cookie; one has a cookie of `..`; one has the wrong type.
    let planter = Planter::new();
    let (file, symlink) = (planter.name(planter.directory, "f"), planter.name(planter.directory, "s"));
    let same = NameRecord { cookie: file.cookie, ..symlink };
    planter.put(&key::name(FIRST.object(planter.directory), b"s"), Some(&same.encode()));
    let directory = NameRecord { cookie: Cookie(2), ..planter.name(Ino::ROOT, "d") };
    planter.put(&key::name(FIRST.object(Ino::ROOT), b"d"), Some(&directory.encode()));
    let other = NameRecord { file_type: FileType::Fifo, ..planter.name(Ino::ROOT, "e") };
    planter.put(&key::name(FIRST.object(Ino::ROOT), b"e"), Some(&other.encode()));
    mend_all(&planter);
    assert_eq!(planter.name(Ino::ROOT, "e").file_type, FileType::Directory);
    assert_ne!(planter.name(planter.directory, "s").cookie, file.cookie);
    let mut world = World::open(Arc::clone(&planter.media));
    world.remove(planter.directory, "s").unwrap();
    world.remove(planter.directory, "f").unwrap();
    world.rmdir(Ino::ROOT, "d").unwrap();
}

#[test]
fn what_has_no_name_is_moved_to_lost_and_found() {
    let planter = Planter::new();
    let name = planter.name(planter.directory, "f");
    planter.put(&key::cookie(FIRST.object(planter.directory), name.cookie), None);
    planter.put(&key::name(FIRST.object(planter.directory), b"f"), None);
    let repaired = mend_all(&planter);
    let path = format!("/lost+found/#{}", planter.file);
    lists(&repaired, Some(&path), "its name is lost");
    let found = planter.name(Ino::ROOT, "lost+found").ino;
    let record = inode(&planter, found);
    assert_eq!((record.mode, record.uid, record.gid), (0o700, 0, 0));
    let mut world = World::open(Arc::clone(&planter.media));
    assert!(world.read(planter.file).unwrap() == [5; 200_000]);
    // A second time, the same directory serves, and the name is taken.
    let number = format!("#{}", planter.file);
    let again = world.create(planter.directory, "g").unwrap();
    world.rename((found, &number), (found, &format!("#{again}"))).unwrap();
    let media = world.close();
    let planter = Planter { media, ..planter };
    let name = planter.name(planter.directory, "g");
    planter.put(&key::cookie(FIRST.object(planter.directory), name.cookie), None);
    planter.put(&key::name(FIRST.object(planter.directory), b"g"), None);
    let repaired = mend_all(&planter);
    lists(&repaired, Some(&format!("/lost+found/#{again}.2")), "its name is lost");
}

#[test]
fn a_file_of_the_name_lost_and_found_stays() {
    let mut world = World::new();
    let file = world.create(Ino::ROOT, "lost+found").unwrap();
    let media = world.close();
    let planter = Planter { media, directory: file, other: file, file, symlink: file };
    let record = InodeRecord { links: 1, ..crate::encoding::record::tests::record_of(FileType::Regular) };
    planter.put(&key::inode(FIRST.object(Ino(40))), Some(&record.encode()));
    let repaired = mend_all(&planter);
    lists(&repaired, Some("/lost+found.2/#40"), "its name is lost");
}

#[test]
fn what_has_no_name_is_not_put_where_others_than_root_can_reach_it() {
    for (uid, mode) in [(1000, 0o700), (0, 0o711), (0, 0o770)] {
        let mut world = World::new();
        let found = world.mkdir(Ino::ROOT, "lost+found").unwrap();
        let media = world.close();
        let planter = Planter { media, directory: found, other: found, file: found, symlink: found };
        planter.change_inode(found, |record| (record.uid, record.mode) = (uid, mode));
        let record = InodeRecord { links: 1, ..crate::encoding::record::tests::record_of(FileType::Regular) };
        planter.put(&key::inode(FIRST.object(Ino(40))), Some(&record.encode()));
        let repaired = mend(&planter.media);
        lists(&repaired, Some("/lost+found.2/#40"), "its name is lost");
        let record = inode(&planter, planter.name(Ino::ROOT, "lost+found.2").ino);
        assert_eq!((record.mode, record.uid, record.gid), (0o700, 0, 0));
        assert_eq!(inode(&planter, found).mode, mode, "a directory of others is not touched");
    }
}

#[test]
fn directories_that_lie_below_themselves_are_moved_out() {
    let planter = Planter::new();
    let mut world = World::open(Arc::clone(&planter.media));
    let inner = world.mkdir(planter.other, "inner").unwrap();
    let media = world.close();
    let planter = Planter { media, ..planter };
    // `/e` now lies in `inner`, which lies in it.
    let name = planter.name(Ino::ROOT, "e");
    planter.put(&key::name(FIRST.object(Ino::ROOT), b"e"), None);
    planter.put(&key::cookie(FIRST.object(Ino::ROOT), name.cookie), None);
    planter
        .put(&key::name(FIRST.object(inner), b"e"), Some(&NameRecord { cookie: Cookie(3), ..name }.encode()));
    let listed = CookieRecord { ino: name.ino, name: b"e".as_slice().into() };
    planter.put(&key::cookie(FIRST.object(inner), Cookie(3)), Some(&listed.encode()));
    let repaired = mend_all(&planter);
    assert_eq!(repaired.tally.objects_found, 1, "{repaired:#?}");
}

#[test]
fn a_directory_keeps_one_of_several_names() {
    let planter = Planter::new();
    let second = NameRecord { cookie: Cookie(90), ..planter.name(Ino::ROOT, "e") };
    planter.put(&key::name(FIRST.object(Ino::ROOT), b"a"), Some(&second.encode()));
    let third = NameRecord { cookie: Cookie(91), ..second };
    planter.put(&key::name(FIRST.object(planter.directory), b"third"), Some(&third.encode()));
    let repaired = mend_all(&planter);
    assert_eq!(repaired.tally.names_removed, 2, "{repaired:#?}");
}

#[test]
fn wrong_fields_are_counted_anew() {
    let planter = Planter::new();
    planter.change_inode(planter.directory, |record| {
        (record.entries, record.parent, record.next_cookie, record.links) = (5, planter.other, Cookie(4), 3);
    });
    planter.change_inode(planter.file, |record| {
        (record.links, record.size, record.parent, record.used) = (2, 150_000, Ino(9), 7);
        record.pending_truncations = vec![
            PendingTruncation { from: 900_000, count: 5 },
            PendingTruncation { from: 800_000, count: 6 },
        ];
        record.truncations = 1;
    });
    planter.change_inode(planter.symlink, |record| (record.size, record.xattrs) = (1, 3));
    planter.put(&key::usage(FIRST, 2, 77), Some(&UsageRecord { bytes: 1, inodes: 1 }.encode()));
    planter.put(&key::map_count(FIRST), Some(b"no number"));
    let repaired = mend_all(&planter);
    assert_eq!(repaired.tally.objects_corrected, 3);
    assert!(World::open(planter.media).read(planter.file).unwrap() == [5; 150_000], "no file grows");
}

#[test]
fn what_belongs_to_no_object_is_freed() {
    let planter = Planter::new();
    planter.put(&key::xattr(FIRST.object(Ino(300)), b"name"), Some(b"value"));
    planter.put(&key::symlink(FIRST.object(Ino(301))), Some(b"target"));
    planter.put(&key::orphan(FIRST.object(Ino(302))), Some(&[]));
    let (end, piece) = planter.pieces().remove(0);
    planter.put(&key::map(FIRST.object(Ino(303)), end), Some(&piece.encode()));
    planter.change_extent(|extent| extent.references = References::Each(2));
    let repaired = mend_all(&planter);
    assert_eq!(repaired.tally.objects_freed, 3, "{repaired:#?}");
    let mut world = World::open(planter.media);
    let media = {
        world.checkpoint();
        world.close()
    };
    let planter = Planter { media, ..planter };
    assert_clean(&planter.media);
    assert!(planter.rows(Table::Reap).is_empty() && planter.rows(Table::Xattr).is_empty());
    assert_eq!(planter.rows(Table::Map).len(), 2);
}

#[test]
fn data_that_no_extent_holds_is_lost_and_everything_else_is_counted_anew() {
    let planter = Planter::new();
    let (first, _) = planter.extent();
    planter.put(&key::extent(first), None);
    planter.put(&key::extent(ExtentId(900)), Some(&planter.extent().1.encode()));
    planter.put(&key::segment(SegmentId(90)), Some(&SegmentRecord { capacity: 4096, live: 5 }.encode()));
    let repaired = mend(&planter.media);
    lists(&repaired, Some("/d/f"), "it has lost 131072 bytes of data");
    assert_eq!(repaired.tally.extents_freed, 1);
    planter.expect(&[(
        FaultKind::Data,
        Some("/d/f"),
        "it has lost 131072 bytes of data, the first at byte 0: ",
    )]);
    assert!(!mend(&planter.media).is_replaced);
    let mut world = World::open(planter.media);
    assert_eq!(world.read(planter.file), Err(Error::Io));
    assert!(world.read_from(planter.file, 131_072).unwrap() == [5; 200_000 - 131_072]);
    world.remove(planter.directory, "f").unwrap();
    assert_clean(&world.close());
}

#[test]
fn a_missing_segment_costs_the_data_in_it() {
    let planter = Planter::new();
    for id in planter.media.list_blobs().unwrap() {
        planter.media.delete_blob(id).unwrap();
    }
    mend(&planter.media);
    planter.expect(&[(
        FaultKind::Data,
        Some("/d/f"),
        "it has lost 200000 bytes of data, the first at byte 0: ",
    )]);
    let mut world = World::open(planter.media);
    world.write(planter.file, 0, &[6; 200_000], crate::api::results::Stability::FileSync).unwrap();
    assert!(world.read(planter.file).unwrap() == [6; 200_000]);
    assert_clean(&world.close());
}

#[test]
fn mappings_that_contradict_each_other_are_lost_data() {
    let planter = Planter::new();
    let (end, piece) = planter.pieces().remove(0);
    // One overlaps the next, one is inline, one is empty, one lies beyond all files.
    planter.put_mapping(planter.file, end + 10, piece.start + 5, piece.source.clone());
    planter.put_mapping(planter.file, 300_000, 250_000, Source::Inline([1; 9].as_slice().into()));
    planter.put_mapping(planter.file, 310_000, 310_000, Source::Hole);
    planter.put_mapping(planter.file, u64::MAX, 400_000, piece.source);
    planter.put_mapping(planter.directory, 10, 0, Source::Hole);
    mend(&planter.media);
    let said = report(&planter.media);
    assert!(said.faults.iter().all(|fault| fault.kind == FaultKind::Data), "{said:#?}");
    assert!(!mend(&planter.media).is_replaced);
}

#[test]
fn records_that_make_no_sense_are_dropped() {
    let planter = Planter::new();
    planter.put(&[9, 9, 9], Some(b"unknown"));
    planter.put(&key::reply(FIRST, b"request"), Some(b"no reply"));
    planter.put(&key::inode(FIRST.object(planter.file)), Some(b"no record"));
    let name = planter.name(Ino::ROOT, "e");
    planter.put(&key::cookie(FIRST.object(Ino::ROOT), name.cookie), Some(b"no"));
    let (end, _) = planter.pieces().remove(0);
    planter.put(&key::map(FIRST.object(planter.file), end), Some(b"no mapping"));
    let repaired = mend(&planter.media);
    // Opening drops the reply.
    assert_eq!(repaired.tally.records_dropped, 4, "{repaired:#?}");
    lists(&repaired, Some("/d/f"), "its record was lost");
    planter.expect(&[(
        FaultKind::Data,
        Some("/d/f"),
        "it has lost 131072 bytes of data, the first at byte 0: ",
    )]);
    let record = inode(&planter, planter.file);
    assert_eq!((record.mode, record.size, record.uid), (0o600, 200_000, 0));
}

#[test]
fn a_key_that_makes_no_sense_is_not_taken_for_another() {
    let planter = Planter::new();
    let (end, mapping) = planter.pieces().remove(0);
    let key = [&key::map(FIRST.object(planter.file), end)[..], &[0]].concat();
    planter.put(&key, Some(&mapping.encode()));
    let repaired = mend_all(&planter);
    assert_eq!(repaired.tally.records_dropped, 1);
    assert!(World::open(planter.media).read(planter.file).unwrap() == [5; 200_000]);
}

#[test]
fn a_lost_root_and_numbers_that_were_handed_out_are_restored() {
    let planter = Planter::new();
    planter.put(&key::inode(FIRST.object(Ino::ROOT)), None);
    let mut meta = MetaRecord::decode(&planter.get(&key::meta())).unwrap();
    let before = meta.clone();
    (meta.next_extent, meta.next_segment) = (ExtentId(1), SegmentId(1));
    planter.put(&key::meta(), Some(&meta.encode()));
    let volume = VolumeRecord::decode(&planter.get(&key::volume(FIRST))).unwrap();
    planter.put(&key::volume(FIRST), Some(&VolumeRecord { next_ino: Ino(2), ..volume.clone() }.encode()));
    mend_all(&planter);
    let root = inode(&planter, Ino::ROOT);
    assert_eq!((root.mode, root.links, root.parent), (0o700, 4, Ino::ROOT));
    let meta = MetaRecord::decode(&planter.get(&key::meta())).unwrap();
    assert_eq!(meta.next_extent, before.next_extent);
    assert_eq!(VolumeRecord::decode(&planter.get(&key::volume(FIRST))), Ok(volume));
}

#[test]
fn a_symbolic_link_without_target_is_removed() {
    let planter = Planter::new();
    planter.put(&key::symlink(FIRST.object(planter.symlink)), None);
    let repaired = mend_all(&planter);
    lists(&repaired, Some("/d/s"), "the target of the symbolic link is lost");
    assert!(
        planter.rows(Table::Inode).iter().all(|(key, _)| *key != key::inode(FIRST.object(planter.symlink)))
    );
}

#[test]
fn a_volume_that_cannot_be_opened_is_refused() {
    let planter = Planter::new();
    let mapping: ExtentMapping = ExtentMapping { start: 0, birth: 0, source: Source::Lost };
    let key: Key = key::map(FIRST.object(planter.file), 10);
    let records = vec![(key, Some(mapping.encode().into()))];
    planter.journal(&crate::encoding::entry::Entry { records, ..Default::default() });
    let before = (report(&planter.media), planter.media.log.bytes());
    let refused = try_mend(&planter.media).unwrap_err();
    assert!(refused.to_string().contains("journal"), "{refused}");
    assert!((report(&planter.media), planter.media.log.bytes()) == before);
}

#[test]
fn lost_state_of_clients_stays_lost_until_they_are_told() {
    let planter = Planter::new();
    planter.put(&key::state(FIRST, b"C1"), Some(b"a client"));
    let index = Index::open(planter.media.index(), 1 << 20).unwrap();
    let update = index.begin().unwrap();
    let mut lost = LostRanges::default();
    // The end of the table, and the files without a name.
    lost.add(&key::state(FIRST, b"C2"), &key::table_range(FIRST, Table::Orphan).1);
    update.put_lost(&lost).unwrap();
    update.commit().unwrap();
    drop(index);
    let repaired = mend(&planter.media);
    assert!(repaired.tally.is_state_lost && repaired.is_replaced);
    let said = assert_clean(&planter.media);
    assert!(said.notes.iter().any(|note| note.contains("opens and locks are lost")), "{said:?}");
    let again = mend(&planter.media);
    assert!(!again.is_replaced && !again.tally.is_state_lost);
    let mut world = World::open(Arc::clone(&planter.media));
    let scanned = world.volume.scan_state(&mut |_, _| {});
    assert_eq!(scanned, Err(Error::Io), "whoever keeps the state drops all of it");
    world.volume.settle_state();
    world.mkdir(Ino::ROOT, "a change").unwrap();
    let said = assert_clean(&world.close());
    assert_eq!(said.notes, Vec::<String>::new());
}

#[test]
fn a_file_that_was_removed_while_it_was_open_goes_on_being_removed() {
    let planter = Planter::new();
    planter.change_inode(planter.file, |record| record.links = 0);
    let name = planter.name(planter.directory, "f");
    planter.put(&key::name(FIRST.object(planter.directory), b"f"), None);
    planter.put(&key::cookie(FIRST.object(planter.directory), name.cookie), None);
    mend_all(&planter);
    assert_eq!(planter.rows(Table::Orphan).len(), 1);
    assert!(planter.rows(Table::Name).len() == 3, "nothing is moved to lost+found");
}
