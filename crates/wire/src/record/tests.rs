//! Records from streams that are split at every byte.

use super::*;
use crate::sample::Rng;

const LIMIT: usize = 1000;

fn fragment(bytes: &[u8], last: bool) -> Vec<u8> {
    let mark = length_u32(bytes.len()) | if last { LAST_FRAGMENT } else { 0 };
    [&mark.to_be_bytes()[..], bytes].concat()
}

/// Returns all records of the parts of a stream, and whether the stream ends between two records.
fn read_all(pieces: &[&[u8]]) -> Result<(Vec<Vec<u8>>, bool), RecordError> {
    let mut reader = RecordReader::new(LIMIT);
    let mut records = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(record) = reader.next(&mut input)? {
            records.push(record.to_vec());
        }
        assert!(input.is_empty());
    }
    assert!(reader.capacity() <= LIMIT);
    Ok((records, reader.is_between_records()))
}

#[test]
fn a_record_matches_bytes_from_the_rfc() {
    let mut out = vec![0xaa];
    write_record(&mut out, |record| record.u32(0x0102_0304));
    assert_eq!(out, [0xaa, 0x80, 0, 0, 4, 1, 2, 3, 4]);
}

#[test]
fn an_abandoned_record_leaves_nothing() {
    let mut out = vec![1, 2];
    let record = OpenRecord::begin(&mut out);
    out.extend_from_slice(b"half");
    record.abandon(&mut out);
    assert_eq!(out, [1, 2]);
}

#[test]
fn a_whole_record_is_borrowed_from_the_input() {
    let stream = fragment(b"whole", true);
    let mut reader = RecordReader::new(LIMIT);
    let mut input = stream.as_slice();
    let record = reader.next(&mut input).unwrap().unwrap();
    assert_eq!(record.as_ptr(), stream[MARK_BYTES..].as_ptr());
    assert_eq!(reader.capacity(), 0);
}

#[test]
fn every_split_of_a_stream_yields_the_same_records() {
    let stream = [
        fragment(b"one", true),
        fragment(b"t", false),
        fragment(b"", false),
        fragment(b"wo", true),
        fragment(b"", true),
        fragment(b"three", false),
        fragment(b"", true),
        fragment(b"four", true),
    ]
    .concat();
    let expected: Vec<Vec<u8>> = ["one", "two", "", "three", "four"].map(|record| record.into()).to_vec();
    assert_eq!(read_all(&[&stream]), Ok((expected.clone(), true)));
    assert_eq!(read_all(&stream.chunks(1).collect::<Vec<_>>()), Ok((expected.clone(), true)));
    for first in 0..stream.len() {
        for second in first..stream.len() {
            let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
            assert_eq!(read_all(&pieces), Ok((expected.clone(), true)), "cut at {first} and {second}");
        }
    }
}

#[test]
fn the_end_of_a_stream_within_a_record_is_detected() {
    let stream = [fragment(b"ab", false), fragment(b"cd", true)].concat();
    for cut in 1..stream.len() {
        assert_eq!(read_all(&[&stream[..cut]]), Ok((vec![], false)), "cut at {cut}");
    }
}

#[test]
fn a_record_over_the_limit_is_refused_at_its_mark_and_allocates_nothing() {
    for length in [LIMIT + 1, 0x7fff_ffff] {
        for last in [0, LAST_FRAGMENT] {
            let mark = (length_u32(length) | last).to_be_bytes();
            let mut reader = RecordReader::new(LIMIT);
            let error = RecordError::TooLong { length: length as u64, limit: LIMIT };
            assert_eq!(reader.next(&mut &mark[..]), Err(error));
            assert_eq!(reader.capacity(), 0);
            assert_eq!(peek(&mark, LIMIT), Err(error));
        }
    }
    assert_eq!(read_all(&[&fragment(&[7; LIMIT], true)]), Ok((vec![vec![7; LIMIT]], true)));
}

#[test]
fn the_limit_applies_to_the_sum_of_all_fragments() {
    let within = [fragment(&[7; LIMIT - 1], false), fragment(&[8], true)].concat();
    assert!(read_all(&[&within]).is_ok());
    let over = [fragment(&[7; LIMIT - 1], false), fragment(&[8; 2], true)].concat();
    assert_eq!(read_all(&[&over]), Err(RecordError::TooLong { length: LIMIT as u64 + 1, limit: LIMIT }));
}

#[test]
fn announced_lengths_are_not_allocated() {
    let mut reader = RecordReader::new(1 << 20);
    let mut input = &[0x80, 0x0f, 0xff, 0xff, 1, 2, 3][..];
    assert_eq!(reader.next(&mut input), Ok(None));
    assert!(reader.capacity() < 100);
    reader.release();
    assert!(!reader.is_between_records());
}

#[test]
fn release_frees_memory_only_between_records() {
    let stream = [fragment(b"ab", false), fragment(b"cd", true)].concat();
    let mut reader = RecordReader::new(LIMIT);
    assert_eq!(reader.next(&mut &stream[..7]), Ok(None));
    reader.release();
    let mut input = &stream[7..];
    assert_eq!(reader.next(&mut input), Ok(Some(&b"abcd"[..])));
    reader.release();
    assert_eq!(reader.capacity(), 0);
    assert!(reader.is_between_records());
    assert_eq!(reader.next(&mut &stream[..]), Ok(Some(&b"abcd"[..])));
}

#[test]
fn fragments_are_counted() {
    let stream = |empty: usize, full: usize| {
        [
            vec![fragment(b"", false); empty].concat(),
            vec![fragment(b"x", false); full].concat(),
            fragment(b"", true),
        ]
        .concat()
    };
    let empty_max = EMPTY_FRAGMENTS_MAX as usize;
    assert!(read_all(&[&stream(empty_max - 1, 0)]).is_ok());
    assert_eq!(read_all(&[&stream(empty_max, 0)]), Err(RecordError::TooManyFragments));

    let max = FRAGMENTS_MAX as usize;
    let mut reader = RecordReader::new(1 << 20);
    assert!(reader.next(&mut &stream(0, max - 1)[..]).unwrap().is_some());
    assert_eq!(reader.next(&mut &stream(0, max)[..]), Err(RecordError::TooManyFragments));
    // The count restarts with each record.
    assert!(read_all(&[&vec![fragment(b"", true); 100].concat()]).is_ok());
}

#[test]
fn peek_and_reader_agree() {
    let whole = fragment(b"abc", true);
    assert_eq!(peek(&whole, LIMIT), Ok(Peek::Complete { record: b"abc", used: 7 }));
    assert_eq!(peek(&[&whole[..], b"more"].concat(), LIMIT).unwrap(), peek(&whole, LIMIT).unwrap());
    for cut in 0..MARK_BYTES {
        assert_eq!(peek(&whole[..cut], LIMIT), Ok(Peek::Incomplete { needed: MARK_BYTES }));
    }
    for cut in MARK_BYTES..whole.len() {
        assert_eq!(peek(&whole[..cut], LIMIT), Ok(Peek::Incomplete { needed: 7 }));
    }
    assert_eq!(peek(&fragment(b"abc", false), LIMIT), Ok(Peek::Fragmented));
}

#[test]
fn random_streams_in_random_parts_yield_their_records() {
    for seed in 0..500 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..rng.below(12) {
            let fragments = 1 + rng.below(4);
            let mut record = Vec::new();
            for index in 1..=fragments {
                let bytes = rng.bytes(80);
                stream.extend(fragment(bytes, index == fragments));
                record.extend_from_slice(bytes);
            }
            expected.push(record);
        }
        let mut pieces = Vec::new();
        let mut rest = stream.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rng.below(rest.len().min(120) + 1));
            pieces.push(piece);
            rest = after;
        }
        assert_eq!(read_all(&pieces), Ok((expected, true)));
    }
}

#[test]
fn noise_never_panics() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        // Noise may be an error or not; it must only end.
        let _ = read_all(&[rng.bytes(200), rng.bytes(200)]);
        let _ = peek(rng.bytes(20), LIMIT);
    }
}

#[test]
fn large_rests_of_records_are_received_in_place() {
    let limit = 1 << 20;
    let mut rng = Rng::new(5);
    let mut reader = RecordReader::new(limit);
    for round in 0..20 {
        let record: Vec<u8> = (0..25_000 + 4000 * round).flat_map(|_| rng.next().to_be_bytes()).collect();
        let (first, second) = record.split_at(record.len() - 90 * round);
        let stream = [fragment(first, false), fragment(second, true), fragment(b"next", true)].concat();
        let (mut rest, mut records, mut direct) = (stream.as_slice(), Vec::new(), 0);
        while !rest.is_empty() {
            let space = reader.space();
            let count = space.len().min(rest.len()).min(50_000 + 1000 * round);
            space[..count].copy_from_slice(&rest[..count]);
            let mut input: &[u8] = &[];
            if count > 0 {
                reader.received(count);
                rest = &rest[count..];
                direct += count;
            } else {
                let count = rest.len().min(30_000);
                (input, rest) = rest.split_at(count);
            }
            while !input.is_empty() || reader.has_completed() {
                records.extend(reader.next(&mut input).unwrap().map(<[u8]>::to_vec));
            }
        }
        assert!(records == [record.clone(), b"next".to_vec()], "round {round}");
        assert!(direct > first.len() / 2, "most of it was not copied");
        assert!(reader.is_between_records() && reader.capacity() <= limit);
    }
}

#[test]
fn the_length_of_a_record_that_has_begun_is_known() {
    let mut reader = RecordReader::new(1000);
    let mut feed = |bytes: &[u8]| {
        let completed = reader.next(&mut &bytes[..]).unwrap().is_some();
        (completed, reader.record_bytes_max())
    };
    let whole = fragment(&[7; 300], true);
    assert_eq!(feed(&whole[..3]), (false, 0), "the mark is incomplete");
    assert_eq!(feed(&whole[3..100]), (false, 300));
    assert_eq!(feed(&whole[100..]), (true, 0));
    let first = fragment(&[7; 10], false);
    assert_eq!(feed(&first[..5]), (false, 1000), "more fragments follow");
    assert_eq!(feed(&first[5..]), (false, 1000));
    assert_eq!(feed(&whole[..8]), (false, 310));
    assert_eq!(feed(&whole[8..]), (true, 0));
}

#[test]
fn a_part_that_is_cut_out_goes_past_the_reader() {
    let stream = [fragment(b"head PAYLOAD tail", true), fragment(b"next", true)].concat();
    for cut in 0..stream.len() {
        let mut reader = RecordReader::new(LIMIT);
        let (mut payload, mut records) = (Vec::new(), Vec::new());
        for mut input in [&stream[..cut], &stream[cut..]] {
            while !input.is_empty() || reader.has_completed() {
                let missing = reader.cut.map_or(0, |cut| cut.missing);
                if missing > 0 {
                    let (passing, rest) = input.split_at(missing.min(input.len()));
                    payload.extend_from_slice(passing);
                    reader.passed(passing.len());
                    assert_eq!(reader.record_bytes_max(), 17);
                    input = rest;
                    continue;
                }
                reader.begin(&mut input).unwrap();
                if reader.whole_length() == Some(17) && reader.cut.is_none() {
                    let start = reader.take_start(&mut input, 9).to_vec();
                    if let Some(arrived) = start.get(5..) {
                        payload.extend_from_slice(arrived);
                        reader.cut_out(5, 7);
                        assert!(reader.space().is_empty() && !reader.is_between_records());
                    }
                } else if let Some(record) = reader.next(&mut input).unwrap() {
                    records.push(record.to_vec());
                }
            }
        }
        assert_eq!(payload, b"PAYLOAD", "split at {cut}");
        assert_eq!(records, [&b"head  tail"[..], b"next"], "split at {cut}");
        assert!(reader.is_between_records());
    }
}
