use super::*;
use crate::api::ids::ExtentId;
use crate::bytes::{Slice, WriteData};
use crate::media::memory::{MemoryMedia, Random};
use crate::scenarios::seeds::fresh_seed;

const CAPACITY: u64 = 1 << 20;

fn segments() -> (Arc<MemoryMedia>, Segments) {
    let disk = MemoryMedia::new();
    let segments = Segments::new(Arc::clone(&disk) as Arc<dyn Media>, CAPACITY, 1);
    (disk, segments)
}

fn append(stream: &mut Stream, segments: &Segments, number: u64, bytes: &[u8]) -> io::Result<ExtentRecord> {
    stream.append(segments, ExtentId(number), std::iter::once(bytes))
}

#[test]
fn appended_extents_are_read_back_and_verified() {
    let random = &mut Random::new(3);
    let (disk, segments) = segments();
    let mut stream = Stream::default();
    let mut written = Vec::new();
    for number in 1..60 {
        let length = usize::try_from(1 + random.below(EXTENT_BYTES_MAX as u64)).unwrap();
        let bytes = random.bytes(length);
        let record = append(&mut stream, &segments, number, &bytes).unwrap();
        assert!(record.offset + u64::from(record.stored) <= CAPACITY, "the extent exceeds its segment");
        written.push((bytes, record));
        if random.below(4) == 0 {
            stream.flush(&segments).unwrap();
        }
    }
    stream.flush(&segments).unwrap();
    for (bytes, record) in &written {
        assert_eq!(*segments.read(record, 0, u32::MAX).unwrap(), **bytes);
        let blocks = u32::try_from(bytes.len().div_ceil(BLOCK)).unwrap();
        let last = u32::try_from(random.below(u64::from(blocks))).unwrap();
        let range = last as usize * BLOCK..bytes.len().min((last as usize + 1) * BLOCK);
        assert_eq!(*segments.read(record, last, last).unwrap(), bytes[range]);
    }
    let records: Vec<&ExtentRecord> = written.iter().map(|(_, record)| record).collect();
    let all = segments.read_whole(&records);
    assert!(all.iter().zip(&written).all(|(read, (bytes, _))| **read.as_ref().unwrap() == **bytes));
    // A flipped bit makes only its block unreadable.
    let (bytes, record) = &written[7];
    let place = usize::try_from(record.offset).unwrap() + bytes.len() - 1;
    disk.blob(record.segment).flip(place, 4);
    let last = u32::try_from((bytes.len() - 1) / BLOCK).unwrap();
    assert_eq!(segments.read(record, last, last).unwrap_err().kind(), io::ErrorKind::InvalidData);
    if last > 0 {
        assert!(segments.read(record, 0, last - 1).is_ok());
    }
    let failed: Vec<usize> =
        (0..).zip(segments.read_whole(&records)).filter_map(|(at, read)| read.err().map(|_| at)).collect();
    assert_eq!(failed, [7], "only its extent");
    // The right bytes in the wrong place are refused too.
    let moved = ExtentRecord { segment: SegmentId(record.segment.0 + 1), ..written[6].1.clone() };
    assert!(segments.read(&moved, 0, 0).is_err());
}

#[test]
fn extents_are_found_in_a_segment_read_in_parts() {
    let random = &mut Random::new(4);
    let (disk, segments) = segments();
    let mut stream = Stream::default();
    let mut written = Vec::new();
    for number in 1..40 {
        let length = usize::try_from(1 + random.below(30_000)).unwrap();
        let mut bytes = random.bytes(length);
        if number == 20 {
            // File data that looks like the header of an oversized extent.
            bytes[..ExtentHeader::BYTES]
                .copy_from_slice(&ExtentHeader { id: ExtentId(9), length: u32::MAX }.encode());
        }
        let record = append(&mut stream, &segments, number, &bytes).unwrap();
        written.push((record.segment, record.offset, number));
        if number % 7 == 0 {
            stream.flush(&segments).unwrap();
        }
    }
    stream.flush(&segments).unwrap();
    let mut all = Vec::new();
    for (id, info) in segments.infos() {
        let bytes = disk.blob(id).bytes();
        let bytes = &bytes[..usize::try_from(info.written).unwrap()];
        let mut at = 0;
        while at < bytes.len() {
            let end = bytes.len().min(at + 100_000);
            let is_last = end == bytes.len();
            let (found, scanned) = find_extents(&bytes[at..end], is_last);
            all.extend(found.iter().map(|(start, header)| (id, (at + start) as u64, header.id.0)));
            if is_last {
                break;
            }
            assert!(scanned > 0, "the scan made no progress");
            at += scanned;
        }
    }
    assert_eq!(all, written);
}

/// Bytes in parts as unstable data has them: received, cut, perhaps clipped.
fn parts(random: &mut Random, pool: &Arc<Pool>) -> Vec<Slice> {
    let full = EXTENT_BYTES_MAX as u64;
    let mut left = if random.below(3) > 0 { full } else { 1 + random.below(full) };
    let mut parts = Vec::new();
    while left > 0 {
        let unit = [1, 4096, full][usize::try_from(random.below(3)).unwrap()];
        let length = (1 + random.below(left)).next_multiple_of(unit).min(left);
        let skip = if random.below(4) == 0 { 1 + random.below(9000) } else { 0 };
        let bytes = random.bytes(usize::try_from(skip + length).unwrap());
        let mut pieces = Vec::new();
        WriteData::from(&bytes).for_each_piece(pool, 0, |_, piece| pieces.push(piece));
        let piece = Slice::from(pieces.remove(0));
        let piece = piece.part(usize::try_from(skip).unwrap().min(piece.len() - 1)..piece.len());
        left = left.saturating_sub(piece.len() as u64);
        parts.push(piece);
    }
    let excess = parts.iter().map(|part| part.len()).sum::<usize>().saturating_sub(EXTENT_BYTES_MAX);
    if let Some(last) = parts.pop() {
        parts.push(last.part(0..last.len() - excess));
    }
    parts
}

#[test]
fn extents_from_where_they_lie_are_found_read_back_and_within_the_reserved_space() {
    let mut unpacked = 0;
    for seed in 0..20 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (disk, segments) = segments();
        let mut stream = Stream::default();
        let (mut written, mut reserved) = (Vec::new(), 0);
        for number in 1..60 {
            let parts = parts(random, segments.pool());
            let bytes = parts.concat();
            let record = match random.below(4) {
                0 => append(&mut stream, &segments, number, &bytes).unwrap(),
                _ => stream.append_shared(&segments, ExtentId(number), &parts).unwrap(),
            };
            assert_eq!(record, ExtentRecord::of(&bytes, record.segment, record.offset));
            unpacked += u32::from(record.offset.is_multiple_of(BLOCK_BYTES));
            reserved += space::footprint(bytes.len() as u64, parts.len() as u64);
            written.push((bytes, record, number));
            if random.below(8) == 0 {
                stream.flush(&segments).unwrap();
                reserved += BLOCK_BYTES;
            }
        }
        stream.flush(&segments).unwrap();
        for (bytes, record, _) in &written {
            assert_eq!(*segments.read(record, 0, u32::MAX).unwrap(), **bytes);
        }
        let places: Vec<(SegmentId, u64, u64)> =
            written.iter().map(|(_, record, number)| (record.segment, record.offset, *number)).collect();
        let mut taken = 0;
        let mut found = Vec::new();
        for (id, info) in segments.infos() {
            let bytes = disk.blob(id).bytes();
            let bytes = &bytes[..usize::try_from(info.written).unwrap()];
            let extents = find_extents(bytes, true).0;
            found.extend(extents.iter().map(|(start, header)| (id, *start as u64, header.id.0)));
            taken += info.written;
        }
        assert_eq!(found, places);
        let heads = segments.infos().len() as u64 * 2 * BLOCK_BYTES;
        assert!(taken <= reserved + heads, "{taken} bytes were written, {reserved} reserved");
        let fits = segments.usable_bytes() * segments.infos().len() as u64;
        assert!(reserved >= fits - segments.usable_bytes(), "segments take less than promised");
    }
    assert!(unpacked > 100);
}

/// Keeps where the parts of appends lie in memory.
#[derive(Default)]
struct Watched(Mutex<Vec<(usize, usize)>>);

impl Blob for Watched {
    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn append(&self, _: u64, parts: &[std::io::IoSlice<'_>]) -> io::Result<()> {
        self.0.lock().extend(parts.iter().map(|part| (part.as_ptr().addr(), part.len())));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn large_extents_are_written_from_where_they_lie() {
    let (_disk, segments) = segments();
    let watched = Arc::new(Watched::default());
    segments.state.lock().spare.push((SegmentId(9), Arc::clone(&watched) as Arc<dyn Blob>));
    let mut arriving = crate::bytes::Arriving::new(segments.pool(), 0, 5 * EXTENT_BYTES_MAX);
    arriving.take(&Random::new(1).bytes(5 * EXTENT_BYTES_MAX));
    let received = arriving.finish();
    let mut stream = Stream::default();
    let mut places = Vec::new();
    WriteData::from(&received).for_each_piece(segments.pool(), 0, |at, piece| {
        places.push((piece.as_ptr().addr(), piece.len()));
        let halves = [Slice::new(piece.clone(), 0..8192), Slice::new(piece.clone(), 8192..piece.len())];
        stream.append_shared(&segments, ExtentId(at + 1), &halves).unwrap();
    });
    stream.flush(&segments).unwrap();
    let parts = watched.0.lock().clone();
    assert!(parts.iter().all(|(place, length)| (place | length).is_multiple_of(BLOCK)));
    let copied = parts.iter().map(|(_, length)| length).sum::<usize>() - received.len();
    assert_eq!(copied, 6 * BLOCK, "the first block and headers");
    for (place, length) in places {
        assert!(parts.contains(&(place, 8192)) && parts.contains(&(place + 8192, length - 8192)));
    }
}

#[test]
fn a_segment_counts_pending_extents() {
    let (_disk, segments) = segments();
    let mut stream = Stream::default();
    let record = append(&mut stream, &segments, 1, &[1; 100]).unwrap();
    append(&mut stream, &segments, 2, &[2; 100]).unwrap();
    let info = || segments.info(record.segment).unwrap();
    assert_eq!((info().pending, info().written, info().sealed), (2, 0, false));
    stream.flush(&segments).unwrap();
    assert_eq!(info().written, 2 * BLOCK_BYTES);
    segments.resolve_pending(record.segment, 1, Some(Layer(4)));
    segments.resolve_pending(record.segment, 1, None);
    assert_eq!((info().pending, info().newest_layer), (0, Layer(4)));
    stream.seal(&segments);
    assert!(info().sealed);
    segments.delete(record.segment).unwrap();
    assert!(segments.info(record.segment).is_none());
    segments.delete(record.segment).unwrap();
}

#[test]
fn a_failed_append_leaves_nothing_pending() {
    let (disk, segments) = segments();
    let mut stream = Stream::default();
    segments.add_spare().unwrap();
    disk.refuse_appends(true);
    // More than the stream buffers, so that the append itself writes.
    let bytes = vec![5; EXTENT_BYTES_MAX];
    let failed = (1..20).find_map(|number| append(&mut stream, &segments, number, &bytes).err());
    assert!(failed.is_some() || stream.flush(&segments).is_err());
    let (id, info) = segments.infos()[0];
    let settled = u64::from(failed.is_none());
    assert!(info.pending + settled <= 8, "the caller settles the extents before it: {info:?}");
    disk.refuse_appends(false);
    stream.seal(&segments);
    let record = append(&mut stream, &segments, 50, &bytes).unwrap();
    assert_ne!(record.segment, id, "nothing is appended to a segment that failed");
}

#[test]
fn the_number_of_open_blobs_is_bounded() {
    let (_disk, segments) = segments();
    let mut stream = Stream::default();
    for number in 0..OPEN_BLOBS_MAX as u64 + 20 {
        append(&mut stream, &segments, number, &[1]).unwrap();
        stream.seal(&segments);
    }
    segments.state.lock().blobs.clear();
    for (id, _) in segments.infos() {
        segments.blob(id).unwrap();
        assert!(segments.state.lock().blobs.len() <= OPEN_BLOBS_MAX);
    }
}

#[test]
fn few_segments_stay_open_however_many_are_written() {
    let (_disk, segments) = segments();
    let mut stream = Stream::default();
    let mut last = None;
    for number in 0..OPEN_BLOBS_MAX as u64 + 20 {
        last = Some(append(&mut stream, &segments, number + 1, &[7; 5000]).unwrap());
        stream.flush(&segments).unwrap();
        stream.seal(&segments);
    }
    assert!(segments.state.lock().blobs.len() <= OPEN_BLOBS_MAX);
    assert_eq!(*segments.read(&last.unwrap(), 0, u32::MAX).unwrap(), [7; 5000]);
}

#[test]
fn what_segments_hold_is_the_sum_over_all_of_them() {
    for seed in [1, 2, 3, fresh_seed()] {
        let random = &mut Random::new(seed);
        let (_, segments) = segments();
        for turn in 0..2000 {
            let id = SegmentId(random.below(40));
            let info = SegmentInfo {
                capacity: CAPACITY,
                written: random.below(CAPACITY),
                live: if random.below(50) == 0 { u64::MAX } else { random.below(CAPACITY) },
                pending: random.below(2),
                newest_layer: Layer(random.below(9)),
                sealed: random.below(3) > 0,
            };
            match random.below(4) {
                0 if segments.info(id).is_none() => segments.load(id, info),
                1 => segments.delete(id).unwrap(),
                _ => segments.update(id, |old| *old = info),
            }
            let oldest = Layer(turn / 100 % 10);
            let mut all = Holding { segments: segments.infos().len() as u64, ..Holding::default() };
            for (_, info) in segments.infos() {
                let bytes = if info.is_settled(oldest) { info.live } else { info.written };
                all.bytes = all.bytes.saturating_add(bytes);
                if info.is_settled(oldest) && info.live.saturating_mul(100) >= CAPACITY * LIVE_PERCENT_MAX {
                    all.unused += segments.usable_bytes().saturating_sub(info.live);
                }
            }
            assert_eq!(segments.holding(oldest), all, "turn {turn}");
        }
    }
}
