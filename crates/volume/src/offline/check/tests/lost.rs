//! Blocks of the index that cannot be read: what a check says is lost, and what it can do without.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::world::{OPTIONS, World, report};
use crate::api::attributes::FileType;
use crate::api::ids::Ino;
use crate::api::results::Stability;
use crate::api::time::Time;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::{CheckOptions, FaultKind, check};
use crate::offline::files::{self, Files, Part};
use crate::pool::Pool;

/// Bytes of a block of the index, and where the first lies in its file.
const BLOCK: usize = 4096;
const BLOCKS_AT: usize = 2 * BLOCK;

/// What a volume holds: content by path, `None` for directories.
pub(in crate::offline) type Model = BTreeMap<String, Option<Vec<u8>>>;

/// Returns a closed volume of some directories and many files.
pub(in crate::offline) fn filled(random: &mut Random) -> (Arc<MemoryMedia>, Model) {
    let mut world = World::new();
    let mut model = Model::new();
    let mut directories = vec![(Ino::ROOT, String::new())];
    for number in 0..120 {
        let (directory, path) = directories[random.index(directories.len())].clone();
        let name = format!("{number} and so on");
        let path = format!("{path}/{name}");
        if number % 10 == 0 {
            directories.push((world.mkdir(directory, &name).unwrap(), path.clone()));
            model.insert(path, None);
            continue;
        }
        let ino = world.create(directory, &name).unwrap();
        let mut content = Vec::new();
        for _ in 0..random.below(4) {
            let offset = usize::try_from(random.below(60_000)).unwrap();
            let length = usize::try_from(random.below(20_000)).unwrap();
            let bytes = random.bytes(length);
            world.write(ino, offset as u64, &bytes, Stability::Unstable).unwrap();
            if !bytes.is_empty() {
                content.resize(content.len().max(offset + bytes.len()), 0);
                content[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }
        model.insert(path, Some(content));
        world.write_back();
        if number % 7 == 0 {
            world.checkpoint();
        }
    }
    (world.close(), model)
}

/// What can be read of a volume: content by path, and whether all of it.
pub(in crate::offline) type Read = BTreeMap<String, (Option<Vec<u8>>, bool)>;

/// Reads all files; those without a name as `/lost+found/NUMBER`.
pub(in crate::offline) fn read_all(media: &Arc<MemoryMedia>) -> Read {
    let files = Files::open(Arc::clone(media) as Arc<dyn Media>).unwrap();
    let mut read = Read::new();
    let mut reached = std::collections::BTreeSet::from([Ino::ROOT]);
    let mut waiting = vec![(Ino::ROOT, String::new())];
    loop {
        while let Some((directory, path)) = waiting.pop() {
            for entry in files.list(directory).unwrap().entries {
                reached.insert(entry.ino);
                let path = format!("{path}/{}", String::from_utf8(entry.name).unwrap());
                if entry.file_type == Some(FileType::Directory) {
                    waiting.push((entry.ino, path.clone()));
                }
                read.insert(path, content(&files, entry.ino));
            }
        }
        let nameless = files.nameless(&reached).unwrap();
        if nameless.is_empty() {
            return read;
        }
        for object in nameless {
            reached.insert(object.ino);
            let path = format!("/lost+found/{}", object.ino);
            if files.file_type(object.ino).unwrap() == Some(FileType::Directory) {
                waiting.push((object.ino, path.clone()));
            }
            read.insert(path, content(&files, object.ino));
        }
    }
}

fn content(files: &Files, ino: Ino) -> (Option<Vec<u8>>, bool) {
    let attributes = files.attributes(ino).unwrap();
    if files.file_type(ino).unwrap() != Some(FileType::Regular) {
        return (None, attributes.is_some());
    }
    let mut bytes = vec![0; attributes.map_or(0, |attributes| usize::try_from(attributes.size).unwrap())];
    let mut whole = attributes.is_some();
    files
        .read(ino, &mut |part| {
            match part {
                Part::Data(offset, data) => {
                    let from = usize::try_from(offset).unwrap();
                    bytes.resize(bytes.len().max(from + data.len()), 0);
                    bytes[from..from + data.len()].copy_from_slice(data);
                }
                Part::Lost(..) => whole = false,
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    (Some(bytes), whole)
}

/// Flips a bit in some blocks of the index.
pub(in crate::offline) fn damage(media: &MemoryMedia, random: &mut Random, blocks: u64) -> Vec<usize> {
    let count = (media.index_file().bytes().len() - BLOCKS_AT) / BLOCK;
    (0..blocks)
        .map(|_| {
            let block = random.index(count);
            media.index_file().flip(BLOCKS_AT + block * BLOCK + random.index(BLOCK), 1);
            block
        })
        .collect()
}

/// Damages an index at random; whatever is not intact must be reported, and the rest be readable as it was.
fn losses_are_reported(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let (media, model) = filled(&mut random);
    let whole: Model = read_all(&media).into_iter().map(|(path, (content, _))| (path, content)).collect();
    assert!(whole == model, "seed {seed}: an undamaged volume is read as it is");
    let blocks = 2 + random.below(12);
    let damaged = damage(&media, &mut random, blocks);
    let said = match check(&(Arc::clone(&media) as Arc<dyn Media>), &CheckOptions::default()) {
        Ok(said) => said,
        // The root of the index is lost.
        Err(error) => {
            assert!(error.to_string().contains("backup"), "seed {seed}: {error}");
            return true;
        }
    };
    let read = read_all(&media);
    let is_lost = model.iter().any(|(path, content)| read.get(path) != Some(&(content.clone(), true)));
    assert!(
        !is_lost || !said.is_clean(),
        "seed {seed}: blocks {damaged:?} are damaged, but the check is clean"
    );
    for (path, (content, whole)) in &read {
        // A file that is said to be whole is as it was. One without a name is one of those that lack theirs.
        let expected = model.get(path);
        if *whole && expected.is_some() {
            assert!(Some(content) == expected, "seed {seed}: {path} is not what it was");
        } else if *whole {
            assert!(model.values().any(|known| known == content), "seed {seed}: {path} is made up");
        }
    }
    for fault in &said.faults {
        // Nothing contradicts itself: all that is missing is missing because of the blocks.
        let kinds = [FaultKind::Index, FaultKind::Lost, FaultKind::Name, FaultKind::Journal];
        assert!(kinds.contains(&fault.kind), "seed {seed}: {fault:?}");
    }
    is_lost
}

#[test]
fn losses_of_random_blocks_are_reported_and_the_rest_is_read() {
    let losses = (1..=25).filter(|seed| losses_are_reported(*seed)).count();
    assert!(losses >= 5, "{losses}");
}

#[test]
fn each_kind_of_loss_is_reported_by_path() {
    let mut world = World::new();
    let directory = world.mkdir(Ino::ROOT, "directory").unwrap();
    for number in 0..200 {
        let file = world.create(directory, &format!("a file with a longer name {number}")).unwrap();
        world.write(file, 0, &[7; 5_000], Stability::Unstable).unwrap();
        world.write_back();
        if number % 20 == 0 {
            world.checkpoint();
        }
    }
    let media = world.close();
    let blocks = (media.index_file().bytes().len() - BLOCKS_AT) / BLOCK;
    let flip = |block: usize| media.index_file().flip(BLOCKS_AT + block * BLOCK + 100, 1);
    let mut seen: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for block in 0..blocks {
        flip(block);
        for words in said(&media) {
            seen.entry(words).or_default().push(block);
        }
        flip(block);
    }
    // Each name is stored twice, so a leaf of the tree takes no name away.
    let [lists, finds] = [LISTS, FINDS].map(|words| seen.get(words).unwrap().clone());
    for (one, other) in lists.iter().flat_map(|one| finds.iter().map(move |other| (*one, *other))) {
        flip(one);
        flip(other);
        for words in said(&media) {
            seen.entry(words).or_default().push(one);
        }
        flip(one);
        flip(other);
    }
    assert!(report(&media).is_clean());
    assert!(WORDS.iter().all(|words| seen.contains_key(words)), "{seen:?}");
}

const LOST_NAMES: &str = "this directory has lost ";
const NAMELESS: &str = "the name of inode";
const LISTS: &str = "READDIR does not list this name, as one of its two records is lost";
const FINDS: &str = "LOOKUP does not find this name, as one of its two records is lost";
const WORDS: [&str; 7] = [
    LOST_NAMES,
    NAMELESS,
    LISTS,
    FINDS,
    "with its owner, mode, times and size",
    "bytes of data cannot be read: the records of their places are lost",
    "the records of its extents are lost",
];

/// Returns which of [`WORDS`] a check says, each about something with a path.
fn said(media: &Arc<MemoryMedia>) -> Vec<&'static str> {
    let Ok(report) = check(&(Arc::clone(media) as Arc<dyn Media>), &CheckOptions::default()) else {
        return Vec::new();
    };
    WORDS
        .into_iter()
        .filter(|words| {
            let mut faults = report.faults.iter().filter(|fault| fault.what.contains(words)).peekable();
            faults.peek().is_some() && faults.all(|fault| *words == NAMELESS || fault.path.is_some())
        })
        .collect()
}

#[test]
fn an_index_without_header_needs_a_backup() {
    let media = World::new().close();
    media.index_file().flip(100, 1);
    assert!(report(&media).is_clean(), "the copy of the header is used");
    media.index_file().flip(6144 + 100, 1);
    let media = media as Arc<dyn Media>;
    let said = [
        check(&media, &CheckOptions::default()).unwrap_err(),
        files::volume_names(media.as_ref()).unwrap_err(),
        Pool::open(Arc::clone(&media), &OPTIONS, Time::EPOCH).err().unwrap(),
    ];
    for error in said.map(|error| error.to_string()) {
        assert!(error.starts_with("nothing in the index can be read: "), "{error}");
        assert!(error.ends_with("; restore the pool from a backup (docs/damage.md)"), "{error}");
    }
}
