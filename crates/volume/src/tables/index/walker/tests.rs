use super::super::pages::VERSION;
use super::*;
use crate::media::RandomFile;
use crate::media::memory::{MemoryFile, Random};
use crate::tables::index::tests::{CACHE, Model, change, create, in_range, key, tree};

const BLOCK: usize = 4096;

fn walker(file: &Arc<MemoryFile>) -> Result<Walker, IndexError> {
    Walker::open(CheckedFile::open(Arc::clone(file) as Arc<dyn RandomFile>)?, CACHE)
}

/// Returns the records with `from <= key < to` before the first failure, and that failure.
fn scan(walker: &Walker, from: &[u8], to: &[u8]) -> (Model, Result<(), IndexError>) {
    let mut found = Model::new();
    let result = walker.scan(from, to, &mut |key, value| {
        assert!(found.last_key_value().is_none_or(|(last, _)| last.as_slice() < key), "in order");
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    });
    (found, result)
}

/// A lost range.
type Range = (Vec<u8>, Option<Vec<u8>>);

fn holds(range: &Range, key: &[u8]) -> bool {
    range.0.as_slice() <= key && range.1.as_deref().is_none_or(|to| key < to)
}

fn salvage(walker: &Walker) -> (Model, Vec<Range>) {
    let (mut found, mut lost) = (Model::new(), Vec::<Range>::new());
    let mut at = Vec::new();
    walker
        .salvage(&mut |salvaged| {
            match salvaged {
                Salvaged::Record { key, value } => {
                    assert!(found.is_empty() || at.as_slice() <= key, "in order");
                    at = [key, &[0]].concat();
                    found.insert(key.to_vec(), value.to_vec());
                }
                Salvaged::Lost { from, to, why, .. } => {
                    assert!(matches!(why, IndexError::Corrupt(_) | IndexError::Io(_)), "{why}");
                    assert!(at <= from && to.as_ref().is_none_or(|to| from < *to), "in order");
                    at = to.clone().unwrap_or_else(|| vec![0xff; 600]);
                    lost.push((from, to));
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    (found, lost)
}

#[test]
fn random_trees_read_as_the_library_reads_them() {
    for seed in 0..6 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (file, index, mut model) = tree(random);
        assert!(index.stats().unwrap().tree_height > 2);
        for _ in 0..4 {
            let walker = walker(&file).unwrap();
            assert_eq!(salvage(&walker), (model.clone(), Vec::new()));
            for _ in 0..100 {
                let (from, to) = (key(random, &model), key(random, &model));
                assert_eq!(walker.get(&from).unwrap(), model.get(&from).cloned());
                let inside = in_range(&model, &from, &to);
                assert_eq!(walker.last_before(&from, &to).unwrap(), inside.clone().pop_last());
                assert_eq!(scan(&walker, &from, &to), (inside, Ok(())));
            }
            let update = index.begin().unwrap();
            change(random, &update, &mut model, 60).unwrap();
            update.commit().unwrap();
        }
    }
}

#[test]
fn an_empty_table_and_a_visit_that_breaks_are_not_errors() {
    let (file, index) = create();
    let walker = |file| walker(file).unwrap();
    assert_eq!(salvage(&walker(&file)), (Model::new(), Vec::new()));
    assert_eq!(walker(&file).get(b"a"), Ok(None));
    assert_eq!(walker(&file).last_before(b"", b"z"), Ok(None));
    let update = index.begin().unwrap();
    for key in [b"a", b"b", b"c"] {
        update.records().unwrap().put(key, b"v").unwrap();
    }
    update.commit().unwrap();
    let (mut scanned, mut salvaged) = (0, 0);
    let visit = &mut |_: &[u8], _: &[u8]| {
        scanned += 1;
        if scanned == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    walker(&file).scan(b"a", b"z", visit).unwrap();
    walker(&file)
        .salvage(&mut |_| {
            salvaged += 1;
            if salvaged == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!((scanned, salvaged), (2, 2));
}

/// Checks that every answer of a walker is that of the model, or an error for a key in a lost range. Returns how many
/// records are lost.
fn check_damaged(random: &mut Random, walker: &Walker, model: &Model) -> usize {
    let (found, lost) = salvage(walker);
    let is_lost = |key: &[u8]| lost.iter().any(|range| holds(range, key));
    for (key, value) in &found {
        assert_eq!(model.get(key), Some(value), "what was salvaged is right");
        assert!(!is_lost(key), "what was salvaged is not lost");
    }
    for (key, value) in model {
        match walker.get(key) {
            Ok(got) => assert_eq!((got.as_ref(), found.get(key)), (Some(value), Some(value))),
            Err(error) => {
                assert!(matches!(error, IndexError::Corrupt(_)), "{error}");
                assert!(is_lost(key), "what fails is in a lost range");
            }
        }
    }
    for _ in 0..20 {
        let (from, to) = (key(random, model), key(random, model));
        let expected = in_range(model, &from, &to);
        let (found, result) = scan(walker, &from, &to);
        if result.is_ok() {
            assert_eq!(found, expected);
        } else {
            let seen: Model = expected.clone().into_iter().take(found.len()).collect();
            assert_eq!(found, seen, "a scan returns all records before the damage");
            let next = expected.into_iter().nth(found.len()).map(|(key, _)| key);
            assert!(next.is_none_or(|key| is_lost(&key)), "a scan stops at a lost range");
        }
        match walker.last_before(&from, &to) {
            Ok(last) => assert_eq!(last, in_range(model, &from, &to).pop_last()),
            Err(error) => assert!(matches!(error, IndexError::Corrupt(_)), "{error}"),
        }
    }
    model.len() - found.len()
}

#[test]
fn a_bad_block_loses_only_the_records_below_it() {
    let random = &mut Random::new(11);
    let (file, index, model) = tree(random);
    drop(index);
    let image = file.bytes();
    // The records that each block loses.
    let mut losses = Vec::new();
    for block in 0..image.len() / BLOCK {
        let file = MemoryFile::holding(image.clone());
        file.flip(block * BLOCK + random.index(BLOCK), 4);
        match walker(&file) {
            Ok(walker) => losses.push(check_damaged(random, &walker, &model)),
            Err(error) => assert!(matches!(error, IndexError::Corrupt(_)), "{error}"),
        }
    }
    let few = losses.iter().filter(|lost| (1..20).contains(*lost)).count();
    println!("{} blocks, {few} of which lose less than 20 records of {}", losses.len(), model.len());
    assert!(few > 30, "{losses:?}");
    assert!(losses.contains(&model.len()), "the root loses everything");
    assert!(losses.iter().any(|lost| (20..model.len()).contains(lost)), "a branch loses what is below it");
}

#[test]
fn several_bad_blocks_lose_no_more_than_each_alone() {
    for seed in 0..40 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (file, index, model) = tree(random);
        drop(index);
        for _ in 0..random.below(8) {
            let at = random.index(file.bytes().len());
            file.flip(at, 1 << random.below(8));
        }
        if let Ok(walker) = walker(&file) {
            check_damaged(random, &walker, &model);
        }
    }
}

/// Writes a block as if the library had, so that it verifies.
fn write(file: &Arc<MemoryFile>, block: u64, bytes: &[u8]) {
    let checked = CheckedFile::open(Arc::clone(file) as Arc<dyn RandomFile>).unwrap();
    checked.write(block * BLOCK_BYTES, bytes).unwrap();
}

#[test]
fn pages_that_make_no_sense_neither_panic_nor_loop() {
    let random = &mut Random::new(12);
    let (file, index, model) = tree(random);
    drop(index);
    let image = file.bytes();
    let checked = CheckedFile::open(Arc::clone(&file) as Arc<dyn RandomFile>).unwrap();
    let blocks = checked.len().unwrap() / BLOCK_BYTES;
    let mut bytes = [0; BLOCK];
    let used: Vec<u64> =
        (1..blocks).filter(|block| checked.read(block * BLOCK_BYTES, &mut bytes).is_ok()).collect();
    for round in 0..1500 {
        let file = MemoryFile::holding(image.clone());
        let block = used[random.index(used.len())];
        checked.read(block * BLOCK_BYTES, &mut bytes).unwrap();
        match round % 3 {
            // Numbers and offsets are at the beginning.
            0 => (0..3).for_each(|_| bytes[random.index(64)] = u8::try_from(random.below(256)).unwrap()),
            1 => bytes[random.index(BLOCK)] ^= 1 << random.below(8),
            _ => checked.read(used[random.index(used.len())] * BLOCK_BYTES, &mut bytes).unwrap(),
        }
        write(&file, block, &bytes);
        let Ok(walker) = walker(&file) else { continue };
        let (found, lost) = salvage(&walker);
        assert!(found.len() <= model.len() + 200 && lost.len() < 200);
        for _ in 0..5 {
            let (from, to) = (key(random, &model), key(random, &model));
            let _may_be_anything = (walker.get(&from), scan(&walker, &from, &to));
            let _may_be_anything = walker.last_before(&from, &to);
        }
    }
}

#[test]
fn a_branch_that_is_its_own_child_is_refused() {
    let random = &mut Random::new(13);
    let (file, index, _) = tree(random);
    drop(index);
    let whole = walker(&file).unwrap();
    let root = whole.root.unwrap();
    let place = whole.regions.locate(root).unwrap();
    let mut bytes = vec![0; place.bytes];
    whole.file.read(place.offset, &mut bytes).unwrap();
    let Ok(Page::Branch(branch)) = Page::parse(bytes.clone().into_boxed_slice()) else {
        panic!("the root has children")
    };
    let at = 8 + 16 * branch.children();
    (0..branch.children()).for_each(|n| bytes[at + 8 * n..][..8].copy_from_slice(&root.to_bytes()));
    write(&file, place.offset / BLOCK_BYTES, &bytes);
    let walker = walker(&file).unwrap();
    let (found, lost) = salvage(&walker);
    assert_eq!((found, lost.len()), (Model::new(), branch.children()));
    assert!(matches!(walker.get(b"a"), Err(IndexError::Corrupt(_))));
}

/// A newer library that writes another version of its format fails here: the walker must learn that one first.
#[test]
fn only_the_known_version_of_the_format_is_read() {
    let (file, index) = create();
    drop(index);
    let checked = CheckedFile::open(Arc::clone(&file) as Arc<dyn RandomFile>).unwrap();
    let mut header = [0; HEADER_BYTES];
    checked.read(0, &mut header).unwrap();
    let slots = [64, 192];
    assert_eq!(slots.map(|at| header[at]), [VERSION; 2]);
    slots.into_iter().for_each(|at| header[at] = VERSION + 1);
    checked.write(0, &header).unwrap();
    let error = walker(&file).unwrap_err();
    assert!(matches!(&error, IndexError::Corrupt(what) if what.contains("unknown version")), "{error}");
}
