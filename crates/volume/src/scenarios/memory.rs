//! Bounds on the memory of a volume.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::world::World;
use crate::api::attributes::SetAttributes;
use crate::api::ids::{Cookie, Ino};
use crate::api::quotas::QuotaKind;
use crate::api::request::{Access, Durable, Error, Request};
use crate::api::results::{CreateHow, Piece, Stability};
use crate::background::Progress;
use crate::bytes::Slice;
use crate::cache::blocks::GROUP_BYTES;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::hooks::Point;
use crate::limits::{DIRTY_RANGES_PER_FILE_MAX, EXTENT_BYTES_MAX, READ_RUNS_MAX, RECENT_VERSIONS_INODES_MAX};

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
        let changed = (turn * 30_000..(turn + 1) * 30_000).map(|ino| FIRST.object(Ino(ino))).collect();
        view = Arc::new(view.with_index(Arc::clone(&view.index), changed));
        let inodes: usize = view.recent_versions.iter().map(|(_, inos)| inos.len()).sum();
        assert!(inodes <= RECENT_VERSIONS_INODES_MAX, "{inodes}");
    }
    let version = view.version;
    assert!(
        view.is_map_current(FIRST.object(Ino(5)), version - 1)
            && !view.is_map_current(FIRST.object(Ino(5)), version - 10)
    );
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
        assert!(world.volume.view().index.get(&key::inode(FIRST.object(file))).unwrap().is_some());
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

/// Creates files that belong to many users and groups, `first` and the following.
fn files_of_many_users(world: &mut World, first: u32, users: u32) {
    for user in first..first + users {
        let owner = SetAttributes { uid: Some(user), gid: Some(user + 1), ..SetAttributes::default() };
        let how = CreateHow::Guarded(owner);
        world.create_how(Ino::ROOT, &user.to_string(), &how).unwrap();
    }
}

#[test]
fn the_counters_of_many_users_are_not_in_memory() {
    let changed = |world: &World| world.volume.view().active.usage.sorted().len();
    let of =
        |world: &World, user| [QuotaKind::User, QuotaKind::Group].map(|kind| world.usage(kind, user).inodes);
    let mut world = World::roomy();
    files_of_many_users(&mut world, 1, 1000);
    assert_eq!(changed(&world), 2 * 1000 + 1, "and the volume's");
    world.checkpoint();
    assert_eq!(changed(&world), 0);
    // Files that come and go leave nothing behind.
    let before = world.volume.view().active.bytes();
    for user in 5000..6000 {
        files_of_many_users(&mut world, user, 1);
        world.remove(Ino::ROOT, &user.to_string()).unwrap();
    }
    assert_eq!(changed(&world), 0);
    assert!(world.volume.view().active.bytes() < before + 10_000);
    for number in 0..3 {
        files_of_many_users(&mut world, 1001 + number, 1);
        world.remove(Ino::ROOT, &(500 + number).to_string()).unwrap();
        for user in [499, 500, 501, 503, 504, 1000, 1001, 1003] {
            let own = |user| {
                u64::from((1..=1001 + number).contains(&user) && !(500..=500 + number).contains(&user))
            };
            assert_eq!(of(&world, user.into()), [own(user), own(user - 1)], "{user} in turn {number}");
        }
        world.check();
        world.commit();
        if number > 0 {
            world = World::open(world.disk.after_kill(), world.now);
        }
        world.checkpoint();
        world.check();
    }
}

#[test]
fn usage_is_exact_though_a_checkpoint_is_made_twice() {
    let mut world = World::new();
    files_of_many_users(&mut world, 1, 10);
    world.checkpoint();
    files_of_many_users(&mut world, 5000, 10);
    world.remove(Ino::ROOT, "3").unwrap();
    // It committed its transaction, and did not notice.
    world.volume.hooks.set(|point| assert_ne!(point, Point::IndexCommitted));
    let failed = catch_unwind(AssertUnwindSafe(|| world.checkpoint()));
    assert!(failed.is_err() && world.volume.view().frozen.is_some());
    world.volume.hooks.set(|_| ());
    files_of_many_users(&mut world, 6000, 10);
    assert_eq!(world.checkpoint(), Progress::Worked);
    for (user, inodes) in [(2, 1), (3, 0), (5000, 1), (5009, 1), (5010, 0), (6000, 1)] {
        assert_eq!(world.usage(QuotaKind::User, user).inodes, inodes, "{user}");
    }
    world.check();
    world.checkpoint();
    world.check();
}

#[test]
fn pieces_of_many_extents_are_too_short_to_keep_these_in_memory() {
    const GROUP: u64 = GROUP_BYTES as u64;
    let mut world = World::roomy();
    let [whole, target] = ["whole", "pieces"].map(|name| world.file(name));
    for group in 0..40 {
        let data = [1; GROUP_BYTES];
        while world.write_how(whole, group * GROUP, &data, Stability::Unstable).is_err() {
            assert_eq!(world.write_back(), Progress::Worked);
        }
    }
    world.write_back();
    for group in 0..40 {
        let (from, to) = ((whole, group * GROUP), (target, group * 1000));
        world.run(|v, r| v.copy_range(r, from, to, 1000)).unwrap();
    }
    let read = world.run(|v, r| v.read(r, target, 0, 1 << 20)).unwrap();
    assert_eq!(read.count, 40_000);
    assert!(!read.is_in_long_pieces(2000) && read.is_in_long_pieces(1000));
    let read = world.run(|v, r| v.read(r, whole, 0, 40 << 14)).unwrap();
    assert!(read.is_in_long_pieces(GROUP_BYTES));
}

#[test]
fn a_slice_of_what_was_read_keeps_at_most_twice_its_length_in_memory() {
    const KIB: usize = 1 << 10;
    let buffer_bytes = |piece: &Piece| match piece {
        Piece::Data { bytes, .. } => bytes.len(),
        Piece::Zeros(_) => panic!("the file has no holes"),
    };
    let mut world = World::roomy();
    let file = world.file("f");
    let data: Vec<u8> = (0..=250).cycle().take(2 * EXTENT_BYTES_MAX).collect();
    world.write_unstable(file, 0, &data);
    for stage in ["unstable", "saved"] {
        let mut kept = |offset: usize, count: usize| {
            let length = u32::try_from(count).unwrap();
            let read = world.run(|v, r| v.read(r, file, offset as u64, length)).unwrap();
            let buffers: usize = read.pieces.iter().map(buffer_bytes).sum();
            let slices: Vec<Slice> = read.pieces.into_iter().filter_map(Piece::into_slice).collect();
            assert!(slices.concat() == data[offset..offset + count], "{offset}, {count}, {stage}");
            let lengths: Vec<(usize, usize)> =
                slices.iter().map(|slice| (slice.len(), slice.kept_bytes())).collect();
            assert!(
                lengths.iter().all(|(length, kept)| *kept <= 2 * length),
                "{lengths:?} at {offset}, {stage}"
            );
            (lengths.iter().map(|(_, kept)| kept).sum::<usize>(), buffers)
        };
        for (offset, count) in [(0, 16 * KIB), (5000, 16 * KIB), (4096, 60 * KIB), (120 * KIB, 32 * KIB)] {
            let (kept, buffers) = kept(offset, count);
            assert!(kept == count && buffers > 2 * count, "{kept} of {buffers} are kept for {count}");
        }
        assert_eq!(kept(1000, 64 * KIB).0, 128 * KIB, "half of a buffer is not copied");
        assert_eq!(kept(0, 256 * KIB).0, 256 * KIB, "whole buffers are not copied");
        world.write_back();
    }
}

#[test]
fn the_ranges_of_one_file_are_bounded() {
    let mut world = World::roomy();
    let file = world.file("f");
    let refused = (0..100_000).find(|number| {
        let how = Stability::Unstable;
        world.write_how(file, number * 2, &[1], how).is_err_and(|error| error == Error::ObjectBusy)
    });
    let refused = refused.expect("very many ranges are replaced at once");
    assert_eq!(refused, DIRTY_RANGES_PER_FILE_MAX as u64);
    // It was requested to be written, so it goes on soon.
    while world.write_how(file, refused * 2, &[1], Stability::Unstable).is_err() {
        let now = world.now();
        assert_eq!(world.volume.step_write_back(now, false, true), Progress::Worked);
    }
    world.check();
}

#[test]
fn a_reader_does_not_free_the_memtable_that_it_read() {
    let mut world = World::new();
    world.file("f");
    let view = world.volume.view();
    let memtable = Arc::downgrade(&view.active);
    world.checkpoint();
    drop(view);
    assert!(memtable.upgrade().is_some(), "freed by whoever read it last");
    world.checkpoint();
    assert!(memtable.upgrade().is_none());
    world.file("g");
    let memtable = Arc::downgrade(&world.volume.view().active);
    world.checkpoint();
    world.checkpoint();
    assert!(memtable.upgrade().is_none());
}

impl World {
    /// Leaves the memtable frozen, as a checkpoint that failed does.
    fn freeze(&mut self, file: Ino) {
        self.write(file, 0, b"inline").unwrap();
        self.disk.refuse_appends(true);
        self.checkpoint();
        self.disk.refuse_appends(false);
        assert!(self.volume.view().frozen.is_some());
    }
}

#[test]
fn copies_of_many_pieces_leave_room_in_the_memtables_for_other_changes() {
    let mut world = World::roomy();
    let (source, target) = (world.file("source"), world.file("target"));
    for piece in 0..2000 {
        world.write_unstable(source, piece * 2, &[1]);
    }
    world.background();
    world.freeze(target);
    let mut at = 0;
    let mut copy = |world: &mut World, count| {
        let copied = world.run(|v, r| v.copy_range(r, (source, 0), (target, at), count))?;
        at += copied.count;
        Ok(())
    };
    let refused = (0..10_000).find_map(|_| copy(&mut world, 2048).err());
    assert_eq!(refused, Some(Error::ObjectBusy));
    let (active, max) = (world.volume.view().active.bytes(), world.volume.limits.memtable_bytes);
    assert!(active < max / 2 + max / 16, "{active} of {max}");
    // Others go on, and so do small copies.
    world.write(source, 0, b"small").unwrap();
    assert_eq!(copy(&mut world, 64), Ok(()));
    world.background();
    assert_eq!(copy(&mut world, 2048), Ok(()));
    world.check();
}

#[test]
fn write_back_waits_for_a_checkpoint_if_the_memtables_are_full() {
    let mut world = World::roomy();
    let file = world.file("many ranges");
    let max = world.volume.limits.memtable_bytes;
    let mut turn = 0;
    while world.volume.checkpoints.done() == 0 {
        for number in 0..10_000 {
            world.write_unstable(file, (turn * 10_000 + number) * 3, &[1, 2]);
        }
        world.write_back();
        if turn == 0 {
            world.freeze(file);
        }
        let active = world.volume.view().active.bytes();
        assert!(active < max + max / 4, "{active} of {max}");
        turn += 1;
    }
    assert!(turn > 2, "{turn}");
    world.check();
}
