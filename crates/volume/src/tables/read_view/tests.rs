use super::*;
use crate::api::ids::Ino;
use crate::api::ids::Layer;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::media::memory::{MemoryFile, Random};
use crate::tables::index::Index;

fn index_of(records: &BTreeMap<Key, Slot>) -> (Index, Arc<Snapshot>) {
    let index = Index::create(MemoryFile::holding(Vec::new()), 1 << 20).unwrap();
    let update = index.begin().unwrap();
    for (key, slot) in records {
        update.records().unwrap().put(key, slot.as_ref().unwrap()).unwrap();
    }
    update.commit().unwrap();
    let snapshot = Arc::new(index.snapshot().unwrap());
    (index, snapshot)
}

fn stack(active: Memtable, frozen: Option<Memtable>, index: Arc<Snapshot>) -> ReadView {
    ReadView {
        active: Arc::new(active),
        frozen: frozen.map(Arc::new),
        index,
        version: 1,
        recent_versions: VecDeque::new(),
    }
}

#[test]
fn a_paged_scan_agrees_with_an_ordered_map() {
    for seed in 0..6 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let record = |number: u64| key::xattr(FIRST.object(Ino(9)), &number.to_be_bytes());
        let mut model: BTreeMap<Key, Slot> = BTreeMap::new();
        let ends = 600;
        let mut in_index = BTreeMap::new();
        for number in (0..ends).filter(|_| random.below(3) > 0) {
            in_index.insert(record(number), Some(Value::from(&b"old"[..])));
        }
        model.extend(in_index.clone());
        let (_index, snapshot) = index_of(&in_index);
        let tables = [Memtable::new(Layer(1)), Memtable::new(Layer(2))];
        // Long runs of deletions let one layer hide whole pages of another.
        for (table, text) in tables.iter().zip([&b"frozen"[..], b"active"]) {
            for _ in 0..4 {
                let start = random.below(ends);
                for number in start..(start + random.below(250)).min(ends) {
                    let key = record(number);
                    let slot = if random.below(5) == 0 { Some(Value::from(text)) } else { None };
                    table.apply([(key.clone(), slot.clone())], &[]);
                    model.insert(key, slot);
                }
            }
        }
        let [frozen, active] = tables;
        let view = stack(active, Some(frozen), snapshot);
        let to = record(u64::MAX);
        let expected: Vec<(Key, Value)> =
            model.iter().filter_map(|(key, slot)| Some((key.clone(), slot.clone()?))).collect();
        for max in [1, 7, 64, 10_000] {
            let mut found: Vec<(Key, Value)> = Vec::new();
            let mut from = record(0);
            loop {
                let page = view.scan(&from, &to, max).unwrap();
                assert!(page.len() <= max);
                let Some((last, _)) = page.last() else { break };
                from = last.successor();
                found.extend(page);
            }
            assert!(found == expected, "pages of {max}");
        }
        for (key, slot) in &model {
            assert_eq!(&view.get(key).unwrap(), slot);
        }
    }
}

#[test]
fn a_cached_map_is_current_until_a_checkpoint_changed_it() {
    let (_index, snapshot) = index_of(&BTreeMap::new());
    let mut view = stack(Memtable::new(Layer(1)), None, Arc::clone(&snapshot));
    let (changed, untouched) = (FIRST.object(Ino(5)), FIRST.object(Ino(6)));
    let read_at = view.version;
    assert!(view.is_map_current(changed, read_at));
    view = view.with_index(Arc::clone(&snapshot), HashSet::from([changed]));
    assert!(!view.is_map_current(changed, read_at) && view.is_map_current(untouched, read_at));
    assert!(view.is_map_current(changed, view.version));
    assert!(!view.is_map_current(untouched, view.version + 1), "a future version is not current");
    // Changes are remembered for RECENT_VERSIONS_MAX checkpoints; older maps are never current.
    for _ in 1..RECENT_VERSIONS_MAX {
        view = view.with_index(Arc::clone(&snapshot), HashSet::new());
        assert!(!view.is_map_current(changed, read_at) && view.is_map_current(untouched, read_at));
    }
    view = view.with_index(snapshot, HashSet::new());
    assert!(!view.is_map_current(untouched, read_at));
    assert_eq!(view.recent_versions.len(), RECENT_VERSIONS_MAX);
}
