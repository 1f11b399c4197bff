//! The size of a volume limits what its files use, exactly.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::volumes::{NOW, assert_clean, content, fill, make, open, options, patiently, run, work};
use super::world::{World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::quotas::{Owner, QuotaKind};
use crate::api::request::{Access, Answer, Credentials, Error, Request};
use crate::api::results::{CreateHow, SetXattr, Stability, VolumeStatus};
use crate::background::Progress;
use crate::media::memory::Random;
use crate::pool::Pool;
use crate::volume::Volume;

const MIB: u64 = 1 << 20;

/// Tries until the volume neither asks for patience nor for a flush.
fn attempt<T>(volume: &Volume, operation: impl Fn(&Volume, &Request<'_>) -> Answer<T>) -> Result<T, Error> {
    for _ in 0..100 {
        match run(volume, &operation) {
            Err(Error::Busy | Error::ObjectBusy) => work(volume.pool()),
            result => return result,
        }
    }
    panic!("it stays busy");
}

fn write(volume: &Volume, ino: Ino, offset: u64, length: usize, how: Stability) -> Result<(), Error> {
    attempt(volume, |v, r| v.write(r, ino, offset, &vec![7; length][..], how)).map(drop)
}

fn truncate(volume: &Volume, ino: Ino, size: u64) {
    let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
    attempt(volume, |v, r| v.set_attributes(r, ino, &set, None, &mut nothing)).unwrap();
}

fn create(volume: &Volume, name: &[u8]) -> Ino {
    let how = CreateHow::Guarded(Default::default());
    patiently(volume, |v, r| v.create_file(r, Ino::ROOT, name, &how, &mut nothing)).attributes.ino
}

fn status(volume: &Volume) -> VolumeStatus {
    run(volume, |v, r| v.status(r)).unwrap()
}

fn sized(pool: &Arc<Pool>, size: u64) -> Volume {
    let options = crate::open::VolumeOptions { size: Some(size), ..options("small", 21) };
    let made = pool.create_volume(&options, NOW).unwrap();
    while pool.step_commit(NOW) == Progress::Worked {}
    made.value
}

#[test]
fn files_grow_to_the_size_of_the_volume_and_no_further() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let volume = sized(&pool, MIB);
    for how in [Stability::Unstable, Stability::FileSync] {
        let file = create(&volume, if how == Stability::Unstable { b"a" } else { b"b" });
        for step in 0..16 {
            write(&volume, file, step * 65_536, 65_536, how).unwrap();
            assert_eq!(status(&volume).bytes_free, MIB - (step + 1) * 65_536);
        }
        assert_eq!(write(&volume, file, MIB, 1, how), Err(Error::NoSpace));
        assert_eq!(status(&volume).bytes_total, MIB);
        assert_eq!(status(&volume).bytes_free, 0);
        // What is there can be written again, while it is unstable and when it is not.
        write(&volume, file, 1000, 200_000, how).unwrap();
        work(&pool);
        write(&volume, file, 1000, 200_000, how).unwrap();
        assert_eq!(write(&volume, file, MIB - 1, 2, how), Err(Error::NoSpace));
        let set =
            |v: &Volume, r: &Request<'_>| v.set_xattr(r, file, b"x", b"y", SetXattr::Create, &mut nothing);
        assert_eq!(attempt(&volume, set).map(drop), Err(Error::NoSpace));
        // Truncation makes room for as much.
        truncate(&volume, file, MIB - 100);
        assert_eq!(write(&volume, file, MIB - 100, 101, how), Err(Error::NoSpace));
        write(&volume, file, MIB - 100, 100, how).unwrap();
        attempt(&volume, |v, r| {
            v.remove(r, Ino::ROOT, if how == Stability::Unstable { b"a" } else { b"b" }, &mut nothing)
        })
        .unwrap();
        assert_eq!(status(&volume).bytes_free, MIB);
        work(&pool);
        assert_eq!(volume.own.ledger.lock().reserved(Owner::VOLUME).bytes, 0);
    }
    assert_clean(&world.disk);
}

#[test]
fn a_copy_counts_in_full() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let volume = sized(&pool, 100_000);
    let (from, to) = (fill(&volume, b"from", &[1; 60_000]), create(&volume, b"to"));
    let copy = |count| attempt(&volume, |v, r| v.copy_range(r, (from, 0), (to, 0), count));
    assert_eq!(copy(40_001).map(drop), Err(Error::NoSpace));
    assert_eq!(copy(40_000).map(|copied| copied.count), Ok(40_000));
    assert_eq!(copy(40_000).map(|copied| copied.count), Ok(40_000), "over itself");
    assert_eq!((status(&volume).bytes_free, volume.own.ledger.lock().reserved(Owner::VOLUME).bytes), (0, 0));
}

#[test]
fn a_size_limits_the_number_of_objects() {
    let world = World::new();
    let volume = sized(world.volume.pool(), MIB);
    let target = [b't'; 4000];
    let link = |number: usize| {
        let name = format!("{number:0>200}");
        let set = SetAttributes::default();
        attempt(&volume, |v, r| v.make_symlink(r, Ino::ROOT, name.as_bytes(), &target, &set, &mut nothing))
    };
    let made = (0..).find(|number| link(*number).is_err_and(|error| error == Error::NoSpace)).unwrap();
    let counts = status(&volume);
    assert_eq!((counts.inodes_used, counts.inodes_free), (1024, 0), "{made} links and the root");
    // The room of one that is removed is there for another.
    patiently(&volume, |v, r| v.remove(r, Ino::ROOT, format!("{:0>200}", 0).as_bytes(), &mut nothing));
    assert!(link(made).is_ok() && link(made + 1).is_err());
    work(volume.pool());
    assert_clean(&world.disk);
}

/// Makes a file of so many pieces of one byte, each with a hole before it.
fn make_pieces(volume: &Volume, name: &[u8], pieces: u64) -> Ino {
    let file = create(volume, name);
    for piece in 0..pieces {
        write(volume, file, 2 * piece + 1, 1, Stability::FileSync).unwrap();
    }
    work(volume.pool());
    file
}

fn mappings(volume: &Volume) -> u64 {
    volume.own.mappings.load(Ordering::Relaxed)
}

/// Removes a name of the root directory, and frees what that leaves.
fn remove(volume: &Volume, name: &[u8]) {
    patiently(volume, |v, r| v.remove(r, Ino::ROOT, name, &mut nothing));
    work(volume.pool());
}

#[test]
fn a_size_limits_the_number_of_mappings() {
    const PIECES: u64 = 3000;
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let volume = sized(&pool, MIB);
    let most = volume.own.ledger.mappings_max();
    let file = make_pieces(&volume, b"pieces", PIECES);
    assert_eq!((most, mappings(&volume)), (8192, PIECES));
    let whole = create(&volume, b"whole");
    write(&volume, whole, 0, 4096, Stability::FileSync).unwrap();
    let copy = |name: &[u8]| {
        let to = create(&volume, name);
        let mut at = 0;
        while at < 2 * PIECES {
            at += attempt(&volume, |v, r| v.copy_range(r, (file, at), (to, at), 0))?.count;
        }
        work(volume.pool());
        Ok(())
    };
    assert_eq!((copy(b"1"), copy(b"2")), (Ok(()), Ok(())));
    assert_eq!(mappings(&volume), 3 * PIECES + 1, "the last checkpoint may exceed it");
    let fails = |how| write(&volume, whole, 0, 1, how) == Err(Error::NoSpace);
    assert!(fails(Stability::FileSync) && fails(Stability::Unstable));
    assert_eq!(copy(b"3"), Err(Error::NoSpace));
    let punch = |from, length| attempt(&volume, |v, r| v.deallocate(r, whole, from, length)).map(drop);
    assert_eq!((punch(5, 1), punch(5, 4091)), (Err(Error::NoSpace), Ok(())), "in the middle, and to the end");
    // Another volume of the pool does not notice.
    fill(&world.volume, b"other", &[1; 9]);
    work(&pool);
    let before = pool.checkpoints.done();
    assert!(fails(Stability::FileSync));
    assert_eq!(pool.checkpoints.done(), before, "nobody who is refused has checkpoints made");
    patiently(&volume, |v, r| v.remove(r, Ino::ROOT, b"1", &mut nothing));
    assert!(
        !fails(Stability::FileSync) && !fails(Stability::Unstable),
        "whoever comes after a removal waits for it"
    );
    assert_eq!(mappings(&volume), 2 * PIECES + 1);
    truncate(&volume, file, 0);
    remove(&volume, b"2");
    work(volume.pool());
    assert_eq!(mappings(&volume), 2, "of the file that was rewritten");
    assert_clean(&world.disk);
}

#[test]
fn sectors_never_meet_the_limit_of_mappings() {
    const SIZE: u64 = 5 * MIB;
    let world = World::new();
    let volume = sized(world.volume.pool(), SIZE);
    let file = create(&volume, b"sectors");
    for round in 0..2 {
        for number in (0..SIZE / 512).rev() {
            write(&volume, file, number * 1024, 512, Stability::FileSync).unwrap();
        }
        work(volume.pool());
        assert_eq!((mappings(&volume), status(&volume).bytes_free), (SIZE / 512, 0), "round {round}");
    }
}

#[test]
fn between_checkpoints_files_get_no_more_mappings_than_the_size_allows_once_more() {
    let world = World::roomy();
    let pool = Arc::clone(world.volume.pool());
    let volume = sized(&pool, MIB);
    let most = volume.own.ledger.mappings_max();
    let file = create(&volume, b"bytes");
    let put = |number: u64| {
        let written = run(&volume, |v, r| v.write(r, file, number * 1024, &[7][..], Stability::FileSync));
        // A commit takes a block of the journal.
        if number.is_multiple_of(64) {
            while pool.step_commit(NOW) == Progress::Worked {}
            pool.maintain_space();
        }
        written.map(drop)
    };
    let refused = (0..3 * most).find_map(|number| put(number).err().map(|error| (number, error)));
    let (accepted, error) = refused.expect("some wait for a checkpoint");
    assert_eq!(error, Error::ObjectBusy, "{accepted} accepted");
    work(&pool);
    assert!(mappings(&volume) >= accepted && mappings(&volume) <= 2 * most, "{accepted} accepted");
    assert_eq!(put(accepted), Err(Error::NoSpace));
    truncate(&volume, file, 1024);
    work(&pool);
    // Whoever replaces mappings waits now and then, and is never refused.
    for number in 0..3 * most {
        write(&volume, file, number % 3 * 1024, 1, Stability::FileSync).unwrap();
    }
}

#[test]
fn the_number_of_mappings_is_kept() {
    let world = World::new();
    let volume = sized(world.volume.pool(), MIB);
    make_pieces(&volume, b"pieces", 100);
    let number = volume.number();
    drop(volume);
    let World { disk, .. } = world;
    let pool = open(&disk);
    assert_eq!(pool.volumes.read()[&number].mappings.load(Ordering::Relaxed), 100);
    assert_clean(&disk);
}

#[test]
fn the_room_of_a_removed_file_that_nobody_holds_any_more_is_waited_for() {
    let world = World::new();
    let volume = sized(world.volume.pool(), MIB);
    let mut files: Vec<Ino> = vec![fill(&volume, b"large", &[1; 1 << 20])];
    files.extend((0..1022_u64).map(|n| create(&volume, n.to_string().as_bytes())));
    let (large, other) = (files[0], files[1]);
    work(volume.pool());
    let how = CreateHow::Guarded(Default::default());
    let make = || run(&volume, |v, r| v.create_file(r, Ino::ROOT, b"more", &how, &mut nothing)).map(drop);
    let write = || run(&volume, |v, r| v.write(r, other, 0, &[2; 100][..], Stability::FileSync)).map(drop);
    volume.hold(large);
    patiently(&volume, |v, r| v.remove(r, Ino::ROOT, b"large", &mut nothing));
    assert_eq!((make(), write()), (Err(Error::NoSpace), Err(Error::NoSpace)), "it is held");
    volume.release(large);
    assert_eq!((make(), write()), (Err(Error::ObjectBusy), Err(Error::ObjectBusy)), "it will be freed");
    assert_eq!(volume.pool().step_orphans(NOW), Progress::Worked);
    assert_eq!((make(), write()), (Ok(()), Ok(())));
    work(volume.pool());
    assert_clean(&world.disk);
}

#[test]
fn a_size_changes_in_the_journal_and_may_be_below_what_is_used() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let volume = make(&pool, "volume", 21);
    let file = create(&volume, b"file");
    // This much is unstable when the limit begins.
    write(&volume, file, 0, 300_000, Stability::Unstable).unwrap();
    pool.resize_volume(&volume, Some(400_000)).unwrap();
    let one = |v: &Volume, r: &Request<'_>| v.write(r, file, 300_000, &[1; 100_001][..], Stability::Unstable);
    assert_eq!(run(&volume, one).map(drop), Err(Error::ObjectBusy), "it is not known yet what is used");
    assert_eq!(write(&volume, file, 300_000, 100_001, Stability::Unstable), Err(Error::NoSpace));
    write(&volume, file, 300_000, 100_000, Stability::Unstable).unwrap();
    pool.resize_volume(&volume, Some(100_000)).unwrap();
    work(&pool);
    assert_eq!((status(&volume).bytes_total, status(&volume).bytes_free), (100_000, 0));
    write(&volume, file, 0, 10_000, Stability::FileSync).unwrap();
    truncate(&volume, file, 200_000);
    assert_eq!(write(&volume, file, 200_000, 1, Stability::FileSync), Err(Error::NoSpace));
    for none in [None, Some(0), Some(u64::MAX)] {
        pool.resize_volume(&volume, none).unwrap();
        assert_eq!((volume.size(), pool.list_volumes()[1].size), (None, None));
        pool.resize_volume(&volume, Some(100_000)).unwrap();
    }
    pool.rename_volume(&volume, "other").unwrap();
    work(&pool);
    // Replayed, and once more from the index.
    let mut disk = world.disk.after_kill();
    for _ in 0..2 {
        let pool = open(&disk);
        let volume = pool.volume("other").unwrap();
        assert_eq!((volume.size(), content(&volume, file)), (Some(100_000), Ok(200_000)));
        work(&pool);
        disk = disk.after_kill();
    }
    let pool = open(&disk);
    let volume = pool.volume("other").unwrap();
    let listed = pool.list_volumes();
    let shown = (listed[1].size, listed[1].bytes_used, listed[1].objects, listed[1].is_being_deleted);
    assert_eq!(shown, (Some(100_000), 200_000, 2, false));
    pool.resize_volume(&volume, Some(0)).unwrap();
    assert_eq!(volume.size(), None);
    write(&volume, file, 200_000, 300_000, Stability::Unstable).unwrap();
    pool.delete_volume(&volume).unwrap();
    let listed = pool.list_volumes();
    assert_eq!((listed.len(), &*listed[1].name, listed[1].is_being_deleted), (2, "other", true));
    while !pool.deletions.list().is_empty() {
        work(&pool);
    }
    assert_eq!(pool.list_volumes().len(), 1);
}

/// What random operations leave of a file: which bytes of it are no holes.
struct Model {
    ino: Ino,
    data: Vec<bool>,
}

impl Model {
    fn holes(&self, offset: usize, length: usize) -> u64 {
        self.data[offset..offset + length].iter().filter(|byte| !**byte).count() as u64
    }
}

#[test]
fn random_writes_are_refused_exactly_when_they_do_not_fit() {
    const FILE: usize = 256 << 10;
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let world = World::new();
        let pool = Arc::clone(world.volume.pool());
        let size = 300_000 + random.below(100_000);
        let volume = sized(&pool, size);
        let mut files: Vec<Model> = (0..3_u8)
            .map(|file| Model { ino: create(&volume, &[b'a' + file]), data: vec![false; FILE] })
            .collect();
        for step in 0..300 {
            let used: u64 =
                files.iter().map(|file| file.holes(0, FILE)).map(|holes| FILE as u64 - holes).sum();
            assert!(used <= size, "seed {seed}, step {step}");
            assert!(used + status(&volume).bytes_free <= size);
            let file = &mut files[random.index(3)];
            let longest = if random.below(3) == 0 { 70_000 } else { 9000 };
            let (offset, length) = (random.index(FILE - 70_000), 1 + random.index(longest));
            match random.below(20) {
                0 => {
                    truncate(&volume, file.ino, offset as u64);
                    file.data[offset..].fill(false);
                }
                1 => {
                    let set =
                        |v: &Volume, r: &Request<'_>| v.deallocate(r, file.ino, offset as u64, length as u64);
                    let punched = usize::try_from(attempt(&volume, set).unwrap().count).unwrap();
                    file.data[offset..offset + punched].fill(false);
                }
                2 => drop(pool.step_write_back(NOW, true, true)),
                3 => work(&pool),
                _ => {
                    let how = [Stability::Unstable, Stability::FileSync][usize::from(random.below(4) == 0)];
                    let fits = used + file.holes(offset, length) <= size;
                    let result = write(&volume, file.ino, offset as u64, length, how);
                    let expected = if fits { Ok(()) } else { Err(Error::NoSpace) };
                    let grows = file.holes(offset, length) > 0;
                    assert!(
                        result == expected || !grows && result.is_ok(),
                        "seed {seed}, step {step}: {result:?}"
                    );
                    if result.is_ok() {
                        file.data[offset..offset + length].fill(true);
                    }
                }
            }
        }
        work(&pool);
        assert_eq!(volume.own.ledger.lock().reserved(Owner::VOLUME).bytes, 0, "seed {seed}");
        assert_clean(&world.disk);
    }
}

#[test]
fn many_writers_at_once_do_not_exceed_the_size() {
    const SIZE: u64 = 2_000_000;
    let world = World::roomy();
    let pool = Arc::clone(world.volume.pool());
    let volume = sized(&pool, SIZE);
    let files: Vec<Ino> = (0..64_u8).map(|file| create(&volume, &[file + 128])).collect();
    let accepted: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (files.iter().enumerate())
            .map(|(number, file)| {
                let volume = &volume;
                scope.spawn(move || {
                    let root = Credentials::root();
                    let request =
                        Request { credentials: &root, now: NOW, access: Access::Blocking, key: None };
                    let how = [Stability::Unstable, Stability::FileSync][number % 2];
                    let mut offset = 0;
                    loop {
                        match volume.write(&request, *file, offset, &[1; 777][..], how) {
                            Ok(_) => offset += 777,
                            Err(failure) if failure.error.is_busy() => {
                                volume.step_write_back(NOW, true, true);
                            }
                            Err(failure) if failure.error == Error::NoSpace => return offset,
                            Err(failure) => panic!("{failure:?}"),
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    work(&pool);
    assert_eq!(status(&volume).bytes_used, accepted);
    assert!((SIZE - 777..=SIZE).contains(&accepted), "{accepted}");
    assert_eq!(volume.own.ledger.lock().reserved(Owner::VOLUME).bytes, 0);
}

#[test]
fn a_size_limits_the_number_of_names() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let volume = sized(&pool, MIB);
    let file = create(&volume, b"file");
    let name = |number: usize| format!("{number:0>200}").into_bytes();
    let link = |number| attempt(&volume, |v, r| v.link(r, file, Ino::ROOT, &name(number), &mut nothing));
    let made = (0..2000).find(|number| link(*number).is_err_and(|error| error == Error::NoSpace)).unwrap();
    assert_eq!(made, 1022, "with the root and the first name");
    assert_eq!((status(&volume).inodes_used, status(&volume).inodes_free), (1024, 0));
    let make = |name: &[u8]| {
        let set = SetAttributes::default();
        attempt(&volume, |v, r| v.make_directory(r, Ino::ROOT, name, &set, &mut nothing))
    };
    assert_eq!(make(b"directory").map(drop), Err(Error::NoSpace));
    let owner = Owner::new(QuotaKind::User, 0);
    let of_user = volume.quota(owner).unwrap();
    assert_eq!(of_user.inodes_used, 2, "whoever makes a name for a file of others costs them nothing");
    // A name that is removed makes room for another, and so does one that is replaced.
    let remove = |name: &[u8]| patiently(&volume, |v, r| v.remove(r, Ino::ROOT, name, &mut nothing));
    let rename = |from: &[u8], to: &[u8]| {
        patiently(&volume, |v, r| v.rename(r, (Ino::ROOT, from), (Ino::ROOT, to), &mut nothing))
    };
    remove(&name(0));
    assert!(link(made).is_ok() && link(made + 1).is_err());
    remove(&name(1));
    create(&volume, b"other");
    assert!(link(made + 1).is_err());
    rename(b"other", &name(2));
    assert!(link(made + 1).is_ok() && link(made + 2).is_err());
    rename(&name(3), b"file");
    assert!(link(made + 2).is_err(), "both are names of the same file");
    work(&pool);
    assert_clean(&world.disk);
    for number in 4..made + 2 {
        remove(&name(number));
    }
    work(&pool);
    assert_eq!(status(&volume).inodes_used, 4, "the root, two files, and a second name");
    assert_clean(&world.disk);
}
