//! Contents, sizes and times of files.

use super::world::World;
use crate::api::attributes::{SetAttributes, SetTime};
use crate::api::ids::Ino;
use crate::api::request::{Access, Error, Request};
use crate::api::results::{Stability, VolumeStatus};
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::key::FIRST;
use crate::limits::{FILE_BYTES_MAX, MAP_WINDOW_MAPPINGS};
use crate::media::memory::Random;

/// Offset at which the tests of huge files write.
const FAR: u64 = 1 << 62;

#[test]
fn random_writes_and_truncations_agree_with_an_array() {
    for seed in 0..12 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let mut world = World::new();
        let file = world.file("f");
        // Half of the seeds write at offsets that use the high bits.
        let base = if seed % 2 == 0 { 0 } else { FAR };
        let mut model: Vec<u8> = Vec::new();
        if base > 0 {
            world.truncate(file, base).unwrap();
        }
        for turn in 0..120_u8 {
            let offset = random.below(200_000);
            let large = random.below(5) == 0;
            let length = 1 + random.below(if large { 150_000 } else { 7_000 });
            let data = vec![turn + 1; usize::try_from(length).unwrap()];
            let at = usize::try_from(offset).unwrap();
            match random.below(6) {
                0 => {
                    world.truncate(file, base + offset).unwrap();
                    model.resize(at, 0);
                }
                kind => {
                    let how = if kind < 4 { Stability::Unstable } else { Stability::FileSync };
                    match world.write_how(file, base + offset, &data, how) {
                        Ok(_) => {
                            model.resize(model.len().max(at + data.len()), 0);
                            model[at..at + data.len()].copy_from_slice(&data);
                        }
                        Err(error) => assert_eq!(error, Error::Busy),
                    }
                }
            }
            match random.below(10) {
                0 => drop(world.write_back()),
                1 => drop(world.checkpoint()),
                2 => drop(world.clean()),
                3 => {
                    world.write_back();
                    world.crash(u64::from(turn));
                }
                _ => {}
            }
            let from = random.below(model.len() as u64 + 1);
            let found = world.read_at(file, base + from, 80_000).unwrap();
            let expected = &model[usize::try_from(from).unwrap()..];
            assert!(found == expected[..expected.len().min(80_000)], "turn {turn}");
            assert_eq!(world.attributes(file).unwrap().size, base + model.len() as u64);
        }
        world.check();
        world.reopen();
        assert!(world.read_at(file, base, 1 << 20).unwrap() == model);
        let used = world.attributes(file).unwrap().used;
        assert_eq!(world.usage(crate::api::quotas::QuotaKind::Volume, 0).bytes, used);
    }
}

#[test]
fn a_file_grows_to_the_largest_offset_and_no_further() {
    let mut world = World::new();
    let file = world.file("f");
    world.write(file, FILE_BYTES_MAX - 4, b"last").unwrap();
    assert_eq!(world.write(file, FILE_BYTES_MAX - 3, b"last"), Err(Error::FileTooLarge));
    assert_eq!(world.write(file, u64::MAX, b"x"), Err(Error::FileTooLarge));
    assert_eq!(world.truncate(file, FILE_BYTES_MAX + 1), Err(Error::FileTooLarge));
    world.write(file, 10, b"first").unwrap();
    world.checkpoint();
    assert_eq!(world.read_at(file, FILE_BYTES_MAX - 6, 100).unwrap(), b"\0\0last");
    assert_eq!(world.read_at(file, u64::MAX, 100).unwrap(), b"");
    assert_eq!(world.attributes(file).unwrap().used, 9);
    // Counting the bytes that a truncation frees skips holes instead of walking them.
    world.truncate(file, FAR).unwrap();
    assert_eq!(world.attributes(file).unwrap().used, 5);
    world.truncate(file, 12).unwrap();
    world.checkpoint();
    assert_eq!(world.attributes(file).unwrap().used, 2);
    assert_eq!(world.read(file).unwrap(), b"\0\0\0\0\0\0\0\0\0\0fi");
    world.truncate(file, FILE_BYTES_MAX).unwrap();
    assert_eq!(world.read_at(file, FILE_BYTES_MAX - 2, 100).unwrap(), [0, 0]);
    world.reopen();
    assert_eq!(world.attributes(file).unwrap().used, 2);
}

#[test]
fn truncated_data_does_not_reappear() {
    let mut world = World::new();
    for (number, steps) in [0, 1, 2, 3].into_iter().enumerate() {
        let file = world.file(&number.to_string());
        world.write(file, 0, &[1; 10_000]).unwrap();
        world.write_unstable(file, 10_000, &[2; 100_000]);
        // The truncated data is unstable, in a memtable, or in the index.
        if steps > 0 {
            world.write_back();
        }
        if steps > 1 {
            world.checkpoint();
        }
        world.truncate(file, 5_000).unwrap();
        world.truncate(file, 50_000).unwrap();
        if steps > 2 {
            world.commit();
            world.crash(1);
        }
        let expected = [&[1; 5_000][..], &[0; 45_000]].concat();
        assert!(world.read(file).unwrap() == expected);
        world.write(file, 40_000, &[3; 100]).unwrap();
        world.background();
        let found = world.read(file).unwrap();
        assert!(found[..40_000] == expected[..40_000] && found[40_100..] == expected[40_100..]);
        assert_eq!(world.attributes(file).unwrap().used, 5_100);
    }
    world.reopen();
}

#[test]
fn reading_updates_the_access_time_as_relatime_does() {
    let mut world = World::new();
    let file = world.file("f");
    world.write(file, 0, b"data").unwrap();
    let atime = |world: &mut World| {
        world.read(file).unwrap();
        world.attributes(file).unwrap().atime
    };
    let first = atime(&mut world);
    assert!(first > world.attributes(file).unwrap().mtime, "not read since it was written");
    assert_eq!(atime(&mut world), first, "read since");
    world.write(file, 0, b"more").unwrap();
    let second = atime(&mut world);
    assert!(second > first);
    let next_day = second.seconds() + 24 * 60 * 60;
    world.set_clock(Time::from_parts(next_day - 1, 0));
    assert_eq!(atime(&mut world), second);
    world.set_clock(Time::from_parts(next_day + 1, 0));
    let third = atime(&mut world);
    assert!(third > second);
    let shown = world.attributes(file).unwrap();
    assert!(shown.mtime < third && shown.ctime < third, "nothing but the access time changed");
    // The next write-back saves it; replies do not wait for that.
    world.commit();
    world.read(file).unwrap();
    let answer = world.answer(|v, r| v.attributes(r, file)).unwrap();
    assert_eq!(world.durable(answer.after), crate::api::request::Durable::Yes);
    world.write_back();
    world.crash(1);
    assert_eq!(world.attributes(file).unwrap().atime, third);
    // Setting the clock back does not move the access time back.
    world.set_clock(Time::from_parts(500, 0));
    assert_eq!(atime(&mut world), third);
}

#[test]
fn clients_set_atime_and_mtime_but_not_ctime() {
    let mut world = World::new();
    let file = world.file("f");
    let before = world.attributes(file).unwrap();
    let past = Time::from_parts(-5, 7);
    let set =
        SetAttributes { atime: SetTime::To(past), mtime: SetTime::To(past), ..SetAttributes::default() };
    world.set(file, &set).unwrap();
    let after = world.attributes(file).unwrap();
    assert_eq!((after.atime, after.mtime), (past, past));
    assert!(after.ctime > before.ctime && after.change > before.change);
    world.write(file, 0, b"x").unwrap();
    assert!(world.attributes(file).unwrap().mtime > before.mtime);
    // The guard refuses a ctime that has changed since.
    let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let guarded = |world: &mut World, guard| {
        let result =
            world.run(|v, r| v.set_attributes(r, file, &set, Some(guard), &mut super::world::nothing));
        result.map(drop)
    };
    assert_eq!(guarded(&mut world, before.ctime), Err(Error::NotSync));
    let now = world.attributes(file).unwrap().ctime;
    assert_eq!(guarded(&mut world, now), Ok(()));
    world.reopen();
    assert_eq!(world.attributes(file).unwrap().mode, 0o600);
}

#[test]
fn unstable_data_is_visible_counted_and_ordered_with_stable_data() {
    let mut world = World::new();
    let file = world.file("f");
    world.write_unstable(file, 0, &[1; 1000]);
    world.write(file, 500, &[2; 100]).unwrap();
    world.write_unstable(file, 550, &[3; 100]);
    let expected = [&[1; 500][..], &[2; 50], &[3; 100], &[1; 350]].concat();
    assert_eq!(world.read(file).unwrap(), expected);
    assert_eq!(world.attributes(file).unwrap().used, 1000);
    // Only stable data is certain to survive a crash.
    world.commit();
    let mut crashed = World::open(world.disk.after_kill(), Time::from_parts(2_000, 0));
    assert_eq!(crashed.attributes(file).unwrap().size, 600);
    assert_eq!(crashed.read(file).unwrap()[500..], [2; 100]);
    world.write_back();
    assert_eq!(world.volume.write_back.dirty_bytes(), 0);
    world.crash(1);
    assert_eq!(world.read(file).unwrap(), expected);
    world.check();
}

#[test]
fn cached_access_changes_nothing_when_it_would_block() {
    let mut world = World::new();
    let file = world.file("f");
    world.write(file, 0, &[5; 9000]).unwrap();
    world.reopen();
    let who = world.who.clone();
    let now = world.now();
    let request = Request { credentials: &who, now, access: Access::Cached, key: None };
    let volume = std::sync::Arc::clone(&world.volume);
    let queued = volume.committer.last_queued();
    let cached = volume.write(&request, file, 10, b"x", Stability::FileSync);
    assert_eq!(cached.unwrap_err().error, Error::WouldBlock);
    assert_eq!(volume.read(&request, file, 0, 10).unwrap_err().error, Error::WouldBlock);
    assert_eq!(volume.committer.last_queued(), queued);
    assert_eq!(world.read(file).unwrap(), [5; 9000]);
    // The read has loaded the data into memory.
    assert!(volume.read(&request, file, 0, 10).is_ok());
    assert!(volume.write(&request, file, 10, b"x", Stability::FileSync).is_ok());
}

#[test]
fn removing_files_frees_their_space() {
    let mut world = World::new();
    let status = |world: &mut World| -> VolumeStatus { world.run(|v, r| v.status(r)).unwrap() };
    let empty = status(&mut world);
    for number in 0..6 {
        let file = world.file(&number.to_string());
        world.write_unstable(file, 0, &vec![1; 500_000]);
        world.write_back();
    }
    world.background();
    let full = status(&mut world);
    assert_eq!((full.bytes_used - empty.bytes_used, full.inodes_used), (3_000_000, empty.inodes_used + 6));
    let segments = world.disk.segments();
    for number in 0..6 {
        world.remove(Ino::ROOT, &number.to_string()).unwrap();
    }
    for _ in 0..4 {
        world.background();
    }
    let again = status(&mut world);
    assert_eq!((again.bytes_used, again.inodes_used), (empty.bytes_used, empty.inodes_used));
    assert!(world.disk.segments() < segments, "dead segments are deleted");
    assert_eq!(world.volume.space.reserved(), 0, "nothing stays reserved");
    assert_eq!(world.checkpoint(), Progress::Idle);
    world.reopen();
}

#[test]
fn random_access_reads_no_more_of_a_map_than_it_needs() {
    const STEP: u64 = 8192;
    let mut world = World::new();
    let file = world.file("sparse");
    for block in 0..500 {
        world.write(file, block * STEP, &[1; 4096]).unwrap();
        if block % 50 == 49 {
            world.commit();
            world.checkpoint();
        }
    }
    let known = |world: &World| {
        let cell = world.volume.inodes.peek(FIRST.object(file)).unwrap();
        let window = cell.lock().window().unwrap().clone();
        window.mappings.len()
    };
    world.read_at(file, 0, 4096).unwrap();
    assert_eq!(known(&world), MAP_WINDOW_MAPPINGS, "a short file is known after one look");
    world.read_at(file, 300 * STEP, 4096).unwrap();
    assert_eq!(known(&world), 1);
    world.read_at(file, 200 * STEP, 65536).unwrap();
    assert_eq!(known(&world), 9, "that after the last hole too");
    world.write(file, 100 * STEP + 4096, &[2; 4096]).unwrap();
    assert_eq!(known(&world), 1, "the mapping after the hole shows that it is one");
    world.read_at(file, 101 * STEP + 4096, 4096).unwrap();
    assert_eq!(known(&world), MAP_WINDOW_MAPPINGS, "sequential access");
    assert_eq!(world.read_at(file, 100 * STEP, 8192).unwrap(), [[1; 4096], [2; 4096]].concat());
}
