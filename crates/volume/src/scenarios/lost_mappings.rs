//! Files that lost mappings, and are written to where those were.

use crate::volume::Volume;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::world::{OPTIONS, World};
use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::files::{Files, Part};

const BLOCK: usize = 4096;

/// When the damaged volumes are opened.
const LATER: Time = Time::from_nanos(2_000_000_000_000);

/// Bytes of each mapping of the file, and of the hole before the next: adjacent ones would become one.
const MAPPING: usize = 600;
const HOLE: usize = 10;

/// Stores a file whose mappings take several leaves of the index. The keys between those leaves are keys of mappings
/// that are gone: each was replaced by one that begins before that key and ends after it.
fn stored(random: &mut Random) -> (Arc<MemoryMedia>, Ino, Vec<u8>) {
    const MAPPINGS: usize = 240;
    const HALF: usize = MAPPING / 2;
    let mut world = World::new();
    let file = world.file("file");
    for half in 0..2 * MAPPINGS {
        write(&mut world, file, half * HALF, &[1; HALF - HOLE]);
    }
    world.checkpoint();
    let mut content = random.bytes(MAPPINGS * MAPPING - HOLE);
    for (n, bytes) in content.chunks_mut(MAPPING).enumerate() {
        write(&mut world, file, n * MAPPING, &bytes[..MAPPING - HOLE]);
        bytes[MAPPING - HOLE..].fill(0);
    }
    world.checkpoint();
    let now = world.now();
    world.volume.close(now).unwrap();
    (world.disk.after_kill(), file, content)
}

/// Writes into a file, after a checkpoint if that is needed for room in segments.
fn write(world: &mut World, file: Ino, at: usize, bytes: &[u8]) {
    if world.write(file, at as u64, bytes) == Err(Error::Busy) {
        world.checkpoint();
        world.write(file, at as u64, bytes).unwrap();
    }
    world.commit();
}

/// Writes a little into each mapping, not at its start.
fn write_into_each(world: &mut World, file: Ino, content: &mut [u8]) {
    for (n, bytes) in content.chunks_mut(MAPPING).enumerate() {
        write(world, file, n * MAPPING + 100, &[9; 10]);
        bytes[100..110].fill(9);
    }
    world.write_back();
    world.checkpoint();
}

/// Compares what a client reads before each write; returns how many of these reads failed.
fn failed_reads(world: &mut World, file: Ino, content: &[u8]) -> usize {
    let mut failed = 0;
    for (n, bytes) in content.chunks(MAPPING).enumerate() {
        match world.read_at(file, (n * MAPPING) as u64, 100) {
            Ok(read) => assert!(read == bytes[..100], "bytes of mapping {n} are not what they were"),
            Err(error) => {
                assert_eq!(error, Error::Io);
                failed += 1;
            }
        }
    }
    failed
}

/// Compares what a dump copies; returns how many bytes it says are lost.
fn lost_bytes(disk: &Arc<MemoryMedia>, file: Ino, content: &[u8]) -> usize {
    let files = Files::open(Arc::clone(disk) as Arc<dyn Media>).unwrap();
    let (mut copied, mut lost) = (vec![0; content.len()], 0);
    files
        .read(file, &mut |part| {
            let at = |offset: u64| usize::try_from(offset).unwrap();
            match part {
                Part::Data(offset, data) => copied[at(offset)..][..data.len()].copy_from_slice(data),
                Part::Lost(from, to, _) => {
                    copied[at(from)..at(to)].copy_from_slice(&content[at(from)..at(to)]);
                    lost += at(to) - at(from);
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(copied == content, "the copy of the file is not what it was");
    lost
}

#[test]
fn bytes_of_a_lost_mapping_are_lost_after_a_write_into_it_too() {
    let (disk, file, content) = stored(&mut Random::new(1));
    let image = disk.index_file().bytes();
    let is_used = |block: &usize| image[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0);
    let (from, to) = (key::map(FIRST.object(file), 1), key::map(FIRST.object(file), u64::MAX));
    let mut found = 0;
    for block in (2..image.len() / BLOCK).filter(is_used) {
        let disk = disk.after_kill();
        disk.index_file().flip(block * BLOCK + 300, 1);
        let mut content = content.clone();
        let volume = Volume::open(Arc::clone(&disk) as Arc<dyn Media>, &OPTIONS, LATER);
        let Ok(volume) = volume else { continue };
        let mut world = World::with(disk, volume, LATER);
        let lost = Arc::clone(world.volume.view().index.lost());
        if !lost.meets(&from, &to) || lost.covers(&from) || lost.covers(&key::inode(FIRST.object(file))) {
            continue;
        }
        write_into_each(&mut world, file, &mut content);
        assert!(failed_reads(&mut world, file, &content) > 0);
        let now = world.now();
        world.volume.close(now).unwrap();
        assert!(lost_bytes(&world.disk, file, &content) > 0);
        found += 1;
    }
    assert!(found > 0);
}
