use std::convert::Infallible;
use std::sync::Arc;

use super::*;
use crate::api::attributes::FileType;
use crate::api::ids::Layer;
use crate::encoding::record::tests::record_of;
use crate::file::inodes::Presence;
use crate::media::memory::{MemoryFile, Random};
use crate::tables::index::Index;
use crate::transaction::change::clip_mapping;

const FILE: ObjectId = key::FIRST.object(crate::api::ids::Ino(7));
const BYTES: u64 = 240;

/// The write or extent that each byte of the file comes from.
type Model = Vec<Option<u8>>;

fn range_of(start: u64, end: u64) -> std::ops::Range<usize> {
    usize::try_from(start).unwrap()..usize::try_from(end).unwrap()
}

/// Puts a mapping into a memtable and clips older ones, as an operation does.
fn put(memtable: &Memtable, end: u64, mapping: &ExtentMapping) {
    let mut older = Vec::new();
    memtable_mappings(memtable, FILE, (mapping.start, end), &mut |_, end, old| {
        older.push((end, decode_verified(old)))
    });
    for (old_end, old) in older {
        memtable.apply([(key::map(FILE, old_end), None)], &[]);
        for (from, to) in [(old.start, mapping.start), (end, old_end)] {
            if from < to {
                let cut = clip_mapping(&old, from, to).encode().into();
                memtable.apply([(key::map(FILE, to), Some(cut))], &[]);
            }
        }
    }
    memtable.apply([(key::map(FILE, end), Some(mapping.encode().into()))], &[]);
}

/// A file with mappings in all layers, some of them truncated, and its expected contents.
struct File {
    view: ReadView,
    state: InodeState,
    windows: Vec<IndexMapping>,
    model: Model,
    _index: Index,
}

impl File {
    fn random(random: &mut Random) -> File {
        let index = Index::create(MemoryFile::holding(Vec::new()), 1 << 20).unwrap();
        let view = ReadView {
            active: Arc::new(Memtable::new(Layer(2))),
            frozen: Some(Arc::new(Memtable::new(Layer(1)))),
            index: Arc::new(index.snapshot().unwrap()),
            version: 1,
            recent_versions: std::collections::VecDeque::new(),
        };
        let mut state = InodeState::new(FILE);
        state.presence = Presence::Present(record_of(FileType::Regular));
        let model = vec![None; range_of(0, BYTES).len()];
        let mut file = File { view, state, windows: Vec::new(), model, _index: index };
        file.fill_index(random);
        for turn in 0..24_u8 {
            match random.below(5) {
                0 => file.truncate(random.below(BYTES)),
                1 => file.write_unstable(random, turn),
                _ => file.write(random, turn, u64::from(turn) * 4 / 24),
            }
        }
        file
    }

    fn fill_index(&mut self, random: &mut Random) {
        let mut start = random.below(20);
        while start < BYTES {
            let end = (start + 1 + random.below(30)).min(BYTES);
            let extent = ExtentId(200 + random.below(50));
            self.windows.push(IndexMapping { start, end, birth: 0, extent, offset: 0 });
            self.model[range_of(start, end)].fill(Some(u8::try_from(extent.0).unwrap()));
            self.state.record_mut().mapped_end = end;
            start = end + random.below(3) * random.below(15);
        }
    }

    fn truncate(&mut self, size: u64) {
        let record = self.state.record_mut();
        if size < record.mapped_end {
            record.truncate(size);
            record.mapped_end = size;
        }
        self.state.dirty.remove(size, u64::MAX);
        self.model[range_of(size, BYTES)].fill(None);
    }

    fn write_unstable(&mut self, random: &mut Random, tag: u8) {
        let (start, end) = some_range(random);
        self.state.dirty.insert(start, vec![tag; range_of(start, end).len()].into(), tag.into());
        self.model[range_of(start, end)].fill(Some(tag));
    }

    /// Writes to the frozen memtable if `age` is low, else to the active one.
    fn write(&mut self, random: &mut Random, tag: u8, age: u64) {
        let (start, end) = some_range(random);
        let bytes = vec![tag; range_of(start, end).len()];
        let record = self.state.record_mut();
        let birth = record.truncations;
        record.mapped_end = record.mapped_end.max(end);
        let mapping = ExtentMapping { start, birth, source: Source::Inline(bytes.into()) };
        let frozen = self.view.frozen.as_ref().unwrap();
        put(if age < 2 { frozen } else { &self.view.active }, end, &mapping);
        self.state.dirty.remove(start, end);
        self.model[range_of(start, end)].fill(Some(tag));
    }

    /// Returns what [`resolve`] finds in a range, using windows of `window` mappings.
    fn resolved(&mut self, range: (u64, u64), with_dirty: bool, window: usize) -> (Model, u64) {
        let mappings = self.windows.clone();
        let mut windows = |_: &mut InodeState, (offset, _): (u64, u64)| {
            let some: Vec<IndexMapping> =
                mappings.iter().filter(|mapping| mapping.end > offset).take(window).copied().collect();
            let to = if some.len() < window { u64::MAX } else { some.last().unwrap().end };
            Ok::<_, Infallible>(MapWindow { version: 1, from: offset, to, mappings: Arc::new(some) })
        };
        let Ok((runs, _)) =
            resolve_some(&self.view, &mut self.state, range, with_dirty, usize::MAX, &mut windows);
        let mut found = vec![None; self.model.len()];
        let mut last = range.0;
        for run in &runs {
            assert!(last <= run.start && run.start < run.end && run.end <= range.1, "{run:?}");
            last = run.end;
            for (index, slot) in found[range_of(run.start, run.end)].iter_mut().enumerate() {
                *slot = Some(match &run.location {
                    Location::Dirty(mapping) => mapping.data()[index],
                    Location::Inline(bytes, from) => bytes[from + index],
                    Location::Extent(id, _) => u8::try_from(id.0).unwrap(),
                    Location::Hole | Location::Lost => {
                        panic!("holes are not among the runs, and nothing is lost")
                    }
                });
            }
        }
        (found, covered(&runs))
    }
}

fn some_range(random: &mut Random) -> (u64, u64) {
    let start = random.below(BYTES);
    (start, start + 1 + random.below((BYTES - start).min(50)))
}

#[test]
fn each_byte_comes_from_the_newest_layer_that_maps_it() {
    for seed in 0..150 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let mut file = File::random(random);
        for _ in 0..6 {
            let range = some_range(random);
            let window = usize::try_from(1 + random.below(9)).unwrap();
            let (found, bytes) = file.resolved(range, true, window);
            let range = range_of(range.0, range.1);
            assert_eq!(found[range.clone()], file.model[range.clone()]);
            assert_eq!(bytes, file.model[range].iter().flatten().count() as u64);
        }
        // Unstable data makes no difference for a file that has none.
        file.state.dirty = crate::file::dirty::Dirty::default();
        assert_eq!(file.resolved((0, BYTES), true, 4), file.resolved((0, BYTES), false, 4));
    }
}
