//! The replacement of a damaged index when more goes wrong meanwhile.

use crate::volume::Volume;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use redb::StorageBackend as _;

use super::world::{OPTIONS, World};
use crate::api::ids::{Ino, SegmentId};
use crate::api::request::Error;
use crate::api::time::Time;
use crate::background::rebuild::rebuild;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::media::memory::MemoryMedia;
use crate::media::{Blob, Media, RandomFile, Space, Tenure};
use crate::options::Options;
use crate::tables::index::{CheckedFile, Index, IndexError, LostRanges, Salvage};

pub(super) const BLOCK: usize = 4096;

/// Media on whose device no room is left once the index was replaced.
struct FullAfterReplacement(Arc<MemoryMedia>);

impl Media for FullAfterReplacement {
    fn log(&self) -> Arc<dyn RandomFile> {
        self.0.log()
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        self.0.index()
    }

    fn create_index(&self) -> io::Result<Arc<dyn RandomFile>> {
        self.0.create_index()
    }

    fn replace_index(&self) -> io::Result<Option<PathBuf>> {
        let kept = self.0.replace_index()?;
        self.0.index_file().set_full(true);
        Ok(kept)
    }

    fn discard_index(&self) -> io::Result<()> {
        self.0.discard_index()
    }

    fn free_damaged_indexes(&self, bytes: u64) -> io::Result<u64> {
        self.0.free_damaged_indexes(bytes)
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        self.0.create_blob(id, capacity)
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        self.0.open_blob(id)
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        self.0.delete_blob(id)
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        self.0.list_blobs()
    }

    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }

    fn tenure(&self) -> Tenure {
        self.0.tenure()
    }
}

/// A closed volume with names enough for many blocks of its index.
fn build() -> (Arc<MemoryMedia>, Time) {
    let mut world = World::new();
    for n in 0..600 {
        world.file(&format!("{n:03} {}", "n".repeat(90)));
    }
    let now = world.now();
    world.volume.close(now).unwrap();
    (world.disk.after_kill(), now)
}

/// Returns the blocks of the index whose damage is found, and repaired, when the volume is opened.
pub(super) fn repairable(built: &(Arc<MemoryMedia>, Time)) -> Vec<usize> {
    let bytes = built.0.index_file().bytes();
    let used = |block: &usize| bytes[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0);
    let is_repaired = |block: &usize| {
        let media = built.0.after_kill();
        media.index_file().damage(|bytes| bytes[block * BLOCK + 300] ^= 1);
        let opened = Volume::open(Arc::clone(&media) as Arc<dyn Media>, &OPTIONS, built.1);
        opened.is_ok() && !media.damaged_indexes().is_empty()
    };
    let blocks: Vec<usize> = (2..bytes.len() / BLOCK).filter(used).filter(is_repaired).collect();
    assert!(!blocks.is_empty());
    blocks
}

#[test]
fn a_replaced_index_is_not_used_when_its_copy_cannot_be_opened() {
    let built = build();
    for block in repairable(&built) {
        let media = built.0.after_kill();
        media.index_file().damage(|bytes| bytes[block * BLOCK + 300] ^= 1);
        let full = Arc::new(FullAfterReplacement(Arc::clone(&media)));
        let opened = Volume::open(full, &OPTIONS, built.1);
        let why =
            opened.map(drop).expect_err("it would change a file that is no longer the index").to_string();
        assert!(why.contains("no room"), "{why}");
        assert_eq!(media.damaged_indexes().len(), 1);
        media.index_file().set_full(false);
        drop(World::open(Arc::clone(&media), built.1));
        assert_eq!(media.damaged_indexes().len(), 1);
    }
}

/// Opens a volume with so little memory that it reads its index again and again.
pub(super) fn open_small(media: &Arc<MemoryMedia>, now: Time) -> World {
    let options = Options { memory: 64 << 10, ..OPTIONS };
    let volume = Volume::open(Arc::clone(media) as Arc<dyn Media>, &options, now).unwrap();
    World::with(Arc::clone(media), volume, now)
}

#[test]
fn reads_of_the_index_that_fail_now_and_then_cost_nothing() {
    /// How many times each block fails twice in a row, and is good at the next read.
    const FAILURES: usize = 4;
    let built = build();
    let bytes = built.0.index_file().bytes();
    let used = |block: &usize| bytes[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0);
    let mut returned = 0;
    for block in (2..bytes.len() / BLOCK).filter(used).step_by(4) {
        let media = built.0.after_kill();
        let mut world = open_small(&media, built.1);
        let file = media.index_file();
        let reads = [false, false, true].repeat(FAILURES);
        file.set_flaky(block * BLOCK..(block + 1) * BLOCK, reads);
        for n in 0..2 * FAILURES {
            // A change of many leaves of the index.
            for of in (0..600).step_by(40) {
                let name = format!("{of:03} {}", "n".repeat(90));
                let linked = world
                    .lookup(Ino::ROOT, &name)
                    .and_then(|ino| world.link(ino, Ino::ROOT, &format!("{n} {name}")));
                assert!(
                    matches!(linked, Ok(()) | Err(Error::Io | Error::Busy | Error::Exists)),
                    "{linked:?}"
                );
            }
            world.commit();
            world.checkpoint();
        }
        returned += usize::from(file.flaky_reads_left() < 3 * (FAILURES - 1));
        file.set_unreadable(0..0);
        world.background();
        assert_eq!(world.volume.refuses_changes(), None, "block {block}");
        assert!(
            world.volume.view().active.is_empty() && world.volume.view().frozen.is_none(),
            "block {block}"
        );
        assert!(world.volume.view().index.lost().is_empty(), "block {block}");
        let now = world.now();
        world.volume.close(now).unwrap();
        world.check();
    }
    assert!(returned > 0);
}

#[test]
fn an_index_with_an_unreadable_first_sector_is_copied_if_other_blocks_are_damaged_too() {
    let built = build();
    for block in repairable(&built) {
        let media = built.0.after_kill();
        media.index_file().damage(|bytes| bytes[block * BLOCK + 300] ^= 1);
        media.index_file().set_unreadable(0..512);
        let opened = Volume::open(Arc::clone(&media) as Arc<dyn Media>, &OPTIONS, built.1);
        opened.map(drop).unwrap_or_else(|error| panic!("block {block}: {error}"));
        assert_eq!(media.damaged_indexes().len(), 1);
    }
}

#[test]
fn what_is_lost_of_a_huge_sparse_file_is_counted_quickly() {
    let mut world = World::new();
    let file = world.file("sparse");
    for at in [0, 1 << 62] {
        world.write(file, at, &[1; 9000]).unwrap();
    }
    world.write_back();
    let now = world.now();
    world.volume.close(now).unwrap();
    let media = world.disk.after_kill();
    let (from, to) = (key::map(FIRST.object(file), 0), key::map(FIRST.object(file), u64::MAX));
    let mut lost = LostRanges::default();
    lost.add(&from, &to);
    let index = Index::open(media.index(), 1 << 20).unwrap();
    let update = index.begin().unwrap();
    let mut records = update.records().unwrap();
    let mut ends = Vec::new();
    records
        .scan(&from, &to, &mut |key, _| {
            ends.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert!(ends.len() >= 2);
    ends.iter().for_each(|key| records.delete(key).unwrap());
    drop(records);
    update.put_lost(&lost).unwrap();
    update.commit().unwrap();
    drop(index);
    let mut world = World::open(media, now);
    world.truncate(file, 1).unwrap();
    world.checkpoint();
    assert_eq!(world.attributes(file).unwrap().size, 1);
}

/// Checks that a volume whose index is damaged serves reads, refuses nothing for good, and keeps its index, while the
/// copy has no room; and that it takes changes once there is room.
fn serve_without_room(world: &mut World, free: &dyn Fn(&MemoryMedia)) {
    let mut waits = false;
    for n in 0..3 {
        let _ = world.create(Ino::ROOT, &format!("while full {n}"));
        world.commit();
        world.checkpoint();
        waits |= world.volume.view().index.is_damaged();
        assert_eq!(world.volume.refuses_changes(), None);
        assert!(world.attributes(Ino::ROOT).is_ok());
    }
    assert!(waits && world.disk.damaged_indexes().is_empty());
    free(&world.disk);
    world.background();
    assert!(!world.volume.view().index.is_damaged());
    assert_eq!(world.disk.damaged_indexes().len(), 1);
    world.create(Ino::ROOT, "later").unwrap();
    world.background();
    let now = world.now();
    world.volume.close(now).unwrap();
}

#[test]
fn a_copy_waits_for_room_on_the_device() {
    let built = build();
    let [said, real]: [(&dyn Fn(&MemoryMedia, bool), &str); 2] = [
        (&|media, is_full| media.set_available(if is_full { 1000 } else { u64::MAX }), "said"),
        (&|media, is_full| media.set_room_for_new_index(if is_full { 1 << 20 } else { usize::MAX }), "met"),
    ];
    for (fill, how) in [said, real] {
        let block = repairable(&built)[0];
        println!("{how}");
        // Found at opening.
        let media = built.0.after_kill();
        media.index_file().damage(|bytes| bytes[block * BLOCK + 300] ^= 1);
        fill(&media, true);
        serve_without_room(&mut open_small(&media, built.1), &|media| fill(media, false));
        // Found while open.
        let media = built.0.after_kill();
        let mut world = open_small(&media, built.1);
        media.index_file().damage(|bytes| bytes[block * BLOCK + 300] ^= 1);
        for n in 0..600 {
            let _ = world.lookup(Ino::ROOT, &format!("{n:03} {}", "n".repeat(90)));
        }
        fill(&media, true);
        serve_without_room(&mut world, &|media| fill(media, false));
    }
}

#[test]
fn an_index_that_only_the_library_refuses_is_replaced_once_there_is_room() {
    const HEADER_BYTES: u64 = 320;
    let built = build();
    let mut replaced = 0;
    // Both commit slots of the library's header.
    for at in (64..HEADER_BYTES).step_by(3) {
        let media = built.0.after_kill();
        let file = CheckedFile::open(media.index()).unwrap();
        let mut byte = [0];
        file.read(at, &mut byte).unwrap();
        file.write(at, &[byte[0] ^ 0x55]).unwrap();
        drop(file);
        let index = Index::open(media.after_kill().index(), 1 << 20);
        let is_refused = index.is_ok_and(|index| index.snapshot().is_ok() && index.begin().is_err());
        if !is_refused {
            continue;
        }
        println!("byte {at}");
        media.set_available(1000);
        serve_without_room(&mut open_small(&media, built.1), &|media| media.set_available(u64::MAX));
        replaced += 1;
    }
    assert!(replaced > 0);
}

#[test]
fn older_damaged_indexes_make_room_for_a_copy() {
    const CACHE_BYTES: usize = 1 << 20;
    let (media, _) = build();
    // What is not damaged is copied as well.
    let replace = |available| {
        media.set_available(available);
        let salvage = Salvage::open(media.index(), CACHE_BYTES).unwrap();
        let replaced = rebuild(media.as_ref(), &salvage, CACHE_BYTES, None);
        replaced.map(|replaced| assert!(replaced.is_some(), "nothing was damaged"))
    };
    let needed = || media.index_file().bytes().len() as u64;
    assert_eq!(replace(needed() - 1), Err(IndexError::Full));
    replace(u64::MAX).unwrap();
    replace(u64::MAX).unwrap();
    let kept = media.damaged_indexes();
    assert_eq!(kept.len(), 2);
    replace(needed() - 1).unwrap();
    let now = media.damaged_indexes();
    assert_eq!(now.len(), kept.len(), "the oldest made room for the one of now");
    assert!(Arc::ptr_eq(&now[0], &kept[1]));
}
