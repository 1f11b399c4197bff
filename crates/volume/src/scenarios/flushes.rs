//! Flushes of many files: what one file needs, or lacks, is no concern of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::reaping::{PIECES, disk_with_a_file_in_pieces};
use super::world::{OPTIONS, World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::{Access, Credentials, Durability, Durable, Error, FlushWait, Request};
use crate::api::results::Stability;
use crate::background::Progress;
use crate::background::write_back::under_way::FILES_PER_ROUND_MAX;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::hooks::Point;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::options::Options;
use crate::schedule::write_back::GENERATIONS_PER_FLUSH;
use crate::schedule::write_back::turns::File;
use crate::tables::index::Index;
use crate::volume::Volume;

/// More than may travel in the journal.
const LARGE: usize = 200 << 10;

/// Distance between the ranges of a file in which they are scattered.
const SCATTER: u64 = 8192;

impl World {
    /// Runs a flush of what is requested or old, `later` than now.
    fn flush(&mut self, later: Duration) -> Progress {
        self.set_clock(self.now.plus(later));
        let mut progress = self.volume.step_write_back(self.now, false, true);
        while self.volume.under_way.lock().is_busy() {
            progress = self.volume.step_write_back(self.now, false, true);
        }
        self.commit();
        progress
    }

    /// Advances write-back by one portion.
    fn advance(&mut self) {
        let now = self.now();
        assert_eq!(self.volume.step_write_back(now, false, true), Progress::Worked);
    }

    /// Advances write-back until this is durable, and returns the number of portions.
    fn advance_until(&mut self, wanted: Durability) -> usize {
        let mut portions = 0;
        while self.durable(wanted) == Durable::NotYet {
            self.advance();
            portions += 1;
        }
        assert_eq!(self.durable(wanted), Durable::Yes);
        portions
    }

    /// Writes this many mebibytes of unstable data.
    fn write_mebibytes(&mut self, file: Ino, count: u64, byte: u8) {
        for number in 0..count {
            with_room(self, |world| {
                world.write_how(file, number << 20, &[byte; 1 << 20], Stability::Unstable)
            });
        }
    }

    /// Requests that a file be saved.
    fn requested(&mut self, file: Ino) -> Durability {
        self.answer(|v, r| v.commit(r, file, 0, 0)).unwrap().after
    }
}

/// Does something that needs room in segments.
fn with_room<T>(world: &mut World, work: impl Fn(&mut World) -> Result<T, Error>) -> T {
    loop {
        match work(world) {
            Err(Error::Busy) => world.volume.maintain_space(),
            done => return done.unwrap(),
        }
    }
}

/// Makes a file of 1,200 mappings with holes between them, of which 1,024 have a byte of unstable data. Its map is long, and
/// read where it is needed.
fn scattered(world: &mut World) -> Ino {
    let file = world.file("scattered");
    for number in 0..1200 {
        with_room(world, |world| world.write(file, number * SCATTER, &[1; 4096]));
    }
    world.background();
    world.read_at(file, 1199 * SCATTER, 1).unwrap();
    for number in 0..1024 {
        with_room(world, |world| world.write_how(file, number * SCATTER + 6000, &[2], Stability::Unstable));
    }
    file
}

/// Opens a volume with much memory.
fn open_roomy(disk: Arc<MemoryMedia>, now: crate::api::time::Time) -> World {
    let options = Options { memory: 256 << 20, ..OPTIONS };
    let volume = Volume::open(Arc::clone(&disk) as Arc<dyn Media>, &options, now).unwrap();
    World::with(disk, volume, now)
}

#[test]
fn ranges_all_over_a_long_map_are_saved_and_others_are_not_affected() {
    let mut world = World::roomy();
    let (file, other) = (scattered(&mut world), world.file("other"));
    let verifier = world.write_unstable(other, 0, &vec![3; LARGE]);
    let requested = world.requested(other);
    assert_eq!(world.flush(Duration::from_secs(2)), Progress::Worked);
    assert_eq!(world.durable(requested), Durable::Yes);
    assert_eq!((world.volume.write_back.dirty_bytes(), world.volume.write_verifier()), (0, verifier));
    world.reopen();
    for number in 0..1024 {
        assert_eq!(world.read_at(file, number * SCATTER + 5999, 3).unwrap(), [0, 2, 0], "{number}");
    }
    world.check();
}

#[test]
fn a_commit_of_ranges_all_over_a_long_map_succeeds() {
    let mut world = World::roomy();
    let file = scattered(&mut world);
    let committed = world.requested(file);
    assert_eq!(world.volume.write_back.dirty_bytes(), 0, "it fits the journal");
    world.commit();
    assert_eq!(world.durable(committed), Durable::Yes);
    world.reopen();
    assert_eq!(world.read_at(file, 1023 * SCATTER + 5999, 3).unwrap(), [0, 2, 0]);
    world.check();
}

#[test]
fn data_over_very_many_mappings_is_saved() {
    const APART: u64 = 64;
    let (disk, file, now) = disk_with_a_file_in_pieces(APART);
    let mut world = open_roomy(disk, now);
    // Reads elsewhere, and one hole, so that what is replaced must be counted.
    world.read_at(file, 0, 1).unwrap();
    let size = (PIECES - 1) * APART + 1;
    let data: Vec<u8> = (0..size - 200).map(|at| u8::try_from(at % 251).unwrap()).collect();
    for (number, part) in data.chunks(1 << 20).enumerate() {
        let offset = 100 + ((number as u64) << 20);
        with_room(&mut world, |world| world.write_how(file, offset, part, Stability::Unstable));
    }
    let requested = world.requested(file);
    assert_eq!(world.flush(Duration::ZERO), Progress::Worked);
    assert_eq!(world.durable(requested), Durable::Yes);
    let used = world.attributes(file).unwrap().used;
    assert_eq!(used, data.len() as u64 + 2 + 2);
    assert!(world.read_at(file, 100, 1 << 20).unwrap()[..] == data[..1 << 20]);
    world.background();
    world.check();
}

/// Makes a mapping of a file undecodable, in the index of a closed volume.
fn damage_map(world: &mut World, file: Ino, end: u64) {
    let now = world.now();
    world.volume.close(now).unwrap();
    let disk = world.disk.after_kill();
    let index = Index::open(disk.index(), 1 << 20).unwrap();
    let update = index.begin().unwrap();
    assert!(update.records().unwrap().get(&key::map(FIRST.object(file), end)).unwrap().is_some());
    update.records().unwrap().put(&key::map(FIRST.object(file), end), &[99; 7]).unwrap();
    update.commit().unwrap();
    drop(index);
    *world = World::open(disk, now);
}

#[test]
fn a_file_whose_map_is_damaged_fails_alone() {
    let mut world = World::new();
    let [bad, good] = ["bad", "good"].map(|name| world.file(name));
    world.write(bad, 1000, &[1; 1000]).unwrap();
    damage_map(&mut world, bad, 2000);
    let verifier = world.write_unstable(bad, 0, &vec![2; LARGE]);
    world.write_unstable(good, 0, &vec![3; LARGE]);
    let small = world.file("small");
    world.write_unstable(small, 0, b"small");
    let (of_bad, of_good) = (world.requested(bad), world.requested(good));
    assert_eq!(of_bad.flush.generation, of_good.flush.generation);
    assert_eq!(world.flush(Duration::from_secs(2)), Progress::Worked);
    assert_eq!(world.durable(of_bad), Durable::Failed);
    assert_eq!(world.durable(of_good), Durable::Yes);
    assert_eq!(world.durable(of_bad.and(of_good)), Durable::Failed, "it promises both");
    assert_eq!(world.volume.write_verifier(), verifier, "nothing is lost");
    // It keeps its data, and takes no more.
    assert_eq!(world.read_at(bad, 0, 3).unwrap(), [2; 3]);
    let refused = world.write_how(bad, 0, &[4], Stability::Unstable).unwrap_err();
    assert_eq!(refused, Error::ObjectBusy);
    // It is tried again after a while, longer each time, and not with each flush of others.
    for pause in [2_u64, 4, 8, 16, 32, 32] {
        assert_eq!(world.flush(Duration::from_millis(1000 * pause - 500)), Progress::Idle);
        world.volume.write_back.press();
        assert_eq!(world.flush(Duration::ZERO), Progress::Idle);
        let done = world.volume.flushed_generation() / GENERATIONS_PER_FLUSH;
        world.write_unstable(good, 0, &vec![5; LARGE]);
        let of_good = world.requested(good);
        assert_eq!(world.flush(Duration::ZERO), Progress::Worked);
        assert_eq!(world.durable(of_good), Durable::Yes);
        assert_eq!(world.flush(Duration::from_millis(1000)), Progress::Idle);
        let now_done = world.volume.flushed_generation() / GENERATIONS_PER_FLUSH;
        assert!(now_done > done + 1, "it was tried");
    }
    // Without the data that cannot be saved it is as good as any.
    world.truncate(bad, 0).unwrap();
    assert_eq!(world.volume.write_back.dirty_bytes(), 0);
    world.write_unstable(bad, 0, &vec![6; LARGE]);
    let of_bad = world.requested(bad);
    assert_eq!(world.flush(Duration::ZERO), Progress::Worked);
    assert_eq!(world.durable(of_bad), Durable::Yes);
}

/// More than one portion of write-back takes.
const MUCH_MEBIBYTES: u64 = 18;
/// Where the last of it begins, in bytes.
const LAST_MEBIBYTE: u64 = (MUCH_MEBIBYTES - 1) << 20;

/// Opens a volume with much memory, on media that lose what was not synced.
fn careless_world() -> World {
    let World { disk, volume, now, .. } = World::on(MemoryMedia::with_log(8 << 20));
    drop(volume);
    let world = open_roomy(disk, now);
    assert!(world.volume.limits.portion_bytes() < MUCH_MEBIBYTES << 20);
    assert!(world.volume.limits.dirty_bytes > MUCH_MEBIBYTES << 20);
    world
}

#[test]
fn a_commit_of_little_does_not_wait_for_much_of_another_file_in_the_same_flush() {
    let mut world = careless_world();
    let [much, little] = ["much", "little"].map(|name| world.file(name));
    world.write_mebibytes(much, MUCH_MEBIBYTES, 1);
    world.write_unstable(little, 0, &vec![2; LARGE]);
    let (slow, fast) = (world.requested(much), world.requested(little));
    assert_eq!(slow.flush.generation, fast.flush.generation);
    world.advance();
    assert_eq!((world.durable(fast), world.durable(slow)), (Durable::Yes, Durable::NotYet));
    assert_eq!(world.durable(fast.and(slow)), Durable::NotYet);
    let shown = world.answer(|v, r| v.attributes(r, little)).unwrap().after;
    assert_eq!(world.durable(shown), Durable::Yes, "readers do not wait either");
    // The media lose what was not synced, the others keep what they hold.
    for seed in 0..8 {
        let disk = world.disk.after_power_loss(&mut Random::new(seed));
        let mut world = World::open(disk, world.now());
        assert!(world.read_at(little, 0, 1 << 20).unwrap() == vec![2; LARGE], "seed {seed}");
        world.check();
    }
    world.advance_until(slow);
    assert_eq!(world.durable(fast.and(slow)), Durable::Yes);
    world.crash(1);
    assert!(world.read_at(much, (MUCH_MEBIBYTES - 1) << 20, 1 << 20).unwrap() == vec![1; 1 << 20]);
    world.check();
}

#[test]
fn a_commit_is_served_while_an_earlier_flush_writes_much() {
    let mut world = careless_world();
    let [much, little] = ["much", "little"].map(|name| world.file(name));
    world.write_mebibytes(much, MUCH_MEBIBYTES, 1);
    let slow = world.requested(much);
    world.advance();
    assert_eq!(world.durable(slow), Durable::NotYet);
    world.write_unstable(little, 0, &vec![2; LARGE]);
    let fast = world.requested(little);
    let generation = world.volume.write_back.pace();
    let paced = Durability { flush: FlushWait { generation, file: None }, ..fast };
    world.write_unstable(much, 0, &vec![3; LARGE]);
    let again = world.requested(much);
    world.advance();
    assert_eq!(world.durable(fast), Durable::Yes);
    assert_eq!(world.durable(paced), Durable::NotYet, "that waits for a flush of everything");
    world.write_unstable(little, 0, &vec![4; LARGE]);
    let later = world.requested(little);
    assert_eq!(world.durable(later), Durable::NotYet, "it changed since it was saved");
    world.advance_until(later);
    world.advance_until(slow);
    world.advance_until(again);
    world.advance_until(paced);
    world.crash(2);
    assert!(world.read_at(little, 0, 1 << 20).unwrap() == vec![4; LARGE]);
    let expected = [vec![3; LARGE], vec![1; (1 << 20) - LARGE]].concat();
    assert!(world.read_at(much, 0, 1 << 20).unwrap() == expected);
    world.check();
}

#[test]
fn a_commit_that_is_repeated_waits_for_what_changed_meanwhile() {
    let mut world = careless_world();
    let file = world.file("f");
    world.write_mebibytes(file, MUCH_MEBIBYTES, 1);
    world.requested(file);
    world.advance();
    // The second COMMIT waits for this, and so does the third, though nothing changed between them.
    world.write_unstable(file, 30 << 20, &vec![2; LARGE]);
    let second = world.requested(file);
    world.advance();
    let third = world.requested(file);
    let portions = world.advance_until(third);
    assert!(portions > 0);
    assert_eq!(world.durable(second), Durable::Yes);
    world.crash(3);
    assert!(world.read_at(file, 30 << 20, 1 << 20).unwrap() == vec![2; LARGE]);
    world.check();
}

#[test]
fn a_commit_covers_data_that_newer_data_replaces_while_it_is_written() {
    let mut world = careless_world();
    let file = world.file("f");
    let last = LAST_MEBIBYTE;
    world.write(file, last, &[9; 4096]).unwrap();
    world.write_mebibytes(file, MUCH_MEBIBYTES, 1);
    let committed = world.requested(file);
    world.advance();
    assert_eq!(world.durable(committed), Durable::NotYet);
    world.write_unstable(file, last, &[2; 4096]);
    world.advance_until(committed);
    assert_eq!(world.read_at(file, last, 1).unwrap(), [2]);
    // It takes data again.
    world.write_unstable(file, last, &[3; 4096]);
    for seed in 0..8 {
        let disk = world.disk.after_power_loss(&mut Random::new(seed));
        let mut world = World::open(disk, world.now());
        let byte = world.read_at(file, last, 1).unwrap();
        assert_eq!(byte, [2], "what the COMMIT covered, or newer, seed {seed}");
        world.check();
    }
}

/// A change that another client makes.
type Change = fn(&Volume, &Request<'_>, Ino);

/// Commits a file while newer data replaces a block of it. Another client's change to that block comes when the journal has what
/// this round saved. Returns whether a crash can restore what was there before all that.
fn is_old_data_restored(change: Change, round: u32) -> bool {
    let mut world = careless_world();
    let file = world.file("f");
    world.write(file, LAST_MEBIBYTE, &[9; 4096]).unwrap();
    world.write_mebibytes(file, MUCH_MEBIBYTES, 1);
    let committed = world.requested(file);
    let (volume, who, now) = (Arc::downgrade(&world.volume), Credentials::root(), world.now());
    let rounds = AtomicU32::new(0);
    world.volume.hooks.set(move |point| {
        if point == Point::RoundSaved && rounds.fetch_add(1, Ordering::Relaxed) + 1 == round {
            let request = Request { credentials: &who, now, access: Access::Blocking, key: None };
            change(&volume.upgrade().unwrap(), &request, file);
        }
    });
    while world.durable(committed) == Durable::NotYet {
        world.advance();
        // Refused while the COMMIT waits for what is there.
        drop(world.write_how(file, LAST_MEBIBYTE, &[2; 4096], Stability::Unstable));
    }
    assert_eq!(world.durable(committed), Durable::Yes);
    (0..8).any(|seed| {
        let disk = world.disk.after_power_loss(&mut Random::new(seed));
        let mut world = World::open(disk, world.now());
        world.check();
        world.read_at(file, LAST_MEBIBYTE, 1).unwrap() == [9]
    })
}

#[test]
fn a_commit_waits_for_changes_that_remove_what_it_covers() {
    let changes: [Change; 3] = [
        |volume, request, file| {
            volume.write(request, file, LAST_MEBIBYTE, &[4; 4096], Stability::FileSync).unwrap();
        },
        |volume, request, file| {
            let set = SetAttributes { size: Some(LAST_MEBIBYTE), ..SetAttributes::default() };
            volume.set_attributes(request, file, &set, None, &mut nothing).unwrap();
        },
        |volume, request, file| {
            volume.deallocate(request, file, LAST_MEBIBYTE, 4096).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        for round in 1..=3 {
            assert!(!is_old_data_restored(change, round), "change {number} in round {round}");
        }
    }
}

#[test]
fn a_request_counts_though_its_file_is_being_written_by_then() {
    let mut world = careless_world();
    let file = world.file("f");
    world.write(file, LAST_MEBIBYTE, &[9; 4096]).unwrap();
    world.write_mebibytes(file, MUCH_MEBIBYTES, 1);
    let committed = world.requested(file);
    let flush = world.volume.write_back.begin(world.now, false).unwrap();
    let pool = Arc::clone(world.volume.pool());
    let mut under_way = pool.under_way.lock();
    under_way.add(&pool, flush);
    // So many others are requested that a flush of everything takes the file first.
    let id = FIRST.object(file);
    let cell = pool.inodes.peek(id).unwrap();
    for number in 0..FILES_PER_ROUND_MAX {
        let gone = FIRST.object(Ino(1_000_000 + number as u64));
        under_way.requested.push_front(File::new(gone, Arc::clone(&cell), Vec::new(), true));
    }
    under_way.look_at(File::new(id, cell, Vec::new(), false));
    drop(under_way);
    world.advance();
    world.write_unstable(file, LAST_MEBIBYTE, &[2; 4096]);
    world.advance_until(committed);
    world.crash(5);
    assert_eq!(world.read_at(file, LAST_MEBIBYTE, 1).unwrap(), [2], "what the COMMIT covered, or newer");
    world.check();
}

#[test]
fn media_that_fail_later_do_not_take_back_what_a_flush_has_saved() {
    let mut world = careless_world();
    let [much, little] = ["much", "little"].map(|name| world.file(name));
    let verifier = world.write_unstable(little, 0, &vec![2; LARGE]);
    world.write_mebibytes(much, MUCH_MEBIBYTES, 1);
    let (slow, fast) = (world.requested(much), world.requested(little));
    world.advance();
    assert_eq!((world.durable(fast), world.durable(slow)), (Durable::Yes, Durable::NotYet));
    world.disk.refuse_appends(true);
    let now = world.now();
    assert_eq!(world.volume.step_write_back(now, false, true), Progress::Idle);
    assert_eq!((world.durable(fast), world.durable(slow)), (Durable::Yes, Durable::Failed));
    assert_ne!(world.volume.write_verifier(), verifier);
    world.disk.refuse_appends(false);
    let again = world.requested(much);
    world.advance_until(again);
    assert_eq!((world.durable(fast), world.durable(slow)), (Durable::Yes, Durable::Failed));
    world.crash(4);
    assert!(world.read_at(little, 0, 1 << 20).unwrap() == vec![2; LARGE]);
    assert!(world.read_at(much, 0, 1 << 20).unwrap() == vec![1; 1 << 20]);
    world.check();
}
