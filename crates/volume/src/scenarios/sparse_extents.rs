//! Extents of which mappings name only parts: the cleaner leaves out the rest.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::reaping::change_index;
use super::world::{OPTIONS, World};
use crate::api::ids::Ino;
use crate::api::results::Stability;
use crate::api::time::Time;
use crate::encoding::key::{Key, POOL, Table, table_range};
use crate::encoding::record::{ExtentRecord, Kept, References};
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::{CheckOptions, check};
use crate::offline::files as offline;
use crate::offline::repair::repair;
use crate::open::CreateOptions;
use crate::pool::Pool;

const EXTENT: u64 = crate::limits::EXTENT_BYTES_MAX as u64;
const MIB: u64 = 1 << 20;

/// Bytes of a MiB, and of an extent.
static A_MIB: [u8; 1 << 20] = [7; 1 << 20];
static AN_EXTENT: [u8; crate::limits::EXTENT_BYTES_MAX] = [9; crate::limits::EXTENT_BYTES_MAX];

/// Returns a volume with room for this many bytes of segments.
fn world_with_room(bytes: u64) -> World {
    let disk = MemoryMedia::with_log(4 << 20);
    Pool::create(disk.as_ref(), &CreateOptions::of_test(Time::from_parts(1_000, 0))).unwrap();
    let segments = bytes / OPTIONS.segment_bytes;
    disk.set_room_for_segments(usize::try_from(segments).unwrap());
    World::open(disk, Time::from_parts(1_001, 0))
}

/// Writes data that is stable when this returns.
fn store(world: &mut World, file: Ino, at: u64, data: &[u8]) {
    world.patiently(|world| world.write_how(file, at, data, Stability::FileSync)).unwrap();
}

fn live_bytes(world: &World) -> u64 {
    world.volume.segments.infos().iter().map(|(_, info)| info.live).sum()
}

/// Runs the cleaner and checkpoints until nothing is worth cleaning.
fn clean_all(world: &mut World) {
    let mut cleaned = None;
    while cleaned != Some(world.volume.cleaner.cleaned()) {
        cleaned = Some(world.volume.cleaner.cleaned());
        for _ in 0..10 {
            world.background();
        }
    }
}

#[test]
fn a_byte_of_each_extent_keeps_no_more_than_a_sector() {
    let mut world = world_with_room(16 * MIB);
    let file = world.file("f");
    for number in 0..64 {
        let start = number * MIB;
        store(&mut world, file, start, &A_MIB);
        for extent in 0..MIB / EXTENT {
            let start = start + extent * EXTENT;
            world.patiently(|world| world.deallocate(file, start + 1, EXTENT - 1)).unwrap();
        }
        world.background();
    }
    clean_all(&mut world);
    let kept = 64 * MIB / EXTENT;
    assert_eq!(world.attributes(file).unwrap().used, kept);
    assert!(live_bytes(&world) <= kept * 512, "{}", live_bytes(&world));
    assert!(world.disk.segments() < 24, "{} segments", world.disk.segments());
    for extent in 0..kept {
        assert_eq!(world.read_at(file, extent * EXTENT, 2).unwrap(), [7, 0]);
    }
    world.check();
}

#[test]
fn files_cut_to_a_byte_and_copies_of_a_byte_keep_no_more_than_a_sector() {
    let mut world = world_with_room(16 * MIB);
    let copies = world.file("copies");
    for number in 0..200 {
        let file = world.patiently(|world| world.create(Ino::ROOT, &number.to_string())).unwrap();
        store(&mut world, file, 0, &AN_EXTENT);
        let to = number * 4096;
        world.patiently(|world| world.run(|v, r| v.copy_range(r, (file, 100_000), (copies, to), 1))).unwrap();
        world.patiently(|world| world.truncate(file, 1)).unwrap();
        world.background();
    }
    clean_all(&mut world);
    assert!(live_bytes(&world) <= 2 * 200 * 512, "{}", live_bytes(&world));
    assert_eq!(world.read_at(copies, 199 * 4096, 1).unwrap(), [9]);
    world.check();
}

#[test]
fn sectors_that_bytes_keep_are_not_shown_as_free() {
    let mut world = world_with_room(32 * MIB);
    let file = world.file("f");
    let free = |world: &mut World| world.run(|v, r| v.status(r)).unwrap().bytes_free;
    store(&mut world, file, 0, &A_MIB);
    world.background();
    let whole = free(&mut world);
    for sector in 0..MIB / 512 {
        world.patiently(|world| world.deallocate(file, sector * 512 + 1, 511)).unwrap();
    }
    world.background();
    assert_eq!(world.attributes(file).unwrap().used, MIB / 512);
    assert_eq!(live_bytes(&world), MIB);
    assert_eq!(free(&mut world), whole);
    world.reopen();
    assert_eq!(free(&mut world), whole, "after a restart");
}

#[test]
fn the_pages_of_a_file_can_be_rewritten_in_any_order_while_there_is_room() {
    let mut random = Random::new(1);
    let mut world = world_with_room(16 * MIB);
    let file = world.file("f");
    let pages = 8 * MIB / 4096;
    for number in 0..8 {
        store(&mut world, file, number * MIB, &A_MIB);
    }
    for turn in 0..3 * pages {
        let page = random.below(pages);
        let data = [u8::try_from(turn % 250).unwrap(); 4096];
        store(&mut world, file, page * 4096, &data);
    }
    world.check();
}

#[test]
fn a_pool_that_is_three_quarters_full_can_be_rewritten_in_any_order() {
    let mut random = Random::new(2);
    let mut world = world_with_room(48 * MIB);
    let file = world.file("f");
    let mut pages = 0;
    while pages * 4096 < 36 * MIB {
        store(&mut world, file, pages * 4096, &A_MIB);
        pages += MIB / 4096;
    }
    for turn in 0..2 * pages {
        let page = random.below(pages);
        let data = [u8::try_from(turn % 250).unwrap(); 4096];
        store(&mut world, file, page * 4096, &data);
    }
    world.check();
}

/// Returns the rows of extents in the index.
fn extents(world: &World) -> Vec<(Key, ExtentRecord)> {
    let (from, to) = table_range(POOL, Table::Extent);
    let mut rows = Vec::new();
    let collect = &mut |key: &[u8], value: &[u8]| {
        rows.push((key.into(), ExtentRecord::decode(value).unwrap()));
        ControlFlow::Continue(())
    };
    world.volume.view().index.scan(&from, &to, collect).unwrap();
    rows
}

/// Returns the extents of which only parts are stored.
fn partly_stored(world: &World) -> usize {
    extents(world).iter().filter(|(_, row)| row.kept != Kept::Whole).count()
}

/// Files, and what they should hold.
struct Files {
    world: World,
    inos: [Ino; 3],
    expected: [Vec<u8>; 3],
}

/// Bytes of each file.
const FILE_BYTES: usize = 600_000;

impl Files {
    fn new() -> Files {
        let mut world = world_with_room(64 * MIB);
        let inos = ["a", "b", "c"].map(|name| world.file(name));
        let expected = [(); 3].map(|()| vec![1; FILE_BYTES]);
        for (ino, expected) in inos.iter().zip(&expected) {
            store(&mut world, *ino, 0, expected);
        }
        Files { world, inos, expected }
    }

    fn write(&mut self, file: usize, at: usize, data: &[u8], how: Stability) {
        let ino = self.inos[file];
        self.world.patiently(|world| world.write_how(ino, at as u64, data, how)).unwrap();
        self.expected[file][at..at + data.len()].copy_from_slice(data);
    }

    fn punch(&mut self, file: usize, at: usize, length: usize) {
        let ino = self.inos[file];
        self.world.patiently(|world| world.deallocate(ino, at as u64, length as u64)).unwrap();
        self.expected[file][at..at + length].fill(0);
    }

    fn copy(&mut self, (file, at): (usize, usize), (other, to): (usize, usize), length: usize) {
        let mut done = 0;
        while done < length {
            let from = (self.inos[file], (at + done) as u64);
            let into = (self.inos[other], (to + done) as u64);
            let left = (length - done) as u64;
            let copied =
                self.world.patiently(|world| world.run(|v, r| v.copy_range(r, from, into, left))).unwrap();
            done += usize::try_from(copied.count).unwrap();
        }
        let data = self.expected[file][at..at + length].to_vec();
        self.expected[other][to..to + length].copy_from_slice(&data);
    }

    /// Changes files at random, or does background work.
    fn change(&mut self, turn: u8, random: &mut Random) {
        let (file, other) = (random.index(3), random.index(3));
        let (at, to) = (random.index(550_000), random.index(550_000));
        let length = 1 + random.index(if turn.is_multiple_of(4) { 50_000 } else { 5_000 });
        match random.below(12) {
            0..=2 => {
                let data: Vec<u8> =
                    (0..length).map(|byte| byte.to_le_bytes()[0].wrapping_add(turn)).collect();
                let how = if turn.is_multiple_of(2) { Stability::Unstable } else { Stability::FileSync };
                self.write(file, at, &data, how);
            }
            3..=6 => self.punch(file, at, length),
            7..=8 if file != other => self.copy((file, at), (other, to), length),
            9 => drop(self.world.clean()),
            10 => self.world.background(),
            _ => drop(self.world.checkpoint()),
        }
    }

    fn lose_power(&mut self, random: &mut Random) {
        self.world.write_back();
        let disk = self.world.disk.after_power_loss(random);
        let now = self.world.now();
        self.world = World::open(disk, now);
    }

    /// Reads the files without a server, as copies of damaged volumes are made.
    fn assert_right_offline(&mut self) {
        self.world.write_back();
        let files = offline::Files::open(self.world.disk.after_kill()).unwrap();
        for (ino, expected) in self.inos.iter().zip(&self.expected) {
            let mut found = vec![0; FILE_BYTES];
            let read = files.read(*ino, &mut |part| {
                let offline::Part::Data(at, data) = part else { panic!("{part:?}") };
                let at = usize::try_from(at).unwrap();
                found[at..at + data.len()].copy_from_slice(data);
                ControlFlow::Continue(())
            });
            read.unwrap();
            assert!(found == *expected);
        }
    }

    /// Has a repair count the references anew.
    fn assert_repairable(&mut self) {
        self.world.checkpoint();
        let disk = self.world.disk.after_kill();
        change_index(&disk, |put| {
            for (key, row) in extents(&self.world) {
                put(&key, &ExtentRecord { references: References::Each(7), ..row }.encode());
            }
        });
        let media = disk as Arc<dyn Media>;
        let repaired = repair(&media, &OPTIONS, 100, self.world.now()).unwrap();
        assert!(repaired.is_replaced && repaired.tally.lost_bytes == 0, "{repaired:#?}");
        let report = check(&media, &CheckOptions::default()).unwrap();
        assert!(report.is_clean(), "{:#?}", report.faults);
    }

    fn assert_right(&mut self, context: &str) {
        for (ino, expected) in self.inos.iter().zip(&self.expected) {
            assert!(self.world.read(*ino).unwrap() == *expected, "{context}");
        }
    }
}

#[test]
fn random_changes_of_clones_agree_with_arrays_while_the_cleaner_works() {
    let mut partly = 0;
    for seed in 0..6 {
        let (mut random, mut files) = (Random::new(seed), Files::new());
        for turn in 0..=u8::MAX {
            files.change(turn, &mut random);
            if turn % 50 == 49 {
                clean_all(&mut files.world);
                partly = partly.max(partly_stored(&files.world));
                files.assert_right_offline();
            }
            if turn % 100 == 99 {
                files.lose_power(&mut random);
            }
            files.assert_right(&format!("seed {seed}, turn {turn}"));
            if turn % 10 == 0 {
                files.world.check();
            }
        }
        files.assert_repairable();
        for name in ["a", "b", "c"] {
            files.world.remove(Ino::ROOT, name).unwrap();
        }
        clean_all(&mut files.world);
        assert_eq!(live_bytes(&files.world), 0, "seed {seed}");
    }
    assert!(partly > 0, "no extent was ever stored in parts");
}
