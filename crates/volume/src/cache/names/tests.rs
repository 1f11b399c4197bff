use super::*;
use crate::api::attributes::FileType;
use crate::cache::blocks;

const DIRECTORY: ObjectId = VolumeNumber(1).object(Ino(7));

fn record(number: u64) -> NameRecord {
    NameRecord {
        ino: Ino(number),
        cookie: Cookie(number << 32),
        file_type: if number.is_multiple_of(2) { FileType::Directory } else { FileType::Regular },
    }
}

#[test]
fn names_are_cached_replaced_and_removed() {
    let names = NameCache::new(1 << 20, blocks::hasher(None));
    assert_eq!(names.get(DIRECTORY, b"a"), None);
    names.put(DIRECTORY, b"a", &record(10));
    names.put(DIRECTORY, b"b", &record(11));
    assert_eq!(names.get(DIRECTORY, b"a"), Some(record(10)));
    assert_eq!(names.get(DIRECTORY, b"b"), Some(record(11)));
    names.put(DIRECTORY, b"a", &record(u64::MAX));
    assert_eq!((names.get(DIRECTORY, b"a"), names.len()), (Some(record(u64::MAX)), 2));
    names.remove(DIRECTORY, b"a");
    names.remove(DIRECTORY, b"never there");
    assert_eq!((names.get(DIRECTORY, b"a"), names.len()), (None, 1));
    assert_eq!(names.get(DIRECTORY, b"b"), Some(record(11)));
}

#[test]
fn similar_names_are_distinguished() {
    let names = NameCache::new(1 << 20, blocks::hasher(None));
    let longest = [b'x'; CACHED_NAME_BYTES_MAX];
    names.put(DIRECTORY, &longest, &record(1));
    names.put(DIRECTORY, &longest[1..], &record(2));
    names.put(VolumeNumber(1).object(Ino(8)), &longest, &record(3));
    // Names contain no NUL, but the cache would distinguish them.
    names.put(DIRECTORY, b"a", &record(4));
    names.put(DIRECTORY, b"a\0", &record(5));
    assert_eq!(names.get(DIRECTORY, &longest), Some(record(1)));
    assert_eq!(names.get(DIRECTORY, &longest[1..]), Some(record(2)));
    assert_eq!(names.get(VolumeNumber(1).object(Ino(8)), &longest), Some(record(3)));
    assert_eq!(names.get(DIRECTORY, b"a"), Some(record(4)));
    assert_eq!(names.get(DIRECTORY, b"a\0"), Some(record(5)));
}

#[test]
fn long_names_are_not_cached() {
    let names = NameCache::new(1 << 20, blocks::hasher(None));
    let long = [b'x'; CACHED_NAME_BYTES_MAX + 1];
    names.put(DIRECTORY, &long, &record(1));
    names.remove(DIRECTORY, &long);
    assert_eq!((names.get(DIRECTORY, &long), names.len()), (None, 0));
}

#[test]
fn the_cache_is_bounded_and_returns_no_wrong_record() {
    for sets in [1, 3, 64, 1000] {
        let names = NameCache::new(sets * SET_BYTES, blocks::hasher(None));
        for number in 0..20_000_u64 {
            names.put(VolumeNumber(1).object(Ino(number % 5)), &number.to_be_bytes(), &record(number));
        }
        let kept: Vec<u64> = (0..20_000)
            .filter(|number| {
                let found = names.get(VolumeNumber(1).object(Ino(number % 5)), &number.to_be_bytes());
                assert!(found.is_none_or(|found| found == record(*number)));
                found.is_some()
            })
            .collect();
        let places = usize::try_from(sets).unwrap() * WAYS;
        assert_eq!(kept.len(), names.len());
        assert!(names.len() <= places && names.len() > places / 2, "{} of {places}", names.len());
        kept.iter()
            .for_each(|number| names.remove(VolumeNumber(1).object(Ino(number % 5)), &number.to_be_bytes()));
        assert_eq!(names.len(), 0);
    }
}

#[test]
fn the_names_of_objects_are_found() {
    let names = NameCache::new(1 << 20, blocks::hasher(None));
    let longest = [b'x'; CACHED_NAME_BYTES_MAX];
    names.put(DIRECTORY, b"a", &record(1));
    names.put(DIRECTORY, b"b", &record(2));
    names.put(DIRECTORY, &longest, &record(3));
    names.put(VolumeNumber(2).object(Ino(7)), b"other", &record(1));
    names.put(DIRECTORY, b"gone", &record(4));
    names.remove(DIRECTORY, b"gone");
    let mut found = Vec::new();
    let wanted = BTreeSet::from([1, 3, 4, 5].map(Ino));
    names.names_of(VolumeNumber(1), &wanted, &mut |ino, directory, name| {
        found.push((ino.0, directory.0, name.to_vec()));
    });
    found.sort();
    assert_eq!(found, [(1, 7, b"a".to_vec()), (3, 7, longest.to_vec())]);
}
