use super::*;
use crate::api::ids::{Cookie, Ino};
use crate::encoding::key::FIRST;
use crate::media::memory::Random;

fn value(bytes: &[u8]) -> Slot {
    Some(Value::from(bytes))
}

fn scanned(memtable: &Memtable, from: &Key, to: &Key) -> Vec<(Key, Slot)> {
    let mut found = Vec::new();
    memtable.scan(from, to, &mut |key, slot| {
        found.push((key.clone(), slot.clone()));
        ControlFlow::Continue(())
    });
    found
}

#[test]
fn random_records_agree_with_an_ordered_map() {
    for seed in 0..20 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let memtable = Memtable::new(Layer(1));
        let mut model: BTreeMap<Key, Slot> = BTreeMap::new();
        for _ in 0..400 {
            let ino = Ino(random.below(40));
            let key = match random.below(3) {
                0 => key::inode(FIRST.object(ino)),
                1 => key::map(FIRST.object(ino), random.below(9)),
                _ => key::name(FIRST.object(ino), &random.bytes(2)),
            };
            let length = usize::try_from(random.below(50)).unwrap();
            let slot = if random.below(4) == 0 { None } else { value(&random.bytes(length)) };
            memtable.apply([(key.clone(), slot.clone())], &[]);
            if slot.is_none() && matches!(key::parse(&key), Some((_, key::Table::Map, _))) {
                model.remove(&key);
            } else {
                model.insert(key.clone(), slot);
            }
            assert_eq!(memtable.get(&key).as_ref(), model.get(&key));
        }
        assert_eq!(memtable.sorted(), model.clone().into_iter().collect::<Vec<_>>());
        let bytes: u64 = model.iter().map(|(key, slot)| record_bytes(key, slot)).sum();
        assert_eq!(memtable.bytes(), bytes, "replaced records are not counted");
        for ino in (0..40).map(Ino) {
            let (from, to) = (key::map(FIRST.object(ino), 2), key::map(FIRST.object(ino), 7));
            let expected: Vec<_> = model
                .range(from.clone()..to.clone())
                .map(|(key, slot)| (key.clone(), slot.clone()))
                .collect();
            assert_eq!(scanned(&memtable, &from, &to), expected);
        }
    }
}

#[test]
fn names_added_and_removed_leave_no_tombstones() {
    let memtable = Memtable::new(Layer(1));
    for number in 0..1000 {
        let cookie = key::cookie(FIRST.object(Ino(2)), Cookie(number));
        memtable.apply([(cookie.clone(), value(b"name"))], &[]);
        memtable.apply([(cookie, None)], &[]);
    }
    let (from, to) =
        (key::cookie(FIRST.object(Ino(2)), Cookie(0)), key::cookie(FIRST.object(Ino(2)), Cookie(u64::MAX)));
    assert!(scanned(&memtable, &from, &to).is_empty());
    assert!(memtable.is_empty());
    assert_eq!(memtable.bytes(), 0);
    // The tombstone of a name that an older layer may hold stays.
    memtable.apply([(from.clone(), None)], &[]);
    assert_eq!(memtable.get(&from), Some(None));
}

#[test]
fn replaced_mappings_leave_no_tombstones() {
    let memtable = Memtable::new(Layer(1));
    memtable.apply((1..1000).map(|end| (key::map(FIRST.object(Ino(2)), end), value(b"x"))), &[]);
    memtable.apply((1..1000).map(|end| (key::map(FIRST.object(Ino(2)), end), None)), &[]);
    memtable.apply([(key::map(FIRST.object(Ino(2)), 2000), None)], &[]);
    assert!(
        scanned(&memtable, &key::map(FIRST.object(Ino(2)), 0), &key::map(FIRST.object(Ino(2)), u64::MAX))
            .is_empty()
    );
    assert_eq!((memtable.is_empty(), memtable.bytes()), (true, 0));
}

#[test]
fn a_scan_in_parts_visits_the_same_records() {
    let memtable = Memtable::new(Layer(1));
    let record = |number: u64| key::xattr(FIRST.object(Ino(2)), &number.to_be_bytes());
    for records in [0, 1, PART_RECORDS as u64, 3 * PART_RECORDS as u64 + 7] {
        memtable.apply((0..records).map(|number| (record(number), value(b"x"))), &[]);
        for (from, to) in [(0, records), (5, records.saturating_sub(3)), (0, u64::MAX)] {
            let (from, to, mut found) = (record(from), record(to), Vec::new());
            memtable.scan_in_parts(&from, &to, &mut |key, slot| {
                found.push((key.clone(), slot.clone()));
                ControlFlow::Continue(())
            });
            assert_eq!(found, scanned(&memtable, &from, &to));
        }
    }
    let mut visited = 0;
    memtable.scan_in_parts(&record(0), &record(u64::MAX), &mut |_, _| {
        visited += 1;
        if visited == PART_RECORDS + 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(visited, PART_RECORDS + 1);
}

#[test]
fn a_visitor_ends_a_scan() {
    let memtable = Memtable::new(Layer(1));
    memtable.apply((1..9).map(|end| (key::map(FIRST.object(Ino(3)), end), value(b""))), &[]);
    let mut seen = 0;
    memtable.scan(&key::map(FIRST.object(Ino(3)), 0), &key::map(FIRST.object(Ino(3)), 100), &mut |_, _| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(seen, 3);
}

#[test]
fn tombstones_remain_only_over_records_of_older_layers() {
    let memtable = Memtable::new(Layer(1));
    let key = key::name(FIRST.object(Ino(2)), b"name");
    let put = |fresh: &[usize]| memtable.apply([(key.clone(), value(b"1"))], fresh);
    let delete = |fresh: &[usize]| memtable.apply([(key.clone(), None)], fresh);
    put(&[0]);
    put(&[]);
    delete(&[0]);
    assert_eq!(memtable.get(&key), None);
    assert_eq!((memtable.is_empty(), memtable.bytes()), (true, 0));
    put(&[0]);
    delete(&[]);
    assert_eq!(memtable.get(&key), Some(None), "the deletion needs a tombstone");
    let memtable = Memtable::new(Layer(2));
    memtable.apply([(key.clone(), value(b"1"))], &[]);
    memtable.apply([(key.clone(), None)], &[0]);
    assert_eq!(memtable.get(&key), Some(None), "an older layer may hold it");
    memtable.apply([(key.clone(), value(b"2")), (key.clone(), None)], &[0, 1]);
    assert_eq!(memtable.get(&key), Some(None), "the tombstone still hides the older record");
}

#[test]
fn a_scan_sees_changes_of_one_directory_atomically() {
    const RENAMES: u64 = 20_000;
    let memtable = Memtable::new(Layer(1));
    let cookie = |number| key::cookie(FIRST.object(Ino(2)), Cookie(number));
    memtable.apply([(cookie(0), value(b"name"))], &[]);
    std::thread::scope(|scope| {
        let renaming = scope.spawn(|| {
            for number in 0..RENAMES {
                memtable.apply([(cookie(number), None), (cookie(number + 1), value(b"name"))], &[]);
            }
        });
        while !renaming.is_finished() {
            let seen = scanned(&memtable, &cookie(0), &cookie(u64::MAX));
            let names = seen.iter().filter(|(_, slot)| slot.is_some()).count();
            assert_eq!(names, 1, "the scan saw a partial rename");
        }
    });
}
