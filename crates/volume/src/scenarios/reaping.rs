//! Files with very many mappings are removed and truncated in bounded portions.

use std::sync::Arc;

use super::world::World;
use crate::api::ids::Ino;
use crate::api::quotas::QuotaKind;
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::encoding::record::{
    ExtentMapping, ExtentRecord, InodeRecord, MapCountRecord, References, SegmentRecord, Source, Span,
    UsageRecord, sectors,
};
use crate::limits::REAPED_MAPPINGS_MAX;
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::tables::index::Index;

/// Mappings of the file: more than two checkpoints can free.
pub(super) const PIECES: u64 = 2 * REAPED_MAPPINGS_MAX as u64 + 5_000;

/// Bytes between the starts of two mappings.
pub(super) const APART: u64 = 8192;

/// Returns a volume with one file of [`PIECES`] mappings of one extent.
pub(super) fn world_with_a_file_in_pieces() -> (World, Ino) {
    let (disk, file, now) = disk_with_a_file_in_pieces(APART);
    let world = World::open(disk, now);
    world.check();
    (world, file)
}

/// Returns a closed volume with one file of [`PIECES`] mappings of one extent, `apart` bytes apart. They are written directly
/// into the index, since writing them through operations would take minutes.
pub(super) fn disk_with_a_file_in_pieces(apart: u64) -> (Arc<MemoryMedia>, Ino, Time) {
    let mut world = World::on(MemoryMedia::new());
    let file = world.file("f");
    world.write_unstable(file, 0, &[7; 70_000]);
    world.reopen();
    let now = world.now();
    world.volume.close(now).unwrap();
    let disk = world.disk.after_kill();
    drop(world);
    let index = Index::open(disk.index(), 8 << 20).unwrap();
    let view = index.snapshot().unwrap();
    let mut record =
        InodeRecord::decode(&view.get(&key::inode(FIRST.object(file))).unwrap().unwrap()).unwrap();
    let mut old = Vec::new();
    view.scan(
        &key::map(FIRST.object(file), 0),
        &key::map(FIRST.object(file), u64::MAX),
        &mut |key, value| {
            old.push((key.to_vec(), ExtentMapping::decode(value).unwrap()));
            std::ops::ControlFlow::Continue(())
        },
    )
    .unwrap();
    let Source::Extent { id, .. } = old[0].1.source else { panic!("not an extent") };
    let mut extent = ExtentRecord::decode(&view.get(&key::extent(id)).unwrap().unwrap()).unwrap();
    let update = index.begin().unwrap();
    for (key, _) in &old {
        update.records().unwrap().delete(key).unwrap();
    }
    for number in 0..PIECES {
        let start = number * apart;
        let piece = ExtentMapping { start, source: Source::Extent { id, offset: 0 }, ..old[0].1.clone() };
        update.records().unwrap().put(&key::map(FIRST.object(file), start + 1), &piece.encode()).unwrap();
    }
    let named = std::iter::once((Span::of(0, 1), i64::try_from(PIECES).unwrap()));
    extent.references =
        References::NONE.changed(sectors(extent.length), named, &mut Vec::new()).expect("none is dropped");
    for (key, old) in &old[1..] {
        let Source::Extent { id: other, .. } = old.source else { panic!("not an extent: {key:?}") };
        assert_eq!(other, id, "the file is one extent");
    }
    record.size = (PIECES - 1) * apart + 1;
    (record.mapped_end, record.used) = (record.size, PIECES);
    update.records().unwrap().put(&key::inode(FIRST.object(file)), &record.encode()).unwrap();
    update.records().unwrap().put(&key::extent(id), &extent.encode()).unwrap();
    let count = MapCountRecord { mappings: PIECES };
    update.records().unwrap().put(&key::map_count(FIRST), &count.encode()).unwrap();
    let segment = SegmentRecord { capacity: 1 << 20, live: extent.live_bytes(&extent.references).into() };
    update.records().unwrap().put(&key::segment(extent.segment), &segment.encode()).unwrap();
    for kind in [QuotaKind::Volume, QuotaKind::User, QuotaKind::Group] {
        let usage = UsageRecord { bytes: PIECES, inodes: 2 };
        update.records().unwrap().put(&key::usage(FIRST, kind.byte(), 0), &usage.encode()).unwrap();
    }
    update.commit().unwrap();
    drop((view, index));
    (disk, file, Time::from_parts(2_000, 0))
}

/// Returns the number of mappings of a file in the index.
pub(super) fn pieces(world: &World, file: Ino) -> u64 {
    let mut count = 0;
    let view = world.volume.view();
    view.index
        .scan(&key::map(FIRST.object(file), 0), &key::map(FIRST.object(file), u64::MAX), &mut |_, _| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    count
}

#[test]
fn a_removed_file_is_freed_in_portions_that_survive_a_crash() {
    let (mut world, file) = world_with_a_file_in_pieces();
    world.remove(Ino::ROOT, "f").unwrap();
    world.commit();
    assert_eq!(pieces(&world, file), PIECES, "the removal itself deletes no mappings");
    let (mut left, mut checkpoints) = (PIECES, 0);
    while left > 0 {
        world.checkpoint();
        checkpoints += 1;
        let now = pieces(&world, file);
        assert!(now < left && left - now <= REAPED_MAPPINGS_MAX as u64 + 1024, "{left} to {now}");
        left = now;
        if checkpoints == 1 {
            world.check();
            world.crash(1);
            world.file("another");
        }
        assert!(checkpoints < 20);
    }
    assert!(checkpoints >= 3);
    world.background();
    assert_eq!(world.usage(QuotaKind::Volume, 0).bytes, 0);
    world.reopen();
}

#[test]
fn a_truncated_file_is_cleared_in_portions_and_reads_correctly() {
    let (mut world, file) = world_with_a_file_in_pieces();
    world.truncate(file, APART + 1).unwrap();
    // The file grows again over mappings that are not cleared yet.
    world.write(file, (PIECES - 2) * APART, b"new").unwrap();
    let size = (PIECES - 2) * APART + 3;
    for turn in 0..6 {
        assert_eq!(world.attributes(file).unwrap().size, size);
        assert_eq!(world.attributes(file).unwrap().used, 5);
        assert_eq!(world.read_at(file, APART, 2).unwrap(), [7, 0]);
        assert_eq!(world.read_at(file, 2 * APART, 2).unwrap(), [0, 0]);
        assert_eq!(world.read_at(file, (PIECES - 3) * APART, 2).unwrap(), [0, 0]);
        assert_eq!(world.read_at(file, (PIECES - 2) * APART, 9).unwrap(), b"new");
        world.checkpoint();
        if turn == 1 {
            world.crash(2);
        }
    }
    assert_eq!(pieces(&world, file), 3);
    world.check();
    world.reopen();
    assert_eq!(world.read_at(file, (PIECES - 2) * APART, 9).unwrap(), b"new");
}

/// Changes the index of a closed volume.
pub(super) fn change_index(disk: &Arc<MemoryMedia>, change: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]))) {
    let index = Index::open(disk.index(), 8 << 20).unwrap();
    let update = index.begin().unwrap();
    change(&mut |key, value| update.records().unwrap().put(key, value).unwrap());
    update.commit().unwrap();
}

fn record_of(disk: &Arc<MemoryMedia>, key: &[u8]) -> Vec<u8> {
    let index = Index::open(disk.index(), 8 << 20).unwrap();
    index.snapshot().unwrap().get(key).unwrap().unwrap().clone()
}

#[test]
fn mappings_that_stay_count_too_and_are_looked_at_once() {
    let (disk, file, now) = disk_with_a_file_in_pieces(APART);
    let key = key::inode(FIRST.object(file));
    let mut record = InodeRecord::decode(&record_of(&disk, &key)).unwrap();
    // Of each two mappings one was hidden by a truncation, and the other one was written after it.
    record.truncate(0);
    record.used = PIECES / 2;
    let end = |number: u64| key::map(FIRST.object(file), number * APART + 1);
    let first = ExtentMapping::decode(&record_of(&disk, &end(0))).unwrap();
    change_index(&disk, |put| {
        for number in (1..PIECES).step_by(2) {
            put(&end(number), &ExtentMapping { start: number * APART, birth: 1, ..first.clone() }.encode());
        }
        put(&key, &record.encode());
        put(&key::reap(FIRST.object(file)), &[]);
        for kind in [QuotaKind::Volume, QuotaKind::User, QuotaKind::Group] {
            let usage = UsageRecord { bytes: record.used, inodes: 2 };
            put(&key::usage(FIRST, kind.byte(), 0), &usage.encode());
        }
    });
    let mut world = World::open(disk, now);
    world.check();
    let at_once = REAPED_MAPPINGS_MAX as u64 / 2;
    let mut before = PIECES;
    for checkpoints in 1..=3 {
        assert_eq!(world.checkpoint(), Progress::Worked);
        let after = pieces(&world, file);
        assert!(before - after <= at_once + 1024, "{} in one checkpoint", before - after);
        if checkpoints < 3 {
            assert!(before - after >= at_once - 1024, "what was looked at is not looked at again");
        }
        before = after;
        world.crash(checkpoints);
        assert_eq!(world.read_at(file, 0, 1).unwrap(), [0]);
        assert_eq!(world.read_at(file, APART, 1).unwrap(), [7]);
    }
    assert_eq!(before, PIECES / 2);
    // A later truncation goes back to where it cuts.
    world.truncate(file, APART + 1).unwrap();
    world.background();
    assert_eq!(pieces(&world, file), 1);
    world.check();
}

#[test]
fn a_small_file_does_not_wait_for_a_huge_one() {
    let (mut world, huge) = world_with_a_file_in_pieces();
    let small = world.file("small");
    world.write(small, 0, b"small").unwrap();
    world.background();
    assert_eq!(pieces(&world, small), 1);
    world.remove(Ino::ROOT, "f").unwrap();
    world.remove(Ino::ROOT, "small").unwrap();
    world.checkpoint();
    assert_eq!(pieces(&world, small), 0);
    assert!(pieces(&world, huge) > 0);
    world.background();
    assert_eq!(pieces(&world, huge), 0);
    world.check();
}

#[test]
fn more_removed_files_than_one_checkpoint_looks_at_need_no_request() {
    let (disk, _, now) = disk_with_a_file_in_pieces(APART);
    change_index(&disk, |put| {
        for number in 0..=REAPED_MAPPINGS_MAX as u64 {
            put(&key::reap(FIRST.object(Ino((1 << 40) + number))), &[]);
        }
    });
    let mut world = World::open(disk, now);
    let waiting = |world: &World| {
        let (from, to) = key::table_range(key::POOL, key::Table::Reap);
        let mut count = 0;
        world
            .volume
            .view()
            .index
            .scan(&from, &to, &mut |_, _| {
                count += 1;
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        count
    };
    let now = world.now();
    assert_eq!(world.volume.step_checkpoint(now, false), Progress::Worked);
    assert_eq!(waiting(&world), 1);
    assert_eq!(world.volume.step_checkpoint(now, false), Progress::Worked);
    assert_eq!(waiting(&world), 0);
    assert_eq!(world.volume.step_checkpoint(now, false), Progress::Idle);
}

#[test]
fn an_extent_with_more_mappings_than_can_be_counted_is_never_freed() {
    let mut world = World::new();
    let file = world.file("f");
    world.write_unstable(file, 0, &[7; 70_000]);
    world.background();
    let now = world.now();
    world.volume.close(now).unwrap();
    let disk = world.disk.after_kill();
    let mapping = {
        let index = Index::open(disk.index(), 8 << 20).unwrap();
        let mut first = None;
        let (from, to) = (key::map(FIRST.object(file), 0), key::map(FIRST.object(file), u64::MAX));
        index
            .snapshot()
            .unwrap()
            .scan(&from, &to, &mut |_, value| {
                first.get_or_insert(ExtentMapping::decode(value).unwrap());
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        first.unwrap()
    };
    let Source::Extent { id, .. } = mapping.source else { panic!("not an extent") };
    let mut extent = ExtentRecord::decode(&record_of(&disk, &key::extent(id))).unwrap();
    extent.references = References::Each(u32::MAX - 1);
    change_index(&disk, |put| put(&key::extent(id), &extent.encode()));
    let mut world = World::open(disk, now);
    for number in 0..3 {
        let copy = world.file(&number.to_string());
        world.run(|v, r| v.clone_range(r, (file, 0), (copy, 0), 0)).unwrap();
    }
    assert_eq!(world.checkpoint(), Progress::Worked);
    assert_eq!(world.volume.refuses_changes(), None);
    for name in ["0", "1", "2", "f"] {
        world.remove(Ino::ROOT, name).unwrap();
    }
    world.background();
    let row = world.volume.view().index.get(&key::extent(id)).unwrap().expect("it is kept");
    assert_eq!(ExtentRecord::decode(&row).unwrap().references, References::Unknown);
}
