//! Opening and serving a volume whose index lost records: `docs/semantics.md` says what the loss of each kind means.

use crate::volume::Volume;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::world::{OPTIONS, World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::{Ino, SegmentId};
use crate::api::quotas::QuotaKind;
use crate::api::request::{Error, RequestKey};
use crate::api::state::{StateChange, StateKey};
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Key, Table};
use crate::encoding::record::{ExtentMapping, Source};
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::{CheckOptions, Report, check};
use crate::offline::files::volume_names;
use crate::tables::index::{Index, Snapshot};

/// When the damaged volumes are opened.
const LATER: Time = Time::from_nanos(2_000_000_000_000);

/// Tables whose records a volume is opened without.
const DISPENSABLE: [Table; 6] =
    [Table::Reap, Table::Usage, Table::State, Table::Orphan, Table::Segment, Table::Reply];

/// A closed volume with records in every table, and what its files hold.
struct Stored {
    disk: Arc<MemoryMedia>,
    files: BTreeMap<Ino, Vec<u8>>,
    orphan: Ino,
}

fn retried() -> RequestKey {
    RequestKey::new([[1; 16], [2; 16]].concat())
}

/// Makes the directory `retried` under its request key.
fn make_retried(world: &mut World) -> Result<(), Error> {
    world.key = Some(retried());
    let set = SetAttributes::default();
    world.run(|v, r| v.make_directory(r, Ino::ROOT, b"retried", &set, &mut nothing)).map(drop)
}

fn store(random: &mut Random) -> Stored {
    let mut world = World::new();
    let mut files = BTreeMap::new();
    for number in 0..8 {
        let file = world.file(&format!("file {number}"));
        let length = 1 + random.index(120_000);
        let data = random.bytes(length);
        world.write(file, 0, &data).unwrap();
        world.write_back();
        files.insert(file, data);
    }
    let orphan = world.file("orphan");
    world.write(orphan, 0, &[9; 30_000]).unwrap();
    world.volume.hold(orphan);
    world.remove(Ino::ROOT, "orphan").unwrap();
    let put = |key: &[u8]| StateChange {
        key: StateKey::new(key).expect("short"),
        value: Some(b"state".as_slice().into()),
    };
    world.volume.change_state(&[put(b"a"), put(b"b")]).unwrap();
    make_retried(&mut world).unwrap();
    world.write_back();
    world.checkpoint();
    // A journal follows the checkpoint.
    let late = world.file("late");
    world.write(late, 0, &[3; 9000]).unwrap();
    files.insert(late, vec![3; 9000]);
    world.commit();
    world.check();
    let disk = world.disk.after_kill();
    change_index(&disk, &key::reap(FIRST.object(Ino(1 << 40))), Some(b""));
    Stored { disk, files, orphan }
}

impl Stored {
    fn copy(&self) -> Arc<MemoryMedia> {
        self.disk.after_kill()
    }

    fn keys(&self, table: Table) -> Vec<Key> {
        let (from, to) = key::table_range(if key::is_of_pool(table) { key::POOL } else { key::FIRST }, table);
        let mut keys = Vec::new();
        snapshot(&self.copy())
            .scan(&from, &to, &mut |key, _| {
                keys.push(Key::from(key));
                ControlFlow::Continue(())
            })
            .unwrap();
        keys
    }

    /// Returns a copy on which records of a table are garbled.
    fn garbled(&self, keys: &[Key], garbage: &[u8]) -> Arc<MemoryMedia> {
        let disk = self.copy();
        keys.iter().for_each(|key| change_index(&disk, key, Some(garbage)));
        disk
    }

    fn assert_readable(&self, world: &mut World) {
        for (file, data) in &self.files {
            assert!(world.read(*file).unwrap() == *data, "{file}");
        }
    }
}

fn snapshot(disk: &Arc<MemoryMedia>) -> Snapshot {
    Index::open(disk.index(), 1 << 20).unwrap().snapshot().unwrap()
}

fn change_index(disk: &Arc<MemoryMedia>, key: &[u8], value: Option<&[u8]>) {
    let index = Index::open(disk.index(), 1 << 20).unwrap();
    let update = index.begin().unwrap();
    match value {
        Some(value) => update.records().unwrap().put(key, value).unwrap(),
        None => update.records().unwrap().delete(key).unwrap(),
    }
    update.commit().unwrap();
}

/// Damages a block of the index file.
fn damage_block(disk: &MemoryMedia, block: usize) {
    disk.index_file()
        .damage(|bytes| bytes[block * 4096 + 100..][..64].iter_mut().for_each(|byte| *byte ^= 0x5a));
}

fn report_of(disk: &Arc<MemoryMedia>) -> Report {
    check(&(disk.after_kill() as Arc<dyn Media>), &CheckOptions::default()).unwrap()
}

/// Opens, checkpoints, closes, and checks the result.
fn serve_and_check(disk: Arc<MemoryMedia>, stored: &Stored, with: impl FnOnce(&mut World)) -> Report {
    let mut world = World::open(disk, LATER);
    stored.assert_readable(&mut world);
    with(&mut world);
    world.commit();
    world.background();
    stored.assert_readable(&mut world);
    world.volume.close(world.now).unwrap();
    report_of(&world.disk)
}

#[test]
fn a_reply_that_does_not_decode_is_dropped_and_its_call_runs_again() {
    let stored = store(&mut Random::new(1));
    let disk = stored.garbled(&[key::reply(key::FIRST, retried().bytes())], b"short");
    let report = serve_and_check(disk.after_kill(), &stored, |world| {
        assert_eq!(make_retried(world), Err(Error::Exists), "the call ran again");
    });
    assert!(report.is_clean(), "{:#?}", report.faults);
    // The sound record answers.
    let world = World::open(stored.copy(), LATER);
    assert!(world.volume.lookup_request(&retried()).is_some());
    let world = World::open(disk, LATER);
    assert!(world.volume.lookup_request(&retried()).is_none());
}

#[test]
fn usage_is_counted_anew_if_a_counter_does_not_decode() {
    let stored = store(&mut Random::new(2));
    let known = World::open(stored.copy(), LATER);
    for garbage in [b"".as_slice(), &[0xff; 19], &[0; 21]] {
        for key in stored.keys(Table::Usage) {
            let report = serve_and_check(stored.garbled(&[key], garbage), &stored, |world| {
                for kind in [QuotaKind::Volume, QuotaKind::User, QuotaKind::Group] {
                    assert_eq!(world.usage(kind, 0), known.usage(kind, 0));
                }
            });
            assert!(report.is_clean(), "{:#?}", report.faults);
        }
    }
    // A record under a key that names no counter goes too.
    let disk = stored.copy();
    change_index(&disk, &key::usage(FIRST, 9, 0), Some(&[0; 20]));
    let report = serve_and_check(disk, &stored, |_| ());
    assert!(report.is_clean(), "{:#?}", report.faults);
}

#[test]
fn segments_without_a_sound_record_keep_their_data_and_get_a_new_one() {
    let stored = store(&mut Random::new(3));
    let segments = stored.keys(Table::Segment);
    assert!(!segments.is_empty());
    let report = serve_and_check(stored.garbled(&segments, b"?"), &stored, |_| ());
    assert!(report.is_clean(), "{:#?}", report.faults);
}

#[test]
fn no_segment_is_deleted_while_neither_its_record_nor_all_extents_can_be_read() {
    let stored = store(&mut Random::new(4));
    let extents = stored.keys(Table::Extent);
    let keys = [stored.keys(Table::Segment), vec![extents[0].clone()]].concat();
    let disk = stored.garbled(&keys, b"?");
    let world = World::open(disk, LATER);
    let present = world.disk.list_blobs().unwrap();
    let named = stored.keys(Table::Segment);
    let named = named.iter().map(|key| SegmentId(key::number(key::parse(key).unwrap().2).unwrap()));
    named.for_each(|id| assert!(present.contains(&id), "{id:?}"));
}

#[test]
fn an_orphan_record_that_makes_no_sense_removes_nothing() {
    let stored = store(&mut Random::new(5));
    let disk = stored.copy();
    let odd = key::orphan(FIRST.object(Ino(7))).iter().copied().take(9).collect::<Vec<u8>>();
    change_index(&disk, &odd, Some(b""));
    let living = *stored.files.keys().next().unwrap();
    change_index(&disk, &key::orphan(FIRST.object(living)), Some(b""));
    let report = serve_and_check(disk, &stored, |world| {
        world.volume.reap_orphans();
        while world.volume.step_orphans(LATER) == Progress::Worked {}
        assert_eq!(world.attributes(stored.orphan), Err(Error::Stale));
    });
    assert!(report.is_clean(), "{:#?}", report.faults);
}

#[test]
fn only_the_records_about_pool_and_volumes_are_needed_to_open() {
    for seed in 0..40 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let stored = store(random);
        let table = Table::ALL[random.index(Table::ALL.len())];
        let keys = stored.keys(table);
        if keys.is_empty() {
            continue;
        }
        let victim = keys[random.index(keys.len())].clone();
        let length = random.index(24);
        let disk = stored.garbled(std::slice::from_ref(&victim), &random.bytes(length));
        println!("{table:?} {victim:02x?} in {length} bytes");
        let opened = Volume::open(Arc::clone(&disk) as Arc<dyn Media>, &OPTIONS, LATER);
        assert_eq!(opened.is_err(), matches!(table, Table::Meta | Table::Volume), "{:?}", opened.err());
        if table == Table::Volume {
            let said = volume_names(disk.as_ref()).unwrap_err().to_string();
            assert_eq!(opened.err().map(|error| error.to_string()), Some(said));
            continue;
        }
        let Ok(volume) = opened else { continue };
        drop(volume);
        let mut world = World::open(disk.after_kill(), LATER);
        for (file, data) in &stored.files {
            match world.read(*file) {
                Ok(read) => assert!(read == *data, "{file}"),
                Err(error) => {
                    assert_eq!(error, Error::Io);
                    assert!(matches!(table, Table::Inode | Table::Map | Table::Extent), "{table:?}");
                }
            }
        }
        world.run(|v, r| v.status(r)).unwrap();
        world.commit();
        if DISPENSABLE.contains(&table) {
            world.background();
            world.volume.close(world.now).unwrap();
        }
    }
}

/// Whether a damaged index still has all records of a file.
fn has_all_of(damaged: &Snapshot, stored: &Stored, ino: Ino) -> bool {
    let (from, to) = (key::map(FIRST.object(ino), 0), key::map(FIRST.object(Ino(ino.0 + 1)), 0));
    let mut extents = Vec::new();
    snapshot(&stored.copy())
        .scan(&from, &to, &mut |_, value| {
            if let Source::Extent { id, .. } = ExtentMapping::decode(value).unwrap().source {
                extents.push(id);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    damaged.get(&key::inode(FIRST.object(ino))).is_ok()
        && damaged.scan(&from, &to, &mut |_, _| ControlFlow::Continue(())).is_ok()
        && extents.into_iter().all(|id| damaged.get(&key::extent(id)).is_ok())
}

#[test]
fn a_bad_block_of_the_index_costs_only_files_of_which_it_holds_records() {
    let (mut opened, mut refused, mut lost) = (0, 0, 0);
    for seed in 0..60 {
        let random = &mut Random::new(seed);
        let stored = store(random);
        let disk = stored.copy();
        let bytes = disk.index_file().bytes();
        let is_used = |block: &usize| bytes[block * 4096..][..4096].iter().any(|byte| *byte != 0);
        let used: Vec<usize> = (1..bytes.len() / 4096).filter(is_used).collect();
        let block = used[random.index(used.len())];
        println!("seed {seed}, block {block}");
        damage_block(&disk, block);
        let damaged = Index::open(disk.after_kill().index(), 1 << 20).and_then(|index| index.snapshot());
        let damaged = damaged.ok().filter(|damaged| damaged.get(&key::meta()).is_ok());
        let volume = Volume::open(disk.after_kill() as Arc<dyn Media>, &OPTIONS, LATER);
        assert_eq!(volume.is_ok(), damaged.is_some(), "{:?}", volume.err());
        let Some(damaged) = damaged else {
            refused += 1;
            continue;
        };
        opened += 1;
        drop(volume);
        let mut world = World::open(disk, LATER);
        for (file, data) in &stored.files {
            match world.read(*file) {
                Ok(read) => assert!(read == *data, "{file}"),
                Err(error) => {
                    lost += 1;
                    assert_eq!(error, Error::Io);
                    assert!(!has_all_of(&damaged, &stored, *file), "{file}");
                }
            }
        }
    }
    println!("{opened} opened, in which {lost} files were lost; {refused} refused");
    assert!(opened > refused && refused > 0 && lost > 0, "{opened} {refused} {lost}");
}
