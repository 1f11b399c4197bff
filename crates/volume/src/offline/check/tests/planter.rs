//! A volume in which tests plant faults.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::world::{World, assert_clean, report};
use crate::api::ids::{ExtentId, Generation, Ino, Seq};
use crate::api::results::Stability;
use crate::api::time::Time;
use crate::encoding::entry::Entry;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Key, Table};
use crate::encoding::record::{
    ExtentMapping, ExtentRecord, InodeRecord, MapCountRecord, MetaRecord, NameRecord, References,
    SegmentRecord, Source, Span, sectors,
};
use crate::journal::{Batch, Ring};
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::offline::check::{FaultKind, Report};
use crate::tables::index::Index;

/// A closed volume with a directory `/d`, in it a file `/d/f` of 200,000 bytes and a symbolic link `/d/s`, and a directory
/// `/e`.
pub(in crate::offline) struct Planter {
    pub media: Arc<MemoryMedia>,
    pub directory: Ino,
    pub other: Ino,
    pub file: Ino,
    pub symlink: Ino,
}

impl Planter {
    pub fn new() -> Planter {
        let mut world = World::new();
        let directory = world.mkdir(Ino::ROOT, "d").unwrap();
        let other = world.mkdir(Ino::ROOT, "e").unwrap();
        let file = world.create(directory, "f").unwrap();
        let symlink = world.symlink(directory, "s", "target").unwrap();
        world.write(file, 0, &[5; 200_000], Stability::Unstable).unwrap();
        let media = world.close();
        assert_clean(&media);
        Planter { media, directory, other, file, symlink }
    }

    /// Puts a record into the index, or deletes it. Mappings are counted.
    pub fn put(&self, key: &[u8], value: Option<&[u8]>) {
        self.put_alone(key, value);
        if matches!(key::parse(key), Some((_, Table::Map, _))) {
            let mappings = self.rows(Table::Map).len() as u64;
            self.put_alone(&key::map_count(FIRST), Some(&MapCountRecord { mappings }.encode()));
        }
    }

    fn put_alone(&self, key: &[u8], value: Option<&[u8]>) {
        let index = Index::open(self.media.index(), 1 << 20).unwrap();
        let update = index.begin().unwrap();
        match value {
            Some(value) => update.records().unwrap().put(key, value).unwrap(),
            None => update.records().unwrap().delete(key).unwrap(),
        }
        update.commit().unwrap();
    }

    pub fn get(&self, key: &[u8]) -> Vec<u8> {
        let index = Index::open(self.media.after_kill().index(), 1 << 20).unwrap();
        index.snapshot().unwrap().get(key).unwrap().unwrap()
    }

    pub fn change_inode(&self, ino: Ino, change: impl FnOnce(&mut InodeRecord)) {
        let mut record = InodeRecord::decode(&self.get(&key::inode(FIRST.object(ino)))).unwrap();
        change(&mut record);
        self.put(&key::inode(FIRST.object(ino)), Some(&record.encode()));
    }

    pub fn name(&self, directory: Ino, name: &str) -> NameRecord {
        NameRecord::decode(&self.get(&key::name(FIRST.object(directory), name.as_bytes()))).unwrap()
    }

    /// Returns all rows of a table of the index.
    pub fn rows(&self, table: Table) -> Vec<(Key, Vec<u8>)> {
        let (from, to) = key::table_range(if key::is_of_pool(table) { key::POOL } else { key::FIRST }, table);
        let index = Index::open(self.media.after_kill().index(), 1 << 20).unwrap();
        let mut rows = Vec::new();
        let mut take = |key: &[u8], value: &[u8]| {
            rows.push((Key::from(key), value.to_vec()));
            ControlFlow::Continue(())
        };
        index.snapshot().unwrap().scan(&from, &to, &mut take).unwrap();
        rows
    }

    /// Returns the mappings of the file.
    pub fn pieces(&self) -> Vec<(u64, ExtentMapping)> {
        let end = |key: &[u8]| key::second_number(key::parse(key).unwrap().2).unwrap();
        self.rows(Table::Map)
            .iter()
            .map(|(key, value)| (end(key), ExtentMapping::decode(value).unwrap()))
            .collect()
    }

    pub fn put_mapping(&self, ino: Ino, end: u64, start: u64, source: Source) {
        let record = ExtentMapping { start, birth: 0, source };
        self.put(&key::map(FIRST.object(ino), end), Some(&record.encode()));
    }

    /// Returns the first extent of the file.
    pub fn extent(&self) -> (ExtentId, ExtentRecord) {
        let (key, value) = self.rows(Table::Extent).remove(0);
        (ExtentId(key::number(key::parse(&key).unwrap().2).unwrap()), ExtentRecord::decode(&value).unwrap())
    }

    pub fn change_extent(&self, change: impl FnOnce(&mut ExtentRecord)) {
        let (id, mut record) = self.extent();
        change(&mut record);
        self.put(&key::extent(id), Some(&record.encode()));
    }

    /// Counts the references of the first extent, and the live bytes of its segment, which has another one.
    pub fn recount(&self) {
        let (id, before) = self.extent();
        let mut references = References::NONE;
        for (end, piece) in self.pieces() {
            match piece.source {
                Source::Extent { id: other, offset } if other == id => {
                    references.add(Span::of(offset, end - piece.start));
                }
                _ => {}
            }
        }
        let references = references.clipped(sectors(before.length));
        let freed = before.live_bytes(&before.references) - before.live_bytes(&references);
        let mut segment = SegmentRecord::decode(&self.get(&key::segment(before.segment))).unwrap();
        segment.live -= u64::from(freed);
        self.put(&key::segment(before.segment), Some(&segment.encode()));
        self.change_extent(|extent| extent.references = references);
    }

    /// Appends an entry to the journal for the next opening to find.
    pub fn journal(&self, entry: &Entry) {
        let meta = MetaRecord::decode(&self.get(&key::meta())).unwrap();
        let (mut ring, found) = Ring::recover(self.media.log(), &meta.anchor, &mut |_, _, _| Ok(())).unwrap();
        let batch = Batch {
            generation: Generation(9),
            first_seq: Seq(found.last_seq.0 + 1),
            entries: &[entry.encode()],
            durable: found.last_seq,
            time_ceiling: Time::EPOCH,
        };
        ring.append(&batch).unwrap();
        ring.sync().unwrap();
    }

    /// Checks that exactly these faults are reported, each with the given words.
    #[track_caller]
    pub fn expect(&self, expected: &[(FaultKind, Option<&str>, &str)]) -> Report {
        let report = report(&self.media);
        let mut left: Vec<_> = report.faults.iter().collect();
        for (kind, path, words) in expected {
            let at = left.iter().position(|fault| {
                fault.kind == *kind && fault.path.as_deref() == *path && fault.what.contains(words)
            });
            let Some(at) = at else { panic!("no fault {kind:?} {path:?} {words:?} in {:#?}", report.faults) };
            left.remove(at);
        }
        assert!(left.is_empty(), "unexpected faults: {left:#?}");
        report
    }
}
