//! Volumes that are made, renamed and deleted while others are used.

use std::sync::Arc;

use super::world::{OPTIONS, World, nothing};
use crate::api::ids::{Ino, VolumeId, VolumeNumber};
use crate::api::request::{Access, Credentials, Durable, Error, Journaled, Request, RequestKey};
use crate::api::results::Stability;
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::record::UsageRecord;
use crate::file::inodes::INODE_BYTES;
use crate::limits::VOLUME_NAME_BYTES_MAX;
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::offline::check::{CheckOptions, check};
use crate::offline::files::{Files, Part};
use crate::open::VolumeOptions;
use crate::pool::Pool;
use crate::volume::{Volume, VolumeState};

pub(super) const NOW: Time = Time::from_nanos(1_700_000_100_000_000_000);

pub(super) fn options(name: &str, id: u64) -> VolumeOptions {
    let name = name.to_owned();
    VolumeOptions {
        id: VolumeId(id),
        name,
        size: None,
        handle_secret: [9; 16],
        root_mode: 0o755,
        root_owner: (0, 0),
    }
}

pub(super) fn make(pool: &Arc<Pool>, name: &str, id: u64) -> Volume {
    let made = pool.create_volume(&options(name, id), NOW).unwrap();
    while pool.step_commit(NOW) == Progress::Worked {}
    made.value
}

pub(super) fn open(disk: &Arc<MemoryMedia>) -> Arc<Pool> {
    Pool::open(Arc::clone(disk) as Arc<dyn Media>, &OPTIONS, NOW).unwrap()
}

pub(super) fn work(pool: &Pool) {
    while pool.step_commit(NOW) == Progress::Worked {}
    pool.step_write_back(NOW, true, true);
    while pool.step_checkpoint(NOW, true) == Progress::Worked && pool.view().active.bytes() > 0 {}
    pool.step_checkpoint(NOW, true);
}

pub(super) fn assert_clean(disk: &Arc<MemoryMedia>) {
    let report = check(&(disk.after_kill() as Arc<dyn Media>), &CheckOptions::default()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.faults);
}

/// Runs an operation of the superuser.
pub(super) fn run<T>(
    volume: &Volume,
    operation: impl FnOnce(&Volume, &Request<'_>) -> crate::api::request::Answer<T>,
) -> Result<T, Error> {
    let root = Credentials::root();
    let request = Request { credentials: &root, now: NOW, access: Access::Blocking, key: None };
    operation(volume, &request).map(|promised| promised.value).map_err(|failure| failure.error)
}

/// Runs an operation of the superuser until background work has made room for it.
pub(super) fn patiently<T>(
    volume: &Volume,
    operation: impl Fn(&Volume, &Request<'_>) -> crate::api::request::Answer<T>,
) -> T {
    loop {
        match run(volume, &operation) {
            Err(Error::Busy) => work(volume.pool()),
            result => return result.unwrap(),
        }
    }
}

/// Creates a file with this content.
pub(super) fn fill(volume: &Volume, name: &[u8], data: &[u8]) -> Ino {
    let how = crate::api::results::CreateHow::Guarded(Default::default());
    let made = patiently(volume, |v, r| v.create_file(r, Ino::ROOT, name, &how, &mut super::world::nothing));
    let stable = crate::api::results::Stability::FileSync;
    patiently(volume, |v, r| v.write(r, made.attributes.ino, 0, data, stable));
    made.attributes.ino
}

pub(super) fn content(volume: &Volume, ino: Ino) -> Result<usize, Error> {
    run(volume, |v, r| v.read(r, ino, 0, 1 << 20)).map(|read| read.count)
}

#[test]
fn volumes_are_apart_though_their_inodes_have_the_same_numbers() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let (one, other) = (make(&pool, "one", 11), make(&pool, "other", 12));
    let inos =
        [fill(&one, b"f", &[1; 3000]), fill(&other, b"f", &[2; 9000]), fill(&world.volume, b"g", &[3; 100])];
    assert_eq!(inos, [Ino(2); 3]);
    for _ in 0..2 {
        assert_eq!(
            [content(&one, Ino(2)), content(&other, Ino(2)), content(&world.volume, Ino(2))],
            [Ok(3000), Ok(9000), Ok(100)]
        );
        assert!(run(&one, |v, r| v.lookup(r, Ino::ROOT, b"g")).is_err());
        assert_eq!(one.resolve(&other.handle(Ino(2))), Err(Error::BadHandle));
        let usage = |volume: &Volume| volume.usage.of(volume.number()).bytes;
        assert_eq!([usage(&one), usage(&other)], [3000, 9000]);
        work(&pool);
        assert_clean(&world.disk);
    }
    let disk = world.disk.after_kill();
    let pool = open(&disk);
    let names: Vec<_> = pool.volumes().iter().map(|volume| volume.name().to_string()).collect();
    assert_eq!(names, ["main", "one", "other"]);
    assert_eq!(content(&pool.volume("other").unwrap(), Ino(2)), Ok(9000));
    assert_eq!(fill(&pool.volume("one").unwrap(), b"next", b"x"), Ino(3), "numbers go on after those in use");
}

#[test]
fn what_other_volumes_hold_is_not_free() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let (one, other) = (make(&pool, "one", 11), make(&pool, "other", 12));
    let free = |volume: &Volume| run(volume, |v, r| v.status(r)).unwrap().bytes_free;
    assert_eq!(free(&one), free(&other));
    for number in 0..8_u8 {
        fill(&one, &[b'a' + number], &[number; 1 << 20]);
        work(&pool);
    }
    assert_eq!(free(&one), free(&other));
}

#[test]
fn volumes_are_made_renamed_and_deleted_in_the_journal() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let one = make(&pool, "one", 11);
    fill(&one, b"f", &[1; 3000]);
    assert_eq!(pool.create_volume(&options("one", 13), NOW).unwrap_err().error, Error::Exists);
    for name in ["", "a/b", &"n".repeat(VOLUME_NAME_BYTES_MAX + 1)] {
        assert_eq!(pool.create_volume(&options(name, 13), NOW).unwrap_err().error, Error::Invalid);
    }
    pool.rename_volume(&one, "uno").unwrap();
    let two = make(&pool, "one", 14);
    let handle = two.handle(Ino::ROOT);
    pool.delete_volume(&two).unwrap();
    while pool.step_commit(NOW) == Progress::Worked {}
    assert_eq!(two.resolve(&handle), Err(Error::Stale));
    assert_eq!(run(&two, |v, r| v.attributes(r, Ino::ROOT)).map(drop), Err(Error::Stale));
    assert_eq!(pool.delete_volume(&two).map(drop), Err(Error::Stale));
    assert_clean(&world.disk);
    // Replayed, and once more after a checkpoint.
    let mut disk = world.disk.after_kill();
    for _ in 0..2 {
        let pool = open(&disk);
        let names: Vec<_> = pool.volumes().iter().map(|volume| volume.name().to_string()).collect();
        assert_eq!(names, ["main", "uno"]);
        assert_eq!(content(&pool.volume("uno").unwrap(), Ino(2)), Ok(3000));
        work(&pool);
        assert_clean(&disk);
        disk = disk.after_kill();
    }
    let third = make(&open(&disk), "one", 15);
    assert_eq!(third.number().0, two.number().0 + 1, "numbers are not used again");
}

#[test]
fn a_deleted_volume_gives_its_space_back_step_by_step_and_across_crashes() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let kept = fill(&world.volume, b"kept", &[5; 50_000]);
    let gone = make(&pool, "gone", 11);
    for number in 0..40_u8 {
        fill(&gone, &[b'a' + number % 26, b'0' + number / 26], &vec![number; 40_000]);
    }
    work(&pool);
    fill(&gone, b"late", &[1; 5000]);
    pool.delete_volume(&gone).unwrap();
    while pool.step_commit(NOW) == Progress::Worked {}
    assert_clean(&world.disk);
    let disk = world.disk.after_kill();
    let pool = open(&disk);
    assert_eq!(pool.volumes().len(), 1);
    assert_eq!(pool.deletions.list(), [gone.number()]);
    for _ in 0..4 {
        work(&pool);
        assert_clean(&disk);
    }
    assert_eq!(pool.deletions.list(), []);
    let (from, to) = crate::encoding::key::volume_range(gone.number());
    let mut left = 0;
    pool.view()
        .index
        .scan(&from, &to, &mut |_, _| {
            left += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(left, 0);
    let live: u64 = pool.segments.infos().iter().map(|(_, info)| info.live).sum();
    assert_eq!(live, 50_000);
    assert_eq!(content(&pool.volume("main").unwrap(), kept), Ok(50_000));
}

#[test]
fn a_thousand_idle_volumes_take_little_memory() {
    let world = World::roomy();
    let pool = Arc::clone(world.volume.pool());
    for number in 0..1000 {
        make(&pool, &format!("volume {number}"), 100 + number);
    }
    work(&pool);
    assert_eq!(pool.volumes().len(), 1001);
    assert_eq!(pool.usage.objects(), 1001);
    // What a volume has of its own, its places in the list of volumes and in the table of their usage, and its root.
    const COUNTER: usize = size_of::<(VolumeNumber, UsageRecord)>() + 1;
    const LISTED: usize = 2 * (size_of::<VolumeNumber>() + size_of::<Arc<VolumeState>>()) + 16;
    const OWN: usize = size_of::<VolumeState>() + VOLUME_NAME_BYTES_MAX + LISTED + 2 * COUNTER;
    let roots = pool.inodes.len() * usize::try_from(INODE_BYTES).unwrap() / 1000;
    let shared = pool.view().active.bytes() + pool.inodes.window_bytes() + pool.inodes.note_bytes();
    assert!(OWN + roots < 2048, "{OWN} + {roots} bytes");
    assert_eq!((shared, pool.orphans.len(), pool.write_back.files()), (0, 0, 0));
    assert_clean(&world.disk);
}

#[test]
fn files_that_are_held_are_forgotten_with_their_volume() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let gone = make(&pool, "gone", 11);
    let file = fill(&gone, b"file", &[1; 100]);
    gone.hold(file);
    patiently(&gone, |v, r| v.remove(r, Ino::ROOT, b"file", &mut nothing));
    assert_eq!(pool.orphans.len(), 1);
    pool.delete_volume(&gone).unwrap();
    assert!(pool.orphans.len() == 0 && !pool.orphans.is_held(gone.object(file)));
    gone.release(file);
    work(&pool);
    assert_clean(&world.disk);
}

#[test]
fn data_that_a_deleted_volume_still_accepts_never_reaches_media() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let gone = make(&pool, "gone", 11);
    let file = fill(&gone, b"file", &[1; 100]);
    let unstable = crate::api::results::Stability::Unstable;
    patiently(&gone, |v, r| v.write(r, file, 100, &[2; 9000][..], unstable));
    pool.delete_volume(&gone).unwrap();
    // Nothing remains of it before the flush.
    while pool.step_commit(NOW) == Progress::Worked {}
    while !pool.deletions.list().is_empty() {
        pool.step_checkpoint(NOW, true);
    }
    assert!(pool.write_back.dirty_bytes() > 0);
    pool.step_write_back(NOW, true, true);
    assert_eq!((pool.write_back.dirty_bytes(), pool.space.reserved()), (0, 0));
    work(&pool);
    assert_clean(&world.disk);
}

#[test]
fn a_volume_repeats_only_its_own_replies_and_a_deleted_one_none() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let (one, other) = (make(&pool, "one", 11), make(&pool, "other", 12));
    let key = RequestKey::new([7; 40]);
    let root = Credentials::root();
    let request = Request { credentials: &root, now: NOW, access: Access::Blocking, key: Some(&key) };
    let make_directory = |volume: &Volume, answer: &[u8]| {
        let answer: Arc<[u8]> = Arc::from(answer);
        let mut encode = |_: &_| Journaled { answer: Arc::clone(&answer), ..Journaled::default() };
        volume.make_directory(&request, Ino::ROOT, b"d", &Default::default(), &mut encode).unwrap();
    };
    make_directory(&one, b"of one");
    assert!(other.lookup_request(&key).is_none());
    make_directory(&other, b"of other");
    let replies = |pool: &Arc<Pool>| {
        let reply = |name| Some(pool.volume(name)?.lookup_request(&key)?.0.to_vec());
        (reply("one"), reply("other"))
    };
    let both = (Some(b"of one".to_vec()), Some(b"of other".to_vec()));
    assert_eq!(replies(&pool), both);
    // Replayed, and from the index.
    while pool.step_commit(NOW) == Progress::Worked {}
    assert_eq!(replies(&open(&world.disk.after_kill())), both);
    work(&pool);
    let disk = world.disk.after_kill();
    let pool = open(&disk);
    assert_eq!(replies(&pool), both);
    pool.delete_volume(&pool.volume("one").unwrap()).unwrap();
    assert_eq!((replies(&pool), pool.duplicate_requests.len()), ((None, both.1.clone()), 1));
    while pool.step_commit(NOW) == Progress::Worked {}
    let pool = open(&disk.after_kill());
    assert_eq!((replies(&pool), pool.duplicate_requests.len()), ((None, both.1), 1));
    work(&pool);
    let mut rows = 0;
    let count = &mut |_: &[u8], _: &[u8]| rows += 1;
    pool.view().each_of(crate::encoding::key::POOL, crate::encoding::key::Table::Reply, count).unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn files_of_a_chosen_volume_are_read_offline() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    fill(&world.volume, b"first", &[1; 10]);
    let other = make(&pool, "other", 12);
    fill(&other, b"file", &[2; 5000]);
    work(&pool);
    fill(&other, b"recent", &[2; 50]);
    while pool.step_commit(NOW) == Progress::Worked {}
    let mut files = Files::open(world.disk.after_kill()).unwrap();
    let names = |files: &Files| -> Vec<Vec<u8>> {
        files.list(Ino::ROOT).unwrap().entries.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(files.volumes().map(|(_, name)| name.to_owned()).collect::<Vec<_>>(), ["main", "other"]);
    assert_eq!(names(&files), [b"first"]);
    files.select("other").unwrap();
    assert_eq!(names(&files), [&b"file"[..], b"recent"]);
    let mut bytes = 0;
    files
        .read(Ino(2), &mut |part| {
            if let Part::Data(_, data) = part {
                bytes += data.len();
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(bytes, 5000);
    assert!(files.select("third").unwrap_err().to_string().contains("only main, other"));
}

#[test]
fn a_huge_volume_is_deleted_in_portions_across_crashes() {
    // Each has three records: more than two checkpoints delete.
    const FILES: usize = 2 * crate::limits::REAPED_MAPPINGS_MAX / 3 + 1000;
    let world = World::roomy();
    let pool = Arc::clone(world.volume.pool());
    let gone = make(&pool, "gone", 11);
    let how = crate::api::results::CreateHow::Guarded(Default::default());
    for number in 0..FILES {
        let name = number.to_string();
        patiently(&gone, |v, r| {
            v.create_file(r, Ino::ROOT, name.as_bytes(), &how, &mut super::world::nothing)
        });
    }
    work(&pool);
    pool.delete_volume(&gone).unwrap();
    while pool.step_commit(NOW) == Progress::Worked {}
    let (mut disk, mut portions) = (world.disk.after_kill(), 0);
    loop {
        let pool = open(&disk);
        if pool.deletions.list().is_empty() {
            break;
        }
        pool.step_checkpoint(NOW, true);
        disk = disk.after_kill();
        assert_clean(&disk);
        portions += 1;
    }
    assert!((3..=5).contains(&portions), "{portions}");
    assert_eq!(pool.usage.objects(), 1);
}

#[test]
fn a_commit_fails_whose_volume_is_deleted_before_its_data_is_stable() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let volume = make(&pool, "one", 11);
    let file = fill(&volume, b"f", &[1; 3000]);
    let root = Credentials::root();
    let request = Request { credentials: &root, now: NOW, access: Access::Blocking, key: None };
    let large = vec![2; 200 << 10];
    patiently(&volume, |v, r| v.write(r, file, 0, &large[..], Stability::Unstable));
    let committed = volume.commit(&request, file, 0, 0).unwrap().after;
    // Whether the deletion is stable is another question.
    pool.delete_volume(&volume).unwrap();
    pool.step_write_back(NOW, true, true);
    assert_eq!(pool.durability(committed), Durable::Failed);
    assert_eq!(pool.write_back.dirty_bytes(), 0);
    work(&pool);
    assert_clean(&world.disk);
}
