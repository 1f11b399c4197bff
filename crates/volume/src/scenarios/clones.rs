//! CLONE and COPY.

use super::world::World;
use crate::api::ids::Ino;
use crate::api::request::{Credentials, Error};
use crate::api::results::{Cloned, Stability};
use crate::media::memory::Random;

impl World {
    fn clone_once(&mut self, from: (Ino, u64), to: (Ino, u64), count: u64) -> Result<Cloned, Error> {
        for _ in 0..10 {
            match self.run(|v, r| v.clone_range(r, from, to, count)) {
                Err(Error::ObjectBusy) => drop(self.write_back()),
                answer => return answer,
            }
        }
        Err(Error::ObjectBusy)
    }

    /// Copies a whole range in as many calls as it takes.
    fn copy(&mut self, from: (Ino, u64), to: (Ino, u64), count: u64) {
        let mut done = 0;
        while done < count {
            let (from, to) = ((from.0, from.1 + done), (to.0, to.1 + done));
            match self.run(|v, r| v.copy_range(r, from, to, count - done)) {
                Err(Error::ObjectBusy) => drop(self.write_back()),
                answer => done += answer.unwrap().count,
            }
        }
    }

    fn live_bytes(&self) -> u64 {
        self.volume.segments.infos().iter().map(|(_, info)| info.live).sum()
    }
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| at.to_le_bytes()[0].wrapping_mul(31) ^ at.to_le_bytes()[1] ^ seed).collect()
}

#[test]
fn a_clone_shares_segment_data_but_no_later_changes() {
    let mut world = World::new();
    let (source, clone) = (world.file("source"), world.file("clone"));
    let bytes = pattern(600_000, 1);
    world.write_unstable(source, 0, &bytes);
    world.background();
    let live = world.live_bytes();
    let cloned = world.clone_once((source, 0), (clone, 0), 0).unwrap();
    assert_eq!((cloned.count, cloned.file.before.size, cloned.file.after.size), (600_000, 0, 600_000));
    assert!(world.read(clone).unwrap() == bytes);
    world.commit();
    world.crash(1);
    assert!(world.read(clone).unwrap() == bytes);
    world.check();
    world.background();
    assert_eq!(world.live_bytes(), live, "nothing was copied");
    assert_eq!(world.attributes(clone).unwrap().used, 600_000);
    // Later changes are not shared.
    world.write(source, 10, b"source").unwrap();
    world.write(clone, 20, b"clone").unwrap();
    world.truncate(clone, 500_000).unwrap();
    world.background();
    let mut expected = bytes.clone();
    expected[10..16].copy_from_slice(b"source");
    assert!(world.read(source).unwrap() == expected);
    let mut expected = bytes[..500_000].to_vec();
    expected[20..25].copy_from_slice(b"clone");
    assert!(world.read(clone).unwrap() == expected);
    world.check();
    // Removing the last file frees the data.
    world.remove(Ino::ROOT, "source").unwrap();
    world.background();
    assert!(world.read(clone).unwrap() == expected);
    world.check();
    world.remove(Ino::ROOT, "clone").unwrap();
    world.background();
    assert_eq!(world.live_bytes(), 0);
    world.reopen();
}

#[test]
fn shared_extents_take_space_once() {
    let mut world = World::new();
    let source = world.file("source");
    world.write_unstable(source, 0, &pattern(600_000, 3));
    world.background();
    let status = |world: &mut World| world.run(|v, r| v.status(r)).unwrap();
    let before = status(&mut world);
    for number in 0..10 {
        let clone = world.file(&format!("clone {number}"));
        world.clone_once((source, 0), (clone, 0), 0).unwrap();
    }
    for _ in 0..2 {
        let after = status(&mut world);
        assert_eq!(after.bytes_used, 11 * 600_000);
        let taken = before.bytes_free - after.bytes_free;
        assert!(taken < 600_000 / 20, "clones took {taken} bytes");
        world.background();
    }
    world.remove(Ino::ROOT, "source").unwrap();
    assert!(
        before.bytes_free - status(&mut world).bytes_free < 600_000 / 20,
        "the clones still use the data"
    );
    (0..10).for_each(|number| world.remove(Ino::ROOT, &format!("clone {number}")).unwrap());
    assert!(status(&mut world).bytes_free >= before.bytes_free + 600_000, "unreferenced data is freed");
}

#[test]
fn a_clone_survives_changes_of_its_source_around_a_checkpoint() {
    // The layer of the source data, the checkpoints before the clone, and the change of the source after it.
    for case in 0..27_u64 {
        let (written, before_clone, after_clone) = (case % 3, case / 3 % 3, case / 9);
        let mut world = World::new();
        let (source, clone) = (world.file("source"), world.file("clone"));
        let bytes = pattern(200_000, 2);
        match written {
            0 => drop(world.write_unstable(source, 0, &bytes)),
            1 => bytes.chunks(50_000).zip(0..).for_each(|(part, number)| {
                world.write(source, number * 50_000, part).unwrap();
            }),
            _ => {
                world.write_unstable(source, 0, &bytes);
                world.write_back();
            }
        }
        if before_clone > 0 {
            world.checkpoint();
        }
        if before_clone > 1 {
            world.write(source, 300_000, b"more").unwrap();
        }
        world.copy((source, 0), (clone, 0), 200_000);
        match after_clone {
            0 => world.remove(Ino::ROOT, "source").unwrap(),
            1 => world.truncate(source, 0).unwrap(),
            _ => world.write_how(source, 0, &[9; 200_000], Stability::Unstable).map(drop).unwrap(),
        }
        world.write_back();
        let look = |world: &mut World, when: &str| {
            assert!(world.read(clone).unwrap() == bytes, "case {case}, {when}");
            world.check();
        };
        look(&mut world, "at once");
        world.crash(case);
        look(&mut world, "after a crash");
        world.checkpoint();
        look(&mut world, "after a checkpoint");
        world.background();
        world.crash(case + 100);
        look(&mut world, "after another crash");
        world.background();
        look(&mut world, "after more background work");
    }
}

#[test]
fn the_cleaner_moves_extents_that_clones_share() {
    let mut world = World::new();
    let files: Vec<Ino> = (0..12).map(|number| world.file(&number.to_string())).collect();
    for (file, seed) in files.iter().zip(0..) {
        world.write_unstable(*file, 0, &pattern(120_000, seed));
        world.write_back();
    }
    let clone = world.file("clone");
    world.copy((files[3], 0), (clone, 0), 120_000);
    world.copy((files[3], 5), (clone, 200_001), 100_000);
    world.background();
    for number in (0..12).filter(|number| *number != 3) {
        world.remove(Ino::ROOT, &number.to_string()).unwrap();
    }
    for _ in 0..6 {
        world.background();
    }
    assert!(world.volume.cleaner.cleaned() > 0);
    let expected = pattern(120_000, 3);
    assert!(world.read_at(clone, 0, 120_000).unwrap() == expected);
    assert!(world.read_at(clone, 200_001, 100_000).unwrap() == expected[5..100_005]);
    assert!(world.read(files[3]).unwrap() == expected);
    world.check();
    world.reopen();
}

#[test]
fn holes_and_inline_data_are_cloned() {
    let mut world = World::new();
    let (source, clone) = (world.file("source"), world.file("clone"));
    world.write(source, 10_000, &pattern(5_000, 3)).unwrap();
    world.write_unstable(source, 100_000, &pattern(100_000, 4));
    world.truncate(source, 1 << 40).unwrap();
    world.write_unstable(clone, 0, &[7; 150_000]);
    world.background();
    world.write(source, 40_000, &pattern(100, 5)).unwrap();
    world.write_unstable(clone, 30_000, &[8; 20_000]);
    world.clone_once((source, 0), (clone, 0), 0).unwrap();
    let expected = world.read(source).unwrap();
    assert_eq!(world.attributes(clone).map(|seen| (seen.size, seen.used)), Ok((1 << 40, 105_100)));
    assert!(world.read(clone).unwrap() == expected);
    world.commit();
    world.crash(1);
    assert!(world.read(clone).unwrap() == expected);
    world.background();
    assert!(world.read(clone).unwrap() == expected);
    world.check();
}

#[test]
fn ranges_that_cannot_be_cloned_are_refused() {
    let mut world = World::new();
    let (source, clone) = (world.file("source"), world.file("clone"));
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    world.write(source, 0, &[1; 10_000]).unwrap();
    for (from, to, count) in [
        ((source, 1), (clone, 0), 0),
        ((source, 0), (clone, 1), 0),
        ((source, 0), (clone, 0), 5),
        ((source, 0), (clone, 0), 10_001),
        ((source, 12_288), (clone, 0), 0),
        ((source, 0), (source, 4096), 8192),
    ] {
        assert_eq!(world.clone_once(from, to, count), Err(Error::Invalid), "{from:?} {to:?} {count}");
    }
    assert_eq!(world.clone_once((directory, 0), (clone, 0), 0), Err(Error::IsDirectory));
    assert_eq!(world.clone_once((source, 0), (directory, 0), 0), Err(Error::IsDirectory));
    assert_eq!(world.clone_once((source, 0), (clone, i64::MAX as u64 & !4095), 0), Err(Error::FileTooLarge));
    assert_eq!(world.clone_once((source, 8192), (source, 12_288), 0).unwrap().count, 1808);
    assert_eq!(world.attributes(source).unwrap().size, 14_096);
    world.chmod(source, 0o200);
    world.chmod(clone, 0o444);
    world.who = Credentials { uid: 5, gid: 5, groups: vec![] };
    assert_eq!(world.clone_once((source, 0), (clone, 0), 0), Err(Error::AccessDenied));
    assert_eq!(world.clone_once((clone, 0), (clone, 0), 0), Err(Error::AccessDenied));
    world.who = Credentials::root();
    let empty = world.clone_once((clone, 0), (source, 0), 0).unwrap();
    assert_eq!((empty.count, empty.file.before.change), (0, empty.file.after.change));
}

#[test]
fn random_copies_agree_with_arrays() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut world = World::new();
        let files = ["a", "b", "c"].map(|name| world.file(name));
        let mut expected = vec![Vec::new(); 3];
        for turn in 0..150_u8 {
            let below = |random: &mut Random, bound| usize::try_from(random.below(bound)).unwrap();
            let (which, other) = (below(&mut random, 3), below(&mut random, 3));
            let (at, to) = (below(&mut random, 150_000), below(&mut random, 150_000));
            let length = 1 + below(&mut random, 40_000);
            match random.below(12) {
                0..=3 => {
                    let data = pattern(length, turn);
                    let how = if turn % 2 == 0 { Stability::Unstable } else { Stability::FileSync };
                    world.write_how(files[which], at as u64, &data, how).unwrap();
                    let file: &mut Vec<u8> = &mut expected[which];
                    file.resize(file.len().max(at + length), 0);
                    file[at..at + length].copy_from_slice(&data);
                }
                4..=8 => {
                    let count = length.min(expected[which].len().saturating_sub(at));
                    let overlap = which == other && at < to + count && to < at + count;
                    if count == 0 || overlap {
                        continue;
                    }
                    world.copy((files[which], at as u64), (files[other], to as u64), count as u64);
                    let data = expected[which][at..at + count].to_vec();
                    let file = &mut expected[other];
                    file.resize(file.len().max(to + count), 0);
                    file[to..to + count].copy_from_slice(&data);
                }
                9 => {
                    world.truncate(files[which], at as u64).unwrap();
                    expected[which].resize(at, 0);
                }
                10 => world.background(),
                _ => drop(world.checkpoint()),
            }
            for (file, expected) in files.iter().zip(&expected) {
                assert!(world.read(*file).unwrap() == *expected, "seed {seed}, turn {turn}");
            }
        }
        world.write_back();
        world.check();
        world.crash(seed);
        world.reopen();
        for (file, expected) in files.iter().zip(&expected) {
            assert!(world.read(*file).unwrap() == *expected, "seed {seed}, reopened");
        }
        for name in ["a", "b", "c"] {
            world.remove(Ino::ROOT, name).unwrap();
        }
        world.background();
        assert_eq!(world.live_bytes(), 0, "seed {seed}");
    }
}
