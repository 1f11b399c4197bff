use super::*;
use crate::api::attributes::FileType;
use crate::api::ids::Ino;
use crate::encoding::key::FIRST;
use crate::encoding::record::tests::record_of;
use crate::file::coverage::{Coverage, Known};

/// Returns inode numbers that share a shard, each in a separate group.
fn numbers() -> impl Iterator<Item = ObjectId> {
    (1..).map(|number| FIRST.object(Ino(number * (SHARDS * GROUP) as u64)))
}

#[test]
fn only_inodes_that_can_be_reloaded_are_evicted() {
    let inodes = Inodes::new(0, 0, 0);
    let (durable, flush_generation) = (Seq(10), 3);
    let kept: Vec<ObjectId> = numbers().take(4).collect();
    let used = inodes.get(kept[3], durable, flush_generation);
    for (ino, keep) in kept.iter().zip([
        &mut |state: &mut InodeState| state.dirty.insert(0, vec![1].into(), 1),
        &mut |state: &mut InodeState| state.unsaved = true,
        &mut |state: &mut InodeState| state.seq = Seq(11),
        &mut |_: &mut InodeState| {},
    ] as [&mut dyn FnMut(&mut InodeState); 4])
    {
        let cell = inodes.get(*ino, durable, flush_generation);
        let mut state = cell.lock();
        state.presence = Presence::Present(record_of(FileType::Regular));
        keep(&mut state);
    }
    let waits = numbers().nth(4).unwrap();
    inodes.get(waits, durable, flush_generation).lock().flush_generation = 4;
    for ino in numbers().skip(5).take(1000) {
        inodes.get(ino, durable, flush_generation).lock().seq = Seq(9);
    }
    for ino in kept.iter().chain([&waits]) {
        assert!(inodes.peek(*ino).is_some(), "{ino} was evicted although in use or not durable");
    }
    assert!(inodes.len() <= 5 + 2, "the others were not evicted: {}", inodes.len());
    // Once durable, all can be evicted.
    drop(used);
    for ino in &kept {
        let cell = inodes.get(*ino, durable, flush_generation);
        let mut state = cell.lock();
        state.dirty.remove(0, u64::MAX);
        state.unsaved = false;
    }
    for ino in numbers().skip(2000).take(1000) {
        inodes.get(ino, Seq(11), 4);
    }
    assert!(kept.iter().all(|ino| inodes.peek(*ino).is_none()));
    assert!(inodes.len() <= 4 + 1, "{}", inodes.len());
}

#[test]
fn unstable_data_counts_in_size_and_used_bytes() {
    let mut state = InodeState::new(FIRST.object(Ino(5)));
    state.presence = Presence::Present(InodeRecord { size: 10, used: 10, ..record_of(FileType::Regular) });
    assert_eq!((state.attributes().size, state.attributes().used), (10, 10));
    state.dirty.insert(90, vec![1; 10].into(), 1);
    state.unstable_size = Some(100);
    assert_eq!((state.size(), state.attributes().size, state.attributes().used), (100, 100, 20));
    // `used` does not exceed the size when unstable data covers stable data.
    state.dirty.insert(0, vec![1; 90].into(), 2);
    assert_eq!(state.attributes().used, 100);
}

/// Returns a map window of this many mappings.
fn window(mappings: usize) -> MapWindow {
    let mapping = IndexMapping { start: 0, end: 1, birth: 0, extent: ExtentId(1), offset: 0 };
    MapWindow { version: 1, from: 0, to: 1, mappings: Arc::new(vec![mapping; mappings]) }
}

#[test]
fn windows_are_counted_and_the_oldest_are_evicted() {
    let (one, eight) = (window(1).bytes(), window(8).bytes());
    let inodes =
        Inodes::new(100 * (CELL_BYTES + GROUP_BYTES) * SHARDS as u64, (eight + 3 * one) * SHARDS as u64, 0);
    let has_one = |ino: ObjectId| inodes.peek(ino).is_some_and(|cell| cell.lock().window().is_some());
    let keep = |ino: ObjectId, mappings| {
        let cell = inodes.get(ino, Seq(0), 0);
        inodes.keep_window(&mut cell.lock(), window(mappings));
    };
    let inos: Vec<ObjectId> = numbers().take(6).collect();
    inos[..4].iter().for_each(|ino| keep(*ino, 1));
    assert_eq!(inodes.window_bytes(), 4 * one);
    keep(inos[1], 8);
    assert!(inos[..4].iter().all(|ino| has_one(*ino)));
    assert_eq!(inodes.window_bytes(), eight + 3 * one);
    // A window in use is kept.
    let used = inodes.peek(inos[0]).unwrap();
    let guard = used.lock();
    keep(inos[4], 1);
    drop(guard);
    assert!(has_one(inos[0]) && !has_one(inos[1]) && has_one(inos[4]));
    assert_eq!(inodes.window_bytes(), 4 * one);
    // Evicting an inode drops its window. The queue of windows stays bounded.
    drop(used);
    for ino in numbers().skip(6).take(1000) {
        inodes.get(ino, Seq(0), 0);
    }
    assert!(!has_one(inos[0]));
    assert_eq!(inodes.window_bytes(), 0);
    for ino in numbers().take(100_000) {
        keep(ino, 1);
    }
    let shard = inodes.shard(inos[0]).lock();
    assert!(shard.windows.len() <= 101 && shard.window_bytes <= eight + 3 * one);
}

#[test]
fn notes_are_counted_and_give_way_to_others() {
    let max = 10_000;
    let inodes = Inodes::new(1 << 20, 0, max * SHARDS as u64);
    let note = |ino: ObjectId, parts: u64| {
        let cell = inodes.get(ino, Seq(0), 0);
        let mut state = cell.lock();
        let coverage = &mut state.notes.get_or_insert_default().coverage;
        (0..parts).for_each(|part| coverage.note(part, part + 1, 1));
        inodes.count_notes(&mut state);
    };
    let known = |ino: ObjectId| {
        let cell = inodes.peek(ino).unwrap();
        let state = cell.lock();
        state.notes.as_ref().is_some_and(|notes| matches!(notes.coverage.known(0, 500), Known::Part { .. }))
    };
    let inos: Vec<ObjectId> = numbers().take(100).collect();
    note(inos[0], 100);
    let one = inodes.note_bytes();
    assert!(one >= 4800, "{one}");
    note(inos[1], 100);
    assert_eq!(inodes.note_bytes(), 2 * one);
    // What was counted is kept, in fewer parts.
    note(inos[2], 100);
    assert!(inodes.note_bytes() <= max && inos[..3].iter().all(|ino| known(*ino)));
    for ino in &inos[3..] {
        note(*ino, 60);
        assert!(inodes.note_bytes() <= max);
        assert!(known(*ino), "the newest is kept");
    }
    assert!(!known(inos[0]));
    // An inode that is evicted, or whose notes are empty, counts no more.
    let cell = inodes.peek(inos[99]).unwrap();
    let before = inodes.note_bytes();
    let mut state = cell.lock();
    state.notes.get_or_insert_default().coverage = Coverage::default();
    inodes.count_notes(&mut state);
    assert!(state.notes.is_none() && inodes.note_bytes() < before);
    drop(state);
    for ino in numbers().skip(100).take(10_000) {
        inodes.get(ino, Seq(0), 0);
    }
    assert_eq!(inodes.note_bytes(), 0);
    assert!(inodes.shard(inos[0]).lock().noted.len() <= 100);
}

#[test]
fn groups_exist_only_while_they_hold_inodes() {
    let inodes = Inodes::new(1 << 20, 0, 0);
    let max = usize::try_from((1 << 20) / INODE_BYTES).unwrap();
    for ino in 1..100_000 {
        let cell = inodes.get(FIRST.object(Ino(ino)), Seq(0), 0);
        assert_eq!(cell.lock().id, FIRST.object(Ino(ino)));
        assert!(Arc::ptr_eq(&cell, &inodes.peek(FIRST.object(Ino(ino))).unwrap()));
    }
    let kept = (1..100_000).filter(|ino| inodes.peek(FIRST.object(Ino(*ino))).is_some()).count();
    assert_eq!(kept, inodes.len());
    assert!(kept > max && kept < max * 5 / 4, "{kept} inodes with a limit of {max}");
    let groups: usize = inodes.shards.iter().map(|shard| shard.lock().cells.groups.len()).sum();
    assert!(groups <= kept / GROUP + 2 * SHARDS, "{groups}");
    for ino in numbers().take(100_000) {
        inodes.get(ino, Seq(0), 0);
    }
    let shard = inodes.shard(numbers().next().unwrap()).lock();
    assert!(shard.cells.bytes() <= inodes.bytes_max + CELL_BYTES + GROUP_BYTES);
    assert_eq!(shard.cells.groups.len(), shard.cells.len);
}
