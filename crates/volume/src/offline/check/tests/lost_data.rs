//! Data that a repair has found to be lost: a mapping says so until the range is written again, cut off or removed.

use super::planter::Planter;
use super::world::{World, assert_clean};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::api::results::Stability;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Table};
use crate::encoding::record::{ExtentMapping, Source};
use crate::offline::check::FaultKind;

/// Where the data of the file is lost.
const LOST: std::ops::Range<u64> = 65_536..120_000;

/// Returns a volume whose file has lost the data of a range, and the content of the file.
fn lacking() -> (Planter, Vec<u8>) {
    let planter = Planter::new();
    let content = vec![5; 200_000];
    let (old_end, old) = planter
        .pieces()
        .into_iter()
        .find(|(end, piece)| piece.start <= LOST.start && *end >= LOST.end)
        .expect("the range lies in one extent");
    let part = |from: u64, to: u64| {
        let piece = crate::transaction::change::clip_mapping(&old, from, to);
        planter.put(&key::map(FIRST.object(planter.file), to), Some(&piece.encode()));
    };
    planter.put(&key::map(FIRST.object(planter.file), old_end), None);
    part(old.start, LOST.start);
    part(LOST.end, old_end);
    planter.put_mapping(planter.file, LOST.end, LOST.start, Source::Lost);
    planter.recount();
    (planter, content)
}

fn usage(world: &World) -> u64 {
    world.volume.usage.of(FIRST).bytes
}

#[test]
fn lost_data_is_reported_and_reads_of_it_fail() {
    let (planter, content) = lacking();
    let said = planter.expect(&[(
        FaultKind::Data,
        Some("/d/f"),
        "it has lost 54464 bytes of data, the first at byte 65536: ",
    )]);
    assert_eq!(said.summary.lost_bytes, LOST.end - LOST.start);
    let mut world = World::open(planter.media);
    let read = world.read(planter.file).unwrap();
    assert!(read == content[..65_536], "a READ ends before what is lost");
    assert_eq!(world.read_from(planter.file, LOST.start), Err(Error::Io));
    assert_eq!(world.read_from(planter.file, LOST.end - 1), Err(Error::Io));
    assert!(world.read_from(planter.file, LOST.end).unwrap() == content[120_000..]);
}

#[test]
fn what_is_written_over_lost_data_replaces_it() {
    let (planter, mut content) = lacking();
    let mut world = World::open(planter.media);
    let before = usage(&world);
    for (offset, length) in [(60_000, 10_000), (119_000, 5_000), (80_000, 100)] {
        world.write(planter.file, offset as u64, &vec![8; length], Stability::FileSync).unwrap();
        content[offset..offset + length].fill(8);
    }
    assert_eq!(usage(&world), before, "lost data counts as stored");
    assert_eq!(world.read(planter.file).unwrap(), content[..70_000]);
    world.checkpoint();
    assert!(world.read(planter.file).unwrap() == content[..70_000], "from the index, too");
    assert!(world.read_from(planter.file, 119_000).unwrap() == content[119_000..]);
    world.write(planter.file, 70_000, &vec![9; 49_000], Stability::FileSync).unwrap();
    content[70_000..119_000].fill(9);
    assert!(world.read(planter.file).unwrap() == content);
    assert_clean(&world.close());
}

#[test]
fn truncation_a_hole_and_removal_end_lost_data() {
    let (planter, content) = lacking();
    let mut world = World::open(planter.media);
    world.set(planter.file, &SetAttributes { size: Some(80_000), ..SetAttributes::default() }).unwrap();
    world.set(planter.file, &SetAttributes { size: Some(90_000), ..SetAttributes::default() }).unwrap();
    assert_eq!(world.read_from(planter.file, 80_000).unwrap(), [0; 10_000], "nothing is lost there any more");
    assert_eq!(world.read_from(planter.file, 79_999), Err(Error::Io));
    world.punch(planter.file, 60_000, 20_000).unwrap();
    let mut expected = content[..60_000].to_vec();
    expected.resize(90_000, 0);
    assert!(world.read(planter.file).unwrap() == expected);
    assert_clean(&world.close());

    let (planter, _) = lacking();
    let mut world = World::open(planter.media);
    world.remove(planter.directory, "f").unwrap();
    assert_eq!(usage(&world), 0);
    assert_clean(&world.close());
}

#[test]
fn lost_data_is_not_shared() {
    let (planter, _) = lacking();
    let mut world = World::open(planter.media);
    let copy = world.create(Ino::ROOT, "copy").unwrap();
    assert!(world.clone_range((planter.file, 0), (copy, 0), 0).is_err());
    assert!(!matches!(world.read(copy), Ok(bytes) if bytes.len() > 65_536));
}

#[test]
fn mappings_of_lost_data_have_a_fixed_encoding_and_no_place_in_the_journal() {
    let lost = ExtentMapping { start: 0x1122, birth: 5, source: Source::Lost };
    let bytes = [0, 0, 0, 0, 0, 0, 0x11, 0x22, 0, 0, 0, 5, 3];
    assert_eq!(lost.encode(), bytes);
    assert_eq!(ExtentMapping::decode(&bytes), Ok(lost));
    let key = key::map(FIRST.object(Ino(7)), 0x2000);
    assert_eq!(key::parse(&key).map(|(_, table, _)| table), Some(Table::Map));
    assert!(crate::transaction::apply::check_record(&key, &Some(bytes.as_slice().into())).is_err());
}
