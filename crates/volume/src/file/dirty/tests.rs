use super::*;
use crate::media::memory::Random;

/// The unstable bytes as an array: the WRITE and the value of each byte.
type Model = Vec<Option<(u64, u8)>>;

const BYTES: u64 = 300;

fn contents(dirty: &Dirty) -> Model {
    let mut found = vec![None; usize::try_from(BYTES).unwrap()];
    let mut last = 0;
    for range in dirty.ranges() {
        assert!(last <= range.start && range.start < range.end, "ranges are not sorted, or empty");
        last = range.end;
        assert_eq!(range.data().len(), range.len());
        for (at, byte) in (range.start..).zip(range.data()) {
            found[usize::try_from(at).unwrap()] = Some((range.write, *byte));
        }
    }
    found
}

#[test]
fn unstable_data_agrees_with_an_array_of_bytes() {
    for seed in 0..40 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (mut dirty, mut model) = (Dirty::default(), vec![None; usize::try_from(BYTES).unwrap()]);
        for write in 1..120 {
            let start = random.below(BYTES);
            let end = start + random.below(BYTES - start + 1).min(1 + random.below(60));
            let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
            if random.below(3) == 0 {
                // A truncation discards everything beyond its size.
                let end = if random.below(4) == 0 { u64::MAX } else { end };
                dirty.remove(start, end);
                let last = model.len().min(usize::try_from(end).unwrap_or(usize::MAX));
                model[range.start..last.max(range.start)].fill(None);
            } else if start < end {
                let bytes = random.bytes(range.len());
                dirty.insert(start, bytes.as_slice().into(), write);
                model[range].iter_mut().zip(&bytes).for_each(|(slot, byte)| *slot = Some((write, *byte)));
            }
            assert_eq!(contents(&dirty), model);
            let held = model.iter().flatten().count() as u64;
            assert_eq!(dirty.bytes(), held);
            assert_eq!(dirty.is_empty(), held == 0);
            let ranges = dirty.ranges().count() as u64;
            assert_eq!(dirty.footprint(), crate::segments::space::footprint(held, ranges));
            check_ranges(random, &dirty, &model);
        }
    }
}

/// Checks which ranges overlap a range, and how they are clipped to it.
fn check_ranges(random: &mut Random, dirty: &Dirty, model: &Model) {
    let start = random.below(BYTES);
    let end = start + 1 + random.below(BYTES - start);
    let mut found: Model = vec![None; model.len()];
    for range in dirty.overlapping(start, end) {
        assert!(range.start < end && start < range.end, "the range does not overlap");
        let clipped = range.clipped(start, end);
        assert_eq!((clipped.start, clipped.end), (range.start.max(start), range.end.min(end)));
        let (bytes, from, to) = range.slice(clipped.start, clipped.end);
        assert_eq!(&bytes[from..to], clipped.data());
        for (at, byte) in (clipped.start..).zip(clipped.data()) {
            found[usize::try_from(at).unwrap()] = Some((clipped.write, *byte));
        }
    }
    let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
    assert_eq!(found[range.clone()], model[range]);
}

#[test]
fn offsets_near_the_largest_file_do_not_overflow() {
    let mut dirty = Dirty::default();
    let end = crate::limits::FILE_BYTES_MAX;
    dirty.insert(end - 4, vec![1, 2, 3, 4].into(), 1);
    assert_eq!(dirty.overlapping(end - 1, u64::MAX).count(), 1);
    assert_eq!(dirty.overlapping(end, u64::MAX).count(), 0);
    dirty.remove(end - 2, u64::MAX);
    assert_eq!(dirty.bytes(), 2);
}
