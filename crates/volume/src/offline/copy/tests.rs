//! A copy is either complete and equal to its source, or refused; the source never changes.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Source, Stage};
use crate::api::ids::{Ino, SegmentId};
use crate::api::results::Stability;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::tests::world::{World, assert_clean};
use crate::open::OpenError;

/// The file `recent`.
const RECENT: Ino = Ino(11);

/// Makes a pool with data in segments, in the index, and only in the journal.
fn filled() -> World {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "directory").unwrap();
    for number in 0..8_u8 {
        let file = world.create(directory, &format!("file-{number}")).unwrap();
        world.write(file, 0, &vec![number; 300_000], Stability::Unstable).unwrap();
        world.write_back();
    }
    world.checkpoint();
    world.checkpoint();
    assert_eq!(world.create(Ino::ROOT, "recent"), Ok(RECENT));
    world.write(RECENT, 0, &[9; 5000], Stability::FileSync).unwrap();
    let large = world.create(Ino::ROOT, "large").unwrap();
    world.write(large, 0, &[8; 400_000], Stability::Unstable).unwrap();
    world.write_back();
    world
}

fn source(media: &Arc<MemoryMedia>) -> Result<Source, OpenError> {
    Source::open(Arc::clone(media) as Arc<dyn Media>)
}

fn copy(from: &Arc<MemoryMedia>, to: &MemoryMedia) -> Result<(), OpenError> {
    source(from)?.copy_to(to, &mut |_, _| ControlFlow::Continue(()))
}

/// Returns the bytes of a pool without segments that no record names.
fn named(media: &Arc<MemoryMedia>) -> impl PartialEq + use<> {
    let (log, index, mut blobs) = media.bytes();
    let known = source(media).unwrap().segments;
    blobs.retain(|id, _| known.iter().any(|(known, _)| known == id));
    (log, index, blobs)
}

#[test]
fn copies_of_closed_and_of_killed_pools_are_equal_and_survive_a_power_loss() {
    for is_closed in [true, false] {
        let from = if is_closed { filled().close() } else { filled().kill() };
        let before = from.bytes();
        let to = MemoryMedia::new();
        copy(&from, &to).unwrap();
        assert!(from.bytes() == before, "the source is only read");
        let mut random = Random::new(7);
        for _ in 0..5 {
            let left = to.after_power_loss(&mut random);
            assert!(named(&left) == named(&from), "everything is durable");
        }
        let report = assert_clean(&to);
        assert_eq!(report.summary.journal_entries > 0, !is_closed);
        let mut world = World::open(Arc::clone(&to));
        assert!(world.read(RECENT).unwrap() == [9; 5000], "inodes keep their numbers");
        let changed = world.create(Ino::ROOT, "after").unwrap();
        world.write(changed, 0, &[1; 200_000], Stability::FileSync).unwrap();
        assert_clean(&world.close());
    }
}

#[test]
fn a_source_says_what_it_holds() {
    let source = source(&filled().kill()).unwrap();
    assert_eq!(source.volumes(), ["main"]);
    assert_eq!(source.summary().files, 10);
    let bytes = source.bytes();
    assert!(bytes.index > 0 && bytes.journal == 1 << 20 && bytes.segments >= source.segments() as u64);
    assert_eq!(bytes.total(), bytes.index + bytes.journal + bytes.segments);
}

#[test]
fn segments_that_no_record_names_are_left_out() {
    let from = filled().kill();
    let stray = SegmentId(1 << 40);
    drop(from.create_blob(stray, 1 << 20).unwrap());
    let to = MemoryMedia::new();
    copy(&from, &to).unwrap();
    assert!(from.list_blobs().unwrap().contains(&stray) && !to.list_blobs().unwrap().contains(&stray));
}

#[test]
fn every_fault_of_the_target_is_an_error_and_leaves_the_source_as_it_is() {
    let from = filled().kill();
    let before = from.bytes();
    for steps in 0.. {
        let to = MemoryMedia::new();
        to.index_file().fail_from(Some(steps));
        let Err(error) = copy(&from, &to) else { break };
        assert!(error.0.starts_with("the index cannot be copied: "), "{error}");
    }
    for steps in 0.. {
        let to = MemoryMedia::new();
        to.log.fail_from(Some(steps));
        let Err(error) = copy(&from, &to) else { break };
        assert!(error.0.starts_with("the journal cannot be copied: "), "{error}");
    }
    for segments in 0.. {
        let to = MemoryMedia::new();
        to.set_room_for_segments(segments);
        let Err(error) = copy(&from, &to) else { break };
        assert!(error.0.starts_with("segment ") && error.0.contains(" cannot be copied: "), "{error}");
    }
    let to = MemoryMedia::new();
    to.refuse_appends(true);
    assert!(copy(&from, &to).unwrap_err().0.contains("the device is gone"));
    let to = MemoryMedia::new();
    to.set_available(1 << 20);
    let error = copy(&from, &to).unwrap_err();
    assert!(error.0.contains("the target has 1 MiB left") && to.segments() == 0, "{error}");
    let error = copy(&from, &MemoryMedia::with_log(2 << 20)).unwrap_err();
    assert!(error.0.contains("cannot be copied to one of 2097152"), "{error}");
    assert!(from.bytes() == before);
}

#[test]
fn an_observer_can_end_a_copy_at_every_piece() {
    let from = filled().kill();
    let before = from.bytes();
    let source = source(&from).unwrap();
    let told = RefCell::new(Vec::new());
    let mut tell = |stage, done| {
        told.borrow_mut().push((stage, done));
        ControlFlow::Continue(())
    };
    source.copy_to(&*MemoryMedia::new(), &mut tell).unwrap();
    let told = told.into_inner();
    let pieces = told.len() / 2;
    assert!(pieces >= 4 && told[pieces] == (Stage::Compare, 0));
    assert!(told.iter().all(|(_, done)| *done < source.bytes().total()));
    for end in 0..told.len() {
        let mut seen = 0;
        let mut tell = |_, _| {
            seen += 1;
            if seen > end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let error = source.copy_to(&*MemoryMedia::new(), &mut tell).unwrap_err();
        assert_eq!((error.0.as_str(), seen), ("it was interrupted", end + 1));
    }
    assert!(from.bytes() == before);
}

#[test]
fn what_media_change_after_it_was_written_is_noticed() {
    let from = filled().kill();
    let source = source(&from).unwrap();
    let segment = source.segments[0].0;
    let damages: [(&str, fn(&MemoryMedia, SegmentId)); 3] = [
        ("segment ", |to, segment| to.blob(segment).flip(200_000, 4)),
        ("the index ", |to, _| to.index_file().flip(5000, 1)),
        ("the journal ", |to, _| to.log.flip((1 << 20) - 1, 1)),
    ];
    for (what, damage) in damages {
        let to = MemoryMedia::new();
        let mut is_first = true;
        let mut tell = |stage, _| {
            if stage == Stage::Compare && std::mem::take(&mut is_first) {
                damage(&to, segment);
            }
            ControlFlow::Continue(())
        };
        let error = source.copy_to(&*to, &mut tell).unwrap_err();
        assert!(
            error.0.starts_with(what) && error.0.contains("cannot be verified: at byte "),
            "{what}: {error}"
        );
    }
}

#[test]
fn a_damaged_source_is_refused_with_what_is_damaged() {
    let from = filled().kill();
    let segment = source(&from).unwrap().segments[0].0;
    from.blob(segment).flip(100_000, 1);
    let error = source(&from).unwrap_err();
    assert!(error.0.contains("it has faults: /directory/file-"), "{error}");
    let from = filled().kill();
    from.delete_blob(segment).unwrap();
    let error = source(&from).unwrap_err();
    assert!(error.0.contains("/directory/file-0: ") && error.0.contains("whose file is missing"), "{error}");
    let from = filled().kill();
    from.log.flip(0, 1);
    assert!(source(&from).unwrap_err().0.contains("journal"));
}
