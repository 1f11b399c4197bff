use std::ops::ControlFlow;

use super::*;
use crate::media::RandomFile;
use crate::media::memory::{MemoryFile, Random};
use crate::tables::index::tests::{Model, change, create, in_range, key, tree};
use crate::tables::index::{CheckedFile, Index, Snapshot};

const BLOCK: usize = 4096;

/// Opens an index whose library keeps nothing in memory.
fn open(file: &Arc<MemoryFile>) -> Result<Index, IndexError> {
    Index::open(Arc::clone(file) as Arc<dyn RandomFile>, 0)
}

/// Returns the keys whose records no walker can read.
fn lost(file: &Arc<MemoryFile>, model: &Model) -> Vec<Vec<u8>> {
    let file = CheckedFile::open(Arc::clone(file) as Arc<dyn RandomFile>).unwrap();
    let walker = Walker::open(file, 1 << 20);
    let is_lost = |key: &[u8]| walker.as_ref().is_err() || walker.as_ref().unwrap().get(key).is_err();
    model.keys().filter(|key| is_lost(key)).cloned().collect()
}

/// Checks that every record but the lost ones is read, and that reads of these fail for their damage. Where the root
/// was found before the damage, more may be read.
fn check(random: &mut Random, snapshot: &Snapshot, model: &Model, lost: &[Vec<u8>]) {
    for (key, value) in model {
        match snapshot.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value)),
            Err(error) => {
                assert!(matches!(error, IndexError::Corrupt(_)), "{error}");
                assert!(lost.contains(key), "only what is lost fails");
            }
        }
    }
    for _ in 0..10 {
        let (from, to) = (key(random, model), key(random, model));
        let (expected, mut found) = (in_range(model, &from, &to), Model::new());
        let result = snapshot.scan(&from, &to, &mut |key, value| {
            assert!(found.insert(key.to_vec(), value.to_vec()).is_none(), "no record is visited twice");
            ControlFlow::Continue(())
        });
        match result {
            Ok(()) => assert_eq!(found, expected),
            Err(error) => {
                assert!(matches!(error, IndexError::Corrupt(_)), "{error}");
                assert_eq!(found, expected.clone().into_iter().take(found.len()).collect());
            }
        }
        match snapshot.last_before(&from, &to) {
            Ok(last) => assert_eq!(last, in_range(model, &from, &to).pop_last()),
            Err(error) => assert!(matches!(error, IndexError::Corrupt(_)), "{error}"),
        }
    }
}

#[test]
fn a_bad_block_under_an_open_index_fails_only_reads_of_its_records() {
    let random = &mut Random::new(21);
    let (file, index, model) = tree(random);
    drop(index);
    let image = file.bytes();
    let (mut damaged, mut refused) = (0, 0);
    for block in 1..image.len() / BLOCK {
        let file = MemoryFile::holding(image.clone());
        let index = open(&file).unwrap();
        let snapshot = index.snapshot().unwrap();
        file.flip(block * BLOCK + random.index(BLOCK), 1 << random.below(8));
        let lost = lost(&file, &model);
        check(random, &snapshot, &model, &lost);
        // The library closes itself at its first failure; the second round finds it so.
        check(random, &snapshot, &model, &lost);
        if !lost.is_empty() {
            damaged += 1;
            assert!(!snapshot.is_warm());
        }
        drop((snapshot, index));
        match open(&file).and_then(|index| index.snapshot()) {
            Ok(snapshot) => check(random, &snapshot, &model, &lost),
            Err(error) => {
                assert!(matches!(error, IndexError::Corrupt(_)), "{error}");
                assert_eq!(lost.len(), model.len(), "it opens if anything can be read");
                refused += 1;
            }
        }
    }
    assert!(damaged > 30 && refused < 5, "{damaged} {refused}");
}

#[test]
fn a_snapshot_from_before_a_reopening_never_shows_pages_that_were_reused() {
    let mut closed = 0;
    for seed in 0..30 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (file, index, mut model) = tree(random);
        drop(index);
        let mut index = open(&file).unwrap();
        let (snapshot, before) = (index.snapshot().unwrap(), model.clone());
        let check = |snapshot: &Snapshot, may_close: bool| {
            let results = before.iter().map(|(key, value)| match snapshot.get(key) {
                Ok(found) => {
                    assert_eq!(found.as_ref(), Some(value));
                    0
                }
                Err(error) => {
                    assert!(may_close && error == IndexError::Closed, "{error}");
                    1
                }
            });
            results.sum::<i32>()
        };
        // A full disk closes the library.
        file.set_full(true);
        let update = index.begin().unwrap();
        let put = update.records().unwrap().put(b"new", b"new");
        assert_eq!(put.and_then(|()| update.commit()), Err(IndexError::Full));
        file.set_full(false);
        assert_eq!(check(&snapshot, false), 0, "the closed library is read around");
        index.reopen().unwrap();
        for _ in 0..4 {
            let update = index.begin().unwrap();
            change(random, &update, &mut model, 200).unwrap();
            update.records().unwrap().put(b"new", b"new").unwrap();
            update.commit().unwrap();
        }
        closed += check(&snapshot, true);
    }
    assert!(closed > 0);
}

#[test]
fn an_unreadable_label_costs_its_group_until_it_can_be_read_again() {
    const SLOT: usize = 255 * 4096;
    let (file, index) = create();
    let update = index.begin().unwrap();
    let mut records = update.records().unwrap();
    for n in 0..4000_u32 {
        records.put(&n.to_be_bytes(), &[7; 1000]).unwrap();
    }
    drop(records);
    update.commit().unwrap();
    drop(index);
    let slots = (file.bytes().len() - 4096).div_ceil(SLOT);
    let mut served = 0;
    for label in (0..slots).map(|slot| 4096 + slot * SLOT) {
        let file = MemoryFile::holding(file.bytes());
        file.set_unreadable(label..label + 512);
        let index = match open(&file) {
            Ok(index) => index,
            // The list of tables lies there.
            Err(IndexError::Corrupt(_)) => continue,
            Err(error) => panic!("label at {label}: {error}"),
        };
        assert!(index.is_damaged() && index.snapshot().unwrap().is_damaged());
        assert!(index.look_again());
        let snapshot = index.snapshot().unwrap();
        served += (0..4000_u32).filter(|n| snapshot.get(&n.to_be_bytes()).is_ok()).count();
        file.set_unreadable(0..0);
        index.look_again();
        assert!(index.file.bad_blocks().is_empty());
        let walked = Walker::open(index.file.clone(), 0).unwrap();
        (0..4000_u32).for_each(|n| assert!(walked.get(&n.to_be_bytes()).unwrap().is_some()));
    }
    assert!(served > 4000, "{served} of {slots} slots");
}
