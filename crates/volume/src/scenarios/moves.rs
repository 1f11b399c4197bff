//! Renames of directories to another parent, for which all directories above the new place are looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::world::{World, nothing};
use crate::api::ids::Ino;
use crate::api::request::{Access, Credentials, Error, Request};
use crate::hooks::Point;
use crate::limits::DIRECTORY_DEPTH_MAX;

/// Makes directories, each in the one before; returns the last.
fn nest(world: &mut World, depth: usize) -> Ino {
    (0..depth).fold(Ino::ROOT, |parent, _| world.mkdir(parent, "d").unwrap())
}

/// Moves a directory of the root. Returns the result, and how often a directory above the new place was looked at.
fn move_to(world: &mut World, who: &Credentials, access: Access, to: Ino) -> (Result<(), Error>, usize) {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    world.volume.hooks.set(move |point| {
        if point == Point::AncestorSeen {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let request = Request { credentials: who, now: world.now(), access, key: None };
    let renamed = world.volume.rename(&request, (Ino::ROOT, b"moved"), (to, b"moved"), &mut nothing);
    (renamed.map(drop).map_err(|failure| failure.error), seen.load(Ordering::Relaxed))
}

#[test]
fn a_move_looks_at_each_directory_above_it_a_few_times() {
    let mut world = World::new();
    let deepest = nest(&mut world, 300);
    world.mkdir(Ino::ROOT, "moved").unwrap();
    world.checkpoint();
    world.reopen();
    let (moved, seen) = move_to(&mut world, &Credentials::root(), Access::Blocking, deepest);
    // Once to load it, once more after that, and once while no other directory can be moved.
    assert_eq!((moved, seen <= 3 * 300), (Ok(()), true), "{seen}");
    world.check();
}

#[test]
fn who_may_not_move_a_directory_looks_at_nothing() {
    let mut world = World::new();
    let deepest = nest(&mut world, 10);
    world.mkdir(Ino::ROOT, "moved").unwrap();
    let who = Credentials { uid: 1000, gid: 1000, groups: Vec::new() };
    let refused = move_to(&mut world, &who, Access::Blocking, deepest);
    assert_eq!(refused, (Err(Error::AccessDenied), 0));
}

#[test]
fn event_loops_leave_long_walks_and_waits_to_workers() {
    let mut world = World::new();
    let deepest = nest(&mut world, 300);
    world.mkdir(Ino::ROOT, "moved").unwrap();
    let (moved, seen) = move_to(&mut world, &Credentials::root(), Access::Cached, deepest);
    assert_eq!((moved, seen), (Err(Error::WouldBlock), 64));
    let child = world.lookup(Ino::ROOT, "d").unwrap();
    let volume = Arc::clone(&world.volume);
    let another = volume.own.directory_moves.lock();
    let (moved, _) = move_to(&mut world, &Credentials::root(), Access::Cached, child);
    assert_eq!(moved, Err(Error::WouldBlock), "another directory is being moved");
    drop(another);
    let (moved, _) = move_to(&mut world, &Credentials::root(), Access::Cached, child);
    assert_eq!(moved, Ok(()));
}

#[test]
fn directories_are_not_moved_below_the_deepest_allowed() {
    let mut world = World::roomy();
    let deepest = nest(&mut world, DIRECTORY_DEPTH_MAX - 1);
    let deeper = world.mkdir(deepest, "d").unwrap();
    world.mkdir(Ino::ROOT, "moved").unwrap();
    let mut result = |to| move_to(&mut world, &Credentials::root(), Access::Blocking, to).0;
    assert_eq!(result(deeper), Err(Error::NameTooLong));
    assert_eq!(result(deepest), Ok(()));
}
