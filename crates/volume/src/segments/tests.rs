use super::*;
use crate::media::memory::{MemoryMedia, Random};

const CAPACITY: u64 = 1 << 20;

fn segments() -> (Arc<MemoryMedia>, Segments) {
    let disk = MemoryMedia::new();
    let segments = Segments::new(Arc::clone(&disk) as Arc<dyn Media>, CAPACITY, 1);
    (disk, segments)
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
        let record = stream.append(&segments, ExtentId(number), &bytes).unwrap();
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
    // A flipped bit makes only its block unreadable.
    let (bytes, record) = &written[7];
    let place = usize::try_from(record.offset).unwrap() + bytes.len() - 1;
    disk.blob(record.segment).flip(place, 4);
    let last = u32::try_from((bytes.len() - 1) / BLOCK).unwrap();
    assert_eq!(segments.read(record, last, last).unwrap_err().kind(), io::ErrorKind::InvalidData);
    if last > 0 {
        assert!(segments.read(record, 0, last - 1).is_ok());
    }
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
        let record = stream.append(&segments, ExtentId(number), &bytes).unwrap();
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

#[test]
fn a_segment_counts_pending_extents() {
    let (_disk, segments) = segments();
    let mut stream = Stream::default();
    let record = stream.append(&segments, ExtentId(1), &[1; 100]).unwrap();
    stream.append(&segments, ExtentId(2), &[2; 100]).unwrap();
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
    let failed = (1..20).find_map(|number| stream.append(&segments, ExtentId(number), &bytes).err());
    assert!(failed.is_some() || stream.flush(&segments).is_err());
    let (id, info) = segments.infos()[0];
    let settled = u64::from(failed.is_none());
    assert!(info.pending + settled <= 8, "the caller settles the extents before it: {info:?}");
    disk.refuse_appends(false);
    stream.seal(&segments);
    let record = stream.append(&segments, ExtentId(50), &bytes).unwrap();
    assert_ne!(record.segment, id, "nothing is appended to a segment that failed");
}

#[test]
fn the_number_of_open_blobs_is_bounded() {
    let (_disk, segments) = segments();
    let mut stream = Stream::default();
    for number in 0..OPEN_BLOBS_MAX as u64 + 20 {
        stream.append(&segments, ExtentId(number), &[1]).unwrap();
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
        last = Some(stream.append(&segments, ExtentId(number + 1), &[7; 5000]).unwrap());
        stream.flush(&segments).unwrap();
        stream.seal(&segments);
    }
    assert!(segments.state.lock().blobs.len() <= OPEN_BLOBS_MAX);
    assert_eq!(*segments.read(&last.unwrap(), 0, u32::MAX).unwrap(), [7; 5000]);
}
