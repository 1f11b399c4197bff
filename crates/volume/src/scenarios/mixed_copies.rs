//! Index, journal and segments of different moments, or of copies that went on separately: opening refuses the
//! mixture, or shows exactly what the journal says.

use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::world::{OPTIONS, World};
use crate::api::ids::{Ino, SegmentId, VolumeId};
use crate::api::request::Error;
use crate::api::time::Time;
use crate::background::Progress;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::open::CreateOptions;
use crate::pool::Pool;

const LATER: Time = Time::from_nanos(5_000_000_000_000);

type Files = BTreeMap<String, (Ino, Vec<u8>)>;

/// A crash-consistent copy, and what it holds.
struct Copy {
    log: Vec<u8>,
    index: Vec<u8>,
    segments: BTreeMap<SegmentId, Vec<u8>>,
    files: Files,
    /// Checkpoints made before it.
    checkpoints: u32,
}

/// A volume that changes at random, and its copies.
struct History {
    world: World,
    files: Files,
    checkpoints: u32,
}

impl History {
    fn new() -> History {
        History { world: World::new(), files: Files::new(), checkpoints: 0 }
    }

    /// Goes on from a copy.
    fn fork(copy: &Copy) -> History {
        let disk = MemoryMedia::holding(copy.log.clone(), copy.index.clone(), copy.segments.clone());
        let world = World::open(disk, LATER);
        History { world, files: copy.files.clone(), checkpoints: copy.checkpoints }
    }

    fn change(&mut self, random: &mut Random) {
        for _ in 0..4 {
            let name = random.below(6).to_string();
            match self.files.get_mut(&name) {
                Some((file, data)) if random.below(3) == 0 => {
                    let size = random.index(data.len() + 1);
                    self.world.truncate(*file, size as u64).unwrap();
                    data.truncate(size);
                }
                Some((file, _)) if random.below(6) == 0 => {
                    let _ = file;
                    self.world.remove(Ino::ROOT, &name).unwrap();
                    self.files.remove(&name);
                }
                Some((file, data)) => {
                    let length = 1 + random.index(20_000);
                    let (at, new) = (random.index(data.len() + 1), random.bytes(length));
                    self.world.write(*file, at as u64, &new).unwrap();
                    data.resize(data.len().max(at + new.len()), 0);
                    data[at..at + new.len()].copy_from_slice(&new);
                }
                None => drop(self.files.insert(name.clone(), (self.world.file(&name), Vec::new()))),
            }
        }
        self.world.write_back();
        if random.below(3) == 0 {
            assert_eq!(self.world.checkpoint(), Progress::Worked);
            self.world.clean();
            self.world.commit();
            // The checkpoint is stated by the next batch.
            self.world.chmod(Ino::ROOT, 0o755);
            self.checkpoints += 1;
        }
        self.world.commit();
    }

    fn copy(&self) -> Copy {
        let (log, index, segments) = self.world.disk.bytes();
        Copy { log, index, segments, files: self.files.clone(), checkpoints: self.checkpoints }
    }
}

/// Opens index, journal and segments of three copies. Returns the error, or nothing if what is shown is what the
/// journal's copy holds; a block of a segment may be missing if segments are of another copy.
fn open_mixed(index: &Copy, journal: &Copy, segments: &Copy) -> Option<String> {
    let disk = MemoryMedia::holding(journal.log.clone(), index.index.clone(), segments.segments.clone());
    let volume = match Volume::open(Arc::clone(&disk) as Arc<dyn Media>, &OPTIONS, LATER) {
        Ok(volume) => volume,
        Err(error) => {
            // Only the index library marks its header.
            let (log, _, blobs) = disk.bytes();
            assert!(log == journal.log && blobs == segments.segments, "{error}");
            return Some(error.to_string());
        }
    };
    drop(volume);
    let mut world = World::open(disk.after_kill(), LATER);
    for number in 0..6 {
        let name = number.to_string();
        match (journal.files.get(&name), world.lookup(Ino::ROOT, &name)) {
            (Some((file, data)), Ok(found)) => {
                assert_eq!(found, *file);
                match world.read(*file) {
                    Ok(read) => assert!(read == *data, "{name}"),
                    Err(error) => {
                        assert_eq!(error, Error::Io);
                        assert!(!std::ptr::eq(journal, segments), "{name} is missing in its own segments");
                    }
                }
            }
            (None, Err(Error::NoEntry)) => {}
            (expected, found) => panic!("{name}: {:?} {found:?}", expected.is_some()),
        }
    }
    None
}

#[test]
fn an_index_never_goes_with_a_journal_of_another_time() {
    let (mut right, mut old_index, mut old_journal) = (0, 0, 0);
    for seed in 0..3 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let mut history = History::new();
        let mut copies = Vec::new();
        for _ in 0..8 {
            history.change(random);
            copies.push(history.copy());
        }
        for (i, index) in copies.iter().enumerate() {
            for (j, journal) in copies.iter().enumerate() {
                let segments = &copies[random.index(copies.len())];
                let outcome = open_mixed(index, journal, segments);
                println!("index {i}, journal {j}: {outcome:?}");
                match (index.checkpoints.cmp(&journal.checkpoints), outcome) {
                    (std::cmp::Ordering::Equal, None) => right += 1,
                    (std::cmp::Ordering::Less, Some(error)) => {
                        assert!(error.contains("the index is an old copy"), "{error}");
                        old_index += 1;
                    }
                    (std::cmp::Ordering::Greater, Some(error)) => {
                        assert!(error.contains("the journal is an old copy"), "{error}");
                        old_journal += 1;
                    }
                    (order, outcome) => panic!("{order:?}: {outcome:?}"),
                }
            }
        }
    }
    println!("{right} right, {old_index} with an old index, {old_journal} with an old journal");
    assert!(right > 0 && old_index > 0 && old_journal > 0);
}

#[test]
fn files_of_copies_that_went_on_separately_are_refused_or_shown_right() {
    let mut refused = 0;
    for seed in 0..5 {
        println!("seed {seed}");
        let random = &mut Random::new(100 + seed);
        let mut history = History::new();
        for _ in 0..3 {
            history.change(random);
        }
        let common = history.copy();
        let mut fork = History::fork(&common);
        for _ in 0..3 {
            history.change(random);
            fork.change(random);
        }
        let (one, other) = (history.copy(), fork.copy());
        for (index, journal) in [(&one, &other), (&other, &one)] {
            let outcome = open_mixed(index, journal, &one);
            // Without a checkpoint since, the index is still that of both.
            assert!(outcome.is_some() || index.checkpoints == common.checkpoints, "{outcome:?}");
            refused += u32::from(outcome.is_some());
        }
        // All of either copy is right.
        assert_eq!(open_mixed(&one, &one, &one), None);
        assert_eq!(open_mixed(&other, &other, &other), None);
        // With the other's segments, blocks may be missing, but none is mistaken for another.
        assert_eq!(open_mixed(&one, &one, &other), None);
        assert_eq!(open_mixed(&one, &one, &common), None);
    }
    assert!(refused > 0);
}

#[test]
fn a_journal_of_another_volume_is_refused() {
    let copy = |journal_id: u8| {
        let disk = MemoryMedia::new();
        let mut create = CreateOptions::of_test(Time::EPOCH);
        create.journal_id = [journal_id; 16];
        create.volume.id = VolumeId(u64::from(journal_id));
        create.volume.handle_secret = [journal_id; 16];
        Pool::create(disk.as_ref(), &create).unwrap();
        let (log, index, segments) = disk.bytes();
        Copy { log, index, segments, files: Files::new(), checkpoints: 0 }
    };
    let (one, other) = (copy(1), copy(2));
    let error = open_mixed(&one, &other, &one).expect("it must be refused");
    assert!(error.contains("belongs to another volume"), "{error}");
}
