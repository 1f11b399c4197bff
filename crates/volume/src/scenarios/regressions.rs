//! Regression tests.

use crate::encoding::key::FIRST;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::world::{World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::{Cookie, Ino};
use crate::api::request::{Access, Credentials, Durable, Error, Request};
use crate::api::results::{CreateHow, Stability};
use crate::api::time::Time;
use crate::background::Progress;
use crate::limits::PENDING_TRUNCATIONS_MAX;
use crate::media::memory::MemoryMedia;

/// Length of a write that is stored in a segment.
const LARGE: usize = 200 << 10;

#[test]
fn segments_referenced_only_after_a_checkpoint_are_kept() {
    let mut world = World::new();
    let [first, second] = ["first", "second"].map(|name| world.file(name));
    world.write_unstable(first, 0, &vec![1; LARGE]);
    world.write_back();
    // The only reference to the segment is removed before the checkpoint.
    world.remove(Ino::ROOT, "first").unwrap();
    world.write_unstable(second, 0, &vec![2; LARGE]);
    // Between the freeze and the commit of the checkpoint, the second file is written back to the same segment.
    let (volume, now, ran) = (Arc::downgrade(&world.volume), world.now(), AtomicBool::new(false));
    world.volume.on_progress(Box::new(move || {
        if !ran.swap(true, Ordering::Relaxed) {
            let volume = volume.upgrade().expect("the volume is open");
            assert_eq!(volume.step_write_back(now, true, true), Progress::Worked);
        }
    }));
    assert_eq!(world.checkpoint(), Progress::Worked);
    assert!(!world.volume.view().active.is_empty(), "the write-back ran before the freeze");
    world.crash(1);
    assert!(world.read(second).unwrap() == vec![2; LARGE]);
    world.check();
}

#[test]
fn checkpoints_and_writers_short_of_space_do_not_deadlock() {
    let mut world = World::new();
    let inos: Vec<Ino> = (0..4).map(|number| world.file(&number.to_string())).collect();
    world.commit();
    world.disk.set_room_for_segments(world.disk.segments() + 6);
    let (volume, done) = (&world.volume, &AtomicBool::new(false));
    let finished = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for ino in &inos {
            scope.spawn(move || {
                let who = Credentials::root();
                let mut refused = 0_u32;
                for turn in 0_u64.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let now = Time::from_nanos(2_000_000_000_000 + i64::try_from(turn).unwrap());
                    let request = Request { credentials: &who, now, access: Access::Blocking, key: None };
                    let data = [7; 9000];
                    let offset = turn % 4000 * 9000;
                    refused +=
                        u32::from(volume.write(&request, *ino, offset, &data, Stability::FileSync).is_err());
                }
                assert!(refused > 0, "the disk was never full");
            });
        }
        scope.spawn(move || {
            let begun = Instant::now();
            for turn in 0.. {
                if begun.elapsed() > Duration::from_millis(1500) {
                    break;
                }
                let now = Time::from_nanos(3_000_000_000_000 + turn);
                volume.step_commit(now);
                volume.step_write_back(now, true, true);
                volume.step_checkpoint(now, true);
                volume.step_clean(now, true);
            }
            done.store(true, Ordering::Relaxed);
            finished.store(true, Ordering::Relaxed);
        });
        // Aborts on a deadlock, which would hang the test silently.
        let begun = Instant::now();
        while !finished.load(Ordering::Relaxed) {
            if begun.elapsed() > Duration::from_secs(50) {
                eprintln!("deadlock between a checkpoint and writers");
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(world.volume.refuses_changes().is_none());
    // Removing works and frees space.
    for number in 0..4 {
        world.remove(Ino::ROOT, &number.to_string()).unwrap();
    }
    world.background();
    let file = world.file("new");
    world.write(file, 0, b"room").unwrap();
    world.check();
}

#[test]
fn reads_continue_after_a_checkpoint_on_a_full_device() {
    let mut world = World::on(MemoryMedia::with_log(8 << 20));
    let [old, new] = ["old", "new"].map(|name| world.mkdir(Ino::ROOT, name).unwrap());
    // More names than the cache of the index holds.
    let count = 3000;
    for number in 0..count {
        world.create(old, &format!("{number:0>200}")).unwrap();
    }
    world.background();
    world.crash(3);
    for number in 0..2000 {
        world.create(new, &format!("{number:0>250}")).unwrap();
    }
    world.commit();
    let length = world.disk.index_file().bytes().len();
    world.disk.index_file().set_room(Some(length));
    assert_eq!(world.checkpoint(), Progress::Idle, "the checkpoint found space");
    // None of these was read since the crash.
    for number in 0..count {
        world.lookup(old, &format!("{number:0>200}")).unwrap();
    }
    assert!(world.volume.refuses_changes().is_none());
    world.disk.index_file().set_room(None);
    assert_eq!(world.checkpoint(), Progress::Worked);
    world.reopen();
    assert!(world.lookup(new, &format!("{:0>250}", 5)).is_ok());
}

#[test]
fn close_ends_with_an_error_if_write_back_fails() {
    let mut world = World::new();
    let file = world.file("f");
    world.write_unstable(file, 0, &vec![1; LARGE]);
    world.disk.refuse_appends(true);
    let now = world.now();
    let error = world.volume.close(now).unwrap_err();
    assert!(error.0.contains("unstable"), "{error}");
    world.disk.refuse_appends(false);
    world.crash(5);
    assert_eq!(world.attributes(file).unwrap().size, 0);
    world.check();
}

#[test]
fn close_ends_after_the_journal_failed() {
    let mut world = World::new();
    let file = world.file("f");
    world.write_unstable(file, 0, &vec![1; LARGE]);
    world.disk.log.fail_from(Some(0));
    let now = world.now();
    assert!(world.volume.close(now).is_err());
    assert!(world.volume.refuses_changes().is_some());
}

#[test]
fn a_full_index_refuses_new_names_but_permits_removals() {
    let mut world = World::new();
    for number in 0..50 {
        world.file(&number.to_string());
    }
    world.background();
    let length = world.disk.index_file().bytes().len();
    world.disk.index_file().set_room(Some(length));
    // Background work notices that space is short.
    world.background();
    assert_eq!(world.patiently(|world| world.create(Ino::ROOT, "new")), Err(Error::NoSpace));
    assert_eq!(world.mkdir(Ino::ROOT, "new"), Err(Error::NoSpace));
    let file = world.lookup(Ino::ROOT, "0").unwrap();
    assert_eq!(world.link(file, Ino::ROOT, "new"), Err(Error::NoSpace));
    world.chmod(file, 0o600);
    for number in 0..50 {
        world.remove(Ino::ROOT, &number.to_string()).unwrap();
        world.commit();
    }
    world.disk.index_file().set_room(None);
    world.background();
    world.file("new");
    world.check();
}

#[test]
fn a_full_disk_reports_no_space_and_keeps_accepted_data() {
    let mut world = World::new();
    world.disk.set_room_for_segments(world.disk.segments() + 3);
    let file = world.file("big");
    let mut size = 0;
    let mut waits = 0;
    let error = loop {
        match world.write(file, size, &[9; 60_000]) {
            Ok(()) => size += 60_000,
            Err(Error::Busy | Error::ObjectBusy) => {
                waits += 1;
                assert!(waits < 100, "NoSpace is never reported");
                world.background();
            }
            Err(error) => break error,
        }
        world.commit();
    };
    assert_eq!(error, Error::NoSpace);
    assert!(size > 500_000, "{size}");
    world.background();
    assert!(world.volume.refuses_changes().is_none());
    for offset in (0..size).step_by(60_000) {
        assert_eq!(world.read_at(file, offset, 60_000).unwrap(), vec![9; 60_000]);
    }
    world.check();
    world.remove(Ino::ROOT, "big").unwrap();
    for _ in 0..4 {
        world.background();
    }
    let file = world.file("small");
    for offset in 0..8 {
        world.write(file, offset * 60_000, &[8; 60_000]).unwrap();
        world.commit();
    }
    world.check();
}

#[test]
fn reads_succeed_after_a_failed_flush() {
    let mut world = World::new();
    let file = world.file("f");
    let written = world.write_how(file, 0, &vec![1; LARGE], Stability::FileSync).unwrap();
    assert_eq!(world.durable(written.after), Durable::NotYet);
    world.disk.refuse_appends(true);
    world.write_back();
    assert_eq!(world.durable(written.after), Durable::Failed, "the waiting reply fails");
    let shown = world.answer(|v, r| v.attributes(r, file)).unwrap();
    assert_eq!(world.durable(shown.after), Durable::Yes);
    assert_eq!(world.read_at(file, 0, 10).unwrap(), [1; 10], "the data is still in memory");
    world.disk.refuse_appends(false);
    let again = world.write_how(file, 0, &vec![2; LARGE], Stability::FileSync).unwrap();
    assert_ne!(again.value.verifier, written.value.verifier);
    world.write_back();
    assert_eq!(world.durable(again.after), Durable::Yes);
    world.crash(1);
    assert!(world.read(file).unwrap() == vec![2; LARGE]);
    world.check();
}

#[test]
fn the_cleaner_moves_thousands_of_small_extents_in_a_small_ring() {
    let mut world = World::new();
    let file = world.file("f");
    // One entry of this ring cannot hold the rows of all of them.
    let count = 8000;
    for number in 0..count {
        world.write(file, number * 8192, &number.to_be_bytes()).unwrap();
        if number % 1000 == 0 {
            world.background();
        }
    }
    world.background();
    world.reopen();
    // The cleaner skips extents that its first memtable may refer to, so start a new one.
    world.file("new");
    for _ in 0..4 {
        world.background();
    }
    assert!(world.volume.cleaner.cleaned() > 0, "nothing was worth cleaning");
    assert!(world.volume.refuses_changes().is_none());
    world.reopen();
    for number in 0..count {
        assert_eq!(world.read_at(file, number * 8192, 8).unwrap(), number.to_be_bytes());
    }
}

#[test]
fn pending_truncations_are_bounded_and_cleared_by_checkpoints() {
    let mut world = World::on(MemoryMedia::with_log(8 << 20));
    let file = world.file("f");
    let mut sizes = Vec::new();
    let refused = (0..2 * PENDING_TRUNCATIONS_MAX as u64).find_map(|turn| {
        // Increasing sizes, so that no truncation supersedes an older one.
        let size = 10 + turn * 10;
        if let Err(error) = world.write(file, size, &[1; 5]).and_then(|()| world.truncate(file, size)) {
            return Some(error);
        }
        sizes.push(size);
        None
    });
    assert_eq!((refused, sizes.len()), (Some(Error::ObjectBusy), PENDING_TRUNCATIONS_MAX));
    world.commit();
    world.check();
    world.checkpoint();
    let size = sizes.last().unwrap() + 2;
    world.truncate(file, size - 2).unwrap();
    world.write(file, size, b"end").unwrap();
    let mut expected = vec![0; usize::try_from(size).unwrap()];
    expected.extend(b"end");
    assert!(world.read(file).unwrap() == expected);
    world.reopen();
    assert!(world.read(file).unwrap() == expected);
}

#[test]
fn short_lived_names_leave_no_tombstones_to_scan() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "d").unwrap();
    for number in 0..400 {
        let name = number.to_string();
        world.create(directory, &name).unwrap();
        world.remove(directory, &name).unwrap();
        if number % 100 == 0 {
            world.commit();
        }
    }
    world.create(directory, "last").unwrap();
    let mut records = 0;
    let active = Arc::clone(&world.volume.view().active);
    let (from, to) = (
        crate::encoding::key::cookie(FIRST.object(directory), Cookie(0)),
        crate::encoding::key::cookie(FIRST.object(directory), Cookie(u64::MAX)),
    );
    active.scan(&from, &to, &mut |_, _| {
        records += 1;
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(records, 1);
    let (entries, end) = world.list(directory, Cookie(0), 100);
    assert_eq!((entries.len(), end), (3, true));
}

#[test]
fn a_volume_that_lost_its_lease_changes_nothing() {
    let mut world = World::new();
    let directory_created =
        world.create_how(Ino::ROOT, "a", &CreateHow::Guarded(SetAttributes::default())).unwrap();
    world.disk.lose_tenure();
    world.commit();
    assert_eq!(world.durable(directory_created.after), Durable::Failed);
    assert_eq!(world.create(Ino::ROOT, "b"), Err(Error::ReadOnly));
    assert_eq!(world.checkpoint(), Progress::Idle);
    assert_eq!(world.lookup(Ino::ROOT, "missing"), Err(Error::NoEntry), "reads still work");
    let set = SetAttributes::default();
    let refused = world.run(|v, r| v.make_directory(r, Ino::ROOT, b"c", &set, &mut nothing));
    assert_eq!(refused.err(), Some(Error::ReadOnly));
}

#[test]
fn a_large_entry_of_inline_data_fits_a_ring_of_one_mebibyte() {
    let mut world = World::new();
    let file = world.file("f");
    // Many mappings of one byte, then an unstable write over all of them.
    for at in 0..2000 {
        world.write(file, at * 2, &[1]).unwrap();
        if at % 100 == 0 {
            world.commit();
        }
    }
    world.write_unstable(file, 0, &vec![2; LARGE]);
    assert_eq!(world.write_back(), Progress::Worked);
    assert!(world.volume.refuses_changes().is_none());
    assert!(world.read(file).unwrap() == vec![2; LARGE]);
    world.crash(2);
    assert!(world.read(file).unwrap() == vec![2; LARGE]);
    world.check();
}

#[test]
fn a_repeated_reply_waits_for_the_same_flush_as_the_first() {
    let mut world = World::new();
    let file = world.file("f");
    let key = |number: u8| crate::api::request::RequestKey::new([number; 24]);
    let cached = |world: &World, number| {
        let (_, after) = world.volume.lookup_request(&key(number)).expect("it was answered");
        world.durable(after)
    };
    world.write_how(file, 0, &vec![1; LARGE], Stability::FileSync).unwrap();
    let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    world.key = Some(key(1));
    world.answer(|v, r| v.set_attributes(r, file, &set, None, &mut nothing)).unwrap();
    world.key = Some(key(2));
    let how = CreateHow::Unchecked(SetAttributes { size: Some(100), ..SetAttributes::default() });
    world.create_how(Ino::ROOT, "f", &how).unwrap();
    // A reply to a request that changes nothing.
    let shown = world.answer(|v, r| v.attributes(r, file)).unwrap();
    let now = world.now();
    world.volume.remember_unchanged(&key(3), Arc::from(&[][..]), shown.after, now);
    world.commit();
    for number in 1..=3 {
        assert_eq!(cached(&world, number), Durable::NotYet, "{number}: it shows a size not durable yet");
    }
    world.write_back();
    for number in 1..=3 {
        assert_eq!(cached(&world, number), Durable::Yes, "{number}");
    }
    // The first of two flushes fails. The reply that promised its data fails; later ones are unaffected.
    let other = world.file("other");
    let lost = world.write_how(file, 0, &vec![2; LARGE], Stability::FileSync).unwrap();
    world.disk.refuse_appends(true);
    world.write_back();
    world.disk.refuse_appends(false);
    let kept = world.write_how(other, 0, &vec![3; LARGE], Stability::FileSync).unwrap();
    world.write_back();
    assert_eq!(world.durable(lost.after), Durable::Failed);
    assert_eq!(world.durable(kept.after), Durable::Yes);
    assert_eq!(world.durable(lost.after.and(kept.after)), Durable::Yes);
}

#[test]
fn a_failed_flush_does_not_affect_files_made_stable_before() {
    let mut world = World::new();
    let [stable, other] = ["stable", "other"].map(|name| world.file(name));
    world.commit();
    // A COMMIT arrived while a flush was writing the file, and leaves nothing for the next flush.
    let cell = world.volume.inodes.peek(FIRST.object(stable)).unwrap();
    cell.lock().flush_generation = world.volume.write_back.request(FIRST.object(stable));
    world.write_unstable(other, 0, &vec![1; LARGE]);
    world.disk.refuse_appends(true);
    world.write_back();
    let shown = world.answer(|v, r| v.attributes(r, stable)).unwrap();
    assert_eq!(world.durable(shown.after), Durable::Yes);
}

#[test]
fn cleaning_a_segment_is_retried_after_a_failure() {
    let mut world = World::new();
    for number in 0..8 {
        let file = world.file(&number.to_string());
        world.write_unstable(file, 0, &[number; 100_000]);
        world.write_back();
    }
    for number in 1..8 {
        world.remove(Ino::ROOT, &number.to_string()).unwrap();
    }
    world.checkpoint();
    world.reopen();
    world.disk.refuse_appends(true);
    while world.clean() == Progress::Worked {}
    assert_eq!(world.volume.cleaner.cleaned(), 0);
    world.disk.refuse_appends(false);
    world.set_clock(Time::from_nanos(world.now.nanos() + 61_000_000_000));
    while world.clean() == Progress::Worked {}
    assert!(world.volume.cleaner.cleaned() > 0);
    world.background();
    world.check();
}

#[test]
fn access_times_of_many_files_do_not_fill_a_small_ring() {
    let mut world = World::new();
    let files: Vec<Ino> = (0..3000)
        .map(|number| {
            if number % 200 == 0 {
                world.background();
            }
            world.file(&number.to_string())
        })
        .collect();
    world.background();
    // Marks all files as read while the ring is nearly full.
    let mut entries = 0;
    while !world.volume.committer.is_busy() {
        world.write(files[entries % 2], 0, &[1; 40_000]).unwrap();
        world.commit();
        entries += 1;
    }
    for file in &files {
        let cell = world.volume.inodes.get(FIRST.object(*file), crate::api::ids::Seq(0), 0);
        world.attributes(*file).unwrap();
        let mut state = cell.lock();
        state.unsaved = true;
        world.volume.write_back.enter(&state, &cell, world.now);
    }
    world.write_back();
    world.background();
    world.file("the journal goes on");
    world.commit();
    assert!(world.volume.refuses_changes().is_none());
    assert!(!world.volume.committer.is_busy());
    world.check();
}

#[test]
fn times_of_unstable_data_are_shown_when_no_later_start_can_repeat_them() {
    let mut world = World::new();
    let file = world.file("file");
    world.commit();
    // Later than any time that the journal covers.
    world.set_clock(world.now.plus(Duration::from_secs(10)));
    world.write_how(file, 0, &[1; 100], Stability::Unstable).unwrap();
    let shown = world.answer(|v, r| v.attributes(r, file)).unwrap();
    assert_eq!(world.durable(shown.after), Durable::NotYet);
    world.commit();
    assert_eq!(world.durable(shown.after), Durable::Yes);
    world.set_clock(Time::from_parts(500, 0));
    world.crash(1);
    world.chmod(file, 0o600);
    assert!(world.attributes(file).unwrap().ctime > shown.value.ctime);
}

#[test]
fn the_cleaner_terminates_with_extents_smaller_than_their_headers() {
    let mut world = World::new();
    let file = world.file("f");
    for number in 0..6000 {
        world.write_how(file, number * 3, &[1, 2], Stability::Unstable).unwrap();
        if number % 1000 == 0 {
            world.background();
        }
    }
    world.background();
    world.reopen();
    (0..4).for_each(|_| world.background());
    let cleaned = world.volume.cleaner.cleaned();
    assert!(cleaned > 0);
    (0..4).for_each(|_| world.background());
    assert_eq!(world.volume.cleaner.cleaned(), cleaned, "the cleaner moved the same extents again");
    world.check();
}
