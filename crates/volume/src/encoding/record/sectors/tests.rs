use super::*;
use crate::encoding::codec::Reader;
use crate::media::memory::Random;

fn span(random: &mut Random, sectors: u64) -> Span {
    let number = |at: u64| u16::try_from(at).unwrap();
    let from = random.below(sectors);
    Span { from: number(from), to: number(from + 1 + random.below(sectors - from)) }
}

/// The counts of single sectors.
fn counts(references: &References, sectors: u16) -> Vec<u32> {
    references.runs(sectors).flat_map(|(span, count)| vec![count; usize::from(span.to - span.from)]).collect()
}

fn round_trip(references: &References, length: u32) {
    let mut out = Vec::new();
    references.encode_into(&mut out);
    let mut r = Reader::new(&out, "references");
    assert_eq!(References::decode(&mut r, length).as_ref(), Ok(references));
    assert!(r.is_at_end());
}

#[test]
fn bytes_are_in_the_sectors_that_they_touch() {
    assert_eq!(Span::of(0, 1), Span { from: 0, to: 1 });
    assert_eq!(Span::of(511, 2), Span { from: 0, to: 2 });
    assert_eq!(Span::of(512, 512), Span { from: 1, to: 2 });
    assert_eq!(Span::of(u32::MAX, u64::MAX), Span { from: u16::MAX, to: u16::MAX });
    assert_eq!(Span { from: 1, to: 9 }.bytes(1000), 512..1000);
    assert_eq!((sectors(0), sectors(1), sectors(1024), sectors(1025)), (0, 1, 2, 3));
}

#[test]
fn random_references_agree_with_counts_of_single_sectors() {
    let mut steps = Vec::new();
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let number = 1 + random.below(40);
        let sectors = u16::try_from(number).unwrap();
        let length = u32::from(sectors) * SECTOR - u32::try_from(random.below(SECTOR.into())).unwrap();
        let (mut references, mut expected) = (References::NONE, vec![0_i64; usize::from(sectors)]);
        let mut named = Vec::new();
        for _ in 0..30 {
            let mut changes = vec![(span(&mut random, number), 1)];
            if random.below(2) == 0 && !named.is_empty() {
                changes.push((named.swap_remove(random.index(named.len())), -1));
            }
            named.push(changes[0].0);
            for (span, change) in &changes {
                expected[usize::from(span.from)..usize::from(span.to)]
                    .iter_mut()
                    .for_each(|count| *count += change);
            }
            references = references.changed(sectors, changes.iter().copied(), &mut steps).unwrap();
            let expected: Vec<u32> = expected.iter().map(|count| u32::try_from(*count).unwrap()).collect();
            assert_eq!(counts(&references, sectors), expected, "seed {seed}");
            assert_eq!(references.most(), expected.iter().max().copied());
            let is_named = |sector: u16| {
                references.named(sectors).iter().any(|span| (span.from..span.to).contains(&sector))
            };
            assert!(
                (0..sectors).all(|sector| is_named(sector) == (expected[usize::from(sector)] > 0)),
                "seed {seed}"
            );
            round_trip(&references, length);
            let mut whole = References::NONE;
            named.iter().for_each(|span| whole.add(*span));
            assert_eq!(whole.clipped(sectors), references, "seed {seed}");
            assert!(references.cover(&references) && references.cover(&References::NONE));
            assert!(!References::NONE.cover(&references) || references == References::NONE);
            let kept = Kept::parts(references.named(sectors), length);
            assert!(references.named(sectors).iter().all(|span| kept.has(*span)));
            assert_eq!(kept.spans(length).map(|span| span.length(length)).sum::<u32>(), kept.bytes(length));
        }
        let all = named.iter().map(|span| (*span, -1));
        assert_eq!(references.changed(sectors, all, &mut steps), Ok(References::NONE));
        let once_more = named.iter().chain(&named[..1]).map(|span| (*span, -1));
        assert_eq!(references.changed(sectors, once_more, &mut steps), Err(TooFew));
    }
}

#[test]
fn more_references_than_can_be_counted_are_unknown_for_ever() {
    let (all, mut steps) = (Span { from: 0, to: 8 }, Vec::new());
    let many = References::Each(u32::MAX - 1);
    let unknown = many.changed(8, std::iter::once((all, 1)), &mut steps).unwrap();
    assert_eq!(unknown, References::Unknown);
    assert_eq!(
        many.changed(8, std::iter::once((Span { from: 1, to: 2 }, 1)), &mut steps),
        Ok(References::Unknown)
    );
    assert_eq!(unknown.changed(8, std::iter::once((all, -1)), &mut steps), Ok(References::Unknown));
    round_trip(&unknown, 4096);
}

#[test]
fn what_is_not_written_so_is_refused() {
    let parts = |bytes: &[u16], length| {
        let bytes: Vec<u8> = bytes.iter().flat_map(|number| number.to_be_bytes()).collect();
        Kept::decode(&mut Reader::new(&bytes, "parts"), length)
    };
    assert_eq!(parts(&[1, 0, 2], 4096), Ok(Kept::Parts([Span { from: 0, to: 2 }].into())));
    // Empty, beyond the end, touching, overlapping, all of it, and cut off.
    for bad in [&[1, 2, 2][..], &[1, 0, 9], &[2, 0, 2, 2, 3], &[2, 3, 5, 0, 2], &[1, 0, 8], &[2, 0, 2]] {
        assert!(parts(bad, 4096).is_err(), "{bad:?}");
    }
    let runs = |numbers: &[(u16, u32)], length| {
        let mut bytes = u16::try_from(numbers.len()).unwrap().to_be_bytes().to_vec();
        for (end, count) in numbers {
            bytes.extend(end.to_be_bytes());
            bytes.extend(count.to_be_bytes());
        }
        References::decode(&mut Reader::new(&bytes, "runs"), length)
    };
    assert!(runs(&[(3, 1), (8, 0)], 4096).is_ok());
    for bad in
        [&[(3, 1), (7, 0)][..], &[(3, 1), (3, 0)], &[(3, 1), (8, 1)], &[(0, 1), (8, 0)], &[(9, 1), (10, 0)]]
    {
        assert!(runs(bad, 4096).is_err(), "{bad:?}");
    }
}
