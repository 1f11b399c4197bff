//! Dumps of a small volume.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Line, Value, journal, records, segment};
use crate::api::ids::{Ino, SegmentId};
use crate::api::results::Stability;
use crate::encoding::key::Table;
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::offline::check::tests::world::World;
use crate::open::OpenError;

fn lines(
    dump: impl FnOnce(&Arc<dyn Media>, super::Visit<'_>) -> Result<(), OpenError>,
    media: &Arc<MemoryMedia>,
) -> Vec<Line> {
    let before = media.bytes();
    let mut lines = Vec::new();
    let dumped = dump(&(Arc::clone(media) as Arc<dyn Media>), &mut |line| {
        lines.push(line);
        ControlFlow::Continue(())
    });
    dumped.unwrap();
    assert!(before == media.bytes(), "a dump changes nothing");
    lines
}

fn number(line: &Line, name: &str) -> Option<u64> {
    line.fields.iter().find_map(|(field, value)| match value {
        Value::Number(number) if *field == name => Some(*number),
        _ => None,
    })
}

fn world() -> World {
    let mut world = World::new();
    let file = world.create(Ino::ROOT, "file").unwrap();
    world.write(file, 0, &[1; 5000], Stability::FileSync).unwrap();
    world.write(file, 100_000, &[1; 100_000], Stability::Unstable).unwrap();
    world.write_back();
    world
}

#[test]
fn the_journal_is_dumped_entry_by_entry() {
    let media = world().kill();
    let lines = lines(|media, visit| journal(media.as_ref(), visit), &media);
    let text: Vec<String> = lines.iter().map(Line::to_string).collect();
    assert!(text[0].starts_with("anchor seq=0 position=4096 journal=0909"), "{text:#?}");
    assert!(
        text.iter().any(
            |line| line.starts_with("put table=Name volume=1 directory=1 name=\"file\" value=NameRecord")
        )
    );
    assert!(
        text.iter().any(|line| {
            line.contains("table=Map volume=1 inode=2 end=4096 value=start 0 birth 0: inline")
        })
    );
    assert!(text.iter().any(|line| line == "usage of=Volume id=0 bytes=5000 inodes=0"), "{text:#?}");
    let entries = lines.iter().filter(|line| line.word == "entry").count();
    assert_eq!(
        lines.last().map(|end| (end.word, number(end, "entries"))),
        Some(("end", Some(entries as u64)))
    );
    let batches: u64 =
        lines.iter().filter(|line| line.word == "batch").filter_map(|line| number(line, "entries")).sum();
    assert_eq!(batches, entries as u64);
}

#[test]
fn a_visitor_can_stop_a_dump_at_any_line() {
    let media = world().kill();
    for max in 1..30 {
        let mut taken = 0;
        let mut visit = |_| {
            taken += 1;
            if taken == max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        journal(media.as_ref(), &mut visit).unwrap();
        assert!(taken <= max);
    }
}

#[test]
fn records_are_dumped_by_table_without_the_secret() {
    let media = world().close();
    let all = lines(|media, visit| records(media.as_ref(), None, visit), &media);
    let mut by_table = Vec::new();
    for table in Table::ALL {
        by_table.extend(lines(|media, visit| records(media.as_ref(), Some(table), visit), &media));
    }
    assert_eq!(all.len(), by_table.len());
    assert!(all.iter().all(|line| by_table.contains(line)));
    let secret = "[7, 7, 7";
    assert!(all.iter().all(|line| !line.to_string().contains(secret)));
    let about = by_table.last().unwrap().to_string();
    assert!(about.contains("table=Volume") && about.contains("main"), "{about}");
}

#[test]
fn a_segment_is_dumped_extent_by_extent() {
    let media = world().close();
    let known = lines(|media, visit| records(media.as_ref(), Some(Table::Segment), visit), &media);
    let mut used = 0;
    for line in &known {
        let id = SegmentId(number(line, "segment").unwrap());
        let extents = lines(|media, visit| segment(media, id, visit), &media);
        assert_eq!(extents[0].word, "segment");
        for extent in &extents[1..] {
            let length = number(extent, "length").unwrap();
            let end = format!("used=true references=1 live={length} verifies=true");
            assert!(extent.to_string().ends_with(&end), "{extent}");
            used += length;
        }
    }
    assert_eq!(used, 105_000);
    let error =
        segment(&(media as Arc<dyn Media>), SegmentId(999), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.to_string(), "neither index nor journal knows segment 00000000000003e7");
}
