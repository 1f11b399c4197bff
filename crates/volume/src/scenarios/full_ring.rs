//! A journal whose ring fills up while no checkpoint can be made: what is accepted must fit, so that a checkpoint, or a
//! restart, empties it once there is room again.

use std::sync::Arc;

use super::index_replacement::{BLOCK, open_small, repairable};
use super::world::{OPTIONS, World};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::api::results::Stability;
use crate::api::time::Time;
use crate::encoding::entry::Entry;
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::volume::Volume;

const FILES: usize = 600;

/// Two days: an older time of access is replaced when a file is read.
const LONG: i64 = 2 * 24 * 3600 * 1_000_000_000;

/// Returns a closed volume with files.
fn build() -> (Arc<MemoryMedia>, Time) {
    let mut world = World::new();
    for n in 0..FILES {
        let file = world.file(&name(n));
        world.write(file, 0, b"data").unwrap();
        if n % 50 == 0 {
            world.background();
        }
    }
    let now = world.now();
    world.volume.close(now).unwrap();
    (world.disk.after_kill(), now)
}

fn name(n: usize) -> String {
    format!("{n:03} {}", "n".repeat(90))
}

/// Damages the index where only its replacement helps, for which there is no room.
fn without_room(built: &(Arc<MemoryMedia>, Time)) -> Arc<MemoryMedia> {
    let block = repairable(built)[0];
    let media = built.0.after_kill();
    media.index_file().damage(|bytes| bytes[block * BLOCK + 300] ^= 1);
    media.set_room_for_new_index(1 << 20);
    media
}

/// Returns the files that can be found.
fn found(world: &mut World) -> Vec<Ino> {
    (0..FILES).filter_map(|n| world.lookup(Ino::ROOT, &name(n)).ok()).collect()
}

/// Changes modes until the journal takes no more from callers.
fn fill(world: &mut World, file: Ino) {
    for number in 0.. {
        let set = SetAttributes { mode: Some(number % 0o1000), ..SetAttributes::default() };
        if let Err(error) = world.set(file, &set) {
            return assert_eq!(error, Error::Busy);
        }
        world.commit();
        world.checkpoint();
    }
}

#[test]
fn background_work_leaves_room_for_what_is_queued() {
    let mut world = open_small(&without_room(&build()), Time::from_parts(2_000, 0));
    let files = found(&mut world);
    fill(&mut world, files[0]);
    for _ in 0..3 {
        for file in &files {
            world.set_clock(Time::from_nanos(world.now.nanos() + LONG));
            let _ = world.read(*file);
            let _ = world.write_how(*file, 0, b"more", Stability::Unstable);
            world.write_back();
            world.checkpoint();
        }
    }
    assert_eq!(world.volume.committer.durable(), world.volume.committer.last_queued(), "entries do not fit");
    world.disk.set_room_for_new_index(usize::MAX);
    world.background();
    world.chmod(files[0], 0o600);
    world.commit();
    assert!(!world.volume.committer.is_busy());
    world.reopen();
    assert_eq!(world.attributes(files[0]).unwrap().mode, 0o600);
}

/// Fills the ring to its end with entries that change nothing.
fn fill_to_the_end(world: &World) {
    let committer = &world.volume.committer;
    committer.push(Entry::default().encode());
    while committer.step() {
        committer.push(Entry::default().encode());
    }
}

#[test]
fn a_full_ring_is_emptied_before_a_new_generation_begins() {
    let mut world = open_small(&without_room(&build()), Time::from_parts(2_000, 0));
    let file = found(&mut world)[0];
    world.chmod(file, 0o640);
    world.commit();
    fill_to_the_end(&world);
    let (media, now) = (world.disk.after_kill(), world.now());
    media.set_room_for_new_index(1 << 20);
    let refused = Volume::open(Arc::clone(&media) as Arc<dyn Media>, &OPTIONS, now);
    let why = refused.map(drop).expect_err("no generation can begin").to_string();
    assert!(why.contains("journal is full") && why.contains("no room"), "{why}");
    media.set_room_for_new_index(usize::MAX);
    let mut world = World::open(Arc::clone(&media), now);
    assert_eq!(world.attributes(file).unwrap().mode, 0o640);
    world.chmod(file, 0o600);
    world.commit();
    world.reopen();
    assert_eq!(world.attributes(file).unwrap().mode, 0o600);
}
