//! Files with very many mappings are removed and truncated in bounded portions.

use super::world::World;
use crate::api::ids::Ino;
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::record::{
    ExtentMapping, ExtentRecord, InodeRecord, SegmentRecord, Source, UsageKind, UsageRecord,
};
use crate::limits::REAPED_MAPPINGS_MAX;
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::tables::index::Index;

/// Mappings of the file: more than two checkpoints can free.
pub(super) const PIECES: u64 = 2 * REAPED_MAPPINGS_MAX as u64 + 5_000;

/// Bytes between the starts of two mappings.
pub(super) const APART: u64 = 8192;

/// Returns a volume with one file of [`PIECES`] mappings of one extent. They are written directly into the index,
/// since writing them through operations would take minutes.
pub(super) fn world_with_a_file_in_pieces() -> (World, Ino) {
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
    let mut record = InodeRecord::decode(&view.get(&key::inode(file)).unwrap().unwrap()).unwrap();
    let mut old = Vec::new();
    view.scan(&key::map(file, 0), &key::map(file, u64::MAX), &mut |key, value| {
        old.push((key.to_vec(), ExtentMapping::decode(value).unwrap()));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let Source::Extent { id, .. } = old[0].1.source else { panic!("not an extent") };
    let mut extent = ExtentRecord::decode(&view.get(&key::extent(id)).unwrap().unwrap()).unwrap();
    let update = index.begin().unwrap();
    for (key, _) in &old {
        update.records().unwrap().delete(key).unwrap();
    }
    for number in 0..PIECES {
        let start = number * APART;
        let piece = ExtentMapping { start, source: Source::Extent { id, offset: 0 }, ..old[0].1.clone() };
        update.records().unwrap().put(&key::map(file, start + 1), &piece.encode()).unwrap();
    }
    extent.references = u32::try_from(PIECES).unwrap();
    for (key, old) in &old[1..] {
        let Source::Extent { id: other, .. } = old.source else { panic!("not an extent: {key:?}") };
        assert_eq!(other, id, "the file is one extent");
    }
    record.size = (PIECES - 1) * APART + 1;
    (record.mapped_end, record.used) = (record.size, PIECES);
    update.records().unwrap().put(&key::inode(file), &record.encode()).unwrap();
    update.records().unwrap().put(&key::extent(id), &extent.encode()).unwrap();
    let segment = SegmentRecord { capacity: 1 << 20, live: u64::from(extent.stored) };
    update.records().unwrap().put(&key::segment(extent.segment), &segment.encode()).unwrap();
    for kind in [UsageKind::Volume, UsageKind::User, UsageKind::Group] {
        let usage = UsageRecord { bytes: PIECES, inodes: 2 };
        update.records().unwrap().put(&key::usage(kind.byte(), 0), &usage.encode()).unwrap();
    }
    update.commit().unwrap();
    drop((view, index));
    let world = World::open(disk, Time::from_parts(2_000, 0));
    world.check();
    (world, file)
}

/// Returns the number of mappings of a file in the index.
pub(super) fn pieces(world: &World, file: Ino) -> u64 {
    let mut count = 0;
    let view = world.volume.view();
    view.index
        .scan(&key::map(file, 0), &key::map(file, u64::MAX), &mut |_, _| {
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
    assert_eq!(world.volume.usage.get(UsageKind::Volume, 0).bytes, 0);
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
