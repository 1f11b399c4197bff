//! Files with very many mappings, and ranges far longer than what is in them: each call does a bounded amount of work.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::reaping::{APART, PIECES, world_with_a_file_in_pieces};
use super::world::{World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::{Access, Error, Request};
use crate::api::results::{Sought, SoughtContent};
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::file::extent_map::steps;
use crate::hooks::Point;
use crate::limits::READ_RUNS_MAX;

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
fn a_range_of_small_pieces_is_searched_once_for_each_piece_and_gap() {
    const FEW: u64 = 2_048;
    let mut world = World::roomy();
    let file = world.file("pieces");
    // One in the index, one in the memtable, a gap.
    for phase in [0, 1] {
        for number in 0..FEW {
            world.write(file, 3 * number + phase, &[1 + u8::try_from(phase).unwrap()]).unwrap();
        }
        if phase == 0 {
            world.checkpoint();
        }
    }
    let bytes = usize::try_from(3 * FEW).unwrap() - 1;
    let expected = [1, 2, 0].repeat(bytes.div_ceil(3));
    // What is needed of the index is in memory after the first time.
    assert_eq!(world.read(file).unwrap(), expected[..bytes]);
    steps::taken();
    let part = world.read_at(file, 0, 8192).unwrap();
    let searched = steps::taken();
    assert_eq!(part, expected[..part.len()]);
    assert!(part.len() >= READ_RUNS_MAX, "{} bytes", part.len());
    // Windows of the map may have to be read again, which repeats the search up to there.
    let runs_and_gaps = part.len();
    println!("{searched} steps for {runs_and_gaps} runs and gaps");
    assert!(searched <= 40 * runs_and_gaps, "{searched} steps for {runs_and_gaps} runs and gaps");
    // What write-back replaces is counted in the same way, as often as windows must be read.
    world.write_unstable(file, 0, &vec![3; bytes]);
    steps::taken();
    world.write_back();
    let counted = steps::taken();
    println!("{counted} steps of write-back over {bytes} runs and gaps");
    assert_eq!(world.volume.write_back.dirty_bytes(), 0);
    assert!((bytes..=40 * bytes).contains(&counted), "{counted} steps over {bytes} runs and gaps");
    assert_eq!(world.read(file).unwrap(), vec![3; bytes]);
    world.check();
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
fn a_count_of_very_short_mappings_shares_the_file_and_gives_its_turn_up() {
    const SHORT: u64 = 12_000;
    let mut world = World::roomy();
    let file = world.file("short");
    // Because of the hole its mapped bytes must be counted, though the range is short.
    world.write(file, 1 << 20, b"x").unwrap();
    for number in 0..SHORT {
        world.write(file, number * 24, &[1; 24]).unwrap();
    }
    let held = Arc::new(AtomicU64::new(0));
    let steps = Arc::new(AtomicU64::new(0));
    let (now_held, all) = (Arc::clone(&held), Arc::clone(&steps));
    world.volume.hooks.set(move |point| match point {
        Point::MappingsCounted => {
            assert_eq!(now_held.fetch_add(1, Ordering::Relaxed), 0, "the file stays locked");
            all.fetch_add(1, Ordering::Relaxed);
        }
        Point::LocksReleased => now_held.store(0, Ordering::Relaxed),
        _ => {}
    });
    let set = SetAttributes { size: Some(1), ..SetAttributes::default() };
    let (who, now) = (world.who.clone(), world.now());
    let request = Request { credentials: &who, now, access: Access::Cached, key: None };
    for call in 1..=2 {
        let cached = world.volume.set_attributes(&request, file, &set, None, &mut nothing);
        assert_eq!(cached.unwrap_err().error, Error::WouldBlock);
        assert_eq!(steps.load(Ordering::Relaxed), 4 * call, "of an event loop");
        held.store(0, Ordering::Relaxed);
    }
    let changed = world.run(|v, r| v.set_attributes(r, file, &set, None, &mut nothing)).unwrap();
    assert_eq!((changed.after.size, changed.after.used), (1, 1));
    let steps = steps.load(Ordering::Relaxed);
    assert!(steps <= SHORT / 1024 + 3, "{steps} steps");
    world.check();
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

#[test]
fn overwritten_mappings_need_not_be_passed_over() {
    let mut world = World::roomy();
    let file = world.file("overwritten");
    for number in 0..MAPPINGS {
        world.write(file, 2 * number, b"x").unwrap();
    }
    let expected = vec![7; usize::try_from(2 * MAPPINGS).unwrap()];
    world.write_unstable(file, 0, &expected);
    world.write_back();
    let mut records = 0;
    let (from, to) = (key::map(FIRST.object(file), 0), key::map(FIRST.object(file), u64::MAX));
    world.volume.view().active.scan(&from, &to, &mut |_, _| {
        records += 1;
        ControlFlow::Continue(())
    });
    assert!(records < 8, "{records} records of mappings");
    assert_eq!(world.read(file).unwrap(), expected);
    let mut world = World::open(world.disk.after_kill(), world.now());
    assert_eq!(world.read(file).unwrap(), expected);
    world.checkpoint();
    world.check();
    assert_eq!(world.read(file).unwrap(), expected);
}

#[test]
fn a_mapping_that_comes_and_goes_leaves_the_older_one_with_the_same_end() {
    let mut world = World::roomy();
    let file = world.file("layers");
    world.write(file, 0, &[1; 1000]).unwrap();
    world.checkpoint();
    // Ends where that in the index does, and is then replaced by one that ends behind it.
    world.write(file, 500, &[2; 500]).unwrap();
    world.write(file, 400, &[3; 800]).unwrap();
    let expected = [[1; 400].as_slice(), &[3; 800]].concat();
    for _ in 0..2 {
        assert_eq!(world.read(file).unwrap(), expected);
        world.checkpoint();
        world.check();
    }
}
