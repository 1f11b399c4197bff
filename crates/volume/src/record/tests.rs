use super::*;
use crate::attributes::{Device, FileType};
use crate::ids::{Cookie, ExtentId, Ino, SegmentId};
use crate::key::Table;
use crate::time::Time;

fn inode() -> InodeRecord {
    InodeRecord {
        epoch: Epoch(1),
        file_type: FileType::Regular,
        mode: 0o6755,
        links: 3,
        uid: 1000,
        gid: 100,
        size: 1 << 40,
        used: 12345,
        mapped_end: 99999,
        device: Device { major: 8, minor: 1 },
        atime: Time::from_nanos(-5),
        mtime: Time::from_nanos(1),
        ctime: Time::from_nanos(i64::MAX),
        change: u64::MAX,
        parent: Ino(7),
        next_cookie: Cookie(9),
        entries: 4,
        tree: 2,
        create_verifier: Some(*b"verifier"),
        truncations: 5,
        cuts: vec![Cut { from: 10, count: 4 }, Cut { from: 20, count: 5 }],
        xattrs: 0,
        xattr_bytes: 0,
    }
}

#[test]
fn an_inode_record_survives_its_bytes_and_no_part_of_them_passes_for_one() {
    let record = inode();
    let bytes = record.encode();
    assert_eq!(InodeRecord::decode(&bytes), Ok(record));
    for length in 0..bytes.len() {
        assert!(InodeRecord::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert!(InodeRecord::decode(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn a_cut_hides_older_pieces_beyond_it_and_forgets_those_that_it_dominates() {
    let mut record = InodeRecord { truncations: 0, cuts: Vec::new(), ..inode() };
    record.cut(100);
    record.cut(200);
    assert_eq!((record.visible_end(0), record.visible_end(1), record.visible_end(2)), (100, 200, u64::MAX));
    record.cut(150);
    assert_eq!(record.cuts, [Cut { from: 100, count: 1 }, Cut { from: 150, count: 3 }]);
    assert_eq!((record.visible_end(0), record.visible_end(2), record.visible_end(3)), (100, 150, u64::MAX));
    record.cut(0);
    assert_eq!(record.cuts, [Cut { from: 0, count: 4 }]);
}

#[test]
fn an_extent_knows_its_bytes_and_their_place() {
    let bytes = [7; 3 * BLOCK / 2];
    let record = ExtentRecord::of(&bytes, SegmentId(3), 4096 + 24);
    assert_eq!(ExtentRecord::decode(&record.encode()), Ok(record.clone()));
    assert_eq!(record.checksums.len(), 2);
    assert_eq!(record.checksums[0], ExtentRecord::checksum(&bytes[..BLOCK], SegmentId(3), 4120));
    assert_ne!(record.checksums[0], ExtentRecord::checksum(&bytes[..BLOCK], SegmentId(4), 4120));
    assert_ne!(record.checksums[0], ExtentRecord::checksum(&bytes[..BLOCK], SegmentId(3), 4096));
}

#[test]
fn an_extent_header_is_found_only_whole_and_unchanged() {
    let header = ExtentHeader { id: ExtentId(77), length: 1234 };
    let bytes = header.encode();
    assert_eq!(ExtentHeader::decode(&bytes), Some(header));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(ExtentHeader::decode(&damaged), None, "bit {bit}");
    }
}

#[test]
fn made_up_bytes_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let length = usize::try_from(random() % 200).expect("small");
        let bytes: Vec<u8> = (0..length).map(|_| random().to_be_bytes()[0] % 8).collect();
        for table in Table::ALL {
            let _ = describe(table, &bytes);
        }
        let _ = crate::entry::Entry::decode(&bytes);
    }
}
