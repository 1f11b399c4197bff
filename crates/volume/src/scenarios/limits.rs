//! Small disks, small rings and large requests: exact errors when full, and recovery once there is space.

use super::world::{OPTIONS, World};
use crate::api::ids::Ino;
use crate::api::request::{Durable, Error};
use crate::api::results::Stability;
use crate::api::time::Time;
use crate::background::Progress;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::media::memory::MemoryMedia;
use crate::open::CreateOptions;
use crate::options::Options;
use crate::pool::Pool;
use crate::volume::Volume;

/// Length of the range that many small mappings cover.
const COVERED: usize = 64 << 10;

#[test]
fn a_commit_does_not_rewrite_mappings_between_its_ranges() {
    const PIECE: u64 = 4096;
    let mut world = World::on(MemoryMedia::with_log(32 << 20));
    let file = world.file("scattered");
    let piece = vec![1; usize::try_from(PIECE).unwrap()];
    for number in 0..200 {
        world.write(file, number * 2 * PIECE, &piece).unwrap();
        if number % 20 == 0 {
            world.commit();
        }
    }
    world.commit();
    for number in [0, 399] {
        world.write_unstable(file, number * PIECE + 17, &[2; 100]);
    }
    let before = world.volume.committer.queued_bytes();
    world.run(|v, r| v.commit(r, file, 0, 0)).unwrap();
    let entry = world.volume.committer.queued_bytes() - before;
    assert!(entry < 4 * PIECE, "{entry} bytes for two pieces, one of them split");
    world.commit();
    let expected: Vec<u8> = (0..400 * PIECE)
        .map(|at| match (at / PIECE, at % PIECE) {
            (0 | 399, 17..117) => 2,
            (399, 117..) => 0,
            (number, _) => u8::from(number % 2 == 0),
        })
        .collect();
    let length = usize::try_from(399 * PIECE + 117).unwrap();
    for (offset, part) in (0..).step_by(1 << 20).zip(expected[..length].chunks(1 << 20)) {
        assert_eq!(world.read_at(file, offset, 1 << 20).unwrap(), part);
    }
    world.check();
}

/// Writes to new files until the disk is full. Returns their names and the number of bytes accepted.
fn fill(world: &mut World, turn: usize) -> (Vec<String>, usize) {
    let (mut names, mut taken, mut waits) = (Vec::new(), 0, 0);
    for number in 0.. {
        let name = format!("{turn}-{number}");
        let Ok(file) = world.create(Ino::ROOT, &name) else { break };
        names.push(name);
        let (bytes, how) =
            if number % 2 == 0 { (60_000, Stability::FileSync) } else { (150_000, Stability::Unstable) };
        loop {
            match world.write_how(file, 0, &vec![9; bytes], how) {
                Ok(_) => taken += bytes,
                Err(Error::Busy | Error::ObjectBusy) => {
                    waits += 1;
                    assert!(waits < 1000, "NoSpace is never reported");
                    world.background();
                    continue;
                }
                Err(error) => {
                    assert_eq!(error, Error::NoSpace);
                    return (names, taken);
                }
            }
            break;
        }
        world.commit();
    }
    (names, taken)
}

#[test]
fn a_full_disk_accepts_data_again_after_removals() {
    for room in 4..9 {
        let disk = MemoryMedia::new();
        disk.set_room_for_segments(room);
        let mut world = World::on(disk);
        let mut first = 0;
        for turn in 0..4 {
            let (names, taken) = fill(&mut world, turn);
            assert!(
                taken >= 400_000 && taken * 2 >= first,
                "{room} segments, turn {turn}: {taken} bytes of {first}"
            );
            first = first.max(taken);
            for name in names {
                while let Err(error) = world.remove(Ino::ROOT, &name) {
                    assert_eq!(error, Error::Busy);
                    world.background();
                }
            }
            // NoSpace is not reported before background work has looked for space.
            let file = world.file("at once");
            assert_ne!(world.write(file, 0, &[1; 60_000]), Err(Error::NoSpace));
            world.remove(Ino::ROOT, "at once").unwrap();
            world.background();
        }
        assert!(world.volume.refuses_changes().is_none());
        world.check();
    }
}

#[test]
fn nobody_is_refused_before_accepted_data_is_written_back() {
    let disk = MemoryMedia::new();
    disk.set_room_for_segments(5);
    let mut world = World::on(disk);
    let file = world.file("f");
    let write = |world: &mut World, number: u64| {
        world.write_how(file, number * 60_000, &[1; 60_000], Stability::Unstable).map(drop)
    };
    let accepted = (0..).find(|number| write(&mut world, *number).is_err()).unwrap();
    for _ in 0..10 {
        world.checkpoint();
        world.clean();
        assert!(write(&mut world, accepted).is_err_and(Error::is_busy));
    }
    let refused = (accepted..).find_map(|number| world.patiently(|world| write(world, number)).err());
    assert_eq!(refused, Some(Error::NoSpace));
    world.check();
}

#[test]
fn the_cleaner_works_after_a_restart_before_anything_changes() {
    let mut world = World::new();
    for number in 0..16 {
        let file = world.file(&number.to_string());
        world.write_unstable(file, 0, &[number; 200_000]);
        world.write_back();
    }
    for number in (0..16).filter(|number| number % 4 != 0) {
        world.remove(Ino::ROOT, &number.to_string()).unwrap();
    }
    world.checkpoint();
    world.reopen();
    let before = world.disk.segments();
    while world.clean() == Progress::Worked {}
    assert!(world.volume.cleaner.cleaned() > 0, "nothing was cleaned before a checkpoint");
    world.background();
    assert!(world.disk.segments() < before + 4, "{} of {before}", world.disk.segments());
    world.crash(1);
    for number in (0..16).step_by(4) {
        let file = world.lookup(Ino::ROOT, &number.to_string()).unwrap();
        assert!(world.read(file).unwrap() == [number; 200_000]);
    }
    world.check();
}

/// Returns a file with more mappings in the memtable than one entry of the ring can hold.
fn file_of_pieces() -> (World, Ino) {
    let mut world = World::new();
    let file = world.file("f");
    for (number, offset) in (0..COVERED as u64).step_by(5).enumerate() {
        world.write_unstable(file, offset, &[1]);
        if number % 1000 == 999 {
            assert_eq!(world.write_back(), Progress::Worked);
        }
    }
    world.write_back();
    assert_eq!(world.volume.view().version, 1, "a checkpoint ran");
    (world, file)
}

#[track_caller]
fn assert_overwritten(world: &mut World, file: Ino) {
    assert!(world.volume.refuses_changes().is_none());
    assert!(world.read(file).unwrap() == [2; COVERED]);
    world.crash(2);
    assert!(world.read(file).unwrap() == [2; COVERED]);
    world.check();
    world.background();
    assert!(world.read(file).unwrap() == [2; COVERED]);
    world.check();
}

#[test]
fn unstable_data_over_many_mappings_is_written_back_in_a_small_ring() {
    let (mut world, file) = file_of_pieces();
    world.write_unstable(file, 0, &[2; COVERED]);
    assert_eq!(world.write_back(), Progress::Worked);
    assert_overwritten(&mut world, file);
}

#[test]
fn a_stable_write_over_many_mappings_is_stable_when_answered() {
    let (mut world, file) = file_of_pieces();
    let written = world.write_how(file, 0, &[2; COVERED], Stability::FileSync).unwrap();
    world.commit();
    assert!(world.volume.refuses_changes().is_none());
    if world.durable(written.after) == Durable::NotYet {
        world.write_back();
    }
    assert_eq!(world.durable(written.after), Durable::Yes);
    assert_overwritten(&mut world, file);
}

#[test]
fn a_commit_over_many_mappings_is_stable_when_answered() {
    let (mut world, file) = file_of_pieces();
    world.write_unstable(file, 0, &[2; COVERED]);
    let committed = world.answer(|v, r| v.commit(r, file, 0, 0)).unwrap();
    world.commit();
    assert!(world.volume.refuses_changes().is_none());
    if world.durable(committed.after) == Durable::NotYet {
        world.write_back();
    }
    assert_eq!(world.durable(committed.after), Durable::Yes);
    assert_overwritten(&mut world, file);
}

#[test]
fn a_crash_between_portions_of_an_overwrite_leaves_old_or_new_bytes() {
    for steps in 0..10 {
        let (mut world, file) = file_of_pieces();
        let old = world.read(file).unwrap();
        world.write_unstable(file, 0, &[2; COVERED]);
        world.disk.log.fail_from(Some(world.disk.log.steps() + steps));
        world.write_back();
        world.crash(steps);
        let mixed = world.read(file).unwrap();
        for (at, byte) in mixed.iter().enumerate() {
            assert!(*byte == 2 || Some(byte) == old.get(at), "{byte} at {at} after {steps} steps");
        }
        world.check();
        world.background();
        world.write(file, 0, &[2; 1000]).unwrap();
        world.background();
        world.check();
    }
}

#[test]
fn a_ring_too_small_for_the_largest_entry_is_refused_at_creation() {
    let create = CreateOptions::of_test(Time::from_parts(1_000, 0));
    let error = Pool::create(MemoryMedia::with_log(256 << 10).as_ref(), &create).unwrap_err();
    assert!(error.0.contains("too small"), "{error}");
    let disk = MemoryMedia::new();
    Pool::create(disk.as_ref(), &create).unwrap();
    for segment_bytes in [0, 4096, 128 << 10, (1 << 20) + 1] {
        let options = Options { segment_bytes, ..OPTIONS };
        let error = Volume::open(disk.after_kill(), &options, Time::from_parts(1_001, 0)).unwrap_err();
        assert!(error.0.contains("segment"), "{error}");
    }
}

#[test]
fn a_write_larger_than_the_maximum_is_refused() {
    let mut world = World::new();
    let file = world.file("f");
    let data = vec![1; TRANSFER_BYTES_MAX as usize + 1];
    for how in [Stability::Unstable, Stability::FileSync] {
        assert_eq!(world.write_how(file, 0, &data, how).err(), Some(Error::Invalid));
    }
    assert_eq!(world.attributes(file).unwrap().size, 0);
}

#[test]
fn an_index_reuses_the_space_of_removed_names() {
    let mut world = World::on(MemoryMedia::with_log(8 << 20));
    world.disk.index_file().set_room(Some(24 << 20));
    let mut count = 0;
    let mut waits = 0;
    loop {
        match world.create(Ino::ROOT, &format!("{count:0>250}")) {
            Ok(_) => count += 1,
            Err(error) if error.is_busy() => {
                waits += 1;
                assert!(waits < 1000);
                world.background();
            }
            Err(error) => break assert_eq!(error, Error::NoSpace),
        }
        if count % 500 == 0 {
            world.background();
        }
    }
    assert!(count > 2000, "{count}");
    for number in 0..count {
        while let Err(error) = world.remove(Ino::ROOT, &format!("{number:0>250}")) {
            assert_eq!(error, Error::Busy);
            world.background();
        }
    }
    // The space is available again within seconds.
    for _ in 0..4 {
        world.background();
        world.set_clock(Time::from_nanos(world.now.nanos() + 4_000_000_000));
    }
    for number in 0..count / 2 {
        let name = format!("again {number}");
        world
            .create(Ino::ROOT, &name)
            .unwrap_or_else(|error| panic!("{error:?} for name {number} of {count}"));
        if number % 500 == 0 {
            world.background();
        }
    }
    world.check();
}

#[test]
fn an_index_closed_for_lack_of_space_reopens_once_space_is_free() {
    let mut world = World::new();
    for number in 0..100 {
        world.file(&number.to_string());
    }
    world.reopen();
    let kept = world.file("kept");
    world.commit();
    world.disk.index_file().set_full(true);
    assert_eq!(world.checkpoint(), Progress::Idle);
    assert_eq!(world.volume.refuses_changes(), None, "a full disk is not a failure");
    // Lookups in memory succeed, others have to wait, and new names are refused.
    assert_eq!(world.lookup(Ino::ROOT, "kept"), Ok(kept));
    assert!(matches!(world.lookup(Ino::ROOT, "77"), Ok(_) | Err(Error::Busy)));
    assert_eq!(world.create(Ino::ROOT, "new"), Err(Error::ObjectBusy));
    world.remove(Ino::ROOT, "kept").unwrap();
    assert_eq!(world.checkpoint(), Progress::Idle);
    assert_eq!(world.clean(), Progress::Idle);
    world.disk.index_file().set_full(false);
    assert_eq!(world.checkpoint(), Progress::Worked);
    assert!(world.lookup(Ino::ROOT, "77").is_ok());
    assert_eq!(world.lookup(Ino::ROOT, "kept"), Err(Error::NoEntry));
    world.background();
    world.file("new");
    world.reopen();
    assert!(world.lookup(Ino::ROOT, "new").is_ok());
}

#[test]
fn truncations_that_cannot_be_counted_are_refused() {
    let mut world = World::new();
    let file = world.file("f");
    world.write(file, 0, b"data").unwrap();
    let cell = world.volume.inodes.peek(crate::encoding::key::FIRST.object(file)).unwrap();
    cell.lock().record_mut().truncations = u32::MAX - 1;
    world.truncate(file, 3).unwrap();
    assert_eq!(world.truncate(file, 2), Err(Error::NoSpace));
    assert_eq!(world.run(|v, r| v.deallocate(r, file, 1, 100)).map(drop), Err(Error::NoSpace));
    // Everything else goes on.
    world.truncate(file, 10).unwrap();
    world.run(|v, r| v.deallocate(r, file, 0, 1)).unwrap();
    world.write(file, 2, b"x").unwrap();
    assert_eq!(world.read(file).unwrap(), b"\0ax\0\0\0\0\0\0\0");
    world.background();
    world.check();
    world.remove(Ino::ROOT, "f").unwrap();
}
