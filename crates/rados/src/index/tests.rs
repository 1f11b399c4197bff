//! Indexes over objects in memory: against a plain file, with crashes at every change, and two owners.

use fastrand::Rng;

use super::*;
use crate::fence::Fence;
use crate::memory::{MemoryObjects, seed, windows};
use crate::objects::Objects;

const NAMES: PoolNames = PoolNames { id: 7 };

/// Returns the objects as an owner of `epoch` uses them. Losing them is not the end of the test.
fn owned(objects: &Arc<MemoryObjects>, epoch: u64) -> Owned {
    let objects: Arc<dyn Objects> = Arc::<MemoryObjects>::clone(objects);
    Owned::new(objects, Fence::new(epoch, Arc::new(|_| ())), windows(16 << 20))
}

fn room() -> Arc<Room> {
    let room = Room::new("test");
    room.set(1 << 50, 1 << 50);
    room
}

/// Takes the index over in `epoch`.
fn open(objects: &Arc<MemoryObjects>, epoch: u64) -> CurrentIndex {
    let owned = owned(objects, epoch);
    seal(&owned, NAMES).unwrap();
    CurrentIndex::open(owned, NAMES, room()).unwrap()
}

fn create() -> Arc<MemoryObjects> {
    let objects = MemoryObjects::new();
    CurrentIndex::create_first(&owned(&objects, 1), NAMES, &room()).unwrap();
    objects
}

fn contents(file: &PagedFile) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// How many objects the index has: the head, those with blocks, and those that are allocated.
fn expected(file: &PagedFile) -> usize {
    let state = file.state();
    let allocated = file.writer().allocated.saturating_sub(state.map.next);
    1 + state.map.objects.len() + usize::try_from(allocated).unwrap()
}

/// Changes a file and its model in the same way.
fn change(rng: &mut Rng, file: &PagedFile, model: &mut Vec<u8>) -> io::Result<()> {
    if rng.u8(0..8) == 0 {
        let length = rng.usize(0..3 << 20);
        file.set_len(length as u64)?;
        model.resize(length, 0);
        return Ok(());
    }
    if model.is_empty() {
        return Ok(());
    }
    let from = rng.usize(0..model.len());
    let length_max = if rng.bool() { 3 * BLOCK } else { 300 * BLOCK };
    let bytes = vec![rng.u8(..); rng.usize(0..=length_max.min(model.len() - from))];
    file.write_at(from as u64, &bytes)?;
    model[from..from + bytes.len()].copy_from_slice(&bytes);
    Ok(())
}

#[test]
fn random_changes_are_what_a_plain_file_has_and_survive_a_reopening_once_synced() {
    let mut rng = Rng::with_seed(seed());
    let objects = create();
    let mut model = Vec::new();
    for epoch in 2..8 {
        let index = open(&objects, epoch);
        let file = index.current();
        assert!(contents(&file) == model, "epoch {epoch}");
        for _ in 0..40 {
            change(&mut rng, &file, &mut model).unwrap();
            if rng.u8(0..4) == 0 {
                file.sync().unwrap();
            }
            assert_eq!(file.len().unwrap(), model.len() as u64);
        }
        assert!(contents(&file) == model, "epoch {epoch}");
        file.sync().unwrap();
        let live: u64 = file.state().map.objects.values().map(|packed| u64::from(packed.live)).sum();
        let stored: u64 = file.state().map.objects.values().map(|packed| u64::from(packed.blocks)).sum();
        assert!(stored <= 3 * live + 3 * 1024, "{stored} blocks are stored for {live} live ones");
        let names = objects.names("0000000000000007/index/0/").len();
        assert_eq!(names, expected(&file), "objects without references");
    }
}

#[test]
fn a_crash_at_any_change_leaves_what_a_sync_made_durable() {
    let seed = seed();
    for left in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let objects = create();
        let file = open(&objects, 2).current();
        let (mut model, mut durable, mut candidate) = (Vec::new(), Vec::new(), None);
        objects.set_changes_left(Some(left));
        for _ in 0..60 {
            if change(&mut rng, &file, &mut model).is_err() {
                break;
            }
            if rng.u8(0..6) == 0 {
                if file.sync().is_err() {
                    candidate = Some(model);
                    break;
                }
                durable.clone_from(&model);
            }
        }
        objects.set_changes_left(None);
        let file = open(&objects, 3).current();
        let found = contents(&file);
        let is_candidate = candidate.is_some_and(|candidate| found == candidate);
        assert!(found == durable || is_candidate, "after {left} changes");
        file.sync().unwrap();
        let names = objects.names("0000000000000007/index/0/").len();
        assert_eq!(names, expected(&file), "after {left} changes, objects are left over");
    }
}

#[test]
fn an_earlier_owner_changes_nothing_after_the_seal() {
    let objects = create();
    let (old, new) = (open(&objects, 2), open(&objects, 3));
    let file = old.current();
    file.set_len(8192).unwrap();
    let error = file.write_at(0, &[1; 8192]).and_then(|()| file.sync()).unwrap_err();
    assert!(crate::fence::is_fenced(&error), "{error}");
    assert!(old.create().is_err() && file.owned.fence().is_lost());
    assert_eq!(new.current().len().unwrap(), 0);
    new.current().set_len(4096).unwrap();
    new.current().write_at(0, &[2; 4096]).unwrap();
    new.current().sync().unwrap();
    assert_eq!(contents(&open(&objects, 4).current()), [2; 4096]);
}

#[test]
fn a_write_that_finds_no_space_leaves_the_last_sync() {
    let objects = create();
    let file = open(&objects, 2).current();
    file.set_len(64 << 20).unwrap();
    file.write_at(0, &[1; 4096]).unwrap();
    file.sync().unwrap();
    objects.set_full(true);
    let error = file.write_at(0, &vec![2; 64 << 20]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let mut block = [0; 4096];
    file.read_at(0, &mut block).unwrap();
    assert_eq!(block, [1; 4096]);
    assert_eq!(file.write_at(0, &[2; 4096]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    objects.set_full(false);
    file.write_at(4096, &[3; 4096]).unwrap();
    file.sync().unwrap();
    let file = open(&objects, 3).current();
    let mut blocks = [0; 8192];
    file.read_at(0, &mut blocks).unwrap();
    assert!(blocks[..4096] == [1; 4096] && blocks[4096..] == [3; 4096]);
}

#[test]
fn what_was_reserved_is_written_to_a_full_pool() {
    let objects = create();
    let file = open(&objects, 2).current();
    file.reserve(12 << 20).unwrap();
    objects.set_full(true);
    file.room.set(1 << 50, 0);
    file.set_len(12 << 20).unwrap();
    for round in 0..3_u8 {
        file.write_at(u64::from(round) << 22, &vec![round + 1; 4 << 20]).unwrap();
        file.sync().unwrap();
    }
    assert_eq!(file.reserve(1 << 40).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.set_len(1 << 40).unwrap_err().kind(), io::ErrorKind::StorageFull);
    let found = contents(&open(&objects, 3).current());
    assert!((0..3).all(|round| {
        found[round << 22..(round + 1) << 22].iter().all(|byte| usize::from(*byte) == round + 1)
    }));
}

#[test]
fn a_new_owner_writes_the_index_when_users_have_taken_all_that_they_may() {
    let objects = create();
    let file = open(&objects, 2).current();
    file.set_len(4096).unwrap();
    file.write_at(0, &[1; 4096]).unwrap();
    file.sync().unwrap();
    let file = open(&objects, 3).current();
    file.room.set(1 << 40, 1 << 30);
    assert_eq!(file.room.space().available, 0);
    file.write_at(0, &[2; 4096]).unwrap();
    file.sync().unwrap();
    assert_eq!(file.reserve(64 << 20).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(contents(&open(&objects, 4).current()), [2; 4096]);
}

#[test]
fn a_long_head_begins_anew() {
    let objects = create();
    let file = open(&objects, 2).current();
    file.set_len(64 << 20).unwrap();
    let mut longest = 0;
    for round in 0..12_u8 {
        file.write_at(0, &vec![round; 64 << 20]).unwrap();
        file.sync().unwrap();
        longest = longest.max(file.writer().head_bytes.0);
    }
    let written = 12 * 16384 * 16;
    assert!(longest < written / 2, "the head had {longest} bytes");
    assert!(contents(&open(&objects, 3).current()) == vec![11; 64 << 20]);
}

#[test]
fn an_index_is_replaced_as_a_whole_and_old_ones_are_kept_up_to_a_limit() {
    let objects = create();
    let index = open(&objects, 2);
    for mark in 1..=5_u8 {
        let created = index.create().unwrap();
        created.set_len(4096).unwrap();
        created.write_at(0, &[mark; 4096]).unwrap();
        created.sync().unwrap();
        assert!(index.replace().unwrap().is_some());
        assert_eq!(contents(&index.current()), [mark; 4096]);
    }
    assert!(index.replace().is_err(), "nothing was created");
    let heads = objects.names("0000000000000007/index/").iter().filter(|name| name.ends_with("head")).count();
    assert_eq!(heads, 4, "the index and three replaced ones");
    assert_eq!(index.free_damaged(1 << 30).unwrap(), 0);
    assert!(index.free_damaged(4097).unwrap() >= 8192);
    // An index that was created, but did not become the index, is removed.
    index.create().unwrap().set_len(4096).unwrap();
    let index = open(&objects, 3);
    assert_eq!(contents(&index.current()), [5; 4096]);
    assert!(index.replace().is_err());
    let heads = objects.names("0000000000000007/index/").iter().filter(|name| name.ends_with("head")).count();
    assert_eq!(heads, 2);
}
