//! Files with very many mappings, and ranges far longer than what is in them: each call does a bounded amount of work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::reaping::{APART, PIECES, world_with_a_file_in_pieces};
use super::world::{World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::api::results::{Sought, SoughtContent};
use crate::hooks::Point;

/// Mappings of a long file, each of one byte.
const MAPPINGS: u64 = 3_000;

/// Distance between two of them.
const STRIDE: u64 = 4096;

/// Makes a file whose mappings are all in a memtable.
fn long_file(world: &mut World) -> Ino {
    let file = world.file("long");
    for number in 0..MAPPINGS {
        world.write(file, number * STRIDE, b"x").unwrap();
    }
    file
}

#[test]
fn a_truncation_goes_on_counting_while_others_write() {
    let (mut world, file) = world_with_a_file_in_pieces();
    let steps = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&steps);
    world.volume.hooks.set(move |point| {
        if point == Point::MappingsCounted {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let size = 2 * APART + 1;
    let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
    let mut calls = 1;
    while let Err(error) = world.run(|v, r| v.set_attributes(r, file, &set, None, &mut nothing)) {
        assert_eq!(error, Error::WouldBlock);
        assert!(calls < 5, "it does not end");
        // One within what was counted, one across the beginning of the range.
        world.write(file, 2000 * APART, b"yy").unwrap();
        world.write(file, size - 1, b"yy").unwrap();
        calls += 1;
    }
    let steps = steps.load(Ordering::Relaxed);
    assert!(calls > 1 && steps <= PIECES / 1024 + 6, "{calls} calls, {steps} steps");
    let attributes = world.attributes(file).unwrap();
    assert_eq!((attributes.size, attributes.used), (size, 3));
}

#[test]
fn a_hole_in_a_sparse_file_is_punched_at_once_however_long_it_is() {
    let mut world = World::roomy();
    let file = world.file("sparse");
    for number in 0..30 {
        world.write(file, number << 40, b"x").unwrap();
    }
    let mut checkpointed = false;
    loop {
        let length = (20 << 40) - 1;
        let punched = world.run(|v, r| v.deallocate(r, file, 1, length)).unwrap();
        assert_eq!(punched.count, length, "in one entry");
        assert_eq!(punched.file.after.used, 11);
        world.check();
        if std::mem::replace(&mut checkpointed, true) {
            break;
        }
        for number in 1..20 {
            world.write(file, number << 40, b"x").unwrap();
        }
        world.checkpoint();
    }
}

#[test]
fn a_hole_over_many_mappings_takes_several_calls() {
    let mut world = World::roomy();
    let file = long_file(&mut world);
    let (mut done, mut calls, length) = (0, 0, (MAPPINGS - 1) * STRIDE);
    while done < length {
        let punched = world.run(|v, r| v.deallocate(r, file, done, length - done)).unwrap();
        assert!(punched.count > 0);
        done += punched.count;
        calls += 1;
    }
    assert!((MAPPINGS / 1024..=MAPPINGS / 1024 + 1).contains(&calls), "{calls}");
    assert_eq!(world.attributes(file).unwrap().used, 1);
    world.check();
}

#[test]
fn a_search_counts_mappings_that_a_truncation_hides() {
    let mut world = World::roomy();
    let file = long_file(&mut world);
    world.truncate(file, 0).unwrap();
    world.write(file, MAPPINGS * STRIDE, b"x").unwrap();
    let found = world.run(|v, r| v.seek(r, file, 0, SoughtContent::Data)).unwrap();
    assert!(matches!(found, Sought::NotBefore(_)), "{found:?}");
}
