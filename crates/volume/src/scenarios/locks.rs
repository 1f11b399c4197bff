//! Locks and waits between operations, tested by interleaving threads at hook points.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::reaping::{PIECES, pieces, world_with_a_file_in_pieces};
use super::world::{World, nothing};
use crate::api::attributes::{FileType, SetAttributes};
use crate::api::ids::{Cookie, Ino};
use crate::api::request::{Access, Credentials, Error, Request};
use crate::api::results::{CreateHow, Stability};
use crate::api::time::Time;
use crate::background::Progress;
use crate::hooks::Point;
use crate::limits::ENTRY_BYTES_MAX;
use crate::volume::Volume;

/// After this long, a waiting test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

fn rename(volume: &Volume, from: (Ino, &[u8]), to: (Ino, &[u8])) -> Result<(), Error> {
    let who = Credentials::root();
    let request =
        Request { credentials: &who, now: Time::from_parts(3_000, 0), access: Access::Blocking, key: None };
    volume.rename(&request, from, to, &mut nothing).map(drop).map_err(|failure| failure.error)
}

#[test]
fn two_directories_cannot_be_moved_below_each_other_at_once() {
    let mut world = World::new();
    let [a, b] = ["a", "b"].map(|name| world.mkdir(Ino::ROOT, name).unwrap());
    let second: Arc<Mutex<Option<JoinHandle<Result<(), Error>>>>> = Arc::default();
    let (began, waits) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let (volume, slot) = (Arc::downgrade(&world.volume), Arc::clone(&second));
    world.volume.hooks.set(move |point| {
        if point == Point::MoveBegins && began.load(Ordering::Acquire) {
            waits.store(true, Ordering::Release);
        }
        if point != Point::AncestorsKnown || began.swap(true, Ordering::AcqRel) {
            return;
        }
        // The first rename has checked its ancestors. The second starts now: it must wait or finish.
        let volume = volume.upgrade().expect("the volume is open");
        let other = Arc::clone(&volume);
        let thread = std::thread::spawn(move || rename(&other, (Ino::ROOT, b"b"), (a, b"b")));
        let begun = Instant::now();
        let is_held_up = || waits.load(Ordering::Acquire) && volume.own.directory_moves.is_locked();
        while !(thread.is_finished() || is_held_up()) {
            assert!(begun.elapsed() < PATIENCE, "the second rename neither waits nor ends");
            std::thread::yield_now();
        }
        *slot.lock() = Some(thread);
    });
    let first = rename(&world.volume, (Ino::ROOT, b"a"), (b, b"a"));
    let second = second.lock().take().expect("the first rename ran the hook").join().unwrap();
    assert_eq!((first, second), (Ok(()), Err(Error::Invalid)));
    world.check();
    assert_eq!(world.lookup(b, "a"), Ok(a));
}

/// A changed name leaves the cache before it leaves the layers. Caching a name found without the lock would therefore
/// bring back a removed one permanently.
#[test]
fn names_are_cached_only_under_the_lock_of_their_directory() {
    let mut world = World::new();
    // Created before the directories, so that the lock order requires releasing their locks first.
    let removed = world.create(Ino::ROOT, "removed").unwrap();
    let replaced = world.create(Ino::ROOT, "replaced").unwrap();
    let [from, to] = ["from", "to"].map(|name| world.mkdir(Ino::ROOT, name).unwrap());
    world.link(removed, from, "a").unwrap();
    world.remove(Ino::ROOT, "removed").unwrap();
    world.link(replaced, to, "b").unwrap();
    let other: Arc<Mutex<Option<JoinHandle<Result<(), Error>>>>> = Arc::default();
    let (volume, slot) = (Arc::downgrade(&world.volume), Arc::clone(&other));
    let [unlocked, begun, followed, compared] = std::array::from_fn(|_| AtomicBool::new(false));
    let wait_for = |flag: &AtomicBool| {
        let since = Instant::now();
        while !flag.load(Ordering::Acquire) {
            assert!(since.elapsed() < PATIENCE, "a hook point was not reached");
            std::thread::yield_now();
        }
    };
    world.volume.hooks.set(move |point| match point {
        Point::NamesUnlocked if !unlocked.swap(true, Ordering::AcqRel) => {
            let volume = volume.upgrade().expect("the volume is open");
            let (who, now) = (Credentials::root(), Time::from_parts(3_000, 0));
            let request = Request { credentials: &who, now, access: Access::Blocking, key: None };
            volume.remove(&request, from, b"a", &mut nothing).unwrap();
            begun.store(true, Ordering::Release);
            *slot.lock() = Some(std::thread::spawn(move || rename(&volume, (to, b"b"), (to, b"c"))));
            wait_for(&followed);
        }
        Point::NamesFollowed if begun.load(Ordering::Acquire) && !followed.swap(true, Ordering::AcqRel) => {
            wait_for(&compared);
        }
        Point::NamesCompared => compared.store(true, Ordering::Release),
        _ => {}
    });
    assert_eq!(rename(&world.volume, (from, b"a"), (to, b"b")), Err(Error::NoEntry));
    let other = other.lock().take().expect("the first rename ran the hook").join().unwrap();
    assert_eq!(other, Ok(()));
    assert_eq!((world.lookup(to, "b"), world.lookup(to, "c")), (Err(Error::NoEntry), Ok(replaced)));
    world.check();
}

/// Runs one operation of each kind, and the commit that their replies wait for.
fn clients_work(volume: &Volume, turn: usize) {
    let who = Credentials::root();
    let now = Time::from_parts(4_000, 0);
    let request = Request { credentials: &who, now, access: Access::Blocking, key: None };
    let name = format!("during {turn}").into_bytes();
    let how = CreateHow::Guarded(SetAttributes::default());
    let directory_created = volume.create_file(&request, Ino::ROOT, &name, &how, &mut nothing).unwrap();
    let file = directory_created.value.attributes.ino;
    let written = volume.write(&request, file, 0, b"stable", Stability::FileSync).unwrap();
    volume.write(&request, file, 100, &[1; 5000], Stability::Unstable).unwrap();
    volume.commit(&request, file, 0, 0).unwrap();
    volume.read(&request, file, 0, 5000).unwrap();
    let set = SetAttributes { size: Some(50), ..SetAttributes::default() };
    volume.set_attributes(&request, file, &set, None, &mut nothing).unwrap();
    assert_eq!(volume.attributes(&request, Ino::ROOT).unwrap().value.file_type, FileType::Directory);
    volume.read_directory(&request, Ino::ROOT, Cookie(0), 100, true).unwrap();
    let missing = volume.lookup(&request, Ino::ROOT, b"not read yet").unwrap_err();
    assert_eq!(missing.error, Error::NoEntry);
    let other = format!("renamed {turn}").into_bytes();
    volume.rename(&request, (Ino::ROOT, &name), (Ino::ROOT, &other), &mut nothing).unwrap();
    let removed = volume.remove(&request, Ino::ROOT, &other, &mut nothing).unwrap();
    volume.status(&request).unwrap();
    while volume.step_commit(now) == Progress::Worked {}
    assert!(volume.committer.durable() >= removed.after.seq.max(written.after.seq));
}

#[test]
fn operations_continue_while_a_checkpoint_frees_a_huge_file() {
    let (mut world, file) = world_with_a_file_in_pieces();
    let before = world.volume.committer.queued_bytes();
    world.remove(Ino::ROOT, "f").unwrap();
    let entry = world.volume.committer.queued_bytes() - before;
    assert!(entry < 1024, "removing a large file took {entry} bytes of the journal");
    world.commit();
    let (volume, turns) = (Arc::downgrade(&world.volume), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&turns);
    world.volume.hooks.set(move |point| {
        if point != Point::IndexChanged {
            return;
        }
        let volume = volume.upgrade().expect("the volume is open");
        let turn = counted.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::spawn(move || clients_work(&volume, turn));
        let begun = Instant::now();
        while !thread.is_finished() {
            if begun.elapsed() > PATIENCE {
                eprintln!("operations wait for a checkpoint");
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        thread.join().unwrap();
    });
    let mut left = PIECES;
    while left > 0 {
        let used = world.volume.committer.used_bytes();
        assert_eq!(world.checkpoint(), Progress::Worked);
        // A portion journals nothing, since the index transaction records what it frees; the clients' entries remain.
        assert!(world.volume.committer.used_bytes() < used + ENTRY_BYTES_MAX);
        left = pieces(&world, file);
    }
    assert!(turns.load(Ordering::Relaxed) >= 3, "the file was freed in too few portions");
    world.check();
}
