use std::collections::BTreeMap;

use super::*;
use crate::media::memory::{MemoryFile, Random};

pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) const CACHE: usize = 1 << 20;

pub(super) fn create() -> (Arc<MemoryFile>, Index) {
    let file = MemoryFile::holding(Vec::new());
    let index = Index::create(Arc::clone(&file) as Arc<dyn RandomFile>, CACHE).unwrap();
    (file, index)
}

pub(super) fn open(file: &Arc<MemoryFile>) -> Result<Index, IndexError> {
    Index::open(Arc::clone(file) as Arc<dyn RandomFile>, CACHE)
}

pub(super) fn contents(index: &Index) -> Result<Model, IndexError> {
    let mut all = Model::new();
    index.snapshot()?.scan(&[], &[0xff; 9], &mut |key, value| {
        all.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

pub(super) fn random_key(random: &mut Random) -> Vec<u8> {
    random.below(400).to_be_bytes().to_vec()
}

/// Changes random records in the index and the model.
pub(super) fn change(
    random: &mut Random,
    update: &Update<'_>,
    model: &mut Model,
    max: u64,
) -> Result<(), IndexError> {
    let mut records = update.records()?;
    for _ in 0..random.below(max) {
        let key = random_key(random);
        if random.below(3) == 0 {
            records.delete(&key)?;
            model.remove(&key);
        } else {
            // Some values are larger than a page.
            let bytes = if random.below(40) == 0 { 10_000 } else { 80 };
            let value =
                vec![u8::try_from(random.below(256)).unwrap(); usize::try_from(random.below(bytes)).unwrap()];
            records.put(&key, &value)?;
            model.insert(key, value);
        }
    }
    Ok(())
}

/// Returns an index of several levels, some of whose values take several blocks, and what it holds.
pub(super) fn tree(random: &mut Random) -> (Arc<MemoryFile>, Index, Model) {
    let (file, index) = create();
    let mut model = Model::new();
    for _ in 0..6 {
        let update = index.begin().unwrap();
        change(random, &update, &mut model, 60).unwrap();
        let mut records = update.records().unwrap();
        for _ in 0..60 {
            // Long keys make branches narrow, so that there are several levels.
            let key = [vec![7; 500], random.below(300).to_be_bytes().to_vec()].concat();
            let length = random.index(600);
            let value = random.bytes(length);
            records.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        drop(records);
        update.commit().unwrap();
    }
    (file, index, model)
}

pub(super) fn key(random: &mut Random, model: &Model) -> Vec<u8> {
    match random.below(3) {
        0 => random.below(400).to_be_bytes().to_vec(),
        _ => model.keys().nth(random.index(model.len())).unwrap().clone(),
    }
}

pub(super) fn in_range(model: &Model, from: &[u8], to: &[u8]) -> Model {
    let inside = model.iter().filter(|(key, _)| from <= key.as_slice() && key.as_slice() < to);
    inside.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[test]
fn random_records_agree_with_an_ordered_map() {
    for seed in 0..8 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (file, mut index) = create();
        let mut model = Model::new();
        for _ in 0..30 {
            let old = index.snapshot().unwrap();
            let mut changed = model.clone();
            let update = index.begin().unwrap();
            change(random, &update, &mut changed, 60).unwrap();
            let key = random_key(random);
            assert_eq!(update.records().unwrap().get(&key).unwrap(), changed.get(&key).cloned());
            match random.below(4) {
                0 => update.abort().unwrap(),
                1 => drop(update),
                _ => {
                    update.commit().unwrap();
                    assert_eq!(old.get(&key).unwrap(), model.get(&key).cloned(), "snapshots do not change");
                    model = changed;
                }
            }
            drop(old);
            match random.below(6) {
                0 => index.reopen().unwrap(),
                1 => {
                    drop(index);
                    index = open(&file).unwrap();
                }
                _ => {}
            }
            assert_eq!(contents(&index).unwrap(), model);
            check_lookups(random, &index, &model);
        }
    }
}

fn check_lookups(random: &mut Random, index: &Index, model: &Model) {
    let snapshot = index.snapshot().unwrap();
    let (from, to) = (random_key(random), random_key(random));
    assert_eq!(snapshot.get(&from).unwrap(), model.get(&from).cloned());
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    let max = usize::try_from(random.below(20)).unwrap() + 1;
    snapshot
        .scan(&from, &to, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            if found.len() == max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    let mut last = None;
    if from < to {
        let range = || model.range(from.clone()..to.clone()).map(|(key, value)| (key.clone(), value.clone()));
        expected = range().take(max).collect();
        last = range().next_back();
    }
    assert_eq!(found, expected);
    assert_eq!(snapshot.last_before(&from, &to).unwrap(), last);
}

#[test]
fn a_flipped_bit_is_refused_or_never_read() {
    let random = &mut Random::new(5);
    let (file, index) = create();
    let mut model = Model::new();
    for _ in 0..12 {
        let update = index.begin().unwrap();
        change(random, &update, &mut model, 60).unwrap();
        update.commit().unwrap();
    }
    drop(index);
    let image = file.bytes();
    let mut refused = 0;
    let positions: Vec<usize> = (0..512)
        .step_by(3)
        .chain((0..600).map(|_| usize::try_from(random.below(image.len() as u64)).unwrap()))
        .collect();
    for at in positions {
        let file = MemoryFile::holding(image.clone());
        file.flip(at, 1 << (at % 8));
        match open(&file).and_then(|index| contents(&index)) {
            Ok(found) => assert_eq!(found, model, "byte {at}"),
            Err(error) => {
                assert!(matches!(error, IndexError::Corrupt(_)), "byte {at}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn a_damaged_header_is_replaced_by_its_copy() {
    let random = &mut Random::new(8);
    let (file, index) = create();
    let mut model = Model::new();
    for _ in 0..6 {
        let update = index.begin().unwrap();
        change(random, &update, &mut model, 60).unwrap();
        update.commit().unwrap();
    }
    drop(index);
    for at in 0..512 {
        let file = MemoryFile::holding(file.bytes());
        file.flip(at, 1 << (at % 8));
        let index = open(&file).unwrap();
        assert_eq!(contents(&index).unwrap(), model, "byte {at}");
        // A change mends the header.
        let mut model = model.clone();
        let update = index.begin().unwrap();
        change(random, &update, &mut model, 5).unwrap();
        update.commit().unwrap();
        drop(index);
        file.flip(6144 + at, 1);
        assert_eq!(contents(&open(&file).unwrap()).unwrap(), model, "byte {at}");
        // Opening wrote both again.
        file.flip(at, 1);
        file.flip(6144 + at, 1);
        assert!(matches!(open(&file), Err(IndexError::Corrupt(_))), "byte {at}");
    }
}

#[test]
fn a_slot_whose_label_reads_as_zeros_is_not_free() {
    /// Where a slot begins.
    fn slot_at(number: usize) -> usize {
        const SLOT: usize = 255 * 4096;
        4096 + number * SLOT
    }
    let (file, index) = create();
    let mut model = Model::new();
    let random = &mut Random::new(3);
    for n in 0..800_u32 {
        model.insert(n.to_be_bytes().to_vec(), random.bytes(4000));
    }
    let update = index.begin().unwrap();
    let mut records = update.records().unwrap();
    model.iter().for_each(|(key, value)| records.put(key, value).unwrap());
    drop(records);
    update.commit().unwrap();
    drop(index);
    let image = file.bytes();
    let labeled = |slot: &usize| image.get(slot_at(*slot)..).is_some_and(|label| label[..16] != [0; 16]);
    let slots: Vec<usize> = (0..).take_while(labeled).collect();
    assert!(slots.len() > 2, "{slots:?}");
    for slot in slots {
        let file = MemoryFile::holding(image.clone());
        let label = slot_at(slot)..slot_at(slot) + 16;
        file.damage(|bytes| bytes[label.clone()].fill(0));
        let Ok(mut damaged) = open(&file) else { continue };
        assert!(damaged.is_damaged(), "slot {slot}");
        drop(damaged.begin().map(|update| update.records().map(|mut records| records.put(b"k", b"v"))));
        // The read was wrong, and the next one is right.
        file.damage(|bytes| bytes[label.clone()].copy_from_slice(&image[label.clone()]));
        damaged.look_again();
        damaged.reopen().unwrap();
        assert!(!damaged.is_damaged(), "slot {slot}");
        assert_eq!(contents(&damaged).unwrap(), model, "slot {slot}");
    }
}

#[test]
fn a_misplaced_block_is_refused_or_never_read() {
    let random = &mut Random::new(6);
    let (file, index, model) = tree(random);
    drop(index);
    let image = file.bytes();
    let mut refused = 0;
    let blocks = (image.len() / 4096 - 2).min(100);
    for to in 0..blocks {
        let from = (to + 1) % blocks;
        let (data, seal) = (|n| 8192 + n * 4096, |n| 4096 + 16 + n * 8);
        let mut moved = image.clone();
        moved.copy_within(data(from)..data(from) + 4096, data(to));
        moved.copy_within(seal(from)..seal(from) + 8, seal(to));
        match open(&MemoryFile::holding(moved)).and_then(|index| contents(&index)) {
            Ok(found) => assert_eq!(found, model),
            Err(error) => {
                assert!(matches!(error, IndexError::Corrupt(_)), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_full_disk_preserves_committed_records() {
    let random = &mut Random::new(7);
    let (file, mut index) = create();
    let mut model = Model::new();
    let update = index.begin().unwrap();
    change(random, &update, &mut model, 100).unwrap();
    update.commit().unwrap();
    // The engine reserves space beyond the end of the file; the failed change below takes it, and gives it back.
    file.set_room(Some(file.bytes().len() + (3 << 20)));
    let old = index.snapshot().unwrap();
    let update = index.begin().unwrap();
    let full = (0..2000_u64)
        .try_for_each(|n| update.records().unwrap().put(&n.to_be_bytes(), &[1; 3000]))
        .and_then(|()| update.commit());
    assert_eq!(full, Err(IndexError::Full));
    assert_eq!(
        index.begin().and_then(|update| update.records().unwrap().put(b"k", b"v")),
        Err(IndexError::Closed)
    );
    index.reopen().unwrap();
    // The old snapshot returns correct data from memory, or an error.
    assert!(matches!(old.get(b"k"), Ok(None) | Err(IndexError::Closed)));
    assert_eq!(contents(&index).unwrap(), model);
    // Removing needs no free space.
    let update = index.begin().unwrap();
    let gone = model.pop_first().unwrap().0;
    update.records().unwrap().delete(&gone).unwrap();
    update.commit().unwrap();
    assert_eq!(contents(&index).unwrap(), model);
    file.set_room(None);
    let update = index.begin().unwrap();
    (0..2000_u64).try_for_each(|n| update.records().unwrap().put(&n.to_be_bytes(), &[1; 3000])).unwrap();
    update.commit().unwrap();
    let stats = index.stats().unwrap();
    assert!(
        stats.stored_bytes > 2000 * 3000 && stats.file_bytes > stats.stored_bytes && stats.tree_height > 1
    );
}

#[test]
fn a_failed_sync_is_final() {
    let (file, mut index) = create();
    let update = index.begin().unwrap();
    update.records().unwrap().put(b"k", b"v").unwrap();
    // Finds the steps that sync: after their failure the index cannot reopen, even on a healthy device.
    let mut refused = 0;
    drop(update);
    for ahead in 0..60 {
        let update = index.begin().unwrap();
        update.records().unwrap().put(b"k", &[ahead]).unwrap();
        file.fail_from(Some(file.steps() + u64::from(ahead)));
        let result = update.commit();
        file.fail_from(None);
        if result.is_err() && index.reopen().is_err() {
            refused += 1;
            assert!(matches!(index.reopen(), Err(IndexError::Io(_))));
            assert_eq!(index.snapshot().unwrap_err(), IndexError::Closed);
            index = open(&file).unwrap();
        }
    }
    assert!(refused >= 2, "a commit syncs twice: {refused}");
}

#[test]
fn a_crash_at_any_write_leaves_one_commit_or_the_next() {
    let mut points = 0;
    let mut outcomes = [0, 0];
    for step in 0.. {
        let Some(new) = crash_at(step) else { break };
        points += 1;
        outcomes[usize::from(new)] += 1;
    }
    println!("{points} crash points; the commit in flight was lost, survived: {outcomes:?}");
    assert!(points > 500, "{points}");
}

/// Runs a workload until its `step`th step fails, loses power and reopens the index. Returns whether the commit in
/// flight survived, or `None` if the workload ended before that step.
fn crash_at(step: u64) -> Option<bool> {
    let random = &mut Random::new(step);
    let (file, mut index) = create();
    file.fail_from(Some(file.steps() + step));
    let mut model = Model::new();
    let mut attempted = Model::new();
    let mut crashed = false;
    for turn in 0..14 {
        attempted = model.clone();
        // Large changes make the file grow; later small ones let it shrink.
        let result = index.begin().and_then(|update| {
            if turn == 3 {
                for n in 0..120_u64 {
                    update.records().unwrap().put(&(n + 1000).to_be_bytes(), &[3; 9000])?;
                    attempted.insert((n + 1000).to_be_bytes().to_vec(), vec![3; 9000]);
                }
            } else if turn == 6 {
                for n in 0..120_u64 {
                    update.records().unwrap().delete(&(n + 1000).to_be_bytes())?;
                    attempted.remove(&(n + 1000).to_be_bytes()[..]);
                }
            } else {
                change(random, &update, &mut attempted, 30)?;
            }
            update.commit()
        });
        if result.is_err() {
            crashed = true;
            break;
        }
        model.clone_from(&attempted);
        if turn % 5 == 4 && index.reopen().is_err() {
            crashed = true;
            break;
        }
    }
    if !crashed {
        return None;
    }
    let mut after = file.after_power_loss(random);
    // The copy of the header is as good as the header.
    if random.below(4) == 0 {
        after.flip(usize::try_from(random.below(512)).unwrap(), 1);
    }
    // Recovery may crash as well.
    if random.below(2) == 0 {
        after.fail_from(Some(after.steps() + random.below(6)));
        drop(open(&after));
        after = after.after_power_loss(random);
    }
    let index = open(&after).unwrap_or_else(|error| panic!("step {step}: {error}"));
    let found = contents(&index).unwrap_or_else(|error| panic!("step {step}: {error}"));
    assert!(found == model || found == attempted, "step {step}");
    let survived = found != model;
    // The index accepts further commits.
    let mut model = found;
    let update = index.begin().unwrap();
    change(random, &update, &mut model, 30).unwrap();
    update.commit().unwrap_or_else(|error| panic!("step {step}: {error}"));
    assert_eq!(contents(&index).unwrap(), model, "step {step}");
    Some(survived)
}

#[test]
fn the_file_grows_little_beyond_its_used_pages() {
    let (file, index) = create();
    for turn in 0..20_u64 {
        let update = index.begin().unwrap();
        (0..100_u64)
            .try_for_each(|n| update.records().unwrap().put(&(turn * 100 + n).to_be_bytes(), &[1; 3000]))
            .unwrap();
        update.commit().unwrap();
    }
    let used = index.stats().unwrap().pages * 4096;
    let stored = file.bytes().len() as u64;
    // The library itself would have doubled it to 16 MiB by now.
    assert!(stored > used && stored < used + used / 4 + (1 << 20), "{stored} for {used}");
    assert_eq!(stored, index.file_bytes());
}
