//! SEEK, ALLOCATE and DEALLOCATE.

use super::world::World;
use crate::api::attributes::Wcc;
use crate::api::ids::Ino;
use crate::api::request::{Credentials, Durable, Error};
use crate::api::results::{Sought, SoughtContent, Stability};
use crate::limits::FILE_BYTES_MAX;
use crate::media::memory::Random;

impl World {
    pub(super) fn deallocate(&mut self, ino: Ino, offset: u64, length: u64) -> Result<Wcc, Error> {
        let (mut done, mut first) = (0, None);
        loop {
            let (at, left) = (offset + done, length - done);
            match self.run(|v, r| v.deallocate(r, ino, at, left)) {
                Ok(punched) => {
                    done += punched.count;
                    let before = *first.get_or_insert(punched.file.before);
                    if done >= length {
                        return Ok(Wcc { before, ..punched.file });
                    }
                }
                Err(Error::Busy) if done > 0 => drop(self.checkpoint()),
                Err(error) => return Err(error),
            }
        }
    }

    fn allocate(&mut self, ino: Ino, offset: u64, length: u64) -> Result<Wcc, Error> {
        self.run(|v, r| v.allocate(r, ino, offset, length))
    }

    fn seek(&mut self, ino: Ino, offset: u64, content: SoughtContent) -> Sought {
        let mut at = offset;
        loop {
            match self.run(|v, r| v.seek(r, ino, at, content)).unwrap() {
                Sought::NotBefore(next) => at = next,
                found => return found,
            }
        }
    }
}

/// Returns the data ranges of a file as SEEK reports them.
fn data(world: &mut World, ino: Ino) -> Vec<(u64, u64)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Sought::At(start) = world.seek(ino, at, SoughtContent::Data) {
        let Sought::At(end) = world.seek(ino, start, SoughtContent::Hole) else { panic!("no end of data") };
        assert!(end > start);
        found.push((start, end));
        at = end;
    }
    found
}

#[test]
fn a_hole_over_data_in_any_layer_reads_as_zeros_and_takes_no_space() {
    // The data is unstable, in the journal, in a segment, or in the index.
    for place in 0..4 {
        let mut world = World::new();
        let file = world.file("file");
        let how = if place == 1 { Stability::FileSync } else { Stability::Unstable };
        world.write_how(file, 0, &[7; 60_000], how).unwrap();
        world.write_unstable(file, 60_000, &[7; 140_000]);
        if place >= 2 {
            world.write_back();
        }
        if place == 3 {
            world.checkpoint();
        }
        let wcc = world.deallocate(file, 10_001, 100_000).unwrap();
        assert_eq!((wcc.before.size, wcc.after.size), (200_000, 200_000));
        assert!(wcc.after.change > wcc.before.change && wcc.after.mtime > wcc.before.mtime);
        let expected = [vec![7; 10_001], vec![0; 100_000], vec![7; 89_999]].concat();
        let look = |world: &mut World, when: &str| {
            assert!(world.read(file).unwrap() == expected, "{place} {when}");
            assert_eq!(data(world, file), [(0, 10_001), (110_001, 200_000)], "{place} {when}");
            assert_eq!(world.attributes(file).unwrap().used, 100_000, "{place} {when}");
        };
        look(&mut world, "at once");
        world.write_back();
        look(&mut world, "written back");
        world.crash(place);
        look(&mut world, "after a crash");
        world.check();
        world.checkpoint();
        look(&mut world, "after a checkpoint");
        world.reopen();
        look(&mut world, "after a restart");
    }
}

#[test]
fn alternating_holes_and_data_read_correctly() {
    let mut world = World::new();
    let file = world.file("file");
    world.write_unstable(file, 0, &[1; 300_000]);
    world.write_back();
    world.checkpoint();
    world.deallocate(file, 50_000, 200_000).unwrap();
    world.write(file, 100_000, &[2; 10]).unwrap();
    world.deallocate(file, 100_005, 1).unwrap();
    let ranges = [(0, 50_000), (100_000, 100_005), (100_006, 100_010), (250_000, 300_000)];
    assert_eq!(data(&mut world, file), ranges);
    world.commit();
    world.crash(1);
    assert_eq!(data(&mut world, file), ranges);
    world.background();
    assert_eq!(data(&mut world, file), ranges);
    assert_eq!(world.attributes(file).unwrap().used, 100_009);
    world.check();
}

#[test]
fn a_hole_at_the_end_keeps_the_size() {
    let mut world = World::new();
    let file = world.file("file");
    world.write_unstable(file, 0, &[1; 300_000]);
    world.write_back();
    world.checkpoint();
    world.deallocate(file, 100_000, 1 << 40).unwrap();
    assert_eq!(world.attributes(file).map(|seen| (seen.size, seen.used)), Ok((300_000, 100_000)));
    assert_eq!(world.seek(file, 100_000, SoughtContent::Data), Sought::End);
    assert_eq!(world.seek(file, 100_000, SoughtContent::Hole), Sought::At(100_000));
    // Unstable data beyond the mappings is discarded too; the size stays.
    world.write_unstable(file, 290_000, &[2; 20_000]);
    world.deallocate(file, 200_000, 1 << 40).unwrap();
    assert_eq!(world.attributes(file).map(|seen| (seen.size, seen.used)), Ok((310_000, 100_000)));
    world.commit();
    world.crash(1);
    assert_eq!(world.attributes(file).map(|seen| (seen.size, seen.used)), Ok((310_000, 100_000)));
    assert!(world.read(file).unwrap() == [vec![1; 100_000], vec![0; 210_000]].concat());
    world.background();
    world.check();
}

#[test]
fn the_space_of_a_hole_is_freed() {
    let mut world = World::new();
    let file = world.file("file");
    for part in 0..40 {
        world.write_unstable(file, part << 20, &[7; 1 << 20]);
        world.write_back();
    }
    world.background();
    let segments = world.volume.segments.infos().len();
    world.deallocate(file, 1 << 20, 38 << 20).unwrap();
    for _ in 0..10 {
        world.background();
    }
    let left = world.volume.segments.infos().len();
    assert!(left < segments / 2, "{left} of {segments} segments remain");
    assert!(world.read_at(file, 39 << 20, 1 << 20).unwrap() == vec![7; 1 << 20]);
    world.check();
}

#[test]
fn seek_handles_both_ends_of_the_file() {
    let mut world = World::new();
    let file = world.file("file");
    assert_eq!(world.seek(file, 0, SoughtContent::Data), Sought::Beyond);
    world.truncate(file, 1 << 40).unwrap();
    assert_eq!(world.seek(file, 0, SoughtContent::Data), Sought::End);
    assert_eq!(world.seek(file, 5, SoughtContent::Hole), Sought::At(5));
    assert_eq!(world.seek(file, 1 << 40, SoughtContent::Hole), Sought::Beyond);
    world.write(file, 1 << 39, b"x").unwrap();
    assert_eq!(world.seek(file, 0, SoughtContent::Data), Sought::At(1 << 39));
    assert_eq!(world.seek(file, 1 << 39, SoughtContent::Hole), Sought::At((1 << 39) + 1));
    world.write_unstable(file, 100, b"unstable");
    assert_eq!(world.seek(file, 0, SoughtContent::Data), Sought::At(100));
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    let refused = world.run(|v, r| v.seek(r, directory, 0, SoughtContent::Data)).unwrap_err();
    assert_eq!(refused, Error::IsDirectory);
}

#[test]
fn a_seek_through_many_mappings_proceeds_in_steps() {
    let mut world = World::new();
    let file = world.file("file");
    // Maps every second page, then the others; the index holds all mappings.
    for page in 0..3000 {
        world.write(file, page * 8192, &[1; 4096]).unwrap();
        if page % 100 == 0 {
            world.background();
        }
    }
    world.background();
    assert_eq!(world.seek(file, 4096, SoughtContent::Data), Sought::At(8192));
    world.truncate(file, 5000 * 8192).unwrap();
    for page in 0..3000 {
        world.write(file, page * 8192 + 4096, &[1; 4096]).unwrap();
        if page % 100 == 0 {
            world.background();
        }
    }
    world.background();
    world.deallocate(file, 2900 * 8192, 1).unwrap();
    assert_eq!(world.seek(file, 0, SoughtContent::Hole), Sought::At(2900 * 8192));
    world.deallocate(file, 0, 2999 * 8192).unwrap();
    assert_eq!(world.seek(file, 0, SoughtContent::Data), Sought::At(2999 * 8192));
    assert_eq!(world.seek(file, 0, SoughtContent::Hole), Sought::At(0));
}

#[test]
fn allocate_grows_a_file_and_checks_limits() {
    let mut world = World::new();
    let file = world.file("file");
    world.write(file, 0, b"data").unwrap();
    let answer = world.answer(|v, r| v.allocate(r, file, 2, 10_000)).unwrap();
    assert_eq!(world.durable(answer.after), Durable::NotYet);
    assert_eq!(answer.value.after.size, 10_002);
    assert_eq!(world.allocate(file, 0, 5).unwrap().after.size, 10_002);
    assert_eq!(world.allocate(file, 0, 1 << 50), Err(Error::NoSpace));
    for (offset, length, error) in [(0, 0, Error::Invalid), (FILE_BYTES_MAX, 1, Error::FileTooLarge)] {
        assert_eq!(world.allocate(file, offset, length), Err(error));
        assert_eq!(world.deallocate(file, offset, length), Err(error));
    }
    world.who = Credentials { uid: 5, gid: 5, groups: vec![] };
    assert_eq!(world.allocate(file, 0, 1), Err(Error::AccessDenied));
    assert_eq!(world.deallocate(file, 0, 1), Err(Error::AccessDenied));
    world.who = Credentials::root();
    world.commit();
    world.crash(1);
    assert_eq!(world.attributes(file).map(|seen| (seen.size, seen.used)), Ok((10_002, 4)));
}

#[test]
fn random_holes_and_data_agree_with_an_array() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut world = World::new();
        let file = world.file("file");
        let mut expected = vec![0_u8; 0];
        for turn in 0..150_u8 {
            let (at, length) = (random.below(150_000), 1 + random.below(40_000));
            let (from, to) = (usize::try_from(at).unwrap(), usize::try_from(at + length).unwrap());
            match random.below(10) {
                0..=3 => {
                    let how = if turn % 2 == 0 { Stability::Unstable } else { Stability::FileSync };
                    world.write_how(file, at, &vec![turn + 1; to - from], how).unwrap();
                    expected.resize(expected.len().max(to), 0);
                    expected[from..to].fill(turn + 1);
                }
                4..=6 => {
                    world.deallocate(file, at, length).unwrap();
                    let end = expected.len().min(to);
                    if from < end {
                        expected[from..end].fill(0);
                    }
                }
                7 => {
                    world.truncate(file, at).unwrap();
                    expected.resize(from, 0);
                }
                8 => drop(world.write_back()),
                _ => drop(world.checkpoint()),
            }
            assert!(world.read(file).unwrap() == expected, "seed {seed}, turn {turn}");
        }
        let used: u64 = data(&mut world, file).iter().map(|(start, end)| end - start).sum();
        world.write_back();
        assert_eq!(world.attributes(file).unwrap().used, used, "seed {seed}");
        world.crash(seed);
        assert!(world.read(file).unwrap() == expected, "seed {seed}, after a crash");
        world.reopen();
        assert!(world.read(file).unwrap() == expected, "seed {seed}, reopened");
    }
}
