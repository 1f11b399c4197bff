//! Bounds on the memory of a volume.

use std::sync::Arc;

use super::world::World;
use crate::api::ids::{Cookie, Ino};
use crate::api::request::{Access, Durable, Error, Request};
use crate::api::results::Stability;
use crate::background::Progress;
use crate::encoding::key;
use crate::limits::{EXTENT_BYTES_MAX, READ_RUNS_MAX, RECENT_VERSIONS_INODES_MAX};

#[test]
fn the_overhead_of_dirty_files_counts_towards_the_limit() {
    let mut world = World::new();
    let files: Vec<Ino> = (0..1000).map(|number| world.file(&number.to_string())).collect();
    world.background();
    let refused = files.iter().position(|file| {
        world.write_how(*file, 0, &[1], Stability::Unstable).is_err_and(|error| error == Error::Busy)
    });
    let taken = refused.expect("the inodes of dirty files were not counted");
    assert!(taken > 50, "{taken}");
    assert_eq!(world.write_back(), Progress::Worked);
    assert_eq!(world.volume.write_back.dirty_bytes(), 0);
    world.write_how(files[taken], 0, &[1], Stability::Unstable).unwrap();
}

#[test]
fn the_overhead_of_dirty_ranges_counts_towards_the_limit() {
    let mut world = World::new();
    let file = world.file("f");
    let refused = (0..100_000).find(|number| {
        world.write_how(file, number * 2, &[1], Stability::Unstable).is_err_and(|error| error == Error::Busy)
    });
    assert!(refused.is_some_and(|pieces| pieces < 10_000), "{refused:?}");
    assert_eq!(world.write_back(), Progress::Worked);
    assert_eq!(world.volume.write_back.dirty_bytes(), 0);
}

#[test]
fn unsaved_access_times_are_bounded() {
    let mut world = World::new();
    let max = world.volume.limits.inodes();
    for number in 0..2 * max {
        world.file(&number.to_string());
        world.commit();
        if number % 100 == 0 {
            world.background();
        }
    }
    for number in 0..2 * max {
        let file = world.lookup(Ino::ROOT, &number.to_string()).unwrap();
        world.read_at(file, 0, 10).unwrap();
    }
    assert!(world.volume.write_back.files() <= max / 16);
    assert!(world.volume.inodes.len() <= max + max / 8, "{} of {max}", world.volume.inodes.len());
    world.background();
    world.check();
}

#[test]
fn a_file_of_many_mappings_is_read_overwritten_and_counted_in_parts() {
    let (mut world, file, count) = (World::new(), Ino(2), 70_000_u64);
    assert_eq!(world.file("f"), file);
    for number in 0..count {
        if let Err(error) = world.write_how(file, number * 3, &[1, 2], Stability::Unstable) {
            assert_eq!(error, Error::Busy);
            world.background();
            world.write_how(file, number * 3, &[1, 2], Stability::Unstable).unwrap();
        }
    }
    world.background();
    let expected: Vec<u8> = [1, 2, 0].repeat(usize::try_from(count).unwrap());
    let expected = &expected[..expected.len() - 1];
    let mut found = Vec::new();
    let mut reads = 0;
    while found.len() < expected.len() {
        let part = world.read_at(file, found.len() as u64, 1 << 20).unwrap();
        assert!(!part.is_empty() && part.len() <= 3 * 5 * READ_RUNS_MAX, "{} bytes", part.len());
        found.extend(part);
        reads += 1;
    }
    assert!(found == expected && reads > 3, "{reads} reads");
    // Overwriting all mappings has to count the bytes that were holes.
    world.write_how(file, 0, &vec![3; expected.len()], Stability::Unstable).unwrap();
    world.background();
    world.truncate(file, 1000).unwrap();
    assert_eq!(world.attributes(file).unwrap().used, 1000);
    world.background();
    world.check();
    world.reopen();
    assert_eq!(world.read(file).unwrap(), [3; 1000]);
}

#[test]
fn the_history_of_index_versions_is_bounded() {
    let world = World::new();
    let mut view = world.volume.view();
    for turn in 0..20 {
        let changed = (turn * 30_000..(turn + 1) * 30_000).map(Ino).collect();
        view = Arc::new(view.with_index(Arc::clone(&view.index), changed));
        let inodes: usize = view.recent_versions.iter().map(|(_, inos)| inos.len()).sum();
        assert!(inodes <= RECENT_VERSIONS_INODES_MAX, "{inodes}");
    }
    let version = view.version;
    assert!(view.is_map_current(Ino(5), version - 1) && !view.is_map_current(Ino(5), version - 10));
}

#[test]
fn replies_to_large_writes_wait_before_memory_runs_short() {
    let mut world = World::new();
    let file = world.file("f");
    let data = vec![1; EXTENT_BYTES_MAX];
    let max = world.volume.limits.dirty_bytes / 2 / data.len() as u64;
    let mut after = Vec::new();
    for number in 0..=max {
        let offset = number * data.len() as u64;
        after.push(world.write_how(file, offset, &data, Stability::Unstable).unwrap().after);
    }
    world.commit();
    let last = after.pop().unwrap();
    assert!(after.iter().all(|after| world.durable(*after) == Durable::Yes));
    assert_eq!(world.durable(last), Durable::NotYet);
    world.attributes(file).unwrap();
    assert_eq!(world.write_back(), Progress::Worked);
    assert_eq!(world.durable(last), Durable::Yes);
}

#[test]
fn an_overwritten_file_takes_little_more_than_its_length() {
    let mut world = World::new();
    let file = world.file("f");
    for round in 0..40 {
        for piece in 0..8 {
            let data = vec![round; EXTENT_BYTES_MAX];
            let offset = piece * data.len() as u64;
            world.write_how(file, offset, &data, Stability::Unstable).unwrap();
            world.write_back();
        }
        let now = world.now();
        while world.volume.step_checkpoint(now, false) == Progress::Worked {}
        let segments = world.volume.segments.infos().len();
        assert!(segments < 16, "{segments} segments after {round} rounds");
    }
    world.checkpoint();
    let cached = world.volume.blocks.weight();
    assert!(cached < (1 << 20) + (64 << 10), "{cached} bytes of cached blocks for 1 MiB of live data");
    assert!(world.read(file).unwrap().iter().all(|byte| *byte == 39));
    world.check();
}

#[test]
fn an_index_in_memory_is_read_in_place() {
    let mut world = World::new();
    let file = world.file("f");
    world.reopen();
    let cached = |world: &mut World| {
        let now = world.now();
        let request = Request { credentials: &world.who, now, access: Access::Cached, key: None };
        world.volume.lookup(&request, Ino::ROOT, b"f").map_err(|failure| failure.error)
    };
    assert_eq!(cached(&mut world).map(|found| found.value.attributes.ino), Err(Error::WouldBlock));
    for _ in 0..2000 {
        assert!(world.volume.view().index.get(&key::inode(file)).unwrap().is_some());
    }
    assert_eq!(cached(&mut world).map(|found| found.value.attributes.ino), Ok(file));
}

#[test]
fn listing_a_large_directory_does_not_load_its_inodes() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    for number in 0..100 {
        let file = world.create(directory, &format!("f{number}")).unwrap();
        // Some inode numbers are far apart, and some inodes have a second name.
        if number % 10 == 0 {
            world.link(file, directory, &format!("also {number}")).unwrap();
            for other in 0..10 {
                world.file(&format!("{number}-{other}"));
            }
        }
        if number % 7 == 0 {
            world.remove(directory, &format!("f{number}")).unwrap();
        }
    }
    world.reopen();
    let changed = world.lookup(directory, "f50").unwrap();
    world.write_how(changed, 0, &[1; 100], Stability::FileSync).unwrap();
    world.remove(directory, "f51").unwrap();
    let before = world.volume.inodes.len();
    let listing = world.run(|v, r| v.read_directory(r, directory, Cookie(0), 1000, true)).unwrap();
    assert!(world.volume.inodes.len() <= before + 1, "the listing loaded inodes other than the parent");
    assert!(listing.end);
    assert_eq!(listing.entries.len(), 2 + 100 + 10 - 15 - 1);
    for entry in listing.entries {
        let known = world.run(|v, r| v.attributes(r, entry.ino)).unwrap();
        assert_eq!(entry.attributes, Some(known));
    }
}
