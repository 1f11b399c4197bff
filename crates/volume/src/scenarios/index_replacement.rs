//! The replacement of a damaged index when more goes wrong meanwhile.

use std::io;
use std::sync::Arc;

use super::world::{OPTIONS, World};
use crate::api::ids::SegmentId;
use crate::api::time::Time;
use crate::encoding::key;
use crate::media::memory::MemoryMedia;
use crate::media::{Blob, Media, RandomFile, Space};
use crate::tables::index::{Index, LostRanges};
use crate::volume::Volume;

const BLOCK: usize = 4096;

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

    fn replace_index(&self) -> io::Result<()> {
        self.0.replace_index()?;
        self.0.index_file().set_full(true);
        Ok(())
    }

    fn discard_index(&self) -> io::Result<()> {
        self.0.discard_index()
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

    fn lease_held(&self) -> bool {
        self.0.lease_held()
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
fn repairable(built: &(Arc<MemoryMedia>, Time)) -> Vec<usize> {
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
    let (from, to) = (key::map(file, 0), key::map(file, u64::MAX));
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
