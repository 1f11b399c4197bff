//! Random volumes with damaged indexes: what can be known after a repair is as it was, and the volume works.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::planted::{mend, try_mend};
use super::random_world::{Objects, change, grown, look, see};
use crate::api::attributes::{FileType, SetAttributes};
use crate::api::ids::Ino;
use crate::api::request::Error;
use crate::api::results::Stability;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::tests::world::{World, assert_clean, report};
use crate::offline::check::{CheckOptions, FaultKind, check};
use crate::offline::files::Files;
use crate::tables::index::{Index, LostRanges};

/// Bytes of a block of the index, and where the first lies in its file.
const BLOCK: usize = 4096;
const BLOCKS_AT: usize = 2 * BLOCK;

/// So little that reads need the file.
const MEMORY: u64 = 64 << 10;

/// What repairs met.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Volumes that were refused, as the record about the volume or the root of the index is lost.
    refused: usize,
    whole: usize,
    recreated: u64,
    found: u64,
    removed: u64,
    lost_bytes: u64,
}

/// Where damage meets a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// It is found by the repair.
    Closed,
    /// A server met it, replaced the index, and changed files since.
    Open,
    /// A server replaced the index, and did no more: ranges of each table may be lost.
    Replaced,
}

/// Flips bits in blocks of an index, so that records are lost with each.
pub(super) fn hurt(media: &Arc<MemoryMedia>, random: &mut Random, hits: usize) -> Vec<usize> {
    let options = CheckOptions { read_data: false, faults_max: 1000 };
    let losses = |media: &Arc<MemoryMedia>| {
        let said = check(&(Arc::clone(media) as Arc<dyn Media>), &options).ok()?;
        Some(said.faults.iter().filter(|fault| fault.kind == FaultKind::Index).count())
    };
    let (mut damaged, mut known) = (Vec::new(), 0);
    for _ in 0..60 {
        if damaged.len() == hits {
            break;
        }
        let block = random.index((media.index_file().bytes().len() - BLOCKS_AT) / BLOCK);
        let at = BLOCKS_AT + block * BLOCK + random.index(BLOCK);
        let copy = media.after_kill();
        copy.index_file().flip(at, 1);
        if let Some(lost) = losses(&copy).filter(|lost| *lost > known) {
            media.index_file().flip(at, 1);
            damaged.push(block);
            known = lost;
        }
    }
    damaged
}

/// Removes ranges of records from an index, and lists them as lost.
fn lose(media: &Arc<MemoryMedia>, random: &mut Random) {
    let index = Index::open(media.index(), 1 << 20).unwrap();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut take = |key: &[u8], _: &[u8]| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    };
    index.snapshot().unwrap().scan(&[], &[0xff], &mut take).unwrap();
    let update = index.begin().unwrap();
    let mut records = update.records().unwrap();
    let mut lost = LostRanges::default();
    for _ in 0..1 + random.index(12) {
        let from = random.index(keys.len());
        let to = (from + 1 + random.index(40)).min(keys.len() - 1);
        if (from..to).any(|at| *keys[at] == *key::meta()) {
            continue;
        }
        keys[from..to].iter().for_each(|key| records.delete(key).unwrap());
        lost.add(&keys[from], &keys[to]);
    }
    drop(records);
    update.put_lost(&lost).unwrap();
    update.commit().unwrap();
}

/// Damages an index, repairs the volume, and compares.
fn repaired(seed: u64, when: When, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let media = grown(&mut random);
    let mut sound = see(&media);
    let hits = 1 + random.index(6);
    let (media, damaged) = match when {
        When::Closed => {
            let damaged = hurt(&media, &mut random, hits);
            (media, damaged)
        }
        When::Replaced => {
            lose(&media, &mut random);
            (media, Vec::new())
        }
        When::Open => {
            let Some((media, damaged)) = served(media, &mut sound, &mut random, hits) else {
                tally.refused += 1;
                return;
            };
            (media, damaged)
        }
    };
    let context = format!("seed {seed}, {when:?}, blocks {damaged:?}");
    println!("{context}");
    let copy = media.after_kill();
    let done = match try_mend(&media) {
        Ok(done) => done,
        Err(refused) => {
            println!("{refused}");
            tally.refused += 1;
            return;
        }
    };
    let said = report(&media);
    let is_lost_data = |what: &str| what.contains("reads there fail until it is written again");
    for fault in &said.faults {
        assert!(
            fault.kind == FaultKind::Data && is_lost_data(&fault.what),
            "{context}: {fault:?}, {done:#?}"
        );
    }
    assert_eq!(said.repairable_faults, 0);
    assert!(!mend(&media).is_replaced, "{context}: a second repair does something");
    let after = see(&media);
    judge(&context, &sound, &after);
    tally.whole += judge_whole(&context, &copy, &after);
    tally.recreated += done.tally.objects_recreated;
    tally.found += done.tally.objects_found;
    tally.removed += done.tally.names_removed;
    tally.lost_bytes += done.tally.lost_bytes;
    use_it(&context, media, &after, &mut random);
}

/// Damages an index beneath a server, which meets the damage and changes files. Forgets what is uncertain then: the content
/// of files of which a change failed.
fn served(
    media: Arc<MemoryMedia>,
    sound: &mut Objects,
    random: &mut Random,
    hits: usize,
) -> Option<(Arc<MemoryMedia>, Vec<usize>)> {
    let mut world = World::open_with(media, MEMORY);
    let damaged = hurt(&world.media, random, hits);
    let files: Vec<Ino> = sound
        .iter()
        .filter(|(_, seen)| seen.file_type == Some(FileType::Regular))
        .map(|(ino, _)| *ino)
        .collect();
    for _ in 0..2 {
        for ino in &files {
            // It may be lost.
            drop(world.read(*ino));
        }
        world.checkpoint();
    }
    for ino in &files {
        let (offset, length) = (random.below(90_000), 1 + random.index(9_000));
        let bytes = random.bytes(length);
        let seen = sound.get_mut(ino).unwrap();
        let (from, end) = (usize::try_from(offset).unwrap(), usize::try_from(offset).unwrap() + length);
        match random.index(4) {
            0 if world.write(*ino, offset, &bytes, Stability::FileSync).is_ok() => {
                seen.content.resize(seen.content.len().max(end), 0);
                seen.content[from..end].copy_from_slice(&bytes);
            }
            1 if world.punch(*ino, offset, length as u64).is_ok() => {
                let size = seen.content.len();
                seen.content[from.min(size)..end.min(size)].fill(0);
            }
            2 => {
                let size = random.below(50_000);
                let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
                if world.set(*ino, &set).is_ok() {
                    seen.content.resize(usize::try_from(size).unwrap(), 0);
                }
            }
            _ => {}
        }
        // Attributes are compared with those of the damaged volume.
        seen.attributes = None;
    }
    world.write_back();
    world.checkpoint();
    if world.volume.refuses_changes().is_some() {
        return None;
    }
    Some((world.close(), damaged))
}

/// Everything that is in the repaired volume was there before: nothing is made up.
fn judge(context: &str, sound: &Objects, after: &Objects) {
    for (ino, seen) in after {
        let Some(before) = sound.get(ino) else {
            assert!(seen.paths.contains("/lost+found"), "{context}: {ino} is made up: {seen:?}");
            continue;
        };
        assert_eq!(seen.file_type, before.file_type, "{context}: {ino}");
        assert!(seen.target.is_none() || seen.target == before.target, "{context}: {ino}");
        let mut expected = before.content.clone();
        if expected.len() > seen.content.len() {
            // Where its known data ends, if its record was lost.
            expected.truncate(seen.content.len());
        }
        let mut content = seen.content.clone();
        for (from, to) in &seen.lost {
            let range = usize::try_from(*from).unwrap()..usize::try_from(*to).unwrap().min(expected.len());
            if range.start < range.end {
                content[range.clone()].copy_from_slice(&expected[range]);
            }
        }
        assert!(content == expected, "{context}: inode {ino} has another content, {:?}", seen.lost);
        for xattr in &seen.xattrs {
            assert!(before.xattrs.contains(xattr), "{context}: {ino}");
        }
    }
}

/// Everything that the damaged volume had whole is there, at its path. Returns how much that is.
fn judge_whole(context: &str, damaged: &Arc<MemoryMedia>, after: &Objects) -> usize {
    let before = see(damaged);
    for (ino, seen) in before.iter().filter(|(_, seen)| seen.is_whole()) {
        let now = after.get(ino).unwrap_or_else(|| panic!("{context}: inode {ino} is gone: {seen:?}"));
        assert!(now.paths.is_superset(&seen.paths), "{context}: {ino}: {:?} {:?}", seen.paths, now.paths);
        assert_eq!(now.attributes, seen.attributes, "{context}: {ino}");
        assert!(now.content == seen.content && now.lost.is_empty(), "{context}: {ino} {:?}", now.lost);
        assert_eq!((&now.target, &now.xattrs), (&seen.target, &seen.xattrs), "{context}: {ino}");
    }
    // What lost its name is in lost+found.
    let files = Files::open(Arc::clone(damaged) as Arc<dyn Media>).unwrap();
    let reached: BTreeSet<Ino> = before.keys().copied().collect();
    for object in files.nameless(&reached).unwrap() {
        let seen = look(&files, object.ino);
        if seen.attributes.is_some() && (seen.file_type != Some(FileType::Symlink) || seen.target.is_some()) {
            let now = after.get(&object.ino).unwrap_or_else(|| panic!("{context}: {object:?} is gone"));
            assert!(now.paths.iter().any(|path| path.starts_with("/lost+found/")), "{context}: {now:?}");
        }
    }
    before.values().filter(|seen| seen.is_whole()).count()
}

/// Reads, writes and removes everything.
fn use_it(context: &str, media: Arc<MemoryMedia>, objects: &Objects, random: &mut Random) {
    let mut world = World::open_with(media, MEMORY);
    let files = objects.iter().filter(|(_, seen)| seen.file_type == Some(FileType::Regular));
    for (ino, seen) in files.clone() {
        let mut at = 0;
        let size = seen.content.len() as u64;
        for (from, to) in seen.lost.iter().copied().chain([(size, size)]) {
            while at < from {
                let bytes =
                    world.read_from(*ino, at).unwrap_or_else(|e| panic!("{context}: {ino} {at}: {e}"));
                let start = usize::try_from(at).unwrap();
                assert!(seen.content[start..start + bytes.len()] == bytes, "{context}: {ino}");
                at += bytes.len() as u64;
            }
            if from < to {
                assert_eq!(world.read_from(*ino, from), Err(Error::Io), "{context}: {ino} {from}");
                assert_eq!(world.read_from(*ino, to - 1), Err(Error::Io), "{context}: {ino} {to}");
            }
            at = to;
        }
    }
    let inos: Vec<Ino> = files.clone().map(|(ino, _)| *ino).collect();
    for ino in &inos {
        change(&mut world, *ino, inos[random.index(inos.len())], random);
    }
    for (ino, _) in objects.iter().filter(|(_, seen)| seen.file_type == Some(FileType::Directory)) {
        let file = world.create(*ino, "new").unwrap_or_else(|e| panic!("{context}: {ino}: {e}"));
        world.write(file, 0, b"new", Stability::FileSync).unwrap();
    }
    world.write_back();
    world.checkpoint();
    // What was lost ends when it is written, or cut off.
    for (ino, seen) in files.filter(|(_, seen)| !seen.lost.is_empty()) {
        if random.below(2) == 0 {
            let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
            if world.set(*ino, &cut) == Err(Error::Busy) {
                // What was written meanwhile fills the journal or a memtable.
                world.checkpoint();
                world.set(*ino, &cut).unwrap();
            }
        } else {
            for (from, to) in &seen.lost {
                let bytes = vec![7; usize::try_from(to - from).unwrap()];
                world.write(*ino, *from, &bytes, Stability::Unstable).unwrap();
            }
            world.write_back();
        }
    }
    let media = world.close();
    assert_clean(&media);
    let objects = see(&media);
    let mut world = World::open_with(media, MEMORY);
    let mut places: Vec<(&String, bool)> = objects
        .values()
        .flat_map(|seen| seen.paths.iter().map(|path| (path, seen.file_type == Some(FileType::Directory))))
        .collect();
    places.sort_by_key(|(path, _)| std::cmp::Reverse(path.matches('/').count()));
    let of_path = |path: &str| {
        let found = objects.iter().find(|(_, seen)| seen.paths.contains(path));
        found.map_or(Ino::ROOT, |(ino, _)| *ino)
    };
    for (path, is_directory) in places {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = of_path(parent);
        let removed = if is_directory { world.rmdir(parent, name) } else { world.remove(parent, name) };
        assert_eq!(removed, Ok(()), "{context}: {path}");
    }
    let usage = world.volume.usage.of(FIRST);
    assert_eq!((usage.inodes, usage.bytes), (1, 0), "{context}");
    let media = World::open(world.close()).close();
    let said = assert_clean(&media);
    assert_eq!((said.summary.extents, media.segments()), (0, 0), "{context}: {said:?}");
}

#[test]
fn repaired_volumes_hold_what_could_be_read_and_work() {
    const FIXED: std::ops::Range<u64> = 1..40;
    /// Seeds that failed before.
    const FOUND: [u64; 1] = [1_795_832_536];
    const FRESH: u64 = 9;
    let seed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |age| age.as_secs());
    let mut tally = Tally::default();
    for seed in FIXED.chain(FOUND).chain(seed..seed + FRESH) {
        let when = [When::Closed, When::Open, When::Replaced][usize::try_from(seed % 3).unwrap()];
        repaired(seed, when, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.whole > 0 && tally.recreated > 0 && tally.found > 0 && tally.lost_bytes > 0, "{tally:?}");
    assert!(tally.refused < 24, "most volumes are repaired: {tally:?}");
}
