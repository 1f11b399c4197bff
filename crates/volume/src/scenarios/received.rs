//! WRITEs whose data was received into buffers of the engine.

use super::world::World;
use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::api::results::Stability;
use crate::bytes::Received;
use crate::limits::EXTENT_BYTES_MAX;
use crate::media::memory::Random;

/// Largest file of the tests, bytes.
const FILE_BYTES: u64 = 1 << 20;

impl World {
    /// Receives `data` for `offset` in parts of at most `part` bytes.
    fn received(&self, offset: u64, data: &[u8], part: usize) -> Received {
        let mut arriving = self.volume.arriving(offset, data.len());
        for part in data.chunks(part) {
            let mut rest = part;
            let mut spaces = arriving.spaces(part.len());
            for space in &mut spaces {
                let (here, later) = rest.split_at(rest.len().min(space.len()));
                space[..here.len()].copy_from_slice(here);
                rest = later;
            }
            arriving.received(part.len());
        }
        arriving.finish()
    }

    fn write_received(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &Received,
        how: Stability,
    ) -> Result<(), Error> {
        self.run(|v, r| v.write(r, ino, offset, data, how)).map(drop)
    }
}

fn put(model: &mut Vec<u8>, offset: usize, data: &[u8]) {
    model.resize(model.len().max(offset + data.len()), 0);
    model[offset..offset + data.len()].copy_from_slice(data);
}

/// One random WRITE; a third of them come as bytes, and a few were received for another offset.
fn write(world: &mut World, random: &mut Random, file: Ino, model: &mut Vec<u8>) {
    let unit = [1, 512, 4096, EXTENT_BYTES_MAX as u64][usize::try_from(random.below(4)).unwrap()];
    let offset = random.below(FILE_BYTES / unit) * unit;
    let longest = [5_000, 70_000, 300_000, FILE_BYTES][usize::try_from(random.below(4)).unwrap()];
    let length = (1 + random.below(longest)).next_multiple_of(unit).min(FILE_BYTES - offset);
    let data = random.bytes(usize::try_from(length).unwrap());
    let how = if random.below(3) == 0 { Stability::FileSync } else { Stability::Unstable };
    let part = 1 + usize::try_from(random.below(200_000)).unwrap();
    let for_offset = if random.below(8) == 0 { random.below(FILE_BYTES) } else { offset };
    let is_received = random.below(3) > 0;
    let received = world.received(for_offset, &data, part);
    // A client repeats what cannot be accepted yet.
    for _ in 0..100 {
        let written = match is_received {
            true => world.write_received(file, offset, &received, how),
            false => world.write_how(file, offset, &data, how).map(drop),
        };
        match written {
            Err(Error::Busy) => world.background(),
            other => {
                other.unwrap();
                put(model, usize::try_from(offset).unwrap(), &data);
                return;
            }
        }
    }
    panic!("the WRITE is never accepted");
}

#[test]
fn files_hold_what_was_received_however_it_was_cut_and_overwritten() {
    for seed in 0..6 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let mut world = World::new();
        let file = world.file("f");
        let mut model = Vec::new();
        for _ in 0..60 {
            match random.below(10) {
                0..5 => write(&mut world, random, file, &mut model),
                5 => {
                    let size = usize::try_from(random.below(FILE_BYTES)).unwrap();
                    world.truncate(file, size as u64).unwrap();
                    model.resize(size, 0);
                }
                6 => drop(world.write_back()),
                7 => world.background(),
                8 if random.below(4) == 0 => {
                    world.write_back();
                    world.crash(seed);
                }
                8 if random.below(4) == 0 => world.reopen(),
                _ => {
                    let from = random.below(FILE_BYTES);
                    let count = u32::try_from(random.below(300_000)).unwrap();
                    let end = model.len().min(usize::try_from(from + u64::from(count)).unwrap());
                    let start = end.min(usize::try_from(from).unwrap());
                    assert!(world.read_at(file, from, count).unwrap() == model[start..end]);
                }
            }
            assert!(world.read(file).unwrap() == model);
        }
        // Everything is read from media, and verified.
        world.reopen();
        assert!(world.read(file).unwrap() == model);
    }
}

#[test]
fn a_small_stable_write_of_received_data_is_journaled() {
    let mut world = World::new();
    let file = world.file("f");
    let data = Random::new(3).bytes(8000);
    let received = world.received(EXTENT_BYTES_MAX as u64 - 5000, &data, 3000);
    world.write_received(file, EXTENT_BYTES_MAX as u64 - 5000, &received, Stability::FileSync).unwrap();
    world.write_received(file, 0, &received, Stability::FileSync).unwrap();
    world.commit();
    world.crash(5);
    assert!(world.read_at(file, EXTENT_BYTES_MAX as u64 - 5000, 9000).unwrap() == data);
    assert!(world.read_at(file, 0, 8000).unwrap() == data);
}

#[test]
fn the_cleaner_moves_extents_that_were_written_from_where_they_lay() {
    let mut world = World::new();
    let random = &mut Random::new(7);
    let files: Vec<Ino> = (0..12).map(|number| world.file(&number.to_string())).collect();
    let contents: Vec<Vec<u8>> = files.iter().map(|_| random.bytes(EXTENT_BYTES_MAX + 3000)).collect();
    for (file, content) in files.iter().zip(&contents) {
        let received = world.received(0, content, 10_000);
        world.write_received(*file, 0, &received, Stability::Unstable).unwrap();
        world.write_back();
    }
    world.background();
    for number in (0..12).filter(|number| *number != 3) {
        world.remove(Ino::ROOT, &number.to_string()).unwrap();
    }
    for _ in 0..6 {
        world.background();
    }
    assert!(world.volume.cleaner.cleaned() > 0);
    world.check();
    world.reopen();
    assert!(world.read(files[3]).unwrap() == contents[3]);
}
