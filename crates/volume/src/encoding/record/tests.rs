use super::*;
use crate::api::attributes::{Device, FileType};
use crate::api::ids::{Cookie, ExtentId, Ino, SegmentId};
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Table};
use crate::limits::XATTR_VALUE_BYTES_MAX;

fn inode() -> InodeRecord {
    InodeRecord {
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
        pending_truncations: vec![
            PendingTruncation { from: 10, count: 4 },
            PendingTruncation { from: 20, count: 5 },
        ],
        xattrs: 0,
        xattr_bytes: 0,
    }
}

#[test]
fn inode_records_round_trip_and_truncated_ones_are_refused() {
    let record = inode();
    let bytes = record.encode();
    assert_eq!(InodeRecord::decode(&bytes), Ok(record));
    for length in 0..bytes.len() {
        assert!(InodeRecord::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert!(InodeRecord::decode(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn inode_records_omit_zero_counts_of_extended_attributes() {
    let bare = inode();
    let record = InodeRecord { xattrs: 2, xattr_bytes: 77, ..bare.clone() };
    let bytes = record.encode();
    assert_eq!(bytes, [&bare.encode()[..], &[0, 0, 0, 2, 0, 0, 0, 77]].concat());
    assert_eq!(InodeRecord::decode(&bytes), Ok(record));
    for length in 1..8 {
        assert!(InodeRecord::decode(&bytes[..bytes.len() - length]).is_err(), "{length} bytes fewer");
    }
    let none = [&bare.encode()[..], &[0; 8]].concat();
    assert!(InodeRecord::decode(&none).is_err(), "zero counts are not encoded");
}

/// The encodings that docs/format.md states.
#[test]
fn the_encoding_of_keys_and_holes_is_fixed() {
    let prefix = |member: u8, table: u8| vec![0, 0, 0, member, table];
    let ino = Ino(0x0102_0304_0506_0708);
    let number = [1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(*key::xattr(FIRST.object(ino), b"name"), [&prefix(1, 0x08)[..], &number, b"name"].concat());
    assert_eq!(*key::state(FIRST, b"any"), [&prefix(1, 0x09)[..], b"any"].concat());
    assert_eq!(*key::orphan(FIRST.object(ino)), [&prefix(1, 0x0a)[..], &number].concat());
    assert!(decode_xattr(&vec![0; XATTR_VALUE_BYTES_MAX + 1]).is_err());
    let hole = ExtentMapping { start: 0x1122, birth: 5, source: Source::Hole };
    let bytes = [0, 0, 0, 0, 0, 0, 0x11, 0x22, 0, 0, 0, 5, 2];
    assert_eq!(hole.encode(), bytes);
    assert_eq!(ExtentMapping::decode(&bytes), Ok(hole));
    assert!(ExtentMapping::decode(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn only_the_present_format_is_decoded() {
    let anchor = crate::encoding::anchor::Anchor {
        journal: [9; 16],
        seq: crate::api::ids::Seq(3),
        start: 4096,
        position: 8192,
        checksum: 5,
    };
    let meta = MetaRecord {
        pool: crate::api::ids::PoolId(7),
        generation: crate::api::ids::Generation(1),
        next_volume: crate::api::ids::VolumeNumber(2),
        next_extent: ExtentId(1),
        next_segment: SegmentId(1),
        time_ceiling: Time::from_nanos(5),
        anchor,
    };
    let mut bytes = meta.encode();
    assert_eq!(MetaRecord::decode(&bytes), Ok(meta));
    for format in [0, MetaRecord::FORMAT - 1, MetaRecord::FORMAT + 1] {
        bytes[..4].copy_from_slice(&format.to_be_bytes());
        assert!(MetaRecord::decode(&bytes).is_err());
        assert_eq!(MetaRecord::format_of(&bytes), Some(format));
    }
}

#[test]
fn records_about_volumes_round_trip_and_truncated_ones_are_refused() {
    let record = VolumeRecord {
        id: crate::api::ids::VolumeId(0x0102_0304_0506_0708),
        handle_secret: [9; 16],
        next_ino: Ino(77),
        size: None,
        is_deleted: false,
        name: "scratch".to_owned(),
    };
    for size in [None, Some(0), Some(1 << 40)] {
        let record = VolumeRecord { size, ..record.clone() };
        let bytes = record.encode();
        assert_eq!(VolumeRecord::decode(&bytes), Ok(record));
        assert!((0..41).all(|length| VolumeRecord::decode(&bytes[..length]).is_err()));
    }
    assert!(!format!("{record:?}").contains("9, 9"), "the secret is not shown");
}

#[test]
fn a_truncation_hides_older_mappings_and_supersedes_longer_ones() {
    let mut record = InodeRecord { truncations: 0, pending_truncations: Vec::new(), ..inode() };
    record.truncate(100);
    record.truncate(200);
    assert_eq!((record.visible_end(0), record.visible_end(1), record.visible_end(2)), (100, 200, u64::MAX));
    record.truncate(150);
    assert_eq!(
        record.pending_truncations,
        [PendingTruncation { from: 100, count: 1 }, PendingTruncation { from: 150, count: 3 }]
    );
    assert_eq!((record.visible_end(0), record.visible_end(2), record.visible_end(3)), (100, 150, u64::MAX));
    for from in (151..400).chain([160, 300]).chain(301..380) {
        record.truncate(from);
        for birth in (0..=record.truncations).step_by(7) {
            let hiding = record.pending_truncations.iter().filter(|cut| cut.count > birth);
            assert_eq!(record.visible_end(birth), hiding.map(|cut| cut.from).min().unwrap_or(u64::MAX));
        }
    }
    let record = &mut InodeRecord { truncations: 3, ..record };
    record.truncate(0);
    assert_eq!(record.pending_truncations, [PendingTruncation { from: 0, count: 4 }]);
}

#[test]
fn extent_checksums_cover_data_and_location() {
    let bytes = [7; 3 * BLOCK / 2];
    let record = ExtentRecord::of(&bytes, SegmentId(3), 4096 + 24);
    assert_eq!(ExtentRecord::decode(&record.encode()), Ok(record.clone()));
    assert_eq!(record.checksums.len(), 2);
    assert_eq!(record.checksums[0], ExtentRecord::checksum(&bytes[..BLOCK], SegmentId(3), 4120));
    assert_ne!(record.checksums[0], ExtentRecord::checksum(&bytes[..BLOCK], SegmentId(4), 4120));
    assert_ne!(record.checksums[0], ExtentRecord::checksum(&bytes[..BLOCK], SegmentId(3), 4096));
}

#[test]
fn damaged_extent_headers_are_refused() {
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
fn decoding_arbitrary_bytes_never_panics() {
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
        let _ = crate::encoding::entry::Entry::decode(&bytes);
    }
}

/// Returns an inode of this type, otherwise empty.
pub(crate) fn record_of(file_type: crate::api::attributes::FileType) -> InodeRecord {
    let time = crate::api::time::Time::EPOCH;
    InodeRecord {
        file_type,
        mode: 0o644,
        links: 1,
        uid: 0,
        gid: 0,
        size: 0,
        used: 0,
        mapped_end: 0,
        device: crate::api::attributes::Device::default(),
        atime: time,
        mtime: time,
        ctime: time,
        change: 1,
        parent: crate::api::ids::Ino(0),
        next_cookie: crate::api::ids::Cookie(0),
        entries: 0,
        tree: 0,
        create_verifier: None,
        truncations: 0,
        pending_truncations: Vec::new(),
        xattrs: 0,
        xattr_bytes: 0,
    }
}
